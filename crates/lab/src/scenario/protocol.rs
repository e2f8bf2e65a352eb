//! `[protocol]`: which family of the registry, and the settings that the family lists.

use std::fmt;
use std::sync::Arc;

use groupcast_core::Contract;
use groupcast_core::family::{Factory, Family, GroupConfig, Members};
use groupcast_protocols::registry::FAMILIES;

use super::error::ScenarioError;
use super::section::Entry;
use super::select::Spot;
use super::settings;

type Result<T> = std::result::Result<T, ScenarioError>;

/// `[protocol]`, read.
#[derive(Clone)]
pub(super) struct ProtocolTable {
    pub(super) family: &'static Family,
    /// The settings as read. `None`: the family lists none.
    config: Option<Arc<dyn GroupConfig>>,
    members: Members,
    /// How many others each host knows from the start.
    acquainted: usize,
    spot: Spot,
}

impl ProtocolTable {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let mut section = entry.section("[protocol]")?;
        let entry = section.require("name")?;
        let words = FAMILIES.iter().map(|family| (family.name, *family));
        let family = entry.word(&words.collect::<Vec<_>>())?;
        section.rename(format!("the protocol `{}`", family.name));
        let mut table = Self {
            family,
            config: None,
            members: Members::new(Arc::new(|local, rng, now| family.build(local, rng, now))),
            acquainted: 0,
            spot: Spot::of(&entry),
        };
        if let Some(settings) = &family.settings {
            let config = settings::read(&section, settings)?;
            let members = config.members();
            table.members = members.map_err(|error| settings::refused(&section, &error))?;
            table.config = Some(Arc::from(config));
            if settings.is_introduced {
                table.acquainted = section.or("acquainted", 0, number)? as usize;
            }
        }
        section.finish(|_| None)?;
        Ok(table)
    }

    /// Refuses more hosts than the protocol takes.
    pub(super) fn check_hosts(&self, hosts: usize) -> Result<()> {
        match self.members.members_max {
            Some(most) if hosts > most => Err(self.spot.wrong(
                format!("a {} of at most {most} members cannot have {hosts}", self.family.name),
                "take fewer hosts in [network] (`hosts`, or `members`), another protocol, or a larger `members_max` (128 is the most)",
            )),
            _ => Ok(()),
        }
    }

    /// Makes the members of a run with `hosts` hosts.
    pub(super) fn factory(&self, hosts: usize) -> Factory {
        self.members.factory(hosts)
    }

    /// How many others each host knows from the start.
    pub(super) fn acquainted(&self) -> usize {
        self.acquainted
    }

    /// The settings as read. `None`: the family lists none.
    #[cfg(test)]
    pub(super) fn config(&self) -> Option<&dyn GroupConfig> {
        self.config.as_deref()
    }

    /// Whether its histories are judged unless the scenario says otherwise: it promises something.
    pub(super) fn is_judged(&self) -> bool {
        self.family.contract != Contract::Unreliable
    }
}

impl fmt::Debug for ProtocolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolTable")
            .field("family", &self.family.name)
            .field("config", &self.config)
            .field("acquainted", &self.acquainted)
            .finish_non_exhaustive()
    }
}

fn number(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(0, u64::from(u32::MAX))? as u32)
}
