//! `cargo xtask bench`: the ring with 3, 5 and 8 hosts, encrypted and in clear, each beside the raw multicast limit of
//! the same run, as one table. The measuring is `groupcast bench ring`'s; here is the sweep.
//!
//! Two runs a size: as fast as the ring goes, for throughput; and at a modest rate, for latency.

use std::process::Stdio;

use serde_json::Value;

use crate::Failure;
use crate::exec::{self, cargo};

/// How many hosts the group has.
const HOSTS: &[&str] = &["3", "5", "8"];
/// The rate at which latency is measured, in Mb/s of all senders together.
const MODEST: &str = "5";

/// `cargo xtask bench …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    if let Some(own) = args
        .iter()
        .find(|arg| ["--hosts", "--encrypt", "--rate", "--json"].contains(&arg.as_str()))
    {
        return Err(Failure::Usage(format!(
            "`bench` sets {own} itself; call `groupcast bench ring` for a single run"
        )));
    }
    exec::hand_over(cargo(["build", "--release", "--package", "groupcast"]))?;
    let mut rows = Vec::new();
    for hosts in HOSTS {
        for encrypt in ["on", "off"] {
            let full = measure(hosts, encrypt, "max", args)?;
            let modest = measure(hosts, encrypt, MODEST, args)?;
            rows.push(row(&full, &modest));
        }
    }
    println!(
        "| hosts | encrypted | slowest receiver, Mb/s | messages/s | raw multicast, Mb/s | with offload | ratio to raw | latency at {MODEST} Mb/s, µs: mean | median | 99 % |"
    );
    println!("|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for row in rows {
        println!("{row}");
    }
    Ok(())
}

/// One run of `groupcast bench ring`.
fn measure(hosts: &str, encrypt: &str, rate: &str, args: &[String]) -> Result<Value, Failure> {
    let mut bench = exec::command(
        exec::built("release", "groupcast"),
        [
            "bench",
            "ring",
            "--hosts",
            hosts,
            "--encrypt",
            encrypt,
            "--rate",
            rate,
            "--json",
        ],
    );
    bench.args(args).stderr(Stdio::inherit());
    let line = exec::shown(&bench);
    eprintln!("$ {line}");
    let output = bench
        .output()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(Failure::Failed(format!("`{line}`: {}", output.status)));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Failed(format!("`{line}` printed no JSON object: {error}")))
}

/// A line of the table.
fn row(full: &Value, modest: &Value) -> String {
    let number = |value: &Value, digits: usize| {
        value
            .as_f64()
            .map_or_else(|| "?".to_owned(), |number| format!("{number:.digits$}"))
    };
    let encrypted = match full["encrypt"].as_bool() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    let latency = &modest["latency_us"];
    format!(
        "| {} | {encrypted} | {} | {} | {} | {} | {} | {} | {} | {} |",
        number(&full["hosts"], 0),
        number(&full["mbps_slowest"], 0),
        number(&full["msgs_per_s"], 0),
        number(&full["raw_mbps"], 0),
        number(&full["raw_offload_mbps"], 0),
        number(&full["ratio"], 2),
        number(&latency["mean"], 0),
        number(&latency["p50"], 0),
        number(&latency["p99"], 0),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_takes_throughput_from_one_run_and_latency_from_the_other() {
        let full = json!({
            "hosts": 3, "encrypt": true, "mbps_slowest": 512.4, "msgs_per_s": 47_444.4, "raw_mbps": 1000.0,
            "raw_offload_mbps": 9000.0, "ratio": 0.5124, "latency_us": {"mean": 9e9, "p50": 9e9, "p99": 9e9},
        });
        let modest = json!({"latency_us": {"mean": 200.4, "p50": 180.0, "p99": 400.0}});
        assert_eq!(
            row(&full, &modest),
            "| 3 | yes | 512 | 47444 | 1000 | 9000 | 0.51 | 200 | 180 | 400 |"
        );
    }

    #[test]
    fn what_the_sweep_sets_is_refused() {
        let args = ["--encrypt".to_owned(), "on".to_owned()];
        assert!(matches!(task(&args), Err(Failure::Usage(_))));
    }
}
