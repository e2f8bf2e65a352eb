//! TCP to one receiver after the other (001 Fig. 8), as Linux 2.2 has it on a LAN: a connection a
//! receiver and message, slow start from two segments up to a window of 32 KiB, an acknowledgement
//! for every second segment and for the last.
//!
//! What is lost is sent again after a second, with all that follows; 001's network loses nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

use super::{HEADER, Kind, MESSAGE_MAX, Packet};
use crate::papers::models::{Roster, delivery};

/// Bytes of a message in a segment: with the headers and the node's framing one Ethernet frame.
const SEGMENT: usize = 1_500 - 28 - 41 - HEADER;
/// The receiver's window.
const WINDOW: usize = 32 << 10;
const TIMEOUT: Duration = Duration::from_secs(1);
/// An acknowledgement that waits for a second segment waits no longer.
const DELAY: Duration = Duration::from_millis(20);

/// A connection, seen from its sender.
struct Connection {
    to: MemberId,
    opened: bool,
    asked: bool,
    /// Bytes that are acknowledged, and bytes that were sent.
    acknowledged: usize,
    sent: usize,
    /// The congestion window in bytes.
    window: usize,
    /// When it is tried again.
    due: Time,
}

/// A message that is being sent, to one after the other.
struct Sending {
    payload: Bytes,
    /// Those who come after the one of now.
    rest: VecDeque<MemberId>,
    connection: Connection,
}

/// A connection, seen from its receiver.
#[derive(Default)]
struct Receiving {
    number: u64,
    bytes: BytesMut,
    /// All of it was here and was delivered.
    done: bool,
    /// Segments that are not acknowledged yet.
    owed: u32,
    due: Option<Time>,
}

/// A member that sends by TCP.
pub(in super::super) struct Tcp {
    local: MemberId,
    roster: Roster,
    submitted: u64,
    sending: Option<Sending>,
    receiving: BTreeMap<MemberId, Receiving>,
    answers: VecDeque<(MemberId, Kind, u64, u32)>,
    events: VecDeque<Event>,
}

impl Connection {
    fn new(to: MemberId, now: Time) -> Self {
        Self {
            to,
            opened: false,
            asked: false,
            acknowledged: 0,
            sent: 0,
            window: 2 * SEGMENT,
            due: now + TIMEOUT,
        }
    }
}

