//! Gossip as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, FamilySettings, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::config::Variant as Repairs;
use super::{Dissemination, Gossip, GossipConfig, HashConfig, ZonedConfig, inspect};

/// Gossip: each sender's messages in order, and a report of those that are lost.
pub const FAMILY: Family = Family {
    name: "gossip",
    services: Gossip::SERVICES,
    service: Service::Fifo,
    contract: Contract::Gapped,
    variants: &[Variant { name: "", build }],
    settings: Some(FamilySettings::of::<ZonedConfig>().introduced()),
    inspect,
    trial: Trial {
        len_max: 8_000,
        services: Some(Gossip::SERVICES),
        faults_max: 12,
        // A third of a round: what members say of themselves comes long after what they sent.
        jitter_max: Duration::from_millis(30),
        long: 0.1,
        // Long enough at rest for the last request.
        progress_within: Duration::from_secs(60),
        rest: Duration::from_secs(60),
        ..Trial::new(vary)
    },
};

/// A member with the settings that tests use: [`GossipConfig::lan`].
fn build(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    let member = Gossip::new(GossipConfig::lan(), local, rng, now);
    Box::new(member.expect("the preset is valid: a test says so"))
}

/// Random settings; in half of the groups tables, buffers and views that are too small for the
/// group, in half of these others at each member.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let mut limits = rng.fork("limits");
    let (scarce, each) = (limits.chance(0.5), limits.chance(0.5));
    let config = random_config(rng);
    let hosts = situation.hosts as u64;
    Arc::new(move |member, rng, now| {
        let mut limits = match each {
            true => limits.fork_index(member.node.0),
            false => limits.clone(),
        };
        let config = match scarce {
            true => limited(config.clone(), hosts, &mut limits),
            false => config.clone(),
        };
        let gossip = Gossip::new(config, member, rng, now);
        Box::new(gossip.expect("settings within their ranges"))
    })
}

/// Room for fewer senders, members, bytes and repairs than a group of `hosts` may need. Views are
/// samples then, but for spanning trees, which need all members to know nearly the same.
fn limited(config: GossipConfig, hosts: u64, rng: &mut Rng) -> GossipConfig {
    let view_min = match config.dissemination {
        Dissemination::Multicast => 2,
        Dissemination::Trees { .. } => hosts + 1,
    };
    GossipConfig {
        senders_max: rng.range(3..hosts.max(3) + 2) as usize,
        view_max: rng.range(view_min..hosts + 9) as usize,
        message_max: 10_000,
        buffer_max: rng.range(20_000..200_000) as usize,
        digest_max: rng.range(200..1_200) as usize,
        limit_retrans: rng.range(20..100) as u32,
        limit_requests: rng.range(20..100) as u32,
        ..config
    }
}

/// Random settings, as the swarm tries them: every variant of the paper, with and without hash
/// buffering and trees.
pub fn random_config(mut rng: Rng) -> GossipConfig {
    let variants = [Repairs::Basic, Repairs::Ipmc, Repairs::Grb, Repairs::Local];
    let hash = HashConfig {
        bufferers: 1 + rng.below(6) as u32,
        short_term: rng.below(5) as u32,
        ask_bufferers: rng.chance(0.5),
        ..HashConfig::default()
    };
    let lan = GossipConfig::lan();
    GossipConfig {
        variant: *rng.pick(&variants).unwrap_or(&lan.variant),
        sub_gsize: 1 + rng.below(2) as u32,
        stable_threshold: rng.range(3..14) as u32,
        dissemination: match rng.chance(0.25) {
            true => Dissemination::Trees {
                trees: 4,
                arity: 2,
                seed: 1,
            },
            false => Dissemination::Multicast,
        },
        hash: rng.chance(0.4).then_some(hash),
        cyclic: rng.chance(0.5),
        window_max: if rng.chance(0.2) { 64 } else { lan.window_max },
        ..lan
    }
}
