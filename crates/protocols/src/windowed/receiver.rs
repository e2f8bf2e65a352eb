//! The receiving half: messages in their sender's order, acknowledgements every few of them, and
//! asking for what is missing.

use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::window::{Insert, SeqWindow};
use groupcast_core::{
    Delivery, Destination, Event, MemberId, MessageId, Service, SocketClass, Time,
};

use super::{Timer, Windowed, wire};

/// What a member has of one sender.
#[derive(Debug)]
pub(super) struct Receiver {
    window: SeqWindow<(Service, Bytes)>,
    /// All up to here are delivered.
    delivered: u64,
    /// The highest number seen.
    seen: u64,
    /// Messages since the last acknowledgement.
    owed: u32,
}

impl Receiver {
    /// Nothing has come yet; at most `capacity` messages wait for one before them.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            window: SeqWindow::new(0, capacity),
            delivered: 0,
            seen: 0,
            owed: 0,
        }
    }
}

impl Windowed {
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: MemberId,
        number: u64,
        service: Service,
        payload: Bytes,
    ) {
        let Some(receiver) = self.receivers.get_mut(&from) else {
            return;
        };
        match receiver.window.insert(number, (service, payload)) {
            Insert::New => {}
            Insert::Duplicate => self.counters.duplicates += 1,
            // The sender keeps to its window, so nothing honest is so far ahead.
            Insert::Beyond => return,
        }
        receiver.seen = receiver.seen.max(number);
        receiver.owed += 1;
        while let Some((service, payload)) = receiver.window.get(receiver.delivered + 1) {
            receiver.delivered += 1;
            self.events.push_back(Event::Deliver(Delivery {
                id: MessageId {
                    sender: from,
                    number: receiver.delivered,
                },
                service: *service,
                place: None,
                payload: payload.clone(),
            }));
        }
        receiver.window.discard_to(receiver.delivered);
        let (owed, gap) = (receiver.owed, receiver.seen > receiver.delivered);
        if gap && self.timers.due(Timer::Nak).is_none() {
            self.timers.set(Timer::Nak, now + self.config.nak_interval);
            self.acknowledge(from, true);
        } else if owed >= self.config.ack_every {
            self.acknowledge(from, false);
        } else {
            self.unacknowledged.insert(from);
            if self.timers.due(Timer::Ack).is_none() {
                self.timers.set(Timer::Ack, now + self.config.ack_delay);
            }
        }
    }

    /// Tells a sender what is delivered of its messages; `ask`: and what is missing.
    pub(super) fn acknowledge(&mut self, sender: MemberId, ask: bool) {
        let Some(receiver) = self.receivers.get_mut(&sender) else {
            return;
        };
        receiver.owed = 0;
        let missing = receiver.window.missing(receiver.seen);
        let most = if ask { Self::MISSING_MAX } else { 0 };
        let missing: Vec<u64> = missing.take(most).collect();
        let bytes = wire::ack(receiver.delivered, receiver.seen, &missing);
        self.unacknowledged.remove(&sender);
        self.counters.acks += 1;
        self.counters.naks += missing.len() as u64;
        let to = Destination::Member(sender);
        self.send(to, SocketClass::Control, bytes, Bytes::new());
    }

    pub(super) fn ask_again(&mut self, now: Time) {
        let lacking = self
            .receivers
            .iter()
            .filter(|(_, receiver)| receiver.seen > receiver.delivered);
        let lacking: Vec<MemberId> = lacking.map(|(sender, _)| *sender).collect();
        if !lacking.is_empty() {
            self.timers.set(Timer::Nak, now + self.config.nak_interval);
        }
        for sender in lacking {
            self.acknowledge(sender, true);
        }
    }
}
