//! A protocol to test the simulator with: a fixed sequencer, which survives lost datagrams but no
//! lost member.
//!
//! Member 1 is the sequencer. Every member sends hellos until member 1 has heard all of them and
//! announced the only configuration. A member sends its message to member 1 until the message comes
//! back with its place in the order; a member that misses a place requests it.
//!
//! | first byte | rest |
//! |---|---|
//! | 0 hello | next place expected (8) |
//! | 1 configuration | members |
//! | 2 request | number (8), service (1), payload |
//! | 3 order | place (8), sender (16), number (8), service (1), payload |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::trace::Transition;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Destination, Event, Instrumented,
    MemberId, MessageId, OrderPlace, Ordered, Protocol, Rng, Service, SocketClass, SubmitError,
    Time, Transmit, TransmitBuf,
};

const TICK: Duration = Duration::from_millis(20);

#[derive(Clone, Hash)]
struct Ordering {
    id: MessageId,
    service: Service,
    payload: Bytes,
}

#[derive(Clone)]
pub(crate) struct Sequencer {
    local: MemberId,
    size: usize,
    members: Vec<MemberId>,
    heard: BTreeSet<MemberId>,
    submitted: u64,
    /// Own messages that have not come back.
    waiting: BTreeMap<u64, (Service, Bytes)>,
    /// Orders by place; at the sequencer all of them.
    orders: BTreeMap<u64, Ordering>,
    /// At the sequencer: how many messages of each sender have a place.
    ordered: BTreeMap<MemberId, u64>,
    next: u64,
    tick: Time,
    out: VecDeque<(Destination, SocketClass, Vec<u8>)>,
    events: VecDeque<Event>,
    transition: Option<Transition>,
    left: bool,
    /// A bug: a place that is missing when a later one comes is given up.
    pub(crate) hasty: bool,
}

/// Of a member whose output was drained.
impl Hash for Sequencer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.local, &self.members, &self.heard, self.submitted).hash(state);
        (&self.waiting, &self.orders, &self.ordered, self.next).hash(state);
        (self.tick, self.left).hash(state);
    }
}

impl Sequencer {
    pub(crate) fn new(size: usize, local: MemberId, mut rng: Rng, now: Time) -> Self {
        Self {
            local,
            size,
            members: Vec::new(),
            heard: [local].into(),
            submitted: 0,
            waiting: BTreeMap::new(),
            orders: BTreeMap::new(),
            ordered: BTreeMap::new(),
            next: 0,
            tick: now + rng.duration(Duration::ZERO, TICK),
            out: VecDeque::new(),
            events: VecDeque::new(),
            transition: None,
            left: false,
            hasty: false,
        }
    }

    fn is_sequencer(&self) -> bool {
        self.local.node.0 == 1
    }

    fn install(&mut self, members: Vec<MemberId>) {
        if self.members.is_empty() && members.contains(&self.local) {
            self.members = members;
            self.events.push_back(Event::Configuration(Configuration {
                kind: ConfigurationKind::Regular,
                id: self.config(),
                members: self.members.clone(),
                left: Vec::new(),
            }));
            self.transition = Some(Transition::new("joining", "operational", "configuration"));
            self.deliver();
        }
    }

    fn config(&self) -> ConfigId {
        ConfigId {
            counter: 1,
            representative: self.members[0],
        }
    }

    fn order(&mut self, id: MessageId, service: Service, payload: Bytes) {
        let ordered = self.ordered.entry(id.sender).or_default();
        // In each sender's order: one that overtook another is sent again anyway.
        if self.members.contains(&id.sender) && id.number == *ordered + 1 {
            *ordered += 1;
            let place = self.orders.len() as u64;
            let ordering = Ordering {
                id,
                service,
                payload,
            };
            self.announce(place, &ordering, Destination::Group);
            self.orders.insert(place, ordering);
            self.deliver();
        }
    }

    fn announce(&mut self, place: u64, ordering: &Ordering, to: Destination) {
        let mut bytes = vec![3];
        Writer::new(&mut bytes)
            .u64(place)
            .member(ordering.id.sender)
            .u64(ordering.id.number)
            .u8(ordering.service.code())
            .put(&ordering.payload);
        self.out.push_back((to, SocketClass::Data, bytes));
    }

    fn deliver(&mut self) {
        while !self.members.is_empty()
            && let Some(ordering) = self.orders.get(&self.next).cloned()
        {
            if ordering.id.sender == self.local {
                self.waiting.remove(&ordering.id.number);
            }
            let place = (ordering.service != Service::Unreliable).then(|| OrderPlace {
                config: self.config(),
                seq: self.next << 16,
            });
            self.events.push_back(Event::Deliver(Delivery {
                id: ordering.id,
                service: ordering.service,
                place,
                payload: ordering.payload,
            }));
            self.next += 1;
        }
    }

