//! A group of five idle daemons costs next to nothing, and wakes at once.

use std::thread::sleep;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_bench::measure::ring::first_messages;
use groupcast_suite::live::cluster::{Cluster, RING, RMP};
use groupcast_suite::live::{Outcome, skipped};

const HOSTS: usize = 5;
/// How long the processors' time is counted.
const COUNTED: Duration = Duration::from_secs(10);
/// The most that an idle daemon may use of one core.
const SHARE_MAX: f64 = 0.01;
/// The first message after idleness arrives within this, in the median.
const FIRST_MAX_US: f64 = 2000.0;

#[test]
#[ignore = "live: needs root and network namespaces"]
fn idle_daemons_use_less_than_a_hundredth_of_a_core() -> Outcome {
    share_of_a_core(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn idle_daemons_of_rmp_do_too() -> Outcome {
    share_of_a_core(RMP)
}

fn share_of_a_core(protocol: &str) -> Outcome {
    if skipped() {
        return Ok(());
    }
    let mut cluster = Cluster::running_with(HOSTS, Link::Unlimited, protocol)?;
    sleep(Duration::from_secs(1));
    let mut before = Vec::new();
    for host in 1..=HOSTS {
        before.push(cluster.daemon(host)?.usage()?.cpu);
    }
    sleep(COUNTED);
    for host in 1..=HOSTS {
        let used = cluster.daemon(host)?.usage()?.cpu - before[host - 1];
        let share = used.as_secs_f64() / COUNTED.as_secs_f64();
        println!("host-{host}: {:.2} % of a core", share * 100.0);
        if share >= SHARE_MAX {
            return Err(format!("host-{host} used {used:?} in {COUNTED:?}").into());
        }
    }
    cluster.check_histories()
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_first_message_after_idleness_arrives_within_two_milliseconds() -> Outcome {
    first_message(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_first_message_of_rmp_after_idleness_does_too() -> Outcome {
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
        Duration::from_secs(1),
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
