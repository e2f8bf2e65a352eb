//! The second phase of a reformation: all have accepted, the old configuration is finished and the
//! new one begins (000 ch. 8; EVS).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, Configuration, ConfigurationKind, Event, MemberId, Time};

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
    /// its messages. Returns the own messages of `local` that came early in the latter: others have
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

    /// Up to which number this member's packets have a place in the old configuration by which all
    /// go that finish it: one that it knew when it declared what it holds, or that an ACK settles.
    /// What it has learned since is known to none of the others, and counts for nothing.
    fn settled_in_old(&self, local: MemberId) -> Option<Number> {
        let (old, plan) = (self.old.as_ref()?, self.plan.as_ref()?);
        let me = old.me.at();
        let declared = self.declared(local)?.members.get(me);
        let known = declared.map(|it| it.known).unwrap_or_default();
        let heard = old.heard_in(&plan.together).get(me).copied();
        Some(known.max(heard.unwrap_or_default()))
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
                    self.state.expect_recovering().note_turned_away(from);
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
        if let Some(settled) = recovering.settled_in_old(local) {
            self.queue.settle(settled);
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
            usize::from(proposal.body_max()),
            config,
        );
        order.sizes.clone_from(&proposal.sizes);
        (order.max_n, order.own_max_n) = recovering.max_n(&self.claims, local);
        if order.is_minority() {
            // They wait for nothing that could come: their sender is told.
            let numbers = self.queue.take_majority();
            events.extend(numbers.into_iter().map(|number| refused(local, number)));
        }
        config.plants().restart(&mut self.queue, &own_early);
        let excluded = recovering.excluded();
        let parted = core::mem::take(&mut recovering.parted);
        let proposer = recovering.id().representative;
        let witness = Some(proposer).filter(|it| *it != local);
        self.exclude(now, excluded, &parted, witness);
        self.begin(now, order);
    }

    /// These `members` are in quarantine from now on, on the word of the `witness` that proposed a
    /// configuration without them, if another one did. Where one has `parted` from this member
    /// before, that only answers it.
    fn exclude(
        &mut self,
        now: Time,
        members: BTreeSet<MemberId>,
        parted: &BTreeSet<MemberId>,
        witness: Option<MemberId>,
    ) {
        let lengths = self.config.quarantines();
        for member in members {
            let old = self.state.installed();
            let was_with = old.is_some_and(|old| old.members.contains(&member));
            let was_away = self.absences.note_excluded(now, member, was_with);
            let has_parted = parted.contains(&member);
            let forgiven = was_away && !has_parted && self.peers.forgive(now, member, lengths.min);
            let begins = self.peers.quarantine(now, member, lengths);
            if begins && has_parted {
                self.peers.gave_us_up(member);
            }
            if let Some(witness) = witness.filter(|_| begins) {
                self.peers.took_word(now, member, witness);
            }
            self.accuse(now, member);
            self.need_answers(member);
            if begins && forgiven {
                self.probes.note_silent(member);
            }
        }
    }

    /// Nobody answered the poll of a member that was alone and has nothing to finish: it stays in
    /// the configuration that it has. Those that it wanted are as if a new one had excluded them.
    pub(super) fn stay_alone(&mut self, now: Time) {
        let polling = self.state.expect_polling();
        let mut order = polling.old.take().expect("it was alone in one");
        // All that it sent has its place here: nothing is left to send again elsewhere.
        order.places_end = None;
        order.heard_end = Seq::MAX;
        let left = core::mem::take(&mut polling.left);
        let mut wanted = core::mem::take(&mut polling.wanted);
        wanted.remove(&self.local);
        let parted = core::mem::take(&mut polling.parted);
        self.exclude(now, wanted, &parted, None);
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
        self.works_since = now;
        if self.absences.end(now, &order.members) {
            self.brittle.note_absence(now);
        }
        self.timers.cancel_all_but(Timer::KEPT);
        self.answered.installed();
        self.pollers.rest(now);
        self.transition(cause, |_| {
            let mut operational = Operational::new(order);
            operational.left = left;
            State::Operational(operational.into())
        });
        self.plan_silence(now);
        self.plan_first_announcement(now);
        self.flush_unordered();
        self.act(now);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec;

    use groupcast_core::mech::peers::Attempt;
    use groupcast_core::mech::send_queue::Backlog;
    use groupcast_core::{Rng, Service};

    use super::*;
    use crate::packing::Record;
    use crate::rmp::config::{OrderRule, RmpConfig};
    use crate::rmp::fixtures::{config, member};
    use crate::rmp::numbers::{Marks, Packets, Stamp};
    use crate::rmp::order::{Heard, Packet};
    use crate::rmp::outgoing::Outgoing;
    use crate::rmp::plan::Plan;
    use crate::rmp::polling::Polling;
    use crate::rmp::wire::{Ack, Inventory, Proposal};

    /// The order of one of three members with `order = heard`; 0 has the token.
    fn order(me: u64) -> Order {
        let settings = RmpConfig {
            order: OrderRule::Heard,
            ..RmpConfig::lan()
        };
        let members = (0..3).map(member).collect();
        Order::new(config(1), members, member(me), Seq(100), 1431, &settings)
    }

    /// As many messages, each in a packet of its own: the first has one byte, the second two.
    fn said(count: u64) -> (Outgoing, Vec<Packet>) {
        let mut outgoing = Outgoing::default();
        let packets = (1..=count).map(|number| {
            outgoing.push(Record {
                service: Service::Agreed,
                number,
                payload: vec![7; number as usize].into(),
            });
            let (body, _) = outgoing.pack(1431).expect("a message waits");
            Packet { version: 0, body }
        });
        let packets = packets.collect();
        (outgoing, packets)
    }

    /// The ACK of this timestamp, which puts these packets at `first` and behind.
    fn ack(stamp: u8, first: u64, packets: &[(u8, u64)]) -> Ack {
        let packets = packets.iter().map(|(origin, number)| Packets {
            origin: *origin,
            first: Number(*number),
            count: 1,
        });
        Ack {
            again: true,
            issuer: (stamp - 1) % 3,
            next: stamp % 3,
            tag: config(1).into(),
            stamp: Stamp(stamp.into()),
            first: Seq(first),
            marks: Marks::default(),
            packets: packets.collect(),
        }
    }

    /// Member 2 begins to finish `old` together with those that declare `others`.
    fn recovering(old: Order, others: &[(u64, Inventory)]) -> Recovering {
        let mut inventories: BTreeMap<MemberId, Inventory> = others
            .iter()
            .map(|(site, inventory)| (member(*site), inventory.clone()))
            .collect();
        inventories.insert(member(2), old.inventory());
        let proposal = Proposal {
            attempt: Attempt(1),
            config: config(2),
            start: Seq(200),
            max_n: 3,
            left: Vec::new(),
            members: inventories.keys().map(|it| (*it, old.id)).collect(),
            sizes: vec![1431; inventories.len()],
        };
        let before = State::Polling(Polling {
            old: Some(old),
            ..Polling::default()
        });
        let mut recovering = Recovering::new(proposal, member(2), inventories, before);
        let old = recovering.old.as_mut().expect("it was polling with one");
        let plan = Plan::new(&recovering.inventories, member(2), old, &mut |_| {});
        recovering.plan = Some(plan.into());
        recovering
    }

    /// What of its own member 2 delivers at the end, and how many bytes it sends again.
    fn finished(mut recovering: Recovering, mut outgoing: Outgoing) -> (Vec<u64>, usize) {
        let mut delivered = Vec::new();
        let own_early = recovering.finish_old(member(2), &mut |event| {
            if let Event::Deliver(it) = event
                && it.id.sender == member(2)
            {
                delivered.push(it.id.number);
            }
        });
        let settled = recovering.settled_in_old(member(2));
        outgoing.settle(settled.expect("it comes from a configuration"));
        outgoing.restart(&own_early);
        (delivered, outgoing.bytes())
    }

    #[test]
    fn what_was_counted_in_a_configuration_stays_counted_in_the_next_one() {
        let now = Time::from_millis(1);
        let mut rmp = Rmp::new(RmpConfig::lan(), member(2), Rng::new(1), now).expect("valid");
        let mut old = order(2);
        old.streams[1].malformed = 3;
        let theirs = order(1).inventory();
        rmp.state = State::Recovering(recovering(old, &[(1, theirs)]).into());
        assert_eq!(rmp.status().counters.malformed, 3);
        let members = (0..3).map(member).collect();
        let next = Order::new(config(2), members, member(2), Seq(200), 1431, &rmp.config);
        rmp.begin(now, next);
        assert_eq!(rmp.configuration(), Some(config(2)));
        assert_eq!(rmp.status().counters.malformed, 3);
    }

    /// Member 1 holds the first position of an ACK and not the second, where member 2's packet
    /// stands; what repairs the first one tells member 2 of the second.
    #[test]
    fn a_place_that_is_learned_in_recovery_is_no_place_of_an_own_packet() {
        let (_, other) = said(1);
        let (outgoing, own) = said(1);
        let both = ack(1, 101, &[(0, 1), (2, 1)]);
        let mut theirs = order(1);
        theirs.insert(0, Number(1), other[0].clone());
        assert_eq!(theirs.take_ack(&both), Heard::Newest);
        let mut mine = order(2);
        mine.insert(2, Number(1), own[0].clone());
        let mut recovering = recovering(mine, &[(1, theirs.inventory())]);
        let old = recovering.old.as_mut().expect("one");
        old.insert(0, Number(1), other[0].clone());
        assert_eq!(old.take_ack(&both), Heard::Newest);
        assert_eq!(old.acknowledged(), Number(1));
        assert_eq!(finished(recovering, outgoing), (vec![], 1));
    }

    /// The ACK of the first packet was lost, and that of the second was heard.
    #[test]
    fn a_packet_behind_a_gap_has_no_place_and_comes_once_in_its_turn() {
        let (outgoing, own) = said(2);
        let mut mine = order(2);
        for (number, packet) in (1..).zip(own) {
            mine.insert(2, Number(number), packet);
        }
        assert_eq!(mine.take_ack(&ack(2, 102, &[(2, 2)])), Heard::Newest);
        let theirs = order(1).inventory();
        let recovering = recovering(mine, &[(1, theirs)]);
        assert_eq!(finished(recovering, outgoing), (vec![], 3));
    }

    /// What member 1 may have delivered when it heard the ACKs is delivered, and not sent again,
    /// although member 2 has heard none.
    #[test]
    fn a_place_at_which_another_was_ready_is_settled() {
        let (outgoing, own) = said(2);
        let mut theirs = order(1);
        let mut mine = order(2);
        theirs.insert(2, Number(1), own[0].clone());
        for (number, packet) in (1..).zip(own) {
            mine.insert(2, Number(number), packet);
        }
        let acks = [ack(1, 101, &[(2, 1)]), ack(2, 102, &[(2, 2)])];
        for ack in &acks {
            assert_eq!(theirs.take_ack(ack), Heard::Newest);
        }
        assert_eq!(theirs.ready, Seq(101));
        let mut recovering = recovering(mine, &[(1, theirs.inventory())]);
        let old = recovering.old.as_mut().expect("one");
        assert_eq!(old.take_ack(&acks[0]), Heard::Newest);
        assert_eq!(finished(recovering, outgoing), (vec![1], 2));
    }

    /// Member 1 installs the next configuration and relies on it that member 2 sends its packet
    /// again; member 2 does not, and finishes the old one once more, alone.
    #[test]
    fn who_has_accepted_sends_again_what_had_no_settled_place_then() {
        let (_, other) = said(1);
        let (outgoing, own) = said(1);
        let acks = [ack(1, 101, &[(0, 1)]), ack(2, 102, &[(2, 1)])];
        let mut theirs = order(1);
        theirs.insert(2, Number(1), own[0].clone());
        for ack in &acks {
            assert_eq!(theirs.take_ack(ack), Heard::Newest);
        }
        assert_eq!(theirs.ready, Seq(100), "it lacks the packet of member 0");
        let mut mine = order(2);
        mine.insert(0, Number(1), other[0].clone());
        mine.insert(2, Number(1), own[0].clone());
        assert_eq!(mine.take_ack(&acks[0]), Heard::Newest);
        let mut first = recovering(mine, &[(1, theirs.inventory())]);
        let plan = first.plan.take().expect("it was made");
        let mut old = first.old.take().expect("one");
        assert_eq!(old.take_ack(&acks[1]), Heard::Newest);
        assert!(plan.lacks(&old).is_empty());
        assert_eq!((old.ready, old.marks().known), (Seq(102), Number(1)));
        old.oblige(plan.closing.bound, &plan.together, plan.closing.safe);
        assert_eq!((old.ready, old.marks().known), (Seq(101), Number(0)));
        // Member 0 may have delivered it: then it has that place.
        let mut ready = old.inventory();
        ready.members[0].ready = Seq(102);
        let with_ready = recovering(old.clone(), &[(0, ready)]);
        assert_eq!(with_ready.settled_in_old(member(2)), Some(Number(1)));
        let again = recovering(old, &[]);
        assert_eq!(finished(again, outgoing), (vec![], 1));
    }
}
