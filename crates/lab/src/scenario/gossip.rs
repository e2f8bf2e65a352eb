//! `[protocol]` of gossip and SRM (004): the settings of their configurations, by their names.

use std::sync::Arc;

use groupcast_protocols::gossip::{
    Dissemination, Gossip, GossipConfig, HashConfig, Hierarchy, Place, Variant,
};
use groupcast_protocols::srm::{Srm, SrmConfig, Timing};

use super::error::ScenarioError;
use super::protocol::{CHECKED, Settings, number};
use super::section::{Entry, Section};

type Result<T> = std::result::Result<T, ScenarioError>;

const HELP: &str = "docs/scenarios.md says what the key does and its default";

/// `[protocol]` of gossip, read.
#[derive(Clone, Debug)]
struct GossipTable {
    /// What all hosts have in common.
    config: GossipConfig,
    zones: Option<Zones>,
}

/// Hosts in zones of equal size, in their order (004 3.7, 5.3.3).
#[derive(Clone, Copy, Debug)]
struct Zones {
    count: u32,
    /// Hosts of a zone, its first ones, that gossip with other zones; `None`: everybody gossips with everybody.
    links: Option<u32>,
    remote_every: u32,
}

impl GossipTable {
    /// The settings of `host`, one of `hosts`.
    fn of_host(&self, host: usize, hosts: usize) -> GossipConfig {
        let mut config = self.config.clone();
        let Some(zones) = self.zones else {
            return config;
        };
        let size = hosts.div_ceil(zones.count as usize).max(1);
        config.zone = (host / size) as u32;
        config.hierarchy = zones.links.map(|links| Hierarchy {
            link: host % size < links as usize,
            remote_every: zones.remote_every,
        });
        config
    }
}

/// Reads the settings of gossip.
pub(super) fn gossip(section: &Section<'_>) -> Result<Settings> {
    let table = gossip_table(section)?;
    Settings::of_hosts(move |hosts| {
        let table = table.clone();
        Arc::new(move |local, rng, now| {
            // A host's process is the node that has its index, from 1.
            let host = local.node.0.saturating_sub(1) as usize;
            let config = table.of_host(host, hosts);
            Box::new(Gossip::new(config, local, rng, now).expect(CHECKED))
        })
    })
    .acquainted(section)
}

fn gossip_table(section: &Section<'_>) -> Result<GossipTable> {
    let paper = section.or("preset", false, |entry| {
        entry.word(&[("lan", false), ("paper", true)])
    })?;
    let mut gossip = match paper {
        false => GossipConfig::lan(),
        true => GossipConfig::paper(),
    };
    gossip.variant = section.or("variant", gossip.variant, |entry| {
        entry.word(&[
            ("basic", Variant::Basic),
            ("ipmc", Variant::Ipmc),
            ("grb", Variant::Grb),
            ("local", Variant::Local),
        ])
    })?;
    for (key, setting) in [
        ("sub_gsize", &mut gossip.sub_gsize),
        ("limit_retrans", &mut gossip.limit_retrans),
        ("limit_requests", &mut gossip.limit_requests),
        ("stable_threshold", &mut gossip.stable_threshold),
        ("threshold", &mut gossip.threshold),
        ("members_per_gossip", &mut gossip.members_per_gossip),
        ("fail_rounds", &mut gossip.fail_rounds),
        ("window_max", &mut gossip.window_max),
    ] {
        *setting = section.or(key, *setting, number)?;
    }
    for (key, setting) in [
        ("view_max", &mut gossip.view_max),
        ("senders_max", &mut gossip.senders_max),
    ] {
        *setting = section.or(key, *setting as u32, number)? as usize;
    }
    for (key, setting) in [
        ("limit_retrans_bytes", &mut gossip.limit_retrans_bytes),
        ("digest_max", &mut gossip.digest_max),
        ("message_max", &mut gossip.message_max),
        ("queue_max", &mut gossip.queue_max),
        ("buffer_max", &mut gossip.buffer_max),
    ] {
        *setting = section.or(key, *setting as u64, Entry::size)? as usize;
    }
    for (key, setting) in [
        ("threshold_grows", &mut gossip.threshold_grows),
        ("multicast_exempt", &mut gossip.multicast_exempt),
        ("cyclic", &mut gossip.cyclic),
        ("duplicate_resets", &mut gossip.duplicate_resets),
    ] {
        *setting = section.or(key, *setting, Entry::boolean)?;
    }
    gossip.step_interval = section.or("step_interval", gossip.step_interval, Entry::duration)?;
    let every = section.or("announce_every", gossip.announce_every.unwrap_or(0), number)?;
    gossip.announce_every = (every > 0).then_some(every);
    gossip.hash = hash(section)?;
    gossip.dissemination = dissemination(section)?;
    let zones = zones(section)?;
    match gossip.validate() {
        Ok(()) => Ok(GossipTable {
            config: gossip,
            zones,
        }),
        Err(error) => Err(refused(section, error.field, error.problem)),
    }
}

