//! Connections that this side has ended, until the other side has too.
//!
//! Closing a TCP socket from which not everything was read resets the connection, and what the
//! client has not received yet is lost: the reason why it was disconnected. So the daemon shuts
//! down its sending side, and for a while reads and drops what the client still sends. A Unix
//! socket keeps what was written for the other side, so closing it is enough.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use groupcast_core::Time;
use groupcast_session::ClientId;

use crate::stream::Stream;

/// How long the other side may take.
const WITHIN: Duration = Duration::from_secs(2);
/// Connections that may linger; beyond it the oldest is reset.
const COUNT_MAX: usize = 256;
/// Bytes of one connection that are dropped at a time.
const SHARE: usize = 256 << 10;

/// Connections that are only read from, to their end.
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

    /// The socket of `id` is ready; false if it is none of these.
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

    /// Drops what the other side has sent. A client that goes on sending is reset: it does not
    /// read.
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
