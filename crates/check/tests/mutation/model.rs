//! An abstract model of Extended Virtual Synchrony: random runs that keep every promise.
//!
//! It has no packets, tokens or times. A ring is a log; each member holds some of it and has
//! delivered some of what it holds. Rings split and merge at random, members crash at any point,
//! start anew and leave. What a set of members that moves together has between them it delivers, by
//! the rules of EVS.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use groupcast_check::{Ending, Outcome, Together};
use groupcast_core::trace::Observation;
use groupcast_core::{
    ConfigId, ConfigurationKind, Incarnation, MemberId, MessageId, NodeId, OrderPlace, Rng, Service,
};

const STEPS: u64 = 600;
const ALIVE_MAX: usize = 7;

/// A finished run.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) histories: BTreeMap<MemberId, Vec<Observation>>,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy)]
struct Message {
    id: MessageId,
    service: Service,
    digest: u64,
}

struct Ring {
    id: ConfigId,
    members: Vec<MemberId>,
    /// Its messages, with their places.
    log: Vec<(u64, Message)>,
    next_seq: u64,
}

struct Member {
    ring: usize,
    /// Which entries of the ring's log it holds.
    held: BTreeSet<usize>,
    /// How many entries of the ring's log it has delivered.
    delivered: usize,
    /// Submitted, not ordered yet.
    queue: VecDeque<Message>,
    submitted: u64,
    owed: BTreeSet<u64>,
    is_alive: bool,
}

struct Model {
    rng: Rng,
    members: BTreeMap<MemberId, Member>,
    rings: Vec<Ring>,
    histories: BTreeMap<MemberId, Vec<Observation>>,
    unreliable: Vec<Message>,
    endings: BTreeMap<MemberId, Ending>,
}

/// The run of `seed`.
pub(crate) fn run(seed: u64) -> Run {
    let rng = Rng::new(seed);
    let mut model = Model {
        rng,
        members: BTreeMap::new(),
        rings: Vec::new(),
        histories: BTreeMap::new(),
        unreliable: Vec::new(),
        endings: BTreeMap::new(),
    };
    for _ in 0..model.rng.range(1..6) {
        model.start();
    }
    for _ in 0..STEPS {
        model.step();
    }
    model.finish()
}

impl Model {
    fn step(&mut self) {
        match self.rng.below(100) {
            0..18 => self.submit(),
            18..34 => self.order(),
            34..62 => self.receive(),
            62..88 => self.deliver_one(),
            88..92 => self.deliver_unreliable(),
            92..94 => self.regroup(),
            94..95 => self.crash_one(),
            95..96 => self.leave_one(),
            96..98 => self.start(),
            _ => {}
        }
    }

    fn alive(&self) -> Vec<MemberId> {
        let alive = self.members.iter().filter(|(_, member)| member.is_alive);
        alive.map(|(id, _)| *id).collect()
    }

    fn pick_alive(&mut self) -> Option<MemberId> {
        let alive = self.alive();
        self.rng.pick(&alive).copied()
    }

    fn see(&mut self, id: MemberId, observation: Observation) {
        self.histories.entry(id).or_default().push(observation);
    }

    /// A new member, alone; at times a new life of an old node.
    fn start(&mut self) {
        if self.alive().len() >= ALIVE_MAX {
            return;
        }
        let id = MemberId {
            node: NodeId(self.rng.below(12)),
            incarnation: Incarnation(self.rng.next_u64()),
        };
        self.see(id, Observation::Start);
        let member = Member {
            ring: usize::MAX,
            held: BTreeSet::new(),
            delivered: 0,
            queue: VecDeque::new(),
            submitted: 0,
            owed: BTreeSet::new(),
            is_alive: true,
        };
        self.members.insert(id, member);
        let counter = self.rng.range(1..4);
        self.install(vec![id], counter, 1);
    }

    fn submit(&mut self) {
        let Some(id) = self.pick_alive() else { return };
        let services = Service::ALL;
        let service = self.rng.pick(&services).copied().unwrap();
        self.submit_at(id, service);
    }

    fn submit_at(&mut self, sender: MemberId, service: Service) -> MessageId {
        let digest = self.rng.next_u64();
        let member = self.members.get_mut(&sender).unwrap();
        member.submitted += 1;
        let number = member.submitted;
        let id = MessageId { sender, number };
        let message = Message {
            id,
            service,
            digest,
        };
        if service == Service::Unreliable {
            self.unreliable.push(message);
        } else {
            member.queue.push_back(message);
            member.owed.insert(number);
        }
        self.see(
            sender,
            Observation::Submit {
                id,
                service,
                digest,
            },
        );
        id
    }

