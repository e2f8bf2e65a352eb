//! The long live runs: what takes minutes, beside the live tests that take seconds.
//!
//! `cargo xtask soak [WHAT] [options]`, as root; `--help` names both. Prints a table, and last one
//! line of JSON; exit 1 if anything is not as promised.

mod files;
mod hostile;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use groupcast_bench::{Link, Testbed};
use groupcast_suite::live::bus::{self, Crowd, people};
use groupcast_suite::live::chaos::{self, Chaos};
use groupcast_suite::live::cluster::{RING, RMP};
use groupcast_suite::live::exclusion::Flood;
use groupcast_suite::live::failover::{self, Fault, median_and_max};
use groupcast_suite::live::files::shares;
use groupcast_suite::live::forged::{self, Attack};
use groupcast_suite::live::rings::{self, Making};
use groupcast_suite::live::{Outcome, exclusion, farewell, large, transfer};
use serde_json::{Value, json};

/// Half of the fail-overs must be below this.
const FAILOVER_MEDIAN: Duration = Duration::from_millis(400);
/// All of them must be below this.
const FAILOVER_WORST: Duration = Duration::from_secs(1);
/// How long faults come and go in a round of chaos.
const CHAOS_ROUND: Duration = Duration::from_secs(20);
/// The same in a round of rings: long enough that names go out of use and come back.
const RINGS_ROUND: Duration = Duration::from_secs(24);
/// Rings of a daemon, and names of a client on them, whose memory is measured: as many as a client
/// may be in.
const RINGS_AND_NAMES: (u64, u64) = (20, 1_000);
/// Domains that clients of the bus use.
const BUS_DOMAINS: usize = 200;
/// What people notice: at no user may more than one action of a hundred take longer.
const PEOPLE_P99: Duration = Duration::from_millis(100);
/// The longest time for which a daemon may be busy with one thing, with the longest messages.
const BUSY_MAX: Duration = Duration::from_millis(50);

/// Long live runs of groupcast in network namespaces.
#[derive(Parser)]
#[command(name = "soak")]
struct Options {
    /// What to run
    #[arg(value_enum, default_value = "all")]
    what: What,
    /// Fail-overs of each kind; changes of the key
    #[arg(long, default_value_t = 20)]
    times: usize,
    /// What orders the daemons' messages, in failover, exclusion and rings: ring or rmp
    #[arg(long, value_parser = [RING, RMP], default_value = RING)]
    protocol: String,
    /// How long all members flood, chaos lasts, rings are made, clients of the bus come and go, or
    /// a holder of the key does his worst with each protocol, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How many hosts there are in chaos, with rings and with clients of the bus
    #[arg(long, default_value_t = 5)]
    hosts: usize,
    /// How many compilers run beside the members that flood
    #[arg(long, default_value_t = 0)]
    compilers: usize,
    /// The daemons have real-time priority, in exclusion, large and hostile
    #[arg(long)]
    real_time: bool,
    /// Clients that say good-bye, and as many that are thrown out; clients of which a tenth is
    /// hostile
    #[arg(long, default_value_t = 1_000)]
    clients: usize,
    /// Clients of the bus
    #[arg(long, default_value_t = 500)]
    bus_clients: usize,
    /// Altered datagrams to send
    #[arg(long, default_value_t = 1_000_000)]
    datagrams: u64,
    /// Altered datagrams a second
    #[arg(long, default_value_t = 15_000)]
    rate: u64,
    /// Transfers of files to interrupt; races with a local user
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// What is sent, and what happens to it or to the hosts: the first round's seed; each further
    /// round's is one more
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Small files to send
    #[arg(long, default_value_t = 100_000)]
    files: usize,
    /// How long the shares of a link are counted, hostile clients do their worst, or a flood lasts,
    /// in seconds
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// What a flood is made of: all, forged, former, hellos, unknown or own; which way clients are
    /// hostile, or which shared links: all, or how the names of some begin
    #[arg(long, default_value = "all")]
    kind: String,
    /// Datagrams a second of a flood
    #[arg(long, default_value_t = 100_000.0)]
    flood_rate: f64,
    /// Races are run against this binary instead, which is to lose some
    #[arg(long)]
    against: Option<PathBuf>,
    /// With which `--rate` the transfers are sent that share a link: auto, background, max, or
    /// megabits a second
    #[arg(long, default_value = "auto")]
    transfer_rate: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Five members under load, one dies or falls silent
    Failover,
    /// All members flood: no member is excluded
    Exclusion,
    /// Altered datagrams change counters only
    Forged,
    /// Clients of the bus at five daemons, against a naive model of what they accept
    Bus,
    /// Eight users of the bus at five daemons, while 50 MB go through another domain
    People,
    /// A text through 3 and 5 hosts at 0, 1, 5 and 20 % loss
    Transfer,
    /// Transfers of files with processes killed and networks cut: resumed, all is complete
    Files,
    /// Files that are sent together with processes killed: in place nowhere, or whole everywhere
    Together,
    /// Many small files beside one of the same size
    SmallFiles,
    /// Two transfers and a TCP flow on one link
    Shares,
    /// Everything that happens to hosts, at random, with histories judged and memory watched
    Chaos,
    /// Joins that make rings, while daemons are killed and cut off: none is left behind
    Rings,
    /// Clients that close and that are thrown out under load learn why
    Farewell,
    /// Messages of 64 MiB: no daemon is busy with one for long
    Large,
    /// A thousand clients, a tenth of them hostile in ten ways at once
    Hostile,
    /// Datagrams that no daemon should believe, 100,000 a second
    Flood,
    /// A holder of the key who mutates everything, with each protocol
    Insider,
    /// A local user against a receiver of files that runs as root
    Races,
    /// The key is changed again and again under full load
    Rekey,
    /// All of it
    All,
}

