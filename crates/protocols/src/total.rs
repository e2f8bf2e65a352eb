//! Total order on top of a protocol that promises FIFO with gaps: the inverted stack of 004 3.3.
//!
//! Ordinary stacks put reliability and order at the bottom and pay for it everywhere; here gossip
//! is at the bottom, and order is made close to the application, as Hayden and Birman,
//! *Probabilistic broadcast* (1996), do. Every message carries a logical time (Lamport), higher
//! than any that its sender had seen. Members deliver in the order of ⟨time, sender, number⟩, and
//! hold each message back for [`TotalConfig::hold`], in which others before it may come.
//!
//! # What it promises
//! - *Order: always.* Any two members deliver the messages that both deliver in the same order: a
//!   message that comes after one of a later place was delivered is not delivered, but reported as
//!   a gap.
//! - *Completeness: as likely as below.* Say that the protocol below brings a message to a member
//!   within D of its sending, or not at all, but with probability ε. A message with a lower time
//!   than m can be sent only until its sender has m: D after m was. It is everywhere 2·D after m
//!   was sent. So with a hold of 2·D a member reports a message that the protocol below would have
//!   delivered only if one of two messages took longer than D: with a probability below 2·ε a pair.
//!   Of gossip, D is `stable_threshold` + 2 rounds, after which a message that did not come is
//!   reported anyway.
//!
//! Before a message's payload: its logical time (8 bytes, big-endian). Service: `agreed`, outside
//! of configurations, so without a [place](groupcast_core::OrderPlace).

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Event, Gap, Instrumented, MemberId, MessageId, Ordered, Protocol, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

use crate::gossip::GossipConfig;

/// Bytes of the logical time.
const STAMP: usize = 8;

/// Settings of the layer. All members should have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TotalConfig {
    /// For how long a message is held back. Too short: messages come too late and are reported. Too
    /// long: latency.
    pub hold: Duration,
    /// Payload bytes that may be held back. Beyond it the first is delivered early: the order
    /// holds, others may come too late. Default 16 MiB.
    pub held_max: usize,
}

impl TotalConfig {
    /// The hold for gossip with these settings: twice the time in which a message comes, or never.
    pub fn over_gossip(gossip: &GossipConfig) -> Self {
        Self {
            hold: gossip.step_interval * 2 * (gossip.stable_threshold + 2),
            held_max: 16 << 20,
        }
    }
}

/// Where a message stands: its logical time, its sender, its number.
type Rank = (u64, MessageId);

/// A member of a totally ordered group over `P`.
///
/// ```
/// use bytes::Bytes;
/// use groupcast_core::{Incarnation, MemberId, NodeId, Ordered, Rng, Service, Time};
/// use groupcast_protocols::gossip::{Gossip, GossipConfig};
/// use groupcast_protocols::total::{Total, TotalConfig};
///
/// let local = MemberId { node: NodeId::from_name("a"), incarnation: Incarnation(1) };
/// let config = GossipConfig::lan();
/// let hold = TotalConfig::over_gossip(&config);
/// let mut member = Total::new(hold, Gossip::new(config, local, Rng::new(1), Time::ZERO)?);
/// member.submit(Time::ZERO, Service::Agreed, Bytes::from_static(b"hello")).expect("the queue is empty");
/// # Ok::<(), groupcast_protocols::gossip::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Total<P> {
    config: TotalConfig,
    below: P,
    /// The highest logical time seen.
    clock: u64,
    /// Messages held back, and since when.
    held: BTreeMap<Rank, (Time, Bytes)>,
    held_bytes: usize,
    /// The last that was delivered.
    last: Option<Rank>,
    events: VecDeque<Event>,
    late: u64,
    early: u64,
}

impl<P: Ordered> Total<P> {
    /// No honest member is so far ahead: a time beyond is not taken over.
    const LEAP_MAX: u64 = 1 << 48;

    /// Orders what `below` delivers.
    pub fn new(config: TotalConfig, below: P) -> Self {
        Self {
            config,
            below,
            clock: 0,
            held: BTreeMap::new(),
            held_bytes: 0,
            last: None,
            events: VecDeque::new(),
            late: 0,
            early: 0,
        }
    }

