//! Experiments from start to finish, against what can be computed by hand.

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{
    Delivery, Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};

use super::{Change, Experiment, ExperimentConfig, ProcessChange};
use crate::fabric::Multicast;
use crate::host::config::{Effect, HostConfig, KindPrice};
use crate::link::{LinkSpec, Loss};
use crate::measure::Measures;
use crate::source::{Arrivals, SourceConfig};
use crate::topology::{Topology, Vertex, generate};

/// Sends each message once, to all. The tests of this crate cannot use a protocol of another.
struct Caster {
    local: MemberId,
    submitted: u64,
    out: Vec<(u64, Bytes)>,
    events: Vec<Event>,
}

impl Caster {
    fn new(local: MemberId) -> Self {
        Self {
            local,
            submitted: 0,
            out: Vec::new(),
            events: Vec::new(),
        }
    }

    fn deliver(&mut self, sender: MemberId, number: u64, payload: Bytes) {
        let id = MessageId { sender, number };
        self.events.push(Event::Deliver(Delivery {
            id,
            service: Service::Unreliable,
            place: None,
            payload,
        }));
    }
}

impl Protocol for Caster {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, mut body: Bytes) {
        let number = body.get_u64();
        self.deliver(from, number, body);
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (number, payload) = self.out.pop()?;
        buf.push(&[&number.to_be_bytes(), &payload]);
        Some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Data,
        })
    }

    fn poll_event(&mut self) -> Option<Event> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

impl Instrumented for Caster {}

impl Ordered for Caster {
    fn submit(
        &mut self,
        _now: Time,
        _service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        self.submitted += 1;
        let (sender, number) = (self.local, self.submitted);
        self.out.push((number, payload.clone()));
        self.deliver(sender, number, payload);
        Ok(MessageId { sender, number })
    }

