//! What the processes of a measurement do for a message: how often they are woken, which system
//! calls they make, what the processors take.
//!
//! Switches and processor time come from the kernel's accounts of each process; system calls are
//! counted by the programs themselves, in plain counters, and told by a daemon in its status, by
//! other processes with their result. Nothing is traced: what is counted runs as it always does.
//!
//! `meter` reads it all at both ends of the window, `report` puts it beside the messages and
//! beside the least that is possible, `sweep` does so for one rate after the other.

pub(super) mod meter;
pub mod report;
pub mod sweep;

use std::ops::{Add, Sub};

use groupcast_client::Calls;
use groupcast_net::Counters;
use serde::{Deserialize, Serialize};

/// What a program has counted of itself: system calls by kind, timers, visits of the token.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Calls that wait for something, or ask whether there is something.
    pub waits: u64,
    /// Receives from the network that brought something.
    pub receives: u64,
    /// Receives that found nothing.
    pub receives_empty: u64,
    /// Sends to the network.
    pub sends: u64,
    /// Reads of a client's socket, at either end, that brought something.
    pub reads: u64,
    /// Reads that found nothing.
    pub reads_empty: u64,
    /// Writes to a client's socket, at either end, that gave something.
    pub writes: u64,
    /// Writes that found no room.
    pub writes_blocked: u64,
    /// Times that a timer of a protocol was due; no system call.
    pub timers: u64,
    /// Visits of the token; no system call.
    pub visits: u64,
}

impl Counts {
    /// How many kinds of system calls there are.
    pub const KINDS: usize = 8;

    /// System calls by kind, with the words for them.
    pub fn calls(&self) -> [(&'static str, u64); Self::KINDS] {
        [
            ("waits", self.waits),
            ("receives", self.receives),
            ("receives_empty", self.receives_empty),
            ("sends", self.sends),
            ("reads", self.reads),
            ("reads_empty", self.reads_empty),
            ("writes", self.writes),
            ("writes_blocked", self.writes_blocked),
        ]
    }

    /// All system calls.
    pub fn total(&self) -> u64 {
        self.calls().iter().map(|(_, count)| count).sum()
    }

    /// Those of them that moved nothing, waits apart.
    pub fn empty(&self) -> u64 {
        self.receives_empty + self.reads_empty + self.writes_blocked
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            waits: with(self.waits, other.waits),
            receives: with(self.receives, other.receives),
            receives_empty: with(self.receives_empty, other.receives_empty),
            sends: with(self.sends, other.sends),
            reads: with(self.reads, other.reads),
            reads_empty: with(self.reads_empty, other.reads_empty),
            writes: with(self.writes, other.writes),
            writes_blocked: with(self.writes_blocked, other.writes_blocked),
            timers: with(self.timers, other.timers),
            visits: with(self.visits, other.visits),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.zip(other, |one, another| one + another)
    }
}

/// What was counted since `other`.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }
}

/// A client's own calls.
impl From<Calls> for Counts {
    fn from(calls: Calls) -> Self {
        Self {
            waits: calls.waits,
            reads: calls.reads,
            reads_empty: calls.reads_empty,
            writes: calls.writes,
            writes_blocked: calls.writes_blocked,
            ..Self::default()
        }
    }
}

/// Those of an endpoint.
impl From<Counters> for Counts {
    fn from(counters: Counters) -> Self {
        let (control, data) = (counters.control, counters.data);
        Self {
            waits: counters.waits,
            receives: control.calls + data.calls,
            receives_empty: control.empty + data.empty,
            sends: counters.sent.calls,
            timers: counters.timers,
            ..Self::default()
        }
    }
}

/// What a process counted within the window: from its first look at the clock in it to its last.
#[derive(Default)]
pub(super) struct InWindow {
    before: Option<Counts>,
}

impl InWindow {
    /// The clock was read; `is_open` if the window has begun. What was counted until the first such
    /// time is left out.
    pub(super) fn look(&mut self, is_open: bool, counts: impl FnOnce() -> Counts) {
        if is_open && self.before.is_none() {
            self.before = Some(counts());
        }
    }

    /// Whether it has begun.
    pub(super) fn is_open(&self) -> bool {
        self.before.is_some()
    }

    /// What was counted since; nothing if the window was never seen.
    pub(super) fn end(&self, counts: Counts) -> Counts {
        self.before
            .map_or(Counts::default(), |before| counts - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        Counts {
            waits: 1,
            receives: 2,
            receives_empty: 4,
            sends: 8,
            reads: 16,
            reads_empty: 32,
            writes: 64,
            writes_blocked: 128,
            timers: 1_000,
            visits: 10_000,
        }
    }

    #[test]
    fn kinds_add_up_and_what_is_no_call_is_not_among_them() {
        assert_eq!(counts().total(), 255);
        assert_eq!(counts().empty(), 4 + 32 + 128);
        assert_eq!((counts() + counts()).total(), 510);
        assert_eq!((counts() + counts()).visits, 20_000);
        assert_eq!(counts() + counts() - counts(), counts());
    }

    #[test]
    fn only_what_was_counted_within_the_window_is_told() {
        let mut window = InWindow::default();
        assert_eq!(window.end(counts()), Counts::default());
        window.look(false, || unreachable!("it has not begun"));
        window.look(true, counts);
        window.look(true, || unreachable!("it has begun before"));
        assert_eq!(window.end(counts() + counts()), counts());
    }

    #[test]
    fn what_an_older_process_does_not_tell_is_nothing() {
        let told: Counts = serde_json::from_str(r#"{"waits":3}"#).unwrap();
        assert_eq!(told.total(), 3);
    }
}
