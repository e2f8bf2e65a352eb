//! Monitored transfers as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{ManagedConfig, ManagedMessages};
use crate::bulk::{self, BulkConfig, Messages, MessagesConfig, Multidriver, Policy, Xtp};
use crate::xgm::XgmConfig;

/// Bulk transfers, a message a transfer, with group management beside them.
pub const FAMILY: Family = Family {
    name: "managed",
    services: Messages::SERVICES,
    service: Service::Fifo,
    contract: Contract::Accounted,
    variants: &[
        Variant {
            name: "nak",
            build: build_nak,
        },
        Variant {
            name: "xtp",
            build: build_xtp,
        },
        Variant {
            name: "list",
            build: build_list,
        },
    ],
    settings: None,
    inspect: super::inspect::inspect,
    trial: Trial {
        messages: 100,
        services: Some(&[Service::Fifo]),
        progress_within: bulk::PROGRESS_WITHIN,
        settings_progress_within: Some(bulk::progress_within),
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, rng: Rng, now: Time, policy: Policy) -> Box<dyn Instrumented> {
    let config = ManagedConfig::new(MessagesConfig {
        bulk: bulk::for_tests(policy),
        ..MessagesConfig::default()
    });
    let messages = ManagedMessages::new(local, config, rng, now);
    Box::new(messages.expect("these settings fit each other"))
}

fn build_nak(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    build(local, rng, now, Policy::Nak { poll: 32 })
}

fn build_xtp(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    build(local, rng, now, Policy::Xtp(Xtp::for_window(256)))
}

fn build_list(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    let rounds = Multidriver::for_window(256);
    build(local, rng, now, Policy::List(rounds))
}

/// A policy and settings of its own for each seed.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let mut own = rng.fork("managed");
    let bulk = bulk::varied(rng, situation);
    let config = ManagedConfig {
        // Nothing that ends a transfer early, or takes for gone who is there: after the healing all
        // have to get everything, and a process that is restarted cannot know when that is.
        xgm: XgmConfig {
            watch_interval: Duration::from_millis(own.range(1_500..3_000)),
            watch_asks: own.range(6..9) as u32,
            ..XgmConfig::default()
        },
        ..ManagedConfig::new(MessagesConfig {
            bulk: BulkConfig {
                // A byte says whose a body is.
                packet: bulk.packet.saturating_sub(1).max(1),
                ..bulk
            },
            ..MessagesConfig::default()
        })
    };
    Arc::new(move |local, rng, now| {
        let messages = ManagedMessages::new(local, config.clone(), rng, now);
        Box::new(messages.expect("settings within their ranges"))
    })
}
