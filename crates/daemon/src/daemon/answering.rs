//! The share of the time in which questions of clients are answered. An answer takes time in
//! proportion to clients and groups, and clients may ask without end.

use std::time::Duration;

use groupcast_core::Time;

/// The answers of one turn begin within this time after the first.
const TURN_MAX: Duration = Duration::from_millis(2);
/// After answers no questions are answered for this many times as long as they took: answers have a
/// fifth of the time, like changes of groups.
const REST: u32 = 4;
/// The longest such rest.
const REST_MAX: Duration = Duration::from_millis(200);

/// When questions are answered.
#[derive(Debug, Default)]
pub(super) struct Answering {
    due: Time,
}

impl Answering {
    /// No question is answered before this time.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Whether another question may be answered at `now`, in the turn whose answers have `begun`
    /// then.
    pub(super) fn goes_on(&self, begun: Time, now: Time) -> bool {
        now - begun < TURN_MAX
    }

    /// The answers of a turn took from `begun` to `ended`.
    pub(super) fn rest(&mut self, begun: Time, ended: Time) {
        self.due = ended + ((ended - begun) * REST).min(REST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_fifth_of_the_time_however_long_each_takes() {
        let second = Time::from_millis(1_000);
        for each in [50, 700, 3_000, 30_000].map(Duration::from_micros) {
            let (mut answering, mut now) = (Answering::default(), Time::ZERO);
            let mut answered = Duration::ZERO;
            while now < second {
                now = now.max(answering.due());
                let begun = now;
                while answering.goes_on(begun, now) {
                    now += each;
                    answered += each;
                }
                assert!(now - begun < TURN_MAX + each);
                answering.rest(begun, now);
            }
            let share = answered.as_secs_f64() / (now - Time::ZERO).as_secs_f64();
            assert!((0.15..0.3).contains(&share), "{each:?}: {share}");
        }
    }

    #[test]
    fn who_asks_now_and_then_does_not_wait() {
        let mut answering = Answering::default();
        let mut now = Time::ZERO;
        for _ in 0..10 {
            assert!(answering.due() <= now);
            answering.rest(now, now + Duration::from_millis(1));
            now += Duration::from_millis(10);
        }
    }
}
