//! Changes of hosts: processes that start, crash, pause and resume, clocks that change; and the
//! adversary's work.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use groupcast_check::{Ending, HeardBefore, Outcome, Together, Violation};
use groupcast_core::node::{AdmissionConfig, NodeConfig, Reach};
use groupcast_core::trace::Observation;
use groupcast_core::{Incarnation, Instrumented, MemberId, MessageId, Node, NodeId};

use super::{CHANNEL, CLUSTER_KEY, Step, World};
use crate::adversary::{Adversary, AdversaryConfig};
use crate::clock::{Clock, ClockRate};
use crate::host::{self, Host, Received, Seen, Status};
use crate::record::Tap;
use crate::seal::FakeSealer;
use crate::trace::TraceLevel;

impl<P: Instrumented> World<P> {
    /// A new process begins on a host that has none.
    ///
    /// # Panics
    /// If a process is alive there.
    pub(crate) fn start(&mut self, index: usize) -> MemberId {
        let now = self.agenda.now();
        assert!(
            !self.hosts[index].is_alive(),
            "a process is alive on host {index}"
        );
        let lives = self.hosts[index].lives;
        let rng = self.rng.fork_index(index as u64).fork_index(lives);
        let local = MemberId {
            node: NodeId(index as u64 + 1),
            incarnation: Incarnation(self.incarnations.next_u64()),
        };
        let reach = if self.multicast[index] {
            Reach::Multicast
        } else {
            let others = (0..self.hosts.len()).filter(|other| *other != index);
            Reach::Mesh(others.map(host::address).collect())
        };
        let config = NodeConfig {
            local,
            reach,
            invited: self.invited(index),
            admission: self.admission(),
        };
        let sealer = Box::new(FakeSealer::new(CLUSTER_KEY, local.incarnation));
        let mut node = Node::new(config, sealer, &rng.fork("node"));
        let clock = Clock::new(now, self.hosts[index].rate);
        let instance = (self.factory)(local, rng.fork("protocol"), clock.local(now));
        node.open(CHANNEL, instance);
        if self.judged {
            let mut record = self.record.borrow_mut();
            record.now = now;
            record.checker.set_name(local, &format!("h{index}"));
            drop(record);
            node.observe_with(Box::new(Tap(Rc::clone(&self.record))));
        }
        let host = &mut self.hosts[index];
        host.node = Some(node);
        host.status = Status::Up;
        host.lives += 1;
        host.seen = Seen::default();
        host.clock = clock;
        host.busy_until = now;
        host.spinning = 0;
        self.perturb(index);
        self.tell(index, format_args!("starts as {local:?}"));
        self.drain(index);
        local
    }

    /// Introduces to every living process `count` of the others, drawn at random: as if each had
    /// been given a list of members, and those had admitted it.
    pub(crate) fn acquaint(&mut self, count: usize) {
        let alive: Vec<(usize, MemberId)> = self
            .hosts
            .iter()
            .enumerate()
            .filter_map(|(index, host)| {
                let node = host.node.as_ref().filter(|_| host.is_alive())?;
                Some((index, node.local()))
            })
            .collect();
        let now = self.agenda.now();
        let mut rng = self.rng.fork("acquaintances");
        let mut others = alive.clone();
        for (index, member) in alive {
            // One more: the process itself may be among them.
            let known = (count + 1).min(others.len());
            for place in 0..known {
                let drawn = rng.range(place as u64..others.len() as u64) as usize;
                others.swap(place, drawn);
            }
            let host = &mut self.hosts[index];
            let local = host.clock.local(now);
            let Some(node) = &mut host.node else { continue };
            let drawn = others[..known].iter().filter(|(_, peer)| *peer != member);
            for (other, peer) in drawn.clone().take(count) {
                node.trust(local, *peer, host::address(*other));
                if let Some(instance) = node.instance_mut(CHANNEL) {
                    instance.introduce(local, *peer);
                }
            }
            for (other, _) in drawn.take(count) {
                let other = &mut self.hosts[*other];
                let local = other.clock.local(now);
                if let Some(node) = &mut other.node {
                    node.trust(local, member, host::address(index));
                }
            }
        }
    }

    /// Whom a host invites: those without multicast, if it has it.
    fn invited(&self, index: usize) -> Vec<SocketAddr> {
        let invites = self.invites && self.multicast[index];
        let without = (0..self.hosts.len()).filter(|other| invites && !self.multicast[*other]);
        without.map(host::address).collect()
    }

    /// Bounds of admission that all hosts of a world fit into.
    fn admission(&self) -> AdmissionConfig {
        let least = AdmissionConfig::default();
        let hosts = self.hosts.len();
        // All of them may begin at once, and some share the allowance of one source.
        let rate = 100 * hosts as u32;
        AdmissionConfig {
            peers_max: least.peers_max.max(hosts),
            copies_max: least.copies_max.max(hosts),
            openings_max: least.openings_max.max(rate),
            source_openings_max: least.source_openings_max.max(rate),
            answers_max: least.answers_max.max(rate),
            ..least
        }
    }

