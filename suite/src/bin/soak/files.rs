//! The runs of files: transfers that are interrupted, trees that are put in place together, many
//! small files, and transfers that share a link.

use std::time::Duration;

use groupcast_suite::live::Outcome;
use groupcast_suite::live::failover::median_and_max;
use groupcast_suite::live::files::faults::{Plan, Soak};
use groupcast_suite::live::files::shares::{self, Shared};
use groupcast_suite::live::files::small;
use groupcast_suite::live::files::together::Together;
use serde_json::{Value, json};

use super::Options;

/// Small files may take this many times as long as one file of the same size.
const SMALL_FILES_MAX: f64 = 2.0;
/// No flow may get more than this many times its fair share of a link, nor less than the share
/// divided by it.
const UNFAIRNESS_MAX: f64 = 2.0;
/// The congestion controls of the TCP flows on shared links.
const CONTROLS: [&str; 2] = ["cubic", "bbr"];

pub(super) fn run_files(options: &Options) -> Outcome<Value> {
    let mut soak = Soak::new()?;
    let (mut times, mut sends, mut hits, mut kept) = (Vec::new(), 0, 0, 0);
    for seed in options.seed..options.seed + options.rounds {
        let plan = Plan::of(seed);
        let faults: Vec<String> = plan
            .faults
            .iter()
            .map(|(at, fault)| format!("{:.2} s {fault}", at.as_secs_f64()))
            .collect();
        print!(
            "seed {seed}: {:.1} MB at {} Mb/s, {} of 1,000 lost: {}",
            plan.bytes as f64 * 1e-6,
            plan.rate.map_or("auto".into(), |rate| rate.to_string()),
            plan.loss,
            faults.join(", ")
        );
        let round = soak.round(&plan, seed).map_err(|error| {
            println!();
            format!("{error}; again: --seed {seed} --rounds 1")
        })?;
        println!(
            ": {} hit, {} sends, {:.1} s",
            round.hits,
            round.sends,
            round.took.as_secs_f64()
        );
        times.push(round.took);
        sends += round.sends;
        hits += round.hits;
        kept += round.kept;
    }
    soak.end()?;
    let (median, worst) = median_and_max(&times);
    println!(
        "{} rounds, {hits} faults in time, {sends} transfers: all complete and identical; median {:.1} s, worst {:.1} s",
        options.rounds,
        median.as_secs_f64(),
        worst.as_secs_f64()
    );
    Ok(json!({
        "rounds": options.rounds,
        "seed": options.seed,
        "faults": hits,
        "transfers": sends,
        "cleared_later": kept,
        "median_s": median.as_secs_f64(),
        "worst_s": worst.as_secs_f64(),
    }))
}

pub(super) fn run_together(options: &Options) -> Outcome<Value> {
    let mut together = Together::new()?;
    // Rounds in which the tree was in place nowhere, at some hosts, and at all.
    let (mut nowhere, mut some, mut all) = (0, 0, 0);
    for seed in options.seed..options.seed + options.rounds {
        let round = together
            .round(seed)
            .map_err(|error| format!("{error}; again: --seed {seed} --rounds 1"))?;
        println!(
            "seed {seed}: host {} killed after {:.2} s: in place at {}, kept aside whole at {}",
            round.host,
            round.at.as_secs_f64(),
            round.places.in_place,
            round.places.aside
        );
        match (round.places.in_place, round.places.aside) {
            (0, _) => nowhere += 1,
            (_, 0) => all += 1,
            _ => some += 1,
        }
    }
    together.end();
    println!(
        "{} kills: in place nowhere {nowhere}, at some while the others held it {some}, everywhere {all}",
        options.rounds
    );
    Ok(json!({
        "kills": options.rounds,
        "seed": options.seed,
        "nowhere": nowhere,
        "some": some,
        "everywhere": all,
    }))
}

pub(super) fn run_small_files(options: &Options) -> Outcome<Value> {
    let measured = small::compare(options.files, options.seed)?;
    let (small, large) = (measured.small.as_secs_f64(), measured.large.as_secs_f64());
    let ratio = measured.ratio();
    println!(
        "{} files, {:.0} MB: {small:.2} s; one file: {large:.2} s; ratio {ratio:.2}",
        measured.files,
        measured.bytes as f64 * 1e-6
    );
    match ratio <= SMALL_FILES_MAX {
        true => Ok(json!({
            "files": measured.files,
            "bytes": measured.bytes,
            "small_s": small,
            "large_s": large,
            "ratio": ratio,
        })),
        false => Err(format!("{ratio:.2} times as long as one file").into()),
    }
}

pub(super) fn run_shares(options: &Options) -> Outcome<Value> {
    let length = Duration::from_secs_f64(options.seconds);
    let mut rows = Vec::new();
    let mut worst: f64 = 1.0;
    println!(
        "{:<10} {:<5} {:>10} {:>10} {:>6} {:>10}",
        "link", "TCP", "transfer 1", "transfer 2", "TCP", "unfairness"
    );
    for (shared, control) in Shared::ALL
        .into_iter()
        .flat_map(|shared| CONTROLS.map(|control| (shared, control)))
    {
        let name = shared.name();
        if options.kind != "all" && !name.starts_with(&options.kind) {
            continue;
        }
        let shares = shares::measure(shared, &options.transfer_rate, control, length)?;
        let [first, second] = shares.transfers;
        let unfairness = shares.unfairness(shared);
        println!(
            "{name:<10} {control:<5} {first:>10.1} {second:>10.1} {:>6.1} {unfairness:>10.2}",
            shares.tcp
        );
        rows.push(json!({
            "link": name,
            "control": control,
            "transfers_mbps": shares.transfers,
            "tcp_mbps": shares.tcp,
            "unfairness": unfairness,
        }));
        worst = worst.max(unfairness);
    }
    if rows.is_empty() {
        return Err(format!("no shared link is called {}", options.kind).into());
    }
    match worst <= UNFAIRNESS_MAX {
        true => Ok(rows.into()),
        false => Err(format!(
            "a share is {worst:.1} times off what is fair: {}",
            Value::from(rows)
        )
        .into()),
    }
}
