//! `[hosts]`: a model, what differs from it, and which hosts differ from the others.

use std::time::Duration;

use groupcast_core::settings::suggest::did_you_mean;
use groupcast_sim::HostConfig;
use groupcast_sim::host::config::{
    BufferLimit, ClientConfig, Cost, Effect, Perturbation, Processors,
};

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::select::Hosts;
use super::tree::{Node, Value};

type Result<T> = std::result::Result<T, ScenarioError>;

/// `[hosts]`, read.
#[derive(Clone, Default, Debug)]
pub(super) struct HostTable {
    /// Of all; none if there is no such table.
    all: Option<HostKeys>,
    pub(super) overrides: Vec<(Hosts, HostKeys)>,
    /// On which no process runs, and which multicast does not reach.
    pub(super) without_process: Option<Hosts>,
}

/// Some keys of a host, to be laid over what it is otherwise. They are known to be right.
#[derive(Clone, Debug)]
pub(super) struct HostKeys {
    key: String,
    node: Node,
}

impl HostTable {
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self> {
        let section = entry.section("[hosts]")?;
        let all = HostKeys::read(&section)?;
        let overrides = section
            .sections("override", "[[hosts.override]]")?
            .iter()
            .map(|section| {
                let hosts = section.required("hosts", Hosts::read)?;
                let keys = HostKeys::read(section)?;
                section.finish(|_| None)?;
                Ok((hosts, keys))
            })
            .collect::<Result<_>>()?;
        let without_process = section.optional("without_process", Hosts::read)?;
        section.finish(|_| None)?;
        Ok(Self {
            all: Some(all),
            overrides,
            without_process,
        })
    }

    /// What a host is like that no override names.
    pub(super) fn base(&self, mtu: u32) -> Result<HostConfig> {
        let default = HostConfig {
            mtu,
            ..HostConfig::default()
        };
        match &self.all {
            Some(keys) => keys.apply(&default),
            None => Ok(default),
        }
    }
}

impl HostKeys {
    /// Reads the keys of a host in `section`, which may have others.
    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        lay(section, &HostConfig::default())?;
        let (key, node) = section.clone_content();
        Ok(Self { key, node })
    }

    /// `under` with these keys laid over it.
    pub(super) fn apply(&self, under: &HostConfig) -> Result<HostConfig> {
        let entry = Entry {
            key: self.key.clone(),
            node: &self.node,
        };
        lay(&entry.section("a host")?, under)
    }
}

fn lay(section: &Section<'_>, under: &HostConfig) -> Result<HostConfig> {
    let under = match section.get("model") {
        Some(entry) => HostConfig {
            mtu: under.mtu,
            ..model(&entry)?
        },
        None => under.clone(),
    };
    let cost = |key, under: Cost| match section.get(key) {
        Some(entry) => cost(&entry, under),
        None => Ok(under),
    };
    let buffer = |key, under: BufferLimit| match section.get(key) {
        Some(entry) => buffer(&entry, under),
        None => Ok(under),
    };
    let number =
        |key, under: u32| section.or(key, under, |entry| Ok(entry.number_in(1, 65_536)? as u32));
    Ok(HostConfig {
        receive: cost("receive", under.receive)?,
        send: cost("send", under.send)?,
        copy: cost("copy", under.copy)?,
        kinds: under.kinds,
        submit: cost("submit", under.submit)?,
        deliver: cost("deliver", under.deliver)?,
        wait: section.or("wait", under.wait, Entry::duration)?,
        wake_up: section.or("wake_up", under.wake_up, Entry::duration)?,
        wake_up_jitter: section.or("wake_up_jitter", under.wake_up_jitter, Entry::duration)?,
        receive_batch: number("receive_batch", under.receive_batch)?,
        coalesces: section.or("coalesces", under.coalesces, Entry::boolean)?,
        send_batch: number("send_batch", under.send_batch)?,
        segments_max: number("segments_max", under.segments_max as u32)? as usize,
        data_buffer: buffer("data_buffer", under.data_buffer)?,
        token_buffer: buffer("token_buffer", under.token_buffer)?,
        mtu: under.mtu,
        turn_max: number("turn_max", under.turn_max)?,
        deliver_first: section.or("deliver_first", under.deliver_first, Entry::boolean)?,
        offered_max: section.or("offered_max", under.offered_max as u64, Entry::size)? as usize,
        effect: section.or("effect", under.effect, |entry| {
            entry.word(&[("begin", Effect::Begin), ("end", Effect::End)])
        })?,
        processors: match section.get("processors") {
            Some(entry) => processors(&entry)?,
            None => under.processors,
        },
        clients: match section.get("clients") {
            Some(entry) => clients(&entry, under.clients)?,
            None => under.clients,
        },
        perturbation: match section.get("perturbed") {
            Some(entry) => perturbation(&entry)?,
            None => under.perturbation,
        },
    })
}

