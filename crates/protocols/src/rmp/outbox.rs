//! What waits to be sent, in order.

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, SocketClass, Transmit, TransmitBuf};

use super::wire::Message;

/// Datagrams in the order in which they leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<(Transmit, Bytes)>,
}

const TO_ALL: Transmit = Transmit {
    destination: Destination::Group,
    class: SocketClass::Data,
};

impl Outbox {
    /// A message for the group.
    pub(super) fn multicast(&mut self, message: &Message) {
        self.queue.push_back((TO_ALL, message.encode()));
    }

    /// A message for one member.
    pub(super) fn unicast(&mut self, member: MemberId, message: &Message) {
        let transmit = Transmit {
            destination: Destination::Member(member),
            class: SocketClass::Control,
        };
        self.queue.push_back((transmit, message.encode()));
    }

    /// The same, which arrives where multicasts do.
    pub(super) fn unicast_as_data(&mut self, member: MemberId, message: &Message) {
        let transmit = Transmit {
            destination: Destination::Member(member),
            class: SocketClass::Data,
        };
        self.queue.push_back((transmit, message.encode()));
    }

    /// Fills `buf` with as many equal segments as the front of the queue gives.
    pub(super) fn poll_transmit(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (transmit, body) = self.queue.pop_front()?;
        buf.push(&[&body]);
        while let Some((next, body)) = self.queue.front()
            && *next == transmit
            && buf.accepts(body.len())
        {
            buf.push(&[body]);
            self.queue.pop_front();
        }
        Some(transmit)
    }
}
