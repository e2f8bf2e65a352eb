//! The swarm: thousands of seeds, each a random group with random faults, judged by the checker. Of the ring, unless
//! another protocol is named.
//!
//! A seed that fails prints the line that runs it again. `--plant` breaks a rule of the ring on purpose, to show that
//! the swarm finds it.

use std::io::Write as _;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use groupcast_check::Contract;
use groupcast_core::{Instrumented, Rng, Service};
use groupcast_protocols::gossip::{Dissemination, Gossip, GossipConfig, HashConfig, Variant};
use groupcast_protocols::ring::{Planted, Ring, RingConfig, TokenPriority};
use groupcast_protocols::srm::{Srm, SrmConfig, Timing};
use groupcast_sim::swarm::{RangeReport, Scenario, SeedReport, Swarm, SwarmConfig, replay};
use groupcast_sim::{Factory, Trace, TraceLevel};
use groupcast_suite::swarm;
use serde_json::json;

const HELP: &str = "\
The swarm: seeded groups with random faults in the simulator, judged by the checker

Usage: swarm --seeds A..B [OPTIONS]

  --protocol NAME      ring (the default), bulk, gossip or srm: of all but the ring each seed has other settings
  --jobs N             threads (default: one a core)
  --plant NAME         break a rule of the ring on purpose
  --list-plants        name the rules that can be broken
  --expect-violation   stop at the first violation, which must come
  --coverage           fail if a transition never met some kind of fault
  --trace              tell what happens in the first seed; --trace=datagrams tells all of it
  --minimise           make the first failing seed smaller, and print what is left of its scenario
  --json               one object a line

Exit codes: 0 done, 1 failed, 2 usage.
";

/// How many violations of a seed are printed.
const PRINTED_MAX: usize = 8;
/// How many runs the search for a smaller scenario may take.
const TRIALS: usize = 300;
/// Every how many seeds a line of progress is printed.
const PROGRESS: u64 = 1_000;

/// Whose swarm it is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Protocol {
    #[default]
    Ring,
    Bulk,
    Gossip,
    Srm,
}

impl Protocol {
    /// What the line that runs a seed again says of it.
    fn option(self) -> &'static str {
        match self {
            Self::Ring => "",
            Self::Bulk => "--protocol bulk",
            Self::Gossip => "--protocol gossip",
            Self::Srm => "--protocol srm",
        }
    }
}

#[derive(Default)]
struct Options {
    protocol: Protocol,
    seeds: Range<u64>,
    jobs: usize,
    plant: Option<Planted>,
    expect_violation: bool,
    coverage: bool,
    trace: Option<TraceLevel>,
    minimise: bool,
    json: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--list-plants") {
        for planted in Planted::ALL {
            println!("{}", planted.name());
        }
        return ExitCode::SUCCESS;
    }
    match parse(&args) {
        Ok(options) if run(&options) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("swarm: {problem}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        ..Options::default()
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--protocol" => {
                options.protocol = match value()?.as_str() {
                    "ring" => Protocol::Ring,
                    "bulk" => Protocol::Bulk,
                    "gossip" => Protocol::Gossip,
                    "srm" => Protocol::Srm,
                    other => return Err(format!("{other} is none of ring, bulk, gossip and srm")),
                };
            }
            "--seeds" => options.seeds = seeds(value()?)?,
            "--jobs" => {
                let jobs = value()?.parse().ok().filter(|jobs| *jobs > 0);
                options.jobs = jobs.ok_or("--jobs wants a number above 0")?;
            }
            "--plant" => {
                let plant = value()?.parse();
                let why = |error| format!("{error}: --list-plants names them");
                options.plant = Some(plant.map_err(why)?);
            }
            "--expect-violation" => options.expect_violation = true,
            "--coverage" => options.coverage = true,
            "--trace" => options.trace = Some(TraceLevel::Events),
            "--trace=datagrams" => options.trace = Some(TraceLevel::Datagrams),
            "--minimise" => options.minimise = true,
            "--json" => options.json = true,
            other => return Err(format!("{other} is not an option")),
        }
    }
    if options.plant.is_some() && options.protocol != Protocol::Ring {
        return Err("--plant breaks rules of the ring: leave --protocol out".to_owned());
    }
    if options.seeds.is_empty() {
        return Err("--seeds A..B is missing, with A below B".to_owned());
    }
    Ok(options)
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..");
    let range = ends.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.ok_or(format!(
        "--seeds wants A..B, for instance 0..1000, not {text}"
    ))
}

