//! Names inside a received frame: checked once, then read in place.

use std::fmt;

use bytes::{Bytes, BytesMut};
use groupcast_core::wire::{DecodeError, Reader, Writer};

/// UTF-8 in a received frame, without a copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Text(Bytes);

impl Text {
    /// The text as a string slice.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a Text is made of UTF-8 only")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A list of names in a received frame, without a copy.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Names {
    count: usize,
    /// `u8 length | UTF-8` for each.
    bytes: Bytes,
}

impl Names {
    /// The number of names.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        names_in(&self.bytes)
    }
}

impl<'a> FromIterator<&'a str> for Names {
    /// # Panics
    /// If a name exceeds 255 bytes.
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut bytes = Vec::new();
        let mut count = 0;
        for name in names {
            put_name(&mut Writer::new(&mut bytes), name);
            count += 1;
        }
        Self {
            count,
            bytes: bytes.into(),
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The names in bytes that [`skip_names`] has checked.
pub(super) fn names_in(mut bytes: &[u8]) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*len))?;
        bytes = rest;
        std::str::from_utf8(name).ok()
    })
}

/// Writes `u8 length | UTF-8`.
///
/// # Panics
/// If `name` exceeds 255 bytes, which the rules for names rule out.
pub(crate) fn put_name(writer: &mut Writer<'_>, name: &str) {
    let len = u8::try_from(name.len()).expect("names have at most 255 bytes");
    writer.u8(len).put(name.as_bytes());
}

/// Reads a name, which may be empty.
pub(crate) fn take_name<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<&'a str, DecodeError> {
    let len = usize::from(reader.u8(field)?);
    let bytes = reader.take(field, len)?;
    text(reader, field, bytes)
}

/// Reads a byte that is 0 or 1.
pub(super) fn take_bool(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(reader.invalid(field, u64::from(other))),
    }
}

/// Reads the rest as text.
pub(super) fn take_text<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<&'a str, DecodeError> {
    let bytes = reader.rest();
    text(reader, field, bytes)
}

fn text<'a>(
    reader: &Reader<'a>,
    field: &'static str,
    bytes: &'a [u8],
) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        reader.invalid(field, u64::from(bad))
    })
}

/// Checks `count` names at the reader's place and skips them; returns how many bytes they take.
pub(super) fn skip_names(
    reader: &mut Reader<'_>,
    field: &'static str,
    count: usize,
) -> Result<usize, DecodeError> {
    let start = reader.position();
    for _ in 0..count {
        take_name(reader, field)?;
    }
    Ok(reader.position() - start)
}

/// Splits `len` bytes off the front, as names that [`skip_names`] has checked.
pub(super) fn split_names(bytes: &mut BytesMut, count: usize, len: usize) -> Names {
    Names {
        count,
        bytes: bytes.split_to(len).freeze(),
    }
}

/// Splits `len` bytes off the front, as a text that [`take_name`] has checked.
pub(super) fn split_text(bytes: &mut BytesMut, len: usize) -> Text {
    Text(bytes.split_to(len).freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let names: Names = ["a", "", "ü/b"].into_iter().collect();
        assert_eq!(names.len(), 3);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "", "ü/b"]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        let mut reader = Reader::new(&[2, b'a', 0xff]);
        assert_eq!(
            take_name(&mut reader, "group"),
            Err(DecodeError::Invalid {
                field: "group",
                at: 3,
                value: 0xff
            })
        );
    }
}
