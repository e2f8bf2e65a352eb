//! A thousand clients, a tenth of them hostile in ten ways at once, and what the others notice of
//! it.
//!
//! The clients that behave are the *herd*, the hostile ones the *mob*. The same herd runs three
//! times at fresh daemons: alone, beside the mob, and beside processes that burn as much processor
//! time as the mob did and touch no daemon. The second phase is compared to the third, not to the
//! first: on a machine with few processors a busy process slows all others down, whatever the
//! daemons do.
//!
//! The modules: `herd`, `mob`, its connections in `wire`, and the busy processes in `burn`.

mod burn;
pub mod herd;
mod mob;
mod wire;

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use serde_json::{Value, json};

use self::herd::{Plan, Tally};
use super::bars::{Bar, Bars, load_average};
use super::cluster::{Cluster, MULTICAST, REAL_TIME, RING};
use super::{Outcome, Role, until};

/// Daemons, each with its share of the clients.
const HOSTS: [usize; 3] = [1, 2, 3];
/// Members of a group of clients that behave.
const GROUP: usize = 9;
/// Messages a second of each of them, and their bytes.
const PACE: (f64, usize) = (1.0, 200);
/// Of the clients, one of this many is hostile.
const HOSTILE: usize = 10;
/// How long the mob is there before anything is counted.
const SETTLE: Duration = Duration::from_secs(2);
/// The daemons' budgets for what clients send and for what waits for them, in MiB.
const BUDGETS: [u64; 2] = [128, 128];
/// What else the mob may make a daemon hold, in MiB: connections, names of groups, memberships.
const OTHER_MEMORY: u64 = 64;
/// With the mob, a message may take this many times as long as with those that burn.
const RATIO_MAX: f64 = 2.0;

/// Roles that the soak program plays in processes of their own, by their hidden words.
pub const ROLES: [Role; 3] = [
    (herd::HERD, herd::main),
    (mob::MOB, mob::main),
    (burn::BURN, burn::main),
];

/// What runs beside the herd.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    Mob,
    /// This much of a processor in each of as many processes as the mob has.
    Burning(f64),
}

/// What a phase showed.
struct Phase {
    tally: Tally,
    /// Processors that ran what was beside the herd, in the mean.
    burned: f64,
    /// The memory of the daemon that took most: with the herd alone, and at the peak.
    memory: (u64, u64),
    /// Tokens that were lost, and changes of configuration.
    losses: [u64; 2],
    /// The longest turn of a daemon since it started.
    busy: Duration,
    load: String,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; {:.2} processors beside it; {} tokens lost, {} reconfigurations; longest turn {:.0} ms; memory \
             {:.1} to {:.1} MB; load average {}",
            self.tally,
            self.burned,
            self.losses[0],
            self.losses[1],
            self.busy.as_secs_f64() * 1e3,
            self.memory.0 as f64 * 1e-6,
            self.memory.1 as f64 * 1e-6,
            self.load
        )
    }
}

impl Phase {
    fn json(&self) -> Value {
        let mut said = self.tally.json();
        said["processors_beside"] = self.burned.into();
        said["tokens_lost"] = self.losses[0].into();
        said["reconfigurations"] = self.losses[1].into();
        said["longest_turn_ms"] = (self.busy.as_secs_f64() * 1e3).into();
        said["memory"] = json!([self.memory.0, self.memory.1]);
        said["load_average"] = self.load.clone().into();
        said
    }
}

/// Runs `clients` clients, a tenth of them hostile, for `length` in each phase: in all ways, or
/// those whose names begin with `only`. With `real_time` the daemons run before all else in every
/// phase, so that a token is lost for what they do and not for want of a processor. Prints what it
/// finds; an error if a bar is not held.
pub fn run(clients: usize, length: Duration, only: &str, real_time: bool) -> Outcome<Value> {
    let ways: Vec<&str> = mob::ways().filter(|way| way.starts_with(only)).collect();
    if ways.is_empty() {
        return Err(format!("no way of being hostile begins with `{only}`").into());
    }
    let hostile = clients / HOSTILE;
    let plan = Plan {
        clients: (clients - hostile) / GROUP * GROUP,
        group: GROUP,
        rate: PACE.0,
        size: PACE.1,
        length,
    };
    let limits = limits(real_time);
    let each = (hostile / ways.len()).max(1);
    let alone = phase(&plan, &ways, each, &limits, Beside::Nothing)?;
    println!("alone:   {alone}");
    let mobbed = phase(&plan, &ways, each, &limits, Beside::Mob)?;
    println!("mob:     {mobbed}");
    let share = mobbed.burned / ways.len() as f64;
    let burning = phase(&plan, &ways, each, &limits, Beside::Burning(share))?;
    println!("burning: {burning}");

    let bars = judge(&mobbed, &burning);
    bars.verdict()?;
    Ok(json!({
        "clients": plan.clients,
        "hostile": each * ways.len(),
        "real_time": real_time,
        "alone": alone.json(),
        "mob": mobbed.json(),
        "burning": burning.json(),
        "bars": bars.json(),
    }))
}

