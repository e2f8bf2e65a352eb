//! XGM as a family of the registry: each message is a value of a variable of the group, and now and
//! then a member takes a census.
//!
//! XGM carries no messages of its own. A variable is as reliable as a datagram, so the checker
//! judges histories as those of bare multicast: nothing is invented or changed.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Buf as _, Bytes};
use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::mech::participation::{Participation, Transitions};
use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Delivery, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SubmitError, Time, Transmit, TransmitBuf,
};

use super::{
    CensusRequest, ConnectionId, Key, Membership, Scope, Standing, Subgroups, VALUE_MAX, WatchFrom,
    Xgm, XgmConfig, XgmEvent, inspect,
};

/// Group management: a variable a message, with the reliability of a datagram.
pub const FAMILY: Family = Family {
    name: "xgm",
    services: XgmMessages::SERVICES,
    service: Service::Unreliable,
    contract: Contract::Unreliable,
    variants: &[Variant { name: "", build }],
    settings: None,
    inspect,
    trial: Trial {
        len_max: XgmMessages::MESSAGE_MAX,
        services: Some(XgmMessages::SERVICES),
        zeros: &[UNASKED],
        ..Trial::new(vary)
    },
};

/// The measure that counts answers of hosts that were not asked.
pub(crate) const UNASKED: &str = "unasked";

fn build(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(XgmMessages::new(local, XgmConfig::default(), rng, now))
}

/// Other settings for each seed.
fn vary(mut rng: Rng, _situation: &Situation) -> Factory {
    let config = XgmConfig {
        interval: Duration::from_millis(rng.range(1..50)),
        answers_wanted: rng.range(1..40) as u32,
        quiet: Duration::from_millis(rng.range(0..500)),
        silent_passes: rng.range(0..4) as u32,
        hosts_max: rng.range(1..64) as usize,
        answers_max: rng.range(0..40) as u32,
        watch_interval: Duration::from_millis(rng.range(50..2_000)),
        watch_asks: rng.range(0..8) as u32,
        #[cfg(any(test, feature = "planted-bugs"))]
        planted: None,
    };
    Arc::new(move |local, rng, now| Box::new(XgmMessages::new(local, config, rng, now)))
}

/// An entity with one member, whose user sends messages as variables and takes censuses.
pub(super) struct XgmMessages {
    pub(super) xgm: Xgm,
    rng: Rng,
    queue: SendQueue<Fifo>,
    events: VecDeque<Event>,
    /// The connections of others that the member is in.
    entered: VecDeque<ConnectionId>,
    /// When the user asks or moves members next; `None`: never.
    tick: Option<Time>,
    /// What the last census found.
    #[cfg(test)]
    pub(super) last: Option<super::Census>,
    participation: Participation,
    transitions: Transitions,
}

impl XgmMessages {
    const SERVICES: &[Service] = &[Service::Unreliable];
    /// Bytes of the message's number, which a value has before the payload.
    const NUMBER_LEN: usize = 8;
    const MESSAGE_MAX: usize = VALUE_MAX - Self::NUMBER_LEN;
    const QUEUE_MAX: usize = 1 << 20;
    const TICK: Duration = Duration::from_millis(700);
    pub(super) const KEY: Key = Key(1);
    const NAME: &[u8] = b"message";
    const CONNECTION: &[u8] = b"connection";
    const ENTERED_MAX: usize = 8;

    pub(super) fn new(local: MemberId, config: XgmConfig, rng: Rng, now: Time) -> Self {
        let mut xgm = Xgm::new(local, b"", config, rng.fork("xgm"));
        let joined = xgm.join(Self::KEY);
        joined.expect("the first member finds room");
        let limits = SendLimits {
            services: Self::SERVICES,
            message_max: Self::MESSAGE_MAX,
            queue_max: Self::QUEUE_MAX,
        };
        Self {
            xgm,
            rng: rng.fork("user"),
            queue: SendQueue::new(limits, Fifo::default()),
            events: VecDeque::new(),
            entered: VecDeque::new(),
            tick: Some(now + Self::TICK),
            #[cfg(test)]
            last: None,
            participation: Participation::Member,
            transitions: Transitions::default(),
        }
    }

    /// The same, but the user does nothing without being told to.
    #[cfg(test)]
    pub(super) fn passive(local: MemberId, config: XgmConfig, rng: Rng, now: Time) -> Self {
        Self {
            tick: None,
            ..Self::new(local, config, rng, now)
        }
    }

    fn deliver(&mut self, id: MessageId, payload: Bytes) {
        self.events.push_back(Event::Deliver(Delivery {
            id,
            service: Service::Unreliable,
            place: None,
            payload,
        }));
    }

