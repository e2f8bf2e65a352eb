//! Floods of datagrams that no daemon should believe, a kind at a time: at one of five daemons,
//! then at all of them by multicast.
//!
//! A flood takes the machine's processors whether anybody reads it or not. So each is compared to
//! the same flood at a port where nobody listens: what is left is what the daemons do about it.
//! Meanwhile a new daemon joins. [`storm`] makes the datagrams and sends them.

pub mod storm;

use std::fmt;
use std::net::SocketAddrV4;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use groupcast_core::Incarnation;
use serde_json::{Value, json};

use self::storm::Kind;
use super::bars::{Bar, Bars, load_average};
use super::cluster::{Cluster, MULTICAST, PORT, RING};
use super::hostile::herd::{self, Plan, Tally};
use super::{Outcome, until};

/// Daemons with clients.
const HOSTS: [usize; 5] = [1, 2, 3, 4, 5];
/// The one that is flooded alone, and the one in whose name datagrams are forged then.
const TARGET: usize = 2;
const OTHER: usize = 3;
/// The one that joins meanwhile, and the host that floods.
const NEWCOMER: usize = 6;
const ADVERSARY: usize = 7;
/// A port where nobody listens.
const CLOSED: u16 = 4899;
/// When the newcomer starts, in the flood.
const NEWCOMER_AFTER: Duration = Duration::from_secs(1);
/// It is a member of the group within this.
const JOIN_WITHIN: Duration = Duration::from_secs(5);
/// How long it is waited for.
const JOIN_LIMIT: Duration = Duration::from_secs(20);
/// How many times as long a message may take as with the same flood at a closed port.
const RATIO_MAX: f64 = 3.0;
/// Datagrams a second that are asked for, at least.
const RATE_LEAST: f64 = 100_000.0;
/// How much a flood may make a daemon grow, in MB.
const GROWTH_MAX: f64 = 8.0;
/// Clients: two of each daemon, all in one group, each with this many messages a second of this
/// many bytes.
const CLIENTS: usize = 10;
const PACE: (f64, usize) = (20.0, 200);

/// Where a flood goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Aim {
    One,
    Multicast,
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::One => "one",
            Self::Multicast => "multicast",
        })
    }
}

/// What a flood showed.
struct Phase {
    tally: Tally,
    /// Datagrams a second.
    rate: f64,
    /// How long the newcomer took to be a member with all others; the limit if it was not.
    joined: Duration,
    /// Tokens that were lost.
    losses: u64,
    /// By how many bytes the daemon grew that grew most.
    grown: u64,
    load: String,
}

/// Floods with each of `kinds` for `length`, `rate` datagrams a second if the machine can. Prints a
/// line for each; an error if a bar is not held.
pub fn run(kinds: &[Kind], length: Duration, rate: f64) -> Outcome<Value> {
    let mut cluster = Cluster::new(ADVERSARY, Link::Unlimited)?;
    for host in HOSTS {
        cluster.start_without_history(host, &["--multicast", MULTICAST])?;
    }
    cluster.await_members(&HOSTS)?;
    let mut bars = Bars::default();
    let mut rows = Vec::new();
    println!(
        "{:<8} {:<9} {:>9} {:>11} {:>11} {:>7} {:>7} {:>7} {:>6} {:>8} {:>5}",
        "kind",
        "at",
        "a second",
        "closed ms",
        "median ms",
        "ratio",
        "join s",
        "missing",
        "tokens",
        "MB more",
        "load"
    );
    for kind in kinds {
        for aim in [Aim::One, Aim::Multicast] {
            let closed = phase(&mut cluster, *kind, aim, CLOSED, length, rate)?;
            let open_port = match aim {
                Aim::One => PORT,
                Aim::Multicast => multicast().port(),
            };
            let open = phase(&mut cluster, *kind, aim, open_port, length, rate)?;
            rows.push(row(&mut bars, *kind, aim, &closed, &open));
        }
    }
    cluster.pass();
    bars.verdict()?;
    Ok(json!({"floods": rows, "bars": bars.json()}))
}

