//! Several rings at one host: what one of them goes through costs the other nothing.
//!
//! Goal: the isolation for which 000 has several rings (ch. 3, ch. 8). A host in a ring on its
//! LAN and in one over 100 ms, 1 Mb/s and 2 % loss, both loaded: the local one, saturated,
//! keeps 95 % of its throughput and, at a rate that it can carry, its p99 within 10 %; who is
//! in no ring gets no packet. Method: as daemons do it, a member and sockets for each ring,
//! here two processes that share one core and one network card; the same run with and without
//! the wide ring. And what there would be without rings: all of them in one.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::{Service, Time};
use groupcast_protocols::rmp::{self, Rmp, RmpConfig};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::Processors;
use groupcast_sim::link::{LinkSpec, Loss};
use groupcast_sim::measure::{Measures, MeterConfig};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

/// The processes: three of the local ring, of which the first shares its host with one of the wide
/// ring, whose other is far away; and a host that is in neither.
const LOCAL: [usize; 3] = [0, 1, 2];
const NEAR: usize = 3;
const FAR: usize = 4;
const OUTSIDER: usize = 5;
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(6);

fn topology() -> Topology {
    let mut topology = Topology::new();
    let lan = LinkSpec::ethernet(100_000_000, Duration::from_micros(20));
    let at_once = LinkSpec::ideal(0, Duration::ZERO);
    let slow = LinkSpec {
        loss: Loss::Rate(0.02),
        ..LinkSpec::ethernet(1_000_000, Duration::from_millis(100))
    };
    let switch = topology.add(Kind::Plain);
    let mut processes = Vec::new();
    for _ in LOCAL {
        let card = topology.add(Kind::Plain);
        topology.connect(card, switch, lan);
        let process = topology.add(Kind::Plain);
        topology.connect(process, card, at_once);
        processes.push((process, card));
    }
    let near = topology.add(Kind::Plain);
    topology.connect(near, processes[0].1, at_once);
    let far = topology.add(Kind::Plain);
    topology.connect(far, switch, slow);
    let outsider = topology.add(Kind::Plain);
    topology.connect(outsider, switch, lan);
    topology.place_hosts(processes.iter().map(|(process, _)| *process));
    topology.place_hosts([near, far, outsider]);
    topology
}

/// What each member of the wide ring sends in a second: three quarters of its link, with what the
/// ring itself says.
const WIDE_RATE: f64 = 35.0;

/// Who is there beside the local ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    /// The wide ring, of which one member is on a host of the local ring.
    WideRing,
    /// The far one in the local ring itself: one order for all.
    InIt,
}

/// Runs the local ring under a load of each member, with who is beside it.
fn run(load: Arrivals, beside: Beside) -> (Measures, String) {
    let topology = topology();
    let switch_to_outsider = {
        let outsider = topology.hosts()[OUTSIDER];
        let (_, switch) = topology.ways_from(outsider).next().unwrap();
        format!("{}>{}", topology.name(switch), topology.name(outsider))
    };
    let shared = HostConfig {
        processors: Processors::Shared {
            machine: 1,
            cores: 1,
        },
        ..HostConfig::vm_2026()
    };
    let of_far = match beside {
        Beside::InIt => 0,
        Beside::Nobody | Beside::WideRing => 1,
    };
    let config = ExperimentConfig {
        hosts: HostConfig::vm_2026(),
        overrides: BTreeMap::from([(LOCAL[0], shared.clone()), (NEAR, shared)]),
        addresses: BTreeMap::from([(NEAR, 1), (FAR, of_far), (OUTSIDER, 2)]),
        measure: MeterConfig {
            warm_up: WARM_UP,
            ..MeterConfig::default()
        },
        judged: true,
        contract: rmp::FAMILY.contract,
        ..ExperimentConfig::new(topology, rmp::inspect, 1)
    };
    let mut experiment = Experiment::new(config, move |local, rng, now| {
        // The simulator numbers its hosts so.
        let is_wide = [NEAR, FAR].contains(&(local.node.0 as usize - 1));
        let settings = match is_wide || beside == Beside::InIt {
            true => RmpConfig::daemon_wan(),
            false => RmpConfig::daemon(),
        };
        Rmp::new(settings, local, rng, now).unwrap()
    });
    let others: &[usize] = match beside {
        Beside::Nobody => &[],
        Beside::WideRing => &[NEAR, FAR],
        Beside::InIt => &[FAR],
    };
    let processes: Vec<usize> = LOCAL.iter().chain(others).copied().collect();
    experiment.start_together(processes.iter().copied());
    for host in processes {
        let arrivals = match LOCAL.contains(&host) {
            true => load.clone(),
            false => Arrivals::Constant { rate: WIDE_RATE },
        };
        let source = SourceConfig::new(arrivals, 1_000, Service::Agreed);
        experiment.add_source(host, source).unwrap();
    }
    experiment.run_to(Time::ZERO + WARM_UP + MEASURED);
    assert_eq!(experiment.violations(), []);
    (experiment.finish().unwrap(), switch_to_outsider)
}

