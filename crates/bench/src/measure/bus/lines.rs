//! A measuring program's connection to the bus: lines and deliveries out of what its socket reads,
//! without a copy of a delivery.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes that are read at once, at least.
const READ_BLOCK: usize = 256 << 10;

/// A socket of either kind.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Connects to `unix:PATH` or `IP:PORT`.
    pub(super) fn connect(address: &str) -> io::Result<Self> {
        match address.strip_prefix("unix:") {
            Some(path) => UnixStream::connect(path).map(Self::Unix),
            None => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    pub(super) fn again(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        let patience = Some(patience.max(Duration::from_millis(1)));
        match self {
            Self::Unix(stream) => stream.set_read_timeout(patience),
            Self::Tcp(stream) => stream.set_read_timeout(patience),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the bus said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// The message of a delivery.
    Message(&'a [u8]),
}

/// Cuts what a socket reads.
#[derive(Debug)]
pub(super) struct Lines<R> {
    source: R,
    bytes: Vec<u8>,
    /// What of them is not given out.
    left: Range<usize>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            bytes: Vec::new(),
            left: 0..0,
        }
    }

    /// What comes next; `None` if the source has nothing now.
    ///
    /// # Errors
    /// Those of the source, `UnexpectedEof` at its end, `InvalidData` where a delivery has no
    /// length.
    pub(super) fn next(&mut self) -> io::Result<Option<Said<'_>>> {
        let item = loop {
            if let Some(item) = cut(&self.bytes[self.left.clone()])? {
                break item;
            }
            if !self.fill()? {
                return Ok(None);
            }
        };
        let from = self.left.start;
        self.left.start += item.end;
        let bytes = &self.bytes[from + item.said.start..from + item.said.end];
        Ok(Some(match item.is_message {
            true => Said::Message(bytes),
            false => Said::Line(bytes),
        }))
    }

    /// Reads more; whether something came.
    fn fill(&mut self) -> io::Result<bool> {
        if self.bytes.len() - self.left.end < READ_BLOCK {
            self.bytes.copy_within(self.left.clone(), 0);
            self.left = 0..self.left.len();
            let wanted = self.left.end + 2 * READ_BLOCK;
            if self.bytes.len() < wanted {
                self.bytes.resize(wanted, 0);
            }
        }
        match self.source.read(&mut self.bytes[self.left.end..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.left.end += len;
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            },
        }
    }
}

impl Lines<Socket> {
    /// From now on [`next`](Self::next) waits this long.
    pub(super) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.source.set_patience(patience)
    }
}

/// Where the first item of some bytes stands.
struct Cut {
    said: Range<usize>,
    is_message: bool,
    end: usize,
}

fn cut(bytes: &[u8]) -> io::Result<Option<Cut>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let line = &bytes[..end];
    if !line.starts_with(b"msg ") {
        return Ok(Some(Cut {
            said: 0..end,
            is_message: false,
            end: end + 1,
        }));
    }
    let digits = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let length = digits.iter().try_fold(0_usize, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    });
    let Some(length) = length.filter(|_| !digits.is_empty()) else {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "a delivery has no length",
        ));
    };
    let (from, until) = (end + 1, end + 1 + length);
    Ok((bytes.len() > until).then_some(Cut {
        said: from..until,
        is_message: true,
        end: until + 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            bytes[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn lines_and_deliveries_are_told_apart_however_they_come() {
        let text = b"bus 1 a@h\nmsg t d raw 4\nok\n\x1b\nok\nmsg t d 0\n\n";
        let mut lines = Lines::new(Slow(text));
        for expected in [
            Said::Line(b"bus 1 a@h"),
            Said::Message(b"ok\n\x1b"),
            Said::Line(b"ok"),
            Said::Message(b""),
        ] {
            assert_eq!(lines.next().unwrap(), Some(expected));
        }
        let end = lines.next().unwrap_err().kind();
        assert_eq!(end, ErrorKind::UnexpectedEof);
        let mut lines = Lines::new(&b"msg t d\n"[..]);
        assert_eq!(lines.next().unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
