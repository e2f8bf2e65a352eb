//! Sealing of datagrams: AES-256-GCM by aws-lc-rs, and the sealer of a cluster without a key.
//!
//! Every sender has a key of its own in each of its lives, derived from the pre-shared key and its
//! incarnation, so a 63-bit counter is nonce enough and no two lives share a nonce. When a datagram
//! is a replay, and who is admitted, is decided by the node; this module only opens, seals and
//! keeps the derived keys.
//!
//! | derived | from (HKDF-SHA256, salt empty) |
//! |---|---|
//! | sender key, 32 bytes | info = `groupcast datagram v1` ‖ incarnation (8 bytes, big-endian) |
//! | cluster tag, 4 bytes | info = `groupcast cluster tag v1` |
//!
//! Nonce: four zero bytes ‖ the last eight bytes of the prefix, which are *addressed* (1 bit) ‖ the
//! counter (63 bits). Additional data: [`AssociatedData`], that is the 24 bytes of the prefix and,
//! if it says *addressed*, the addressee's incarnation (8 bytes, big-endian, not transmitted).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use groupcast_core::Incarnation;
use groupcast_core::id::fnv1a;
use groupcast_core::seal::{AssociatedData, OpenError, Sealer};
use groupcast_core::wire::ClusterTag;

use crate::key::Key;

const SENDER_LABEL: &[u8] = b"groupcast datagram v1";
const CLUSTER_LABEL: &[u8] = b"groupcast cluster tag v1";

/// AES-256-GCM with a key per sender and incarnation. Overhead: 16 bytes a datagram.
pub struct AesGcmSealer {
    root: Prk,
    cluster: ClusterTag,
    local: LessSafeKey,
    /// Keys of admitted senders: the node bounds them.
    admitted: BTreeMap<Incarnation, LessSafeKey>,
    /// Keys of senders that hold the cluster's key (they sealed a datagram) but are not admitted
    /// yet, oldest first.
    candidates: VecDeque<(Incarnation, LessSafeKey)>,
}

impl AesGcmSealer {
    /// Bytes of a tag.
    pub const OVERHEAD: usize = 16;
    /// Only a holder of the cluster's key is admitted, and an admission takes three datagrams: a
    /// few will do.
    const CANDIDATES_MAX: usize = 8;

    /// The sealer of the sender `local` in the cluster of `key`.
    pub fn new(key: &Key, local: Incarnation) -> Self {
        let root = Salt::new(HKDF_SHA256, &[]).extract(key.as_bytes());
        let mut tag = [0; 4];
        derive(&root, &[CLUSTER_LABEL], &mut tag);
        Self {
            cluster: ClusterTag(u32::from_be_bytes(tag)),
            local: sender_key(&root, local),
            root,
            admitted: BTreeMap::new(),
            candidates: VecDeque::new(),
        }
    }

    fn candidate(&self, sender: Incarnation) -> Option<&LessSafeKey> {
        self.candidates
            .iter()
            .find(|(candidate, _)| *candidate == sender)
            .map(|(_, key)| key)
    }
}

impl Sealer for AesGcmSealer {
    fn overhead(&self) -> usize {
        Self::OVERHEAD
    }

    fn cluster(&self) -> ClusterTag {
        self.cluster
    }

    fn seal(&mut self, nonce: u64, associated: &AssociatedData, body: &mut [u8], tag: &mut [u8]) {
        let additional = Aad::from(associated.as_bytes());
        let sealed = self
            .local
            .seal_in_place_separate_tag(padded(nonce), additional, body)
            .expect("a datagram is far shorter than the most that AES-GCM seals");
        tag.copy_from_slice(sealed.as_ref());
    }

    fn open(
        &mut self,
        sender: Incarnation,
        nonce: u64,
        associated: &AssociatedData,
        sealed: &mut [u8],
    ) -> Result<(), OpenError> {
        if let Some(key) = self
            .admitted
            .get(&sender)
            .or_else(|| self.candidate(sender))
        {
            return open_with(key, nonce, associated, sealed);
        }
        let key = sender_key(&self.root, sender);
        open_with(&key, nonce, associated, sealed)?;
        if self.candidates.len() >= Self::CANDIDATES_MAX {
            self.candidates.pop_front();
        }
        self.candidates.push_back((sender, key));
        Ok(())
    }

