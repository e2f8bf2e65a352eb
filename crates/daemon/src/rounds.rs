//! Whether the time-outs of an order fit its rounds of the token: what the log tells where they do
//! not.
//!
//! Rounds are slow where hosts are far apart, or slow. A configuration may last all the same, so
//! the daemon looks by time, not when the configuration changes.

use std::fmt;
use std::time::Duration;

use groupcast_core::Time;
use groupcast_core::status::GroupStatus;

/// The daemon looks this often, so the log does not tell of an order's rounds more often.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Time-outs that are shorter than this many mean rounds may be too short.
const LOSS_IN_ROUNDS: u32 = 6;

/// The rounds of one member, as far as the log has told of them.
#[derive(Default)]
pub(crate) struct Rounds {
    due: Time,
    slow: u64,
}

/// Rounds for which the time-outs are too short.
#[derive(Debug)]
pub(crate) struct Slow {
    count: u64,
    mean: Duration,
}

impl Rounds {
    /// Looks, if it is time to: whether rounds since the last look were too slow for the time-outs
    /// of the member whose status it is.
    pub(crate) fn look(&mut self, now: Time, status: impl FnOnce() -> GroupStatus) -> Option<Slow> {
        if now < self.due {
            return None;
        }
        self.due = now + LOOK_EVERY;
        let status = status();
        let count = status.rounds_slow.saturating_sub(self.slow);
        self.slow = status.rounds_slow;
        let mean = status.round;
        time_outs_are_short(&status, count).then_some(Slow { count, mean })
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, mean } = self;
        write!(
            f,
            "the token took so long {count} times that it may be taken for lost; the mean is {mean:?}"
        )
    }
}

/// Whether this many slow rounds come of hosts and links for which the time-outs are too short:
/// then others are long, too. A token that is lost, of a host that stops or is cut off, makes one
/// slow round where all others are short.
fn time_outs_are_short(status: &GroupStatus, slow: u64) -> bool {
    slow > 1 && status.round * LOSS_IN_ROUNDS >= status.round_max
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(round: u64, round_max: u64, rounds_slow: u64) -> GroupStatus {
        GroupStatus {
            round: Duration::from_micros(round),
            round_max: Duration::from_millis(round_max),
            rounds_slow,
            ..GroupStatus::default()
        }
    }

    #[test]
    fn longer_time_outs_are_advised_where_rounds_are_long() {
        let advised = |round, max, slow| time_outs_are_short(&status(round, max, slow), slow);
        assert!(!advised(468, 150, 1), "a host was killed on a LAN");
        assert!(!advised(468, 150, 3), "three were, one after the other");
        assert!(!advised(30_000, 150, 1), "one round of many");
        assert!(advised(60_000, 250, 5), "hosts are far apart");
    }

    #[test]
    fn slow_rounds_are_told_once_a_minute_while_they_go_on() {
        let mut rounds = Rounds::default();
        let mut count = |second: u64, slow| {
            let now = Time::from_millis(second * 1_000);
            let slow = rounds.look(now, || status(60_000, 250, slow));
            slow.map(|slow| slow.count)
        };
        assert_eq!(count(0, 0), None);
        assert_eq!(count(59, 500), None, "it is not time");
        assert_eq!(count(60, 600), Some(600));
        assert_eq!(count(61, 700), None);
        assert_eq!(count(120, 1_200), Some(600), "the others were told");
        assert_eq!(count(180, 1_200), None, "there were none");
    }
}
