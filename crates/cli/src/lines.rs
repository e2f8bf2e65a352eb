//! The messages of `pub`: each line of a file or pipe, all of it as one message, or generated ones.
//!
//! Reading never takes more than one line into memory. A line is everything up to a newline, which
//! is taken off; a carriage return stays, an empty line is an empty message, and a last line
//! without a newline counts.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A source of payloads for `pub`.
pub(crate) enum Source<R = File> {
    /// Each line is a message.
    Lines {
        /// What is read.
        input: BufReader<R>,
        /// The longest line, in bytes.
        max: usize,
    },
    /// All bytes are one message.
    Whole {
        /// What is read.
        input: BufReader<R>,
        /// The longest message, in bytes.
        max: usize,
        /// Whether the message has been read.
        done: bool,
    },
    /// Messages of equal size, each beginning with its number.
    Generated {
        /// Bytes a message.
        size: usize,
        /// How many are left.
        left: u64,
        /// The number of the next one, from 1.
        next: u64,
    },
}

impl<R: Read> Source<R> {
    /// The most bytes that are read ahead.
    const AHEAD: usize = 64 << 10;

    /// The lines of `input`, each of at most `max` bytes.
    pub(crate) fn lines(input: R, max: usize) -> Self {
        Self::Lines {
            input: BufReader::with_capacity(Self::AHEAD, input),
            max,
        }
    }

    /// All of `input` as one message of at most `max` bytes.
    pub(crate) fn whole(input: R, max: usize) -> Self {
        Self::Whole {
            input: BufReader::with_capacity(Self::AHEAD, input),
            max,
            done: false,
        }
    }

    /// `count` messages of `size` bytes: each is its number in decimal, padded with dots or cut off
    /// at `size`.
    pub(crate) fn generated(size: usize, count: u64) -> Self {
        Self::Generated {
            size,
            left: count,
            next: 1,
        }
    }

    /// Reads the next payload into `payload`, which is empty; returns false if there is none.
    pub(crate) fn read(&mut self, payload: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            Self::Lines { input, max } => read_line(input, *max, payload),
            Self::Whole { done: true, .. } => Ok(false),
            Self::Whole { input, max, done } => {
                *done = true;
                input.take(*max as u64 + 1).read_to_end(payload)?;
                match payload.len() > *max {
                    true => Err(too_long(*max)),
                    false => Ok(true),
                }
            }
            Self::Generated { left: 0, .. } => Ok(false),
            Self::Generated { size, left, next } => {
                payload.extend_from_slice(next.to_string().as_bytes());
                payload.resize(*size, b'.');
                *left -= 1;
                *next += 1;
                Ok(true)
            }
        }
    }
}

impl<R: AsFd> Source<R> {
    /// Whether a payload, or at least a part of one, comes within `patience`. If so, the next read
    /// does not wait.
    pub(crate) fn is_ready(&self, patience: Duration) -> io::Result<bool> {
        let input = match self {
            Self::Lines { input, .. }
            | Self::Whole {
                input, done: false, ..
            } => input,
            Self::Whole { .. } | Self::Generated { .. } => return Ok(true),
        };
        if !input.buffer().is_empty() {
            return Ok(true);
        }
        let mut input = [PollFd::new(input.get_ref(), PollFlags::IN)];
        let patience = Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        match poll(&mut input, Some(&patience)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn too_long(max: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it is longer than a message may be ({max} bytes)"),
    )
}

fn read_line(input: &mut BufReader<impl Read>, max: usize, line: &mut Vec<u8>) -> io::Result<bool> {
    let mut begun = false;
    loop {
        let available = match input.fill_buf() {
            Ok([]) => return Ok(begun),
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        begun = true;
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..newline.unwrap_or(available.len())];
        if line.len() + part.len() > max {
            return Err(too_long(max));
        }
        line.extend_from_slice(part);
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn lines(text: &'static [u8], buffer: usize) -> Vec<Vec<u8>> {
        let mut source = Source::Lines {
            input: BufReader::with_capacity(buffer, Cursor::new(text)),
            max: 16,
        };
        let mut all = Vec::new();
        let mut payload = Vec::new();
        while source.read(&mut payload).unwrap() {
            all.push(std::mem::take(&mut payload));
        }
        all
    }

    #[test]
    fn a_line_is_a_message_whatever_the_buffer() {
        for buffer in [1, 2, 3, 64] {
            assert_eq!(
                lines(b"one\n\ncr\r\n\xff\nlast", buffer),
                [&b"one"[..], b"", b"cr\r", b"\xff", b"last"],
                "with a buffer of {buffer} bytes"
            );
            assert_eq!(lines(b"", buffer), Vec::<Vec<u8>>::new());
            assert_eq!(lines(b"\n", buffer), [b""]);
        }
    }

    #[test]
    fn a_line_longer_than_a_message_is_an_error_before_it_is_in_memory() {
        let mut source = Source::lines(Cursor::new([b'x'; 4096]), 16);
        let mut payload = Vec::new();
        let error = source.read(&mut payload).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is longer than a message may be (16 bytes)"
        );
        assert!(payload.len() <= 16);
    }

    #[test]
    fn all_of_an_input_is_one_message() {
        let text = b"one\n\r\ntwo\n";
        let mut source = Source::whole(Cursor::new(text), text.len());
        let mut payload = Vec::new();
        assert!(source.read(&mut payload).unwrap());
        assert_eq!(payload, text);
        assert!(!source.read(&mut payload).unwrap());
        let mut empty = Source::whole(Cursor::new([]), 16);
        payload.clear();
        assert!(empty.read(&mut payload).unwrap() && payload.is_empty());
        let mut long = Source::whole(Cursor::new(text), text.len() - 1);
        let error = long.read(&mut payload).unwrap_err();
        assert!(error.to_string().contains("longer than a message may be"));
    }

    #[test]
    fn generated_messages_are_of_equal_size_and_numbered() {
        let mut source = Source::<File>::generated(4, 2);
        let mut payload = Vec::new();
        assert!(source.read(&mut payload).unwrap());
        assert_eq!(payload, b"1...");
        payload.clear();
        assert!(source.read(&mut payload).unwrap());
        assert_eq!(payload, b"2...");
        payload.clear();
        assert!(!source.read(&mut payload).unwrap());
        let mut empty = Source::<File>::generated(0, 1);
        assert!(empty.read(&mut payload).unwrap());
        assert!(payload.is_empty(), "cut off at the size");
    }
}
