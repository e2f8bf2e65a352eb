//! The swarm: thousands of seeds, each a random group with random faults, judged by the checker. It
//! runs the ring, unless another family of the registry is named.
//!
//! A seed that fails prints the line that runs it again. `--plant` breaks a rule of the protocol on
//! purpose, to show that the swarm finds it.

#[path = "swarm/names.rs"]
mod named;
#[path = "swarm/presets.rs"]
mod presets;
#[path = "swarm/resilience.rs"]
mod resilience;

use std::io::Write as _;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use groupcast_core::{Family, Instrumented, Service};
use groupcast_protocols::registry::FAMILIES;
use groupcast_protocols::rmp;
use groupcast_sim::swarm::{RangeReport, SeedReport, Swarm, SwarmConfig, replay};
use groupcast_sim::{Trace, TraceLevel};
use groupcast_suite::{AskTally, groups};
use serde_json::json;

const HELP: &str = "\
The swarm: seeded groups with random faults in the simulator, judged by the checker

Usage: swarm --seeds A..B [OPTIONS]
       swarm --presets [--minutes N] [--jobs N] [--json]

  --seeds A..B         the seeds to run, A to B-1
  --protocol NAME      a family of the registry (default: ring), or rmp-heard: RMP with order heard,
                       or groups: daemons with clients on a ring, or groups-rmp: those with RMP; each
                       seed has settings of its own
  --list-protocols     name them
  --jobs N             threads (default: one a core)
  --plant NAME         break a rule of the protocol on purpose
  --list-plants        name the rules that can be broken, and of which protocol each is
  --expect-violation   stop at the first violation, which must come
  --resilience         instead: K crashes at the moment of delivery lose nothing, K + 1 show a loss
  --presets            instead: the table of presets of the ring, in calm; the ring must stay
  --minutes N          of virtual time for each cell of that table (default: 10)
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

/// Which swarm runs.
#[derive(Clone, Copy)]
enum Subject {
    /// One over a protocol.
    Family(&'static Family),
    /// One over daemons with clients.
    Groups(groups::Order),
    /// That over daemons whose clients make rings.
    Names,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Family(family) => family.name,
            Self::Groups(order) => order.name,
            Self::Names => "names",
        }
    }

    /// Whether it carries services that outlive crashes, which directed seeds try.
    fn is_resilient(self) -> bool {
        matches!(self, Self::Family(family) if family.carries(Service::KResilient(1)))
    }

    fn all() -> impl Iterator<Item = Self> {
        FAMILIES
            .iter()
            .map(|family| Self::Family(family))
            .chain([Self::Family(&rmp::HEARD)])
            .chain(groups::ORDERS.map(Self::Groups))
            .chain([Self::Names])
    }
}