impl Tcp {
    /// A member that sends nothing yet.
    pub(in super::super) fn new(local: MemberId, rng: Rng, now: Time) -> Self {
        Self {
            local,
            roster: Roster::new(rng, now),
            submitted: 0,
            sending: None,
            receiving: BTreeMap::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn handle_data(&mut self, now: Time, from: MemberId, packet: &Packet) {
        let receiving = self.receiving.entry(from).or_default();
        if receiving.number != packet.number {
            return;
        }
        if receiving.done {
            self.answers
                .push_back((from, Kind::Ack, packet.number, packet.length));
            return;
        }
        if receiving.bytes.len() == packet.place as usize {
            receiving.bytes.extend_from_slice(&packet.bytes);
        }
        receiving.owed += 1;
        let next = receiving.bytes.len() as u32;
        receiving.done = next == packet.length;
        if receiving.owed < 2 && !receiving.done {
            receiving.due = Some(now + DELAY);
            return;
        }
        receiving.owed = 0;
        receiving.due = None;
        self.answers
            .push_back((from, Kind::Ack, packet.number, next));
        if receiving.done {
            let payload = receiving.bytes.split().freeze();
            self.events
                .push_back(delivery(from, packet.number, payload));
        }
    }

    fn handle_ack(&mut self, now: Time, from: MemberId, packet: &Packet) {
        let Some(sending) = &mut self.sending else {
            return;
        };
        let connection = &mut sending.connection;
        if connection.to != from || packet.number != self.submitted {
            return;
        }
        let place = packet.place as usize;
        if place > connection.acknowledged {
            connection.window += SEGMENT;
            connection.acknowledged = place;
            connection.sent = connection.sent.max(place);
            connection.due = now + TIMEOUT;
        }
        if connection.acknowledged < sending.payload.len() {
            return;
        }
        if let Some(next) = sending.rest.pop_front() {
            sending.connection = Connection::new(next, now);
        } else if let Some(Sending { payload, .. }) = self.sending.take() {
            self.events
                .push_back(delivery(self.local, self.submitted, payload));
            self.events.push_back(Event::Writable);
        }
    }

    /// The next segment that the windows allow.
    fn next_segment(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let number = self.submitted;
        let Sending {
            payload,
            connection,
            ..
        } = self.sending.as_mut()?;
        let length = payload.len() as u32;
        let transmit = Transmit {
            destination: Destination::Member(connection.to),
            class: SocketClass::Data,
        };
        if !connection.opened {
            if std::mem::replace(&mut connection.asked, true) {
                return None;
            }
            buf.push(&[&Packet::header(Kind::Open, number, 0, length)]);
            return Some(transmit);
        }
        let limit = connection.acknowledged + connection.window.min(WINDOW);
        let end = (connection.sent + SEGMENT).min(payload.len());
        if connection.sent >= payload.len() || end > limit {
            return None;
        }
        let header = Packet::header(Kind::Data, number, connection.sent as u32, length);
        buf.push(&[&header, &payload[connection.sent..end]]);
        connection.sent = end;
        Some(transmit)
    }
}

impl Protocol for Tcp {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        let Some(packet) = Packet::decode(body) else {
            return;
        };
        match packet.kind {
            Kind::Hello => self.roster.handle_hello(from),
            Kind::Data => self.handle_data(now, from, &packet),
            Kind::Ack => self.handle_ack(now, from, &packet),
            Kind::Open => {
                let receiving = Receiving {
                    number: packet.number,
                    ..Receiving::default()
                };
                self.receiving.insert(from, receiving);
                self.answers
                    .push_back((from, Kind::Opened, packet.number, 0));
            }
            Kind::Opened => {
                if let Some(sending) = &mut self.sending
                    && sending.connection.to == from
                    && packet.number == self.submitted
                {
                    sending.connection.opened = true;
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for (from, receiving) in &mut self.receiving {
            if receiving.due.is_some_and(|due| due <= now) {
                receiving.due = None;
                receiving.owed = 0;
                let next = receiving.bytes.len() as u32;
                self.answers
                    .push_back((*from, Kind::Ack, receiving.number, next));
            }
        }
        if let Some(Sending { connection, .. }) = &mut self.sending
            && connection.due <= now
        {
            connection.due = now + TIMEOUT;
            connection.asked = false;
            connection.sent = connection.acknowledged;
            connection.window = 2 * SEGMENT;
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(hello) = self.roster.poll_transmit(now, buf) {
            return Some(hello);
        }
        if let Some((to, kind, number, place)) = self.answers.pop_front() {
            buf.push(&[&Packet::header(kind, number, place, 0)]);
            return Some(Transmit {
                destination: Destination::Member(to),
                class: SocketClass::Data,
            });
        }
        self.next_segment(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let sending = self.sending.iter().map(|it| it.connection.due);
        let receiving = self.receiving.values().filter_map(|it| it.due);
        let hello = self.roster.poll_timeout();
        sending.chain(receiving).chain(hello).min()
    }
}

impl Instrumented for Tcp {}

impl Ordered for Tcp {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let len = payload.len();
        if len > MESSAGE_MAX {
            let max = MESSAGE_MAX;
            return Err(SubmitError::TooLarge { len, max });
        }
        if let Some(busy) = &self.sending {
            let queued = busy.payload.len();
            return Err(SubmitError::Full { queued });
        }
        let mut rest: VecDeque<MemberId> = self.roster.members().collect();
        let Some(first) = rest.pop_front() else {
            return Err(SubmitError::Unsupported { service });
        };
        self.submitted += 1;
        self.sending = Some(Sending {
            payload,
            rest,
            connection: Connection::new(first, now),
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
        self.sending = None;
        self.events.push_back(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
