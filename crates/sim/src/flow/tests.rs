//! Goal: flows behave as TCP does. Method: a link that two routers share, and the laws that are
//! known for Reno, CUBIC and BBR.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_core::trace::{Inspected, Role};

use super::{Congestion, FlowConfig, FlowUse};
use crate::experiment::{Change, Experiment, ExperimentConfig};
use crate::link::queue::QueueLimit;
use crate::link::{LinkSpec, Loss};
use crate::sequencer::Sequencer;
use crate::topology::{EdgeId, Kind, Topology};

const ALL: [Congestion; 3] = [Congestion::Reno, Congestion::Cubic, Congestion::Bbr];
const KB: u64 = 1_000;
/// Payload of a segment, in its packet of 1,500 bytes.
const PART: f64 = 1_448.0 / 1_500.0;

/// Links of 1 Gb/s to `middle`, which all flows share: flow number n is from host 2n to 2n + 1.
fn shared(flows: usize, middle: LinkSpec) -> Topology {
    let mut topology = Topology::new();
    let routers = [topology.add(Kind::Plain), topology.add(Kind::Plain)];
    topology.connect(routers[0], routers[1], middle);
    let own = LinkSpec::ideal(1_000_000_000, Duration::from_micros(100));
    // In step, one of several flows would always find the queue full, and the other room (Floyd and
    // Jacobson, 1992). Behind the shared link packets are too far apart to overtake each other.
    let behind = match flows {
        1 => own,
        _ => own.with_jitter(Duration::from_micros(300)),
    };
    for _ in 0..flows {
        for (router, link) in routers.into_iter().zip([own, behind]) {
            let host = topology.add(Kind::Plain);
            topology.connect(host, router, link);
            topology.place_host(host);
        }
    }
    topology
}

fn world(middle: LinkSpec, flows: &[FlowConfig]) -> Experiment<Sequencer> {
    let inspect = |_, _: &[u8], _: &mut dyn FnMut(&[u8])| Inspected {
        kind: "none",
        role: Role::Control,
    };
    let config = ExperimentConfig::new(shared(flows.len(), middle), inspect, 3);
    let hosts = 2 * flows.len();
    let mut world = Experiment::new(config, move |local, rng, now| {
        Sequencer::new(hosts, local, rng, now)
    });
    for flow in flows {
        world.add_flow(*flow);
    }
    world
}