/// Whether all went as it should.
fn run(options: &Options) -> bool {
    let plant = options.plant;
    let named = |config| SwarmConfig {
        options: options.protocol.option(),
        ..config
    };
    match options.protocol {
        Protocol::Ring => run_swarm(
            options,
            &Swarm::new(SwarmConfig::default(), move |scenario| {
                ring(scenario, plant)
            }),
        ),
        Protocol::Bulk => run_swarm(options, &swarm::bulk(options.protocol.option())),
        Protocol::Gossip => {
            let config = named(gapped(&[Service::Fifo]));
            run_swarm(options, &Swarm::new(config, gossip))
        }
        Protocol::Srm => {
            let config = named(gapped(&[Service::Reliable, Service::Fifo]));
            run_swarm(options, &Swarm::new(config, srm))
        }
    }
}

fn run_swarm<P: Instrumented + 'static>(options: &Options, swarm: &Swarm<P>) -> bool {
    if let Some(level) = options.trace {
        let scenario = swarm.scenario(options.seeds.start);
        eprint!("{scenario}");
        swarm.run_scenario(&scenario, Some(Trace::to_stderr(level)));
    }
    let begun = Instant::now();
    let (done, of) = (AtomicU64::new(0), options.seeds.end - options.seeds.start);
    let progress = |report: &SeedReport| {
        if !report.violations.is_empty() {
            print_failure(options, report);
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(PROGRESS) && !options.json {
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            eprintln!("{done} of {of} seeds, {rate:.1} a second");
        }
    };
    let seeds = options.seeds.clone();
    let total = swarm.run_range(seeds, options.jobs, options.expect_violation, &progress);
    print_total(options, &total, begun.elapsed().as_secs_f64());
    if options.minimise
        && let Some(failure) = total.failures.first()
    {
        let smallest = swarm.minimise(&swarm.scenario(failure.seed), TRIALS);
        eprintln!("what is left of seed {}:\n{smallest}", failure.seed);
        for submission in &smallest.load {
            eprintln!("{submission:?}");
        }
        if let Some(level) = options.trace {
            swarm.run_scenario(&smallest, Some(Trace::to_stderr(level)));
        }
    }
    let gaps = total.coverage.gaps().next().is_some();
    (total.failed > 0) == options.expect_violation && !(options.coverage && gaps)
}

/// The ring of a scenario: mostly as it comes, sometimes with pinned windows, the first method, small datagrams.
fn ring(scenario: &Scenario, plant: Option<Planted>) -> Factory<Box<dyn Instrumented>> {
    let mut rng = Rng::new(scenario.seed).fork("ring");
    let mut config = RingConfig::lan();
    config.planted = plant;
    if rng.chance(0.25) {
        config.priority = TokenPriority::FirstMethod;
    }
    if rng.chance(0.25) {
        let personal = rng.range(1..50) as u32;
        config.personal_window = Some(personal);
        config.accelerated_window = Some(rng.below(u64::from(personal) + 1) as u32);
    }
    if rng.chance(0.25) {
        config.body_max = rng.range(256..9_000) as usize;
    }
    Arc::new(move |member, rng, now| {
        let ring = Ring::new(config.clone(), member, rng, now);
        Box::new(ring.expect("settings within their ranges"))
    })
}

/// Scenarios of protocols that report what they miss: judged by that, and long enough at rest for the last request.
fn gapped(services: &[Service]) -> SwarmConfig {
    SwarmConfig {
        contract: Contract::Gapped,
        services: Some(services.to_vec()),
        len_max: 8_000,
        progress_within: Duration::from_secs(60),
        rest: Duration::from_secs(60),
        ..SwarmConfig::default()
    }
}

/// The gossip group of a scenario: every variant, with and without hash buffering and trees.
fn gossip(scenario: &Scenario) -> Factory<Box<dyn Instrumented>> {
    let mut rng = Rng::new(scenario.seed).fork("gossip");
    let variants = [Variant::Basic, Variant::Ipmc, Variant::Grb, Variant::Local];
    let hash = HashConfig {
        bufferers: 1 + rng.below(6) as u32,
        short_term: rng.below(5) as u32,
        ask_bufferers: rng.chance(0.5),
        ..HashConfig::default()
    };
    let lan = GossipConfig::lan();
    let config = GossipConfig {
        variant: *rng.pick(&variants).unwrap_or(&lan.variant),
        sub_gsize: 1 + rng.below(2) as u32,
        stable_threshold: rng.range(3..14) as u32,
        dissemination: match rng.chance(0.25) {
            true => Dissemination::Trees {
                trees: 4,
                arity: 2,
                seed: 1,
            },
            false => Dissemination::Multicast,
        },
        hash: rng.chance(0.4).then_some(hash),
        cyclic: rng.chance(0.5),
        window_max: if rng.chance(0.2) { 64 } else { lan.window_max },
        ..lan
    };
    Arc::new(move |member, rng, now| {
        let gossip = Gossip::new(config.clone(), member, rng, now);
        Box::new(gossip.expect("settings within their ranges"))
    })
}

