//! Sealing of datagrams: AES-256-GCM by aws-lc-rs, and the sealer of a cluster without a key.
//!
//! Every sender has a key of its own in each of its lives, derived from the pre-shared key and its
//! incarnation, so a 63-bit counter is nonce enough and no two lives share a nonce. When a datagram
//! is a replay, and who is admitted, is decided by the node; this module only opens, seals and
//! keeps the derived keys.
//!
//! | derived | from (HKDF-SHA256, salt empty) |
//! |---|---|
//! | sender key, 32 bytes | info = `groupcast datagram v2` ‖ purpose (1) ‖ incarnation (8 bytes, big-endian) |
//! | cluster tag, 4 bytes | info = `groupcast cluster tag v2` ‖ purpose (1) |
//! | fingerprint, 16 bytes | info = `groupcast key fingerprint v1` |
//!
//! What is sealed for one [`Purpose`] opens for no other, though the pre-shared key is one.
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
use groupcast_core::seal::{AssociatedData, OpenError, SameTag, Sealer};
use groupcast_core::wire::ClusterTag;

use crate::key::Key;

const SENDER_LABEL: &[u8] = b"groupcast datagram v2";
const CLUSTER_LABEL: &[u8] = b"groupcast cluster tag v2";
const FINGERPRINT_LABEL: &[u8] = b"groupcast key fingerprint v1";

/// What a pre-shared key is used for: each use has keys of its own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Purpose {
    /// Daemons, and members without a daemon.
    #[default]
    Group = 1,
    /// Transfers of files.
    Transfer = 2,
}

/// AES-256-GCM with a key per sender and incarnation. Overhead: 16 bytes a datagram.
///
/// While the cluster's key is changed it opens datagrams under two: the tag of the cluster in the
/// prefix says which of them a datagram is sealed under.
pub struct AesGcmSealer {
    local: Incarnation,
    purpose: Purpose,
    /// Under which it seals.
    current: KeySet,
    /// Under which it opens, too.
    other: Option<KeySet>,
    /// Tags of keys that were in use before.
    retired: VecDeque<ClusterTag>,
}

impl AesGcmSealer {
    /// Bytes of a tag.
    pub const OVERHEAD: usize = 16;
    /// Keys that are known again when others still use them.
    const RETIRED_MAX: usize = 8;

    /// The sealer of the sender `local` in the cluster of `key`, for `purpose`.
    pub fn new(key: &Key, purpose: Purpose, local: Incarnation) -> Self {
        Self {
            local,
            purpose,
            current: KeySet::new(key, purpose, local),
            other: None,
            retired: VecDeque::new(),
        }
    }

    fn retire(&mut self, cluster: ClusterTag) {
        self.retired.truncate(Self::RETIRED_MAX - 1);
        self.retired.push_front(cluster);
    }
}

impl Sealer for AesGcmSealer {
    fn overhead(&self) -> usize {
        Self::OVERHEAD
    }

    fn cluster(&self) -> ClusterTag {
        self.current.cluster
    }

    fn takes(&self, cluster: ClusterTag) -> bool {
        let is_other = |other: &KeySet| other.cluster == cluster;
        self.current.cluster == cluster || self.other.as_ref().is_some_and(is_other)
    }

    fn was_used(&self, cluster: ClusterTag) -> bool {
        self.retired.contains(&cluster)
    }

    fn seal(&mut self, nonce: u64, associated: &AssociatedData, body: &mut [u8], tag: &mut [u8]) {
        let additional = Aad::from(associated.as_bytes());
        let sealed = self
            .current
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
        match &mut self.other {
            Some(other) if other.cluster == associated.cluster() => {
                other.open(sender, nonce, associated, sealed)
            }
            _ => self.current.open(sender, nonce, associated, sealed),
        }
    }

    fn has_key_of(&self, sender: Incarnation) -> bool {
        let has = |keys: &KeySet| keys.key_of(sender).is_some();
        has(&self.current) && self.other.as_ref().is_none_or(has)
    }

    fn keep(&mut self, sender: Incarnation) {
        self.current.keep(sender);
        if let Some(other) = &mut self.other {
            other.keep(sender);
        }
    }

    fn forget(&mut self, sender: Incarnation) {
        self.current.admitted.remove(&sender);
        if let Some(other) = &mut self.other {
            other.admitted.remove(&sender);
        }
    }