    fn services(&self) -> &'static [Service] {
        &[Service::Unreliable]
    }

    fn leave(&mut self, _now: Time) {
        self.events.push(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    payload(body.get(8..).unwrap_or(&[]));
    Inspected {
        kind: "data",
        role: Role::Data,
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

fn link() -> LinkSpec {
    LinkSpec::ideal(8_000_000, 5 * MILLISECOND)
}

fn at(millis: u32) -> Time {
    Time::ZERO + MILLISECOND * millis
}

/// Host 0 sends 100 messages a second for ten seconds, the first of which warms up.
fn run(
    topology: Topology,
    multicast: Multicast,
    seed: u64,
    changes: &[(u32, Change)],
) -> (Measures, u64) {
    let mut config = ExperimentConfig::new(topology, inspect, seed);
    config.multicast = Some(multicast);
    config.measure.warm_up = Duration::from_secs(1);
    let mut experiment = Experiment::new(config, |member, _, _| Caster::new(member));
    experiment.start_all();
    let arrivals = Arrivals::Constant { rate: 100.0 };
    let source = SourceConfig::new(arrivals, 210, Service::Unreliable);
    experiment.add_source(0, source).expect("a valid source");
    for (millis, change) in changes {
        experiment.schedule(at(*millis), change.clone());
    }
    experiment.run_to(at(10_000));
    let hash = experiment.trace_hash();
    (experiment.finish().expect("no captures"), hash)
}

fn tree() -> Topology {
    let mut topology = generate::tree(3, 3, link()).expect("40 vertices");
    topology.place_hosts(topology.vertices());
    topology
}

#[test]
fn on_a_quiet_tree_everybody_has_everything_after_serialisation_and_propagation() {
    for multicast in [Multicast::SourceTrees, Multicast::CoreTree(Vertex(7))] {
        let (measures, _) = run(tree(), multicast, 1, &[]);
        assert_eq!(measures.overall.missing, Some(0));
        assert_eq!(measures.overall.duplicates, 0);
        assert_eq!(measures.hosts.len(), 40);
        for host in &measures.hosts[1..] {
            assert!((host.throughput - 100.0).abs() < 1.0, "{}", host.throughput);
            assert_eq!(host.interference, Some(0.0));
        }
        // Vertex 39 is three hops from the root: each 5 ms and the bytes on the wire, a microsecond
        // each.
        let far = measures.hosts[39].latency.max().expect("messages came");
        let near = measures.hosts[1].latency.max().expect("messages came");
        assert!(
            (far - 3.0 * near).abs() < 1e-6,
            "{far} is not three of {near}"
        );
        assert!(near > 0.005_21 && near < 0.005_35, "{near}");
    }
}

#[test]
fn a_kind_costs_its_senders_and_its_receivers_what_they_pay_for_it() {
    let price = |kind| KindPrice {
        kind,
        send: 2 * MILLISECOND,
        receive: 3 * MILLISECOND,
    };
    let latency = |kinds: Vec<KindPrice>| {
        let mut config = ExperimentConfig::new(tree(), inspect, 1);
        config.hosts = HostConfig {
            effect: Effect::End,
            kinds,
            ..HostConfig::free()
        };
        let mut experiment = Experiment::new(config, |member, _, _| Caster::new(member));
        experiment.start_all();
        let arrivals = Arrivals::Constant { rate: 20.0 };
        let source = SourceConfig {
            count: Some(20),
            ..SourceConfig::new(arrivals, 210, Service::Unreliable)
        };
        experiment.add_source(0, source).expect("a valid source");
        experiment.run_to(at(2_000));
        let measures = experiment.finish().expect("no captures");
        let host = &measures.hosts[1];
        let latency = host.latency.max().expect("messages came");
        (latency, host.usage.cpu_busy)
    };
    let (free, busy) = latency(vec![price("another")]);
    assert_eq!(busy, Duration::ZERO);
    let (paid, busy) = latency(vec![price("data")]);
    // Of the twenty datagrams the first comes from a host that is not known yet.
    assert_eq!(busy, 20 * 3 * MILLISECOND);
    assert!((paid - free - 0.005).abs() < 1e-9, "{paid} beside {free}");
}

#[test]
fn losses_crashes_broken_links_and_cuts_show_where_they_should() {
    let mut topology = tree();
    let lossy = topology.way(Vertex(0), Vertex(1)).expect("a link");
    *topology.spec_mut(lossy) = link().with_loss(Loss::Rate(0.2));
    let broken = topology.way(Vertex(0), Vertex(2)).expect("a link").edge();
    let changes = [
        (4_000, Change::Process(39, ProcessChange::Crash)),
        (5_000, Change::Process(39, ProcessChange::Start)),
        (5_000, Change::Down(broken)),
        (6_000, Change::Up(broken)),
        (7_000, Change::Cut(vec![vec![3]])),
        (8_000, Change::Heal),
    ];
    let (measures, _) = run(topology, Multicast::SourceTrees, 2, &changes);
    let missing = |host: usize| measures.hosts[host].missing.unwrap_or(0);
    assert!((100..260).contains(&missing(1)), "{}", missing(1));
    assert!((98..=103).contains(&missing(2)), "{}", missing(2));
    assert!((98..=103).contains(&missing(3)), "{}", missing(3));
    assert_eq!(
        measures.hosts[39].missing, None,
        "it did not run all the time"
    );
    assert!((measures.hosts[39].delivered as i64 - 800).abs() < 5);
}

#[test]
fn the_same_seed_gives_the_same_and_another_something_else() {
    let lossy = || {
        let mut topology = generate::chain(6, link().with_loss(Loss::Rate(0.1))).expect("six");
        topology.place_hosts(topology.vertices());
        topology
    };
    let (first, again) = (
        run(lossy(), Multicast::SourceTrees, 3, &[]),
        run(lossy(), Multicast::SourceTrees, 3, &[]),
    );
    let other = run(lossy(), Multicast::SourceTrees, 4, &[]);
    assert_eq!(first.1, again.1);
    assert_ne!(first.1, other.1);
    assert_eq!(first.0.overall.delivered, again.0.overall.delivered);
}

#[test]
fn a_reply_goes_back_for_each_request() {
    let mut topology = generate::chain(2, link()).expect("two");
    topology.place_hosts(topology.vertices());
    let config = ExperimentConfig::new(topology, inspect, 5);
    let mut experiment = Experiment::new(config, |member, _, _| Caster::new(member));
    experiment.start_all();
    let asks = Arrivals::Reply {
        to: [1].into(),
        advance: 1,
        due_max: 8,
    };
    // The first datagram of each is lost: its sender is not admitted yet.
    let first = || Arrivals::Constant { rate: 100.0 };
    for (host, arrivals, start, count) in [
        (0, first(), 0, Some(1)),
        (1, first(), 0, Some(1)),
        (0, asks, 500, None),
        (1, Arrivals::reply([0]), 500, None),
    ] {
        let source = SourceConfig {
            start: at(start),
            count,
            ..SourceConfig::new(arrivals, 100, Service::Unreliable)
        };
        experiment.add_source(host, source).expect("a valid source");
    }
    experiment.run_to(at(1_000));
    let measures = experiment.finish().expect("no captures");
    // A round takes 10 ms and the time of 2 × 180 bytes on the wire.
    let rounds = measures.hosts[1].submitted - 1;
    assert!((46..=49).contains(&rounds), "{rounds}");
}
