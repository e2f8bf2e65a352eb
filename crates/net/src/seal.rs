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

mod keys;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use aws_lc_rs::aead::Aad;

use groupcast_core::Incarnation;
use groupcast_core::id::fnv1a;
use groupcast_core::seal::{AssociatedData, OpenError, SameTag, Sealer};
use groupcast_core::wire::ClusterTag;

pub(crate) use self::keys::fingerprint;
use self::keys::{KeySet, padded};
use crate::key::Key;

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
