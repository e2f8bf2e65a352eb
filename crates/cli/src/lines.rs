//! The messages of `pub`: each line of a file or pipe, all of it as one message, or generated ones.
//!
//! Reading never takes more than one line into memory, and never waits for the rest of a line: what
//! is there of it is taken, and the caller can do something else before it looks again. A line is
//! everything up to a newline, which is taken off; a carriage return stays, an empty line is an
//! empty message, and a last line without a newline counts.

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

/// What one look at the input has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// The payload is whole.
    Whole,
    /// A part of it: the next look goes on.
    Part,
    /// There is no payload any more.
    End,
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

    /// Takes more of the next payload into `payload`, which is empty before the first part of it,
    /// and reads the input once at most.
    pub(crate) fn take(&mut self, payload: &mut Vec<u8>) -> io::Result<Taken> {
        match self {
            Self::Lines { input, max } => take_line(input, *max, payload),
            Self::Whole { done: true, .. } => Ok(Taken::End),
            Self::Whole { input, max, done } => {
                let Some(available) = fill(input)? else {
                    return Ok(Taken::Part);
                };
                if payload.len() + available.len() > *max {
                    return Err(too_long(*max));
                }
                payload.extend_from_slice(available);
                *done = available.is_empty();
                let len = available.len();
                input.consume(len);
                match *done {
                    true => Ok(Taken::Whole),
                    false => Ok(Taken::Part),
                }
            }
            Self::Generated { left: 0, .. } => Ok(Taken::End),
            Self::Generated { size, left, next } => {
                payload.extend_from_slice(next.to_string().as_bytes());
                payload.resize(*size, b'.');
                *left -= 1;
                *next += 1;
                Ok(Taken::Whole)
            }
        }
    }
}

impl<R: AsFd> Source<R> {
    /// Whether a payload, or at least a part of one, comes within `patience`. If so, the next look
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

fn take_line(
    input: &mut BufReader<impl Read>,
    max: usize,
    line: &mut Vec<u8>,
) -> io::Result<Taken> {
    let Some(available) = fill(input)? else {
        return Ok(Taken::Part);
    };
    if available.is_empty() {
        // The last line may have no newline.
        return Ok(match line.is_empty() {
            true => Taken::End,
            false => Taken::Whole,
        });
    }
    let newline = available.iter().position(|byte| *byte == b'\n');
    let part = &available[..newline.unwrap_or(available.len())];
    if line.len() + part.len() > max {
        return Err(too_long(max));
    }
    line.extend_from_slice(part);
    let used = part.len() + usize::from(newline.is_some());
    input.consume(used);
    Ok(match newline {
        Some(_) => Taken::Whole,
        None => Taken::Part,
    })
}

/// What is there, read once if nothing is; `None` if a signal came instead.
fn fill<R: Read>(input: &mut BufReader<R>) -> io::Result<Option<&[u8]>> {
    match input.fill_buf() {
        Ok(available) => Ok(Some(available)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The next payload, however many looks it takes.
    fn next<R: Read>(source: &mut Source<R>) -> io::Result<Option<Vec<u8>>> {
        let mut payload = Vec::new();
        loop {
            match source.take(&mut payload)? {
                Taken::Whole => return Ok(Some(payload)),
                Taken::Part => {}
                Taken::End => return Ok(None),
            }
        }
    }

    fn lines(text: &'static [u8], buffer: usize) -> Vec<Vec<u8>> {
        let mut source = Source::Lines {
            input: BufReader::with_capacity(buffer, Cursor::new(text)),
            max: 16,
        };
        std::iter::from_fn(|| next(&mut source).unwrap()).collect()
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
        let error = source.take(&mut payload).unwrap_err();
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
        assert_eq!(next(&mut source).unwrap().unwrap(), text);
        assert_eq!(next(&mut source).unwrap(), None);
        let mut empty = Source::whole(Cursor::new([]), 16);
        assert_eq!(next(&mut empty).unwrap().unwrap(), b"");
        let mut long = Source::whole(Cursor::new(text), text.len() - 1);
        let error = next(&mut long).unwrap_err();
        assert!(error.to_string().contains("longer than a message may be"));
    }

    #[test]
    fn a_part_of_a_line_is_no_reason_to_wait() {
        let (mut there, here) = UnixStream::pair().unwrap();
        let mut source = Source::lines(here, 16);
        there.write_all(b"one\ntwo").unwrap();
        let mut payload = Vec::new();
        assert!(source.is_ready(Duration::ZERO).unwrap());
        assert_eq!(source.take(&mut payload).unwrap(), Taken::Whole);
        assert_eq!(std::mem::take(&mut payload), b"one");
        assert!(source.is_ready(Duration::ZERO).unwrap());
        assert_eq!(source.take(&mut payload).unwrap(), Taken::Part);
        assert!(!source.is_ready(Duration::ZERO).unwrap());
        there.write_all(b" and\n").unwrap();
        assert_eq!(source.take(&mut payload).unwrap(), Taken::Whole);
        assert_eq!(payload, b"two and");
    }

    #[test]
    fn generated_messages_are_of_equal_size_and_numbered() {
        let mut source = Source::<File>::generated(4, 2);
        assert_eq!(next(&mut source).unwrap().unwrap(), b"1...");
        assert_eq!(next(&mut source).unwrap().unwrap(), b"2...");
        assert_eq!(next(&mut source).unwrap(), None);
        let mut empty = Source::<File>::generated(0, 1);
        let cut_off = next(&mut empty).unwrap().unwrap();
        assert!(cut_off.is_empty(), "cut off at the size");
    }
}
