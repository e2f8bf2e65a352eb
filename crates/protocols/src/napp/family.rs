//! NAPP as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Napp, NappConfig, inspect};

/// NAPP, for comparison: what is promised is that who is said to have a message has it.
pub const FAMILY: Family = Family {
    name: "napp",
    services: Napp::SERVICES,
    service: Service::Reliable,
    contract: Contract::Unreliable,
    variants: &[Variant { name: "", build }],
    settings: None,
    inspect,
    trial: Trial {
        #[cfg(any(test, feature = "planted-bugs"))]
        plants: &super::Planted::names(super::Planted::ALL),
        messages: 200,
        services: Some(Napp::SERVICES),
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    let entity = Napp::new(local, NappConfig::default(), rng);
    Box::new(entity.expect("the defaults are in their ranges"))
}

/// Settings of its own for each seed.
fn vary(mut rng: Rng, situation: &Situation) -> Factory {
    let ack_interval = Duration::from_millis(rng.range(10..60));
    let config = NappConfig {
        window: rng.range(1..200) as u32,
        ack_every: rng.range(1..64) as u32,
        pack_interval: ack_interval + Duration::from_millis(rng.range(1..100)),
        ack_interval,
        srej_interval: Duration::from_millis(rng.range(1..20)),
        srej_rest: Duration::from_millis(rng.range(5..60)),
        probability: rng.range(10..101) as u32,
        patience: Duration::from_millis(rng.range(500..3_000)),
        open_wait: Duration::from_millis(rng.range(2..40)),
        opens: rng.range(1..5) as u32,
        receivers: match rng.chance(0.5) {
            true => 0,
            false => situation.hosts.saturating_sub(1) as u32,
        },
        ..NappConfig::default()
    };
    #[cfg(any(test, feature = "planted-bugs"))]
    let planted = situation.plant.and_then(|name| name.parse().ok());
    Arc::new(move |local, rng, _| {
        let entity = Napp::new(local, config.clone(), rng);
        #[cfg_attr(not(any(test, feature = "planted-bugs")), expect(unused_mut))]
        let mut entity = entity.expect("settings within their ranges");
        #[cfg(any(test, feature = "planted-bugs"))]
        if let Some(bug) = planted {
            entity.plant(bug);
        }
        Box::new(entity)
    })
}