    fn request(&mut self, number: u64) {
        let Some((service, payload)) = self.waiting.get(&number).cloned() else {
            return;
        };
        if self.is_sequencer() {
            let sender = self.local;
            self.order(MessageId { sender, number }, service, payload);
        } else if let Some(sequencer) = self.members.first() {
            let mut bytes = vec![2];
            Writer::new(&mut bytes)
                .u64(number)
                .u8(service.code())
                .put(&payload);
            let to = Destination::Member(*sequencer);
            self.out.push_back((to, SocketClass::Control, bytes));
        }
    }

    fn read(&mut self, from: MemberId, body: &Bytes) -> Result<(), DecodeError> {
        let mut reader = Reader::new(body);
        let service = |reader: &mut Reader<'_>| -> Result<Service, DecodeError> {
            let code = reader.u8("service")?;
            Service::from_code(code).ok_or(reader.invalid("service", u64::from(code)))
        };
        match reader.u8("type")? {
            0 => {
                let next = reader.u64("next")?;
                self.handle_hello(from, next);
            }
            1 => {
                let count = reader.count("members", 16)?;
                let members = (0..count).map(|_| reader.member("member"));
                let members = members.collect::<Result<_, _>>()?;
                self.install(members);
            }
            2 => {
                assert!(self.is_sequencer(), "the seal binds a request to it");
                let number = reader.u64("number")?;
                let service = service(&mut reader)?;
                let payload = body.slice(reader.position()..);
                let id = MessageId {
                    sender: from,
                    number,
                };
                self.order(id, service, payload);
            }
            _ => {
                let place = reader.u64("place")?;
                let sender = reader.member("sender")?;
                let number = reader.u64("number")?;
                let ordering = Ordering {
                    id: MessageId { sender, number },
                    service: service(&mut reader)?,
                    payload: body.slice(reader.position()..),
                };
                if self.hasty {
                    self.next = self.next.max(place);
                }
                if place >= self.next {
                    self.orders.insert(place, ordering);
                    self.deliver();
                }
            }
        }
        Ok(())
    }

    fn handle_hello(&mut self, from: MemberId, next: u64) {
        if !self.is_sequencer() {
            return;
        }
        if self.members.is_empty() {
            self.heard.insert(from);
            if self.heard.len() == self.size {
                self.install(self.heard.iter().copied().collect());
            }
            return;
        }
        let missed: Vec<(u64, Ordering)> = self
            .orders
            .range(next..)
            .take(20)
            .map(|(place, ordering)| (*place, ordering.clone()))
            .collect();
        for (place, ordering) in missed {
            self.announce(place, &ordering, Destination::Member(from));
        }
    }
}

impl Protocol for Sequencer {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        if !self.left {
            self.read(from, &body).expect("the seal keeps junk out");
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if now < self.tick {
            return;
        }
        self.tick = now + TICK;
        let mut bytes = vec![0];
        Writer::new(&mut bytes).u64(self.next);
        self.out
            .push_back((Destination::Group, SocketClass::Control, bytes));
        if self.is_sequencer() && !self.members.is_empty() {
            let mut bytes = vec![1];
            let mut writer = Writer::new(&mut bytes);
            writer.count(self.members.len());
            self.members.iter().for_each(|member| {
                writer.member(*member);
            });
            self.out
                .push_back((Destination::Group, SocketClass::Control, bytes));
        }
        let waiting: Vec<u64> = self.waiting.keys().copied().take(20).collect();
        waiting.into_iter().for_each(|number| self.request(number));
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (destination, class, bytes) = self.out.pop_front()?;
        buf.push(&[&bytes]);
        Some(Transmit { destination, class })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.transition.take()
    }

    fn poll_timeout(&self) -> Option<Time> {
        (!self.left).then_some(self.tick)
    }
}

impl Instrumented for Sequencer {}

impl Ordered for Sequencer {
    fn submit(
        &mut self,
        _now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        if self.left {
            return Err(SubmitError::Leaving);
        }
        if payload.len() > 60_000 {
            return Err(SubmitError::TooLarge {
                len: payload.len(),
                max: 60_000,
            });
        }
        if self.waiting.len() >= 100 {
            return Err(SubmitError::Full { queued: 100 });
        }
        self.submitted += 1;
        self.waiting.insert(self.submitted, (service, payload));
        self.request(self.submitted);
        Ok(MessageId {
            sender: self.local,
            number: self.submitted,
        })
    }

    fn services(&self) -> &'static [Service] {
        &Service::ALL
    }

    fn leave(&mut self, _now: Time) {
        self.left = true;
        self.events.push_back(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}
