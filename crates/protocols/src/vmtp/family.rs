//! VMTP as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Vmtp, VmtpConfig, inspect};

/// VMTP's multicast transactions, for comparison: a server that has responded has the message, and
/// nothing else is promised.
pub const FAMILY: Family = Family {
    name: "vmtp",
    services: Vmtp::SERVICES,
    service: Service::Reliable,
    contract: Contract::Unreliable,
    variants: &[
        Variant {
            name: "one",
            build: build_one,
        },
        Variant {
            name: "two",
            build: build_two,
        },
    ],
    settings: None,
    inspect,
    trial: Trial {
        messages: 200,
        len_max: Vmtp::MESSAGE_MAX,
        services: Some(Vmtp::SERVICES),
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, rng: Rng, responses: u32) -> Box<dyn Instrumented> {
    let config = VmtpConfig {
        responses,
        ..VmtpConfig::default()
    };
    Box::new(Vmtp::new(local, config, rng).expect("these settings are in their ranges"))
}

/// An entity whose requests succeed with the first response.
fn build_one(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, 1)
}

/// An entity whose requests need two.
fn build_two(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, 2)
}

/// Settings of its own for each seed.
fn vary(mut rng: Rng, situation: &Situation) -> Factory {
    let config = VmtpConfig {
        responses: rng.range(1..situation.hosts.max(2) as u64) as u32,
        think: Duration::from_millis(rng.range(0..100)),
        time_out: Duration::from_millis(rng.range(5..100)),
        demands: rng.range(1..5) as u32,
        ..VmtpConfig::default()
    };
    Arc::new(move |local, rng, _| {
        let entity = Vmtp::new(local, config.clone(), rng);
        Box::new(entity.expect("settings within their ranges"))
    })
}
