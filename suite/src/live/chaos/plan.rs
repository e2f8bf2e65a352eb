//! What goes wrong in a round, and when: drawn from a seed, so that a round can be run again.

use std::fmt;
use std::time::Duration;

use groupcast_core::Rng;

/// What goes wrong at a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::live) enum Fault {
    /// Its daemon is killed, and started again at the end.
    Kill,
    /// Its daemon is asked to stop, and started again at the end.
    Restart,
    /// Its daemon is frozen.
    Stop,
    /// No frame reaches it, and none of its own leaves.
    Cut,
    /// It does not hear these hosts, which hear it.
    Deaf(Vec<usize>),
    /// It loses this many of 1,000 frames.
    Loss(u16),
    /// Its interface takes packets of at most this many bytes.
    Mtu(u16),
    /// Its daemon can write no history and no log.
    DiskFull,
    /// Its wall clock steps by this many seconds.
    Clock(i64),
}

impl Fault {
    /// The word for its kind.
    pub(in crate::live) fn name(&self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::Deaf(_) => "one way",
            Self::Loss(_) => "loss",
            Self::Mtu(_) => "mtu",
            Self::DiskFull => "disk full",
            Self::Clock(_) => "clock",
        }
    }

    /// Whether the daemon of its host runs on, with all that it has in memory.
    fn spares_the_daemon(&self) -> bool {
        !matches!(self, Self::Kill | Self::Restart)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault with its time in the round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::live) struct Planned {
    pub(in crate::live) host: usize,
    pub(in crate::live) fault: Fault,
    pub(in crate::live) begins: Duration,
    pub(in crate::live) ends: Duration,
}

/// Faults of one round of `length` among `hosts` hosts, in the order of their beginnings. A host
/// has one at a time; the daemon of host 1 is never ended, so that its memory can be watched.
pub(in crate::live) fn draw(hosts: usize, length: Duration, seed: u64) -> Vec<Planned> {
    let mut rng = Rng::new(seed).fork("chaos");
    let end = length.as_millis() as u64;
    let mut busy_until = vec![0; hosts + 1];
    let mut plan = Vec::new();
    let mut now = rng.range(200..1_000);
    while now + 500 < end {
        let host = 1 + rng.below(hosts as u64) as usize;
        let fault = draw_fault(hosts, host, &mut rng);
        let ends = (now + lasting(&fault, &mut rng)).min(end);
        if busy_until[host] <= now && (host > 1 || fault.spares_the_daemon()) {
            busy_until[host] = ends + 300;
            plan.push(Planned {
                host,
                fault,
                begins: Duration::from_millis(now),
                ends: Duration::from_millis(ends),
            });
        }
        now += rng.range(100..1_500);
    }
    plan
}

fn draw_fault(hosts: usize, host: usize, rng: &mut Rng) -> Fault {
    match rng.below(20) {
        0..=2 => Fault::Kill,
        3 => Fault::Restart,
        4..=5 => Fault::Stop,
        6..=8 => Fault::Cut,
        9..=11 => {
            let others = (1..=hosts).filter(|other| *other != host);
            let mut deaf_to: Vec<usize> = others.filter(|_| rng.below(2) == 0).collect();
            if deaf_to.is_empty() {
                deaf_to.push(host % hosts + 1);
            }
            Fault::Deaf(deaf_to)
        }
        12..=14 => Fault::Loss(rng.range(10..400) as u16),
        15..=17 => Fault::Mtu(rng.range(1_000..1_500) as u16),
        18 => Fault::DiskFull,
        _ => Fault::Clock(rng.range(0..2_000_000) as i64 - 1_000_000),
    }
}

/// For how many milliseconds.
fn lasting(fault: &Fault, rng: &mut Rng) -> u64 {
    match fault {
        Fault::Kill | Fault::Restart => rng.range(50..3_000),
        Fault::Stop => rng.range(20..4_000),
        _ => rng.range(100..6_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_the_same_every_time_and_spares_the_first_daemon() {
        let length = Duration::from_secs(20);
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let plan = draw(5, length, seed);
            assert_eq!(plan, draw(5, length, seed));
            assert!(plan.iter().all(|planned| planned.ends <= length));
            let mut of_first = plan.iter().filter(|planned| planned.host == 1);
            assert!(of_first.all(|planned| planned.fault.spares_the_daemon()));
            kinds.extend(plan.iter().map(|planned| planned.fault.name()));
        }
        assert_eq!(kinds.len(), 9, "{kinds:?}");
    }
}
