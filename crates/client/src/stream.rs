//! The stream to the daemon: non-blocking; only [`Stream::wait`] waits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::address::{Address, candidates};
use crate::error::ConnectError;
use crate::unix::connect_unix;

/// A stream to a daemon.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<groupcast_tls::TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn connect(address: &Address, within: Duration) -> Result<Self, ConnectError> {
        let stream = match address {
            Address::Default => Self::connect_default(within)?,
            Address::Unix(path) => Self::connect_unix(path, within)?,
            Address::Tcp(address) => Self::Tcp(connect_tcp(*address, within)?),
            #[cfg(feature = "tls")]
            Address::Tls { address, name, tls } => {
                let socket = connect_tcp(*address, within)?;
                let stream = tls.connect(socket, address.ip(), name.as_deref());
                let stream = stream.map_err(|error| ConnectError::Untrusted {
                    address: address.to_string(),
                    why: error.to_string(),
                })?;
                Self::Tls(Box::new(stream))
            }
        };
        let prepare = |socket: &TcpStream| {
            socket
                .set_nodelay(true)
                .and_then(|()| socket.set_nonblocking(true))
        };
        let prepared = match &stream {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => prepare(stream),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => prepare(stream.socket()),
        };
        prepared.map_err(|source| ConnectError::Io {
            address: address.to_string(),
            source,
        })?;
        Ok(stream)
    }

    /// Tries the default sockets in turn, all of them together within `within`. The error is that
    /// of the first one where a daemon listens, or else that of the first one.
    fn connect_default(within: Duration) -> Result<Self, ConnectError> {
        let mut first: Option<ConnectError> = None;
        let begun = Instant::now();
        for path in candidates() {
            let left = within.saturating_sub(begun.elapsed());
            match check_owner(path).and_then(|path| Self::connect_unix(&path, left)) {
                Ok(stream) => return Ok(stream),
                // The time for all of them is over.
                Err(ConnectError::TimedOut { address, .. }) => {
                    let waited = within;
                    return Err(ConnectError::TimedOut { address, waited });
                }
                Err(error) => match &first {
                    None => first = Some(error),
                    Some(ConnectError::NoDaemon { .. }) => {
                        if !matches!(error, ConnectError::NoDaemon { .. }) {
                            first = Some(error);
                        }
                    }
                    Some(_) => {}
                },
            }
        }
        Err(first.expect("there is at least one candidate"))
    }

    fn connect_unix(path: &Path, within: Duration) -> Result<Self, ConnectError> {
        connect_unix(path, within)
            .map(Self::Unix)
            .map_err(|source| match source.kind() {
                io::ErrorKind::ConnectionRefused if is_no_socket(path) => {
                    ConnectError::NoSocket { path: path.into() }
                }
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    ConnectError::NoDaemon {
                        path: path.into(),
                        source,
                    }
                }
                io::ErrorKind::PermissionDenied => ConnectError::Forbidden {
                    path: path.into(),
                    source,
                },
                io::ErrorKind::TimedOut => ConnectError::TimedOut {
                    address: path.display().to_string(),
                    waited: within,
                },
                _ => ConnectError::Io {
                    address: path.display().to_string(),
                    source,
                },
            })
    }

    /// Waits until there is something to read, or, with `writes`, room to write; or until
    /// `deadline`. Writes pending TLS records meanwhile.
    pub(crate) fn wait(&mut self, writes: bool, deadline: Option<Instant>) -> io::Result<Ready> {
        loop {
            if self.has_unread() {
                return Ok(Ready {
                    read: true,
                    write: false,
                });
            }
            let unsent = self.has_unsent();
            let mut flags = PollFlags::IN;
            if writes || unsent {
                flags |= PollFlags::OUT;
            }
            let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let timespec = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            let mut fds = [PollFd::new(self, flags)];
            match poll(&mut fds, timespec.as_ref()) {
                Ok(_) => {
                    let events = fds[0].revents();
                    let failed = events.intersects(PollFlags::ERR | PollFlags::HUP);
                    let ready = Ready {
                        read: events.contains(PollFlags::IN) || failed,
                        write: events.contains(PollFlags::OUT),
                    };
                    if unsent && ready.write {
                        self.flush()?;
                        if !writes && !ready.read {
                            continue;
                        }
                    }
                    return Ok(ready);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Reads into `buffer`; `None` if there is nothing to read now.
    pub(crate) fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        not_now(match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => loop {
                match stream.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    done => break done,
                }
            },
        })
    }

    /// Writes as much as there is room for; `None` if there is none now.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        not_now(match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        })
    }

    /// Whether bytes can be read that have left the socket already.
    fn has_unread(&mut self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.has_unread(),
        }
    }

    /// Whether written bytes wait for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.has_unsent(),
        }
    }

    /// Writes pending TLS records, as far as there is room.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match stream.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                flushed => flushed,
            },
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.socket().as_fd(),
        }
    }
}

/// Whether `path` leads to something else than a socket. The system refuses to connect to that as
/// it does where nobody listens.
fn is_no_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

fn connect_tcp(address: SocketAddr, within: Duration) -> Result<TcpStream, ConnectError> {
    TcpStream::connect_timeout(&address, within).map_err(|source| match source.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::NoServer { address, source },
        io::ErrorKind::TimedOut => ConnectError::TimedOut {
            address: address.to_string(),
            waited: within,
        },
        _ => ConnectError::Io {
            address: address.to_string(),
            source,
        },
    })
}

/// The readiness of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

fn not_now(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Checks the owner of a socket at a default path. Any user can make a socket in `/tmp`, so only
/// those of this user and the superuser are trusted.
fn check_owner(path: PathBuf) -> Result<PathBuf, ConnectError> {
    let euid = rustix::process::geteuid().as_raw();
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.uid() != euid && metadata.uid() != 0 => {
            Err(ConnectError::Stranger {
                path,
                owner: metadata.uid(),
            })
        }
        // If this fails, connecting will fail with a better error.
        _ => Ok(path),
    }
}
