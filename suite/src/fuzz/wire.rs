//! The network of a stage: datagrams under way, and what a script does to them.

use std::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::TransmitBuf;

use super::Script;

/// A datagram: from whom, to whom, and its body.
pub(super) type Datagram = (usize, usize, Bytes);

/// Datagrams under way, in their order.
pub(super) struct Wire {
    queue: VecDeque<Datagram>,
    /// More are lost, as in a full queue.
    max: usize,
}

impl Wire {
    pub(super) fn new(max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            max,
        }
    }

    /// Sends the datagrams in `buf`, as many as there is room for.
    pub(super) fn send(&mut self, from: usize, to: usize, buf: &TransmitBuf) {
        let room = self.max.saturating_sub(self.queue.len());
        let bodies = buf.iter().take(room).map(Bytes::copy_from_slice);
        self.queue.extend(bodies.map(|body| (from, to, body)));
    }

    /// The next one arrives, or is lost.
    pub(super) fn next(&mut self) -> Option<Datagram> {
        self.queue.pop_front()
    }

    /// The next one comes again, after all others.
    pub(super) fn repeat(&mut self) {
        let first = self.queue.front().cloned();
        self.queue.extend(first);
    }

    /// The next one comes after all others.
    pub(super) fn hold_back(&mut self) {
        let held_back = self.queue.pop_front();
        self.queue.extend(held_back);
    }

    /// Changes a byte of the next datagram; or invents one among this many `members`, and returns
    /// it.
    pub(super) fn damage(&mut self, members: usize, script: &mut Script<'_>) -> Option<Datagram> {
        let (from, to) = (script.index(members), script.index(members));
        let at = script.u16();
        match self.queue.front_mut() {
            Some((.., body)) if at & 1 == 0 && !body.is_empty() => {
                let mut bytes = body.to_vec();
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= script.u8();
                *body = bytes.into();
                None
            }
            _ => Some((from, to, Bytes::copy_from_slice(script.bytes()))),
        }
    }
}
