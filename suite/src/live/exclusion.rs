//! All members flood the group on a machine that has fewer processors than daemons: no member may
//! be excluded for being slow.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};

use super::Outcome;
use super::cluster::{Cluster, GROUP, MULTICAST, REAL_TIME, Subscription};
use super::compilers::Compilers;

/// How often the daemons are asked. A scheduling gap excuses the exclusions of the look that it is
/// seen in, and of the next one.
const LOOK: Duration = Duration::from_secs(2);
/// What every host publishes, as fast as it is taken.
const FLOOD: [&str; 4] = ["--size", "1350", "--count", "1000000000"];

/// A group to which no client publishes: its subscribers print the views and nothing else.
const WATCHED: &str = "watched";

/// What a flood is.
#[derive(Clone, Copy, Debug)]
pub struct Flood<'a> {
    /// How many hosts.
    pub hosts: usize,
    /// What orders the messages.
    pub protocol: &'a str,
    /// For how long.
    pub length: Duration,
    /// How many compilers run beside the daemons.
    pub compilers: usize,
    /// Whether the daemons run with real-time priority.
    pub real_time: bool,
}

/// What a flood showed.
pub struct ExclusionReport {
    /// Views, at any subscriber, in which a member was missing.
    pub exclusions: u64,
    /// Those of them that no scheduling gap explains.
    pub unexplained: u64,
    /// Configurations installed after the first, over all daemons.
    pub configurations: u64,
    /// Scheduling gaps that the daemons logged.
    pub gaps: u64,
    /// Packets that the order carried.
    pub packets: u64,
}

impl fmt::Display for ExclusionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packets; {} views without somebody, {} of them unexplained; {} further configurations; {} scheduling \
             gaps above 250 ms",
            self.packets, self.exclusions, self.unexplained, self.configurations, self.gaps
        )
    }
}

/// Floods from all hosts. An error if a member was excluded although no daemon had logged a
/// scheduling gap; of daemons with real-time priority, if a member was excluded at all.
pub fn flood(flood: Flood<'_>) -> Outcome<ExclusionReport> {
    let Flood {
        hosts,
        protocol,
        length,
        ..
    } = flood;
    let mut cluster = Cluster::new(hosts, Link::Unlimited)?;
    cluster.set_protocol(protocol);
    let config = cluster.path("flood.toml");
    cluster.write_text("flood.toml", if flood.real_time { REAL_TIME } else { "" })?;
    for host in 1..=hosts {
        // A history of all of this would fill the disk.
        cluster.start_without_history(host, &["--multicast", MULTICAST, "--config", &config])?;
    }
    cluster.await_members(&(1..=hosts).collect::<Vec<_>>())?;
    let watchers = (1..=hosts)
        .map(|host| cluster.subscribe(host, "watch", WATCHED))
        .collect::<Outcome<Vec<_>>>()?;
    let subscribers = (1..=hosts)
        .map(|host| subscribe_to_nothing(&cluster, host))
        .collect::<Outcome<Vec<_>>>()?;
    let mut publishers = (1..=hosts)
        .map(|host| cluster.publish_as(host, "flood", &FLOOD))
        .collect::<Outcome<Vec<_>>>()?;
    let compilers = Compilers::begin(flood.compilers, cluster.bed.directory())?;
    let before = figures(&cluster, hosts, protocol)?;
    let (mut last, mut recent_gaps) = (0, [before.gaps; 2]);
    let mut unexplained = 0;
    let begun = Instant::now();
    while begun.elapsed() < length {
        sleep(LOOK.min(length));
        for process in &mut publishers {
            if !process.is_running() {
                let said = process.stderr()?;
                return Err(format!("{} ended: {said}", process.label()).into());
            }
        }
        let exclusions = exclusions(&watchers, hosts)?;
        let gaps = figures(&cluster, hosts, protocol)?.gaps;
        if gaps == recent_gaps[0] {
            unexplained += exclusions - last;
        }
        last = exclusions;
        recent_gaps = [recent_gaps[1], gaps];
    }
    let after = figures(&cluster, hosts, protocol)?;
    drop((compilers, publishers, subscribers));
    let report = ExclusionReport {
        exclusions: last,
        unexplained,
        configurations: after.configurations - before.configurations,
        gaps: after.gaps - before.gaps,
        packets: after.packets - before.packets,
    };
    if report.unexplained > 0 || flood.real_time && report.exclusions > 0 {
        return Err(format!("a false exclusion: {report}").into());
    }
    if report.packets < 1000 {
        return Err(format!("that was no flood: {report}").into());
    }
    cluster.pass();
    Ok(report)
}

/// How many views the watchers have printed, since all members were there, in which a member is
/// missing.
fn exclusions(watchers: &[Subscription], hosts: usize) -> Outcome<u64> {
    let mut count = 0;
    for watcher in watchers {
        let stream = watcher.stream()?;
        count += stream
            .views()
            .skip_while(|view| view.members.len() < hosts)
            .filter(|view| view.members.len() < hosts)
            .count() as u64;
    }
    Ok(count)
}

/// A subscriber whose output is not kept.
fn subscribe_to_nothing(cluster: &Cluster, host: usize) -> Outcome<Process> {
    let mut command = cluster.bed.command(host, "sh");
    command
        .args(["-c", "exec \"$0\" \"$@\" > /dev/null"])
        .arg(cluster.binary())
        .args(["sub", GROUP, "--once", "--socket", &cluster.socket(host)]);
    Ok(cluster.bed.launch(&format!("sub-{host}"), command)?)
}

fn figures(cluster: &Cluster, hosts: usize, protocol: &str) -> Outcome<ExclusionReport> {
    let mut sum = ExclusionReport {
        exclusions: 0,
        unexplained: 0,
        configurations: 0,
        gaps: 0,
        packets: 0,
    };
    for host in 1..=hosts {
        sum.configurations += cluster.counter(host, &["counters", protocol, "configurations"])?;
        sum.gaps += cluster.counter(host, &["counters", "net", "gaps"])?;
        sum.packets += cluster.counter(host, &["counters", protocol, "packets_sent"])?;
    }
    Ok(sum)
}
