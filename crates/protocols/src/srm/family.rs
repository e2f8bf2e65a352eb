//! SRM as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Srm, SrmConfig, Timing, inspect};

/// SRM: reliable as long as some member can answer, and a report of what nobody could repair.
pub const FAMILY: Family = Family {
    name: "srm",
    services: Srm::SERVICES,
    service: Service::Reliable,
    contract: Contract::Gapped,
    variants: &[Variant { name: "", build }],
    inspect,
    trial: Trial {
        len_max: 8_000,
        services: Some(Srm::SERVICES),
        // Long enough at rest for the last request.
        progress_within: Duration::from_secs(60),
        rest: Duration::from_secs(60),
        ..Trial::new(vary)
    },
};

/// A member with the settings that tests use: [`SrmConfig::lan`].
fn build(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    let srm = Srm::new(SrmConfig::lan(), local, rng, now);
    Box::new(srm.expect("the preset is valid; a test holds it"))
}

/// Every way to set timers, with much and with little kept for repairs.
fn vary(mut rng: Rng, _situation: &Situation) -> Factory {
    let timings = [Timing::LogGroup, Timing::SqrtGroup, Timing::Adaptive];
    let lan = SrmConfig::lan();
    let config = SrmConfig {
        timing: *rng.pick(&timings).unwrap_or(&lan.timing),
        body_max: 9_000,
        // All requests are given up within the time in which progress is expected.
        request_interval_max: Duration::from_secs(2),
        catch_up_max: *rng.pick(&[0, 20]).unwrap_or(&lan.catch_up_max),
        store_max: if rng.chance(0.5) {
            20_000
        } else {
            lan.store_max
        },
        ..lan
    };
    Arc::new(move |member, rng, now| {
        let srm = Srm::new(config.clone(), member, rng, now);
        Box::new(srm.expect("settings within their ranges"))
    })
}
