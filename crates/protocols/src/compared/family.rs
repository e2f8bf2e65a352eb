//! The compared policies as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use crate::bulk::{self, BulkConfig, Collectors, Cp, Messages, MessagesConfig, Policy, Repair};

/// Bulk transfers, a message a transfer, under the policies that are compared with the others.
pub const FAMILY: Family = Family {
    name: "compared",
    services: Messages::SERVICES,
    service: Service::Fifo,
    contract: Contract::Accounted,
    variants: &[
        Variant {
            name: "collectors",
            build: build_collectors,
        },
        Variant {
            name: "cp",
            build: build_cp,
        },
    ],
    settings: None,
    inspect: bulk::inspect,
    trial: Trial {
        #[cfg(any(test, feature = "planted-bugs"))]
        plants: &[DEAD_BELIEVED],
        messages: 100,
        services: Some(&[Service::Fifo]),
        progress_within: bulk::PROGRESS_WITHIN,
        ..Trial::new(vary)
    },
};

/// The planted bug: a dead collector is believed.
#[cfg(any(test, feature = "planted-bugs"))]
pub(super) const DEAD_BELIEVED: &str = "dead-believed";

fn build(local: MemberId, rng: Rng, policy: Policy) -> Box<dyn Instrumented> {
    let config = MessagesConfig {
        bulk: bulk::for_tests(policy),
        ..MessagesConfig::default()
    };
    Box::new(Messages::new(local, config, rng).expect("these settings fit each other"))
}

/// A member under the policy of collectors, of which there are two: tests have few members.
fn build_collectors(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    let rule = Collectors {
        count: 2,
        ..Collectors::for_window(256)
    };
    build(local, rng, Policy::Collectors(rule))
}

/// A member under CP.
fn build_cp(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Cp(Cp::default()))
}

/// Settings of its own for each seed: as those of bulk, but for the policy.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let mut own = rng.fork("compared");
    let drawn = bulk::varied(rng, situation);
    // The bug is one of collectors.
    let bulk = if situation.plant.is_none() && own.chance(0.5) {
        BulkConfig {
            policy: Policy::Cp(Cp {
                threshold: own.range(0..101) as u32,
                minimum: 0,
            }),
            repair: Repair::Selective,
            block: None,
            ..drawn
        }
    } else {
        BulkConfig {
            policy: Policy::Collectors(vary_collectors(&mut own, drawn.window, situation)),
            ..drawn
        }
    };
    let config = MessagesConfig {
        bulk,
        ..MessagesConfig::default()
    };
    Arc::new(move |local, rng, _| {
        let messages = Messages::new(local, config.clone(), rng);
        Box::new(messages.expect("settings within their ranges"))
    })
}

fn vary_collectors(rng: &mut Rng, window: u32, situation: &Situation) -> Collectors {
    let mut rule = Collectors::for_window(window);
    rule.every = rng.range(1..u64::from(window) + 1) as u32;
    rule.count = rng.range(1..5) as u32;
    rule.wait = Duration::from_micros(rng.range(0..20_000));
    plant(&mut rule, situation);
    rule
}

#[cfg(any(test, feature = "planted-bugs"))]
fn plant(rule: &mut Collectors, situation: &Situation) {
    if situation.plant == Some(DEAD_BELIEVED) {
        rule.planted = Some(bulk::PlantedInCollectors::DeadBelieved);
    }
}

#[cfg(not(any(test, feature = "planted-bugs")))]
fn plant(_rule: &mut Collectors, _situation: &Situation) {}
