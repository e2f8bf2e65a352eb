//! Sealing: authenticated encryption at the node's edge, and the replay rules.
//!
//! One AEAD record per datagram (per segment under offload), in place. The prefix is authenticated,
//! its last eight bytes are the nonce, the key belongs to one sender in one incarnation. A datagram
//! to one receiver authenticates that receiver too: a recording of it, sent to another whose replay
//! window knows nothing of it, does not open. The network driver supplies AES-GCM; the simulator a
//! fake of the same size and rules, so that swarms cover forgery, replay and restart.

use alloc::boxed::Box;
use alloc::vec;

use crate::id::Incarnation;
use crate::wire::{ClusterTag, PREFIX_LEN};

/// Seals and opens the bodies of datagrams.
pub trait Sealer {
    /// Bytes that a seal adds after the body.
    fn overhead(&self) -> usize;

    /// The tag of the cluster whose key this holds.
    fn cluster(&self) -> ClusterTag;

    /// Seals `body` in place under the local sender's key and fills `tag`
    /// ([`overhead`](Self::overhead) bytes). The counter in a nonce
    /// ([`Prefix::nonce`](crate::wire::Prefix::nonce)) is never used twice, addressed or not.
    fn seal(&mut self, nonce: u64, associated: &AssociatedData, body: &mut [u8], tag: &mut [u8]);

    /// Opens `sealed` (body and tag) of `sender` in place; the body is then all but the last
    /// [`overhead`](Self::overhead) bytes. On failure the bytes are unspecified.
    fn open(
        &mut self,
        sender: Incarnation,
        nonce: u64,
        associated: &AssociatedData,
        sealed: &mut [u8],
    ) -> Result<(), OpenError>;

    /// Whether a datagram of `sender` can be opened without deriving a key first.
    fn has_key_of(&self, sender: Incarnation) -> bool;

    /// The sender was admitted: its key is worth keeping.
    fn keep(&mut self, sender: Incarnation);

    /// The sender is gone: its key can be dropped.
    fn forget(&mut self, sender: Incarnation);

    /// Whether datagrams with the tag `cluster` can be opened: those under the key in use, and
    /// while it is changed those under the other.
    fn takes(&self, cluster: ClusterTag) -> bool {
        cluster == self.cluster()
    }

    /// Whether the tag is of a key that was in use before, and is no more.
    fn was_used(&self, _cluster: ClusterTag) -> bool {
        false
    }

    /// Opens datagrams under the key `secret` too. Another one that was learned, and is not in use,
    /// is dropped. A sealer without keys does nothing.
    ///
    /// # Errors
    /// The two cannot be told apart.
    fn learn(&mut self, _secret: &[u8; 32]) -> Result<(), SameTag> {
        Ok(())
    }

    /// Seals under the key that was learned; datagrams under the one before are opened still.
    fn switch(&mut self) {}

    /// Opens nothing any more under the key that is not in use; `was_used` says whether it was
    /// before.
    fn drop_other(&mut self, _was_used: bool) {}
}

/// Two keys have the same tag, by which datagrams say under which of them they are sealed: one of
/// 2^32 pairs has, and every key with itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key has the same tag as the one in use: make another")]
pub struct SameTag;

/// The datagram was not sealed by the sender that it names, with this cluster's key, for this
/// receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not sealed for this member with this cluster's key by the sender that it names")]
pub struct OpenError;

/// What a seal authenticates besides the body: the prefix, and of an addressed datagram the
/// addressee.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0..24 | prefix | as transmitted |
/// | 24..32 | addressee | its incarnation; only if the prefix says *addressed*, and never transmitted |
///
/// Each side supplies the addressee: the sender the one it means, the receiver itself.
#[derive(Clone, Copy, Debug)]
pub struct AssociatedData {
    bytes: [u8; PREFIX_LEN + 8],
    len: usize,
}

impl AssociatedData {
    /// Of a datagram with `prefix` to `addressee`, or to the group. The two must agree with the
    /// prefix: its *addressed* is whether there is an addressee.
    pub fn new(prefix: &[u8; PREFIX_LEN], addressee: Option<Incarnation>) -> Self {
        let mut bytes = [0; PREFIX_LEN + 8];
        bytes[..PREFIX_LEN].copy_from_slice(prefix);
        let len = match addressee {
            Some(addressee) => {
                bytes[PREFIX_LEN..].copy_from_slice(&addressee.0.to_be_bytes());
                bytes.len()
            }
            None => PREFIX_LEN,
        };
        Self { bytes, len }
    }

