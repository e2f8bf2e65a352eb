//! The longest messages beside short ones: no daemon may be busy with one of them for long.

use std::fmt;
use std::time::Duration;

use groupcast_bench::Link;

use super::Outcome;
use super::cluster::{Cluster, GROUP, MULTICAST, REAL_TIME};

/// The longest message that there is.
const LONGEST: &str = "67108864";
/// A message takes this long at most.
const LIMIT: Duration = Duration::from_secs(120);

/// What a run showed.
pub struct LargeReport {
    /// The longest time that each daemon did not look at its sockets, because it was busy or did
    /// not run, before the messages and with them.
    pub busy: Vec<(Duration, Duration)>,
}

impl LargeReport {
    /// The longest of all, with the messages.
    pub fn worst(&self) -> Duration {
        self.busy
            .iter()
            .map(|(_, with)| *with)
            .max()
            .unwrap_or_default()
    }
}

impl fmt::Display for LargeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        for (index, (before, with)) in self.busy.iter().enumerate() {
            writeln!(
                f,
                "host {}: {:.1} ms with short messages, {:.1} ms with long ones",
                index + 1,
                millis(*before),
                millis(*with)
            )?;
        }
        Ok(())
    }
}

/// Publishes `count` of the longest messages from host 1 of `hosts`, with subscribers and histories
/// everywhere and short messages beside them. With `real_time` the daemons run before all else, so
/// that a busy machine does not count.
pub fn run(hosts: usize, count: usize, real_time: bool) -> Outcome<LargeReport> {
    let mut cluster = Cluster::new(hosts, Link::Unlimited)?;
    cluster.write_text("large.toml", if real_time { REAL_TIME } else { "" })?;
    for host in 1..=hosts {
        cluster.start_with(host, &["--multicast", MULTICAST, "--config", "large.toml"])?;
    }
    cluster.await_members(&(1..=hosts).collect::<Vec<_>>())?;
    let mut subscribers = Vec::new();
    for host in 1..=hosts {
        let mut command = cluster.bed.command(host, "sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" > /dev/null"])
            .arg(cluster.binary())
            .args(["sub", GROUP, "--socket", &cluster.socket(host)]);
        subscribers.push(cluster.bed.launch(&format!("sub-{host}"), command)?);
    }
    let short = ["--size", "100", "--rate", "200", "--count", "100000000"];
    let mut beside = cluster.publish_as(hosts, "short", &short)?;
    std::thread::sleep(Duration::from_secs(2));
    let before = longest_gaps(&cluster, hosts)?;
    for number in 0..count {
        let name = format!("long{number}");
        let long = cluster.publish_as(1, &name, &["--size", LONGEST, "--count", "1"])?;
        cluster.finish(long, LIMIT)?;
    }
    let after = longest_gaps(&cluster, hosts)?;
    if !beside.is_running() {
        return Err(format!("the short messages ended: {}", beside.stderr()?).into());
    }
    drop((beside, subscribers));
    cluster.check_histories()?;
    Ok(LargeReport {
        busy: before.into_iter().zip(after).collect(),
    })
}

fn longest_gaps(cluster: &Cluster, hosts: usize) -> Outcome<Vec<Duration>> {
    (1..=hosts)
        .map(|host| {
            let status = cluster.status(host)?.unwrap_or_default();
            let longest = status["counters"]["net"]["gap_longest"].as_f64();
            let longest = longest.ok_or("`status --json` has no gap_longest")?;
            Ok(Duration::from_secs_f64(longest))
        })
        .collect()
}
