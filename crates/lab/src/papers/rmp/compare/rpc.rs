//! Remote procedure calls: a message goes to one receiver after the other, and each answers before
//! the next is called.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

use super::{Kind, Packet, host};
use crate::papers::models::{Roster, delivery};

/// A call that is not answered is repeated after this time.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A message under way.
struct Calling {
    payload: Bytes,
    /// Whom it goes to, the one who is called now first.
    to: VecDeque<MemberId>,
    /// Whether the call was sent.
    sent: bool,
    due: Time,
}

/// A member that calls, and answers calls.
pub(in super::super) struct Rpc {
    local: MemberId,
    /// The hosts that a message goes to.
    receivers: Vec<usize>,
    roster: Roster,
    submitted: u64,
    calling: Option<Calling>,
    /// The last call of each caller that was answered.
    answered: BTreeMap<MemberId, u64>,
    replies: VecDeque<(MemberId, u64)>,
    events: VecDeque<Event>,
}

impl Rpc {
    /// A member whose messages go to the hosts `receivers`.
    pub(in super::super) fn new(
        local: MemberId,
        receivers: Vec<usize>,
        rng: Rng,
        now: Time,
    ) -> Self {
        Self {
            local,
            receivers,
            roster: Roster::new(rng, now),
            submitted: 0,
            calling: None,
            answered: BTreeMap::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn handle_call(&mut self, from: MemberId, packet: Packet) {
        self.replies.push_back((from, packet.seq));
        let last = self.answered.entry(from).or_default();
        if packet.seq > *last {
            *last = packet.seq;
            self.events
                .push_back(delivery(from, packet.number, packet.bytes));
        }
    }

    fn handle_reply(&mut self, now: Time, from: MemberId, call: u64) {
        let submitted = self.submitted;
        let is_due = |it: &Calling| call == submitted && it.to.front() == Some(&from);
        let Some(calling) = self.calling.as_mut().filter(|it| is_due(it)) else {
            return;
        };
        calling.to.pop_front();
        calling.sent = false;
        calling.due = now + TIMEOUT;
        if calling.to.is_empty()
            && let Some(Calling { payload, .. }) = self.calling.take()
        {
            self.events
                .push_back(delivery(self.local, submitted, payload));
            self.events.push_back(Event::Writable);
        }
    }
}

impl Protocol for Rpc {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        let Some(packet) = Packet::decode(body) else {
            return;
        };
        match packet.kind {
            Kind::Hello => self.roster.handle_hello(from),
            Kind::Data => self.handle_call(from, packet),
            Kind::Ack => self.handle_reply(now, from, packet.seq),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(calling) = &mut self.calling
            && calling.due <= now
        {
            calling.due = now + TIMEOUT;
            calling.sent = false;
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(hello) = self.roster.poll_transmit(now, buf) {
            return Some(hello);
        }
        let to = |member| Transmit {
            destination: Destination::Member(member),
            class: SocketClass::Data,
        };
        if let Some((caller, call)) = self.replies.pop_front() {
            buf.push(&[&Packet::control(Kind::Ack, call).header()]);
            return Some(to(caller));
        }
        let (number, origin) = (self.submitted, host(self.local) as u8);
        let calling = self.calling.as_mut().filter(|it| !it.sent)?;
        calling.sent = true;
        let call = Packet {
            kind: Kind::Data,
            seq: number,
            origin,
            number,
            length: calling.payload.len() as u32,
            bytes: calling.payload.clone(),
        };
        buf.push(&[&call.header(), &call.bytes]);
        calling.to.front().copied().map(to)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let calling = self.calling.iter().map(|it| it.due);
        calling.chain(self.roster.poll_timeout()).min()
    }
}

impl Instrumented for Rpc {}

impl Ordered for Rpc {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        if let Some(busy) = &self.calling {
            let queued = busy.payload.len();
            return Err(SubmitError::Full { queued });
        }
        let is_receiver = |member: &MemberId| self.receivers.contains(&host(*member));
        let to: VecDeque<MemberId> = self.roster.members().filter(is_receiver).collect();
        if to.is_empty() {
            return Err(SubmitError::Unsupported { service });
        }
        self.submitted += 1;
        self.calling = Some(Calling {
            payload,
            to,
            sent: false,
            due: now + TIMEOUT,
        });
        Ok(MessageId {
            sender: self.local,
            number: self.submitted,
        })
    }

    fn services(&self) -> &'static [Service] {
        &[Service::Reliable]
    }

    fn leave(&mut self, _now: Time) {
        self.calling = None;
        self.events.push_back(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
