//! MTP as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Mtp, MtpConfig, inspect};

/// MTP, which orders by the tokens of a master and promises nothing, for comparison.
pub const FAMILY: Family = Family {
    name: "mtp",
    services: Mtp::SERVICES,
    service: Service::Unreliable,
    contract: Contract::Unreliable,
    variants: &[Variant { name: "", build }],
    settings: None,
    inspect,
    trial: Trial {
        messages: 60,
        len_max: 16_384,
        services: Some(Mtp::SERVICES),
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    let member = Mtp::new(local, MtpConfig::default(), rng, now);
    Box::new(member.expect("these settings are in their ranges"))
}

/// Settings of its own for each seed.
fn vary(mut rng: Rng, _situation: &Situation) -> Factory {
    let config = MtpConfig {
        window: rng.range(2..60) as u32,
        heartbeat: Duration::from_millis(rng.range(20..250)),
        retention: rng.range(1..8) as u32,
        ..MtpConfig::default()
    };
    Arc::new(move |local, rng, now| {
        let member = Mtp::new(local, config.clone(), rng, now);
        Box::new(member.expect("settings within their ranges"))
    })
}
