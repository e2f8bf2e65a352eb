//! The ring as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Ring, RingConfig, TokenPriority, inspect};

/// The ring: every service, in one total order.
pub const FAMILY: Family = Family {
    name: "ring",
    services: &Service::ALL,
    service: Service::Agreed,
    contract: Contract::Ordered,
    variants: &[Variant { name: "", build }],
    inspect,
    trial: Trial {
        #[cfg(feature = "planted-bugs")]
        plants: &plants::FREQUENT,
        #[cfg(feature = "planted-bugs")]
        rare_plants: &plants::RARE,
        ..Trial::new(vary)
    },
};

/// A member with the settings that tests use: [`RingConfig::lan`].
fn build(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(
        Ring::new(RingConfig::lan(), local, rng, now)
            .expect("the preset is valid; a test holds it"),
    )
}

/// Mostly the preset, sometimes with pinned windows, the first method, small datagrams.
fn vary(mut rng: Rng, situation: &Situation) -> Factory {
    let mut config = RingConfig::lan();
    plant(&mut config, situation);
    if rng.chance(0.25) {
        config.priority = TokenPriority::FirstMethod;
    }
    if rng.chance(0.25) {
        let personal = rng.range(1..50) as u32;
        config.personal_window = Some(personal);
        config.accelerated_window = Some(rng.below(u64::from(personal) + 1) as u32);
    }
    if rng.chance(0.25) {
        config.body_max = rng.range(256..9_000) as usize;
    }
    Arc::new(move |member, rng, now| {
        let ring = Ring::new(config.clone(), member, rng, now);
        Box::new(ring.expect("settings within their ranges"))
    })
}

#[cfg(feature = "planted-bugs")]
fn plant(config: &mut RingConfig, situation: &Situation) {
    config.planted = situation.plant.and_then(|name| name.parse().ok());
}

#[cfg(not(feature = "planted-bugs"))]
fn plant(_config: &mut RingConfig, _situation: &Situation) {}

/// The names of the bugs that can be planted.
#[cfg(feature = "planted-bugs")]
mod plants {
    use crate::ring::Planted;

    pub(super) const FREQUENT: [&str; Planted::ALL.len()] = names(Planted::ALL);
    pub(super) const RARE: [&str; Planted::RARE.len()] = names(Planted::RARE);

    const fn names<const N: usize>(bugs: [Planted; N]) -> [&'static str; N] {
        let mut names = [""; N];
        let mut index = 0;
        while index < N {
            names[index] = bugs[index].name();
            index += 1;
        }
        names
    }
}
