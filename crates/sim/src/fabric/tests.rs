//! Datagrams over whole topologies, against what can be counted or computed by hand.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Rng, SocketClass, Time};

use super::{Effects, Fabric, FabricConfig, Hop, Multicast, Target};
use crate::engine::Agenda;
use crate::host::{self, Datagram};
use crate::link::{LinkSpec, Loss};
use crate::topology::{Topology, Vertex, generate};

/// A fabric with an agenda of its own, and what arrived where.
struct Bench {
    fabric: Fabric,
    agenda: Agenda<Hop>,
    effects: Effects,
    arrived: Vec<(Time, usize)>,
}

impl Bench {
    fn new(topology: Topology, multicast: Multicast) -> Self {
        let config = FabricConfig {
            topology,
            multicast,
            mtu: 1500,
            senders_wait: false,
        };
        Self {
            fabric: Fabric::new(config, &Rng::new(7)),
            agenda: Agenda::new(),
            effects: Effects::default(),
            arrived: Vec::new(),
        }
    }

    fn send(&mut self, from: usize, target: Target, len: usize) {
        let datagram = Rc::new(Datagram::new(
            from,
            host::address(from),
            SocketClass::Data,
            vec![0; len].into(),
        ));
        let now = self.agenda.now();
        self.fabric.send(now, &datagram, target, &mut self.effects);
        self.settle();
    }

    fn settle(&mut self) {
        for (at, hop) in self.effects.later.drain(..) {
            self.agenda.push(at, hop);
        }
        let now = self.agenda.now();
        let reached = self.effects.reached.drain(..);
        self.arrived
            .extend(reached.map(|reached| (now, reached.host)));
    }

    fn run(&mut self) {
        while let Some(hop) = self.agenda.pop_until(Time::MAX) {
            let now = self.agenda.now();
            self.fabric.handle(now, hop, &mut self.effects);
            self.settle();
        }
    }

    /// Who has what was sent, each at most once.
    fn reached(&mut self) -> BTreeSet<usize> {
        self.run();
        let hosts: BTreeSet<usize> = self.arrived.iter().map(|(_, host)| *host).collect();
        assert_eq!(hosts.len(), self.arrived.len(), "nobody has it twice");
        self.arrived.clear();
        hosts
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

fn link() -> LinkSpec {
    LinkSpec::ideal(8_000_000, MILLISECOND)
}

#[test]
fn every_hop_of_a_chain_stores_and_forwards() {
    let mut topology = generate::chain(5, link()).expect("a chain of five");
    topology.place_hosts([Vertex(0), Vertex(4)]);
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    bench.send(0, Target::Host(1), 972);
    bench.run();
    // 1,000 bytes with headers at a byte a microsecond, and a millisecond of propagation, four
    // times.
    assert_eq!(bench.arrived, [(Time::from_nanos(8_000_000), 1)]);
    assert_eq!(bench.fabric.hops(), 4);
}

#[test]
fn both_kinds_of_tree_reach_all_members_once_and_a_source_tree_crosses_each_link_once() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut topology = generate::random(60, 90, link(), &mut rng).expect("connected");
        let all: Vec<Vertex> = topology.vertices().collect();
        let hosts = crate::topology::draw::draw(&all, &[], 15, &mut rng).expect("15 of 60");
        topology.place_hosts(hosts);
        for multicast in [Multicast::SourceTrees, Multicast::CoreTree(Vertex(3))] {
            let mut bench = Bench::new(topology.clone(), multicast);
            for from in 0..15 {
                bench.send(from, Target::All, 100);
                let others: BTreeSet<usize> = (0..15).filter(|host| *host != from).collect();
                assert_eq!(bench.reached(), others, "{multicast:?} from {from}");
            }
        }
    }
}

#[test]
fn a_dense_tree_is_crossed_in_as_many_hops_as_it_has_links() {
    let mut topology = generate::filled_tree(3, 364, link()).expect("a filled tree");
    topology.place_hosts(topology.vertices());
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    bench.send(200, Target::All, 210);
    assert_eq!(bench.reached().len(), 363);
    assert_eq!(bench.fabric.hops(), 363);
}

