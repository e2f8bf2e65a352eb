//! A client's connection, whichever kind of socket it came by.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// The user of the process at the other end, where the system knows it.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Unix(stream) => {
                let process = rustix::net::sockopt::socket_peercred(stream).ok()?;
                Some(process.uid.as_raw())
            }
            Self::Tcp(_) => None,
        }
    }

    /// Wants an event when there is something to read.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Tcp(stream) => registry.register(stream, token, Interest::READABLE),
        }
    }

    /// Sends nothing more; false if the connection can as well be closed at once.
    pub(crate) fn end_output(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).is_ok(),
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
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(parts),
            Self::Tcp(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
