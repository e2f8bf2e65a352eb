//! A fake [`Sealer`]: the size and the rules of AES-GCM, a keyed checksum instead of its
//! arithmetic.
//!
//! Every sender has a key of its own, a counter is used once, and any change of the associated data
//! (the prefix, the addressee), the body or the tag is found. Bodies stay in clear, so that traces
//! and filters can read them; nothing here is secret.

use groupcast_core::Incarnation;
use groupcast_core::seal::{AssociatedData, OpenError, Sealer};
use groupcast_core::wire::{ClusterTag, Prefix};

/// Bytes of a tag, as many as AES-GCM's.
pub const TAG_LEN: usize = 16;

/// Seals for one host with the key of one cluster.
#[derive(Debug)]
pub struct FakeSealer {
    cluster_key: u64,
    local: Incarnation,
    /// The lowest counter that has not been used: the node counts up, so one number tells.
    unused: u64,
}

impl FakeSealer {
    /// The sealer of the sender `local` in the cluster whose key is `cluster_key`.
    pub fn new(cluster_key: u64, local: Incarnation) -> Self {
        Self {
            cluster_key,
            local,
            unused: 0,
        }
    }

    fn tag(
        &self,
        sender: Incarnation,
        nonce: u64,
        associated: &AssociatedData,
        body: &[u8],
    ) -> [u8; TAG_LEN] {
        let key = fold(self.cluster_key ^ K0, sender.0 ^ K1);
        let hash = checksum(fold(key, nonce ^ K2), associated.as_bytes());
        let hash = checksum(hash, body);
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&hash.to_be_bytes());
        tag[8..].copy_from_slice(&fold(hash ^ K2, key).to_be_bytes());
        tag
    }
}

impl Sealer for FakeSealer {
    fn overhead(&self) -> usize {
        TAG_LEN
    }

    fn cluster(&self) -> ClusterTag {
        ClusterTag(fold(self.cluster_key, K1) as u32)
    }

    fn seal(&mut self, nonce: u64, associated: &AssociatedData, body: &mut [u8], tag: &mut [u8]) {
        let counter = nonce & Prefix::COUNTER_MAX;
        assert!(
            counter >= self.unused,
            "the counter {counter} of {:?} is used twice",
            self.local
        );
        self.unused = counter + 1;
        tag.copy_from_slice(&self.tag(self.local, nonce, associated, body));
    }

    fn open(
        &mut self,
        sender: Incarnation,
        nonce: u64,
        associated: &AssociatedData,
        sealed: &mut [u8],
    ) -> Result<(), OpenError> {
        let (body, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(OpenError)?;
        if *tag == self.tag(sender, nonce, associated, body) {
            Ok(())
        } else {
            Err(OpenError)
        }
    }

    /// Never: so the limits on unknown senders hold here too, though keys cost a nanosecond.
    fn has_key_of(&self, _sender: Incarnation) -> bool {
        false
    }

    // Keys are derived in a nanosecond: there are none to keep.
    fn keep(&mut self, _sender: Incarnation) {}

    fn forget(&mut self, _sender: Incarnation) {}
}

const K0: u64 = 0xa076_1d64_78bd_642f;
const K1: u64 = 0xe703_7ed1_a0b4_28db;
const K2: u64 = 0x8ebc_6af0_9c88_c6e3;

/// Both halves of the product, one over the other: the mixing step of wyhash.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// A keyed checksum of `bytes`: long ones in four lanes of sixteen, which a processor mixes at the
/// same time.
fn checksum(key: u64, bytes: &[u8]) -> u64 {
    let mut hash = key ^ fold(bytes.len() as u64 ^ K0, K1);
    let (wide, rest) = bytes.as_chunks::<64>();
    if !wide.is_empty() {
        let mut lanes = [hash, hash ^ K0, hash ^ K1, hash ^ K2];
        for block in wide {
            let (blocks, _) = block.as_chunks::<16>();
            for (lane, block) in lanes.iter_mut().zip(blocks) {
                *lane = mix(*lane, block);
            }
        }
        hash = lanes.into_iter().fold(hash, |hash, lane| {
            fold(hash.rotate_left(23) ^ K1, lane ^ K2) ^ lane
        });
    }
    let (blocks, rest) = rest.as_chunks::<16>();
    for block in blocks {
        hash = mix(hash, block);
    }
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash, &last)
}

