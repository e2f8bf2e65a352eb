//! The second phase of a reformation: all have accepted, the old configuration is finished and the
//! new one begins (000 ch. 8; EVS).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use groupcast_core::{ConfigId, Configuration, ConfigurationKind, Event, MemberId, Time};

use super::config::OrderRule;
use super::delivery::note_early;
use super::numbers::{Number, Tag};
use super::operational::Operational;
use super::order::Order;
use super::recovering::Recovering;
use super::wire::Message;
use super::{Rmp, State, Timer};
use crate::packing::refused;

impl Recovering {
    /// Finishes the old configuration (EVS): the rest of the regular one, the transitional one and
    /// its messages. Those of `local`'s own messages that came early in the latter; others have
    /// them, too, so that they must not be sent again.
    fn finish_old(&mut self, local: MemberId, emit: &mut dyn FnMut(Event)) -> Vec<u64> {
        let (Some(old), Some(plan)) = (&mut self.old, &self.plan) else {
            return Vec::new();
        };
        let mut own_early = core::mem::take(&mut old.lists.own_early);
        let emit = &mut |event| {
            note_early(local, &mut own_early, &event);
            emit(event);
        };
        let (closing, together) = (&plan.closing, &plan.together);
        old.deliver_regular_end(together, closing.safe, emit);
        emit(Event::Configuration(Configuration {
            kind: ConfigurationKind::Transitional,
            id: old.id,
            members: closing.members.clone(),
            left: self.proposal.left.clone(),
        }));
        old.deliver_transitional(together, closing, &self.proposal.left, emit);
        own_early
    }

    /// Up to which number this member's packets in the old configuration have a place that it knew
    /// when it declared what it holds.
    fn known_in_old(&self, local: MemberId, rule: OrderRule) -> Option<Number> {
        let old = self.old.as_ref()?;
        let declared = self.declared(local)?.members.get(old.me.at());
        Some(match rule {
            OrderRule::Settled => declared.map(|it| it.known).unwrap_or_default(),
            OrderRule::Heard => old.marks().known,
        })
    }
}

impl Rmp {
    pub(super) fn handle_accept(&mut self, now: Time, from: MemberId, config: ConfigId) {
        let local = self.local;
        match &mut self.state {
            State::Recovering(recovering) => {
                if recovering.id() == config {
                    if recovering.note_accepted(from) {
                        self.install_if_all_accepted(now);
                    }
                } else if recovering.is_proposer(local)
                    && recovering.has(from)
                    && !recovering.accepted.contains(&from)
                {
                    // It goes along with another proposal, and cannot with this one.
                    self.counters.polls_aborted += 1;
                    if self.ends_stranded(now) {
                        return;
                    }
                    let longest = self.config.abort_delay_max;
                    let delay = self.rng.duration(longest / 4, longest);
                    self.wait(now, "a member accepted another list", delay, None);
                }
            }
            // It has not heard that all accepted.
            State::Operational(operational) => {
                if operational.order.id == config && config.representative == local {
                    self.outbox.unicast(from, &Message::Install { config });
                }
            }
            State::Polling(polling) => polling.note_busy(now, from),
            State::Standby(_) => self.ask_for_proposal(now, from, config),
            State::Joining(_) | State::Left(_) => {}
        }
    }

