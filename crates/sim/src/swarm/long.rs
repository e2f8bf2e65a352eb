//! Long scenarios: what only time brings about. Hosts that end and begin again until those who
//! follow their messages have no room for so many lives, and pauses after which nobody knows the
//! paused process any more.

use std::time::Duration;

use groupcast_core::{Rng, Time};

use super::fault::{Effect, Fault, FaultKind};
use crate::experiment::ProcessChange;

/// How much longer a long scenario is than others.
pub(super) const FACTOR: u32 = 5;

/// Faults of `duration` among `hosts` hosts: one or two live life upon life for half of the time,
/// one is paused for long again and again.
pub(super) fn random_faults(hosts: usize, duration: Duration, rng: &mut Rng) -> Vec<Fault> {
    let mut faults = Vec::new();
    for _ in 0..1 + rng.below(2) {
        faults.extend(lives(hosts, duration, rng));
    }
    faults.extend(pauses(hosts, duration, rng));
    faults
}

/// A host whose process ends and begins again and again, a few seconds a life.
fn lives(hosts: usize, duration: Duration, rng: &mut Rng) -> Vec<Fault> {
    let host = rng.below(hosts as u64) as usize;
    let (change, kind) = match rng.chance(0.3) {
        true => (ProcessChange::Leave, FaultKind::Leave),
        false => (ProcessChange::Crash, FaultKind::Crash),
    };
    let mut at = Time::ZERO + rng.duration(Duration::from_secs(2), duration / 2);
    let end = at + duration / 2;
    let mut faults = Vec::new();
    while at < end {
        let back = at + rng.duration(Duration::from_millis(100), Duration::from_secs(3));
        faults.push(Fault {
            kind,
            at,
            until: Some(back),
            effect: Effect::Process(host, change),
            moment: None,
        });
        at = back + rng.duration(Duration::from_millis(300), Duration::from_secs(6));
    }
    faults
}

/// A host whose process stands still for up to 40 s, two or three times.
fn pauses(hosts: usize, duration: Duration, rng: &mut Rng) -> Vec<Fault> {
    let host = rng.below(hosts as u64) as usize;
    let mut at = Time::ZERO;
    let mut faults = Vec::new();
    for _ in 0..2 + rng.below(2) {
        at += rng.duration(Duration::from_secs(5), duration / 4);
        let back = at + rng.duration(Duration::from_secs(10), Duration::from_secs(40));
        faults.push(Fault {
            kind: FaultKind::Pause,
            at,
            until: Some(back),
            effect: Effect::Process(host, ProcessChange::Pause),
            moment: None,
        });
        at = back;
    }
    faults
}
