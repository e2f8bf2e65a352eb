//! For whom a poller waits: members of one configuration that hear each other go on together, so
//! one that has answered waits for the others.

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

    /// Whether this member is alone, and another one that it wants has answered from the
    /// configuration of `from`. It does not come between them, whatever it thinks of `from`.
    pub(super) fn goes_along(&self, from: MemberId, answer: &Answer) -> bool {
        let is_alone = self.old.as_ref().is_none_or(Order::is_alone);
        is_alone && self.answers_of(self.config_of(from, &answer.inventory)) > 0
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
        // Who is before a list does not know how many are behind it.
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
    /// as long to answer as whom this member wanted from the beginning.
    pub(super) fn wait_for_others(&mut self, now: Time) {
        let until = now + self.config.poll_wait;
        let due = self.timers.due(Timer::Deadline);
        self.timers
            .set(Timer::Deadline, due.map_or(until, |due| due.max(until)));
    }

    /// Who was wanted has had its time to answer. Who goes along with another meanwhile has more.
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
