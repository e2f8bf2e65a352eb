//! Messages over TCP: to one receiver, or to a server that sends them on to all (MBus I). Streams
//! are open from the beginning: slow start from two segments, a window, an acknowledgement for
//! every second segment and for the last of a message. What is lost is sent again after a while,
//! with all that follows.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, MessageId, NodeId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

use super::{HEADER, Kind, Packet, host};
use crate::papers::models::{Roster, delivery};

/// Bytes of a message in a segment, as on an Ethernet.
const SEGMENT: usize = 1_460;
/// Bytes of the IP packet that carries one here: UDP, the node's framing and the model's own header
/// are longer than TCP's.
pub(in super::super) const PACKET: u32 = (SEGMENT + 28 + 41 + HEADER) as u32;
/// Segments that may be without an acknowledgement: with these 8,760 B TCP to one is calibrated to
/// 1100 KB/s. With more, acknowledgements meet so many frames that they back off until the window
/// is used up; with fewer, the sender waits for them.
const WINDOW: usize = 6;
const TIMEOUT: Duration = Duration::from_millis(500);
/// An acknowledgement that waits for a second segment waits no longer.
const DELAY: Duration = Duration::from_millis(50);
/// Bytes that may wait for a stream before more are refused, or not acknowledged.
const WAITING_MAX: usize = 32 << 10;

/// Who sends what to whom.
#[derive(Clone, Debug)]
pub(in super::super) struct Routes {
    /// The hosts that get every message.
    pub(in super::super) sinks: Range<usize>,
    /// The host that sends on to them; `None`: every source does itself.
    pub(in super::super) server: Option<usize>,
}

impl Routes {
    /// The hosts to which a message goes on from the host `at`, which is its source if `is_own`.
    fn next(&self, at: usize, is_own: bool) -> Vec<usize> {
        match self.server {
            Some(server) if at == server => self.sinks.clone().collect(),
            Some(server) if is_own => vec![server],
            None if is_own => self.sinks.clone().filter(|sink| *sink != at).collect(),
            _ => Vec::new(),
        }
    }
}

/// A stream, seen from its sender.
#[derive(Default)]
struct Outgoing {
    /// What is not acknowledged, the oldest first.
    segments: VecDeque<Packet>,
    bytes: usize,
    /// How many of them were sent.
    sent: usize,
    /// The place of the next segment that is appended.
    end: u64,
    /// The congestion window, in segments.
    window: usize,
    due: Option<Time>,
}

/// A stream, seen from its receiver.
#[derive(Default)]
struct Incoming {
    /// The place that is expected.
    next: u64,
    bytes: BytesMut,
    /// Segments that are not acknowledged yet.
    owed: u32,
    due: Option<Time>,
}

/// A source, a sink or the server.
pub(in super::super) struct Tcp {
    local: MemberId,
    routes: Routes,
    roster: Roster,
    submitted: u64,
    outgoing: BTreeMap<MemberId, Outgoing>,
    incoming: BTreeMap<MemberId, Incoming>,
    acks: VecDeque<MemberId>,
    /// A message was refused for want of room.
    refused: bool,
    events: VecDeque<Event>,
}

impl Outgoing {
    fn append(&mut self, origin: u8, number: u64, payload: &Bytes) {
        let mut place = 0;
        while place < payload.len() {
            let end = (place + SEGMENT).min(payload.len());
            self.segments.push_back(Packet {
                kind: Kind::Data,
                seq: self.end,
                origin,
                number,
                length: payload.len() as u32,
                bytes: payload.slice(place..end),
            });
            self.end += 1;
            place = end;
        }
        self.bytes += payload.len();
    }

    /// Everything before `next` has come.
    fn acknowledge(&mut self, now: Time, next: u64) {
        let first = self.end - self.segments.len() as u64;
        let count = next.saturating_sub(first).min(self.segments.len() as u64) as usize;
        if count == 0 {
            return;
        }
        let gone = self.segments.drain(..count);
        self.bytes -= gone.map(|segment| segment.bytes.len()).sum::<usize>();
        self.sent = self.sent.saturating_sub(count);
        self.window = (self.window + 1).min(WINDOW);
        self.due = (!self.segments.is_empty()).then(|| now + TIMEOUT);
    }

    /// The next segment that the window allows.
    fn next_segment(&mut self, now: Time) -> Option<Packet> {
        if self.sent >= self.window.max(2) {
            return None;
        }
        let segment = self.segments.get(self.sent)?.clone();
        self.sent += 1;
        self.due.get_or_insert(now + TIMEOUT);
        Some(segment)
    }

