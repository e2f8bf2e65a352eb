//! Bounds-checked reading and writing of fields.

use alloc::vec::Vec;

use crate::id::{ConfigId, Incarnation, MemberId, NodeId};

/// What was wrong with received bytes, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the field does.
    #[error("{field} at byte {at} needs {need} bytes, {have} are left")]
    Truncated {
        /// Name of the field.
        field: &'static str,
        /// The offset of the field in bytes.
        at: usize,
        /// Bytes that it needs.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// The field has a value that it must not have.
    #[error("{field}, which ends at byte {at}, has the value {value}, which is not allowed")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// The offset after it.
        at: usize,
        /// What it said.
        value: u64,
    },
    /// Bytes are left after the last field.
    #[error("{have} bytes are left after the last field")]
    Trailing {
        /// How many bytes are left.
        have: usize,
    },
}

/// Reads fields from the front of a byte slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes.
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], DecodeError> {
        let have = self.remaining();
        if len > have {
            return Err(DecodeError::Truncated {
                field,
                at: self.at,
                need: len,
                have,
            });
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(field, N)?);
        Ok(array)
    }

    /// Reads one byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Reads two bytes, big-endian.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// Reads four bytes, big-endian.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// Reads eight bytes, big-endian.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// A variable-length integer: seven bits a byte, lowest first, at most ten bytes, in its
    /// shortest form.
    #[inline]
    pub fn varint(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.varint_of_bytes(field),
        }
    }

    /// A variable-length integer of more than one byte.
    fn varint_of_bytes(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for index in 0..10 {
            let Some(&byte) = self.bytes.get(self.at) else {
                let (at, need, have) = (self.at, 1, 0);
                return Err(DecodeError::Truncated {
                    field,
                    at,
                    need,
                    have,
                });
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            let overflows = index == 9 && bits > 1;
            let padded = index > 0 && byte == 0;
            if overflows || padded {
                return Err(self.invalid(field, u64::from(byte)));
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.invalid(field, value))
    }

    /// Reads a member: node (8) and incarnation (8).
    pub fn member(&mut self, field: &'static str) -> Result<MemberId, DecodeError> {
        Ok(MemberId {
            node: NodeId(self.u64(field)?),
            incarnation: Incarnation(self.u64(field)?),
        })
    }

    /// Reads the id of a configuration.
    pub fn config(&mut self, field: &'static str) -> Result<ConfigId, DecodeError> {
        Ok(ConfigId {
            counter: self.u64(field)?,
            representative: self.member(field)?,
        })
    }

    /// A count of items of at least `item_len` bytes each: refused if they cannot be there, before
    /// anything is allocated for them.
    pub fn count(&mut self, field: &'static str, item_len: usize) -> Result<usize, DecodeError> {
        let count = usize::from(self.u16(field)?);
        let (need, have) = (count * item_len, self.remaining());
        if need > have {
            return Err(DecodeError::Truncated {
                field,
                at: self.at,
                need,
                have,
            });
        }
        Ok(count)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// The error for a field that was just read.
    pub fn invalid(&self, field: &'static str, value: u64) -> DecodeError {
        DecodeError::Invalid {
            field,
            at: self.at,
            value,
        }
    }

    /// Checks that nothing is left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            have => Err(DecodeError::Trailing { have }),
        }
    }
}

/// Appends fields to a byte vector.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// A writer at the end of `bytes`.
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Appends the bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    /// Appends two bytes, big-endian.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    /// Appends four bytes, big-endian.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    /// Appends eight bytes, big-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    /// A variable-length integer: see [`Reader::varint`].
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// Appends a member, as it is read.
    pub fn member(&mut self, member: MemberId) -> &mut Self {
        self.u64(member.node.0).u64(member.incarnation.0)
    }

    /// Appends the id of a configuration.
    pub fn config(&mut self, config: ConfigId) -> &mut Self {
        self.u64(config.counter).member(config.representative)
    }

    /// The count of items that follow.
    ///
    /// # Panics
    /// If there are more than 65,535: every list has a smaller limit by configuration.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.u16(u16::try_from(count).expect("lists on the wire are bounded by configuration"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).varint(value);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint("v"), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn any_bytes_decode_to_a_varint_or_an_error_in_shortest_form(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.varint("v") {
                let mut again = Vec::new();
                Writer::new(&mut again).varint(value);
                prop_assert_eq!(&again[..], &bytes[..reader.position()]);
            }
        }
    }

    #[test]
    fn a_count_larger_than_the_bytes_is_refused_before_allocation() {
        let mut reader = Reader::new(&[0xff, 0xff, 0, 0]);
        assert_eq!(
            reader.count("members", 16),
            Err(DecodeError::Truncated {
                field: "members",
                at: 2,
                need: 0xffff * 16,
                have: 2
            })
        );
    }

    #[test]
    fn what_is_left_over_is_an_error() {
        let mut reader = Reader::new(&[1, 2]);
        assert_eq!(reader.u8("a"), Ok(1));
        assert_eq!(reader.finish(), Err(DecodeError::Trailing { have: 1 }));
    }
}
