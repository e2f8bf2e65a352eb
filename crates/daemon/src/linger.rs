//! Connections that this side has ended and the other side has not yet.
//!
//! Closing a TCP socket with unread bytes resets the connection, and the client loses the bytes
//! that it has not received yet, the reason of its disconnection among them. So the daemon shuts
//! down its sending side, and for a time reads and drops what the client still sends. A Unix socket
//! keeps what was written for the other side, so closing it is enough.
//!
//! What comes under TLS is dropped as it comes: to open it would take a processor, and most of a
//! record need not be payload.
//!
//! The engine is done with a connection when its last frame is taken. Under TLS, and as text of the
//! bus, that frame may still wait for room in the socket: then the connection ends when the socket
//! has it, whatever kind of socket it is.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use groupcast_core::Time;
use groupcast_session::ClientId;

use crate::stream::Stream;

/// How long the other side may take to end.
const WITHIN: Duration = Duration::from_secs(2);
/// The most connections that linger; beyond it the oldest is reset.
pub(crate) const COUNT_MAX: usize = 256;
/// The most bytes of one connection that are dropped at a time.
const SHARE: usize = 256 << 10;
/// A read counts as this many bytes at least.
const READ_COST: usize = 4 << 10;

/// The lingering connections.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    streams: BTreeMap<ClientId, Ended>,
}

/// A connection that this side has ended.
#[derive(Debug)]
struct Ended {
    /// When it is reset.
    deadline: Time,
    stream: Stream,
    /// The last bytes for the other side wait for room in the socket.
    has_unsent: bool,
}

impl Lingering {
    /// This side has ended the connection. If bytes wait for room in its socket, the caller wakes
    /// it when there is some.
    pub(crate) fn add(&mut self, now: Time, id: ClientId, stream: Stream) {
        let has_unsent = stream.has_unsent();
        let ended = Ended {
            deadline: now + WITHIN,
            stream,
            has_unsent,
        };
        match has_unsent {
            true => _ = self.streams.insert(id, ended),
            false => self.shut(id, ended),
        }
        if self.streams.len() > COUNT_MAX {
            self.streams.pop_first();
        }
    }

    /// The socket has all bytes for the other side.
    fn shut(&mut self, id: ClientId, mut ended: Ended) {
        if !ended.stream.end_output() {
            return;
        }
        ended.stream = ended.stream.into_socket();
        ended.has_unsent = false;
        self.streams.insert(id, ended);
        self.read(id);
    }

    /// The socket of `id` is ready; returns false if it does not linger.
    pub(crate) fn handle_ready(&mut self, id: ClientId) -> bool {
        let Some(ended) = self.streams.get_mut(&id) else {
            return false;
        };
        if !ended.has_unsent {
            self.read(id);
            return true;
        }
        match ended.stream.flush() {
            // The other side may write before it reads.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.read(id),
            sent => {
                let ended = self.streams.remove(&id);
                if let Some(ended) = ended.filter(|_| sent.is_ok()) {
                    self.shut(id, ended);
                }
            }
        }
        true
    }

    /// Goes on with all of them.
    pub(crate) fn go_on(&mut self, now: Time) {
        let ids: Vec<ClientId> = self.streams.keys().copied().collect();
        for id in ids {
            self.handle_ready(id);
        }
        self.handle_timeout(now);
    }

    /// Resets the connections whose other side has not ended in time.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.streams.retain(|_, ended| ended.deadline > now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.streams.values().map(|ended| ended.deadline).min()
    }

    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Drops the bytes that the other side has sent. A client that sends more than [`SHARE`] is
    /// reset: it does not read.
    fn read(&mut self, id: ClientId) {
        let Some(ended) = self.streams.get_mut(&id) else {
            return;
        };
        let mut dropped = [0; 16 << 10];
        let mut len = 0;
        while len < SHARE {
            match ended.stream.read_raw(&mut dropped) {
                // It may have ended its side alone, and still read.
                Ok(0) if ended.has_unsent => return,
                Ok(0) => break,
                Ok(read) => len += read.max(READ_COST),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => len += READ_COST,
                Err(_) => break,
            }
        }
        self.streams.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as StdTcpStream;

    use groupcast_tls::{Server, ServerFiles};
    use mio::net::TcpListener;
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    /// Keeps the connection, whatever the other side sends: bytes that are no TLS would be an error
    /// if they were read as such.
    #[test]
    fn what_comes_over_tls_is_not_opened_any_more() {
        let directory = std::env::temp_dir().join(format!("gc-raw-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["daemon.example".to_owned()]).unwrap();
        let files = ServerFiles {
            certificate: directory.join("cert.pem"),
            key: directory.join("key.pem"),
            client_ca: None,
        };
        std::fs::write(&files.certificate, cert.pem()).unwrap();
        std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&files.key, private).unwrap();
        let server = Server::load(&files).unwrap();
        std::fs::remove_dir_all(directory).unwrap();

        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let mut client = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = loop {
            match listener.accept() {
                Ok((socket, _)) => break socket,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        };
        let stream = Stream::Tls(Box::new(server.accept(socket).unwrap()));
        let (mut lingering, id, now) = (Lingering::default(), ClientId(1), Time::ZERO);
        client.write_all(&[b'x'; 1 << 10]).unwrap();
        lingering.add(now, id, stream);
        for _ in 0..20 {
            client.write_all(&[b'x'; 1 << 10]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            assert!(lingering.handle_ready(id), "it lingers");
        }
        assert_eq!(lingering.count(), 1);
        drop(client);
        while lingering.count() > 0 {
            lingering.handle_ready(id);
        }
    }
}
