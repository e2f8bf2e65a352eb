//! A socket to the bus, whichever kind it is, that never waits longer than it is told.

use std::fmt;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};

use crate::error::{Code, Error};

/// The pause between two attempts to connect to a Unix socket that has no room for one more
/// connection.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
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

    /// After `time` from now, and no later than this.
    pub(crate) fn within(self, time: Option<Duration>) -> Self {
        let other = Self::after(time);
        Self(self.0.into_iter().chain(other.0).min())
    }

    /// What is left.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// Ends what other threads wait for, once and for all.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<OwnedFd>);

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    pub(crate) fn set(&self) {
        // It can only fail because it was set more often than can be counted.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for `time`; returns whether it was set.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let limit = timespec(time);
        poll(&mut [PollFd::new(&*self.0, PollFlags::IN)], Some(&limit)) == Ok(1)
    }
}

/// `time` as the system takes it, or the longest that it takes.
fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// What a wait has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// Nothing before the deadline.
    InVain,
    Ready,
    /// The stop was set.
    Stopped,
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
            Address::Unix(path) => connect_unix(path, deadline).map(Self::Unix),
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

    /// Waits until it can be read, or written if `writes`, or `stop` is set; which it is.
    pub(crate) fn wait(
        &self,
        writes: bool,
        stop: Option<&Stop>,
        deadline: Deadline,
    ) -> io::Result<Waited> {
        let flags = match writes {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        loop {
            let limit = deadline.left().map(timespec);
            let mut polled = vec![PollFd::new(self, flags)];
            polled.extend(stop.map(|stop| PollFd::new(&*stop.0, PollFlags::IN)));
            match poll(&mut polled, limit.as_ref()) {
                Ok(0) => return Ok(Waited::InVain),
                Ok(_) if polled.iter().skip(1).any(|it| !it.revents().is_empty()) => {
                    return Ok(Waited::Stopped);
                }
                Ok(_) => return Ok(Waited::Ready),
                // A signal of the program is none of ours.
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Connects to the Unix socket at `path`. The system waits without a limit for room in the row of
/// connections that are not accepted yet, so it is asked not to wait.
///
/// `groupcast-client` has the same. What programs in C link has nothing of the daemon's clients,
/// and no crate below both has sockets.
fn connect_unix(path: &Path, deadline: Deadline) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let left = deadline.left().unwrap_or(ROOM_PAUSE);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(left.min(ROOM_PAUSE));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_nobody_accepts_takes_no_longer_than_told() {
        let path = std::env::temp_dir().join(format!("gcb-full-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = Address::Unix(path.clone());
        let connect =
            || Socket::connect(&address, Deadline::after(Some(Duration::from_millis(50))));
        let mut held = Vec::new();
        let error = loop {
            match connect() {
                Ok(socket) => held.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(held.len() <= 2, "{} in a row without room", held.len());
        std::fs::remove_file(path).unwrap();
    }
}
