//! A holder of the key who wants the group dead, for minutes: no daemon crashes, none grows, and
//! once he is gone the group works again.
//!
//! That the group works while he is there is not asked: whoever holds the key can stop it
//! (SECURITY.md). `member` is what he runs.

mod member;

use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::Link;
use serde_json::{Value, json};

use self::member::INSIDER;
use super::bars::{Bar, Bars, load_average};
use super::cluster::{Cluster, GROUP, MULTICAST};
use super::memory::Memory;
use super::{Outcome, Role};

/// Daemons.
const HOSTS: [usize; 5] = [1, 2, 3, 4, 5];
/// The host of the holder of the key.
const ADVERSARY: usize = 6;
/// How often memory is looked at.
const SAMPLE: Duration = Duration::from_secs(5);
/// The group works again within this.
const AGAIN_WITHIN: Duration = Duration::from_secs(10);
/// How long that is waited for.
const AGAIN_LIMIT: Duration = Duration::from_secs(60);
/// Messages that every subscriber gets then.
const MESSAGES: usize = 100;

/// The role that the soak program plays in a process of its own, by its hidden word.
pub const ROLE: Role = (INSIDER, member::main);

/// Runs `protocol` in five daemons with an insider for `length`. Prints what it finds; an error if
/// a bar is not held.
pub fn run(protocol: &str, length: Duration, seed: u64) -> Outcome<Value> {
    let mut cluster = Cluster::new(ADVERSARY, Link::Unlimited)?;
    cluster.set_protocol(protocol);
    for host in HOSTS {
        cluster.start_without_history(host, &["--multicast", MULTICAST])?;
    }
    cluster.await_members(&HOSTS)?;
    // Something to overhear: it goes on as the group lets it.
    let traffic = ["--size", "200", "--rate", "200", "--count", "1000000000"];
    let _publishers = [
        cluster.publish_as(1, "traffic", &traffic)?,
        cluster.publish_as(4, "traffic", &traffic)?,
    ];
    let mut command = cluster.bed.command(ADVERSARY, std::env::current_exe()?);
    let interface = cluster.bed.address(ADVERSARY).to_string();
    let key = cluster.path("cluster.key");
    command.args([
        INSIDER,
        protocol,
        &interface,
        MULTICAST,
        &key,
        &seed.to_string(),
    ]);
    let mut insider = cluster.bed.launch("insider", command)?;

    let mut memories = HOSTS.map(|_| Memory::default());
    let begun = Instant::now();
    while begun.elapsed() < length {
        sleep(SAMPLE.min(length));
        for (host, memory) in HOSTS.into_iter().zip(&mut memories) {
            check_alive(&mut cluster, host)?;
            memory.sample(cluster.daemon(host)?.usage()?.resident);
        }
        if !insider.is_running() {
            return Err(format!("the insider ended: {}", insider.stderr()?).into());
        }
    }
    let load = load_average();
    let printed = insider.stdout()?;
    let said: Value = serde_json::from_str(printed.lines().last().unwrap_or("null"))?;
    println!("{protocol}: the insider says {said}");
    insider.kill()?;
    let begun = Instant::now();
    let again = again(&mut cluster, begun);
    let took = begun.elapsed();
    if let Err(error) = &again {
        println!("{error}");
    }

    let mut bars = Bars::default();
    println!("{protocol}: load average {load}");
    let mutated = said["mutated"].as_f64().unwrap_or_default();
    let least = length.as_secs_f64() * 100.0;
    bars.hold(Bar::at_least(
        "mutations that were sent",
        mutated,
        least,
        "datagrams",
    ));
    let mut growth = Vec::new();
    for memory in &memories {
        let (first, last) = memory.extremes();
        growth.push([first, last]);
        let grown = (last as f64 - first as f64) * 1e-6;
        bars.hold(Bar::at_most(
            "growth of a daemon",
            grown,
            Memory::GROWTH_MAX as f64 * 1e-6,
            "MB",
        ));
    }
    for host in HOSTS {
        check_alive(&mut cluster, host)?;
    }
    let within = AGAIN_WITHIN.as_secs_f64();
    bars.hold(Bar::at_most(
        "the group works again",
        took.as_secs_f64(),
        within,
        "s",
    ));
    bars.verdict()?;
    again?;
    cluster.pass();
    Ok(json!({
        "protocol": protocol,
        "insider": said,
        "memory": growth,
        "again_s": took.as_secs_f64(),
        "load_average": load,
        "bars": bars.json(),
    }))
}

fn check_alive(cluster: &mut Cluster, host: usize) -> Outcome {
    let daemon = cluster.daemon(host)?;
    if daemon.is_running() {
        return Ok(());
    }
    let log = daemon.stderr()?;
    let end: Vec<&str> = log.lines().rev().take(10).collect();
    Err(format!("{} ended: {}", daemon.label(), end.join(" / ")).into())
}

/// Waits until the daemons are one group, and messages reach a subscriber of each.
fn again(cluster: &mut Cluster, begun: Instant) -> Outcome {
    let left = || AGAIN_LIMIT.saturating_sub(begun.elapsed());
    cluster.await_members_within(left(), &HOSTS)?;
    let mut subscriptions = Vec::new();
    for host in HOSTS {
        subscriptions.push(cluster.subscribe(host, "after", GROUP)?);
    }
    let count = MESSAGES.to_string();
    let publisher = cluster.publish_as(2, "again", &["--size", "100", "--count", &count])?;
    for subscription in &mut subscriptions {
        subscription.await_messages("again", MESSAGES, left())?;
    }
    cluster.finish(publisher, left())?;
    Ok(())
}
