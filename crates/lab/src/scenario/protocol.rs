//! `[protocol]`: which, and its settings.

use std::time::Duration;

use groupcast_core::Service;
use groupcast_protocols::ring::{RingConfig, TokenPriority};

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::select::Spot;

type Result<T> = std::result::Result<T, ScenarioError>;

/// `[protocol]`, read.
#[derive(Clone, Debug)]
pub(super) struct ProtocolTable {
    pub(super) which: Protocol,
    spot: Spot,
}

/// What the hosts run.
#[derive(Clone, Debug)]
pub(super) enum Protocol {
    Ring(Box<RingConfig>),
    Flood,
}

#[derive(Clone, Copy)]
enum Name {
    Ring,
    Flood,
}

impl ProtocolTable {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let mut section = entry.section("[protocol]")?;
        let entry = section.require("name")?;
        let name = entry.word(&[("ring", Name::Ring), ("flood", Name::Flood)])?;
        section.rename(format!("the protocol `{}`", entry.string()?));
        let which = match name {
            Name::Ring => Protocol::Ring(Box::new(ring(&section)?)),
            Name::Flood => Protocol::Flood,
        };
        section.finish(|_| None)?;
        Ok(Self {
            which,
            spot: Spot::of(&entry),
        })
    }

    /// Refuses more hosts than the protocol takes.
    pub(super) fn check_hosts(&self, hosts: usize) -> Result<()> {
        match &self.which {
            Protocol::Ring(config) if hosts > config.members_max => Err(self.spot.wrong(
                format!("a ring of at most {} members cannot have {hosts}", config.members_max),
                "take fewer `members` in [network], another protocol, or a larger `members_max` (128 is the most)",
            )),
            _ => Ok(()),
        }
    }

    /// What its messages are promised unless told otherwise.
    pub(super) fn service(&self) -> Service {
        match self.which {
            Protocol::Ring(_) => Service::Agreed,
            Protocol::Flood => Service::Unreliable,
        }
    }

    /// Whether it carries the service.
    pub(super) fn carries(&self, service: Service) -> bool {
        match self.which {
            Protocol::Ring(_) => true,
            Protocol::Flood => service == Service::Unreliable,
        }
    }

    /// Whether its histories are judged unless told otherwise: it promises something.
    pub(super) fn is_judged(&self) -> bool {
        matches!(self.which, Protocol::Ring(_))
    }

    pub(super) fn name(&self) -> &'static str {
        match self.which {
            Protocol::Ring(_) => "ring",
            Protocol::Flood => "flood",
        }
    }
}

fn ring(section: &Section<'_>) -> Result<RingConfig> {
    let preset = section.or("preset", false, |entry| {
        entry.word(&[("lan", false), ("wan", true)])
    })?;
    let under = match preset {
        false => RingConfig::lan(),
        true => RingConfig::wan(),
    };
    let size = |key, under: usize| Ok(section.or(key, under as u64, Entry::size)? as usize);
    let window = |key, under: Option<u32>| -> Result<Option<u32>> {
        Ok(section.optional(key, number)?.or(under))
    };
    let time = |key, under: Duration| section.or(key, under, Entry::duration);
    let ring = RingConfig {
        body_max: size("body_max", under.body_max)?,
        message_max: size("message_max", under.message_max)?,
        queue_max: size("queue_max", under.queue_max)?,
        members_max: section.or("members_max", under.members_max as u32, number)? as usize,
        personal_window: window("personal_window", under.personal_window)?,
        global_window: window("global_window", under.global_window)?,
        accelerated_window: window("accelerated_window", under.accelerated_window)?,
        seq_gap_max: section.or("seq_gap_max", under.seq_gap_max, number)?,
        priority: section.or("priority", under.priority, |entry| {
            entry.word(&[
                ("first", TokenPriority::FirstMethod),
                ("second", TokenPriority::SecondMethod),
            ])
        })?,
        token_loss_min: time("token_loss_min", under.token_loss_min)?,
        token_loss_max: time("token_loss_max", under.token_loss_max)?,
        token_retransmit_min: time("token_retransmit_min", under.token_retransmit_min)?,
        idle_after: time("idle_after", under.idle_after)?,
        idle_hold: time("idle_hold", under.idle_hold)?,
        join_interval: time("join_interval", under.join_interval)?,
        consensus_timeout: time("consensus_timeout", under.consensus_timeout)?,
        alone_after: time("alone_after", under.alone_after)?,
        announce_interval: time("announce_interval", under.announce_interval)?,
        fail_to_receive: time("fail_to_receive", under.fail_to_receive)?,
        quarantine_min: time("quarantine_min", under.quarantine_min)?,
        quarantine_max: time("quarantine_max", under.quarantine_max)?,
        leave_timeout: time("leave_timeout", under.leave_timeout)?,
        // The only other field exists where bugs are planted.
        ..under
    };
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

fn number(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(0, u64::from(u32::MAX))? as u32)
}
