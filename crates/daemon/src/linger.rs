//! Connections that this side has ended and the other side has not yet.
//!
//! Closing a TCP socket with unread bytes resets the connection, and the client loses the bytes
//! that it has not received yet, the reason of its disconnection among them. So the daemon shuts
//! down its sending side, and for a time reads and drops what the client still sends. A Unix socket
//! keeps what was written for the other side, so closing it is enough.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use groupcast_core::Time;
use groupcast_session::ClientId;

use crate::stream::Stream;

/// How long the other side may take to end.
const WITHIN: Duration = Duration::from_secs(2);
/// The most connections that linger; beyond it the oldest is reset.
const COUNT_MAX: usize = 256;
/// The most bytes of one connection that are dropped at a time.
const SHARE: usize = 256 << 10;

/// The lingering connections, each with its deadline.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    streams: BTreeMap<ClientId, (Time, Stream)>,
}

impl Lingering {
    /// This side has ended the connection.
    pub(crate) fn add(&mut self, now: Time, id: ClientId, mut stream: Stream) {
        if !stream.end_output() {
            return;
        }
        self.streams
            .insert(id, (now + WITHIN, stream.into_socket()));
        self.read(id);
        if self.streams.len() > COUNT_MAX {
            self.streams.pop_first();
        }
    }

    /// The socket of `id` is ready; returns false if it does not linger.
    pub(crate) fn handle_ready(&mut self, id: ClientId) -> bool {
        let known = self.streams.contains_key(&id);
        if known {
            self.read(id);
        }
        known
    }

    /// Resets the connections whose other side has not ended in time.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.streams.retain(|_, (end, _)| *end > now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.streams.values().map(|(end, _)| *end).min()
    }

    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Drops the bytes that the other side has sent. A client that sends more than [`SHARE`] is
    /// reset: it does not read.
    fn read(&mut self, id: ClientId) {
        let Some((_, stream)) = self.streams.get_mut(&id) else {
            return;
        };
        let mut dropped = [0; 16 << 10];
        let mut len = 0;
        while len < SHARE {
            match stream.read(&mut dropped) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.streams.remove(&id);
    }
}