    /// The protocol below.
    pub fn below(&self) -> &P {
        &self.below
    }

    /// How many messages came too late, and were reported.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Takes what the protocol below has to say, and delivers what was held for long enough.
    fn settle(&mut self, now: Time) {
        while let Some(event) = self.below.poll_event() {
            match event {
                Event::Deliver(delivery) => self.hold(now, delivery.id, delivery.payload),
                Event::Left => {
                    while self.release() {}
                    self.events.push_back(Event::Left);
                }
                other => self.events.push_back(other),
            }
        }
        while self.due().is_some_and(|due| due <= now) {
            self.release();
        }
        while self.held_bytes > self.config.held_max && self.release() {
            self.early += 1;
        }
    }

    fn hold(&mut self, now: Time, id: MessageId, mut payload: Bytes) {
        let time = match payload.len() {
            0..STAMP => None,
            _ => Some(payload.get_u64())
                .filter(|time| *time <= self.clock.saturating_add(Self::LEAP_MAX)),
        };
        let rank = time.map(|time| (time, id));
        match rank.filter(|rank| self.last < Some(*rank)) {
            Some(rank) => {
                self.clock = self.clock.max(rank.0);
                self.held_bytes += payload.len();
                self.held.insert(rank, (now, payload));
            }
            None => {
                self.late += 1;
                self.events.push_back(Event::Gap(Gap {
                    sender: id.sender,
                    first: id.number,
                    last: id.number,
                }));
            }
        }
    }

    /// When the first in the order may be delivered.
    fn due(&self) -> Option<Time> {
        let (_, (since, _)) = self.held.first_key_value()?;
        Some(*since + self.config.hold)
    }

    /// Delivers the first in the order; whether there is one.
    fn release(&mut self) -> bool {
        let Some((rank, (_, payload))) = self.held.pop_first() else {
            return false;
        };
        self.held_bytes -= payload.len();
        self.last = Some(rank);
        self.events.push_back(Event::Deliver(Delivery {
            id: rank.1,
            service: Service::Agreed,
            place: None,
            payload,
        }));
        true
    }
}

impl<P: Ordered> Protocol for Total<P> {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.below.handle_datagram(now, from, body);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.below.handle_timeout(now);
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let transmit = self.below.poll_transmit(now, buf);
        self.settle(now);
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.below.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let dues = [self.below.poll_timeout(), self.due()];
        dues.into_iter().flatten().min()
    }

    fn read_first(&self) -> SocketClass {
        self.below.read_first()
    }

    fn dozes_until(&self) -> Option<Time> {
        self.below.dozes_until()
    }

    fn listens(&self) -> bool {
        self.below.listens()
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        self.below.handle_copies(now, members);
    }

    fn copies_to(&self, member: MemberId) -> bool {
        self.below.copies_to(member)
    }
}

impl<P: Ordered> Ordered for Total<P> {
    /// Accepts an `agreed` message. It is delivered here in its place in the order, after the hold.
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        if service != Service::Agreed {
            return Err(SubmitError::Unsupported { service });
        }
        let mut stamped = BytesMut::with_capacity(STAMP + payload.len());
        stamped.put_u64(self.clock.saturating_add(1));
        stamped.put_slice(&payload);
        let result = self.below.submit(now, Service::Fifo, stamped.freeze());
        self.settle(now);
        result.map_err(|error| match error {
            SubmitError::TooLarge { len, max } => SubmitError::TooLarge {
                len: len - STAMP,
                max: max.saturating_sub(STAMP),
            },
            other => other,
        })
    }

    fn services(&self) -> &'static [Service] {
        &[Service::Agreed]
    }

    fn leave(&mut self, now: Time) {
        self.below.leave(now);
        self.settle(now);
    }

    fn local(&self) -> MemberId {
        self.below.local()
    }
}

impl<P: Instrumented> Instrumented for Total<P> {
    fn introduce(&mut self, now: Time, peer: MemberId) {
        self.below.introduce(now, peer);
    }

    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.below.measure(each);
        each("held back", self.held_bytes as u64);
        each("late", self.late);
        each("early", self.early);
    }
}
