//! A member of RMP that measures how long its packets take: from the moment at which one leaves
//! until its sender delivers it. What a message waits before its packet leaves does not count.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Event, GroupStatus, Instrumented, MemberId, MessageId, Ordered, Protocol, Service, SubmitError,
    Time, Transmit, TransmitBuf,
};
use groupcast_protocols::rmp::{Rmp, Said};

/// The counter of packets that came back.
pub(super) const RETURNED: &str = "packets returned";
/// The counter of the nanoseconds that they took together.
pub(super) const RETURNED_AFTER: &str = "packets returned after";

/// A member whose packets are timed. Right as long as a packet has one message, and there is no
/// reformation.
pub(super) struct Timed {
    rmp: Rmp,
    now: Time,
    /// The number of the last packet that left for the first time.
    last: u64,
    /// When those left that have not come back.
    left: VecDeque<Time>,
    returned: u64,
    after: Duration,
}

impl Timed {
    /// `rmp`, timed.
    pub(super) fn new(rmp: Rmp, now: Time) -> Self {
        Self {
            rmp,
            now,
            last: 0,
            left: VecDeque::new(),
            returned: 0,
            after: Duration::ZERO,
        }
    }
}

impl Protocol for Timed {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.now = now;
        self.rmp.handle_datagram(now, from, body);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.rmp.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let transmit = self.rmp.poll_transmit(now, buf)?;
        for segment in buf.iter() {
            let end = segment.len().saturating_sub(buf.tailroom());
            let body = segment.get(buf.headroom()..end).unwrap_or_default();
            if let Some(Said::Data { number, .. }) = Said::read(body)
                && number > self.last
            {
                self.last = number;
                self.left.push_back(now);
            }
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.rmp.poll_event()?;
        if let Event::Deliver(delivery) = &event
            && delivery.id.sender == self.rmp.local()
            && let Some(left) = self.left.pop_front()
        {
            self.returned += 1;
            self.after += self.now - left;
        }
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.rmp.poll_timeout()
    }
}

impl Ordered for Timed {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        self.now = now;
        self.rmp.submit(now, service, payload)
    }

    fn services(&self) -> &'static [Service] {
        self.rmp.services()
    }

    fn status(&self) -> GroupStatus {
        Ordered::status(&self.rmp)
    }

    fn leave(&mut self, now: Time) {
        self.rmp.leave(now);
    }

    fn local(&self) -> MemberId {
        self.rmp.local()
    }
}

impl Instrumented for Timed {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.rmp.measure(each);
        each(RETURNED, self.returned);
        each(RETURNED_AFTER, self.after.as_nanos() as u64);
    }
}
