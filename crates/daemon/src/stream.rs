//! A client's connection, whichever kind of socket it came by.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use groupcast_tls::TlsStream;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The user of the process at the other end, where the system knows it.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Unix(stream) => {
                let process = rustix::net::sockopt::socket_peercred(stream).ok()?;
                Some(process.uid.as_raw())
            }
            Self::Tcp(_) | Self::Tls(_) => None,
        }
    }

    /// Whether the two sides have not agreed on keys yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.is_handshaking())
    }

    /// The names of the certificate that a client showed.
    pub(crate) fn certificate(&self) -> Vec<String> {
        match self {
            Self::Tls(stream) => stream.peer_names(),
            Self::Unix(_) | Self::Tcp(_) => Vec::new(),
        }
    }

    /// What reading has cost since the last call, beside the bytes that were read.
    pub(crate) fn take_work(&mut self) -> usize {
        match self {
            Self::Unix(_) | Self::Tcp(_) => 0,
            Self::Tls(stream) => stream.take_work(),
        }
    }

    /// Whether something that was written waits for room.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_unsent())
    }

    /// Wants an event when there is something to read.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Tcp(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Tls(stream) => registry.register(stream.socket_mut(), token, Interest::READABLE),
        }
    }

    /// Sends nothing more; false if the connection can as well be closed at once.
    pub(crate) fn end_output(&mut self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).is_ok(),
            Self::Tls(stream) => {
                stream.end_output();
                // Without room for it, the client learns of the end by that of the socket.
                let _ = stream.flush();
                stream.socket().shutdown(Shutdown::Write).is_ok()
            }
        }
    }

    /// Also wants an event when there is room to write, or no longer does. It is not always on: the
    /// kernel would wake the daemon whenever the client reads.
    pub(crate) fn watch_room(
        &mut self,
        registry: &Registry,
        token: Token,
        watch: bool,
    ) -> io::Result<()> {
        let interest = if watch {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        match self {
            Self::Unix(stream) => registry.reregister(stream, token, interest),
            Self::Tcp(stream) => registry.reregister(stream, token, interest),
            Self::Tls(stream) => registry.reregister(stream.socket_mut(), token, interest),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(parts),
            Self::Tcp(stream) => stream.write_vectored(parts),
            Self::Tls(stream) => stream.write_vectored(parts),
        }
    }

    /// An error of the kind `WouldBlock`: something waits for room.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