    /// Takes a census, monitors a connection, or moves members. A refusal means that enough is
    /// under way already.
    fn act(&mut self, now: Time) {
        self.tick = Some(now + Self::TICK);
        let one = Subgroups::ALL.draw(&mut self.rng);
        let some = Subgroups(self.rng.next_u64()).union(one);
        self.take_part(now);
        match self.rng.below(6) {
            0 => {
                let _ = self.xgm.partition(some, one);
            }
            1 => {
                let to = self.rng.below(Subgroups::COUNT.into()) as u8;
                let _ = self.xgm.merge(to, some);
            }
            2 | 3 => self.monitor(now),
            _ => {
                let request = CensusRequest {
                    subgroups: some,
                    list: self.rng.chance(0.5),
                    timeout: Duration::from_secs(1),
                };
                let _ = self.xgm.census(now, request);
            }
        }
    }
}

impl XgmMessages {
    /// Monitors a connection, sets a checkpoint in it, or lets it go. A refusal means that there
    /// are enough.
    fn monitor(&mut self, now: Time) {
        let number = self.rng.below(4) as u32;
        if self.rng.chance(0.2) {
            return self.xgm.release_monitor(number);
        }
        let membership = Membership {
            count: self.rng.below(4) as usize,
            may_leave: self.rng.chance(0.5),
            ..Membership::default()
        };
        if self.xgm.monitor(now, number, membership).is_ok() {
            let _ = self
                .xgm
                .set(Scope::Group, Self::CONNECTION, &number.to_be_bytes());
        }
        if self.rng.chance(0.5) {
            self.xgm.begin_monitor(number);
        }
        let place = self.rng.below(100);
        let _ = self.xgm.checkpoint(now, number, place);
    }

    /// Advances in a connection, or leaves it.
    fn take_part(&mut self, now: Time) {
        let Some(id) = self.entered.pop_front() else {
            return;
        };
        let standing = match self.rng.below(6) {
            0 => Standing::Complete,
            1 => Standing::Left,
            2 => Standing::Closed,
            _ => {
                self.xgm.advance(now, id, self.rng.below(100));
                return self.entered.push_back(id);
            }
        };
        self.xgm.exit(now, id, standing);
    }

    /// Takes in the entity's events.
    fn hear(&mut self, now: Time) {
        while let Some(event) = self.xgm.poll_event() {
            match event {
                #[cfg(test)]
                XgmEvent::Census(census) => self.last = Some(census),
                XgmEvent::Heard {
                    number,
                    member,
                    name,
                } => {
                    // The connection may take no more members.
                    let _ = self.xgm.watch(number, member, &name, WatchFrom::FirstWord);
                }
                XgmEvent::Set {
                    name, value, by, ..
                } => self.hear_variable(now, &name, value, by),
                _ => {}
            }
        }
    }

    fn hear_variable(&mut self, now: Time, name: &[u8], mut value: Bytes, by: MemberId) {
        if by == self.xgm.local() {
            return;
        }
        // A variable that another entity set under another name is no message.
        if name == Self::NAME && value.len() >= Self::NUMBER_LEN {
            let number = value.get_u64();
            self.deliver(MessageId { sender: by, number }, value);
        } else if name == Self::CONNECTION && value.len() == 4 {
            let number = value.get_u32();
            let id = ConnectionId { source: by, number };
            if self.entered.len() < Self::ENTERED_MAX && !self.entered.contains(&id) {
                self.entered.push_back(id);
                self.xgm.enter(now, Self::KEY, id);
            }
        }
    }
}

impl Protocol for XgmMessages {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        if !self.participation.has_left() {
            self.xgm.handle_datagram(now, from, body);
            self.hear(now);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.participation.has_left() {
            return;
        }
        self.xgm.handle_timeout(now);
        if self.tick.is_some_and(|tick| tick <= now) {
            self.act(now);
        }
        self.hear(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if self.xgm.is_idle()
            && let Some(message) = self.queue.pop()
        {
            let mut value = Vec::with_capacity(Self::NUMBER_LEN + message.payload.len());
            value.extend_from_slice(&message.number.to_be_bytes());
            value.extend_from_slice(&message.payload);
            // If others have taken all names of variables, the message is lost, as a datagram may
            // be.
            let _ = self.xgm.set(Scope::Group, Self::NAME, &value);
        }
        if self.queue.take_writable() {
            self.events.push_back(Event::Writable);
        }
        self.xgm.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop()
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.participation.has_left() {
            return None;
        }
        self.tick.into_iter().chain(self.xgm.poll_timeout()).min()
    }
}

impl Ordered for XgmMessages {
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let number = self.queue.submit(service, payload.clone())?;
        let sender = self.xgm.local();
        self.deliver(MessageId { sender, number }, payload);
        Ok(MessageId { sender, number })
    }

    fn services(&self) -> &'static [Service] {
        self.queue.services()
    }

    fn leave(&mut self, _now: Time) {
        if self.participation.is_member() {
            self.queue.close();
            self.participation
                .advance(Participation::Left, "leave", &mut self.transitions);
            self.xgm.leave(Self::KEY);
            self.events.push_back(Event::Left);
        }
    }

    fn local(&self) -> MemberId {
        self.xgm.local()
    }
}

impl Instrumented for XgmMessages {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let counters = self.xgm.counters();
        each("polls", counters.polls);
        each("answers", counters.answers);
        each("unanswered", counters.unanswered);
        each(UNASKED, counters.unasked);
        each("queued", self.queue.bytes() as u64);
    }
}
