//! The prefix of every datagram: in clear, but authenticated.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..2 | magic | `gc` |
//! | 2 | version major | a different one cannot be understood |
//! | 3 | version minor | a higher one only adds what can be skipped |
//! | 4..8 | cluster tag | derived from the key: tells clusters apart without trying their keys |
//! | 8..16 | sender instance | the sender's incarnation; selects its key and replay window |
//! | 16..24 | nonce | top bit: *addressed*; the other 63: the counter, which grows with every datagram |
//!
//! An addressed datagram is for one receiver, whose incarnation is authenticated with the prefix
//! but not transmitted ([`AssociatedData`](crate::seal::AssociatedData)). One that is not addressed
//! is for the group.

use super::cursor::{DecodeError, Reader};
use crate::id::Incarnation;

/// Length of the prefix in bytes.
pub const PREFIX_LEN: usize = 24;
/// First two bytes of every datagram.
pub const MAGIC: [u8; 2] = *b"gc";
/// What this code speaks.
///
/// 2.0: hellos without memory, keys for each purpose. 3.0: messages of the ring in parts; a daemon
/// of 2.0 takes a part of what is recovered for the whole, and would deliver less than the others.
/// 4.0: proposals and lists of RMP say what each member's way carries; a member of 3.0 takes none.
pub const VERSION: Version = Version { major: 4, minor: 0 };

/// The bit of the nonce that says so.
const ADDRESSED: u64 = 1 << 63;

/// Version of the datagram format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Incompatible where different.
    pub major: u8,
    /// Compatible where different.
    pub minor: u8,
}

/// Tells clusters apart: 32 bits derived from the cluster's key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterTag(pub u32);

/// A decoded prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// Of the sender's format.
    pub version: Version,
    /// Of the sender's cluster.
    pub cluster: ClusterTag,
    /// The sender's life.
    pub sender: Incarnation,
    /// Whether it is for one receiver.
    pub addressed: bool,
    /// The sender's count of datagrams, at most [`COUNTER_MAX`](Self::COUNTER_MAX).
    pub counter: u64,
}

/// Why a datagram is not for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PrefixError {
    /// Too short for a prefix.
    #[error(transparent)]
    Short(#[from] DecodeError),
    /// Not of this protocol.
    #[error("not a groupcast datagram")]
    Magic,
    /// Of an incompatible version.
    #[error("version {}.{}, this side speaks {}.{}", .0.major, .0.minor, VERSION.major, VERSION.minor)]
    Version(Version),
}

impl Prefix {
    /// The highest counter: 63 bits.
    pub const COUNTER_MAX: u64 = ADDRESSED - 1;

    /// Reads the prefix of `datagram`.
    pub fn decode(datagram: &[u8]) -> Result<Self, PrefixError> {
        let mut reader = Reader::new(datagram);
        if reader.take("magic", 2)? != MAGIC {
            return Err(PrefixError::Magic);
        }
        let version = Version {
            major: reader.u8("major")?,
            minor: reader.u8("minor")?,
        };
        if version.major != VERSION.major {
            return Err(PrefixError::Version(version));
        }
        let cluster = ClusterTag(reader.u32("cluster tag")?);
        let sender = Incarnation(reader.u64("sender instance")?);
        let nonce = reader.u64("nonce")?;
        Ok(Self {
            version,
            cluster,
            sender,
            addressed: nonce & ADDRESSED != 0,
            counter: nonce & Self::COUNTER_MAX,
        })
    }

    /// What is sealed with: unique among the sender's datagrams, because the counter in it is.
    pub fn nonce(&self) -> u64 {
        debug_assert!(self.counter <= Self::COUNTER_MAX, "a counter of 63 bits");
        if self.addressed {
            self.counter | ADDRESSED
        } else {
            self.counter
        }
    }

    /// Encodes it as it is on the wire.
    pub fn encode(&self) -> [u8; PREFIX_LEN] {
        let mut bytes = [0; PREFIX_LEN];
        bytes[0..2].copy_from_slice(&MAGIC);
        bytes[2] = self.version.major;
        bytes[3] = self.version.minor;
        bytes[4..8].copy_from_slice(&self.cluster.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sender.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.nonce().to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        let prefix = Prefix {
            version: VERSION,
            cluster: ClusterTag(0x0102_0304),
            sender: Incarnation(0x1112_1314_1516_1718),
            addressed: false,
            counter: 0x2122_2324_2526_2728,
        };
        let bytes = prefix.encode();
        assert_eq!(bytes[..8], [b'g', b'c', 4, 0, 1, 2, 3, 4]);
        assert_eq!(
            bytes[8..],
            [
                0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
                0x27, 0x28
            ]
        );
        assert_eq!(Prefix::decode(&bytes), Ok(prefix));
        let addressed = Prefix {
            addressed: true,
            ..prefix
        };
        let mut expected = bytes;
        expected[16] = 0xa1;
        assert_eq!(addressed.encode(), expected);
        assert_eq!(Prefix::decode(&expected), Ok(addressed));
    }

    #[test]
    fn the_same_counter_addressed_or_not_is_read_back_at_both_ends_of_its_range() {
        for counter in [0, 1, Prefix::COUNTER_MAX] {
            for addressed in [false, true] {
                let prefix = Prefix {
                    version: VERSION,
                    cluster: ClusterTag(1),
                    sender: Incarnation(2),
                    addressed,
                    counter,
                };
                assert_eq!(Prefix::decode(&prefix.encode()), Ok(prefix));
                assert_eq!(prefix.encode()[16..], prefix.nonce().to_be_bytes());
            }
        }
    }

    #[test]
    fn other_magic_other_version_and_short_datagrams_are_told_apart() {
        let mut bytes = Prefix {
            version: VERSION,
            cluster: ClusterTag(1),
            sender: Incarnation(2),
            addressed: false,
            counter: 3,
        }
        .encode();
        assert!(matches!(
            Prefix::decode(&bytes[..23]),
            Err(PrefixError::Short(_))
        ));
        bytes[2] = 3;
        let former = PrefixError::Version(Version { major: 3, minor: 0 });
        assert_eq!(Prefix::decode(&bytes), Err(former));
        let told = alloc::format!("{former}");
        assert_eq!(told, "version 3.0, this side speaks 4.0");
        bytes[0] = b'x';
        assert_eq!(Prefix::decode(&bytes), Err(PrefixError::Magic));
    }
}
