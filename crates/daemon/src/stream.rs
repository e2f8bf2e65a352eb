//! A client's connection, over any kind of socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::Duration;

use groupcast_net::tcp;
use groupcast_session::groups::{InputAhead, Transport};
use groupcast_tls::TlsStream;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::bus::BusStream;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// One of the others, with the bus on top of it.
    Bus(Box<BusStream>),
}

impl Stream {
    /// The user of the process at the other end, if the system knows it.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Unix(stream) => {
                let process = rustix::net::sockopt::socket_peercred(stream).ok()?;
                Some(process.uid.as_raw())
            }
            Self::Tcp(_) | Self::Tls(_) => None,
            Self::Bus(stream) => stream.socket().user(),
        }
    }

    /// The address at the other end, over TCP.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Tls(stream) => stream.socket().peer_addr().ok(),
            Self::Bus(stream) => stream.socket().address(),
        }
    }

    /// For how long the client's host has owed an answer, over TCP.
    pub(crate) fn silence(&self) -> Option<Duration> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(stream) => tcp::silence(stream.as_fd()),
            Self::Tls(stream) => tcp::silence(stream.socket().as_fd()),
            Self::Bus(stream) => stream.socket().silence(),
        }
    }

    /// How its client is connected.
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Self::Unix(_) => Transport::Unix,
            Self::Tcp(_) | Self::Tls(_) => Transport::Tcp,
            Self::Bus(stream) => stream.socket().transport(),
        }
    }

    /// Whether the TLS handshake is still under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp(_) => false,
            Self::Tls(stream) => stream.is_handshaking(),
            Self::Bus(stream) => stream.socket().is_handshaking(),
        }
    }

    /// Whether a read that does not fill its buffer has taken all that there was.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Tcp(_))
    }

    /// The names of the certificate that a client showed.
    pub(crate) fn certificate(&self) -> Vec<String> {
        match self {
            Self::Tls(stream) => stream.peer_names(),
            Self::Unix(_) | Self::Tcp(_) => Vec::new(),
            Self::Bus(stream) => stream.socket().certificate(),
        }
    }

    /// The work of reading since the last call, in bytes, beside the bytes that were read.
    pub(crate) fn take_work(&mut self) -> usize {
        match self {
            Self::Unix(_) | Self::Tcp(_) => 0,
            Self::Tls(stream) => stream.take_work(),
            Self::Bus(stream) => stream.take_work(),
        }
    }

    /// How many traces of the bus it began since the last call.
    pub(crate) fn take_begins(&mut self) -> usize {
        match self {
            Self::Bus(stream) => stream.take_begins(),
            Self::Unix(_) | Self::Tcp(_) | Self::Tls(_) => 0,
        }
    }

    /// What has come and cannot be read yet. A TLS record in part is no more than its buffer.
    pub(crate) fn input_ahead(&self) -> InputAhead {
        match self {
            Self::Unix(_) | Self::Tcp(_) => InputAhead::default(),
            Self::Tls(stream) => InputAhead {
                unfinished: stream.is_in_record().then_some(0),
                ..InputAhead::default()
            },
            Self::Bus(stream) => stream.input_ahead(),
        }
    }

    /// Whether written bytes wait for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp(_) => false,
            Self::Tls(stream) => stream.has_unsent(),
            Self::Bus(stream) => stream.has_unsent(),
        }
    }

    /// Whether there is something to read without an event of the socket.
    pub(crate) fn has_unread(&self) -> bool {
        matches!(self, Self::Bus(stream) if stream.has_unread())
    }

    /// Tells its client if its trace has ended by an error; returns whether it has.
    pub(crate) fn tend_trace(&mut self) -> bool {
        match self {
            Self::Bus(stream) => stream.tend_trace(),
            Self::Unix(_) | Self::Tcp(_) | Self::Tls(_) => false,
        }
    }

    /// The socket alone, for a connection that is only drained: what comes is neither opened nor
    /// read as text.
    pub(crate) fn into_socket(self) -> Self {
        match self {
            Self::Bus(stream) => stream.into_socket().into_socket(),
            Self::Tls(stream) => Self::Tcp(stream.into_socket()),
            socket => socket,
        }
    }

    /// Reads what comes as it comes: what is under TLS is not opened, and text is not understood.
    /// Nothing is [read](Read) after it.
    pub(crate) fn read_raw(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.socket_mut().read(bytes),
            Self::Bus(stream) => stream.socket_mut().read_raw(bytes),
        }
    }

    /// Registers for events when there is something to read.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Tcp(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Tls(stream) => registry.register(stream.socket_mut(), token, Interest::READABLE),
            Self::Bus(stream) => stream.socket_mut().register(registry, token),
        }
    }

    /// Ends the sending side; returns false if the connection can be closed at once.
    pub(crate) fn end_output(&mut self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).is_ok(),
            Self::Tls(stream) => {
                stream.end_output();
                // If there is no room for the closing alert, the client sees the end of the socket
                // alone.
                let _ = stream.flush();
                stream.socket().shutdown(Shutdown::Write).is_ok()
            }
            Self::Bus(stream) => {
                // If there is no room for the rest of the text, the client misses it.
                let _ = stream.flush();
                stream.socket_mut().end_output()
            }
        }
    }

    /// Registers for events when there is room to write, or for none any more. It is off by
    /// default, because the kernel would wake the daemon whenever the client reads.
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
            Self::Bus(stream) => stream.socket_mut().watch_room(registry, token, watch),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
            Self::Bus(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Bus(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(parts),
            Self::Tcp(stream) => stream.write_vectored(parts),
            Self::Tls(stream) => stream.write_vectored(parts),
            Self::Bus(stream) => stream.write_vectored(parts),
        }
    }

    /// # Errors
    /// `WouldBlock` if bytes wait for room.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
            Self::Bus(stream) => stream.flush(),
        }
    }
}
