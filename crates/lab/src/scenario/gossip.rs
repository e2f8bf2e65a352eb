//! `[protocol]` of gossip and SRM (004): the settings of their configurations, by their names.

use std::sync::Arc;

use groupcast_protocols::gossip::{Gossip, GossipConfig, Hierarchy};
use groupcast_protocols::srm::{Srm, SrmConfig};

use super::error::ScenarioError;
use super::protocol::{CHECKED, Settings};
use super::section::{Entry, Section};
use super::settings;

type Result<T> = std::result::Result<T, ScenarioError>;

/// `[protocol]` of gossip, read.
#[derive(Clone, Debug)]
pub(super) struct GossipTable {
    /// What all hosts have in common.
    config: GossipConfig,
    zones: Option<Zones>,
}

/// Hosts in zones of equal size, in their order (004 3.7, 5.3.3).
#[derive(Clone, Copy, Debug)]
struct Zones {
    count: u32,
    /// Hosts of a zone, its first ones, that gossip with other zones; `None`: everybody gossips
    /// with everybody.
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

pub(super) fn gossip_table(section: &Section<'_>) -> Result<GossipTable> {
    let config = settings::checked(section, GossipConfig::validate)?;
    let zones = zones(section)?;
    Ok(GossipTable { config, zones })
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
        let problem = "needs `zones` and `links` beside it";
        let entry = section.require(key)?;
        return Err(entry.wrong(problem, "docs/scenarios.md says what the key does"));
    }
    Ok(count.map(|count| Zones {
        count,
        links,
        remote_every: remote_every.unwrap_or(1),
    }))
}

/// Reads the settings of SRM.
pub(super) fn srm(section: &Section<'_>) -> Result<Settings> {
    let config: SrmConfig = settings::checked(section, SrmConfig::validate)?;
    Settings::new(move |local, rng, now| {
        Box::new(Srm::new(config.clone(), local, rng, now).expect(CHECKED))
    })
    .acquainted(section)
}