struct Options {
    subject: Subject,
    seeds: Range<u64>,
    jobs: usize,
    plant: Option<&'static str>,
    expect_violation: bool,
    resilience: bool,
    presets: bool,
    minutes: f64,
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
        for family in FAMILIES {
            let plants = family.trial.plants.iter();
            plants.for_each(|plant| println!("{plant} {}", family.name));
        }
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--list-protocols") {
        Subject::all().for_each(|subject| println!("{}", subject.name()));
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
        subject: Subject::Family(FAMILIES[0]),
        seeds: 0..0,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        plant: None,
        expect_violation: false,
        resilience: false,
        presets: false,
        minutes: 10.0,
        coverage: false,
        trace: None,
        minimise: false,
        json: false,
    };
    let mut plant = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--protocol" => {
                let name = value()?;
                let names = Subject::all().map(Subject::name).collect::<Vec<_>>();
                let named = Subject::all().find(|subject| subject.name() == name);
                options.subject = named.ok_or(format!("{name} is none of {}", names.join(", ")))?;
            }
            "--seeds" => options.seeds = seeds(value()?)?,
            "--jobs" => {
                let jobs = value()?.parse().ok().filter(|jobs| *jobs > 0);
                options.jobs = jobs.ok_or("--jobs wants a number above 0")?;
            }
            "--plant" => plant = Some(value()?),
            "--expect-violation" => options.expect_violation = true,
            "--resilience" => options.resilience = true,
            "--presets" => options.presets = true,
            "--minutes" => {
                let minutes = value()?
                    .parse()
                    .ok()
                    .filter(|it| (0.01..=1_000.0).contains(it));
                options.minutes = minutes.ok_or("--minutes wants 0.01 to 1000")?;
            }
            "--coverage" => options.coverage = true,
            "--trace" => options.trace = Some(TraceLevel::Events),
            "--trace=datagrams" => options.trace = Some(TraceLevel::Datagrams),
            "--minimise" => options.minimise = true,
            "--json" => options.json = true,
            other => return Err(format!("{other} is not an option")),
        }
    }
    if let Some(name) = plant {
        let plant = match options.subject {
            Subject::Family(family) => family.plant(name),
            Subject::Groups(_) | Subject::Names => None,
        };
        options.plant = Some(plant.ok_or(format!(
            "{} has no planted bug {name}: --list-plants names them",
            options.subject.name()
        ))?);
    }
    if options.resilience && !options.subject.is_resilient() {
        let name = options.subject.name();
        return Err(format!("{name} carries no resilient services"));
    }
    if matches!(options.subject, Subject::Names)
        && (options.trace.is_some() || options.minimise || options.coverage)
    {
        return Err("names has no --trace, --minimise or --coverage".to_owned());
    }
    if options.seeds.is_empty() && !options.presets {
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
    if options.presets {
        return presets::run(options, Duration::from_secs_f64(options.minutes * 60.0));
    }
    match options.subject {
        Subject::Family(family) if options.resilience => resilience::run(options, family),
        Subject::Names => named::run(options),
        Subject::Groups(order) => {
            let tally = Arc::default();
            let swarm = groups::swarm(order, Arc::clone(&tally));
            let done = run_swarm(options, &swarm);
            print_tally(options, &tally.lock().expect("no holder panics"));
            done
        }
        Subject::Family(family) => {
            let config = SwarmConfig {
                options: again(options.subject),
                ..SwarmConfig::of(family)
            };
            run_swarm(options, &Swarm::of(family, options.plant, config))
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

fn print_tally(options: &Options, tally: &groups::Tally) {
    let groups::Tally {
        connections,
        parted,
        expelled,
        lost,
        published,
        seen,
        views,
        asked,
    } = tally;
    if options.json {
        println!(
            "{}",
            json!({"event": "clients", "connections": connections, "parted": parted,
                "expelled": expelled, "lost": lost, "published": published, "seen": seen,
                "views": views, "requests": requests(asked)})
        );
    } else {
        println!(
            "{connections} connections of clients: {parted} said good-bye, {expelled} were expelled, \
             {lost} were lost; {published} messages published, {seen} seen, {views} views"
        );
        print_requests(asked);
    }
}

fn requests(asked: &AskTally) -> serde_json::Value {
    json!({"first": asked.first, "some": asked.some, "all": asked.all, "handled": asked.handled,
        "otherwise": asked.otherwise, "given": asked.given, "roles_held": asked.held})
}

fn print_requests(asked: &AskTally) {
    println!(
        "{} requests got all answers that they wanted: {} the first, {} two, {} those of all, {} that of a handler; \
         {} ended otherwise; members were given {}; {} handlers and locks were held in the end",
        asked.complete(),
        asked.first,
        asked.some,
        asked.all,
        asked.handled,
        asked.otherwise,
        asked.given,
        asked.held
    );
}

/// What the line that runs a seed again says of the protocol.
fn again(subject: Subject) -> String {
    match subject.name() == FAMILIES[0].name {
        true => String::new(),
        false => format!("--protocol {}", subject.name()),
    }
}

fn print_failure(options: &Options, report: &SeedReport) {
    let again = replay(report.seed, &again(options.subject));
    if options.json {
        println!(
            "{}",
            json!({"event": "violation", "seed": report.seed, "members": report.hosts,
                "violations": report.violations, "replay": again})
        );
        return;
    }
    let mut out = std::io::stderr().lock();
    // If this fails, the output has no reader; the exit code still tells.
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