    fn keep(&mut self, sender: Incarnation) {
        let at = self
            .candidates
            .iter()
            .position(|(candidate, _)| *candidate == sender);
        let key = match at.and_then(|at| self.candidates.remove(at)) {
            Some((_, key)) => key,
            None => sender_key(&self.root, sender),
        };
        self.admitted.insert(sender, key);
    }

    fn forget(&mut self, sender: Incarnation) {
        self.admitted.remove(&sender);
    }
}

impl fmt::Debug for AesGcmSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcmSealer")
            .field("cluster", &self.cluster)
            .field("admitted", &self.admitted.len())
            .finish_non_exhaustive()
    }
}

fn open_with(
    key: &LessSafeKey,
    nonce: u64,
    associated: &AssociatedData,
    sealed: &mut [u8],
) -> Result<(), OpenError> {
    key.open_in_place(padded(nonce), Aad::from(associated.as_bytes()), sealed)
        .map(|_| ())
        .map_err(|_| OpenError)
}

fn padded(nonce: u64) -> Nonce {
    let mut padded = [0; 12];
    padded[4..].copy_from_slice(&nonce.to_be_bytes());
    Nonce::assume_unique_for_key(padded)
}

fn sender_key(root: &Prk, sender: Incarnation) -> LessSafeKey {
    let incarnation = sender.0.to_be_bytes();
    let info = [SENDER_LABEL, &incarnation];
    let okm = root
        .expand(&info, &AES_256_GCM)
        .expect("a key is far shorter than the most that HKDF gives");
    LessSafeKey::new(UnboundKey::from(okm))
}

