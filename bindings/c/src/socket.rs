//! A socket to the bus, whichever kind it is, that never waits longer than it is told.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};

use crate::error::{Code, Error};

/// Where a bus is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            let text = format!("`{text}` is no address of a bus: use IP:PORT or unix:PATH");
            Error::new(Code::Address, text)
        })
    }
}

/// Until when something may take; `None` for as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// After `time` from now.
    pub(crate) fn after(time: Option<Duration>) -> Self {
        Self(time.and_then(|time| Instant::now().checked_add(time)))
    }

    /// What is left.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn connect(address: &Address, deadline: Deadline) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Unix(stream))
            }
            Address::Tcp(address) => {
                let stream = match deadline.left() {
                    Some(left) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                    Some(left) => TcpStream::connect_timeout(address, left)?,
                    None => TcpStream::connect(address)?,
                };
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Writes some of `bytes`. A peer that has gone is an error, and no signal to the program.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Waits until it can be read, or written if `writes`; whether it can before the deadline.
    pub(crate) fn wait(&self, writes: bool, deadline: Deadline) -> io::Result<bool> {
        let flags = match writes {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        loop {
            let left = deadline.left();
            let limit = left.map(|left| Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            match poll(&mut [PollFd::new(self, flags)], limit.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                // A signal of the program is none of ours.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
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
