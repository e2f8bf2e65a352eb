//! `[protocol]`: which, and its settings. Those of gossip and SRM are read in `gossip`.

use std::time::Duration;

use groupcast_check::Contract;
use groupcast_core::Service;
use groupcast_protocols::bulk::MessagesConfig;
use groupcast_protocols::ring::{RingConfig, TokenPriority};
use groupcast_protocols::srm::SrmConfig;

use super::error::ScenarioError;
use super::gossip::GossipTable;
use super::section::{Entry, Section};
use super::select::Spot;
use super::{bulk, gossip};

type Result<T> = std::result::Result<T, ScenarioError>;

/// `[protocol]`, read.
#[derive(Clone, Debug)]
pub(super) struct ProtocolTable {
    pub(super) which: Protocol,
    /// How many others each host knows from the start.
    pub(super) acquainted: usize,
    spot: Spot,
}

/// What the hosts run.
#[derive(Clone, Debug)]
pub(super) enum Protocol {
    Ring(Box<RingConfig>),
    Bulk(Box<MessagesConfig>),
    Gossip(Box<GossipTable>),
    Srm(Box<SrmConfig>),
    Flood,
}

#[derive(Clone, Copy)]
enum Name {
    Ring,
    Bulk,
    Gossip,
    Srm,
    Flood,
}

impl ProtocolTable {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let mut section = entry.section("[protocol]")?;
        let entry = section.require("name")?;
        let name = entry.word(&[
            ("ring", Name::Ring),
            ("bulk", Name::Bulk),
            ("gossip", Name::Gossip),
            ("srm", Name::Srm),
            ("flood", Name::Flood),
        ])?;
        section.rename(format!("the protocol `{}`", entry.string()?));
        let which = match name {
            Name::Ring => Protocol::Ring(Box::new(ring(&section)?)),
            Name::Bulk => Protocol::Bulk(Box::new(bulk::read(&section)?)),
            Name::Gossip => Protocol::Gossip(Box::new(gossip::gossip(&section)?)),
            Name::Srm => Protocol::Srm(Box::new(gossip::srm(&section)?)),
            Name::Flood => Protocol::Flood,
        };
        let acquainted = match name {
            // A ring finds its members by itself, a transfer its receivers; a flood has none.
            Name::Ring | Name::Bulk | Name::Flood => 0,
            Name::Gossip | Name::Srm => section.or("acquainted", 0, number)? as usize,
        };
        section.finish(|_| None)?;
        Ok(Self {
            which,
            acquainted,
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
            Protocol::Bulk(_) => Service::Fifo,
            Protocol::Gossip(_) => Service::Fifo,
            Protocol::Srm(_) => Service::Reliable,
            Protocol::Flood => Service::Unreliable,
        }
    }

    /// Whether it carries the service.
    pub(super) fn carries(&self, service: Service) -> bool {
        match self.which {
            Protocol::Ring(_) => true,
            Protocol::Bulk(_) => matches!(service, Service::Reliable | Service::Fifo),
            Protocol::Gossip(_) => service == Service::Fifo,
            Protocol::Srm(_) => matches!(service, Service::Reliable | Service::Fifo),
            Protocol::Flood => service == Service::Unreliable,
        }
    }

    /// Whether its histories are judged unless told otherwise: it promises something.
    pub(super) fn is_judged(&self) -> bool {
        !matches!(self.which, Protocol::Flood)
    }

    /// What its histories are judged by.
    pub(super) fn contract(&self) -> Contract {
        match self.which {
            Protocol::Ring(_) | Protocol::Bulk(_) | Protocol::Flood => Contract::Ordered,
            Protocol::Gossip(_) | Protocol::Srm(_) => Contract::Gapped,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.which {
            Protocol::Ring(_) => "ring",
            Protocol::Bulk(_) => "bulk",
            Protocol::Gossip(_) => "gossip",
            Protocol::Srm(_) => "srm",
            Protocol::Flood => "flood",
        }
    }
}

fn ring(section: &Section<'_>) -> Result<RingConfig> {
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