/// A run: it prints what it finds as it goes, and returns its figures as JSON.
type Run = fn(&Options) -> Outcome<Value>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(played) = play(&words) {
        return match played {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let options = Options::parse();
    if let Err(reason) = Testbed::available() {
        eprintln!("cannot soak: {reason}");
        return ExitCode::FAILURE;
    }
    let runs: [(What, &str, Run); 19] = [
        (What::Transfer, "transfer", run_transfer),
        (What::Files, "files", files::run_files),
        (What::Together, "together", files::run_together),
        (What::SmallFiles, "small_files", files::run_small_files),
        (What::Shares, "shares", files::run_shares),
        (What::Failover, "failover", run_failover),
        (What::Forged, "forged", run_forged),
        (What::Exclusion, "exclusion", run_exclusion),
        (What::Bus, "bus", run_bus),
        (What::People, "people", run_people),
        (What::Farewell, "farewell", run_farewell),
        (What::Large, "large", run_large),
        (What::Hostile, "hostile", hostile::run_hostile),
        (What::Flood, "flood", hostile::run_flood),
        (What::Insider, "insider", hostile::run_insider),
        (What::Races, "races", hostile::run_races),
        (What::Rekey, "rekey", hostile::run_rekey),
        (What::Chaos, "chaos", run_chaos),
        (What::Rings, "rings", run_rings),
    ];
    let mut results = serde_json::Map::new();
    let mut clean = true;
    for (what, name, run) in runs {
        if options.what != What::All && options.what != what {
            continue;
        }
        println!("== {name}");
        let result = run(&options).unwrap_or_else(|error| {
            clean = false;
            println!("FAILED: {error}");
            json!({"failed": error.to_string()})
        });
        results.insert(name.to_owned(), result);
    }
    results.insert("clean".to_owned(), clean.into());
    println!("{}", Value::Object(results));
    if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What the program does if a run of it has started it to play a part; `None` if a user has.
fn play(words: &[&str]) -> Option<Outcome> {
    let (role, words) = words.split_first()?;
    if *role == shares::TCP {
        return Some(shares::tcp_end(words));
    }
    hostile::role(role).map(|main| main(words))
}

fn run_transfer(_: &Options) -> Outcome<Value> {
    let mut rows = Vec::new();
    println!("{:>5} {:>7} {:>10}", "hosts", "loss %", "seconds");
    for hosts in [3, 5] {
        for permille in [0, 10, 50, 200] {
            let took = transfer::run(hosts, permille)?.as_secs_f64();
            let loss = f64::from(permille) / 10.0;
            println!("{hosts:>5} {loss:>7} {took:>10.2}");
            rows.push(json!({"hosts": hosts, "loss_percent": loss, "seconds": took}));
        }
    }
    Ok(rows.into())
}

fn run_failover(options: &Options) -> Outcome<Value> {
    let mut rows = Vec::new();
    let mut late = Vec::new();
    println!(
        "{:<12} {:>5} {:>11} {:>10}",
        "fault", "times", "median ms", "worst ms"
    );
    for fault in [Fault::Kill, Fault::Silence] {
        let durations = failover::measure(5, &options.protocol, fault, options.times)?;
        let (median, worst) = median_and_max(&durations);
        let millis: Vec<u128> = durations.iter().map(Duration::as_millis).collect();
        println!(
            "{fault:<12} {:>5} {:>11} {:>10}",
            durations.len(),
            median.as_millis(),
            worst.as_millis()
        );
        rows.push(json!({
            "fault": fault.to_string(),
            "median_ms": median.as_millis() as u64,
            "worst_ms": worst.as_millis() as u64,
            "all_ms": millis.iter().map(|millis| *millis as u64).collect::<Vec<_>>(),
        }));
        if median > FAILOVER_MEDIAN || worst > FAILOVER_WORST {
            late.push(format!("{fault}: {millis:?} ms"));
        }
    }
    if late.is_empty() {
        Ok(rows.into())
    } else {
        Err(format!(
            "more than {FAILOVER_MEDIAN:?} in the median or {FAILOVER_WORST:?} at worst: {}",
            late.join("; ")
        )
        .into())
    }
}

fn run_forged(options: &Options) -> Outcome<Value> {
    let adversary = std::env::current_exe()?.with_file_name("adversary");
    let report = forged::attack(Attack {
        program: adversary.display().to_string(),
        datagrams: options.datagrams,
        rate: options.rate,
    })?;
    println!("{report}");
    let rejected: serde_json::Map<String, Value> = report
        .rejected
        .iter()
        .map(|(counter, count)| ((*counter).to_owned(), (*count).into()))
        .collect();
    Ok(json!({"sent": report.sent, "rejected": rejected}))
}

fn run_exclusion(options: &Options) -> Outcome<Value> {
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    let report = exclusion::flood(Flood {
        hosts: options.hosts,
        protocol: &options.protocol,
        length,
        compilers: options.compilers,
        real_time: options.real_time,
    })?;
    println!("{report}");
    Ok(json!({
        "minutes": options.minutes,
        "packets": report.packets,
        "scheduling_gaps": report.gaps,
        "configurations": report.configurations,
        "exclusions": report.exclusions,
        "unexplained": report.unexplained,
    }))
}

fn run_bus(options: &Options) -> Outcome<Value> {
    let crowd = Crowd {
        hosts: options.hosts,
        clients: options.bus_clients,
        domains: BUS_DOMAINS,
        length: Duration::from_secs_f64(options.minutes * 60.0),
        seed: options.seed,
    };
    let report = bus::run(crowd, |line| println!("{line}"))?;
    Ok(json!({
        "seed": options.seed,
        "clients": report.clients,
        "rounds": report.rounds,
        "parted": report.parted,
        "messages": report.messages,
        "deliveries": report.deliveries,
        "pings": report.pings,
        "replaced": report.replaced,
        "idle_bytes": report.idle_each(),
        "busy_bytes": report.busy_each(),
    }))
}

fn run_people(_: &Options) -> Outcome<Value> {
    let mut rows = Vec::new();
    let mut slow = Vec::new();
    for (name, link, queue_max) in [
        ("none", Link::Unlimited, None),
        ("100mbit, queue_max 256 KiB", Link::Mbit100, Some(256 << 10)),
        // What waits at the sender's daemon is 84 ms of such a link: told, and not judged.
        ("100mbit", Link::Mbit100, None),
    ] {
        let report = people::run(link, queue_max)?;
        print!("link {name}: {report}");
        let p99_ms = report.worst_p99().as_secs_f64() * 1e3;
        let is_judged = link == Link::Unlimited || queue_max.is_some();
        if is_judged && report.worst_p99() > PEOPLE_P99 {
            slow.push(format!("link {name}: p99 {p99_ms:.1} ms at a user"));
        }
        rows.push(json!({"link": name, "p99_ms": p99_ms, "took_s": report.took.as_secs_f64()}));
    }
    match slow.is_empty() {
        true => Ok(rows.into()),
        false => Err(slow.join("; ").into()),
    }
}

fn run_farewell(options: &Options) -> Outcome<Value> {
    let report = farewell::run(options.clients)?;
    let (closed, expelled) = (report.closed, report.expelled);
    let seconds = [closed.1, expelled.1].map(|took| took.as_secs_f64());
    println!(
        "{} good-byes in {:.1} s, {} expulsions in {:.1} s, each with the right last word",
        closed.0, seconds[0], expelled.0, seconds[1]
    );
    Ok(
        json!({"closed": closed.0, "closed_s": seconds[0], "expelled": expelled.0, "expelled_s": seconds[1]}),
    )
}

fn run_large(options: &Options) -> Outcome<Value> {
    let report = large::run(3, 4, options.real_time)?;
    print!("{report}");
    let worst = report.worst();
    match worst <= BUSY_MAX {
        true => Ok(json!({"worst_ms": worst.as_secs_f64() * 1e3})),
        false => Err(format!("a daemon was busy for {worst:?}").into()),
    }
}

fn run_chaos(options: &Options) -> Outcome<Value> {
    let chaos = Chaos {
        hosts: options.hosts,
        length: Duration::from_secs_f64(options.minutes * 60.0),
        round: CHAOS_ROUND,
        seed: options.seed,
    };
    let report = chaos::run(chaos, |line| println!("{line}"))?;
    println!("{report}");
    let millis: Vec<u64> = report
        .together
        .iter()
        .map(|took| took.as_millis() as u64)
        .collect();
    Ok(json!({
        "rounds": report.rounds,
        "seed": options.seed,
        "faults": report.faults,
        "messages": report.messages,
        "together_ms": millis,
        "memory_first": report.memory.0,
        "memory_last": report.memory.1,
    }))
}

fn run_rings(options: &Options) -> Outcome<Value> {
    let (rings, names) = RINGS_AND_NAMES;
    let cost = rings::cost(rings, names)?;
    println!("{cost}");
    let making = Making {
        hosts: options.hosts,
        protocol: &options.protocol,
        length: Duration::from_secs_f64(options.minutes * 60.0),
        round: RINGS_ROUND,
        seed: options.seed,
    };
    let report = rings::run(making, |line| println!("{line}"))?;
    println!("{report}");
    let millis = report.rest.iter().map(|took| took.as_millis() as u64);
    Ok(json!({
        "rounds": report.rounds,
        "seed": options.seed,
        "faults": report.faults,
        "acts": report.acts,
        "stays": report.stays,
        "messages": report.messages,
        "requests_complete": report.asked.complete(),
        "requests_otherwise": report.asked.otherwise,
        "rest_ms": millis.collect::<Vec<_>>(),
        "memory_first": report.memory.0,
        "memory_last": report.memory.1,
        "files_first": report.files.0,
        "files_last": report.files.1,
        "ring_bytes": cost.of_ring(),
        "name_bytes": cost.of_name(),
    }))
}
