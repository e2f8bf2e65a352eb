//! Further rings of the world: a perfect ordered channel each, which can divide and merge as the
//! daemons' own, and a judge each.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use bytes::Bytes;
use groupcast_check::{Checker, Outcome};
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, Incarnation, MemberId, MessageId,
    OrderPlace, Rng, Service, SubmitError,
};
use groupcast_session::groups::Carrier;

use super::{World, close};

/// A ring of the world.
pub(super) struct RingChannel {
    /// What each daemon has of it.
    ends: BTreeMap<MemberId, RingEnd>,
    /// The daemons that can hear each other, with their configuration.
    components: Vec<(ConfigId, Vec<MemberId>)>,
    counter: u64,
    stays: u64,
    checker: Checker,
    pub(super) top: String,
    /// If a join has made it.
    pub(super) multicast: Option<SocketAddrV4>,
}

/// A daemon's end of a ring.
struct RingEnd {
    /// Who it is there.
    member: MemberId,
    /// It is in a configuration.
    is_in: bool,
    submitted: u64,
    /// Submitted, not ordered yet.
    queue: VecDeque<(MessageId, Service, Bytes)>,
    /// Ordered (or installed), not delivered yet.
    inbox: VecDeque<Event>,
}

impl RingChannel {
    pub(super) fn new(top: &str, multicast: Option<SocketAddrV4>) -> Self {
        Self {
            ends: BTreeMap::new(),
            components: Vec::new(),
            counter: 0,
            stays: 0,
            checker: Checker::new(),
            top: top.into(),
            multicast,
        }
    }

    pub(super) fn submit(
        &mut self,
        daemon: MemberId,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let end = self.ends.get_mut(&daemon).expect("the daemon runs");
        assert!(end.is_in, "who is in no ring hands nothing to it");
        end.submitted += 1;
        let id = MessageId {
            sender: end.member,
            number: end.submitted,
        };
        let submission = Observation::Submit {
            id,
            service,
            digest: digest(&payload),
        };
        self.checker.observe(end.member, &submission);
        end.queue.push_back((id, service, payload));
        Ok(id)
    }

    pub(super) fn observe(&mut self, daemon: MemberId, observation: &Observation) {
        let member = self.ends[&daemon].member;
        self.checker.observe(member, observation);
    }

    /// The daemon is no more.
    pub(super) fn crash(&mut self, daemon: MemberId) {
        if let Some(end) = self.ends.remove(&daemon)
            && end.is_in
        {
            self.checker.observe(end.member, &Observation::Crash);
        }
        for (_, daemons) in &mut self.components {
            daemons.retain(|other| *other != daemon);
        }
    }

    /// Divides the daemons that are to be in the ring, as [`World::divide`] does.
    fn divide(&mut self, parts: &[Vec<MemberId>], rng: &mut Rng) {
        let old = std::mem::take(&mut self.components);
        for part in parts {
            let mut members: Vec<MemberId> = part.iter().map(|it| self.ends[it].member).collect();
            members.sort();
            self.counter += 1;
            let id = ConfigId {
                counter: self.counter,
                representative: members[0],
            };
            for (config, daemons) in &old {
                let together = self
                    .ends
                    .iter_mut()
                    .filter(|(daemon, _)| part.contains(daemon) && daemons.contains(daemon));
                let mut inboxes: BTreeMap<_, _> = together
                    .map(|(_, end)| (end.member, &mut end.inbox))
                    .collect();
                close(&mut inboxes, *config, rng);
            }
            for daemon in part {
                let end = self.ends.get_mut(daemon).expect("the daemon runs");
                if !std::mem::replace(&mut end.is_in, true) {
                    self.checker.observe(end.member, &Observation::Start);
                }
                let configuration = Configuration {
                    kind: ConfigurationKind::Regular,
                    id,
                    members: members.clone(),
                    left: Vec::new(),
                };
                end.inbox.push_back(Event::Configuration(configuration));
            }
            self.components.push((id, part.clone()));
        }
    }
}

impl World {
    /// The daemon's next stay in the ring is that of a new member.
    pub(super) fn begin_ring(&mut self, ring: usize, daemon: MemberId) {
        let channel = &mut self.rings[ring];
        channel.stays += 1;
        let end = RingEnd {
            member: MemberId {
                node: daemon.node,
                incarnation: Incarnation(1_000_000 * (ring as u64 + 1) + channel.stays),
            },
            is_in: false,
            submitted: 0,
            queue: VecDeque::new(),
            inbox: VecDeque::new(),
        };
        let member = end.member;
        channel.ends.insert(daemon, end);
        if let Some(place) = self.place_of(ring, daemon) {
            let now = self.now;
            self.daemon(daemon).engine.begin_ring(now, place, member);
        }
    }

