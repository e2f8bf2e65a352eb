//! The fabric: datagrams over a topology, hop by hop.
//!
//! A datagram is cut into IP packets that fit the MTU, and each packet goes its way on its own:
//! over the links of a unicast path, or down a multicast tree, one event a hop. A packet is dropped
//! where a queue is full, where chance takes it, or where a switch has no memory; the host puts its
//! datagram together again only if all packets of it came.
//!
//! It knows nothing of protocols, processes or clocks: `Fabric::send` and `Fabric::handle` take a
//! time and leave in `Effects` what happens later and what arrived. The world owns the agenda.
//!
//! - `route`: which ways a packet takes from where it is.
//! - `shared`: media on which stations wait for each other.
//! - `tap`: packets on their way into a pcap file.

mod route;
mod shared;
mod tap;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Rng, Time};

pub use self::route::Multicast;
use self::route::Router;
use self::shared::{SharedMedium, SharedStep};
use self::tap::Tap;
use crate::host::Datagram;
use crate::link::bus::{Bus, BusCounters, Delivered};
use crate::link::ip::{self, Reassembly, ReassemblyConfig};
use crate::link::pcap::Pcap;
use crate::link::token_ring::TokenRing;
use crate::link::{Arrival, LinkCounters, LinkSpec, LinkState, Passage, SwitchBuffer};
use crate::measure::LinkUse;
use crate::topology::{EdgeId, Kind, Topology, Vertex, Way};

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// To all hosts that joined the group, but its sender.
    All,
    /// To one host.
    Host(usize),
}

/// What a fabric is made of.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// Vertices, links and where the hosts are.
    pub topology: Topology,
    /// How a datagram to the group finds its way.
    pub multicast: Multicast,
    /// The largest IP packet, in bytes; larger datagrams are fragmented.
    pub mtu: u32,
    /// Whether a host waits while the queue of its own link is full, as a process does at a full
    /// send buffer; else the packet is dropped there like everywhere else, as in ns-2.
    pub senders_wait: bool,
}

/// One IP packet of a datagram on its way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    datagram: Rc<Datagram>,
    target: Target,
    /// Of the datagram: equal for all its packets.
    number: u64,
    /// IP header included.
    bytes: u32,
    fragment: u32,
    fragments: u32,
    /// On its way to the shared tree, which it has not met yet.
    off_tree: bool,
    flipped: Option<u32>,
}

/// Something that the fabric has to do later.
#[derive(Debug)]
pub(crate) enum Hop {
    /// A packet is at the far end of a way.
    Over { way: Way, packet: Packet },
    /// A shared Ethernet or a token ring has something to do.
    Shared { vertex: Vertex, step: SharedStep },
}

/// A datagram that is whole at a host.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) host: usize,
    pub(crate) datagram: Rc<Datagram>,
    pub(crate) flipped: Option<u32>,
}

/// What a call led to. The caller drains it.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) later: Vec<(Time, Hop)>,
    pub(crate) reached: Vec<Reached>,
}

impl Effects {
    pub(crate) fn is_empty(&self) -> bool {
        self.later.is_empty() && self.reached.is_empty()
    }
}

/// A network of links at work.
pub struct Fabric {
    config: FabricConfig,
    links: Vec<LinkState>,
    buffers: BTreeMap<Vertex, SwitchBuffer>,
    shared: BTreeMap<Vertex, SharedMedium<Packet>>,
    /// Packets of datagrams that are not whole yet, by host.
    reassembly: Vec<Reassembly<u64>>,
    /// Which component each host is in, while the hosts are cut apart.
    components: Option<Vec<u32>>,
    router: Router,
    taps: BTreeMap<Way, Tap>,
    rng: Rng,
    datagrams: u64,
    hops: u64,
}

