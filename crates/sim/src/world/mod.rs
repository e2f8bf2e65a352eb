//! The world: hosts, network and agenda, and the rules by which one event leads to the next.
//!
//! A datagram crosses it in up to four events: it reaches the switch, it arrives at each host, it is handled when the
//! host's processor is free. After every event only the host that it touched is drained, and one timer event a host
//! waits at a time; it may come early (the timeout moved on), which costs a glance.

mod life;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use groupcast_core::node::{Channel, Route};
use groupcast_core::trace::Transition;
use groupcast_core::{Event, MemberId, Node, Ordered, Rng, SocketClass, Time, TransmitBuf};

use crate::adversary::Adversary;
use crate::engine::Agenda;
use crate::host::{self, Datagram, Host, HostConfig, Received, Status};
use crate::network::{Network, body_of};
use crate::record::{Record, TraceHash};
use crate::trace::{Trace, TraceLevel};

/// Makes the protocol instance of a new process: who it is, its randomness, and what its clock shows.
pub type Factory<P> = Arc<dyn Fn(MemberId, Rng, Time) -> P + Send + Sync>;

/// The channel of the one protocol instance of each node.
pub(crate) const CHANNEL: Channel = Channel(1);

/// The key of the only cluster there is.
const CLUSTER_KEY: u64 = 0x6772_6f75_7063_6173;

/// A protocol that leaves its next timeout due this often in a row would hang a host.
const SPINNING_MAX: u32 = 10_000;

#[derive(Debug)]
enum Step {
    /// A datagram is at the switch.
    Switch {
        datagram: Rc<Datagram>,
        target: Target,
    },
    /// A copy is at a host.
    Arrive { host: usize, received: Received },
    /// A host's processor takes the next datagram.
    Work { host: usize },
    /// A host's timeout may be due.
    Timer { host: usize, generation: u64 },
    /// The adversary strikes.
    Attack { generation: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Target {
    All,
    Host(usize),
}

/// A transition of a host's protocol, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transited {
    /// The world's time.
    pub at: Time,
    /// Whose.
    pub host: usize,
    /// What.
    pub transition: Transition,
}

pub(crate) struct World<P> {
    pub(crate) network: Network,
    pub(crate) hosts: Vec<Host<P>>,
    pub(crate) record: Rc<RefCell<Record>>,
    pub(crate) transitions: Vec<Transited>,
    pub(crate) trace: Option<Trace>,
    agenda: Agenda<Step>,
    host_config: HostConfig,
    /// Whether the network has multicast.
    multicast: bool,
    /// Whether the payloads of deliveries are kept for inspection.
    keep_payloads: bool,
    factory: Factory<P>,
    rng: Rng,
    incarnations: Rng,
    adversary: Option<Adversary>,
    attacks: u64,
    attacking: bool,
    hash: TraceHash,
    /// Taken only while a node writes into it.
    buf: Option<TransmitBuf>,
    mesh: Vec<SocketAddr>,
}

impl<P: Ordered> World<P> {
    pub(crate) fn new(
        hosts: usize,
        network: Network,
        host_config: HostConfig,
        multicast: bool,
        keep_payloads: bool,
        factory: Factory<P>,
        rng: Rng,
    ) -> Self {
        let buf = TransmitBuf::new(
            host_config.segments_max,
            Node::<P>::HEADROOM,
            crate::seal::TAG_LEN,
        );
        Self {
            network,
            hosts: (0..hosts).map(|_| Host::new()).collect(),
            record: Record::new(),
            transitions: Vec::new(),
            trace: None,
            agenda: Agenda::new(),
            host_config,
            multicast,
            keep_payloads,
            factory,
            incarnations: rng.fork("incarnations"),
            rng: rng.fork("hosts"),
            adversary: None,
            attacks: 0,
            attacking: false,
            hash: TraceHash::new(),
            buf: Some(buf),
            mesh: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.agenda.now()
    }

    pub(crate) fn events(&self) -> u64 {
        self.agenda.happened()
    }

    pub(crate) fn hash(&self) -> u64 {
        let mut hash = self.hash;
        hash.absorb(self.record.borrow().hash.value());
        hash.value()
    }

    /// Lets the next event happen, if it is due by `limit`; otherwise moves the clock there and returns false.
    pub(crate) fn step(&mut self, limit: Time) -> bool {
        let Some(step) = self.agenda.pop_until(limit) else {
            self.agenda.advance(limit);
            self.record.borrow_mut().now = limit;
            return false;
        };
        self.record.borrow_mut().now = self.agenda.now();
        match step {
            Step::Switch { datagram, target } => self.switch(&datagram, target),
            Step::Arrive { host, received } => self.arrive(host, received),
            Step::Work { host } => self.work(host),
            Step::Timer { host, generation } => self.time_out(host, generation),
            Step::Attack { generation } => self.attack(generation),
        }
        true
    }

    // What happens to datagrams.

    fn switch(&mut self, datagram: &Rc<Datagram>, target: Target) {
        match target {
            Target::Host(to) => self.descend(datagram, to),
            Target::All => {
                for to in (0..self.hosts.len()).filter(|to| *to != datagram.from) {
                    self.descend(datagram, to);
                }
            }
        }
    }

    fn descend(&mut self, datagram: &Rc<Datagram>, to: usize) {
        let now = self.agenda.now();
        let arrivals =
            self.network
                .deliver(now, datagram.from, to, datagram.class, &datagram.bytes);
        for arrival in arrivals.into_iter().flatten() {
            let received = Received {
                datagram: Rc::clone(datagram),
                flipped: arrival.flipped,
            };
            self.agenda
                .push(arrival.at, Step::Arrive { host: to, received });
        }
    }

    /// A copy is at a host, whoever brought it.
    pub(crate) fn arrive(&mut self, index: usize, received: Received) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let idle = host.busy_until <= now && host.queues_are_empty();
        match host.status {
            Status::Down | Status::Left => {}
            Status::Up if idle => self.receive(index, received),
            Status::Up => {
                host.enqueue(&self.host_config, received);
                self.schedule_work(index);
            }
            Status::Paused => host.enqueue(&self.host_config, received),
        }
    }