    fn order(&mut self) {
        let Some(id) = self.pick_alive() else { return };
        self.order_at(id);
    }

    fn order_at(&mut self, id: MemberId) {
        let member = self.members.get_mut(&id).unwrap();
        let Some(message) = member.queue.pop_front() else {
            return;
        };
        let ring = &mut self.rings[member.ring];
        member.held.insert(ring.log.len());
        ring.log.push((ring.next_seq, message));
        ring.next_seq += self.rng.range(1..3);
    }

    fn receive(&mut self) {
        let Some(id) = self.pick_alive() else { return };
        let member = self.members.get_mut(&id).unwrap();
        let len = self.rings[member.ring].log.len();
        // Mostly in order, at times with a hole.
        let first = (0..len).find(|index| !member.held.contains(index));
        let index = match self.rng.chance(0.7) {
            true => first,
            false => (len > 0).then(|| self.rng.below(len as u64) as usize),
        };
        member.held.extend(index);
    }

    fn deliver_one(&mut self) {
        let Some(id) = self.pick_alive() else { return };
        self.deliver_at(id);
    }

    /// Delivers the next message in the regular configuration, if it may be delivered.
    fn deliver_at(&mut self, id: MemberId) {
        let member = &self.members[&id];
        let next = member.delivered;
        let ring = &self.rings[member.ring];
        if !member.held.contains(&next) {
            return;
        }
        let holds_all = |other: &MemberId| {
            let other = &self.members[other];
            other.ring == member.ring && (0..=next).all(|index| other.held.contains(&index))
        };
        let (members, holders) = (ring.members.len(), ring.members.iter());
        let holders = holders.filter(|other| holds_all(other)).count();
        let is_deliverable = match ring.log[next].1.service {
            Service::Safe => holders == members,
            Service::Majority => 2 * holders > members,
            Service::KResilient(k) => holders > usize::from(k).min(members - 1),
            _ => true,
        };
        if is_deliverable {
            self.deliver(id, member.ring, next);
            self.members.get_mut(&id).unwrap().delivered += 1;
        }
    }

    fn deliver(&mut self, id: MemberId, ring: usize, index: usize) {
        let config = self.rings[ring].id;
        let (seq, message) = self.rings[ring].log[index];
        if message.id.sender == id {
            let member = self.members.get_mut(&id).unwrap();
            member.owed.remove(&message.id.number);
        }
        self.see(
            id,
            Observation::Deliver {
                id: message.id,
                service: message.service,
                place: Some(OrderPlace { config, seq }),
                digest: message.digest,
            },
        );
        // Some messages change a process group.
        if message.digest.is_multiple_of(4) {
            let view = format!("{config}/{seq}");
            self.see_view(id, view, vec![message.id.number.to_string()]);
        }
    }

    fn see_view(&mut self, id: MemberId, view: String, members: Vec<String>) {
        let group = "chat".to_owned();
        self.see(
            id,
            Observation::GroupView {
                group,
                view,
                members,
            },
        );
    }

    fn deliver_unreliable(&mut self) {
        let Some(id) = self.pick_alive() else { return };
        if let Some(message) = self.rng.pick(&self.unreliable).copied() {
            self.see(
                id,
                Observation::Deliver {
                    id: message.id,
                    service: message.service,
                    place: None,
                    digest: message.digest,
                },
            );
        }
    }

    fn crash_one(&mut self) {
        if self.alive().len() > 1
            && let Some(id) = self.pick_alive()
        {
            self.crash(id);
        }
    }

    /// Ends a life, in one of the ways in which histories tell it.
    fn crash(&mut self, id: MemberId) {
        self.members.get_mut(&id).unwrap().is_alive = false;
        match self.rng.below(4) {
            0 => self.see(id, Observation::Crash),
            1 => {
                self.endings.insert(id, Ending::Crashed);
            }
            2 => {}
            _ => {
                // The last lines are lost, the first never is.
                let lost = self.rng.below(5) as usize;
                let history = self.histories.get_mut(&id).unwrap();
                history.truncate(history.len().saturating_sub(lost).max(1));
            }
        }
    }

    fn leave_one(&mut self) {
        let Some(id) = self.pick_alive() else { return };
        if self.alive().len() > 1 && self.members[&id].owed.is_empty() {
            self.members.get_mut(&id).unwrap().is_alive = false;
            self.see(id, Observation::Leave);
        }
    }

