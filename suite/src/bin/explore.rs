//! The explorer: every schedule of three members and a few messages, judged by the checker.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use groupcast_core::{Family, Service};
use groupcast_sim::explore::{ExploreConfig, ExploreReport};
use groupcast_suite::explore::{Case, FAMILIES, cases, explore_rmp};
use serde_json::json;

const HELP: &str = "\
The explorer: every schedule of three members and a few messages, judged by the checker

Usage: explore [OPTIONS]

  --services A,B       the messages, each of another member: up to three (default: agreed,safe)
  --losses N           copies of datagrams that may be lost (default: 0)
  --crashes N          members that may crash (default: 0)
  --late N             copies that may be on their way still when time passes (default: 0)
  --skew MS            time may pass up to a timer that is due so much after the first (default: 0)
  --rest N             how many times time passes when all is done, before a path ends (default: 4)
  --case N             this case alone, of those that are printed
  --plant NAME         break a rule of the protocol on purpose
  --expect-violation   a broken promise must be found; the first ends it
  --minutes N          stop then (default: never)
  --jobs N             cases at a time (default: one a core)
  --no-reduction       take steps that commute in both orders
  --protocol NAME      a protocol whose members can be compared (default: rmp)
  --json               one object a line

A case is who sends what and who has the token. What is explored, and what is not: docs/explorer.md.
Exit codes: 0 done, 1 failed or not complete, 2 usage.
";

struct Options {
    family: &'static Family,
    services: Vec<Service>,
    losses: u8,
    crashes: u8,
    late: u8,
    skew: Duration,
    rest: u8,
    case: Option<usize>,
    plant: Option<&'static str>,
    expect_violation: bool,
    minutes: Option<f64>,
    jobs: usize,
    reduce: bool,
    json: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match parse(&args) {
        Ok(options) if run(&options) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("explore: {problem}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        family: FAMILIES[0],
        services: vec![Service::Agreed, Service::Safe],
        losses: 0,
        crashes: 0,
        late: 0,
        skew: Duration::ZERO,
        rest: 4,
        case: None,
        plant: None,
        expect_violation: false,
        minutes: None,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        reduce: true,
        json: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let count = |text: &str| {
            text.parse::<u8>()
                .map_err(|_| format!("{arg} wants a number"))
        };
        match arg.as_str() {
            "--services" => options.services = services(value()?)?,
            "--losses" => options.losses = count(value()?)?,
            "--crashes" => options.crashes = count(value()?)?.min(2),
            "--late" => options.late = count(value()?)?,
            "--skew" => options.skew = Duration::from_millis(count(value()?)?.into()),
            "--rest" => options.rest = count(value()?)?,
            "--case" => options.case = Some(count(value()?)?.into()),
            "--jobs" => options.jobs = usize::from(count(value()?)?).max(1),
            "--plant" => {
                let name = value()?;
                let plant = options.family.plant(name);
                options.plant = Some(plant.ok_or(format!("there is no planted bug {name}"))?);
            }
            "--minutes" => {
                let minutes = value()?.parse().ok().filter(|it| *it > 0.0);
                options.minutes = Some(minutes.ok_or("--minutes wants a number above 0")?);
            }
            "--protocol" => {
                let name = value()?;
                let named = FAMILIES.iter().copied().find(|family| family.name == name);
                options.family = named.ok_or(format!("{name} cannot be explored"))?;
            }
            "--expect-violation" => options.expect_violation = true,
            "--no-reduction" => options.reduce = false,
            "--json" => options.json = true,
            other => return Err(format!("{other} is not an option")),
        }
    }
    Ok(options)
}

fn services(text: &str) -> Result<Vec<Service>, String> {
    let services = text.split(',').map(|name| {
        let service = name.parse::<Service>();
        service.map_err(|error| error.to_string())
    });
    let services: Vec<Service> = services.collect::<Result<_, _>>()?;
    match services.len() {
        1..=3 => Ok(services),
        _ => Err("--services wants one to three".to_owned()),
    }
}

/// Whether all went as it should.
fn run(options: &Options) -> bool {
    let cases: Vec<Case> = cases(options.family, &options.services);
    let chosen = |at: &usize| options.case.is_none_or(|case| case == *at);
    let chosen: Vec<usize> = (0..cases.len()).filter(chosen).collect();
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let (found, incomplete) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let total = Mutex::new(ExploreReport::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.min(chosen.len()) {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let stop = options.expect_violation && found.load(Ordering::Relaxed) > 0;
                    if stop {
                        return;
                    }
                    let report = run_case(options, *case, &cases[*case], begun);
                    found.fetch_add(usize::from(report.found.is_some()), Ordering::Relaxed);
                    incomplete.fetch_add(usize::from(!report.complete), Ordering::Relaxed);
                    add(&mut total.lock().expect("no holder panics"), &report);
                }
            });
        }
    });
    let total = total.lock().expect("no holder panics");
    print(options, "all", "", &total, begun.elapsed().as_secs_f64());
    match options.expect_violation {
        true => found.into_inner() > 0,
        false => incomplete.into_inner() == 0,
    }
}

fn run_case(options: &Options, number: usize, case: &Case, begun: Instant) -> ExploreReport {
    let config = ExploreConfig {
        losses: options.losses,
        crashes: options.crashes,
        late: options.late,
        skew: options.skew,
        rest: options.rest,
        reduce: options.reduce,
        ..case.config.clone()
    };
    let limit = options
        .minutes
        .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut goes_on = |_: &ExploreReport| limit.is_none_or(|limit| begun.elapsed() < limit);
    let started = Instant::now();
    let report = explore_rmp(&config, options.plant, &mut goes_on);
    let seconds = started.elapsed().as_secs_f64();
    print(options, &number.to_string(), &case.name, &report, seconds);
    report
}

fn add(total: &mut ExploreReport, report: &ExploreReport) {
    total.states += report.states;
    total.steps += report.steps;
    total.ends += report.ends;
    total.histories += report.histories;
    total.depth = total.depth.max(report.depth);
    total.time = total.time.max(report.time);
    total.found = total.found.take().or(report.found.clone());
}

fn print(options: &Options, case: &str, name: &str, report: &ExploreReport, seconds: f64) {
    let ExploreReport {
        states,
        steps,
        ends,
        histories,
        depth,
        time,
        complete,
        found,
    } = report;
    if options.json {
        let found = found.as_ref();
        let found = found.map(|it| json!({"violations": it.violations, "steps": it.steps}));
        println!(
            "{}",
            json!({"case": case, "name": name, "states": states, "steps": steps, "ends": ends,
                "histories": histories, "depth": depth, "virtual_ms": time.as_millis() as u64,
                "complete": complete, "seconds": seconds, "found": found})
        );
        return;
    }
    let verdict = match (case, complete, found) {
        ("all", ..) => "",
        (_, true, _) => ": complete",
        (_, false, None) => ": stopped before the end",
        (_, false, Some(_)) => ": a promise is broken",
    };
    println!(
        "{case} [{name}] {states} states, {steps} steps, {ends} ends, {histories} histories, at \
         most {depth} steps and {time:?} to an end, {seconds:.1} s{verdict}"
    );
    if let Some(found) = found.as_ref().filter(|_| case != "all") {
        found.violations.iter().for_each(|it| println!("  {it}"));
        println!("after {} steps:", found.steps.len());
        for (number, step) in found.steps.iter().enumerate() {
            println!("  {:>3} {step}", number + 1);
        }
    }
}
