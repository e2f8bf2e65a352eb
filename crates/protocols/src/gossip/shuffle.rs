//! Who buffers what: the hash function of 004 7.2–7.3, cheap and fair.
//!
//! A member buffers a message if and only if H(⟨message, own address⟩) · n < C, with n members in
//! its view: about C of them do, others for every message, and whoever knows the view knows whom to
//! ask. H runs each byte through a table of 256 random words (004 Fig. 7.2). The table follows from
//! a seed that the group shares, so that all compute one H; the encoding of ⟨message, address⟩ is
//! fixed here for the same reason. Not for adversaries: who knows the seed can choose identities
//! that buffer everything.

use groupcast_core::{MemberId, MessageId, Rng};

/// The shuffle table of a group.
#[derive(Clone, Debug)]
pub struct Shuffle {
    table: [u32; 256],
}

impl Shuffle {
    /// The table that follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("shuffle");
        let mut table = [0; 256];
        for word in &mut table {
            *word = (rng.next_u64() >> 32) as u32;
        }
        Self { table }
    }

    /// H of `bytes`, as a share of 2^32.
    pub fn hash(&self, bytes: &[u8]) -> u32 {
        self.extend(0, bytes)
    }

    /// H(⟨`message`, `member`⟩), as a share of 2^32.
    ///
    /// Encoded as five big-endian 64-bit words: the sender's node and incarnation, the message's
    /// number, then the member's node and incarnation. Address last: the message's part is computed
    /// once for a whole view.
    pub fn place(&self, message: MessageId, member: MemberId) -> u32 {
        self.extend(self.message(message), &encode(member))
    }

    /// Every member of `view` with its H for `message`.
    pub fn places<'a>(
        &'a self,
        message: MessageId,
        view: &'a [MemberId],
    ) -> impl Iterator<Item = (MemberId, u32)> + 'a {
        let begun = self.message(message);
        view.iter()
            .map(move |member| (*member, self.extend(begun, &encode(*member))))
    }

    fn message(&self, message: MessageId) -> u32 {
        let sender = self.extend(0, &encode(message.sender));
        self.extend(sender, &message.number.to_be_bytes())
    }

    /// 004 Fig. 7.2: hash = hash XOR shuffle[b XOR least significant byte of hash], for each byte
    /// b.
    fn extend(&self, hash: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(hash, |hash, byte| {
            hash ^ self.table[usize::from(byte ^ hash as u8)]
        })
    }
}

/// H · n < C, in whole numbers: H is `place` / 2^32.
pub fn is_bufferer(place: u32, members: u32, wanted: u32) -> bool {
    u64::from(place) * u64::from(members) < u64::from(wanted) << 32
}

fn encode(member: MemberId) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&member.node.0.to_be_bytes());
    bytes[8..].copy_from_slice(&member.incarnation.0.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(number: u64) -> MemberId {
        MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
    }

    fn message(number: u64) -> MessageId {
        MessageId {
            sender: member(77),
            number,
        }
    }

    #[test]
    fn the_function_is_the_figures() {
        let shuffle = Shuffle::new(3);
        let first = shuffle.table[usize::from(b'a')];
        let second = first ^ shuffle.table[usize::from(b'b' ^ first.to_be_bytes()[3])];
        assert_eq!(shuffle.hash(b""), 0);
        assert_eq!(shuffle.hash(b"a"), first);
        assert_eq!(shuffle.hash(b"ab"), second);
    }

    #[test]
    fn the_place_of_a_seed_is_pinned() {
        // Members of a group compute it apart: it must not change between versions.
        assert_eq!(Shuffle::new(1).place(message(1), member(2)), 740_785_804);
    }

    #[test]
    fn a_member_finds_itself_where_the_others_look_for_it() {
        let shuffle = Shuffle::new(5);
        let view: Vec<MemberId> = (0..40).map(member).collect();
        let mut total = 0;
        for number in 1..=500 {
            let places: Vec<_> = shuffle.places(message(number), &view).collect();
            for (own, place) in &places {
                assert_eq!(shuffle.place(message(number), *own), *place);
            }
            let found = places
                .iter()
                .filter(|(_, place)| is_bufferer(*place, 40, 6));
            total += found.count();
        }
        assert!((2700..3300).contains(&total), "{total} for 500 × 6");
    }

    #[test]
    fn everybody_buffers_if_more_are_wanted_than_there_are() {
        assert!(is_bufferer(u32::MAX, 5, 5));
        assert!(is_bufferer(u32::MAX, 5, 9));
        assert!(!is_bufferer(0, 5, 0));
    }
}
