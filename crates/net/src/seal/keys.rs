//! The keys that are derived from one key of the cluster: one for each sender in each of its lives.

use std::collections::{BTreeMap, VecDeque};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use groupcast_core::Incarnation;
use groupcast_core::seal::{AssociatedData, OpenError};
use groupcast_core::wire::ClusterTag;

use super::Purpose;
use crate::key::Key;

const SENDER_LABEL: &[u8] = b"groupcast datagram v2";
const CLUSTER_LABEL: &[u8] = b"groupcast cluster tag v2";
const FINGERPRINT_LABEL: &[u8] = b"groupcast key fingerprint v1";

/// All keys that are derived from one key of the cluster.
pub(super) struct KeySet {
    root: Prk,
    purpose: Purpose,
    pub(super) cluster: ClusterTag,
    pub(super) local: LessSafeKey,
    /// Keys of admitted senders: the node bounds them.
    pub(super) admitted: BTreeMap<Incarnation, LessSafeKey>,
    /// Keys of senders that hold the cluster's key (they sealed a datagram) but are not admitted
    /// yet.
    pub(super) candidates: BTreeMap<Incarnation, LessSafeKey>,
    /// The same senders, oldest first.
    pub(super) oldest: VecDeque<Incarnation>,
}

impl KeySet {
    /// Some 300 kB. Recordings of more former lives than this cost a key again and again.
    pub(super) const CANDIDATES_MAX: usize = 512;

    pub(super) fn new(key: &Key, purpose: Purpose, local: Incarnation) -> Self {
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
    pub(super) fn key_of(&self, sender: Incarnation) -> Option<&LessSafeKey> {
        let admitted = self.admitted.get(&sender);
        admitted.or_else(|| self.candidates.get(&sender))
    }

    pub(super) fn open(
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

    pub(super) fn keep(&mut self, sender: Incarnation) {
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

pub(super) fn padded(nonce: u64) -> Nonce {
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
