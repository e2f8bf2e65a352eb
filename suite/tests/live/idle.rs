//! A group of five idle daemons wakes at once when a message comes. How seldom it wakes without:
//! `waiting/idle.rs`.
//!
//! The bar is wide; the latency itself stands in docs/performance.md.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_bench::measure::ring::first_messages;
use groupcast_suite::live::cluster::{Cluster, RING, RMP};
use groupcast_suite::live::{Outcome, skipped};

const HOSTS: usize = 5;
/// How long nobody sends before a first message.
const PAUSE: Duration = Duration::from_millis(400);
/// The first message after idleness arrives within this, in the median: a fraction of the token's
/// rest, which a message ends.
const FIRST_MAX_US: f64 = 10_000.0;

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_first_message_after_idleness_waits_for_no_rest() -> Outcome {
    first_message(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_first_message_of_rmp_after_idleness_does_not_either() -> Outcome {
    first_message(RMP)
}

fn first_message(protocol: &str) -> Outcome {
    if skipped() {
        return Ok(());
    }
    let mut cluster = Cluster::running_with(HOSTS, Link::Unlimited, protocol)?;
    let latencies = first_messages(
        &cluster.bed,
        cluster.binary(),
        |host| cluster.socket(host),
        PAUSE,
        8,
    )?;
    let (median, worst) = (
        latencies.percentile_us(50.0),
        latencies.percentile_us(100.0),
    );
    println!(
        "{} deliveries of first messages: median {median:.0} µs, worst {worst:.0} µs",
        latencies.count()
    );
    if latencies.count() < 30 || median >= FIRST_MAX_US {
        return Err(format!("{} deliveries, median {median} µs", latencies.count()).into());
    }
    cluster.check_histories()
}
