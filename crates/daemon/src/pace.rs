//! The pace at which connections are accepted: a burst at once, then one after the other at a
//! steady rate.

use std::time::Duration;

use groupcast_core::Time;

/// The time that an accepted connection counts for. To accept, greet and close a connection takes
/// some 40 µs, so a program that connects in a loop gets a twelfth of a processor.
const EACH: Duration = Duration::from_micros(500);
/// How many connections are accepted at once after a quiet time: enough for all programs of a host
/// that starts.
const BURST: u32 = 512;

/// When the next connection may be accepted.
#[derive(Default)]
pub(crate) struct Pace {
    /// When the accepted connections are paid for.
    paid_at: Time,
}

impl Pace {
    /// When to accept the next connection; `None` if at once.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let burst = now + EACH * (BURST - 1);
        (self.paid_at > burst).then(|| now + (self.paid_at - burst))
    }

    /// Counts an accepted connection.
    pub(crate) fn count(&mut self, now: Time) {
        self.paid_at = self.paid_at.max(now) + EACH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts as many as may be at `now`; how many.
    fn accept(pace: &mut Pace, now: Time) -> u32 {
        let mut count = 0;
        while pace.due(now).is_none() {
            pace.count(now);
            count += 1;
        }
        count
    }

    #[test]
    fn many_come_at_once_and_then_one_after_the_other() {
        let mut pace = Pace::default();
        let mut now = Time::ZERO + Duration::from_secs(5);
        assert_eq!(accept(&mut pace, now), BURST);
        for _ in 0..10 {
            let due = pace.due(now).expect("no more come now");
            assert_eq!(due - now, EACH);
            now = due;
            assert_eq!(accept(&mut pace, now), 1);
        }
        now += Duration::from_secs(5);
        assert_eq!(accept(&mut pace, now), BURST, "after a quiet time");
    }
}
