//! A connection to the bus, whichever kind of socket it is.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use super::place::Place;
use crate::failure::Failure;
use crate::server::Server;

#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(super) fn connect(place: &Place) -> Result<Self, Failure> {
        let connected = match place {
            Place::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Place::Tcp(server) => connect_tcp(server)?.map(Self::Tcp),
        };
        connected.map_err(|error| {
            Failure::failed(format!("cannot connect to the bus at {place}: {error}"))
                .help("start the daemon with `--bus` and this address")
        })
    }

    /// The same connection once more.
    pub(super) fn again(&self) -> Result<Self, Failure> {
        let again = match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        };
        again.map_err(super::broken)
    }

    /// How long a read may wait for something; `None`: for ever.
    pub(super) fn read_within(&self, within: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(within),
            Self::Tcp(stream) => stream.set_read_timeout(within),
        }
    }

    /// Sends nothing more.
    pub(super) fn end(&mut self) {
        // If it has ended already, the reader knows.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// Sends nothing more, and reads nothing more than what has come.
    pub(super) fn end_both(&mut self) {
        // If it has ended already, the reader knows.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Standard input and output of a process.
    pub(super) fn into_stdio(self) -> Result<(Stdio, Stdio), Failure> {
        let input = self.again()?;
        let stdio = |socket| match socket {
            Self::Unix(stream) => Stdio::from(OwnedFd::from(stream)),
            Self::Tcp(stream) => Stdio::from(OwnedFd::from(stream)),
        };
        Ok((stdio(input), stdio(self)))
    }
}

/// Connects to the first address of `server` where somebody listens; what the last of them said if
/// there is none.
///
/// # Errors
/// Its name has no address.
pub(super) fn connect_tcp(server: &Server) -> Result<io::Result<TcpStream>, Failure> {
    let addresses = server.addresses()?;
    Ok(TcpStream::connect(&addresses[..]).and_then(|stream| {
        stream.set_nodelay(true)?;
        Ok(stream)
    }))
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
