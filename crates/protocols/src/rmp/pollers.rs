//! How long this member has followed the polls of others, and how often it answers them (ours).
//!
//! A poller stops the group until it has proposed and all have accepted. A member that breaks the
//! rules could poll on and on, and never come to an end, or begin anew as soon as the group works:
//! all others would follow it for ever, if it is the lowest. So there is a limit to the time for
//! which others follow one poller, and what is used up comes back slowly. A poller that has used it
//! up is not followed, and the others go on without it.

use alloc::collections::BTreeMap;
use core::time::Duration;

use groupcast_core::mech::allowance::Allowance;
use groupcast_core::mech::peers::Peers;
use groupcast_core::{MemberId, Time};

use super::config::RmpConfig;

/// A poller is followed for at most this many times as long as a reformation that fails may take.
const LONGEST: u32 = 8;
/// One part in this many of the time in which it is not followed comes back.
const BACK: u32 = 10;
/// In an interval of polls one poller is answered this many times in the long run: others poll, and
/// it polls again.
const ANSWERS: u32 = 4;
/// One poller is answered this many times at once.
const ANSWERS_MAX: u32 = 64;

/// The pollers that this member has followed.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Pollers {
    of: BTreeMap<MemberId, Poller>,
}

#[derive(Clone, Hash, Debug)]
struct Poller {
    /// For how long it was followed, less what has come back, as of `at`.
    spent: Duration,
    at: Time,
    /// This member follows it.
    followed: bool,
    /// It has used its time up, and half of it has not come back.
    refused: bool,
    answers: Allowance,
}

impl Poller {
    fn count(&mut self, now: Time) {
        let passed = now.since(self.at);
        self.spent = match self.followed {
            true => self.spent + passed,
            false => self.spent.saturating_sub(passed / BACK),
        };
        self.at = now;
    }
}

impl Pollers {
    /// This member follows `poller`, and nobody else.
    pub(super) fn follow(&mut self, now: Time, poller: MemberId, config: &RmpConfig) {
        self.rest(now);
        if let Some(poller) = self.of_poller(now, poller, config) {
            poller.followed = true;
        }
    }

    /// This member follows nobody.
    pub(super) fn rest(&mut self, now: Time) {
        for poller in self.of.values_mut().filter(|it| it.followed) {
            poller.count(now);
            poller.followed = false;
        }
    }

    /// Whether `poller` has been followed for too long.
    pub(super) fn refuses(&mut self, now: Time, poller: MemberId, config: &RmpConfig) -> bool {
        let Some(poller) = self.of.get_mut(&poller) else {
            return false;
        };
        poller.count(now);
        let longest = (config.poll_wait + config.recover_wait) * LONGEST;
        let most = if poller.refused { longest / 2 } else { longest };
        poller.refused = poller.spent >= most;
        poller.refused
    }

    /// Whether a poll of `poller` is answered now. If so, that counts.
    pub(super) fn may_answer(&mut self, now: Time, poller: MemberId, config: &RmpConfig) -> bool {
        let poller = self.of_poller(now, poller, config);
        poller.is_some_and(|poller| poller.answers.take(now))
    }

    /// `None` if there are too many.
    fn of_poller(
        &mut self,
        now: Time,
        poller: MemberId,
        config: &RmpConfig,
    ) -> Option<&mut Poller> {
        if self.of.len() >= Peers::MAX && !self.of.contains_key(&poller) {
            self.of.values_mut().for_each(|it| it.count(now));
            self.of.retain(|_, it| it.followed || !it.spent.is_zero());
            if self.of.len() >= Peers::MAX {
                return None;
            }
        }
        let interval = config.poll_interval.as_nanos().max(1);
        let rate = Duration::from_secs(ANSWERS.into()).as_nanos() / interval;
        let rate = u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
        let new = Poller {
            spent: Duration::ZERO,
            at: now,
            followed: false,
            refused: false,
            answers: Allowance::per_second(rate, ANSWERS_MAX),
        };
        Some(self.of.entry(poller).or_insert(new))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::rmp::fixtures::member;

    const LAN: fn() -> RmpConfig = RmpConfig::lan;

    #[test]
    fn who_was_followed_for_long_is_refused_until_half_of_that_has_come_back() {
        let (mut pollers, lan) = (Pollers::default(), LAN());
        let at = Time::from_millis;
        // 4,320 ms.
        pollers.follow(at(0), member(1), &lan);
        assert!(!pollers.refuses(at(2_000), member(1), &lan));
        pollers.rest(at(2_000));
        assert!(!pollers.refuses(at(12_000), member(1), &lan), "1 s is back");
        pollers.follow(at(12_000), member(1), &lan);
        assert!(!pollers.refuses(at(15_000), member(1), &lan));
        assert!(pollers.refuses(at(15_320), member(1), &lan));
        pollers.follow(at(15_320), member(2), &lan);
        assert!(pollers.refuses(at(36_000), member(1), &lan));
        assert!(!pollers.refuses(at(37_000), member(1), &lan));
        assert!(pollers.refuses(at(37_000), member(2), &lan));
    }

    #[test]
    fn one_poller_is_answered_so_often_and_another_as_often() {
        let (mut pollers, lan) = (Pollers::default(), LAN());
        let mut answers = [0; 2];
        for micros in 0..1_000_000_u64 {
            let now = Time::ZERO + Duration::from_micros(micros);
            answers[0] += u32::from(pollers.may_answer(now, member(1), &lan));
            if micros % 15_000 == 0 {
                answers[1] += u32::from(pollers.may_answer(now, member(2), &lan));
            }
        }
        assert!((64 + 260..64 + 268).contains(&answers[0]), "{answers:?}");
        assert_eq!(answers[1], 67);
    }

    #[test]
    fn more_pollers_than_can_be_kept_are_not_answered() {
        let (mut pollers, lan) = (Pollers::default(), LAN());
        for node in 0..2_000 {
            pollers.follow(Time::from_millis(node), member(node), &lan);
        }
        assert!(pollers.of.len() <= Peers::MAX);
    }

    #[test]
    fn room_is_made_of_pollers_that_have_no_time_to_give_back() {
        let (mut pollers, lan) = (Pollers::default(), LAN());
        let most = Peers::MAX as u64;
        let at = Time::from_millis;
        for node in 0..most {
            assert!(pollers.may_answer(at(0), member(node), &lan));
        }
        pollers.follow(at(0), member(0), &lan);
        assert_eq!(pollers.of.len(), Peers::MAX, "there is room for so many");
        assert!(pollers.may_answer(at(0), member(most), &lan));
        let kept: Vec<MemberId> = pollers.of.keys().copied().collect();
        assert_eq!(
            kept,
            [member(0), member(most)],
            "who is followed, and the new one"
        );
        // All were followed for a second each.
        let mut pollers = Pollers::default();
        for node in 0..most {
            pollers.follow(at(node * 1_000), member(node), &lan);
        }
        let end = most * 1_000;
        pollers.rest(at(end));
        assert!(
            pollers.may_answer(at(end - 1), member(0), &lan),
            "it is known"
        );
        for poller in pollers.of.values_mut() {
            (poller.spent, poller.at) = (Duration::from_secs(1), at(end));
        }
        assert!(!pollers.may_answer(at(end), member(most), &lan));
        assert!(pollers.may_answer(at(end + 60_000), member(most), &lan));
    }
}
