//! Gossip under random faults: FIFO, gaps reported once and before what follows them, nothing invented; and progress
//! after healing. Goal: no schedule of crashes, pauses, partitions and losses makes a member lie. Method: seeds.

use std::sync::Arc;
use std::time::Duration;

use groupcast_check::Contract;
use groupcast_core::{Rng, Service};
use groupcast_protocols::gossip::{Dissemination, Gossip, GossipConfig, HashConfig, Variant};
use groupcast_sim::Factory;
use groupcast_sim::swarm::{Scenario, Swarm, SwarmConfig};

fn swarm() -> Swarm<Gossip> {
    let config = SwarmConfig {
        contract: Contract::Gapped,
        services: Some(vec![Service::Fifo]),
        len_max: 4_000,
        messages: 200,
        duration: Duration::from_secs(30),
        progress_within: Duration::from_secs(30),
        rest: Duration::from_secs(10),
        ..SwarmConfig::default()
    };
    Swarm::new(config, settings)
}

/// Every seed has its own settings.
fn settings(scenario: &Scenario) -> Factory<Gossip> {
    let mut rng = Rng::new(scenario.seed).fork("gossip");
    let variants = [Variant::Basic, Variant::Ipmc, Variant::Grb, Variant::Local];
    let trees = Dissemination::Trees {
        trees: 4,
        arity: 2,
        seed: 1,
    };
    let hash = HashConfig {
        bufferers: 1 + rng.below(4) as u32,
        short_term: rng.below(4) as u32,
        ask_bufferers: rng.chance(0.5),
        ..HashConfig::default()
    };
    let config = GossipConfig {
        variant: *rng.pick(&variants).unwrap(),
        sub_gsize: 1 + rng.below(2) as u32,
        stable_threshold: rng.range(3..12) as u32,
        dissemination: match rng.chance(0.25) {
            true => trees,
            false => Dissemination::Multicast,
        },
        hash: rng.chance(0.4).then_some(hash),
        cyclic: rng.chance(0.5),
        message_max: 5_000,
        buffer_max: if rng.chance(0.2) { 20_000 } else { 16 << 20 },
        window_max: if rng.chance(0.2) { 64 } else { 8_192 },
        ..GossipConfig::lan()
    };
    Arc::new(move |member, rng, now| Gossip::new(config.clone(), member, rng, now).unwrap())
}

#[test]
fn no_fault_makes_a_member_lie() {
    let report = swarm().run_range(0..100, 2, false, &|_| ());
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|it| (it.seed, it.violations.first()))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(report.accepted > 15_000, "{} accepted", report.accepted);
}