/// The SRM session of a scenario: every way to set timers, with much and with little kept for repairs.
fn srm(scenario: &Scenario) -> Factory<Box<dyn Instrumented>> {
    let mut rng = Rng::new(scenario.seed).fork("srm");
    let timings = [Timing::LogGroup, Timing::SqrtGroup, Timing::Adaptive];
    let lan = SrmConfig::lan();
    let config = SrmConfig {
        timing: *rng.pick(&timings).unwrap_or(&lan.timing),
        body_max: 9_000,
        // All requests are given up within the time in which progress is expected.
        request_interval_max: Duration::from_secs(2),
        catch_up_max: *rng.pick(&[0, 20]).unwrap_or(&lan.catch_up_max),
        store_max: if rng.chance(0.5) {
            20_000
        } else {
            lan.store_max
        },
        ..lan
    };
    Arc::new(move |member, rng, now| {
        let srm = Srm::new(config.clone(), member, rng, now);
        Box::new(srm.expect("settings within their ranges"))
    })
}

fn print_failure(options: &Options, report: &SeedReport) {
    let again = replay(report.seed, options.protocol.option());
    if options.json {
        println!(
            "{}",
            json!({"event": "violation", "seed": report.seed, "members": report.hosts,
                "violations": report.violations, "replay": again})
        );
        return;
    }
    let mut out = std::io::stderr().lock();
    // Nobody listens if this fails; the exit code still tells.
    let _ = writeln!(
        out,
        "seed {} fails ({} hosts, {} faults):",
        report.seed, report.hosts, report.faults
    );
    for violation in report.violations.iter().take(PRINTED_MAX) {
        let _ = writeln!(out, "  {violation}");
    }
    if let more @ 1.. = report.violations.len().saturating_sub(PRINTED_MAX) {
        let _ = writeln!(out, "  and {more} more");
    }
    let _ = writeln!(out, "  again: {again}");
}

fn print_total(options: &Options, total: &RangeReport, seconds: f64) {
    let gaps: Vec<String> = total
        .coverage
        .gaps()
        .map(|(it, kind)| {
            format!(
                "{} -> {} ({}) under {}",
                it.from,
                it.to,
                it.cause,
                kind.name()
            )
        })
        .collect();
    let rate = total.seeds as f64 / seconds;
    let mean = total.recovery_sum.as_secs_f64() / total.seeds.max(1) as f64;
    if options.json {
        println!(
            "{}",
            json!({"event": "swarm", "seeds": total.seeds, "failed": total.failed, "seconds": seconds,
                "seeds_per_second": rate, "virtual_seconds": total.virtual_time.as_secs_f64(),
                "events": total.events, "accepted": total.accepted, "refused": total.refused,
                "faults": total.faults, "recovery_mean_seconds": mean,
                "recovery_max_seconds": total.recovery_max.as_secs_f64(),
                "trace_hash": format!("{:016x}", total.trace_hash), "coverage_gaps": gaps})
        );
        return;
    }
    // A few seeds cannot meet everything.
    if options.coverage || total.seeds >= PROGRESS {
        println!("{}\n", total.coverage);
        match gaps.len() {
            0 => println!("every transition met every kind of fault"),
            some => println!("{some} combinations never met:"),
        }
        gaps.iter().for_each(|gap| println!("  {gap}"));
    }
    println!(
        "{} seeds, {} failed, {rate:.1} seeds a second ({seconds:.1} s); {:.1} h of virtual time, {} events, \
         {} messages ({} refused), {} faults",
        total.seeds,
        total.failed,
        total.virtual_time.as_secs_f64() / 3_600.0,
        total.events,
        total.accepted,
        total.refused,
        total.faults
    );
    println!(
        "progress after healing: {mean:.3} s in the mean, {:.3} s at worst; trace hash {:016x}",
        total.recovery_max.as_secs_f64(),
        total.trace_hash
    );
}