    /// Where the daemon has the ring among its own.
    pub(super) fn place_of(&self, ring: usize, daemon: MemberId) -> Option<usize> {
        let mut places = self.daemons.get(&daemon)?.places.iter();
        let found = places.find(|(_, of)| **of == ring);
        found.map(|(place, _)| *place)
    }

    /// The daemon has nothing to do with the ring any more.
    pub(super) fn end_ring(&mut self, ring: usize, daemon: MemberId) {
        self.rings[ring].ends.remove(&daemon);
    }

    /// The daemon is to be in the ring, from its next configuration on.
    pub(super) fn enter(&mut self, ring: usize, daemon: MemberId) {
        let channel = &mut self.rings[ring];
        if let Some(end) = channel.ends.get_mut(&daemon)
            && !std::mem::replace(&mut end.is_in, true)
        {
            channel.checker.observe(end.member, &Observation::Start);
        }
    }

    pub fn is_in_ring(&self, ring: usize, daemon: MemberId) -> bool {
        self.rings[ring]
            .ends
            .get(&daemon)
            .is_some_and(|end| end.is_in)
    }

    /// The daemons that are in the ring.
    pub(super) fn in_ring(&self, ring: usize) -> Vec<MemberId> {
        let ends = self.rings[ring].ends.iter();
        ends.filter(|(_, end)| end.is_in)
            .map(|(daemon, _)| *daemon)
            .collect()
    }

    /// The daemons of the ring that have nothing under way there leave it, if their engines want
    /// nothing of it any more; whether one did.
    pub fn leave_unused(&mut self, ring: usize, daemon: MemberId) -> bool {
        let Some(end) = self.rings[ring].ends.get(&daemon) else {
            return false;
        };
        let is_idle = end.is_in && end.queue.is_empty() && end.inbox.is_empty();
        let place = self.place_of(ring, daemon);
        if !is_idle || place.is_none_or(|at| self.daemons[&daemon].engine.uses_ring(at)) {
            return false;
        }
        let member = end.member;
        self.rings[ring]
            .checker
            .observe(member, &Observation::Leave);
        self.lose_stay(ring, daemon);
        true
    }

    /// A daemon's stay in a ring ends, whatever is under way there; it is another member from now
    /// on.
    pub fn lose_stay(&mut self, ring: usize, daemon: MemberId) {
        let channel = &mut self.rings[ring];
        for (_, daemons) in &mut channel.components {
            daemons.retain(|other| *other != daemon);
        }
        self.begin_ring(ring, daemon);
        self.settle(daemon);
    }

    /// Divides the daemons of a ring into `parts`; who is in none is not in it.
    pub fn divide_ring(&mut self, ring: usize, parts: &[Vec<MemberId>], rng: &mut Rng) {
        self.rings[ring].divide(parts, rng);
    }

    /// Orders the next message of the daemon's queue in the ring; whether there was one.
    pub fn order_in_ring(&mut self, ring: usize, daemon: MemberId) -> bool {
        let channel = &mut self.rings[ring];
        let mut components = channel.components.iter();
        let Some((config, daemons)) = components.find(|(_, it)| it.contains(&daemon)) else {
            return false;
        };
        let end = channel.ends.get_mut(&daemon).expect("the daemon runs");
        let Some((id, service, payload)) = end.queue.pop_front() else {
            return false;
        };
        self.seq += 1 << 16;
        let delivery = Delivery {
            id,
            service,
            place: Some(OrderPlace {
                config: *config,
                seq: self.seq,
            }),
            payload,
        };
        for receiver in daemons {
            if let Some(end) = channel.ends.get_mut(receiver) {
                end.inbox.push_back(Event::Deliver(delivery.clone()));
            }
        }
        true
    }

    /// Delivers the next event of the ring to the daemon; whether there was one.
    pub fn deliver_in_ring(&mut self, ring: usize, daemon: MemberId) -> bool {
        if let Some(place) = self.place_of(ring, daemon)
            && !self.has_time(daemon, Carrier::Ring(place))
        {
            return true;
        }
        let Some(end) = self.rings[ring].ends.get_mut(&daemon) else {
            return false;
        };
        let Some(event) = end.inbox.pop_front() else {
            return false;
        };
        if let Some(observation) = Observation::of(&event) {
            self.rings[ring].observe(daemon, &observation);
        }
        let now = self.now;
        let Some(place) = self.place_of(ring, daemon) else {
            return true;
        };
        let engine = &mut self.daemon(daemon).engine;
        engine.handle_event(now, Carrier::Ring(place), event);
        self.settle(daemon);
        true
    }

    /// What the histories of the ring violate.
    pub fn judge_ring(&self, ring: usize) -> Vec<String> {
        let violations = self.rings[ring].checker.finish(&Outcome::default());
        // The channel does not wait until enough members have a message that is promised it.
        let found = violations
            .iter()
            .filter(|it| !["safe", "resilience"].contains(&it.rule));
        found.map(ToString::to_string).collect()
    }
}
