//! A group of five idle daemons seldom wakes.
//!
//! What must hold on every machine is counted: wakings, not processor time. The processor time
//! itself stands in docs/performance.md.

use std::thread::sleep;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, RING, RMP};
use groupcast_suite::live::{Outcome, skipped};

const HOSTS: usize = 5;
/// How long wakings are counted.
const COUNTED: Duration = Duration::from_secs(5);
/// The most that an idle daemon may wake in a second. Its token rests 35 ms at a time, so it comes
/// by 28 times.
const WAKINGS_MAX: f64 = 100.0;

#[test]
#[ignore = "live: needs root and network namespaces"]
fn idle_daemons_seldom_wake() -> Outcome {
    wakings(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn idle_daemons_of_rmp_do_so_too() -> Outcome {
    wakings(RMP)
}

fn wakings(protocol: &str) -> Outcome {
    if skipped() {
        return Ok(());
    }
    let mut cluster = Cluster::running_with(HOSTS, Link::Unlimited, protocol)?;
    sleep(Duration::from_secs(1));
    let mut before = Vec::new();
    for host in 1..=HOSTS {
        let daemon = cluster.daemon(host)?;
        before.push((daemon.switches()?, daemon.usage()?.cpu));
    }
    sleep(COUNTED);
    for (host, (switches, cpu)) in (1..=HOSTS).zip(before) {
        let daemon = cluster.daemon(host)?;
        let wakings = daemon.switches()?.voluntary - switches.voluntary;
        let a_second = wakings as f64 / COUNTED.as_secs_f64();
        let share = (daemon.usage()?.cpu - cpu).as_secs_f64() / COUNTED.as_secs_f64();
        let percent = share * 100.0;
        println!("host-{host}: {a_second:.0} wakings a second, {percent:.2} % of a core");
        if a_second > WAKINGS_MAX {
            return Err(format!("host-{host} woke {wakings} times in {COUNTED:?}").into());
        }
    }
    cluster.check_histories()
}
