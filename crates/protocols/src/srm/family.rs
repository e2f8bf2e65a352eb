//! SRM as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{
    Factory, Family, FamilySettings, MemberConfig, Situation, Trial, Variant,
};
use groupcast_core::settings::ConfigError;
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{Srm, SrmConfig, Timing, inspect};

/// SRM: reliable as long as some member can answer, and a report of what nobody could repair.
pub const FAMILY: Family = Family {
    name: "srm",
    services: Srm::SERVICES,
    service: Service::Reliable,
    contract: Contract::Gapped,
    variants: &[Variant { name: "", build }],
    settings: Some(FamilySettings::of::<SrmConfig>().introduced()),
    inspect,
    trial: Trial {
        len_max: 8_000,
        services: Some(Srm::SERVICES),
        faults_max: 12,
        jitter_max: Duration::from_millis(30),
        long: 0.1,
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

impl MemberConfig for SrmConfig {
    type Member = Srm;

    fn check(&self) -> Result<(), ConfigError> {
        self.validate()
    }

    fn member(self, local: MemberId, rng: Rng, now: Time) -> Result<Srm, ConfigError> {
        Srm::new(self, local, rng, now)
    }
}

/// Random settings, in a third of the groups others at each member; in a third sources beyond what
/// a member's tables hold.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let mut shares = rng.fork("limits");
    let (scarce, each) = (shares.chance(0.3), shares.chance(0.3));
    let limits = rng.fork("limits");
    let hosts = situation.hosts as u64;
    Arc::new(move |member, own, now| {
        let settings = match each {
            true => rng.fork_index(member.node.0),
            false => rng.clone(),
        };
        let mut config = random_config(settings);
        let mut limits = limits.fork_index(member.node.0);
        if scarce {
            // All that live have room, and those that died before give it to them in time.
            config.sources_max = limits.range(hosts..hosts + 3) as usize;
            config.source_timeout = Duration::from_secs(limits.range(1..5));
            config.requests_max = limits.range(64..1_000) as usize;
        }
        let srm = Srm::new(config, member, own, now);
        Box::new(srm.expect("settings within their ranges"))
    })
}

/// Every way to set timers, with much and with little kept for repairs, and little room for
/// messages that wait.
fn random_config(mut rng: Rng) -> SrmConfig {
    let timings = [Timing::LogGroup, Timing::SqrtGroup, Timing::Adaptive];
    let lan = SrmConfig::lan();
    let small = |small: bool, usual: usize| if small { 20_000 } else { usual };
    SrmConfig {
        timing: *rng.pick(&timings).unwrap_or(&lan.timing),
        body_max: 9_000,
        // All requests are given up within the time in which progress is expected.
        request_interval_max: Duration::from_secs(2),
        catch_up_max: *rng.pick(&[0, 20]).unwrap_or(&lan.catch_up_max),
        store_max: small(rng.chance(0.5), lan.store_max),
        held_max: small(rng.chance(0.3), lan.held_max),
        window_max: if rng.chance(0.2) { 64 } else { lan.window_max },
        ..lan
    }
}