    fn learn(&mut self, secret: &[u8; 32]) -> Result<(), SameTag> {
        let mut other = KeySet::new(&Key::from_bytes(*secret), self.purpose, self.local);
        if other.cluster == self.current.cluster {
            return Err(SameTag);
        }
        for sender in self.current.admitted.keys() {
            other.keep(*sender);
        }
        self.retired.retain(|retired| *retired != other.cluster);
        self.other = Some(other);
        Ok(())
    }

    fn switch(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.current, other);
        }
    }

    fn drop_other(&mut self, was_used: bool) {
        if let Some(other) = self.other.take()
            && was_used
        {
            self.retire(other.cluster);
        }
    }
}

impl fmt::Debug for AesGcmSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcmSealer")
            .field("cluster", &self.current.cluster)
            .field("admitted", &self.current.admitted.len())
            .finish_non_exhaustive()
    }
}

/// All keys that are derived from one key of the cluster.
struct KeySet {
    root: Prk,
    purpose: Purpose,
    cluster: ClusterTag,
    local: LessSafeKey,
    /// Keys of admitted senders: the node bounds them.
    admitted: BTreeMap<Incarnation, LessSafeKey>,
    /// Keys of senders that hold the cluster's key (they sealed a datagram) but are not admitted
    /// yet.
    candidates: BTreeMap<Incarnation, LessSafeKey>,
    /// The same senders, oldest first.
    oldest: VecDeque<Incarnation>,
}

impl KeySet {
    /// Some 300 kB. Recordings of more former lives than this cost a key again and again.
    const CANDIDATES_MAX: usize = 512;

    fn new(key: &Key, purpose: Purpose, local: Incarnation) -> Self {
        let root = Salt::new(HKDF_SHA256, &[]).extract(key.as_bytes());
        let mut tag = [0; 4];
        derive(&root, &[CLUSTER_LABEL, &[purpose as u8]], &mut tag);
        Self {
            cluster: ClusterTag(u32::from_be_bytes(tag)),
            local: sender_key(&root, purpose, local),
            root,
            purpose,
            admitted: BTreeMap::new(),
            candidates: BTreeMap::new(),
            oldest: VecDeque::new(),
        }
    }

    /// The key of `sender`, if it is at hand.
    fn key_of(&self, sender: Incarnation) -> Option<&LessSafeKey> {
        let admitted = self.admitted.get(&sender);
        admitted.or_else(|| self.candidates.get(&sender))
    }