    /// Splits and merges the rings of some members at random.
    fn regroup(&mut self) {
        let rings: BTreeSet<usize> = self
            .alive()
            .iter()
            .map(|id| self.members[id].ring)
            .collect();
        let touched: Vec<usize> = rings.into_iter().filter(|_| self.rng.chance(0.6)).collect();
        let parts = self.rng.range(1..4);
        let mut groups = BTreeMap::<u64, Vec<MemberId>>::new();
        for id in self.alive() {
            if touched.contains(&self.members[&id].ring) {
                let part = self.rng.below(parts);
                groups.entry(part).or_default().push(id);
            }
        }
        for group in groups.into_values() {
            self.regroup_to(group, true);
        }
    }

    /// `group` forms a new ring; some may crash on the way.
    fn regroup_to(&mut self, group: Vec<MemberId>, may_crash: bool) {
        let mut by_ring = BTreeMap::<usize, Vec<MemberId>>::new();
        for id in &group {
            let ring = self.members[id].ring;
            by_ring.entry(ring).or_default().push(*id);
        }
        let old = by_ring.keys().map(|ring| &self.rings[*ring]);
        let counter = old.clone().map(|ring| ring.id.counter).max().unwrap();
        let seq = old.map(|ring| ring.next_seq).max().unwrap();
        for (ring, set) in by_ring {
            self.close(ring, &set, may_crash);
        }
        let growth = self.rng.range(1..5);
        self.install(group, counter + growth, seq);
    }

    /// The members of `set` finish their old ring together.
    fn close(&mut self, ring: usize, set: &[MemberId], may_crash: bool) {
        let held: BTreeSet<usize> = set
            .iter()
            .flat_map(|id| self.members[id].held.iter().copied())
            .collect();
        let cut = set
            .iter()
            .map(|id| self.members[id].delivered)
            .max()
            .unwrap();
        let mut rest = Vec::new();
        let mut has_hole = false;
        for index in cut..self.rings[ring].log.len() {
            let sender = self.rings[ring].log[index].1.id.sender;
            let is_held = held.contains(&index);
            has_hole |= !is_held;
            // Behind a hole, what strangers sent may be an effect of what is missing.
            if is_held && (!has_hole || set.contains(&sender)) {
                rest.push(index);
            }
        }
        for id in set {
            for index in self.members[id].delivered..cut {
                self.deliver(*id, ring, index);
            }
            let config = self.rings[ring].id;
            self.see_configuration(*id, ConfigurationKind::Transitional, config, set);
            let is_dying = may_crash && self.alive().len() > 1 && self.rng.chance(0.05);
            let until = match is_dying {
                true => self.rng.below(rest.len() as u64 + 1) as usize,
                false => rest.len(),
            };
            for index in &rest[..until] {
                self.deliver(*id, ring, *index);
            }
            if is_dying {
                self.crash(*id);
            }
        }
    }

    /// Installs the ring of `group` at those of it that are alive.
    fn install(&mut self, mut group: Vec<MemberId>, counter: u64, next_seq: u64) {
        group.sort();
        let id = ConfigId {
            counter,
            representative: group[0],
        };
        for member in &group {
            let state = self.members.get_mut(member).unwrap();
            if state.is_alive {
                state.ring = self.rings.len();
                state.held.clear();
                state.delivered = 0;
                self.see_configuration(*member, ConfigurationKind::Regular, id, &group);
            }
        }
        self.rings.push(Ring {
            id,
            members: group,
            log: Vec::new(),
            next_seq,
        });
    }

    fn see_configuration(
        &mut self,
        member: MemberId,
        kind: ConfigurationKind,
        id: ConfigId,
        members: &[MemberId],
    ) {
        self.see(
            member,
            Observation::Configuration {
                kind,
                id,
                members: members.to_vec(),
            },
        );
        let names = members.iter().map(ToString::to_string).collect();
        self.see_view(member, format!("{kind:?}/{id}/{}", members[0]), names);
    }

    /// Heals everything; everybody delivers everything, and one message more of each.
    fn finish(mut self) -> Run {
        let alive = self.alive();
        self.regroup_to(alive.clone(), false);
        let messages: Vec<MessageId> = alive
            .iter()
            .map(|id| self.submit_at(*id, Service::Safe))
            .collect();
        for id in &alive {
            while !self.members[id].queue.is_empty() {
                self.order_at(*id);
            }
        }
        let ring = self.members[&alive[0]].ring;
        let len = self.rings[ring].log.len();
        for id in &alive {
            self.members.get_mut(id).unwrap().held.extend(0..len);
        }
        for id in &alive {
            for _ in 0..len {
                self.deliver_at(*id);
            }
            self.endings.insert(*id, Ending::Alive);
        }
        let together = Together {
            members: alive.into_iter().collect(),
            messages,
        };
        Run {
            histories: self.histories,
            outcome: Outcome {
                endings: self.endings,
                complete: true,
                without_configurations: false,
                together: vec![together],
                heard_before: Vec::new(),
            },
        }
    }
}
