//! The key of five daemons is changed again and again under load: every message arrives everywhere,
//! no ring breaks, and at the end the old keys open nothing.

use std::time::{Duration, Instant};

use groupcast_bench::Link;
use serde_json::Value;

use super::bars::load_average;
use super::cluster::{Cluster, MULTICAST, Subscription, check_running, judge_streams};
use super::text::{messages, text};
use super::{Outcome, until};

/// How many daemons there are, one a host.
const HOSTS: usize = 5;
/// Bytes of the text that goes through during each change.
const TEXT: usize = 2 << 20;
/// Its lines a second: a change takes a tenth of the time that its part of the text does.
const RATE: &str = "4000";
/// Bytes of the text for each change where the rest of the ring is taken by others.
const TEXT_BESIDE: usize = 1 << 20;
/// Its lines a second.
const RATE_BESIDE: &str = "1000";
/// What the others publish, as fast as the ring takes it.
const FULL: &[&str] = &["--size", "1350", "--count", "1000000000"];
/// How long a step may take, and the text for each change.
const LIMIT: Duration = Duration::from_secs(60);

/// What else goes through the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// A text alone, at a steady pace. There are histories, and they are judged.
    Text,
    /// As much from every host as the ring takes, beside a text. Histories would fill the disk:
    /// what subscribers got is judged.
    Full,
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct RekeyReport {
    /// How long each change took, from the first command on.
    pub took: Vec<Duration>,
    /// What all daemons together counted from before the first change to after the last: lost
    /// tokens, configurations that ended, datagrams of other clusters, forged ones.
    pub broken: [u64; 4],
    /// Messages that every subscriber got.
    pub messages: usize,
    /// How busy the machine was in the end.
    pub load: String,
}

/// Changes the key `changes` times.
///
/// # Errors
/// A message is missing somewhere, or a change does not end.
pub fn run(changes: usize, load: Load) -> Outcome<RekeyReport> {
    let (share, rate) = match load {
        Load::Text => (TEXT, RATE),
        Load::Full => (TEXT_BESIDE, RATE_BESIDE),
    };
    let all_text = text(share * changes, 97);
    let published = messages(&all_text);
    let mut cluster = Cluster::new(HOSTS, Link::Unlimited)?;
    let hosts: Vec<usize> = (1..=HOSTS).collect();
    let options = ["--multicast", MULTICAST];
    for host in &hosts {
        match load {
            Load::Text => cluster.start_with(*host, &options)?,
            Load::Full => cluster.start_without_history(*host, &options)?,
        }
    }
    cluster.await_members(&hosts)?;
    cluster.write_text("text", &all_text)?;
    let mut subscriptions = cluster.subscribe_all(&hosts)?;
    let mut beside = Vec::new();
    if load == Load::Full {
        for host in &hosts {
            let mut command = cluster.command(*host, &["pub", "full"]);
            command
                .args(["--socket", &cluster.socket(*host)])
                .args(FULL);
            beside.push(cluster.bed.launch(&format!("full-{host}"), command)?);
        }
    }
    let before = broken(&cluster)?;
    let publisher = cluster.publish(1, "text", &["--rate", rate])?;
    let mut took = Vec::new();
    for change in 0..changes {
        await_text(&subscriptions[1], (share * change + share / 4) as u64)?;
        let begun = Instant::now();
        change_key(&cluster, &format!("key-{change}"))?;
        took.push(begun.elapsed());
    }
    let busy = load_average();
    let after = broken(&cluster)?;
    check_running(&mut beside)?;
    drop(beside);
    let limit = LIMIT * changes as u32;
    cluster.finish(publisher, limit)?;
    for subscription in &mut subscriptions {
        subscription.await_messages("pub", published.len(), limit)?;
    }
    let all: Vec<String> = hosts
        .iter()
        .map(|host| format!("sub@host-{host}"))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    judge_streams(&subscriptions, &all, &published)?;
    match load {
        Load::Text => cluster.check_histories()?,
        Load::Full => cluster.pass(),
    }
    Ok(RekeyReport {
        took,
        broken: std::array::from_fn(|index| after[index] - before[index]),
        messages: published.len(),
        load: busy,
    })
}

fn await_text(subscription: &Subscription, bytes: u64) -> Outcome {
    until(LIMIT, format!("{bytes} bytes of the text"), || {
        Ok((subscription.printed()? > bytes).then_some(()))
    })
}

/// What grows if a ring breaks, or a daemon does not open what another seals, over all hosts: lost
/// tokens, configurations, datagrams of other clusters, forged ones.
fn broken(cluster: &Cluster) -> Outcome<[u64; 4]> {
    let counters = [
        ["ring", "token_losses"],
        ["ring", "transitions"],
        ["node", "other_cluster"],
        ["node", "forged"],
    ];
    let mut sums = [0; 4];
    for host in 1..=HOSTS {
        for (sum, [part, name]) in sums.iter_mut().zip(counters) {
            *sum += cluster.counter(host, &["counters", part, name])?;
        }
    }
    Ok(sums)
}

/// Changes the key on every host, and waits until all have the new one alone.
fn change_key(cluster: &Cluster, name: &str) -> Outcome {
    let file = cluster.path(&format!("{name}.key"));
    let run = |host: usize, arguments: &[&str]| -> Outcome<String> {
        let output = cluster.command(host, arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    };
    run(1, &["keygen", &file])?;
    let mut said = String::new();
    for host in 1..=HOSTS {
        let socket = cluster.socket(host);
        said = run(host, &["rekey", &file, "--socket", &socket, "--json"])?;
    }
    let said: Value = serde_json::from_str(&said)?;
    until(LIMIT, format!("the change to {name} is done"), || {
        for host in 1..=HOSTS {
            let status = cluster.status(host)?.unwrap_or_default();
            let key = &status["key"];
            if key["fingerprint"] != said["fingerprint"] || !key["change"].is_null() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
}
