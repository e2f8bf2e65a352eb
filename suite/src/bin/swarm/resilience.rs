//! `swarm --resilience`: directed seeds, each with crashes at the moment of delivery.

use std::sync::atomic::{AtomicU64, Ordering};

use groupcast_core::Family;
use groupcast_sim::swarm::{Crashes, ResilienceReport, crash_at_delivery};
use serde_json::json;

use super::{Options, again};

/// Runs every seed twice: as many crashes as the service outlives, and one more. Whether the first
/// lost nothing, and the second always showed a loss.
pub(crate) fn run(options: &Options, family: &'static Family) -> bool {
    let next = AtomicU64::new(options.seeds.start);
    let [failed, shown] = [AtomicU64::new(0), AtomicU64::new(0)];
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= options.seeds.end {
                return;
            }
            let outlived = crash_at_delivery(family, seed, Crashes::Outlived);
            let more = crash_at_delivery(family, seed, Crashes::OneMore);
            for report in [&outlived, &more] {
                if !report.violations.is_empty() {
                    failed.fetch_add(1, Ordering::Relaxed);
                    print(options, report);
                }
            }
            shown.fetch_add(u64::from(more.loss_shown), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    let seeds = options.seeds.end - options.seeds.start;
    let (failed, shown) = (failed.into_inner(), shown.into_inner());
    if options.json {
        println!(
            "{}",
            json!({"event": "resilience", "seeds": seeds, "failed": failed, "losses_shown": shown})
        );
    } else {
        println!(
            "{seeds} seeds: {failed} runs failed; one crash more than outlived showed a loss in {shown}"
        );
    }
    failed == 0 && shown == seeds
}

fn print(options: &Options, report: &ResilienceReport) {
    let ResilienceReport {
        seed,
        service,
        members,
        crashed,
        violations,
        ..
    } = report;
    let protocol = again(options.subject);
    let again = format!("swarm --resilience --seeds {seed}..{} {protocol}", seed + 1);
    if options.json {
        let service = service.to_string();
        println!(
            "{}",
            json!({"event": "violation", "seed": seed, "service": service, "members": members,
                "crashed": crashed, "violations": violations, "replay": again})
        );
        return;
    }
    eprintln!("seed {seed} fails ({service}, {members} members, {crashed} crashed):");
    for violation in violations.iter().take(super::PRINTED_MAX) {
        eprintln!("  {violation}");
    }
    eprintln!("  again: {again}");
}
