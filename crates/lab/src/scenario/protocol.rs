//! `[protocol]`: which family of the registry, and its settings. Those of bulk are read in `bulk`, those of gossip and
//! SRM in `gossip`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::family::{Factory, Family};
use groupcast_core::{Contract, Instrumented, MemberId, Rng, Time};
use groupcast_protocols::registry::FAMILIES;
use groupcast_protocols::ring::{Ring, RingConfig, TokenPriority};

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::select::Spot;
use super::{bulk, gossip};

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
    let config = ring_config(section)?;
    let hosts_max = Some(config.members_max);
    let settings = Settings::new(move |local, rng, now| {
        Box::new(Ring::new(config.clone(), local, rng, now).expect(CHECKED))
    });
    Ok(Settings {
        hosts_max,
        ..settings
    })
}

fn ring_config(section: &Section<'_>) -> Result<RingConfig> {
    let preset = section.or("preset", false, |entry| {
        entry.word(&[("lan", false), ("wan", true)])
    })?;
    let mut ring = match preset {
        false => RingConfig::lan(),
        true => RingConfig::wan(),
    };
    let size = |key, setting: &mut usize| -> Result<()> {
        *setting = section.or(key, *setting as u64, Entry::size)? as usize;
        Ok(())
    };
    size("body_max", &mut ring.body_max)?;
    size("message_max", &mut ring.message_max)?;
    size("queue_max", &mut ring.queue_max)?;
    let window = |key, setting: &mut Option<u32>| -> Result<()> {
        *setting = section.optional(key, number)?.or(*setting);
        Ok(())
    };
    window("personal_window", &mut ring.personal_window)?;
    window("global_window", &mut ring.global_window)?;
    window("accelerated_window", &mut ring.accelerated_window)?;
    ring.members_max = section.or("members_max", ring.members_max as u32, number)? as usize;
    ring.seq_gap_max = section.or("seq_gap_max", ring.seq_gap_max, number)?;
    ring.priority = section.or("priority", ring.priority, |entry| {
        entry.word(&[
            ("first", TokenPriority::FirstMethod),
            ("second", TokenPriority::SecondMethod),
        ])
    })?;
    let time = |key, setting: &mut Duration| -> Result<()> {
        *setting = section.or(key, *setting, Entry::duration)?;
        Ok(())
    };
    time("token_loss_min", &mut ring.token_loss_min)?;
    time("token_loss_max", &mut ring.token_loss_max)?;
    time("token_retransmit_min", &mut ring.token_retransmit_min)?;
    time("idle_after", &mut ring.idle_after)?;
    time("idle_hold", &mut ring.idle_hold)?;
    time("confirm_after", &mut ring.confirm_after)?;
    time("join_interval", &mut ring.join_interval)?;
    time("consensus_timeout", &mut ring.consensus_timeout)?;
    time("alone_after", &mut ring.alone_after)?;
    time("announce_interval", &mut ring.announce_interval)?;
    time("fail_to_receive", &mut ring.fail_to_receive)?;
    time("quarantine_min", &mut ring.quarantine_min)?;
    time("quarantine_max", &mut ring.quarantine_max)?;
    time("leave_timeout", &mut ring.leave_timeout)?;
    match ring.validate() {
        Ok(()) => Ok(ring),
        Err(error) => {
            let help = "docs/configuration.md says what the key does and its default";
            Err(match section.get(error.field) {
                Some(entry) => entry.wrong(error.problem, help),
                None => section.wrong(format!("{}: {}", error.field, error.problem), help),
            })
        }
    }
}

pub(super) fn number(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(0, u64::from(u32::MAX))? as u32)
}