/// Deliveries a second at a host, and the p99 of their latencies in milliseconds.
fn figures(measures: &Measures, host: usize) -> (f64, f64) {
    let host = &measures.hosts[host];
    (host.throughput, host.latency.quantile(0.99).unwrap() * 1e3)
}

#[test]
fn a_ring_over_a_slow_link_slows_no_local_one() {
    let (alone, _) = run(Arrivals::Saturate, Beside::Nobody);
    let (both, _) = run(Arrivals::Saturate, Beside::WideRing);
    for host in LOCAL {
        let ((usual, _), (beside, _)) = (figures(&alone, host), figures(&both, host));
        println!("saturated: {usual:.0}/s; beside the wide ring {beside:.0}/s");
        assert!(
            beside >= 0.95 * usual,
            "{beside} instead of {usual} a second"
        );
    }
    let load = || Arrivals::Constant { rate: 1_000.0 };
    let (alone, _) = run(load(), Beside::Nobody);
    let (both, switch_to_outsider) = run(load(), Beside::WideRing);
    for host in LOCAL {
        let ((usual, p99), (beside, p99_beside)) = (figures(&alone, host), figures(&both, host));
        println!(
            "{usual:.0}/s: p99 {p99:.3} ms; beside the wide ring {beside:.0}/s, {p99_beside:.3} ms"
        );
        assert!(
            beside >= 0.95 * usual,
            "{beside} instead of {usual} a second"
        );
        assert!(p99_beside <= 1.10 * p99, "{p99_beside} ms instead of {p99}");
    }
    for host in [NEAR, FAR] {
        let (rate, p99) = figures(&both, host);
        println!("the wide ring: {rate:.0}/s, p99 {p99:.0} ms");
        assert!(
            rate >= 0.9 * 2.0 * WIDE_RATE,
            "the wide ring carries {rate} a second"
        );
    }
    let to_outsider = both
        .links
        .iter()
        .find(|link| link.name == switch_to_outsider);
    assert_eq!(
        to_outsider.unwrap().packets,
        0,
        "packets for who is in no ring"
    );
    let most = both.links.iter().map(|link| link.packets).max().unwrap();
    assert!(most > 1_000, "links carry what rings say");
}

/// Without rings there is one order for all: at a load that the slow link carries, everybody's
/// messages wait for it; beyond that load it holds up the others or is left behind.
#[test]
fn in_one_order_with_a_slow_link_all_wait_for_it() {
    let light = Arrivals::Constant { rate: 10.0 };
    let (alone, _) = run(light.clone(), Beside::Nobody);
    let (both, _) = run(light, Beside::InIt);
    for host in LOCAL {
        let ((usual, p99), (rate, slow)) = (figures(&alone, host), figures(&both, host));
        println!(
            "{usual:.0}/s: p99 {p99:.3} ms; with the far one in the same ring {rate:.0}/s, {slow:.3} ms"
        );
        assert!(slow >= 100.0, "{slow} ms over 100 ms one way");
    }
    let (both, _) = run(Arrivals::Saturate, Beside::InIt);
    for host in LOCAL.into_iter().chain([FAR]) {
        println!("saturated, one ring: {:.0}/s", figures(&both, host).0);
    }
    // 1 Mb/s is 125 messages of 1,000 bytes, without any header.
    let far = figures(&both, FAR).0;
    assert!(far <= 125.0, "{far} a second over the slow link");
}
