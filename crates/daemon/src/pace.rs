//! How many connections are accepted: some at once, and then one after the other at a steady
//! pace.

use std::time::Duration;

use groupcast_core::Time;

/// A connection that is accepted counts for so long. To accept it, to greet it and to close it
/// again takes some 40 us: who connects and goes in a loop gets a twelfth of a processor.
const EACH: Duration = Duration::from_micros(500);
/// So many may come at once after a quiet time: the programs of a host that starts.
const BURST: u32 = 512;

/// When the next connection may be accepted.
#[derive(Default)]
pub(crate) struct Pace {
    /// What was accepted is paid for at this time.
    paid_at: Time,
}

impl Pace {
    /// When to accept the next connection, if not at once.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let burst = now + EACH * (BURST - 1);
        (self.paid_at > burst).then(|| now + (self.paid_at - burst))
    }

    /// One was accepted.
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
