//! The ring as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{
    Factory, Family, FamilySettings, MemberConfig, Situation, Trial, Variant,
};
use groupcast_core::settings::ConfigError;
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Ring, RingConfig, TokenPriority, inspect};

/// The ring: every service, in one total order.
pub const FAMILY: Family = Family {
    name: "ring",
    services: &Service::ALL,
    service: Service::Agreed,
    contract: Contract::Ordered,
    variants: &[Variant { name: "", build }],
    settings: Some(FamilySettings::of::<RingConfig>()),
    inspect,
    trial: Trial {
        #[cfg(feature = "planted-bugs")]
        plants: &super::Planted::names(super::Planted::ALL),
        #[cfg(feature = "planted-bugs")]
        rare_plants: &super::Planted::names(super::Planted::RARE),
        settings_progress_within: Some(progress_within),
        lasting: 0.25,
        without_multicast: 0.1,
        moments: &inspect::MOMENTS,
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

impl MemberConfig for RingConfig {
    type Member = Ring;

    fn check(&self) -> Result<(), ConfigError> {
        self.validate()
    }

    fn member(self, local: MemberId, rng: Rng, now: Time) -> Result<Ring, ConfigError> {
        Ring::new(self, local, rng, now)
    }

    fn members_max(&self) -> Option<usize> {
        Some(self.members_max)
    }
}

/// The sizes of datagrams that hosts beside each other may have: plain Ethernet, PPPoE, and
/// tunnels.
const SIZES: [usize; 4] = [1431, 1423, 1381, 1351];

/// One of the presets.
fn preset(rng: &mut Rng) -> RingConfig {
    match rng.below(20) {
        0 => RingConfig::wan(),
        1 => RingConfig::daemon_wan(),
        2..8 => RingConfig::daemon(),
        _ => RingConfig::lan(),
    }
}

/// A visit takes this many packets at least, or what waited when everything healed takes longer:
/// one packet in each rotation of 45 ms was 33 KB a second.
const QUICK: u32 = 2;

/// Within which time a ring is whole again, and has delivered what waited.
fn progress_within(rng: Rng, situation: &Situation) -> Duration {
    let (config, _) = settings(rng, situation);
    let of_preset = match config.token_loss_min == RingConfig::lan().token_loss_min {
        true => Duration::from_secs(8),
        false => Duration::from_secs(20),
    };
    let personal = config.personal_window.unwrap_or(QUICK);
    of_preset * QUICK / personal.min(QUICK)
}

/// Where presets and settings of single members come from.
fn presets(rng: &Rng) -> Rng {
    rng.fork("presets and members")
}

/// One of the presets, sometimes with pinned windows, the first method, small datagrams, little
/// that may be on its way, or sizes of datagrams that differ from member to member: those.
fn settings(mut rng: Rng, situation: &Situation) -> (RingConfig, Option<Vec<usize>>) {
    let mut more = presets(&rng);
    let mut config = preset(&mut more);
    #[cfg(feature = "planted-bugs")]
    {
        config.planted = situation.plant.and_then(|name| name.parse().ok());
    }
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
    if more.chance(0.2) {
        config.seq_gap_max = 64;
    }
    let sizes: Option<Vec<usize>> = more.chance(0.25).then(|| {
        let hosts = 0..situation.hosts;
        hosts.map(|_| SIZES[more.below(4) as usize]).collect()
    });
    (config, sizes)
}

/// Members with random settings.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let (config, sizes) = settings(rng, situation);
    Arc::new(move |member: MemberId, rng, now| {
        let mut config = config.clone();
        if let Some(sizes) = &sizes {
            config.body_max = sizes[member.node.0 as usize % sizes.len()];
        }
        let ring = Ring::new(config, member, rng, now);
        Box::new(ring.expect("settings within their ranges"))
    })
}
