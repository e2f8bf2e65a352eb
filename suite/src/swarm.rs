//! What the swarm runs beside the ring, for the program `swarm` and for tests.

use std::sync::Arc;
use std::time::Duration;

use groupcast_core::{Rng, Service};
use groupcast_protocols::bulk::{
    BulkConfig, Messages, MessagesConfig, NakRule, Policy, RateControl, Repair, SlowPolicy,
};
use groupcast_sim::Factory;
use groupcast_sim::swarm::{Scenario, Swarm, SwarmConfig};

/// Bulk: every message of the load is a transfer to whoever is there. `options`: see [`SwarmConfig::options`].
///
/// Each seed has a policy and settings of its own. A transfer takes a census and a few round trips, so there are fewer
/// messages than the ring gets, and progress after healing has to wait for those who are gone to be given up.
pub fn bulk(options: &'static str) -> Swarm<Messages> {
    let config = SwarmConfig {
        messages: 100,
        services: Some(vec![Service::Fifo]),
        configurations: false,
        progress_within: Duration::from_secs(60),
        options,
        ..SwarmConfig::default()
    };
    Swarm::new(config, endpoints)
}

/// The endpoints of a scenario.
fn endpoints(scenario: &Scenario) -> Factory<Messages> {
    let settings = MessagesConfig {
        bulk: settings(scenario),
        ..MessagesConfig::default()
    };
    Arc::new(move |member, rng, _| {
        Messages::new(member, settings.clone(), rng).expect("settings within their ranges")
    })
}

fn settings(scenario: &Scenario) -> BulkConfig {
    let mut rng = Rng::new(scenario.seed).fork("bulk");
    // More than there are hosts, as a ring must have it.
    let window = rng.range(10..80) as u32;
    let policy = match rng.below(4) {
        0 => Policy::Ack,
        1 => Policy::Nak {
            poll: rng.range(1..u64::from(window) + 1) as u32,
        },
        2 => Policy::Ring,
        _ => Policy::Tree {
            height: rng.range(1..9) as u32,
        },
    };
    let packet = if rng.chance(0.2) {
        rng.range(1..9_000) as usize
    } else {
        rng.range(200..1_400) as usize
    };
    let pick = |rng: &mut Rng, odds: f64| rng.chance(odds);
    let repair = if pick(&mut rng, 0.3) {
        Repair::GoBackN
    } else {
        Repair::Selective
    };
    // Parity goes with selective repeat only.
    let parity = pick(&mut rng, 0.7) && repair == Repair::Selective;
    BulkConfig {
        policy,
        repair,
        block: parity.then(|| rng.range(1..40) as u16),
        packet: packet.max(100),
        window,
        reserve: pick(&mut rng, 0.3),
        rate: if pick(&mut rng, 0.5) {
            RateControl::Window
        } else {
            RateControl::Adaptive {
                max: None,
                yields: scenario.seed.is_multiple_of(2),
            }
        },
        slow: match rng.below(3) {
            0 => SlowPolicy::Wait,
            1 => SlowPolicy::Demote,
            _ => SlowPolicy::Drop,
        },
        nak: if pick(&mut rng, 0.3) {
            NakRule::Multicast {
                delay_max: Duration::from_millis(rng.range(1..50)),
            }
        } else {
            NakRule::Unicast
        },
        suppression: pick(&mut rng, 0.3).then(|| Duration::from_millis(rng.range(1..50))),
        census: Duration::from_millis(rng.range(200..400)),
        rto_max: Duration::from_millis(500),
        vanish_after: Duration::from_secs(rng.range(2..5)),
        ..BulkConfig::lan()
    }
}