    fn open(
        &mut self,
        sender: Incarnation,
        nonce: u64,
        associated: &AssociatedData,
        sealed: &mut [u8],
    ) -> Result<(), OpenError> {
        if let Some(key) = self.key_of(sender) {
            return open_with(key, nonce, associated, sealed);
        }
        let key = sender_key(&self.root, self.purpose, sender);
        open_with(&key, nonce, associated, sealed)?;
        if self.oldest.len() >= Self::CANDIDATES_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.candidates.remove(&oldest);
        }
        self.candidates.insert(sender, key);
        self.oldest.push_back(sender);
        Ok(())
    }

    fn keep(&mut self, sender: Incarnation) {
        let key = match self.candidates.remove(&sender) {
            Some(key) => {
                self.oldest.retain(|candidate| *candidate != sender);
                key
            }
            None => sender_key(&self.root, self.purpose, sender),
        };
        self.admitted.insert(sender, key);
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

fn sender_key(root: &Prk, purpose: Purpose, sender: Incarnation) -> LessSafeKey {
    let incarnation = sender.0.to_be_bytes();
    let purpose = [purpose as u8];
    let info = [SENDER_LABEL, &purpose, &incarnation];
    let okm = root
        .expand(&info, &AES_256_GCM)
        .expect("a key is far shorter than the most that HKDF gives");
    LessSafeKey::new(UnboundKey::from(okm))
}

/// What tells one key of a cluster from another.
pub(crate) fn fingerprint(key: &Key) -> [u8; 16] {
    let root = Salt::new(HKDF_SHA256, &[]).extract(key.as_bytes());
    let mut fingerprint = [0; 16];
    derive(&root, &[FINGERPRINT_LABEL], &mut fingerprint);
    fingerprint
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

    fn has_key_of(&self, _: Incarnation) -> bool {
        true
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
        AesGcmSealer::new(&Key::from_bytes([key; 32]), Purpose::Group, local)
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
        let keys = &bob.current;
        assert_eq!(keys.candidates.len(), KeySet::CANDIDATES_MAX);
        assert_eq!(keys.oldest.len(), KeySet::CANDIDATES_MAX);
        assert!(keys.admitted.is_empty());
        bob.keep(Incarnation(999));
        bob.keep(Incarnation(3));
        assert_eq!(bob.current.admitted.len(), 2);
        assert!(bob.has_key_of(Incarnation(3)) && bob.has_key_of(Incarnation(998)));
        assert_eq!(bob.current.candidates.len(), bob.current.oldest.len());
        bob.forget(Incarnation(3));
        assert_eq!(bob.current.admitted.len(), 1);
        assert!(!bob.has_key_of(Incarnation(3)));
    }

    #[test]
    fn what_is_sealed_for_one_purpose_opens_for_no_other() {
        let key = Key::from_bytes([1; 32]);
        let mut daemon = AesGcmSealer::new(&key, Purpose::Group, ALICE);
        let mut transfer = AesGcmSealer::new(&key, Purpose::Transfer, BOB);
        assert_ne!(daemon.cluster(), transfer.cluster());
        let bytes = sealed(&mut daemon, 5, b"to daemons");
        let opened = transfer.open(ALICE, 5, &group(), &mut bytes.clone());
        assert_eq!(opened, Err(OpenError));
    }

    /// `body`, sealed to all with its whole prefix.
    fn said(by: &mut AesGcmSealer, counter: u64) -> (AssociatedData, u64, Vec<u8>) {
        let prefix = Prefix {
            version: VERSION,
            cluster: by.cluster(),
            sender: by.local,
            addressed: false,
            counter,
        };
        let associated = AssociatedData::new(&prefix.encode(), None);
        let body = sealed_with(by, prefix.nonce(), &associated, b"to all");
        (associated, prefix.nonce(), body)
    }

    #[test]
    fn between_the_steps_of_a_change_both_keys_open_and_one_seals() {
        let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
        bob.keep(ALICE);
        let (old, new) = (alice.cluster(), sealer(2, ALICE).cluster());
        let opens = |bob: &mut AesGcmSealer, said: &(AssociatedData, u64, Vec<u8>)| {
            let (associated, nonce, body) = said;
            bob.takes(associated.cluster())
                && bob
                    .open(ALICE, *nonce, associated, &mut body.clone())
                    .is_ok()
        };
        let first = said(&mut alice, 1);
        bob.learn(&[2; 32]).unwrap();
        assert!(bob.has_key_of(ALICE), "it is admitted under both");
        assert_eq!((bob.cluster(), bob.takes(new)), (old, true));
        alice.learn(&[2; 32]).unwrap();
        assert_eq!(
            said(&mut alice, 2).0.cluster(),
            old,
            "learning is not using"
        );
        alice.switch();
        let third = said(&mut alice, 3);
        assert_eq!(third.0.cluster(), new);
        assert!(opens(&mut bob, &first) && opens(&mut bob, &third));
        bob.switch();
        assert!(opens(&mut bob, &first) && opens(&mut bob, &third));
        bob.drop_other(true);
        assert!(!opens(&mut bob, &first) && opens(&mut bob, &third));
        assert!(bob.was_used(old) && !bob.was_used(new));
        assert_eq!(bob.learn(&[2; 32]), Err(SameTag));
    }

    #[test]
    fn derivation_is_pinned() {
        // Daemons of different releases share a cluster: none of this may change within major
        // version 2. The values are those of another implementation (Python's hmac and
        // cryptography).
        let mut alice = sealer(1, ALICE);
        assert_eq!(alice.cluster(), ClusterTag(0x7e6f_a138));
        let expected: [u8; 20] = [
            0xd2, 0x32, 0x73, 0x2a, 0x2a, 0xee, 0x64, 0xaa, 0x28, 0x5b, 0xbd, 0xc4, 0xad, 0xbd,
            0x20, 0x9b, 0x4c, 0xc8, 0x29, 0x96,
        ];
        assert_eq!(sealed(&mut alice, 1, b"ring"), expected);
        assert_ne!(sealer(2, ALICE).cluster(), alice.cluster());
        assert_ne!(InsecureSealer.cluster(), alice.cluster());
    }

    #[test]
    fn an_addressed_datagram_is_pinned() {
        // As above: within major version 2 nothing of this changes, and the bytes are those of the
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
            0x67, 0x63, 0x02, 0x00, 0x7e, 0x6f, 0xa1, 0x38, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a,
            0x11, 0xce, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x63, 0x01, 0x49, 0x0e,
            0x0b, 0x73, 0xe2, 0xb6, 0x7e, 0xd8, 0x37, 0x77, 0x11, 0xa5, 0x47, 0x7f, 0xcc, 0x1f,
            0xbb, 0xb4,
        ];
        assert_eq!([&clear[..], &body].concat(), expected);
    }
}
