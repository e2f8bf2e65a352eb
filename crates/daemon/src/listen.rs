//! The listeners for clients: the Unix socket, a TCP address if one is configured, and the
//! addresses of the bus.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use groupcast_session::frame::AccessToken;
use groupcast_tls::Server;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt;

use crate::bus::BusStream;
use crate::config::{BusAddress, speaks_tls};
use crate::error::DaemonError;
use crate::stream::Stream;
use crate::trace::Traces;

/// A Unix socket; its file is removed on drop.
#[derive(Debug)]
pub(crate) struct UnixAcceptor {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and inode: the file may have been replaced since.
    file: (u64, u64),
}

impl UnixAcceptor {
    /// The mode of the socket's file: the daemon's user and group may connect.
    const MODE: u32 = 0o660;

    /// Listens at `path`. A socket file that a dead daemon has left is replaced; anything else at
    /// the path is an error.
    pub(crate) fn open(path: &Path) -> Result<Self, DaemonError> {
        clear(path)?;
        let failed = |source| DaemonError::Socket {
            path: path.to_owned(),
            source,
        };
        let listener = StdUnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(Self::MODE)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener: UnixListener::from_std(listener),
            path: path.to_owned(),
            file: (metadata.dev(), metadata.ino()),
        })
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        self.listener
            .accept()
            .map(|(stream, _)| Stream::Unix(stream))
    }
}