impl Fabric {
    /// All links idle, all hosts in the group.
    pub(crate) fn new(config: FabricConfig, rng: &Rng) -> Self {
        let topology = &config.topology;
        let (mut buffers, mut shared) = (BTreeMap::new(), BTreeMap::new());
        for vertex in topology.vertices() {
            match topology.kind(vertex) {
                Kind::Plain => {}
                Kind::Switch { buffer } => {
                    buffers.insert(vertex, SwitchBuffer::new(buffer));
                }
                Kind::Bus(spec) => {
                    let rng = rng.fork("bus").fork_index(u64::from(vertex.0));
                    let stations = topology.ways_from(vertex).count();
                    let bus = Bus::new(spec, stations, rng);
                    shared.insert(vertex, SharedMedium::Bus(bus));
                }
                Kind::TokenRing(spec) => {
                    let stations = topology.ways_from(vertex).count();
                    let ring = TokenRing::new(spec, stations);
                    shared.insert(vertex, SharedMedium::TokenRing(ring));
                }
            }
        }
        let hosts = topology.hosts().len();
        Self {
            links: vec![LinkState::new(); topology.ways().len()],
            buffers,
            shared,
            reassembly: vec![Reassembly::new(ReassemblyConfig::default()); hosts],
            components: None,
            router: Router::new(config.multicast, topology),
            taps: BTreeMap::new(),
            rng: rng.fork("fabric"),
            datagrams: 0,
            hops: 0,
            config,
        }
    }

    /// How many packets have crossed a link.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// The network as it is.
    pub fn topology(&self) -> &Topology {
        &self.config.topology
    }

