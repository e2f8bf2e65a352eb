//! Connections as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{ConnectedMessages, ConnectionsConfig, FALSE_REPLIES};
use crate::bulk::{self, BulkConfig, Multidriver, Policy, RateControl, Xtp};

/// Messages over standing connections: delivered or reported, each once, in their sender's order.
pub const FAMILY: Family = Family {
    name: "connections",
    services: ConnectedMessages::SERVICES,
    service: Service::Fifo,
    contract: Contract::Gapped,
    variants: &[
        Variant {
            name: "xtp",
            build: build_xtp,
        },
        Variant {
            name: "multidriver",
            build: build_multidriver,
        },
        Variant {
            name: "list",
            build: build_list,
        },
    ],
    settings: None,
    inspect: bulk::inspect,
    trial: Trial {
        #[cfg(any(test, feature = "planted-bugs"))]
        plants: &[bulk::FIRST_REPLY_COUNTS, bulk::SILENT_FORGOTTEN],
        messages: 200,
        len_max: LEN_MAX,
        services: Some(ConnectedMessages::SERVICES),
        zeros: &[FALSE_REPLIES],
        progress_within: bulk::PROGRESS_WITHIN,
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, rng: Rng, policy: Policy) -> Box<dyn Instrumented> {
    let config = ConnectionsConfig {
        replies: true,
        ..ConnectionsConfig::new(bulk::for_tests(policy))
    };
    let messages = ConnectedMessages::new(local, config, rng);
    Box::new(messages.expect("these settings fit each other"))
}

fn build_xtp(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Xtp(Xtp::for_window(256)))
}

fn build_multidriver(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    let rounds = Multidriver::for_window(256);
    build(local, rng, Policy::Multidriver(rounds))
}

fn build_list(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    let rounds = Multidriver::for_window(256);
    build(local, rng, Policy::List(rounds))
}

/// The longest message of the swarm in bytes.
const LEN_MAX: usize = 8_000;

/// Another policy and other settings for each seed: those of bulk, and openings, replies and lives
/// of connections.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let mut own = rng.fork("connections");
    let drawn = bulk::varied(rng, situation);
    let is_fixed = own.chance(0.3);
    let fixed = RateControl::Fixed {
        bytes_per_second: own.range(200_000..10_000_000),
    };
    let bulk = BulkConfig {
        // A message takes two windows at most.
        packet: drawn
            .packet
            .max(LEN_MAX.div_ceil(2 * drawn.window as usize)),
        rate: if is_fixed { fixed } else { drawn.rate },
        ..drawn
    };
    let config = ConnectionsConfig {
        joinable: own.chance(0.7),
        unanswered: is_fixed && own.chance(0.7),
        strict: own.chance(0.1),
        replies: own.chance(0.5),
        messages_max: own.range(1..60),
        linger: Duration::from_millis(own.range(1..3_000)),
        ..ConnectionsConfig::new(bulk)
    };
    Arc::new(move |local, rng, _| {
        let messages = ConnectedMessages::new(local, config.clone(), rng);
        Box::new(messages.expect("settings within their ranges"))
    })
}