    fn schedule_work(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !host.work_scheduled && !host.queues_are_empty() {
            host.work_scheduled = true;
            self.agenda
                .push(host.busy_until, Step::Work { host: index });
        }
    }

    fn work(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.work_scheduled = false;
        if host.status != Status::Up {
            return;
        }
        if host.busy_until > self.agenda.now() {
            // A timeout took the processor in between.
            self.schedule_work(index);
            return;
        }
        let first = host
            .node
            .as_ref()
            .map_or(SocketClass::Token, Node::read_first);
        if let Some(received) = host.dequeue(first) {
            self.receive(index, received);
        }
        self.schedule_work(index);
    }

    fn receive(&mut self, index: usize, received: Received) {
        let now = self.agenda.now();
        let Received { datagram, flipped } = received;
        let mut bytes = BytesMut::from(&datagram.bytes[..]);
        if let Some(bit) = flipped
            && let Some(byte) = bytes.get_mut(bit as usize / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        self.hash.absorb(now.as_nanos() ^ (index as u64) << 56);
        let host = &mut self.hosts[index];
        let Some(node) = &mut host.node else { return };
        let result = node.handle_datagram(host.clock.local(now), datagram.source, bytes);
        host.busy_until = now + self.host_config.receive_cost;
        host.spinning = 0;
        if let Some(trace) = &mut self.trace
            && trace.level >= TraceLevel::Datagrams
        {
            let (class, from) = (datagram.class, datagram.from);
            let body = trace.describe(class, body_of(&datagram.bytes));
            let outcome = result.err().map(|why| format!(" REJECTED {why}"));
            let outcome = outcome.unwrap_or_default();
            trace.line(
                now,
                index,
                format_args!("<- h{from} {class:?} {body}{outcome}"),
            );
        }
        self.drain(index);
    }

    // What a host does.

    fn time_out(&mut self, index: usize, generation: u64) {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        if host.timer_generation != generation {
            return;
        }
        host.timer = None;
        if host.status != Status::Up {
            return;
        }
        if host.busy_until > now {
            host.timer = Some(host.busy_until);
            let timer = Step::Timer {
                host: index,
                generation,
            };
            self.agenda.push(host.busy_until, timer);
            return;
        }
        let local = host.clock.local(now);
        let Some(node) = &mut host.node else { return };
        if node.poll_timeout().is_some_and(|due| due <= local) {
            self.hash.absorb(!now.as_nanos() ^ (index as u64) << 56);
            node.handle_timeout(local);
            let due = node.poll_timeout().is_some_and(|due| due <= local);
            host.spinning = if due { host.spinning + 1 } else { 0 };
            assert!(
                host.spinning < SPINNING_MAX,
                "the timeouts of host {index} never move on: its protocol would spin"
            );
            self.drain(index);
        } else {
            self.arm(index);
        }
    }

    /// Takes everything out of a host's node: what it sends, what it tells, when it wants to be called.
    pub(crate) fn drain(&mut self, index: usize) {
        loop {
            self.drain_transmits(index);
            if !self.drain_events(index) {
                break;
            }
        }
        self.drain_transitions(index);
        if self.hosts[index].status == Status::Left {
            self.hosts[index].close(Status::Left);
        } else {
            self.arm(index);
        }
    }

    fn drain_transmits(&mut self, index: usize) {
        let now = self.agenda.now();
        let mut buf = self.buf.take().expect("it is back after every drain");
        loop {
            let host = &mut self.hosts[index];
            let local = host.clock.local(now);
            let Some(node) = &mut host.node else { break };
            let Some(outgoing) = node.poll_transmit(local, &mut buf) else {
                break;
            };
            match outgoing.route {
                Route::Multicast => self.send(index, Target::All, outgoing.class, &buf),
                Route::Unicast(address) => self.send_to(index, address, outgoing.class, &buf),
                Route::Mesh => {
                    let mut mesh = std::mem::take(&mut self.mesh);
                    mesh.clear();
                    mesh.extend(node.mesh());
                    for address in &mesh {
                        self.send_to(index, *address, outgoing.class, &buf);
                    }
                    self.mesh = mesh;
                }
            }
        }
        self.buf = Some(buf);
    }

    /// To an address; nobody is there if it is no host's.
    fn send_to(&mut self, from: usize, to: SocketAddr, class: SocketClass, buf: &TransmitBuf) {
        if let Some(to) = host::host_at(to, self.hosts.len()) {
            self.send(from, Target::Host(to), class, buf);
        }
    }

    fn send(&mut self, from: usize, target: Target, class: SocketClass, buf: &TransmitBuf) {
        let now = self.agenda.now();
        for segment in buf.iter() {
            self.hash.absorb(now.as_nanos() ^ (from as u64) << 48);
            self.hash.absorb(tail(segment));
            let departure = self.network.leave(now, from, segment.len());
            let host = &mut self.hosts[from];
            host.busy_until = host.busy_until.max(now) + self.host_config.send_cost;
            if let Some(trace) = &mut self.trace
                && trace.level >= TraceLevel::Datagrams
            {
                let body = trace.describe(class, body_of(segment));
                let (len, drop) = (
                    segment.len(),
                    if departure.is_none() { " DROPPED" } else { "" },
                );
                trace.line(
                    now,
                    from,
                    format_args!("-> {target:?} {class:?} {len} B {body}{drop}"),
                );
            }
            let Some(departure) = departure else {
                continue;
            };
            // A full send buffer stops the whole process: it has one thread.
            host.busy_until = host.busy_until.max(departure.room);
            let datagram = Rc::new(Datagram {
                from,
                source: host::address(from),
                class,
                bytes: segment.into(),
            });
            if let Some(adversary) = &mut self.adversary {
                adversary.record(&datagram);
            }
            self.agenda
                .push(departure.at_switch, Step::Switch { datagram, target });
        }
    }

    /// Whether there was any event.
    fn drain_events(&mut self, index: usize) -> bool {
        let now = self.agenda.now();
        let host = &mut self.hosts[index];
        let Some(node) = &mut host.node else {
            return false;
        };
        let mut any = false;
        while let Some((_, event)) = node.poll_event() {
            any = true;
            if let Some(trace) = &mut self.trace {
                trace_event(trace, now, index, &event);
            }
            match event {
                Event::Deliver(mut delivery) => {
                    if !self.keep_payloads {
                        delivery.payload.clear();
                    }
                    host.seen.deliveries.push(delivery);
                }
                Event::Configuration(configuration) => {
                    host.seen.configurations.push(configuration);
                }
                Event::NameInUse { .. } => host.seen.name_in_use = true,
                Event::Left => host.status = Status::Left,
                _ => {}
            }
        }
        any
    }

    fn drain_transitions(&mut self, index: usize) {
        let at = self.agenda.now();
        let Some(node) = &mut self.hosts[index].node else {
            return;
        };
        while let Some((_, transition)) = node.poll_transition() {
            if let Some(trace) = &mut self.trace {
                let Transition { from, to, cause } = transition;
                trace.line(at, index, format_args!("{from} => {to} ({cause})"));
            }
            self.transitions.push(Transited {
                at,
                host: index,
                transition,
            });
        }
    }

    /// Schedules the host's timer event, unless one comes early enough anyway.
    fn arm(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(due) = host.node.as_ref().and_then(Node::poll_timeout) else {
            return;
        };
        let at = host.clock.world(due).max(host.busy_until);
        if host.status != Status::Up || host.timer.is_some_and(|timer| timer <= at) {
            return;
        }
        host.timer = Some(at);
        host.timer_generation += 1;
        let timer = Step::Timer {
            host: index,
            generation: host.timer_generation,
        };
        self.agenda.push(at, timer);
    }
}

fn trace_event(trace: &mut Trace, now: Time, index: usize, event: &Event) {
    match event {
        Event::Deliver(delivery) => {
            let (id, service, place) = (delivery.id, delivery.service, delivery.place);
            let (seq, len) = (place.map(|place| place.seq), delivery.payload.len());
            trace.line(
                now,
                index,
                format_args!("delivers {id:?} {service} at {seq:?}, {len} B"),
            );
        }
        other => trace.line(now, index, format_args!("{other:?}")),
    }
}

/// The last eight bytes of a datagram: half of its tag, so a hash of all that it says.
fn tail(datagram: &[u8]) -> u64 {
    datagram
        .last_chunk::<8>()
        .map_or(0, |tail| u64::from_be_bytes(*tail))
}