#[test]
fn a_datagram_is_lost_with_any_of_its_fragments() {
    let spec = link().with_loss(Loss::Rate(0.05));
    let mut topology = generate::chain(2, spec).expect("two");
    topology.place_hosts(topology.vertices());
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    let sent = 4_000;
    for _ in 0..sent {
        bench.send(0, Target::Host(1), 6_000); // Five fragments.
    }
    bench.run();
    let lost = 1.0 - bench.arrived.len() as f64 / f64::from(sent);
    let expected = 1.0 - 0.95_f64.powi(5);
    assert!((lost - expected).abs() < 0.02, "{lost} of {expected}");
}

#[test]
fn routes_and_trees_follow_links_that_break_and_members_that_part() {
    // A ring of four: 0-1-2-3-0.
    let mut topology = generate::chain(4, link()).expect("four");
    let back = topology.connect(Vertex(3), Vertex(0), link());
    topology.place_hosts(topology.vertices());
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    bench.send(0, Target::All, 100);
    assert_eq!(bench.reached().len(), 3);
    bench.fabric.set_up(back, false);
    let before = bench.fabric.hops();
    bench.send(0, Target::Host(3), 100);
    assert_eq!(bench.reached(), [3].into());
    assert_eq!(bench.fabric.hops() - before, 3, "the long way");
    bench.fabric.set_joined(3, false);
    bench.send(0, Target::All, 100);
    assert_eq!(bench.reached(), [1, 2].into());
    bench.fabric.cut(&[vec![0, 2]]);
    bench.send(0, Target::All, 100);
    assert_eq!(bench.reached(), [2].into());
    bench.fabric.heal();
    bench.send(1, Target::Host(2), 100);
    assert_eq!(bench.reached(), [2].into());
}

#[test]
fn stations_of_a_shared_ethernet_hear_each_other() {
    let mut topology = generate::bus(4, crate::link::BusSpec::default()).expect("four stations");
    topology.place_hosts(topology.vertices().skip(1));
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    bench.send(2, Target::All, 1_000);
    assert_eq!(bench.reached(), [0, 1, 3].into());
    bench.send(0, Target::Host(3), 1_000);
    assert_eq!(bench.reached(), [3].into());
}

#[test]
fn stations_of_a_token_ring_hear_each_other_one_after_the_other() {
    let ring = crate::link::TokenRingSpec::default();
    let mut topology = generate::token_ring(4, ring).expect("four stations");
    topology.place_hosts(topology.vertices().skip(1));
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    bench.send(2, Target::All, 1_000);
    assert_eq!(bench.reached(), [0, 1, 3].into());
    bench.send(3, Target::Host(1), 1_000);
    bench.send(0, Target::Host(3), 1_000);
    bench.run();
    let [(first, _), (second, _)] = bench.arrived[..] else {
        panic!("{:?}", bench.arrived);
    };
    // 1,000 B, 28 of UDP and IP, 29 around them.
    assert!(second - first >= ring.frame_time(1_028));
    let (_, counters) = bench.fabric.buses().next().expect("a ring");
    assert_eq!((counters.frames, counters.bytes), (3, 3 * 1_057));
}

#[test]
fn what_a_tap_loses_nobody_hears() {
    let mut topology = generate::bus(3, crate::link::BusSpec::default()).expect("three stations");
    topology.place_hosts(topology.vertices().skip(1));
    let tap = topology.way(Vertex(1), Vertex(0)).expect("a tap");
    topology.spec_mut(tap).loss = Loss::Rate(1.0);
    let mut bench = Bench::new(topology, Multicast::SourceTrees);
    bench.send(0, Target::All, 1_000);
    assert_eq!(bench.reached(), BTreeSet::new());
    bench.send(1, Target::All, 1_000);
    assert_eq!(bench.reached(), [0, 2].into());
}