    /// What each direction of each link did so far.
    pub fn uses(&self) -> impl Iterator<Item = LinkUse> + '_ {
        let topology = &self.config.topology;
        topology.ways().map(|way| {
            let LinkCounters {
                packets,
                bytes,
                dropped_queue,
                lost,
                duplicated,
                corrupted,
                busy,
                queue_bytes_high,
                queue_packets_high,
            } = self.links[way.index()].counters();
            let [tail, head] = [topology.tail(way), topology.head(way)];
            LinkUse {
                name: format!("{}>{}", topology.name(tail), topology.name(head)),
                way: way.0,
                packets,
                bytes,
                dropped: dropped_queue,
                lost,
                duplicated,
                corrupted,
                busy: (topology.spec(way).bandwidth > 0).then_some(busy),
                queue_max_bytes: queue_bytes_high,
                queue_max_packets: queue_packets_high,
            }
        })
    }

    /// How long a small packet to the group takes from one host to each, where nothing waits.
    pub fn delays_from(&mut self, host: usize) -> Vec<Option<Duration>> {
        self.router.delays_from(&self.config.topology, host)
    }

    /// The shared Ethernets and token rings, and what they did.
    pub fn buses(&self) -> impl Iterator<Item = (Vertex, BusCounters)> + '_ {
        let all = self.shared.iter();
        all.map(|(vertex, medium)| (*vertex, medium.counters()))
    }

    // Traffic.

    /// A host sends a datagram. Returns until when its process must wait for room, if it must.
    pub(crate) fn send(
        &mut self,
        now: Time,
        datagram: &Rc<Datagram>,
        target: Target,
        effects: &mut Effects,
    ) -> Option<Time> {
        let from = self.config.topology.hosts()[datagram.from];
        let number = self.datagrams;
        self.datagrams += 1;
        let mut room = None;
        let payload = datagram.len;
        let fragments = ip::fragments(payload, self.config.mtu).count() as u32;
        for (fragment, bytes) in ip::fragments(payload, self.config.mtu).enumerate() {
            let packet = Packet {
                datagram: Rc::clone(datagram),
                target,
                number,
                bytes,
                fragment: fragment as u32,
                fragments,
                off_tree: false,
                flipped: None,
            };
            room = room.max(self.depart(now, from, packet, effects));
        }
        room
    }

    /// When the links of a host will have taken all that it has sent.
    pub(crate) fn left_by(&self, host: usize) -> Time {
        let topology = &self.config.topology;
        let ways = topology.ways_from(topology.hosts()[host]);
        let each = ways.map(|(way, _)| self.links[way.index()].taken_by(topology.spec(way)));
        each.max().unwrap_or(Time::ZERO)
    }

    /// A packet begins its way at the vertex of its sender.
    fn depart(
        &mut self,
        now: Time,
        at: Vertex,
        mut packet: Packet,
        effects: &mut Effects,
    ) -> Option<Time> {
        packet.off_tree = self
            .router
            .is_off_tree(&self.config.topology, at, packet.target);
        self.deliver_at(now, at, &packet, effects);
        let mut room = None;
        let mut ways = std::mem::take(&mut self.router.ways);
        self.router
            .onward(&self.config.topology, at, None, &packet, &mut ways);
        for way in &ways {
            let waits = self.config.senders_wait && packet.datagram.segment.is_none();
            let until = self.cross(now, *way, packet.clone(), waits, effects);
            room = room.max(until);
        }
        self.router.ways = ways;
        room
    }

    /// Something that was to happen later happens.
    pub(crate) fn handle(&mut self, now: Time, hop: Hop, effects: &mut Effects) {
        match hop {
            Hop::Over { way, packet } => self.arrive(now, way, packet, effects),
            Hop::Shared { vertex, step } => self.work_shared(now, vertex, step, effects),
        }
    }

    /// A packet is at the head of `way`: it goes to the host there, if it is for it, and onward.
    fn arrive(&mut self, now: Time, way: Way, mut packet: Packet, effects: &mut Effects) {
        self.hops += 1;
        if !self.config.topology.is_up(way.edge()) {
            return;
        }
        let at = self.config.topology.head(way);
        let mut came_by = Some(way);
        if packet.off_tree
            && !self
                .router
                .is_off_tree(&self.config.topology, at, packet.target)
        {
            // It has reached the shared tree: from here it goes along all branches, also along the
            // one that it came by.
            packet.off_tree = false;
            came_by = None;
        }
        self.deliver_at(now, at, &packet, effects);
        let mut ways = std::mem::take(&mut self.router.ways);
        self.router
            .onward(&self.config.topology, at, came_by, &packet, &mut ways);
        if let Some((last, others)) = ways.split_last() {
            for way in others {
                self.cross(now, *way, packet.clone(), false, effects);
            }
            self.cross(now, *last, packet, false, effects);
        }
        self.router.ways = ways;
    }

    /// A packet is to cross `way`. If it is `patient` it is never dropped by the queue there;
    /// returns when that has room again, if it has none.
    fn cross(
        &mut self,
        now: Time,
        way: Way,
        packet: Packet,
        patient: bool,
        effects: &mut Effects,
    ) -> Option<Time> {
        let topology = &self.config.topology;
        let (tail, head) = (topology.tail(way), topology.head(way));
        if !self.shared.is_empty() && self.shared.contains_key(&head) {
            self.enter_shared(now, way, packet, effects);
            return None;
        }
        let (spec, bytes) = (topology.spec(way), packet.bytes);
        let (link, rng) = (&mut self.links[way.index()], &mut self.rng);
        let (passage, room) = match self.buffers.get_mut(&tail) {
            _ if patient => link.pass_patiently(now, bytes, spec, rng),
            Some(buffer) => (link.pass_buffered(now, bytes, spec, buffer, rng), now),
            None => (link.pass(now, bytes, spec, rng), now),
        };
        let room = Some(room).filter(|room| *room > now);
        let Passage::Through { first, second } = passage else {
            return room;
        };
        if let Some(tap) = self.taps.get_mut(&way) {
            let left = first.at.as_nanos() - spec.delay.as_nanos() as u64;
            tap.record(
                Time::from_nanos(left),
                [tail, head],
                self.config.mtu,
                &packet,
            );
        }
        if let Some(copy) = second {
            effects.later.push(over(way, packet.clone(), copy));
        }
        effects.later.push(over(way, packet, first));
        room
    }

    /// Gives a packet to the host at `at`, if it is for it.
    fn deliver_at(&mut self, now: Time, at: Vertex, packet: &Packet, effects: &mut Effects) {
        let Some(host) = self.config.topology.host_at(at) else {
            return;
        };
        if !self.is_for(packet, host) {
            return;
        }
        let (fragment, fragments) = (packet.fragment, packet.fragments);
        let flipped = match packet.flipped {
            None => None,
            // A datagram put together from fragments is checked as a whole.
            Some(_) if fragments > 1 => return,
            Some(bit) => match ip::payload_bit(fragment, self.config.mtu, bit) {
                None => return, // A damaged header.
                bit => bit,
            },
        };
        if fragments > 1 && !self.reassembly[host].arrived(now, packet.number, fragment, fragments)
        {
            return;
        }
        effects.reached.push(Reached {
            host,
            datagram: Rc::clone(&packet.datagram),
            flipped,
        });
    }

    fn is_for(&self, packet: &Packet, host: usize) -> bool {
        let from = packet.datagram.from;
        let meant = match packet.target {
            Target::Host(to) => to == host,
            Target::All => host != from && !packet.off_tree && self.router.is_reached(from, host),
        };
        let reaches = |components: &Vec<u32>| components[from] == components[host];
        meant && self.components.as_ref().is_none_or(reaches)
    }

    // Shared media.

    /// A packet is to go into a shared medium by its tap, of which the loss counts and nothing
    /// else: what it costs to send is the medium's business.
    fn enter_shared(&mut self, now: Time, tap: Way, packet: Packet, effects: &mut Effects) {
        let topology = &self.config.topology;
        let (from, at) = (topology.tail(tap), topology.head(tap));
        let (spec, bytes) = (topology.spec(tap), packet.bytes);
        let passage = self.links[tap.index()].pass(now, bytes, spec, &mut self.rng);
        let station = topology.ways_from(at).position(|(_, head)| head == from);
        if let (Passage::Through { .. }, Some(station)) = (passage, station)
            && let Some(medium) = self.shared.get_mut(&at)
        {
            medium.enqueue(now, station, bytes, packet);
            plan(at, medium, effects);
        }
    }

    fn work_shared(&mut self, now: Time, at: Vertex, step: SharedStep, effects: &mut Effects) {
        let Some(medium) = self.shared.get_mut(&at) else {
            return;
        };
        let delivered = medium.handle(now, step);
        plan(at, medium, effects);
        let Some(Delivered { station, frame }) = delivered else {
            return;
        };
        let tap = self.config.topology.ways_from(at).nth(station);
        if let Some((way, _)) = tap {
            self.arrive(now, way.reversed(), frame, effects);
        }
    }

    // Changes.

    /// The link breaks or is mended; routes and trees follow at once.
    pub(crate) fn set_up(&mut self, edge: EdgeId, up: bool) {
        self.config.topology.set_up(edge, up);
        self.router.forget();
    }

    /// What a way is like from now on.
    pub(crate) fn set_spec(&mut self, way: Way, spec: LinkSpec) {
        let rerouted = self.config.topology.spec(way).delay != spec.delay;
        *self.config.topology.spec_mut(way) = spec;
        if rerouted {
            self.router.forget();
        }
    }

    /// Whether the network's multicast reaches a host.
    pub(crate) fn set_joined(&mut self, host: usize, joined: bool) {
        self.router.set_joined(host, joined);
    }

    /// From now on the host listens and sends to this multicast address; all begin with 0.
    ///
    /// # Panics
    /// With a shared tree, which has one address: the caller's bug.
    pub(crate) fn set_address(&mut self, host: usize, address: u32) {
        assert!(
            self.config.multicast == Multicast::SourceTrees,
            "a shared tree has one address"
        );
        self.router.set_address(host, address);
    }

    /// Hosts of different components no longer reach each other; those in none are together in one
    /// more.
    pub(crate) fn cut(&mut self, components: &[Vec<usize>]) {
        let mut of = vec![0; self.config.topology.hosts().len()];
        for (index, component) in components.iter().enumerate() {
            for host in component {
                of[*host] = index as u32 + 1;
            }
        }
        self.components = Some(of);
    }

    /// Takes the cut away.
    pub(crate) fn heal(&mut self) {
        self.components = None;
    }

    /// The packets that leave over `way` from now on go to `pcap`, at most `packets_max`.
    pub(crate) fn tap(&mut self, way: Way, pcap: Pcap<Box<dyn Write>>, packets_max: u64) {
        self.taps.insert(way, Tap::new(pcap, packets_max));
    }

    /// Ends all captures.
    ///
    /// # Errors
    /// The first that a writer made, then or before.
    pub(crate) fn finish_taps(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.taps)
            .into_values()
            .try_for_each(Tap::finish)
    }
}

/// Puts what a shared medium is going to do on the agenda.
fn plan(vertex: Vertex, medium: &mut SharedMedium<Packet>, effects: &mut Effects) {
    while let Some((at, step)) = medium.poll() {
        effects.later.push((at, Hop::Shared { vertex, step }));
    }
}

fn over(way: Way, mut packet: Packet, arrival: Arrival) -> (Time, Hop) {
    packet.flipped = packet.flipped.or(arrival.flipped);
    (arrival.at, Hop::Over { way, packet })
}