fn seconds(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Bytes a second that each flow has from `warm` to `end`.
fn rates(middle: LinkSpec, flows: &[FlowConfig], [warm, end]: [u64; 2]) -> Vec<f64> {
    let mut world = world(middle, flows);
    world.run_to(seconds(warm));
    let before = world.flow_uses();
    world.run_to(seconds(end));
    let each = world.flow_uses().into_iter().zip(before);
    let bytes = each.map(|(now, before)| FlowUse::since(now, &before).delivered_bytes);
    bytes
        .map(|bytes| bytes as f64 / (end - warm) as f64)
        .collect()
}

fn flow(number: usize, congestion: Congestion) -> FlowConfig {
    FlowConfig::new([2 * number, 2 * number + 1], congestion)
}

/// 20 Mb/s over 20 ms there and back: 50 kB are on their way, and `queue` bytes may wait.
fn middle(queue: u64) -> LinkSpec {
    LinkSpec::ideal(20_000_000, Duration::from_millis(10)).with_queue(QueueLimit::bytes(queue))
}

#[test]
fn a_flow_alone_fills_a_link() {
    for congestion in ALL {
        for queue in [50 * KB, 200 * KB] {
            let rate = rates(middle(queue), &[flow(0, congestion)], [5, 35])[0];
            let share = rate / (2.5e6 * PART);
            assert!(
                (0.9..=1.0).contains(&share),
                "{congestion:?} {queue}: {share}"
            );
        }
    }
}

#[test]
fn two_of_a_kind_share_a_link() {
    for congestion in ALL {
        let mut second = flow(1, congestion);
        second.start = seconds(1);
        let rates = rates(middle(60 * KB), &[flow(0, congestion), second], [20, 140]);
        let share = rates[0] / (rates[0] + rates[1]);
        assert!((0.4..=0.6).contains(&share), "{congestion:?}: {rates:?}");
    }
}

/// Segments a round trip of 100 ms where `loss` of them are lost and nothing else limits.
fn window(congestion: Congestion, loss: f64) -> f64 {
    let middle = LinkSpec::ideal(0, Duration::from_micros(49_900));
    let middle = middle.with_loss(Loss::Rate(loss));
    // What is lost is drawn in both directions, and one lost acknowledgement harms nothing.
    let rate = rates(middle, &[flow(0, congestion)], [20, 420])[0];
    rate * 0.1 / 1_448.0
}

#[test]
fn reno_has_one_over_the_root_of_what_is_lost() {
    for loss in [0.000_5_f64, 0.002, 0.008] {
        // Mathis et al., 1997; random losses, every segment counted.
        let law = (1.5 / loss).sqrt();
        let share = window(Congestion::Reno, loss) / law;
        assert!((0.75..1.3).contains(&share), "{loss}: {share} of {law}");
    }
}

#[test]
fn cubic_has_what_its_rfc_says() {
    for loss in [0.000_1, 0.000_4] {
        // RFC 9438 section 5.1, table 2.
        let law = 1.054 * (0.1_f64 / loss).powf(0.75);
        let share = window(Congestion::Cubic, loss) / law;
        assert!((0.7..1.3).contains(&share), "{loss}: {share} of {law}");
    }
}

#[test]
fn bbr_keeps_its_rate_where_others_take_loss_for_congestion() {
    let lossy = middle(50 * KB).with_loss(Loss::Rate(0.02));
    let share = |congestion| rates(lossy, &[flow(0, congestion)], [5, 35])[0] / (2.5e6 * PART);
    let (bbr, cubic) = (share(Congestion::Bbr), share(Congestion::Cubic));
    assert!(bbr > 0.85 && cubic < 0.5, "{bbr} {cubic}");
}

#[test]
fn bbr_keeps_a_deep_queue_short_and_cubic_fills_it() {
    let high = |congestion| {
        let mut world = world(middle(1_000 * KB), &[flow(0, congestion)]);
        world.run_to(seconds(4));
        let mut most = 0;
        for step in 0..40 {
            world.run_to(seconds(4) + Duration::from_millis(100 * step));
            let uses: Vec<_> = world.flow_uses();
            most = most.max(uses[0].segments * 1_448 - uses[0].delivered_bytes);
        }
        most
    };
    let (bbr, cubic) = (high(Congestion::Bbr), high(Congestion::Cubic));
    assert!(bbr < 150 * KB, "{bbr}");
    assert!(cubic > 500 * KB, "{cubic}");
}

#[test]
fn the_receivers_window_limits() {
    let mut config = flow(0, Congestion::Cubic);
    config.window_max = 14_480;
    let rate = rates(middle(50 * KB), &[config], [2, 12])[0];
    // A window each 20.4 ms.
    assert!((600_000.0..715_000.0).contains(&rate), "{rate}");
}

#[test]
fn a_flow_outlives_a_broken_link_and_ends_when_it_is_to() {
    let mut config = flow(0, Congestion::Reno);
    config.start = seconds(1);
    config.stop = seconds(20);
    let mut world = world(middle(50 * KB), &[config]);
    world.schedule(seconds(5), Change::Down(EdgeId(0)));
    world.schedule(seconds(8), Change::Up(EdgeId(0)));
    world.run_to(Time::from_millis(999));
    assert_eq!(world.flow_uses()[0].segments, 0);
    let mut at = |time| {
        world.run_to(seconds(time));
        world.flow_uses()[0]
    };
    let (broken, mended) = (at(6), at(8));
    assert_eq!(broken.delivered_bytes, mended.delivered_bytes);
    assert!((2..6).contains(&mended.timeouts), "{mended:?}");
    assert!(at(19).delivered_bytes > mended.delivered_bytes + 10_000 * KB);
    let (over, later) = (at(22), at(40));
    assert_eq!(over, later, "nothing is sent any more");
    let original = later.segments - later.repeated;
    assert_eq!(later.delivered_bytes, original * 1_448, "all of it arrived");
}

#[test]
fn a_flow_is_the_same_each_time() {
    let run = || {
        let flows = [flow(0, Congestion::Cubic), flow(1, Congestion::Bbr)];
        let lossy = middle(50 * KB).with_loss(Loss::Rate(0.001));
        let mut world = world(lossy, &flows);
        world.run_to(seconds(5));
        (world.trace_hash(), world.flow_uses())
    };
    assert_eq!(run(), run());
}
