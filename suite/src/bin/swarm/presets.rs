//! `swarm --presets`: the table of presets, and what slow hosts make of the one for a LAN.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use groupcast_suite::presets::{Cell, Load, Outcome, Pace};
use serde_json::json;

use super::Options;

/// The share of the lone messages whose longest time is printed.
const SHARE: f64 = 0.99;

/// A cell, by its place in the table, and what came of it.
type Results = BTreeMap<usize, (Cell, Outcome)>;

/// Runs every cell for `duration` of virtual time. Whether all were calm that the presets promise.
pub(crate) fn run(options: &Options, duration: Duration) -> bool {
    let table = run_all(options, duration, &Cell::all());
    let slow = run_all(options, duration, &Cell::slow());
    let cells = table.values().chain(slow.values());
    let promised = cells.filter(|(cell, _)| cell.is_promised());
    let (mut cells, mut restless) = (0, 0);
    for (_, outcome) in promised {
        cells += 1;
        restless += usize::from(!outcome.is_calm());
    }
    if !options.json {
        print_table(&table);
        print_slow(&slow);
        println!(
            "\n{cells} cells of {duration:?} each that are promised: {restless} were not calm"
        );
    }
    restless == 0
}

fn run_all(options: &Options, duration: Duration, cells: &[Cell]) -> Results {
    let next = AtomicUsize::new(0);
    let results: Mutex<Results> = Mutex::default();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(index) else {
                return;
            };
            let outcome = cell.run(duration);
            print(options, cell, &outcome);
            let mut results = results.lock().expect("no holder panics");
            results.insert(index, (*cell, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    results.into_inner().expect("no holder panics")
}

/// One line of a cell: always with `--json`, else if it should have been calm and was not.
fn print(options: &Options, cell: &Cell, outcome: &Outcome) {
    let (holder, preset) = (cell.holder.name(), cell.preset_name());
    let (delay, hosts, load) = (cell.delay, cell.hosts, cell.load.name());
    let Outcome {
        changes,
        messages,
        violations,
        ..
    } = outcome;
    if options.json {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let (wake_up, datagram) = match cell.pace {
            Pace::Quick => (None, None),
            Pace::Sleepy(wake_up) => (Some(micros(wake_up)), None),
            Pace::Slow(takes) => (None, Some(micros(takes))),
        };
        println!(
            "{}",
            json!({"event": "cell", "holder": holder, "preset": preset, "delay_us": micros(delay),
                "members": hosts, "load": load, "wake_up_us": wake_up, "datagram_us": datagram,
                "promised": cell.is_promised(), "changes": changes, "messages": messages,
                "lone_p99_us": outcome.quantile(SHARE).map(micros), "violations": violations})
        );
    } else if cell.is_promised() && !outcome.is_calm() {
        eprintln!(
            "{holder}, {preset}, {delay:?} one way, {hosts} hosts, {:?}, {load}: {changes} changes of \
             configuration; {violations:?}",
            cell.pace
        );
    }
}

/// For each preset and delay: what lone messages took, by hosts, and how many changes of
/// configuration there were under all loads.
fn print_table(results: &Results) {
    let mut rows: BTreeMap<_, (BTreeMap<usize, Duration>, u64, usize)> = BTreeMap::new();
    for (cell, outcome) in results.values() {
        let row = (cell.holder.name(), cell.preset_name(), cell.delay);
        let (lone, messages, changes) = rows.entry(row).or_default();
        *messages += outcome.messages;
        *changes += outcome.changes;
        lone.extend(outcome.quantile(SHARE).map(|it| (cell.hosts, it)));
    }
    println!(
        "| of a | preset | one way | {} | messages | changes |",
        by_hosts(results)
    );
    println!("|---|---|---|{}---|---|", "---|".repeat(columns(results)));
    for ((holder, preset, delay), (lone, messages, changes)) in rows {
        let lone: String = lone
            .values()
            .map(|it| format!(" {} |", span(*it)))
            .collect();
        let delay = span(delay);
        println!("| {holder} | `{preset}` | {delay} |{lone} {messages} | {changes} |");
    }
}

/// For each pace of the hosts: how many changes of configuration there were, by hosts, each load
/// apart.
fn print_slow(results: &Results) {
    println!("\n| | | {} |", by_hosts(results));
    println!("|---|---|{}", "---|".repeat(columns(results)));
    let mut rows: BTreeMap<_, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (cell, outcome) in results.values() {
        let row = match cell.pace {
            Pace::Quick => continue,
            Pace::Sleepy(wake_up) => ("wakings", wake_up),
            Pace::Slow(takes) => ("one host, a datagram", takes),
        };
        let hosts = rows.entry(row).or_default().entry(cell.hosts).or_default();
        hosts.push(outcome.changes);
    }
    for ((what, takes), hosts) in rows {
        let changes = |loads: &Vec<usize>| {
            let each: Vec<String> = loads.iter().map(ToString::to_string).collect();
            format!(" {} |", each.join(" "))
        };
        let changes: String = hosts.values().map(changes).collect();
        println!("| {what} | {} |{changes}", span(takes));
    }
    let loads: Vec<&str> = Load::ALL.iter().map(|load| load.name()).collect();
    println!("\nchanges of configuration: {}", loads.join(", "));
}

fn columns(results: &Results) -> usize {
    let mut hosts: Vec<usize> = results.values().map(|(cell, _)| cell.hosts).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

fn by_hosts(results: &Results) -> String {
    let hosts = (2..)
        .take(columns(results))
        .map(|hosts| format!("{hosts} hosts"));
    hosts.collect::<Vec<_>>().join(" | ")
}

/// In the unit that suits it, with three digits.
fn span(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        0.0..1_000.0 => format!("{micros:.0} µs"),
        1_000.0..10_000.0 => format!("{:.2} ms", micros / 1e3),
        10_000.0..100_000.0 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.0} ms", micros / 1e3),
    }
}