    pub(super) fn install_if_all_accepted(&mut self, now: Time) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        let all = recovering
            .members()
            .all(|member| recovering.accepted.contains(&member));
        if recovering.is_proposer(local) && recovering.complete && all {
            let config = recovering.id();
            self.outbox.multicast(&Message::Install { config });
            self.install(now);
        }
    }

    /// The second phase: all have accepted.
    pub(super) fn handle_install(&mut self, now: Time, from: MemberId, config: ConfigId) {
        if let State::Recovering(recovering) = &self.state
            && recovering.id() == config
            && recovering.has(from)
            && recovering.complete
        {
            self.install(now);
        }
    }

    /// A datagram of the proposed configuration came: it was installed.
    pub(super) fn install_if_begun(&mut self, now: Time, from: MemberId, tag: Tag) {
        if let State::Recovering(recovering) = &self.state
            && Tag::from(recovering.id()) == tag
        {
            self.handle_install(now, from, recovering.id());
        }
    }

    /// Finishes the old configuration and begins the new one.
    fn install(&mut self, now: Time) {
        let (local, config) = (self.local, &self.config);
        let recovering = self.state.expect_recovering();
        let events = &mut self.events;
        let own_early = recovering.finish_old(local, &mut |it| events.push_back(it));
        config.plants().old_finished(events);
        if let Some(known) = recovering.known_in_old(local, config.order) {
            self.queue.settle(known);
        }
        let proposal = &recovering.proposal;
        let members: Vec<MemberId> = recovering.members().collect();
        events.push_back(Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: proposal.config,
            members: members.clone(),
            left: proposal.left.clone(),
        }));
        let mut order = Order::new(
            proposal.config,
            members,
            local,
            proposal.start,
            usize::from(proposal.body_max),
            config,
        );
        (order.max_n, order.own_max_n) = recovering.max_n(&self.claims, local);
        if order.is_minority() {
            // They wait for nothing that could come: their sender is told.
            let numbers = self.queue.take_majority();
            events.extend(numbers.into_iter().map(|number| refused(local, number)));
        }
        config.plants().restart(&mut self.queue, &own_early);
        let excluded = recovering.excluded();
        let parted = core::mem::take(&mut recovering.parted);
        self.exclude(now, excluded, &parted);
        self.begin(now, order);
    }

    /// These `members` are in quarantine from now on. Where one has `parted` from this member
    /// before, that only answers it.
    fn exclude(&mut self, now: Time, members: BTreeSet<MemberId>, parted: &BTreeSet<MemberId>) {
        let lengths = self.config.quarantines();
        for member in members {
            if self.peers.quarantine(now, member, lengths) && parted.contains(&member) {
                self.peers.gave_us_up(member);
            }
            self.accuse(now, member);
        }
    }

    /// Nobody answered the poll of a member that was alone and has nothing to finish: it stays in
    /// the configuration that it has. Those that it wanted are as if a new one had excluded them.
    pub(super) fn stay_alone(&mut self, now: Time) {
        let polling = self.state.expect_polling();
        let mut order = polling.old.take().expect("it was alone in one");
        // All that it sent has its place here: nothing is left to send again elsewhere.
        order.places_end = None;
        let left = core::mem::take(&mut polling.left);
        let mut wanted = core::mem::take(&mut polling.wanted);
        wanted.remove(&self.local);
        let parted = core::mem::take(&mut polling.parted);
        self.exclude(now, wanted, &parted);
        self.go_on(now, "nobody answers", order, left);
    }

    /// The new configuration is installed: begins to work in it.
    fn begin(&mut self, now: Time, order: Order) {
        self.peers.note_installed(order.id.counter);
        let old = self.state.installed().map(|old| &*old.members);
        self.brittle
            .note_installed(now, old.unwrap_or_default(), &order.members);
        self.flow.restart();
        self.timing.restart();
        self.askers.clear();
        self.claims.clear();
        self.polls_told.clear();
        self.counters.configurations += 1;
        let gone = core::mem::take(&mut self.state.expect_recovering().gone);
        self.go_on(now, "all have accepted", order, gone);
    }

    /// Works in the configuration of `order`, of which `left` have said good-bye.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        cause: &'static str,
        order: Order,
        left: BTreeSet<MemberId>,
    ) {
        self.timers.cancel_all_but(Timer::KEPT);
        self.answered.installed();
        self.transition(cause, |_| {
            let mut operational = Operational::new(order);
            operational.left = left;
            State::Operational(operational.into())
        });
        self.plan_silence(now);
        self.plan_announcement(now);
        self.flush_unordered();
        self.act(now);
    }
}
