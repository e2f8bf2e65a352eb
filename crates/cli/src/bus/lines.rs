//! Reads the lines of the bus, and the messages that follow delivery lines.

use std::io::{self, BufRead, ErrorKind, Read as _};

/// A line of the bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// A line that is no delivery, with its line end.
    Plain(Vec<u8>),
    /// The line of a delivery, and the message after it, both with their line ends.
    Delivery(Vec<u8>, Vec<u8>),
}

impl Line {
    /// The bytes as they came.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Plain(line) => line.clone(),
            Self::Delivery(line, message) => [&line[..], message].concat(),
        }
    }

    /// The bytes with each line made safe for a terminal by `safe`.
    pub(super) fn shown(&self, safe: fn(&[u8]) -> String) -> Vec<u8> {
        let mut shown = String::new();
        for line in self.bytes().split_inclusive(|byte| *byte == b'\n') {
            shown.push_str(&safe(line.strip_suffix(b"\n").unwrap_or(line)));
            shown.push('\n');
        }
        shown.into_bytes()
    }

    /// Whether this is the reply to a command, or the first line of one.
    pub(super) fn is_reply(&self) -> bool {
        let Self::Plain(line) = self else {
            return false;
        };
        matches!(
            line.split(|byte| matches!(byte, b' ' | b'\n')).next(),
            Some(b"ok" | b"error")
        )
    }
}

/// The next line; `None` at the end.
///
/// # Errors
/// Those of the socket; `InvalidData` if the line of a delivery does not end with a length.
pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if !line.starts_with(b"msg ") {
        return Ok(Some(Line::Plain(line)));
    }
    let last = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next();
    let length = last.and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    let length = length.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no length"))?;
    let mut message = Vec::new();
    // Memory grows with the bytes that come, not with the length that is claimed.
    reader.take(length + 1).read_to_end(&mut message)?;
    if message.len() as u64 <= length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Line::Delivery(line, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_read_with_their_bytes() {
        let mut text = &b"bus 1 a@h\nmsg t d raw 4\nok\n\x1b\nok\nmsg t d 9\nabc"[..];
        let greeting = read(&mut text).unwrap().unwrap();
        assert!(!greeting.is_reply());
        let delivery = read(&mut text).unwrap().unwrap();
        assert_eq!(
            delivery,
            Line::Delivery(b"msg t d raw 4\n".into(), b"ok\n\x1b\n".into())
        );
        let shown = delivery.shown(groupcast_core::text::printable);
        assert_eq!(shown, b"msg t d raw 4\nok\n\\u{1b}\n");
        assert!(read(&mut text).unwrap().unwrap().is_reply());
        assert_eq!(
            read(&mut text).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
    }
}