/// Zones, if `zones` says so; a hierarchy of them, if `links` does.
fn zones(section: &Section<'_>) -> Result<Option<Zones>> {
    let least_one = |entry: &Entry<'_>| Ok(entry.number_in(1, u64::from(u32::MAX))? as u32);
    let count = section.optional("zones", least_one)?;
    let links = section.optional("links", least_one)?;
    let remote_every = section.optional("remote_every", least_one)?;
    let alone = [
        ("links", links.is_some() && count.is_none()),
        ("remote_every", remote_every.is_some() && links.is_none()),
    ];
    if let Some((key, _)) = alone.into_iter().find(|(_, alone)| *alone) {
        return Err(refused(section, key, "needs `zones` and `links` beside it"));
    }
    Ok(count.map(|count| Zones {
        count,
        links,
        remote_every: remote_every.unwrap_or(1),
    }))
}

/// Hash buffering, if `bufferers` says so.
fn hash(section: &Section<'_>) -> Result<Option<HashConfig>> {
    let ours = HashConfig::default();
    let bufferers = section.optional("bufferers", number)?;
    let short_term = section.or("short_term", ours.short_term, number)?;
    let gaps = section.or("gaps", ours.gaps, Entry::boolean)?;
    Ok(bufferers.map(|bufferers| HashConfig {
        bufferers,
        short_term,
        place: Place::Shuffle(0),
        gaps,
        ..ours
    }))
}

/// Spanning trees, if `trees` says so; else multicast.
fn dissemination(section: &Section<'_>) -> Result<Dissemination> {
    let most = u64::from(u16::MAX) - 1;
    let trees = section.optional("trees", |entry| entry.number_in(1, 65_534))?;
    let arity = section.or("arity", 4, |entry| entry.number_in(1, 65_534))?;
    Ok(match trees {
        None => Dissemination::Multicast,
        Some(trees) => Dissemination::Trees {
            trees: trees.min(most) as u16,
            arity: arity.min(most) as u16,
            seed: 1,
        },
    })
}

/// Reads the settings of SRM.
pub(super) fn srm(section: &Section<'_>) -> Result<Settings> {
    let config = srm_config(section)?;
    Settings::new(move |local, rng, now| {
        Box::new(Srm::new(config.clone(), local, rng, now).expect(CHECKED))
    })
    .acquainted(section)
}

fn srm_config(section: &Section<'_>) -> Result<SrmConfig> {
    let ns2 = section.or("preset", false, |entry| {
        entry.word(&[("lan", false), ("ns2", true)])
    })?;
    let mut srm = match ns2 {
        false => SrmConfig::lan(),
        true => SrmConfig::ns2(),
    };
    srm.timing = section.or("timing", srm.timing, |entry| {
        entry.word(&[
            ("log-group", Timing::LogGroup),
            ("sqrt-group", Timing::SqrtGroup),
            ("adaptive", Timing::Adaptive),
        ])
    })?;
    srm.group = section.optional("group", number)?.or(srm.group);
    for (key, setting) in [
        ("session_interval", &mut srm.session_interval),
        ("distance_initial", &mut srm.distance_initial),
        ("distance_min", &mut srm.distance_min),
        ("distance_max", &mut srm.distance_max),
    ] {
        *setting = section.or(key, *setting, Entry::duration)?;
    }
    for (key, setting) in [
        ("request_backoff_max", &mut srm.request_backoff_max),
        ("request_intervals_max", &mut srm.request_intervals_max),
        ("repair_hold", &mut srm.repair_hold),
    ] {
        *setting = section.or(key, *setting, number)?;
    }
    for (key, setting) in [
        ("body_max", &mut srm.body_max),
        ("queue_max", &mut srm.queue_max),
        ("session_bytes_max", &mut srm.session_bytes_max),
        ("store_max", &mut srm.store_max),
    ] {
        *setting = section.or(key, *setting as u64, Entry::size)? as usize;
    }
    match srm.validate() {
        Ok(()) => Ok(srm),
        Err(error) => Err(refused(section, error.field, error.problem)),
    }
}

/// Names the key that cannot be so, at its place if the scenario has it.
fn refused(section: &Section<'_>, field: &'static str, problem: &'static str) -> ScenarioError {
    match section.get(field) {
        Some(entry) => entry.wrong(problem, HELP),
        None => section.wrong(format!("{field}: {problem}"), HELP),
    }
}