/// Prints what a flood showed, and holds it to the bars.
fn row(bars: &mut Bars, kind: Kind, aim: Aim, closed: &Phase, open: &Phase) -> Value {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let [calm, median] = [closed, open].map(|phase| millis(phase.tally.median));
    let (ratio, joined) = (median / calm, open.joined.as_secs_f64());
    let missing = open.tally.expected.abs_diff(open.tally.delivered);
    let grown = open.grown as f64 * 1e-6;
    println!(
        "{:<8} {aim:<9} {:>9.0} {calm:>11.3} {median:>11.3} {ratio:>7.2} {joined:>7.2} {missing:>7} {:>6} {grown:>8.2} {:>5}",
        kind.name(),
        open.rate,
        open.losses,
        open.load,
    );
    let what = |bar: &str| format!("{} at {aim}: {bar}", kind.name());
    let slower = what("median, times that of a closed port");
    bars.hold(Bar::at_least(
        what("rate"),
        open.rate,
        RATE_LEAST * 0.98,
        "datagrams a second",
    ));
    bars.hold(Bar::at_most(slower, ratio, RATIO_MAX, "times"));
    bars.hold(Bar::at_most(
        what("join"),
        joined,
        JOIN_WITHIN.as_secs_f64(),
        "s",
    ));
    bars.hold(Bar::at_most(
        what("missing"),
        missing as f64,
        0,
        "deliveries",
    ));
    bars.hold(Bar::at_most(what("growth"), grown, GROWTH_MAX, "MB"));
    json!({
        "kind": kind.name(),
        "at": aim.to_string(),
        "rate": open.rate,
        "rate_closed": closed.rate,
        "closed": closed.tally.json(),
        "open": open.tally.json(),
        "ratio": ratio,
        "join_s": joined,
        "join_closed_s": closed.joined.as_secs_f64(),
        "tokens_lost": open.losses,
        "grown": open.grown,
        "load_average": open.load,
    })
}

fn phase(
    cluster: &mut Cluster,
    kind: Kind,
    aim: Aim,
    port: u16,
    length: Duration,
    rate: f64,
) -> Outcome<Phase> {
    let plan = Plan {
        clients: CLIENTS,
        group: CLIENTS,
        rate: PACE.0,
        size: PACE.1,
        length,
    };
    let to = match aim {
        Aim::One => SocketAddrV4::new(cluster.bed.address(TARGET), port),
        Aim::Multicast => SocketAddrV4::new(*multicast().ip(), port),
    };
    let lives = match (aim, kind) {
        (Aim::One, Kind::Forged) => vec![life(cluster, OTHER)?],
        (Aim::One, _) => vec![life(cluster, TARGET)?],
        (Aim::Multicast, _) => HOSTS
            .iter()
            .map(|host| life(cluster, *host))
            .collect::<Outcome<_>>()?,
    };
    let herd = herd::start(cluster, "herd", &plan, &HOSTS)?;
    until(herd::limit(&plan), "the herd has met", || {
        Ok(herd.stdout()?.contains("ready").then_some(()))
    })?;
    let (before, resident) = (losses(cluster)?, residents(cluster)?);
    let storm = storm::start(cluster, ADVERSARY, kind, to, &lives, length, rate)?;
    sleep(NEWCOMER_AFTER);
    cluster.start_without_history(NEWCOMER, &["--multicast", MULTICAST])?;
    let begun = Instant::now();
    let all = [&HOSTS[..], &[NEWCOMER]].concat();
    let joined = match cluster.await_members_within(JOIN_LIMIT, &all) {
        Ok(()) => begun.elapsed(),
        Err(error) => {
            println!("{error}");
            JOIN_LIMIT
        }
    };
    let load = load_average();
    let rate = storm::rate(&cluster.finish(storm, length * 3 + JOIN_LIMIT)?)?;
    let tally = Tally::parse(&cluster.finish(herd, herd::limit(&plan))?)?;
    let losses = losses(cluster)? - before;
    let residents = residents(cluster)?.into_iter().zip(resident);
    let grown = residents.map(|(after, before)| after.saturating_sub(before));
    let grown = grown.max().unwrap_or_default();
    end(cluster.daemon(NEWCOMER)?)?;
    cluster.await_members(&HOSTS)?;
    Ok(Phase {
        tally,
        rate,
        joined,
        losses,
        grown,
        load,
    })
}

fn end(daemon: &mut Process) -> Outcome {
    daemon.terminate()?;
    match daemon.wait(JOIN_LIMIT)? {
        Some(_) => Ok(()),
        None => Err(format!("{} does not end", daemon.label()).into()),
    }
}

fn multicast() -> SocketAddrV4 {
    MULTICAST.parse().expect("it is an address and a port")
}

/// The incarnation of a host's daemon.
fn life(cluster: &Cluster, host: usize) -> Outcome<Incarnation> {
    let status = cluster.status(host)?.unwrap_or_default();
    let member = status["member"].as_str().unwrap_or_default();
    let (_, incarnation) = member
        .split_once('.')
        .ok_or("a member is NODE.INCARNATION")?;
    Ok(Incarnation(u64::from_str_radix(incarnation, 16)?))
}

fn losses(cluster: &Cluster) -> Outcome<u64> {
    let counter = |host: &usize| cluster.counter(*host, &["counters", RING, "token_losses"]);
    HOSTS.iter().map(counter).sum()
}

fn residents(cluster: &mut Cluster) -> Outcome<Vec<u64>> {
    let mut all = Vec::new();
    for host in HOSTS {
        all.push(cluster.daemon(host)?.usage()?.resident);
    }
    Ok(all)
}