/// What the phase with the mob is held to.
fn judge(mobbed: &Phase, burning: &Phase) -> Bars {
    let mut bars = Bars::default();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let most = millis(burning.tally.p99) * RATIO_MAX;
    bars.hold(Bar::at_most(
        "p99 of the others",
        millis(mobbed.tally.p99),
        most,
        "ms",
    ));
    let lost = mobbed.tally.expected.abs_diff(mobbed.tally.delivered) as f64;
    bars.hold(Bar::at_most(
        "deliveries that are missing",
        lost,
        0,
        "messages",
    ));
    let away = mobbed.tally.disconnected as f64;
    bars.hold(Bar::at_most(
        "clients that were cut off",
        away,
        0,
        "clients",
    ));
    bars.hold(Bar::at_most(
        "tokens that were lost",
        mobbed.losses[0] as f64,
        0,
        "tokens",
    ));
    let budget = (BUDGETS[0] + BUDGETS[1] + OTHER_MEMORY) as f64 * 1.048_576;
    let grown = (mobbed.memory.1 - mobbed.memory.0) as f64 * 1e-6;
    bars.hold(Bar::at_most(
        "memory of a daemon, beside the herd's",
        grown,
        budget,
        "MB",
    ));
    bars
}

/// The daemons' configuration.
fn limits(real_time: bool) -> String {
    let [input, output] = BUDGETS;
    let process = if real_time { REAL_TIME } else { "" };
    format!("{process}[clients]\ninput_max = \"{input} MiB\"\noutput_max = \"{output} MiB\"\n")
}

fn phase(plan: &Plan, ways: &[&str], each: usize, limits: &str, beside: Beside) -> Outcome<Phase> {
    let mut cluster = Cluster::new(HOSTS.len(), Link::Unlimited)?;
    cluster.write_text("hostile.toml", limits)?;
    for host in HOSTS {
        let options = ["--multicast", MULTICAST, "--config", "hostile.toml"];
        cluster.start_without_history(host, &options)?;
    }
    cluster.await_members(&HOSTS)?;
    let herd_plan = Plan {
        length: plan.length + SETTLE,
        ..*plan
    };
    let herd = herd::start(&cluster, "herd", &herd_plan, &HOSTS)?;
    until(herd::limit(plan), "the herd has met", || {
        Ok(herd.stdout()?.contains("ready").then_some(()))
    })?;
    let memory = most_of(&mut cluster, |daemon| Ok(daemon.usage()?.resident))?;
    let before = losses(&cluster)?;
    let beside = begin(&cluster, plan, ways, each, beside)?;
    sleep(SETTLE);
    let (begun, used) = (Instant::now(), processor_time(&beside)?);
    sleep(plan.length);
    let burned = (processor_time(&beside)? - used).as_secs_f64() / begun.elapsed().as_secs_f64();
    let load = load_average();
    drop(beside);
    let after = losses(&cluster)?;
    let tally = Tally::parse(&cluster.finish(herd, herd::limit(plan))?)?;
    let peak = most_of(&mut cluster, |daemon| Ok(daemon.resident_peak()?))?;
    let busy = longest_turn(&cluster)?;
    cluster.pass();
    Ok(Phase {
        tally,
        burned,
        memory: (memory, peak),
        losses: [after[0] - before[0], after[1] - before[1]],
        busy,
        load,
    })
}

/// Starts what runs beside the herd.
fn begin(
    cluster: &Cluster,
    plan: &Plan,
    ways: &[&str],
    each: usize,
    beside: Beside,
) -> Outcome<Vec<Process>> {
    // Until it is stopped.
    let length = plan.length * 2 + SETTLE * 10;
    let start = |way: &str| match beside {
        Beside::Nothing => Ok(None),
        Beside::Mob => mob::start(cluster, way, each, length, &HOSTS).map(Some),
        Beside::Burning(share) => {
            let label = format!("burn-{way}");
            burn::start(&cluster.bed, &label, each, share, length).map(Some)
        }
    };
    let started: Outcome<Vec<Option<Process>>> = ways.iter().copied().map(start).collect();
    Ok(started?.into_iter().flatten().collect())
}

/// What processes and their children have used of the processors.
fn processor_time(processes: &[Process]) -> Outcome<Duration> {
    let used = processes.iter().map(|process| {
        let usage = process.usage()?;
        Ok(usage.cpu + usage.children)
    });
    used.sum()
}

/// The most of a figure over all daemons.
fn most_of(cluster: &mut Cluster, figure: impl Fn(&mut Process) -> Outcome<u64>) -> Outcome<u64> {
    let mut most = 0;
    for host in HOSTS {
        most = most.max(figure(cluster.daemon(host)?)?);
    }
    Ok(most)
}

/// Tokens that the daemons took for lost, and configurations that they left, together.
fn losses(cluster: &Cluster) -> Outcome<[u64; 2]> {
    let mut sum = [0; 2];
    for host in HOSTS {
        for (sum, name) in sum.iter_mut().zip(["token_losses", "transitions"]) {
            *sum += cluster.counter(host, &["counters", RING, name])?;
        }
    }
    Ok(sum)
}

fn longest_turn(cluster: &Cluster) -> Outcome<Duration> {
    let mut longest = 0.0_f64;
    for host in HOSTS {
        let status = cluster.status(host)?.unwrap_or_default();
        let gap = status["counters"]["net"]["gap_longest"].as_f64();
        longest = longest.max(gap.ok_or("`status --json` has no gap_longest")?);
    }
    Ok(Duration::from_secs_f64(longest))
}
