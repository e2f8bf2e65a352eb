//! For which members a poller waits: those of one configuration that hear each other go on
//! together, so a poller to which one of them has answered waits for the others.

use core::time::Duration;

use groupcast_core::{ConfigId, MemberId, Time};

use super::catching_up::comes_from;
use super::order::Order;
use super::polling::Polling;
use super::standby::POLLS_MISSED;
use super::wire::{Answer, Inventory};
use super::{Rmp, Timer};

impl Polling {
    /// How many members that come from `config` have answered.
    pub(super) fn answers_of(&self, config: ConfigId) -> usize {
        let answers = self.answers.iter();
        let of_it =
            answers.filter(|(member, it)| self.config_of(**member, &it.inventory) == config);
        of_it.count()
    }

    /// The configuration that a member comes from, as far as the answers tell.
    pub(super) fn config_of(&self, member: MemberId, inventory: &Inventory) -> ConfigId {
        let all = self.answers.values().map(|answer| &answer.inventory);
        comes_from(member, inventory, all)
    }

    /// Whether `local`, which polls, is alone, and another member has answered that comes from the
    /// configuration of `from`. It does not come between the two, whatever it thinks of `from`.
    pub(super) fn goes_along(&self, local: MemberId, from: MemberId, answer: &Answer) -> bool {
        let is_alone = self.old.as_ref().is_none_or(Order::is_alone);
        let config = self.config_of(from, &answer.inventory);
        let mut others = self.answers.iter().filter(|(member, _)| **member != local);
        is_alone && others.any(|(member, it)| self.config_of(*member, &it.inventory) == config)
    }

    /// Whether all members of every other configuration have answered from which one has: the
    /// poller does not know their names, but how many there are. Those of its own are wanted.
    pub(super) fn groups_are_whole(&self) -> bool {
        let own = self.old.as_ref().map(|old| old.id);
        let answers = self.answers.iter();
        let from = answers.map(|(member, it)| {
            let from = self.config_of(*member, &it.inventory);
            (from, &it.inventory)
        });
        // A member before a list does not know how many are behind it.
        let mut others = from.filter(|(from, it)| Some(*from) != own && it.holding.config == *from);
        others.all(|(from, it)| self.answers_of(from) >= it.size())
    }

    /// A member goes along with another poller or proposer: it lives, and may answer this poll
    /// later.
    pub(super) fn note_busy(&mut self, now: Time, from: MemberId) {
        if self.wanted.contains(&from) && !self.answers.contains_key(&from) {
            self.busy.insert(from, now);
        }
    }

    /// Whether one that is wanted, and has not answered, was busy less than `recent` ago.
    pub(super) fn waits_for_busy(&self, now: Time, recent: Duration) -> bool {
        let missing =
            |member: &MemberId| self.wanted.contains(member) && !self.answers.contains_key(member);
        let mut busy = self.busy.iter();
        now < self.patience && busy.any(|(member, at)| missing(member) && now.since(*at) < recent)
    }
}

impl Rmp {
    /// A member of another configuration is the first of it to answer: those that were with it have
    /// as long to answer as the members that were wanted from the beginning.
    pub(super) fn wait_for_others(&mut self, now: Time) {
        let until = now + self.config.poll_wait;
        let due = self.timers.due(Timer::Deadline);
        self.timers
            .set(Timer::Deadline, due.map_or(until, |due| due.max(until)));
    }

    /// The wanted members have had their time to answer. Those that go along with another poller or
    /// proposer meanwhile have more.
    pub(super) fn poll_over(&mut self, now: Time) {
        let recent = self.config.poll_interval * POLLS_MISSED;
        if self.state.expect_polling().waits_for_busy(now, recent) {
            let again = now + self.config.poll_interval;
            self.timers.set(Timer::Deadline, again);
        } else {
            self.conclude(now);
        }
    }

    /// Proposes once there is nobody left to wait for.
    pub(super) fn propose_if_all_answered(&mut self, now: Time) {
        let polling = self.state.expect_polling();
        // No other member was heard yet: one may be about to answer.
        let alone = polling.wanted.len() == 1;
        let all = polling
            .wanted
            .iter()
            .all(|member| polling.answers.contains_key(member));
        if all && !alone && polling.groups_are_whole() {
            self.propose(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::mech::closing::Holding;
    use groupcast_core::mech::indices::Indices;
    use groupcast_core::mech::peers::Attempt;
    use groupcast_core::mech::seq::Seq;

    use super::*;
    use crate::rmp::fixtures::{config, member};

    fn answer(from: ConfigId) -> Answer {
        let holding = Holding {
            config: from,
            aru: Seq::ZERO,
            high: Seq::ZERO,
            safe: Seq::ZERO,
            obligations: Indices::default(),
        };
        Answer {
            poller: member(9),
            attempt: Attempt(1),
            counter: 1,
            body_max: 1431,
            inventory: Inventory {
                holding,
                max_n: 3,
                members: Default::default(),
                passed: None,
                size: None,
                held: Default::default(),
            },
        }
    }

    #[test]
    fn who_is_alone_goes_along_with_those_of_a_group_that_has_answered_and_with_nobody_else() {
        let own = ConfigId {
            counter: 0,
            representative: member(9),
        };
        let mut polling = Polling::default();
        polling.answers.insert(member(9), answer(own));
        let takes =
            |polling: &Polling, claims| polling.goes_along(member(9), member(2), &answer(claims));
        assert!(!takes(&polling, config(3)), "nobody has answered");
        polling.answers.insert(member(1), answer(config(3)));
        assert!(takes(&polling, config(3)));
        assert!(!takes(&polling, config(4)), "another group");
        assert!(!takes(&polling, own), "nobody was here with this member");
    }
}