impl Drop for UnixAcceptor {
    fn drop(&mut self) {
        let still_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if still_ours {
            // A file that cannot be removed is replaced by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket file at `path`, unless a daemon listens on it.
fn clear(path: &Path) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::Socket {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(DaemonError::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    // mio's connect does not wait: a listener that accepts nothing would keep this daemon from
    // starting.
    match UnixStream::connect(path) {
        Ok(_) => Err(DaemonError::SocketInUse {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(DaemonError::SocketInUse {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The TCP address for clients.
#[derive(Debug)]
pub(crate) struct TcpAcceptor {
    pub(crate) listener: TcpListener,
    /// The TLS configuration; without it clients speak in clear.
    tls: Option<Server>,
}

impl TcpAcceptor {
    pub(crate) fn open(address: SocketAddr, tls: Option<Server>) -> Result<Self, DaemonError> {
        TcpListener::bind(address)
            .map(|listener| Self { listener, tls })
            .map_err(|source| DaemonError::ClientListen { address, source })
    }

    /// Accepts later connections with `tls`; existing ones stay as they are.
    pub(crate) fn set_tls(&mut self, tls: Server) {
        self.tls = Some(tls);
    }

    /// The TLS configuration, unless clients speak in clear.
    pub(crate) fn tls(&self) -> Option<&Server> {
        self.tls.as_ref()
    }

    /// The address that it is bound to, with the port that the system chose if none was given.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        let (stream, _) = self.listener.accept()?;
        // Short frames must not wait for an acknowledgement, and batches are written at once
        // anyway.
        stream.set_nodelay(true)?;
        ask_whether_it_is_there(&stream)?;
        match &self.tls {
            None => Ok(Stream::Tcp(stream)),
            Some(tls) => {
                let stream = tls.accept(stream).map_err(io::Error::other)?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }
}

/// A client whose host is silent for this long is asked whether it is there,
const SILENT_FOR: Duration = Duration::from_secs(10);
/// then each time after this,
const ASKED_EACH: Duration = Duration::from_secs(5);
/// and this often in vain: then the connection ends.
const ASKED_AT_MOST: u32 = 3;
/// So long a host is silent then. The system asks only when nothing is under way to it; a host that
/// does not acknowledge what is under way may be silent for as long
/// ([`Clients`](crate::clients::Clients) looks).
pub(crate) const SILENCE_MAX: Duration =
    SILENT_FOR.saturating_add(ASKED_EACH.saturating_mul(ASKED_AT_MOST));

/// Has the system ask the other host now and then, when nothing is under way. A client whose host
/// is gone without a word would keep its name, its groups and its locks for ever.
fn ask_whether_it_is_there(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, SILENT_FOR)?;
    sockopt::set_tcp_keepintvl(stream, ASKED_EACH)?;
    sockopt::set_tcp_keepcnt(stream, ASKED_AT_MOST)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

/// A listener for clients of the bus.
#[derive(Debug)]
pub(crate) enum BusAcceptor {
    Unix(UnixAcceptor),
    Tcp(TcpAcceptor),
}

impl BusAcceptor {
    /// Listens at `address`, with `tls` unless it is a loopback address.
    pub(crate) fn open(address: &BusAddress, tls: Option<&Server>) -> Result<Self, DaemonError> {
        let opened = match address {
            BusAddress::Unix(path) => UnixAcceptor::open(path).map(Self::Unix),
            BusAddress::Tcp(address) => {
                let tls = tls.filter(|_| speaks_tls(*address)).cloned();
                TcpAcceptor::open(*address, tls).map(Self::Tcp)
            }
        };
        opened.map_err(|error| DaemonError::Bus(error.into()))
    }

    /// Registers for events when a connection waits.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(unix) => registry.register(&mut unix.listener, token, Interest::READABLE),
            Self::Tcp(tcp) => registry.register(&mut tcp.listener, token, Interest::READABLE),
        }
    }

    /// The TCP address that it is bound to, with the port that the system chose if none was given.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(tcp) => tcp.address(),
        }
    }

    /// The listener over TCP, if there is one.
    pub(crate) fn tcp(&self) -> Option<&TcpAcceptor> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(tcp) => Some(tcp),
        }
    }

    /// The listener over TCP, if clients speak TLS there.
    pub(crate) fn tls_mut(&mut self) -> Option<&mut TcpAcceptor> {
        match self {
            Self::Tcp(tcp) if tcp.tls.is_some() => Some(tcp),
            Self::Unix(_) | Self::Tcp(_) => None,
        }
    }

    /// Accepts a connection. Its client shows the daemon `token`, and its traces go to `traces`.
    pub(crate) fn accept(
        &self,
        token: Option<AccessToken>,
        traces: Option<Traces>,
    ) -> io::Result<Stream> {
        let socket = match self {
            Self::Unix(unix) => unix.accept(),
            Self::Tcp(tcp) => tcp.accept(),
        };
        socket.map(|socket| Stream::Bus(Box::new(BusStream::new(socket, token, traces))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gc-listen-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_socket_is_for_its_user_and_group_and_goes_with_its_daemon() {
        let directory = directory("goes");
        let path = directory.join("s");
        let acceptor = UnixAcceptor::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert!(matches!(
            UnixAcceptor::open(&path),
            Err(DaemonError::SocketInUse { .. })
        ));
        drop(acceptor);
        assert!(!path.exists());
        fs::remove_dir_all(directory).unwrap();
    }

    /// Clients of the bus come by the same listener.
    #[test]
    fn a_client_of_another_host_is_asked_whether_it_is_there() {
        let acceptor = TcpAcceptor::open(([127, 0, 0, 1], 0).into(), None).unwrap();
        let client = std::net::TcpStream::connect(acceptor.address().unwrap()).unwrap();
        let accepted = loop {
            match acceptor.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => break other.unwrap(),
            }
        };
        let Stream::Tcp(stream) = &accepted else {
            panic!("it is a client over TCP");
        };
        assert!(sockopt::socket_keepalive(stream).unwrap());
        assert!(!sockopt::socket_keepalive(&client).unwrap());
        assert_eq!(sockopt::tcp_keepidle(stream).unwrap(), SILENT_FOR);
        assert_eq!(sockopt::tcp_keepintvl(stream).unwrap(), ASKED_EACH);
        assert_eq!(sockopt::tcp_keepcnt(stream).unwrap(), ASKED_AT_MOST);
    }

    #[test]
    fn a_listener_that_accepts_nothing_does_not_keep_a_daemon_waiting() {
        let directory = directory("full");
        let path = directory.join("s");
        let listener = StdUnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let waiting: Vec<_> = std::iter::from_fn(|| UnixStream::connect(&path).ok())
            .take(1_000)
            .collect();
        assert!(waiting.len() < 1_000, "its queue is full");
        assert!(matches!(
            UnixAcceptor::open(&path),
            Err(DaemonError::SocketInUse { .. })
        ));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_file_is_not() {
        let directory = directory("stale");
        let path = directory.join("s");
        // The standard listener leaves its file behind, as a killed daemon does.
        drop(StdUnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let acceptor = UnixAcceptor::open(&path).unwrap();
        let second = directory.join("file");
        fs::write(&second, "precious").unwrap();
        assert!(matches!(
            UnixAcceptor::open(&second),
            Err(DaemonError::NotASocket { .. })
        ));
        assert_eq!(fs::read(&second).unwrap(), b"precious");

        // Another process has replaced the file meanwhile: it stays.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        drop(acceptor);
        assert!(path.exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