fn model(entry: &Entry<'_>) -> Result<HostConfig> {
    let name = entry.string()?;
    HostConfig::named(name).ok_or_else(|| {
        let names: Vec<&str> = HostConfig::PRESETS.iter().map(|(name, _)| *name).collect();
        entry.wrong(
            format!("there is no host model `{name}`"),
            did_you_mean(name, &names),
        )
    })
}

fn cost(entry: &Entry<'_>, under: Cost) -> Result<Cost> {
    let section = entry.section("a cost, `{ call, packet, kibibyte }`")?;
    let cost = Cost {
        call: section.or("call", under.call, Entry::duration)?,
        packet: section.or("packet", under.packet, Entry::duration)?,
        kibibyte: section.or("kibibyte", under.kibibyte, Entry::duration)?,
    };
    section.finish(|_| None)?;
    Ok(cost)
}

fn buffer(entry: &Entry<'_>, under: BufferLimit) -> Result<BufferLimit> {
    const UNLIMITED: BufferLimit = BufferLimit::datagrams(usize::MAX);
    match &entry.node.value {
        Value::String(text) if text == "unlimited" => Ok(UNLIMITED),
        Value::Table(_) => {
            let section = entry.section("a socket buffer, `{ datagrams, bytes, overhead }`")?;
            let limit = BufferLimit {
                datagrams: section.or("datagrams", usize::MAX as u64, Entry::number)? as usize,
                bytes: section.or("bytes", usize::MAX as u64, Entry::size)? as usize,
                overhead: section.or("overhead", under.overhead as u64, Entry::size)? as usize,
            };
            section.finish(|_| None)?;
            Ok(limit)
        }
        _ => Ok(BufferLimit {
            overhead: under.overhead,
            ..BufferLimit::bytes(entry.size_in(1, u64::MAX)? as usize)
        }),
    }
}

fn processors(entry: &Entry<'_>) -> Result<Processors> {
    if let Value::String(_) = entry.node.value {
        return entry.word(&[("own", Processors::Own)]);
    }
    let section = entry.section("shared processors, `{ machine, cores }`")?;
    let small = |entry: &Entry<'_>| Ok(entry.number_in(0, 65_535)? as u32);
    let shared = Processors::Shared {
        machine: section.or("machine", 0, small)?,
        cores: section.required("cores", |entry| Ok(entry.number_in(1, 1_024)? as u32))?,
    };
    section.finish(|_| None)?;
    Ok(shared)
}

fn clients(entry: &Entry<'_>, under: Option<ClientConfig>) -> Result<Option<ClientConfig>> {
    if let Value::Boolean(there) = entry.node.value {
        return Ok(there.then(|| under.unwrap_or_default()));
    }
    let under = under.unwrap_or_default();
    let section = entry.section("the clients of a host")?;
    let cost = |key, under: Cost| match section.get(key) {
        Some(entry) => cost(&entry, under),
        None => Ok(under),
    };
    let number = |entry: &Entry<'_>| Ok(entry.number_in(1, 65_536)? as u32);
    let clients = ClientConfig {
        submit: cost("submit", under.submit)?,
        deliver: cost("deliver", under.deliver)?,
        wake_up: section.or("wake_up", under.wake_up, Entry::duration)?,
        batch: section.or("batch", under.batch, number)?,
        receivers: section.or("receivers", under.receivers, number)?,
        own_core: section.or("own_core", under.own_core, Entry::boolean)?,
        inbox_max: section.or("inbox_max", under.inbox_max as u64, Entry::number)? as usize,
    };
    section.finish(|_| None)?;
    Ok(Some(clients))
}

fn perturbation(entry: &Entry<'_>) -> Result<Option<Perturbation>> {
    if let Value::Boolean(false) = entry.node.value {
        return Ok(None);
    }
    let section = entry.section("a perturbation, `{ chance, interval }`")?;
    let interval = section.require("interval")?;
    let perturbation = Perturbation {
        probability: section.required("chance", Entry::share)?,
        interval: interval.duration()?,
    };
    section.finish(|_| None)?;
    match perturbation.interval {
        Duration::ZERO => Err(interval.wrong(
            "an interval of nothing",
            "use more than 0, for example \"100 ms\"",
        )),
        _ => Ok(Some(perturbation)),
    }
}
