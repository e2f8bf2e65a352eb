//! Identities. A process is a *member*: a node (its name) and an incarnation (its life).
//!
//! An incarnation is 64 random bits drawn at every start, never a clock and never stored: a repeat
//! would reuse nonces, and a restarted process must be a new member to everybody.

use core::fmt;

/// A daemon by name: the first 64 bits of a hash of its unique name. It survives restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The id of the daemon called `name`.
    ///
    /// FNV-1a, finished so that names that differ in their last letter are far apart. Two names
    /// with equal ids would be refused like equal names; among 1,000 daemons the odds of that are
    /// below one in 10^13.
    pub fn from_name(name: &str) -> Self {
        Self(finish(fnv1a(name.as_bytes())))
    }
}

/// One life of a process: 64 random bits drawn at its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// A process of the group: a node in one of its incarnations. Ordered by node, then incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// The daemon, by the hash of its name.
    pub node: NodeId,
    /// Which of its lives.
    pub incarnation: Incarnation,
}

/// A regular configuration: the ring's (or view's) identifier, unique for ever and kept nowhere.
///
/// The representative's incarnation is random, and its counter only grows, so no two configurations
/// share an id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigId {
    /// Grows from configuration to configuration at every member that installs both.
    pub counter: u64,
    /// The member that formed the configuration.
    pub representative: MemberId,
}

/// A message: its origin and the origin's own count of submitted messages, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The member that submitted it.
    pub sender: MemberId,
    /// How many messages that member had submitted, this one included.
    pub number: u64,
}

/// FNV-1a, 64 bits: stable across versions and platforms; not for untrusted keys of a hash table.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_after(FNV_BASIS, bytes)
}

/// The hash of no bytes, with which FNV-1a begins.
pub(crate) const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of what hashes to `hash` with `bytes` behind it.
pub(crate) fn fnv1a_after(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finisher of SplitMix64: every bit of the input reaches every bit of the output.
pub(crate) fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{:x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{:x}", self.0)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.node.0, self.incarnation.0)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{:016x}", self.node.0, self.incarnation.0)
    }
}

impl fmt::Debug for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}@{:?}", self.counter, self.representative)
    }
}

impl fmt::Display for ConfigId {
    /// `COUNTER-NODE.INCARNATION`, the form of the `config` field in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.counter, self.representative)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}#{}", self.sender, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ids_of_similar_names_differ() {
        assert_ne!(NodeId::from_name("a"), NodeId::from_name("b"));
        // It is on the wire: all releases must make the same of a name.
        assert_eq!(NodeId::from_name("host-1"), NodeId(0x46c1_74b1_565d_2844));
    }

    #[test]
    fn fnv1a_matches_the_published_vector() {
        assert_eq!(fnv1a(b"foobar"), 0x85944171f73967e8);
    }
}
