//! A connection to the bus, whichever kind of socket it is.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use groupcast_client::connect_unix;

use super::place::Place;
use crate::failure::Failure;
use crate::server::Server;

#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// How long connecting may take.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(10);

impl Socket {
    pub(super) fn connect(place: &Place) -> Result<Self, Failure> {
        Self::connect_within(place, CONNECT_WITHIN)
    }

    fn connect_within(place: &Place, within: Duration) -> Result<Self, Failure> {
        let connected = match place {
            Place::Unix(path) => connect_unix(path, within).and_then(|stream| {
                stream.set_nonblocking(false)?;
                Ok(Self::Unix(stream))
            }),
            Place::Tcp(server) => connect_tcp(server, within)?.map(Self::Tcp),
        };
        connected.map_err(|error| match place {
            // The system refuses this as it does where nobody listens.
            Place::Unix(path) if is_no_socket(path) => {
                Failure::failed(format!("{place} is no socket"))
                    .help("name the socket that `groupcast daemon --bus` names")
            }
            _ => Failure::failed(format!("cannot connect to the bus at {place}: {error}"))
                .help("start the daemon with `--bus` and this address"),
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

/// Whether `path` leads to something else than a socket.
fn is_no_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Connects to the first address of `server` where somebody listens; what the last of them said if
/// there is none. Each has an equal share of the time that is left.
///
/// # Errors
/// Its name has no address.
pub(super) fn connect_tcp(
    server: &Server,
    within: Duration,
) -> Result<io::Result<TcpStream>, Failure> {
    let addresses = server.addresses()?;
    let begun = Instant::now();
    let mut connected = Err(io::ErrorKind::TimedOut.into());
    for (at, address) in addresses.iter().enumerate() {
        let others = (addresses.len() - at) as u32;
        let left = within.saturating_sub(begun.elapsed()) / others;
        if left.is_zero() {
            break;
        }
        connected = TcpStream::connect_timeout(address, left);
        if connected.is_ok() {
            break;
        }
    }
    Ok(connected.and_then(|stream| {
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_daemon_that_accepts_nothing_is_waited_for_no_longer_than_told() {
        let path = std::env::temp_dir().join(format!("gc-bus-full-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let place = Place::Unix(path.clone());
        let mut held = Vec::new();
        let failure = loop {
            match Socket::connect_within(&place, Duration::from_millis(50)) {
                Ok(socket) => held.push(socket),
                Err(failure) => break failure,
            }
        };
        assert!(format!("{failure:?}").contains("timed out"), "{failure:?}");
        assert!(held.len() <= 2, "{} in a row without room", held.len());
        std::fs::remove_file(path).unwrap();
    }
}