    fn time_out(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = Some(now + TIMEOUT);
            self.sent = 0;
            self.window = 2;
        }
    }
}

impl Tcp {
    /// A member of a network with these routes.
    pub(in super::super) fn new(local: MemberId, routes: Routes, rng: Rng, now: Time) -> Self {
        Self {
            local,
            routes,
            roster: Roster::new(rng, now),
            submitted: 0,
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            acks: VecDeque::new(),
            refused: false,
            events: VecDeque::new(),
        }
    }

    fn member(&self, host: usize) -> Option<MemberId> {
        let node = NodeId(host as u64 + 1);
        let mut all = self.roster.members().chain([self.local]);
        all.find(|member| member.node == node)
    }

    fn is_full(&self) -> bool {
        self.outgoing.values().any(|it| it.bytes > WAITING_MAX)
    }

    /// Puts a message, an own or one that came, into the streams on its way.
    fn send_on(&mut self, is_own: bool, origin: u8, number: u64, payload: &Bytes) {
        for to in self.routes.next(host(self.local), is_own) {
            if let Some(to) = self.member(to) {
                let stream = self.outgoing.entry(to).or_default();
                stream.append(origin, number, payload);
            }
        }
    }

    fn handle_segment(&mut self, now: Time, from: MemberId, packet: &Packet) {
        let stream = self.incoming.entry(from).or_default();
        if stream.next != packet.seq {
            self.acks.push_back(from);
            return;
        }
        stream.next += 1;
        stream.owed += 1;
        stream.bytes.extend_from_slice(&packet.bytes);
        let is_whole = stream.bytes.len() == packet.length as usize;
        if stream.owed < 2 && !is_whole {
            stream.due = Some(now + DELAY);
            return;
        }
        self.acks.push_back(from);
        if !is_whole {
            return;
        }
        let payload = stream.bytes.split().freeze();
        self.send_on(false, packet.origin, packet.number, &payload);
        if self.routes.sinks.contains(&host(self.local))
            && let Some(origin) = self.member(packet.origin.into())
        {
            self.events
                .push_back(delivery(origin, packet.number, payload));
        }
    }

    /// The next acknowledgement. A server with too much to send gives none: its sources wait.
    fn next_ack(&mut self) -> Option<(MemberId, u64)> {
        let is_server = self.routes.server == Some(host(self.local));
        if is_server && self.is_full() {
            return None;
        }
        let to = self.acks.pop_front()?;
        let stream = self.incoming.get_mut(&to)?;
        stream.owed = 0;
        stream.due = None;
        Some((to, stream.next))
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
            Kind::Data => self.handle_segment(now, from, &packet),
            Kind::Ack => {
                if let Some(stream) = self.outgoing.get_mut(&from) {
                    stream.acknowledge(now, packet.seq);
                }
                if self.refused && !self.is_full() {
                    self.refused = false;
                    self.events.push_back(Event::Writable);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for stream in self.outgoing.values_mut() {
            stream.time_out(now);
        }
        for (from, stream) in &mut self.incoming {
            if stream.due.is_some_and(|due| due <= now) {
                stream.due = None;
                self.acks.push_back(*from);
            }
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
        if let Some((member, next)) = self.next_ack() {
            buf.push(&[&Packet::control(Kind::Ack, next).header()]);
            return Some(to(member));
        }
        for (member, stream) in &mut self.outgoing {
            if let Some(segment) = stream.next_segment(now) {
                buf.push(&[&segment.header(), &segment.bytes]);
                return Some(to(*member));
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let sending = self.outgoing.values().filter_map(|it| it.due);
        let receiving = self.incoming.values().filter_map(|it| it.due);
        let hello = self.roster.poll_timeout();
        sending.chain(receiving).chain(hello).min()
    }
}

impl Instrumented for Tcp {}

impl Ordered for Tcp {
    fn submit(
        &mut self,
        _now: Time,
        _service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        if self.is_full() {
            self.refused = true;
            let queued = self.outgoing.values().map(|it| it.bytes).sum();
            return Err(SubmitError::Full { queued });
        }
        self.submitted += 1;
        self.send_on(true, host(self.local) as u8, self.submitted, &payload);
        Ok(MessageId {
            sender: self.local,
            number: self.submitted,
        })
    }

    fn services(&self) -> &'static [Service] {
        &[Service::Reliable]
    }

    fn leave(&mut self, _now: Time) {
        self.outgoing.clear();
        self.events.push_back(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
