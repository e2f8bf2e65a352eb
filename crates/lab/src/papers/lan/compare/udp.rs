//! Raw UDP multicast (001 Fig. 9): all packets of a message at once, and every receiver answers
//! when the last one comes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

use super::{Kind, MESSAGE_MAX, Packet};
use crate::papers::models::{Roster, delivery};

/// A sender and receiver of multicasts that nobody repeats.
pub(in super::super) struct Udp {
    local: MemberId,
    packet: usize,
    roster: Roster,
    submitted: u64,
    /// The message that is being sent, how far it is, and who answered.
    sending: Option<(Bytes, usize)>,
    answers: BTreeSet<MemberId>,
    /// What came of each sender's message.
    received: BTreeMap<MemberId, (u64, BytesMut)>,
    replies: VecDeque<(MemberId, u64)>,
    events: VecDeque<Event>,
}

impl Udp {
    /// A member that sends `packet` bytes of a message in a datagram.
    pub(in super::super) fn new(local: MemberId, packet: usize, rng: Rng, now: Time) -> Self {
        Self {
            local,
            packet,
            roster: Roster::new(rng, now),
            submitted: 0,
            sending: None,
            answers: BTreeSet::new(),
            received: BTreeMap::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn handle_data(&mut self, from: MemberId, packet: &Packet) {
        let (number, bytes) = self.received.entry(from).or_default();
        if *number != packet.number {
            *number = packet.number;
            bytes.clear();
        }
        if bytes.len() == packet.place as usize {
            bytes.extend_from_slice(&packet.bytes);
        }
        if packet.is_last() {
            self.replies.push_back((from, packet.number));
            if bytes.len() == packet.length as usize {
                let payload = bytes.split().freeze();
                self.events
                    .push_back(delivery(from, packet.number, payload));
            }
        }
    }

    fn handle_answer(&mut self, from: MemberId, number: u64) {
        if number != self.submitted || self.sending.is_none() {
            return;
        }
        self.answers.insert(from);
        if self.answers.len() == self.roster.len()
            && let Some((payload, _)) = self.sending.take()
        {
            self.events.push_back(delivery(self.local, number, payload));
            self.events.push_back(Event::Writable);
        }
    }

    /// The next packet of the message that is being sent.
    fn next_packet(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (payload, sent) = self.sending.as_mut()?;
        let is_begun = *sent > 0;
        if *sent >= payload.len() && (is_begun || !payload.is_empty()) {
            return None;
        }
        let end = (*sent + self.packet).min(payload.len());
        let header = Packet::header(
            Kind::Data,
            self.submitted,
            *sent as u32,
            payload.len() as u32,
        );
        buf.push(&[&header, &payload[*sent..end]]);
        *sent = end.max(1);
        Some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Data,
        })
    }
}

impl Protocol for Udp {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        let Some(packet) = Packet::decode(body) else {
            return;
        };
        match packet.kind {
            Kind::Hello => self.roster.handle_hello(from),
            Kind::Data => self.handle_data(from, &packet),
            Kind::Ack => self.handle_answer(from, packet.number),
            Kind::Open | Kind::Opened => {}
        }
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(hello) = self.roster.poll_transmit(now, buf) {
            return Some(hello);
        }
        if let Some((to, number)) = self.replies.pop_front() {
            buf.push(&[&Packet::header(Kind::Ack, number, 0, 0)]);
            return Some(Transmit {
                destination: Destination::Member(to),
                class: SocketClass::Control,
            });
        }
        self.next_packet(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.roster.poll_timeout()
    }
}

impl Instrumented for Udp {}

impl Ordered for Udp {
    fn submit(
        &mut self,
        _now: Time,
        _service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let len = payload.len();
        if len > MESSAGE_MAX {
            let max = MESSAGE_MAX;
            return Err(SubmitError::TooLarge { len, max });
        }
        if let Some((busy, _)) = &self.sending {
            let queued = busy.len();
            return Err(SubmitError::Full { queued });
        }
        self.submitted += 1;
        self.answers.clear();
        self.sending = Some((payload, 0));
        Ok(MessageId {
            sender: self.local,
            number: self.submitted,
        })
    }

    fn services(&self) -> &'static [Service] {
        &[Service::Reliable]
    }

    fn leave(&mut self, _now: Time) {
        self.sending = None;
        self.events.push_back(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
