//! `[protocol]`: which family of the registry, and its settings. Those of bulk are read in `bulk`,
//! those of gossip and SRM in `gossip`.

use std::fmt;
use std::sync::Arc;

use groupcast_core::family::{Factory, Family};
use groupcast_core::{Contract, Instrumented, MemberId, Rng, Time};
use groupcast_protocols::registry::FAMILIES;
use groupcast_protocols::ring::{Ring, RingConfig};

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::select::Spot;
use super::{bulk, gossip, settings};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Why a member with the settings of a scenario can be made.
pub(super) const CHECKED: &str = "settings are checked when they are read";

/// `[protocol]`, read.
#[derive(Clone)]
pub(super) struct ProtocolTable {
    pub(super) family: &'static Family,
    settings: Settings,
    spot: Spot,
}

/// What the settings of a family come to.
#[derive(Clone)]
pub(super) struct Settings {
    /// Makes the members of a run with so many hosts.
    factory: Arc<dyn Fn(usize) -> Factory + Send + Sync>,
    /// The most hosts, if the family has a limit.
    pub(super) hosts_max: Option<usize>,
    /// How many others each host knows from the start.
    pub(super) acquainted: usize,
}

/// Reads the settings of a family.
type Reader = fn(&Section<'_>) -> Result<Settings>;

/// The families with settings; the others are as their tests have them.
const READERS: &[(&str, Reader)] = &[
    ("ring", ring),
    ("bulk", bulk::read),
    ("gossip", gossip::gossip),
    ("srm", gossip::srm),
];

impl Settings {
    /// Members that `build` makes, which find each other by themselves.
    pub(super) fn new(
        build: impl Fn(MemberId, Rng, Time) -> Box<dyn Instrumented> + Send + Sync + 'static,
    ) -> Self {
        let build: Factory = Arc::new(build);
        Self::of_hosts(move |_| Arc::clone(&build))
    }

    /// The same, where members differ with the number of hosts.
    pub(super) fn of_hosts(factory: impl Fn(usize) -> Factory + Send + Sync + 'static) -> Self {
        Self {
            factory: Arc::new(factory),
            hosts_max: None,
            acquainted: 0,
        }
    }

    /// Hosts know each other from the start as far as `acquainted` in `section` says.
    pub(super) fn acquainted(self, section: &Section<'_>) -> Result<Self> {
        let acquainted = section.or("acquainted", 0, number)? as usize;
        Ok(Self { acquainted, ..self })
    }
}

impl ProtocolTable {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let mut section = entry.section("[protocol]")?;
        let entry = section.require("name")?;
        let words = FAMILIES.iter().map(|family| (family.name, *family));
        let family = entry.word(&words.collect::<Vec<_>>())?;
        section.rename(format!("the protocol `{}`", family.name));
        let reader = READERS.iter().find(|(name, _)| *name == family.name);
        let settings = match reader {
            Some((_, read)) => read(&section)?,
            None => Settings::new(|local, rng, now| family.build(local, rng, now)),
        };
        section.finish(|_| None)?;
        Ok(Self {
            family,
            settings,
            spot: Spot::of(&entry),
        })
    }

    /// Refuses more hosts than the protocol takes.
    pub(super) fn check_hosts(&self, hosts: usize) -> Result<()> {
        match self.settings.hosts_max {
            Some(most) if hosts > most => Err(self.spot.wrong(
                format!("a {} of at most {most} members cannot have {hosts}", self.family.name),
                "take fewer `members` in [network], another protocol, or a larger `members_max` (128 is the most)",
            )),
            _ => Ok(()),
        }
    }

    /// Makes the members of a run with `hosts` hosts.
    pub(super) fn factory(&self, hosts: usize) -> Factory {
        (self.settings.factory)(hosts)
    }

    /// How many others each host knows from the start.
    pub(super) fn acquainted(&self) -> usize {
        self.settings.acquainted
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
            .finish_non_exhaustive()
    }
}

fn ring(section: &Section<'_>) -> Result<Settings> {
    let config: RingConfig = settings::checked(section, RingConfig::validate)?;
    let hosts_max = Some(config.members_max);
    let settings = Settings::new(move |local, rng, now| {
        Box::new(Ring::new(config.clone(), local, rng, now).expect(CHECKED))
    });
    Ok(Settings {
        hosts_max,
        ..settings
    })
}

pub(super) fn number(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(0, u64::from(u32::MAX))? as u32)
}
