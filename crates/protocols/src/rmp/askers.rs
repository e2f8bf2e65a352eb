//! How much a member answers another one that says what it misses: as much as a round trip can use,
//! and nothing to one that asks on and on.

use alloc::collections::BTreeMap;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

/// ACKs and packets that one member is sent in a round trip at most.
const ANSWERS_MAX: usize = 48;
/// A member that wants more in this many round trips in a row is excluded: an honest one waits
/// longer each time that it is not answered.
const FLOOD_MAX: u32 = 100;

/// What to do about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Answer with this many ACKs and packets at most.
    Answer(usize),
    /// Drop it.
    Refuse,
    /// Drop it, and go on without its sender.
    Exclude,
}

/// The members that have asked in this configuration.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Askers {
    askers: BTreeMap<MemberId, Asker>,
}

#[derive(Clone, Hash, Debug)]
struct Asker {
    /// When the round trip began in which the answers are counted.
    since: Time,
    answers: usize,
    /// It wanted more in this round trip.
    over: bool,
    /// In how many round trips before this one, in a row, it wanted more.
    floods: u32,
}

impl Askers {
    /// A new configuration.
    pub(super) fn clear(&mut self) {
        self.askers.clear();
    }

    /// The member `from` of the configuration asks, where a round trip takes `trip`.
    pub(super) fn asks(&mut self, now: Time, from: MemberId, trip: Duration) -> Verdict {
        let asker = self.askers.entry(from).or_insert(Asker {
            since: now,
            answers: 0,
            over: false,
            floods: 0,
        });
        let passed = now.since(asker.since);
        if passed >= trip {
            let in_a_row = asker.over && passed < trip * 2;
            asker.floods = if in_a_row { asker.floods + 1 } else { 0 };
            asker.since = now;
            asker.answers = 0;
            asker.over = false;
        }
        if asker.answers < ANSWERS_MAX {
            return Verdict::Answer(ANSWERS_MAX - asker.answers);
        }
        asker.over = true;
        match asker.floods >= FLOOD_MAX {
            true => Verdict::Exclude,
            false => Verdict::Refuse,
        }
    }

    /// It was sent this many `answers`.
    pub(super) fn answered(&mut self, from: MemberId, answers: usize) {
        if let Some(asker) = self.askers.get_mut(&from) {
            // A request for what is not here counts as one answer.
            asker.answers += answers.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmp::fixtures::member;

    const TRIP: Duration = Duration::from_millis(2);

    #[test]
    fn a_round_trip_has_room_for_a_burst_and_no_more() {
        let mut askers = Askers::default();
        let now = Time::from_millis(1);
        assert_eq!(askers.asks(now, member(1), TRIP), Verdict::Answer(48));
        askers.answered(member(1), 40);
        assert_eq!(askers.asks(now, member(1), TRIP), Verdict::Answer(8));
        askers.answered(member(1), 8);
        assert_eq!(askers.asks(now, member(1), TRIP), Verdict::Refuse);
        assert_eq!(askers.asks(now, member(2), TRIP), Verdict::Answer(48));
        let later = now + TRIP;
        assert_eq!(askers.asks(later, member(1), TRIP), Verdict::Answer(48));
    }

    #[test]
    fn who_floods_for_a_hundred_round_trips_is_excluded_and_who_pauses_is_not() {
        let mut askers = Askers::default();
        let mut excluded = [None, None];
        for step in 0..400 {
            let now = Time::ZERO + TRIP * step;
            for (index, pauses) in [(0, false), (1, true)] {
                if pauses && step % 4 == 0 {
                    continue;
                }
                for _ in 0..60 {
                    match askers.asks(now, member(index), TRIP) {
                        Verdict::Answer(_) => askers.answered(member(index), 1),
                        Verdict::Refuse => {}
                        Verdict::Exclude => {
                            excluded[index as usize].get_or_insert(step);
                        }
                    }
                }
            }
        }
        assert_eq!(excluded, [Some(100), None]);
    }
}
