//! Long runs against those who wish the group ill: clients, floods, a holder of the key, a local
//! user; and the change of the key. Each prints a line for each bar that it is held to.

use std::time::Duration;

use groupcast_suite::live::bars::{Bar, Bars};
use groupcast_suite::live::cluster::{RING, RMP};
use groupcast_suite::live::failover::median_and_max;
use groupcast_suite::live::flood::storm::{self, Kind};
use groupcast_suite::live::rekeys::Load;
use groupcast_suite::live::{
    Outcome, Role, embedded, flood, guests, hostile, insider, races, rekeys, requests,
};
use serde_json::{Value, json};

use super::Options;

/// What the hidden word `word` asks the program to do.
pub(super) fn role(word: &str) -> Option<fn(&[&str]) -> Outcome> {
    let others: [Role; 5] = [
        guests::ROLE,
        insider::ROLE,
        races::ROLE,
        requests::ROLE,
        (storm::STORM, storm::main),
    ];
    let others = others.into_iter().chain(embedded::ROLES);
    let mut roles = hostile::ROLES.into_iter().chain(others);
    roles.find(|(name, _)| *name == word).map(|(_, main)| main)
}

pub(super) fn run_hostile(options: &Options) -> Outcome<Value> {
    let only = match options.kind.as_str() {
        "all" => "",
        word => word,
    };
    let length = Duration::from_secs_f64(options.seconds);
    hostile::run(options.clients, length, only, options.real_time)
}

pub(super) fn run_flood(options: &Options) -> Outcome<Value> {
    let kinds = match options.kind.as_str() {
        "all" => Kind::ALL.to_vec(),
        word => vec![Kind::named(word)?],
    };
    let length = Duration::from_secs_f64(options.seconds);
    flood::run(&kinds, length, options.flood_rate)
}

pub(super) fn run_insider(options: &Options) -> Outcome<Value> {
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    let rows = [RING, RMP].map(|protocol| insider::run(protocol, length, options.seed));
    let rows: Outcome<Vec<Value>> = rows.into_iter().collect();
    rows.map(Value::from)
}

pub(super) fn run_races(options: &Options) -> Outcome<Value> {
    races::run(options.rounds, options.against.as_deref())
}

pub(super) fn run_rekey(options: &Options) -> Outcome<Value> {
    let report = rekeys::run(options.times, Load::Full)?;
    let (median, worst) = median_and_max(&report.took);
    let [tokens, configurations, foreign, forged] = report.broken;
    println!(
        "{} changes, {} messages at each of five hosts, none missing; a change takes {:.2} s, at worst {:.2} s; {tokens} \
         tokens lost; load average {}",
        report.took.len(),
        report.messages,
        median.as_secs_f64(),
        worst.as_secs_f64(),
        report.load
    );
    let mut bars = Bars::default();
    let bar = |what: &str, count: u64| Bar::at_most(what, count as f64, 0, "times");
    bars.hold(bar("a configuration ended", configurations));
    bars.hold(bar("a datagram of another key", foreign));
    bars.hold(bar("a datagram that did not open", forged));
    bars.verdict()?;
    Ok(json!({
        "changes": report.took.len(),
        "messages": report.messages,
        "median_s": median.as_secs_f64(),
        "worst_s": worst.as_secs_f64(),
        "tokens_lost": tokens,
        "bars": bars.json(),
    }))
}