fn mix(hash: u64, block: &[u8; 16]) -> u64 {
    let mut low = [0; 8];
    let mut high = [0; 8];
    low.copy_from_slice(&block[..8]);
    high.copy_from_slice(&block[8..]);
    fold(
        u64::from_le_bytes(low) ^ K1 ^ hash.rotate_left(23),
        u64::from_le_bytes(high) ^ hash,
    )
}

#[cfg(test)]
mod tests {
    use groupcast_core::wire::PREFIX_LEN;

    use super::*;

    const ALICE: Incarnation = Incarnation(1);
    const BOB: Incarnation = Incarnation(2);
    const PREFIX: [u8; PREFIX_LEN] = [3; PREFIX_LEN];

    fn to_bob() -> AssociatedData {
        AssociatedData::new(&PREFIX, Some(BOB))
    }

    /// Of Alice to Bob, with the nonce 5.
    fn sealed(len: usize) -> (FakeSealer, Vec<u8>) {
        let mut sealer = FakeSealer::new(7, ALICE);
        let mut bytes: Vec<u8> = (0..len as u8).collect();
        let mut tag = [0; TAG_LEN];
        sealer.seal(5, &to_bob(), &mut bytes, &mut tag);
        bytes.extend(tag);
        (sealer, bytes)
    }

    #[test]
    fn what_was_sealed_opens_and_its_body_is_whole() {
        for len in [0, 1, 15, 16, 17, 63, 64, 65, 200] {
            let (mut sealer, mut bytes) = sealed(len);
            assert_eq!(sealer.open(ALICE, 5, &to_bob(), &mut bytes), Ok(()));
            assert!(bytes[..len].iter().copied().eq(0..len as u8));
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (mut sealer, bytes) = sealed(33);
        for (mut sealer, bytes) in [sealed(33), sealed(200)] {
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    sealer.open(ALICE, 5, &to_bob(), &mut flipped),
                    Err(OpenError),
                    "bit {bit}"
                );
            }
        }
        for bit in 0..PREFIX_LEN * 8 {
            let mut flipped = PREFIX;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let associated = AssociatedData::new(&flipped, Some(BOB));
            assert_eq!(
                sealer.open(ALICE, 5, &associated, &mut bytes.clone()),
                Err(OpenError),
                "bit {bit} of the prefix"
            );
        }
    }

    #[test]
    fn another_sender_nonce_addressee_cluster_or_length_does_not_open() {
        let (mut sealer, mut bytes) = sealed(20);
        let to_alice = AssociatedData::new(&PREFIX, Some(ALICE));
        let to_all = AssociatedData::new(&PREFIX, None);
        assert!(sealer.open(BOB, 5, &to_bob(), &mut bytes).is_err());
        assert!(sealer.open(ALICE, 6, &to_bob(), &mut bytes).is_err());
        assert!(sealer.open(ALICE, 5, &to_alice, &mut bytes).is_err());
        assert!(sealer.open(ALICE, 5, &to_all, &mut bytes).is_err());
        let mut other = FakeSealer::new(8, ALICE);
        assert!(other.open(ALICE, 5, &to_bob(), &mut bytes).is_err());
        assert!(sealer.open(ALICE, 5, &to_bob(), &mut bytes[..30]).is_err());
        assert!(sealer.open(ALICE, 5, &to_bob(), &mut []).is_err());
    }

    #[test]
    #[should_panic(expected = "used twice")]
    fn a_counter_is_used_once_addressed_or_not() {
        let (mut sealer, mut bytes) = sealed(4);
        let addressed = 5 | (Prefix::COUNTER_MAX + 1);
        sealer.seal(addressed, &to_bob(), &mut bytes, &mut [0; TAG_LEN]);
    }
}