    /// The process of a host ends without telling the others. Does nothing if there is none.
    pub(crate) fn crash(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !host.is_alive() {
            return;
        }
        host.close(Status::Down);
        if let Some(node) = &mut host.node {
            node.observe(&Observation::Crash);
        }
        self.tell(index, format_args!("crashes"));
    }

    /// Stops the process of a host.
    pub(crate) fn pause(&mut self, index: usize) {
        if self.hosts[index].status == Status::Up {
            self.hosts[index].status = Status::Paused;
            self.tell(index, format_args!("pauses"));
        }
    }

    /// Lets the process of a host go on. Whether its timeouts or its queues come first is left to
    /// chance.
    pub(crate) fn resume(&mut self, index: usize) {
        if self.hosts[index].status != Status::Paused {
            return;
        }
        let now = self.agenda.now();
        self.tell(index, format_args!("resumes"));
        let host = &mut self.hosts[index];
        host.status = Status::Up;
        host.busy_until = host.busy_until.max(now);
        if self.incarnations.chance(0.5) {
            self.arm(index);
            self.schedule_work(index);
        } else {
            self.schedule_work(index);
            self.arm(index);
        }
    }

    /// A host's clock runs at `rate` from now on, also that of its next processes.
    pub(crate) fn set_clock_rate(&mut self, index: usize, rate: ClockRate) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        host.rate = rate;
        host.clock.set_rate(now, rate);
        host.timer = None;
        host.timer_generation += 1;
        self.arm(index);
        self.tell(index, format_args!("has a clock of {rate:?}"));
    }

    /// What the checker finds in all histories so far; `complete` if nothing more is to be
    /// delivered, `together` if all living members should have these messages.
    pub(crate) fn violations(
        &self,
        complete: bool,
        together: Option<&[MessageId]>,
    ) -> Vec<Violation> {
        let running = self.hosts.iter().filter(|host| host.is_alive());
        let alive: BTreeSet<MemberId> = running.filter_map(Host::member).collect();
        let endings = alive.iter().map(|member| (*member, Ending::Alive));
        let outcome = Outcome {
            endings: endings.collect(),
            complete,
            without_configurations: !self.contract.has_configurations(),
            together: together
                .map(|messages| Together {
                    members: alive.clone(),
                    messages: messages.to_vec(),
                })
                .into_iter()
                .collect(),
            heard_before: self.heard_before.clone(),
        };
        self.record.borrow().checker.finish(&outcome)
    }

    /// Tells the judge that all living members have heard of each other: each must deliver or
    /// report every message that the others send from now on.
    pub(crate) fn expect_accounts(&mut self) {
        let running = self.hosts.iter().filter(|host| host.is_alive());
        let alive: Vec<MemberId> = running.filter_map(Host::member).collect();
        for observer in &alive {
            for sender in alive.iter().filter(|sender| *sender != observer) {
                let submitted = self.submitted.get(sender).copied().unwrap_or(0);
                self.heard_before.push(HeardBefore {
                    observer: *observer,
                    sender: *sender,
                    since: submitted + 1,
                });
            }
        }
    }

    // The adversary.

    /// The adversary records datagrams from now on, so that it has some to replay.
    pub(crate) fn listen(&mut self, config: AdversaryConfig) {
        self.adversary = Some(Adversary::new(config, self.rng.fork("adversary")));
    }

    pub(crate) fn set_attacking(&mut self, attacking: bool) {
        self.attacking = attacking;
        self.attacks += 1;
        if attacking {
            self.schedule_attack(self.attacks);
        }
    }

    fn schedule_attack(&mut self, generation: u64) {
        if let Some(adversary) = &mut self.adversary {
            let at = self.agenda.now() + adversary.pause();
            self.agenda.push(at, Step::Attack { generation });
        }
    }

    pub(super) fn attack(&mut self, generation: u64) {
        if !self.attacking || generation != self.attacks {
            return;
        }
        let hosts = self.hosts.len();
        let attack = self.adversary.as_mut().and_then(|it| it.attack(hosts));
        if let Some((datagram, host)) = attack {
            if self.traces_datagrams() {
                let (from, source, class) = (datagram.from, datagram.source, datagram.class);
                self.tell(
                    host,
                    format_args!("is attacked with what h{from} sent, {class:?}, as {source}"),
                );
            }
            let received = Received {
                datagram,
                flipped: None,
                arrived: self.agenda.now(),
            };
            self.arrive(host, received);
        }
        self.schedule_attack(generation);
    }

    fn traces_datagrams(&self) -> bool {
        let level = self.trace.as_ref().map(|trace| trace.level);
        level >= Some(TraceLevel::Datagrams)
    }

    /// A line of the trace about a host.
    pub(crate) fn tell(&mut self, index: usize, what: std::fmt::Arguments<'_>) {
        let now = self.agenda.now();
        if let Some(trace) = &mut self.trace {
            trace.line(now, index, what);
        }
    }

    /// A line of the trace about the world.
    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        let now = self.agenda.now();
        if let Some(trace) = &mut self.trace {
            (trace.sink)(&format!("{now:?} *** {what}"));
        }
    }
}
