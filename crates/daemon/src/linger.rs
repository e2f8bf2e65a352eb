//! Connections that this side has ended and the other side has not yet.
//!
//! Closing a TCP socket with unread bytes resets the connection, and the client loses the bytes
//! that it has not received yet, the reason of its disconnection among them. So the daemon shuts
//! down its sending side, and for a time reads and drops what the client still sends. A Unix socket
//! keeps what was written for the other side, so closing it is enough.
//!
//! What they still send is read in shares, of all of them together in each turn. A client that goes
//! on sending and does not read is reset.
//!
//! What comes under TLS is dropped as it comes: to open it would take a processor, and most of a
//! record need not be payload.
//!
//! The engine is done with a connection when its last frame is taken. Under TLS, and as text of the
//! bus, that frame may still wait for room in the socket: then the connection ends when the socket
//! has it, whatever kind of socket it is.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use groupcast_core::Time;
use groupcast_session::ClientId;

use crate::stream::Stream;

/// How long the other side may take to end.
const WITHIN: Duration = Duration::from_secs(2);
/// The most connections that linger; beyond it the oldest is reset.
pub(crate) const COUNT_MAX: usize = 256;
/// The most bytes of one connection that are dropped: more than the sockets of both sides hold by
/// default.
const DROPPED_MAX: usize = 16 << 20;
/// The most bytes of all of them that are dropped in a turn.
const SHARE: usize = 512 << 10;
/// A read counts as this many bytes at least.
const READ_COST: usize = 4 << 10;

/// The lingering connections.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    streams: BTreeMap<ClientId, Ended>,
    /// Those in whose socket there may be bytes, in rotation.
    readable: VecDeque<ClientId>,
}

/// A connection that this side has ended.
#[derive(Debug)]
struct Ended {
    /// When it is reset.
    deadline: Time,
    stream: Stream,
    /// The last bytes for the other side wait for room in the socket.
    has_unsent: bool,
    /// How many bytes of the other side were dropped.
    dropped: usize,
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
            dropped: 0,
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
        self.note_readable(id);
    }

    /// The socket of `id` is ready; returns false if it does not linger.
    pub(crate) fn handle_ready(&mut self, id: ClientId) -> bool {
        let Some(ended) = self.streams.get_mut(&id) else {
            return false;
        };
        if !ended.has_unsent {
            self.note_readable(id);
            return true;
        }
        match ended.stream.flush() {
            // The other side may write before it reads.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.note_readable(id),
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
        self.handle_turn(now);
    }

    /// Once in a turn: drops a share of what they have sent, and resets the connections whose other
    /// side has not ended in time.
    pub(crate) fn handle_turn(&mut self, now: Time) {
        let mut left = SHARE;
        while left > 0
            && let Some(id) = self.readable.pop_front()
        {
            self.read(id, &mut left);
        }
        self.streams.retain(|_, ended| ended.deadline > now);
    }

    /// When to call [`handle_turn`](Self::handle_turn) next, at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        if !self.readable.is_empty() {
            return Some(Time::ZERO);
        }
        self.streams.values().map(|ended| ended.deadline).min()
    }

    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// There may be bytes in the socket of `id`.
    fn note_readable(&mut self, id: ClientId) {
        if !self.readable.contains(&id) {
            self.readable.push_back(id);
        }
    }

    /// Drops bytes that the other side has sent, as many as are `left` for this turn. A client that
    /// sends more than [`DROPPED_MAX`] is reset: it does not read.
    fn read(&mut self, id: ClientId, left: &mut usize) {
        let Some(ended) = self.streams.get_mut(&id) else {
            return;
        };
        let mut bytes = [0; 16 << 10];
        while ended.dropped < DROPPED_MAX {
            if *left == 0 {
                return self.readable.push_back(id);
            }
            let read = match ended.stream.read_raw(&mut bytes) {
                // It may have ended its side alone, and still read.
                Ok(0) if ended.has_unsent => return,
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(_) => break,
            };
            let cost = read.max(READ_COST);
            ended.dropped += cost;
            *left = left.saturating_sub(cost);
        }
        self.streams.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
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
            lingering.handle_turn(now);
        }
        assert_eq!(lingering.count(), 1);
        drop(client);
        while lingering.count() > 0 {
            lingering.handle_ready(id);
            lingering.handle_turn(now);
        }
    }

    /// What is unread when a socket is closed resets the connection, and takes the last word back.
    #[test]
    fn the_last_word_reaches_a_client_of_which_much_was_not_read() {
        const UNREAD: usize = 2 << 20;
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let mut client = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = loop {
            match listener.accept() {
                Ok((socket, _)) => break socket,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        };
        socket.write_all(b"the last word").unwrap();
        let client = std::thread::spawn(move || {
            client.write_all(&vec![b'x'; UNREAD])?;
            let mut word = String::new();
            client.read_to_string(&mut word)?;
            Ok::<_, std::io::Error>(word)
        });
        // It has sent as much as the sockets hold.
        std::thread::sleep(Duration::from_millis(100));
        let (mut lingering, id, now) = (Lingering::default(), ClientId(1), Time::ZERO);
        lingering.add(now, id, Stream::Tcp(socket));
        let mut turns = 0;
        while lingering.count() > 0 {
            lingering.handle_ready(id);
            lingering.handle_turn(now);
            turns += 1;
        }
        assert!(turns >= UNREAD / SHARE, "{turns}");
        assert_eq!(client.join().unwrap().unwrap(), "the last word");
    }
}
