//! `[protocol] name = "bulk"`: which policy, its parameters, and whom a transfer waits for (001).

use std::time::Duration;

use groupcast_core::{Incarnation, MemberId, NodeId, Rng};
use groupcast_protocols::bulk::{
    BulkConfig, Messages, MessagesConfig, NakRule, Policy, RateControl, Repair, SlowPolicy, Wanted,
};

use super::error::ScenarioError;
use super::protocol::{CHECKED, Settings};
use super::section::{Entry, Section};

type Result<T> = std::result::Result<T, ScenarioError>;

#[derive(Clone, Copy)]
enum PolicyWord {
    Ack,
    Nak,
    Ring,
    Tree,
}

/// Settings that only one policy has.
const ONLY: &[(&str, &str)] = &[("poll", "nak"), ("height", "tree")];

/// Reads the settings; what is left unsaid is as in 001 with the preset `paper`, else as for files on a LAN.
pub(super) fn read(section: &Section<'_>) -> Result<Settings> {
    let config = config(section)?;
    Ok(Settings::new(move |local, rng, _| {
        Box::new(Messages::new(local, config.clone(), rng).expect(CHECKED))
    }))
}

fn config(section: &Section<'_>) -> Result<MessagesConfig> {
    let mut bulk = preset(section)?;
    bulk.repair = section.or("repair", bulk.repair, |entry| {
        entry.word(&[
            ("go-back-n", Repair::GoBackN),
            ("selective", Repair::Selective),
        ])
    })?;
    // Parity goes with selective repeat only.
    bulk.block = match bulk.repair {
        Repair::GoBackN => None,
        Repair::Selective => section.or("block", bulk.block, |entry| {
            Ok(match entry.number_in(0, 1_024)? {
                0 => None,
                packets => Some(packets as u16),
            })
        })?,
    };
    bulk.reserve = section.or("reserve", bulk.reserve, Entry::boolean)?;
    bulk.rate = section.or("rate", bulk.rate, rate)?;
    bulk.slow = section.or("slow", bulk.slow, |entry| {
        entry.word(&[
            ("wait", SlowPolicy::Wait),
            ("demote", SlowPolicy::Demote),
            ("drop", SlowPolicy::Drop),
        ])
    })?;
    if let Some(delay_max) = section.optional("nak_delay", Entry::duration)? {
        bulk.nak = NakRule::Multicast { delay_max };
    }
    bulk.suppression = section
        .optional("suppression", Entry::duration)?
        .or(bulk.suppression);
    let buffer = section.or("buffer_max", bulk.buffer_max as u64, Entry::size)?;
    bulk.buffer_max = usize::try_from(buffer).unwrap_or(usize::MAX);
    let time = |key, setting: &mut Duration| -> Result<()> {
        *setting = section.or(key, *setting, Entry::duration)?;
        Ok(())
    };
    time("slow_after", &mut bulk.slow_after)?;
    time("nak_interval", &mut bulk.nak_interval)?;
    time("announce_interval", &mut bulk.announce_interval)?;
    time("register_within", &mut bulk.register_within)?;
    time("census", &mut bulk.census)?;
    time("rto_min", &mut bulk.rto_min)?;
    time("rto_initial", &mut bulk.rto_initial)?;
    time("rto_max", &mut bulk.rto_max)?;
    time("vanish_after", &mut bulk.vanish_after)?;
    let receivers = section.optional("receivers", |entry| entry.number_in(1, 65_535))?;
    let receivers = receivers.map_or(Wanted::Open, |count| Wanted::Count(count as usize));
    let config = MessagesConfig {
        bulk,
        receivers,
        ..MessagesConfig::default()
    };
    let nobody = MemberId {
        node: NodeId(0),
        incarnation: Incarnation(0),
    };
    match Messages::new(nobody, config.clone(), Rng::new(0)) {
        Ok(_) => Ok(config),
        Err(error) => {
            let help = "docs/scenarios.md says what the key does and its default";
            Err(match section.get(error.field) {
                Some(entry) => entry.wrong(error.problem, help),
                None => section.wrong(format!("{}: {}", error.field, error.problem), help),
            })
        }
    }
}

/// The preset with its policy, packet and window.
fn preset(section: &Section<'_>) -> Result<BulkConfig> {
    let is_paper = section.or("preset", false, |entry| {
        entry.word(&[("lan", false), ("paper", true)])
    })?;
    let lan = BulkConfig::lan();
    let word = section.or("policy", PolicyWord::Nak, |entry| {
        entry.word(&[
            ("ack", PolicyWord::Ack),
            ("nak", PolicyWord::Nak),
            ("ring", PolicyWord::Ring),
            ("tree", PolicyWord::Tree),
        ])
    })?;
    let name = section.or("policy", "nak", Entry::string)?;
    for (key, policy) in ONLY {
        if *policy != name
            && let Some(entry) = section.get(key)
        {
            let help = format!("leave it out, or say policy = \"{policy}\"");
            return Err(entry.wrong(format!("the policy `{name}` has no `{key}`"), help));
        }
    }
    let packet = section.or("packet", lan.packet as u64, |entry| {
        entry.size_in(1, BulkConfig::PACKET_MAX as u64)
    })?;
    let window = section.or("window", lan.window, number)?;
    let poll = section.or("poll", (window / 8).max(1), number)?;
    let height = section.or("height", 6, number)?;
    let policy = match word {
        PolicyWord::Ack => Policy::Ack,
        PolicyWord::Nak => Policy::Nak { poll },
        PolicyWord::Ring => Policy::Ring,
        PolicyWord::Tree => Policy::Tree { height },
    };
    Ok(match is_paper {
        true => BulkConfig::paper(policy, packet as usize, window),
        false => BulkConfig {
            policy,
            packet: packet as usize,
            window,
            ..lan
        },
    })
}

/// `"window"`, `"adaptive"`, `"fair"`, or so many bits a second.
fn rate(entry: &Entry<'_>) -> Result<RateControl> {
    match entry.string() {
        Ok("window") => Ok(RateControl::Window),
        Ok(word @ ("adaptive" | "fair")) => Ok(RateControl::Adaptive {
            max: None,
            yields: word == "fair",
        }),
        _ => Ok(RateControl::Fixed {
            bytes_per_second: entry.bandwidth()? / 8,
        }),
    }
}

fn number(entry: &Entry<'_>) -> Result<u32> {
    Ok(entry.number_in(1, u64::from(u32::MAX))? as u32)
}
