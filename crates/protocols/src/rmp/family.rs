//! RMP as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use groupcast_core::contract::Contract;
use groupcast_core::family::{
    Factory, Family, FamilySettings, MemberConfig, Situation, Trial, Variant,
};
use groupcast_core::settings::ConfigError;
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::config::BODY_LEAST;
use super::{NackTo, OrderRule, Rmp, RmpConfig, inspect};

/// RMP: every service, in one total order.
pub const FAMILY: Family = Family {
    name: "rmp",
    services: &Service::ALL,
    service: Service::Agreed,
    contract: Contract::OrderedEarly,
    variants: &[Variant { name: "", build }],
    settings: Some(FamilySettings::of::<RmpConfig>()),
    inspect,
    trial: Trial {
        #[cfg(feature = "planted-bugs")]
        plants: &super::Planted::names(super::Planted::ALL),
        #[cfg(feature = "planted-bugs")]
        rare_plants: &super::Planted::names(super::Planted::RARE),
        without_multicast: 0.1,
        calm: 0.1,
        lasting: 0.25,
        ..Trial::new(vary)
    },
};

/// RMP with `order = "heard"` for the swarm, whatever goes wrong: the order is that of members that
/// stay together, and each delivers its own messages once. It is no family of the registry.
pub const HEARD: Family = Family {
    name: "rmp-heard",
    contract: Contract::OrderedTogether,
    trial: Trial {
        plants: &[],
        rare_plants: &[],
        calm: 0.0,
        vary: vary_heard,
        ..FAMILY.trial
    },
    ..FAMILY
};

/// A member with the settings that tests use: [`RmpConfig::lan`].
fn build(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(
        Rmp::new(RmpConfig::lan(), local, rng, now).expect("the preset is valid; a test holds it"),
    )
}

impl MemberConfig for RmpConfig {
    type Member = Rmp;

    fn check(&self) -> Result<(), ConfigError> {
        self.validate()
    }

    fn member(self, local: MemberId, rng: Rng, now: Time) -> Result<Rmp, ConfigError> {
        Rmp::new(self, local, rng, now)
    }

    fn members_max(&self) -> Option<usize> {
        Some(self.members_max)
    }
}

/// The sizes of datagrams that hosts beside each other may have: plain Ethernet, PPPoE, and
/// tunnels.
const SIZES: [usize; 4] = [1431, 1423, 1381, 1351];

/// One of the presets, sometimes with the paper's ACKs, stop-and-wait, unicast NACKs, small
/// windows, a short queue, small datagrams, or sizes of datagrams that differ from member to
/// member. Where nothing goes wrong but what the network does, mostly with `order = "heard"`, which
/// keeps the one order only as long as nobody is cut off.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    drawn(rng, situation, None)
}

/// The same, always with `order = "heard"`.
fn vary_heard(rng: Rng, situation: &Situation) -> Factory {
    drawn(rng, situation, Some(OrderRule::Heard))
}

fn drawn(mut rng: Rng, situation: &Situation, order: Option<OrderRule>) -> Factory {
    let mut config = match rng.below(10) {
        0 => RmpConfig::wan(),
        _ => RmpConfig::lan(),
    };
    #[cfg(feature = "planted-bugs")]
    {
        config.planted = situation.plant.and_then(|name| name.parse().ok());
    }
    config.queue_measured = rng.fork("queue").chance(0.25);
    if rng.chance(0.25) {
        config.ack_packets_max = 1;
    }
    if rng.chance(0.1) {
        config.stop_and_wait = true;
    }
    if rng.chance(0.3) {
        config.nack = NackTo::Unicast;
    }
    if rng.chance(0.25) {
        config.body_max = rng.range(BODY_LEAST as u64..9_000) as usize;
    }
    if rng.chance(0.2) {
        config.gap_max = 64;
    }
    let sizes: Option<Vec<usize>> = rng.chance(0.25).then(|| {
        let hosts = 0..situation.hosts;
        hosts
            .map(|_| SIZES[rng.below(SIZES.len() as u64) as usize])
            .collect()
    });
    if situation.calm && rng.chance(0.8) {
        config.order = OrderRule::Heard;
    }
    config.order = order.unwrap_or(config.order);
    Arc::new(move |member: MemberId, rng, now| {
        let mut config = config.clone();
        if let Some(sizes) = &sizes {
            config.body_max = sizes[member.node.0 as usize % sizes.len()];
        }
        let rmp = Rmp::new(config, member, rng, now);
        Box::new(rmp.expect("settings within their ranges"))
    })
}