/// How much HKDF shall give.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(root: &Prk, info: &[&[u8]], out: &mut [u8]) {
    root.expand(info, Len(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("the length is that of the output, and far less than the most that HKDF gives");
}

/// The sealer of a cluster that was told to run without a key: everything is in clear, nothing is
/// authenticated.
///
/// Overhead 0; the cluster tag is that of the word `insecure`, so a daemon with a key and one
/// without tell each other apart. It opens whatever carries that tag, whomever it was meant for.
#[derive(Clone, Copy, Default, Debug)]
pub struct InsecureSealer;

impl Sealer for InsecureSealer {
    fn overhead(&self) -> usize {
        0
    }

    fn cluster(&self) -> ClusterTag {
        ClusterTag((fnv1a(b"insecure") >> 32) as u32)
    }

    fn seal(&mut self, _: u64, _: &AssociatedData, _: &mut [u8], _: &mut [u8]) {}

    fn open(
        &mut self,
        _: Incarnation,
        _: u64,
        _: &AssociatedData,
        _: &mut [u8],
    ) -> Result<(), OpenError> {
        Ok(())
    }

    fn keep(&mut self, _: Incarnation) {}

    fn forget(&mut self, _: Incarnation) {}
}

#[cfg(test)]
mod tests {
    use groupcast_core::wire::{PREFIX_LEN, Prefix, VERSION};

    use super::*;

    const ALICE: Incarnation = Incarnation(0xa11ce);
    const BOB: Incarnation = Incarnation(0xb0b);
    const CAROL: Incarnation = Incarnation(0xca401);
    const PREFIX: [u8; PREFIX_LEN] = [7; PREFIX_LEN];

    fn sealer(key: u8, local: Incarnation) -> AesGcmSealer {
        AesGcmSealer::new(&Key::from_bytes([key; 32]), local)
    }

    fn group() -> AssociatedData {
        AssociatedData::new(&PREFIX, None)
    }

    fn sealed(by: &mut AesGcmSealer, nonce: u64, body: &[u8]) -> Vec<u8> {
        sealed_with(by, nonce, &group(), body)
    }

    fn sealed_with(
        by: &mut AesGcmSealer,
        nonce: u64,
        associated: &AssociatedData,
        body: &[u8],
    ) -> Vec<u8> {
        let mut bytes = body.to_vec();
        let mut tag = [0; AesGcmSealer::OVERHEAD];
        by.seal(nonce, associated, &mut bytes, &mut tag);
        bytes.extend_from_slice(&tag);
        bytes
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_key_sender_nonce_and_prefix_only() {
        let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
        let bytes = sealed(&mut alice, 5, b"to all");
        assert!(!bytes.windows(6).any(|window| window == b"to all"));

        let mut opened = bytes.clone();
        assert_eq!(bob.open(ALICE, 5, &group(), &mut opened), Ok(()));
        assert_eq!(&opened[..6], b"to all");

        let mut other_prefix = PREFIX;
        other_prefix[3] ^= 1;
        let other_prefix = AssociatedData::new(&other_prefix, None);
        assert!(bob.open(BOB, 5, &group(), &mut bytes.clone()).is_err());
        assert!(bob.open(ALICE, 6, &group(), &mut bytes.clone()).is_err());
        assert!(
            bob.open(ALICE, 5, &other_prefix, &mut bytes.clone())
                .is_err()
        );
        assert!(
            sealer(2, BOB)
                .open(ALICE, 5, &group(), &mut bytes.clone())
                .is_err()
        );
    }

    #[test]
    fn what_is_for_one_opens_for_nobody_else() {
        let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
        let to_bob = AssociatedData::new(&PREFIX, Some(BOB));
        let to_carol = AssociatedData::new(&PREFIX, Some(CAROL));
        let bytes = sealed_with(&mut alice, 5, &to_bob, b"token");
        let mut open = |associated| bob.open(ALICE, 5, associated, &mut bytes.clone());
        assert_eq!(open(&to_bob), Ok(()));
        assert_eq!(open(&to_carol), Err(OpenError));
        assert_eq!(open(&group()), Err(OpenError));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
        let bytes = sealed(&mut alice, 0, b"x");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bob.open(ALICE, 0, &group(), &mut damaged), Err(OpenError));
        }
    }

    #[test]
    fn keys_of_strangers_do_not_pile_up() {
        let mut bob = sealer(1, BOB);
        for stranger in 0..1000 {
            let sender = Incarnation(stranger);
            let mut alike = sealer(1, sender);
            let mut forged = vec![0; 40];
            assert!(bob.open(sender, 0, &group(), &mut forged).is_err());
            let mut genuine = sealed(&mut alike, 0, b"hello");
            assert!(bob.open(sender, 0, &group(), &mut genuine).is_ok());
        }
        assert_eq!(bob.candidates.len(), AesGcmSealer::CANDIDATES_MAX);
        assert!(bob.admitted.is_empty());
        bob.keep(Incarnation(999));
        bob.keep(Incarnation(3));
        assert_eq!(bob.admitted.len(), 2);
        bob.forget(Incarnation(3));
        assert_eq!(bob.admitted.len(), 1);
    }

    #[test]
    fn derivation_is_pinned() {
        // Daemons of different releases share a cluster: none of this may change within major
        // version 1. The values are those of another implementation (Python's hmac and
        // cryptography).
        let mut alice = sealer(1, ALICE);
        assert_eq!(alice.cluster(), ClusterTag(0x3613_0ba8));
        let expected: [u8; 20] = [
            0xb7, 0x7f, 0x78, 0x92, 0x08, 0x7c, 0xec, 0x3a, 0xc8, 0x37, 0x1b, 0xa4, 0xbf, 0x52,
            0xc5, 0x0f, 0xed, 0x80, 0xe2, 0x7e,
        ];
        assert_eq!(sealed(&mut alice, 1, b"ring"), expected);
        assert_ne!(sealer(2, ALICE).cluster(), alice.cluster());
        assert_ne!(InsecureSealer.cluster(), alice.cluster());
    }

    #[test]
    fn an_addressed_datagram_is_pinned() {
        // As above: within major version 1 nothing of this changes, and the bytes are those of the
        // other implementation.
        let mut alice = sealer(1, ALICE);
        let prefix = Prefix {
            version: VERSION,
            cluster: alice.cluster(),
            sender: ALICE,
            addressed: true,
            counter: 2,
        };
        let clear = prefix.encode();
        let associated = AssociatedData::new(&clear, Some(BOB));
        let body = sealed_with(&mut alice, prefix.nonce(), &associated, b"ring");
        let expected: [u8; 44] = [
            0x67, 0x63, 0x01, 0x00, 0x36, 0x13, 0x0b, 0xa8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a,
            0x11, 0xce, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x8a, 0x86, 0x2d, 0xc5,
            0xdb, 0xad, 0xf0, 0xae, 0x43, 0x01, 0x9c, 0xef, 0x88, 0x04, 0x9f, 0xd5, 0x2d, 0xf9,
            0x0e, 0x33,
        ];
        assert_eq!([&clear[..], &body].concat(), expected);
    }
}
