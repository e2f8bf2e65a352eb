//! How long the others are held up when a member of a loaded group dies or falls silent.
//!
//! What a user notices is measured: how long the subscribers of the other hosts print nothing. The
//! longest pause that ends within the time watched counts, from the fault to the pause's end, at
//! the host where it is worst.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::Link;

use super::Outcome;
use super::cluster::{Cluster, GROUP, Subscription, check_running};

/// What happens to the last host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Its daemon gets SIGKILL.
    Kill,
    /// Its network drops everything, both ways.
    Silence,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill -9",
            Self::Silence => "silent host",
        })
    }
}

/// How long the others are watched after a fault. A fail-over that takes longer is reported as this
/// long.
pub const WATCH: Duration = Duration::from_secs(4);
/// How often their outputs are looked at.
const LOOK: Duration = Duration::from_millis(1);
/// Messages a second that each host publishes, and their size.
const LOAD: [&str; 6] = ["--rate", "400", "--size", "500", "--count", "10000000"];
/// How long new subscribers and the load run before a fault.
const SETTLE: Duration = Duration::from_millis(700);

/// Inflicts `fault` on one of `hosts` hosts under load, `times` times over; how long each fail-over
/// took. `protocol` orders the messages.
pub fn measure(hosts: usize, protocol: &str, fault: Fault, times: usize) -> Outcome<Vec<Duration>> {
    let mut cluster = Cluster::running_with(hosts, Link::Unlimited, protocol)?;
    let others: Vec<usize> = (1..hosts).collect();
    let all: Vec<usize> = (1..=hosts).collect();
    let mut publishers = Vec::new();
    for host in &others {
        publishers.push(cluster.publish_as(*host, "load", &LOAD)?);
    }
    let mut durations = Vec::new();
    for _ in 0..times {
        let victim = cluster.publish_as(hosts, "load", &LOAD)?;
        // New subscribers each time, so that outputs stay short.
        let subscriptions = others
            .iter()
            .map(|host| cluster.subscribe(*host, "watch", GROUP))
            .collect::<Outcome<Vec<_>>>()?;
        sleep(SETTLE);
        let watched = watch(&subscriptions, || match fault {
            Fault::Kill => Ok(cluster.daemon(hosts)?.kill()?),
            Fault::Silence => Ok(cluster.bed.cut(hosts)?),
        })?;
        cluster.await_members(&others)?;
        durations.push(watched);
        drop(victim);
        match fault {
            Fault::Kill => cluster.start(hosts)?,
            Fault::Silence => cluster.bed.heal()?,
        }
        cluster.await_members(&all)?;
        // The load must be there at the end as it was at the beginning.
        check_running(&mut publishers)?;
    }
    drop(publishers);
    cluster.check_histories()?;
    Ok(durations)
}

/// From the fault to the end of the longest pause in any output.
fn watch(subscriptions: &[Subscription], inflict: impl FnOnce() -> Outcome) -> Outcome<Duration> {
    let begun = Instant::now();
    let mut pauses: Vec<Pause> = subscriptions
        .iter()
        .map(|subscription| Ok(Pause::new(subscription.printed()?, begun)))
        .collect::<Outcome<_>>()?;
    inflict()?;
    while begun.elapsed() < WATCH {
        for (subscription, pause) in subscriptions.iter().zip(&mut pauses) {
            pause.look(subscription.printed()?, Instant::now());
        }
        sleep(LOOK);
    }
    let worst = pauses
        .iter()
        .map(|pause| pause.end(Instant::now()) - begun)
        .max();
    Ok(worst.unwrap_or_default())
}

/// The longest pause of one output.
struct Pause {
    printed: u64,
    since: Instant,
    longest: Duration,
    ended: Instant,
}

impl Pause {
    fn new(printed: u64, now: Instant) -> Self {
        Self {
            printed,
            since: now,
            longest: Duration::ZERO,
            ended: now,
        }
    }

    fn look(&mut self, printed: u64, now: Instant) {
        if printed == self.printed {
            return;
        }
        if now - self.since > self.longest {
            self.longest = now - self.since;
            self.ended = now;
        }
        self.printed = printed;
        self.since = now;
    }

    /// When the longest pause ended; now, if it lasts.
    fn end(&self, now: Instant) -> Instant {
        if now - self.since > self.longest {
            now
        } else {
            self.ended
        }
    }
}

/// The median and the largest of some durations.
pub fn median_and_max(durations: &[Duration]) -> (Duration, Duration) {
    let mut sorted = durations.to_vec();
    sorted.sort();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median, sorted.last().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_counts_and_one_that_lasts_has_not_ended() {
        let begun = Instant::now();
        let at = |millis: u64| begun + Duration::from_millis(millis);
        let mut pause = Pause::new(0, begun);
        for (millis, printed) in [(1, 10), (2, 20), (300, 20), (310, 30), (311, 40)] {
            pause.look(printed, at(millis));
        }
        assert_eq!(pause.end(at(400)), at(310));
        assert_eq!(pause.end(at(4000)), at(4000));
    }

    #[test]
    fn median_and_maximum() {
        let millis = |millis| Duration::from_millis(millis);
        let (median, max) = median_and_max(&[millis(9), millis(1), millis(5)]);
        assert_eq!((median, max), (millis(5), millis(9)));
    }
}
