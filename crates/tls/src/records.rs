//! Where records begin and end, in the bytes that a socket gives: the library does not say whether
//! one has come in part.

use std::io::{self, Read};

/// Bytes of a record's header: kind, version, and the length of what follows (RFC 8446, 5.1).
const HEADER: usize = 5;

/// How much of a record has come.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Records {
    /// Of the header, the bytes that have come.
    header: [u8; HEADER],
    have: usize,
    /// What is still to come after a whole header.
    left: usize,
}

impl Records {
    /// Whether a record has come in part.
    pub(crate) fn is_open(&self) -> bool {
        self.have > 0
    }

    /// `socket`, of which all that is read is taken note of.
    pub(crate) fn watch<'a, S>(&'a mut self, socket: &'a mut S) -> Watched<'a, S> {
        Watched {
            records: self,
            socket,
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.have < HEADER {
                let len = bytes.len().min(HEADER - self.have);
                self.header[self.have..self.have + len].copy_from_slice(&bytes[..len]);
                self.have += len;
                bytes = &bytes[len..];
                if self.have == HEADER {
                    self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                }
            }
            if self.have == HEADER {
                let len = bytes.len().min(self.left);
                self.left -= len;
                bytes = &bytes[len..];
                if self.left == 0 {
                    self.have = 0;
                }
            }
        }
    }
}

/// A socket whose bytes are taken note of.
pub(crate) struct Watched<'a, S> {
    records: &'a mut Records,
    socket: &'a mut S,
}

impl<S: Read> Read for Watched<'_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.socket.read(bytes)?;
        self.records.take(&bytes[..len]);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_open_from_its_first_byte_to_its_last_however_it_comes() {
        let record = |len: u8| [&[23, 3, 3, 0, len][..], &vec![7; usize::from(len)]].concat();
        let stream = [record(3), record(0), record(200)].concat();
        let ends = [8, 13, 218];
        for piece in [1, 2, 7, 300] {
            let mut records = Records::default();
            let mut at = 0;
            for bytes in stream.chunks(piece) {
                records.take(bytes);
                at += bytes.len();
                assert_eq!(records.is_open(), !ends.contains(&at), "after {at} bytes");
            }
        }
    }
}
