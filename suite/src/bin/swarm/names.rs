//! `swarm --protocol names`: the swarm of daemons whose clients make rings.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use groupcast_suite::AskTally;
use groupcast_suite::names::swarm::{SeedReport, run_seed};
use serde_json::json;

use super::{Options, PROGRESS, print_requests, requests};

/// What a range of seeds came to.
#[derive(Default)]
struct RangeReport {
    seeds: u64,
    failed: u64,
    stays: usize,
    faults: usize,
    asked: AskTally,
}

impl RangeReport {
    fn add(&mut self, report: &SeedReport) {
        self.seeds += 1;
        self.failed += u64::from(report.violation.is_some());
        self.stays += report.stays;
        self.faults += report.faults;
        self.asked.merge(&report.asked);
    }
}

/// Runs every seed. Whether it went as it should.
pub(crate) fn run(options: &Options) -> bool {
    let begun = Instant::now();
    let next = AtomicU64::new(options.seeds.start);
    let total = Mutex::new(RangeReport::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= options.seeds.end {
                return;
            }
            let report = run_seed(seed, None);
            print_failure(options, &report);
            let mut total = total.lock().expect("no holder panics");
            total.add(&report);
            if total.seeds.is_multiple_of(PROGRESS) && !options.json {
                let rate = total.seeds as f64 / begun.elapsed().as_secs_f64();
                eprintln!("{} seeds, {rate:.1} a second", total.seeds);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    let total = total.into_inner().expect("no holder panics");
    print_total(options, &total, begun.elapsed().as_secs_f64());
    (total.failed > 0) == options.expect_violation
}

fn print_failure(options: &Options, report: &SeedReport) {
    let Some(violation) = &report.violation else {
        return;
    };
    let seed = report.seed;
    let again = format!(
        "cargo xtask swarm --protocol names --seeds {seed}..{}",
        seed + 1
    );
    if options.json {
        println!(
            "{}",
            json!({"event": "violation", "seed": seed, "violations": [violation], "replay": again})
        );
    } else {
        eprintln!("seed {seed} fails:\n  {violation}\n  again: {again}");
    }
}

fn print_total(options: &Options, total: &RangeReport, seconds: f64) {
    let RangeReport {
        seeds,
        failed,
        stays,
        faults,
        asked,
    } = total;
    let rate = *seeds as f64 / seconds;
    if options.json {
        println!(
            "{}",
            json!({"event": "swarm", "seeds": seeds, "failed": failed, "seconds": seconds,
                "seeds_per_second": rate, "stays": stays, "faults": faults,
                "requests": requests(asked)})
        );
        return;
    }
    println!(
        "{seeds} seeds, {failed} failed, {rate:.1} seeds a second ({seconds:.1} s); {faults} crashes and partings, \
         daemons joined rings {stays} times"
    );
    print_requests(asked);
}
