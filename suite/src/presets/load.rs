//! What is sent in a cell of the table of presets.

use std::time::Duration;

use groupcast_core::{Rng, Service, SubmitError};
use groupcast_protocols::ring::Ring;
use groupcast_sim::Cluster;

use super::Outcome;

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// A message of a random member now and then, one in five of them safe.
    Sparse,
    /// One client that sends its next message when it has its last, fifty times, and then pauses;
    /// each time at another host.
    ClosedLoop,
    /// All members have a hundred messages of a kilobyte at once, every three seconds. What there
    /// is no room for goes when there is.
    Bursts,
}

/// Between two lone messages: long enough that the ring is quiet again on a LAN.
const PAUSE: std::ops::Range<Duration> = Duration::from_millis(100)..Duration::from_millis(500);
/// Messages of a closed loop until it pauses.
const LOOP: u32 = 50;
/// How long it pauses.
const LOOP_PAUSE: Duration = Duration::from_millis(1_500);
/// Messages of each member in a burst.
const BURST: usize = 100;
/// The bytes of each of them.
const BURST_LEN: usize = 1_000;
/// How soon a client tries again with what there was no room for.
const AGAIN: Duration = Duration::from_micros(100);
/// From one burst to the next.
const BURST_EVERY: Duration = Duration::from_secs(3);
/// How long a message may take before it counts as one that does not arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);

impl Load {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sparse, Self::ClosedLoop, Self::Bursts];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sparse => "sparse",
            Self::ClosedLoop => "closed-loop",
            Self::Bursts => "bursts",
        }
    }

    /// Sends for `duration`, and counts in `outcome` what comes of it.
    pub(super) fn run(
        self,
        cluster: &mut Cluster<Ring>,
        duration: Duration,
        outcome: &mut Outcome,
    ) {
        let mut rng = Rng::new(7).fork(self.name());
        let end = cluster.now() + duration;
        while cluster.now() < end && outcome.violations.is_empty() {
            match self {
                Self::Sparse => say_one(cluster, &mut rng, outcome),
                Self::ClosedLoop => say_in_turn(cluster, &mut rng, outcome),
                Self::Bursts => say_at_once(cluster, outcome),
            }
        }
    }
}

fn say_one(cluster: &mut Cluster<Ring>, rng: &mut Rng, outcome: &mut Outcome) {
    let hosts = cluster.hosts();
    let from = rng.below(hosts as u64) as usize;
    let service = match rng.chance(0.2) {
        true => Service::Safe,
        false => Service::Agreed,
    };
    let begun = cluster.now();
    if !submit(cluster, from, service, "a few words".as_bytes(), outcome) {
        return;
    }
    if await_all(cluster, 0..hosts, outcome) && service == Service::Agreed {
        outcome.lone.push(cluster.now() - begun);
    }
    cluster.run_for(rng.duration(PAUSE.start, PAUSE.end));
}

fn say_in_turn(cluster: &mut Cluster<Ring>, rng: &mut Rng, outcome: &mut Outcome) {
    let host = rng.below(cluster.hosts() as u64) as usize;
    for _ in 0..LOOP {
        if !submit(
            cluster,
            host,
            Service::Agreed,
            "a few words".as_bytes(),
            outcome,
        ) || !await_all(cluster, host..host + 1, outcome)
        {
            return;
        }
    }
    cluster.run_for(LOOP_PAUSE);
    await_all(cluster, 0..cluster.hosts(), outcome);
}

fn say_at_once(cluster: &mut Cluster<Ring>, outcome: &mut Outcome) {
    let hosts = cluster.hosts();
    let begun = cluster.now();
    let mut left = vec![BURST; hosts];
    while left.iter().any(|left| *left > 0) {
        for (host, left) in left.iter_mut().enumerate() {
            while *left > 0 {
                match cluster.submit(host, Service::Agreed, vec![1; BURST_LEN]) {
                    Ok(_) => (outcome.messages, *left) = (outcome.messages + 1, *left - 1),
                    Err(SubmitError::Full { .. }) if cluster.now() - begun < ARRIVAL_MAX => break,
                    Err(error) => return refused(cluster, host, error, outcome),
                }
            }
        }
        cluster.run_for(AGAIN);
    }
    await_all(cluster, 0..hosts, outcome);
    let rest = BURST_EVERY.saturating_sub(cluster.now() - begun);
    cluster.run_for(rest);
}

/// Submits a message; whether it was taken.
fn submit(
    cluster: &mut Cluster<Ring>,
    host: usize,
    service: Service,
    payload: &[u8],
    outcome: &mut Outcome,
) -> bool {
    let taken = cluster.submit(host, service, payload.to_vec());
    match taken {
        Ok(_) => outcome.messages += 1,
        Err(error) => refused(cluster, host, error, outcome),
    }
    taken.is_ok()
}

fn refused(cluster: &Cluster<Ring>, host: usize, error: SubmitError, outcome: &mut Outcome) {
    let at = cluster.now();
    let violation = format!("{at:?}: h{host} takes no message: {error}");
    outcome.violations.push(violation);
}

/// Lets time pass until `hosts` have all messages that were sent. Whether they do.
fn await_all(
    cluster: &mut Cluster<Ring>,
    hosts: std::ops::Range<usize>,
    outcome: &mut Outcome,
) -> bool {
    let sent = outcome.messages as usize;
    let have = |cluster: &Cluster<Ring>| {
        let mut hosts = hosts.clone();
        hosts.all(|host| cluster.deliveries(host).len() >= sent)
    };
    let arrived = cluster.run_until(have, ARRIVAL_MAX);
    if !arrived {
        let at = cluster.now();
        outcome
            .violations
            .push(format!("{at:?}: a message does not arrive: {cluster:?}"));
    }
    arrived
}