    /// The tag of the cluster in the prefix.
    pub fn cluster(&self) -> ClusterTag {
        let [_, _, _, _, a, b, c, d, ..] = self.bytes;
        ClusterTag(u32::from_be_bytes([a, b, c, d]))
    }

    /// The bytes that are authenticated.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Which counters of one sender have been seen: each datagram is taken once.
///
/// The window is wide because the token overtakes data that waits in the other socket's buffer (002
/// III-C), and a full one must not fall out of it: 8 MiB by default, which the kernel doubles, and
/// in which a small datagram counts some 768 bytes, hold 22,000.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// The highest counter taken, plus one; 0 if none.
    next: u64,
    /// One bit a counter, for the last [`ReplayWindow::WIDTH`] of them, indexed by counter modulo
    /// the width.
    seen: Box<[u64]>,
}

impl ReplayWindow {
    /// How far below the highest counter a datagram may still arrive.
    pub const WIDTH: u64 = 32_768;

    /// A window that takes counters from `first` on.
    pub fn starting_at(first: u64) -> Self {
        let mut window = Self {
            next: 0,
            seen: vec![0; (Self::WIDTH / 64) as usize].into(),
        };
        if first > 0 {
            window.seen.fill(u64::MAX);
            window.next = first;
        }
        window
    }

    /// Takes `counter`: true if it is new, false if it was taken before or is too old to tell.
    pub fn take(&mut self, counter: u64) -> bool {
        if counter == u64::MAX {
            return false;
        }
        if counter >= self.next {
            // Every counter between the old and the new highest becomes "not seen".
            let fresh = (counter - self.next).min(Self::WIDTH - 1);
            for skipped in counter - fresh..counter {
                self.clear(skipped);
            }
            self.set(counter);
            self.next = counter + 1;
            return true;
        }
        if self.next - counter > Self::WIDTH || self.is_set(counter) {
            return false;
        }
        self.set(counter);
        true
    }

    fn slot(counter: u64) -> (usize, u64) {
        let bit = counter % Self::WIDTH;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn is_set(&self, counter: u64) -> bool {
        let (word, bit) = Self::slot(counter);
        self.seen[word] & bit != 0
    }

    fn set(&mut self, counter: u64) {
        let (word, bit) = Self::slot(counter);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, counter: u64) {
        let (word, bit) = Self::slot(counter);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the naive model: a set of all counters taken, and the highest.
        #[test]
        fn each_counter_is_taken_once(jumps in prop::collection::vec((0u64..40_000, any::<bool>()), 1..200)) {
            let mut window = ReplayWindow::starting_at(0);
            let mut taken = BTreeSet::new();
            let mut highest = 0u64;
            for (jump, back) in jumps {
                let counter = if back { highest.saturating_sub(jump) } else { highest + jump };
                let in_window = counter + ReplayWindow::WIDTH > highest || taken.is_empty();
                let expected = in_window && !taken.contains(&counter);
                prop_assert_eq!(window.take(counter), expected, "counter {} highest {}", counter, highest);
                if expected {
                    taken.insert(counter);
                    highest = highest.max(counter);
                }
            }
        }
    }

    #[test]
    fn the_addressee_follows_the_prefix() {
        let prefix = [7; PREFIX_LEN];
        let group = AssociatedData::new(&prefix, None);
        assert_eq!(group.as_bytes(), prefix);
        let member = AssociatedData::new(&prefix, Some(Incarnation(0x0102_0304_0506_0708)));
        assert_eq!(member.as_bytes()[..PREFIX_LEN], prefix);
        assert_eq!(member.as_bytes()[PREFIX_LEN..], [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_window_that_starts_later_refuses_what_came_before() {
        let mut window = ReplayWindow::starting_at(100);
        assert!(!window.take(99));
        assert!(window.take(100));
        assert!(!window.take(100));
        assert!(window.take(50_000));
        assert!(window.take(49_999));
        assert!(!window.take(u64::MAX), "the last counter would overflow");
    }
}
