//! Gather: finding out who is there, until all who are agree on it (Totem, TOCS 1995, section 5).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::mech::peers::{Peers, Stranger};
use groupcast_core::mech::room::fit;
use groupcast_core::status::GivenUp;
use groupcast_core::{MemberId, NodeId, Time};

use super::config::BODY_LEAST;
use super::numbers::{Attempt, Seq};
use super::ordering::Ordering;
use super::wire::{Join, Message};
use super::{Cause, Ring, State, Timer};

/// The members that should be in the next ring, in this member's opinion and in that of the others.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// The ring that was: its packets still come.
    pub(super) old: Option<Ordering>,
    /// Candidates, this member included.
    pub(super) proc: BTreeSet<MemberId>,
    /// Candidates that are given up.
    pub(super) fail: BTreeSet<MemberId>,
    /// Those that have left, as others say, and that were no members when they said it.
    pub(super) told_left: BTreeSet<MemberId>,
    /// Until when this member waits to hear their good-byes itself.
    pub(super) goodbyes_until: Option<Time>,
    /// The last join of each candidate.
    joins: BTreeMap<MemberId, Opinion>,
    /// Those that were in no ring yet, as they said themselves last.
    beginners: BTreeSet<MemberId>,
    /// The members that sent a join since the consensus timer was set.
    heard: BTreeSet<MemberId>,
    /// By whose joins this member learned first of those that others have given up.
    told: BTreeMap<MemberId, MemberId>,
    /// Candidates that have given this member up. It gives them up in turn, a little later.
    accusers: BTreeSet<MemberId>,
    /// Those that this member has given up in turn.
    accused_by: BTreeSet<MemberId>,
    entered: Time,
    /// When the last join went out.
    joined: Option<Time>,
    /// How many times the present opinion went out.
    said: u32,
    /// How many times the consensus timer ran out with everybody talking.
    rounds: u32,
    /// All agree; the commit token must come.
    agreed: bool,
    /// The member that forms the ring has begun anew since all agreed.
    begun_anew: bool,
}

/// A candidate's opinion: its last join.
#[derive(Debug)]
struct Opinion {
    attempt: Attempt,
    proc: BTreeSet<MemberId>,
    fail: BTreeSet<MemberId>,
}

impl Gather {
    /// The members that the ring would have.
    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.proc.difference(&self.fail).copied()
    }

    fn agrees(&self, member: MemberId) -> bool {
        self.joins
            .get(&member)
            .is_some_and(|opinion| opinion.proc == self.proc && opinion.fail == self.fail)
    }

    fn consensus(&self, local: MemberId) -> bool {
        self.members()
            .all(|member| member == local || self.agrees(member))
    }

    /// The attempt of `member`'s join that this member agrees with.
    pub(super) fn attempt_of(&self, member: MemberId) -> Option<Attempt> {
        self.joins.get(&member).map(|opinion| opinion.attempt)
    }

    /// Whether `others` fit into one ring with the members that it would have without them.
    fn has_room(&self, others: impl Iterator<Item = MemberId>, most: usize) -> bool {
        self.proc.len() < Peers::MAX && fit(self.members().chain(others), most)
    }

    /// What `member` says of itself: MaxN is 0 as long as it was in no ring.
    fn note_max_n(&mut self, member: MemberId, max_n: u16) {
        if max_n > 0 {
            self.beginners.remove(&member);
        } else if self.beginners.len() < Peers::MAX {
            self.beginners.insert(member);
        }
    }

    /// These are in a ring.
    pub(super) fn note_ring(&mut self, members: impl IntoIterator<Item = MemberId>) {
        for member in members {
            self.beginners.remove(&member);
        }
    }

    /// `from`, and those that it wants, are too many together with these candidates. If all begin,
    /// each as it said itself, all choose the lowest, so that one ring is full; the others are left
    /// for another. Nobody that may be in a ring is given up for those that begin. Whether `local`
    /// and `from` are among the lowest: then those that are not are given up.
    fn crowds_out(
        &mut self,
        local: MemberId,
        from: MemberId,
        wanted: impl Iterator<Item = MemberId>,
        most: usize,
    ) -> bool {
        let all: BTreeSet<MemberId> = self.members().chain(wanted).collect();
        let begins = |it: &MemberId| *it == local || self.beginners.contains(it);
        if self.old.is_some() || !all.iter().all(begins) {
            return false;
        }
        let all: BTreeSet<NodeId> = all.into_iter().map(|it| it.node).collect();
        let lowest: BTreeSet<NodeId> = all.into_iter().take(most).collect();
        let comes = lowest.contains(&local.node) && lowest.contains(&from.node);
        if comes && self.fail.len() < Peers::MAX {
            let others = self.proc.iter().filter(|it| !lowest.contains(&it.node));
            self.fail.extend(others);
        }
        comes
    }

    /// Another candidate says who has left: that matters of those who will not be in the ring,
    /// given up by now or in an attempt before. `until`: when a good-bye of a member of the old
    /// ring that is not among `goodbyes` will have come here, too, if it comes at all.
    pub(super) fn note_left(
        &mut self,
        left: &[MemberId],
        goodbyes: &BTreeSet<MemberId>,
        until: Time,
    ) {
        for member in left {
            let is_member = self.proc.contains(member) && !self.fail.contains(member);
            if is_member || self.told_left.len() >= Peers::MAX {
                continue;
            }
            self.told_left.insert(*member);
            let old = self.old.as_ref();
            // Once: whoever tells of ever more does not delay the ring for ever.
            if old.is_some_and(|ring| ring.has(*member)) && !goodbyes.contains(member) {
                self.goodbyes_until.get_or_insert(until);
            }
        }
    }

    /// Adds candidates as far as there is room. Those that are given up need none: all must name
    /// them, or they never agree. Each life of a node needs a place of its own, since the ring has
    /// an index for each member; of two lives one is given up soon.
    pub(super) fn admit(&mut self, members: impl IntoIterator<Item = MemberId>, most: usize) {
        // Not a difference of lengths: members may be given up that never were candidates.
        let mut room = most.saturating_sub(self.members().count());
        for member in members {
            if self.proc.len() >= Peers::MAX {
                return;
            }
            let given_up = self.fail.contains(&member);
            if (given_up || room > 0) && self.proc.insert(member) {
                room -= usize::from(!given_up);
            }
        }
    }
}

/// All candidates talk but disagree for this many time-outs: those who disagree are given up.
const ROUNDS: u32 = 3;
/// A member that gives up another is given up by it in turn after this many intervals of joins: by
/// then all others have heard who began. Else those that hear only the answer at first would give
/// up both.
const ACCUSED_WAITS: u32 = 2;
/// Joins that answer others are sent at most this often.
const JOIN_SPACING: Duration = Duration::from_millis(1);

impl Ring {
    /// Enters Gather. Candidates are those of `seed`, and of whatever ring there was or was about
    /// to be; those given up stay given up only while gathering goes on.
    pub(super) fn gather(&mut self, now: Time, cause: impl Into<Cause>, seed: Gather) {
        let mut next = seed;
        next.proc.extend(self.candidates());
        self.call_the_roll(now);
        match &mut self.state {
            State::Gather(gather) => {
                next.fail.append(&mut gather.fail);
                next.told.append(&mut gather.told);
                next.told_left.append(&mut gather.told_left);
                next.goodbyes_until = gather.goodbyes_until;
            }
            State::Left(_) => return,
            State::Operational(_) | State::Commit(_) | State::Recovery(_) => {}
        }
        next.proc.insert(self.local);
        next.fail.remove(&self.local);
        next.entered = now;
        self.timers.cancel_all_but(&[Timer::Leave, Timer::Probe]);
        if let Some(member) = self.passed.unanswered_call() {
            self.reach.note_unanswered_call(now, member);
        }
        self.passed.clear();
        self.flow.token_went(now, false);
        self.priority = groupcast_core::SocketClass::Control;
        if matches!(self.state, State::Operational(_) | State::Recovery(_)) {
            self.flow.ring_broke();
        }
        self.transition(cause, |before| {
            let old = before.into_installed();
            State::Gather(Gather { old, ..next })
        });
        self.change_mind(now);
    }

    /// The members of the present ring, of the one that forms, or the candidates for the next.
    pub(super) fn candidates(&self) -> BTreeSet<MemberId> {
        match &self.state {
            State::Operational(operational) => {
                operational.ordering.members.iter().copied().collect()
            }
            State::Commit(commit) => commit.members().collect(),
            State::Recovery(recovery) => recovery.ordering.members.iter().copied().collect(),
            State::Gather(gather) => gather.proc.clone(),
            State::Left(_) => BTreeSet::new(),
        }
    }

    /// A member of the ring cannot receive: the others go on without it.
    pub(super) fn exclude_deaf(&mut self, now: Time, deaf: MemberId, bytes: usize) {
        self.counters.deaf_excluded += 1;
        self.accuse(now, deaf, GivenUp::MissesPackets { bytes });
        let mut gather = Gather::default();
        gather.fail.insert(deaf);
        let cause = Cause::of("member cannot receive", Some(deaf));
        self.gather(now, cause, gather);
    }

    /// The sets changed: says so, and waits for consensus anew.
    pub(super) fn change_mind(&mut self, now: Time) {
        let gather = self.state.expect_gather();
        self.peers.attempt = self.peers.attempt.next();
        gather.heard.clear();
        gather.said = 0;
        gather.agreed = false;
        gather.begun_anew = false;
        self.timers.cancel(Timer::Loss);
        let timeout = if gather.proc.len() == 1 {
            self.config.alone_after
        } else if !gather.accusers.is_empty() {
            self.config.join_interval * ACCUSED_WAITS
        } else {
            self.config.consensus_timeout
        };
        self.timers.set(Timer::Consensus, now + timeout);
        self.join_soon(now);
        self.check_consensus(now);
    }

    /// Sends a join now, or a moment later if one has just gone out.
    pub(super) fn join_soon(&mut self, now: Time) {
        match self.state.expect_gather().joined {
            Some(joined) if now.since(joined) < JOIN_SPACING => {
                self.timers.set(Timer::Join, joined + JOIN_SPACING);
            }
            _ => self.repeat_join(now),
        }
    }

    /// It is time for the next join; or the one that forms the ring has waited for good-byes.
    pub(super) fn join_again(&mut self, now: Time) {
        self.repeat_join(now);
        if matches!(&self.state, State::Gather(gather) if gather.goodbyes_until.is_some()) {
            self.check_consensus(now);
        }
    }

    pub(super) fn repeat_join(&mut self, now: Time) {
        let heard = self.peers.heard(now);
        // The representative goes on to commit with the timer set.
        let State::Gather(gather) = &mut self.state else {
            return;
        };
        gather.joined = Some(now);
        // A way that carries less than this member's may be among those to the others.
        let most = match gather.said % 2 {
            0 => self.config.body_max,
            _ => BODY_LEAST,
        };
        gather.said += 1;
        let old = gather.old.as_ref();
        let join = Join {
            attempt: self.peers.attempt,
            counter: self.peers.counter(),
            leaving: false,
            proc: gather.proc.iter().copied().collect(),
            fail: gather.fail.iter().copied().collect(),
            left: self.goodbyes.iter().copied().collect(),
            heard,
            high: old.map_or(Seq::ZERO, |old| old.window.high()),
            max_n: old.map_or(0, |old| old.without(old.own_max_n, &self.goodbyes) as u16),
        };
        self.outbox.multicast_in_parts(&Message::Join(join), most);
        let interval = self.config.join_interval;
        let delay = self.rng.duration(interval * 3 / 4, interval * 5 / 4);
        self.timers.set(Timer::Join, now + delay);
    }

    pub(super) fn handle_join(&mut self, now: Time, from: MemberId, join: Join) {
        let knows = |member| self.state.knows(member);
        let Some(fresh) = self.peers.note_attempt(now, from, join.attempt, knows) else {
            self.counters.joins_stale += 1;
            return;
        };
        let fresh = fresh && !self.state.is_formed_by(from, join.attempt);
        self.peers.note_counter(join.counter);
        if join.leaving {
            self.handle_goodbye(now, from);
            return;
        }
        self.claims.note(from, join.max_n, join.high);
        self.note_invitation(now, from, &join);
        self.weigh_word(now, from);
        if !self.peers.is_quarantined(now, from) {
            self.peers.note_heard(now, from);
        }
        if self.comes_and_goes(now, from, &join.heard) {
            self.leave_out(now, from);
            return;
        }
        match &self.state {
            State::Gather(_) => self.gather_join(now, from, &join),
            State::Operational(_) => self.operational_join(now, from, &join, fresh),
            State::Commit(commit) if fresh && commit.has(from) => self.rejoin(now, from, &join),
            State::Recovery(recovery) if fresh && recovery.ordering.members.contains(&from) => {
                self.rejoin(now, from, &join);
            }
            State::Commit(_) | State::Recovery(_) | State::Left(_) => {
                self.counters.joins_stale += 1;
            }
        }
    }

    /// `from` may want this member in, which may have it in quarantine.
    fn note_invitation(&mut self, now: Time, from: MemberId, join: &Join) {
        if join.fail.contains(&self.local) {
            return;
        }
        if join.proc.contains(&self.local) && self.is_alone() {
            // The others decide how soon they try it again with this member: a second quarantine,
            // here, would only end at another time than theirs.
            self.peers.release(now, from);
        } else if join.heard.contains(&self.local) {
            let min = self.config.quarantine_min;
            self.peers.hears_us(now, from, min);
        }
    }

    /// A member of the forming ring has changed its mind.
    fn rejoin(&mut self, now: Time, from: MemberId, join: &Join) {
        let mut gather = Gather::default();
        // It may have changed its mind because the token stays away from it, or because it waits
        // behind a member from which it stays away.
        if self.passed.is_stuck() && self.passed.unacknowledged() != Some(from) {
            gather.fail.extend(self.give_up_unacknowledged(now));
        }
        self.gather(now, Cause::of("newer join", Some(from)), gather);
        self.gather_join(now, from, join);
    }

    fn operational_join(&mut self, now: Time, from: MemberId, join: &Join, fresh: bool) {
        let ring = &self.state.expect_operational().ordering;
        if ring.members.contains(&from) {
            if fresh {
                let cause = Cause::of("member gathers", Some(from));
                self.gather(now, cause, Gather::default());
                self.gather_join(now, from, join);
            } else {
                self.counters.joins_stale += 1;
            }
            return;
        }
        if join.fail.contains(&self.local) {
            return;
        }
        let (peers, members) = (&mut self.peers, &ring.members);
        let evidence = peers.evidence(now, from, &join.heard, self.local, members);
        let both = members.iter().copied().chain(join.wanted(from));
        let room = fit(both, self.config.members_max);
        match self.peers.stranger(now, from, evidence, &ring.members) {
            Stranger::Answer => self.answer_stranger(now),
            Stranger::LetIn if room => {
                let mut gather = Gather::default();
                gather.proc.insert(from);
                self.gather(now, Cause::of("stranger joins", Some(from)), gather);
                self.gather_join(now, from, join);
            }
            Stranger::LetIn => self.refuse(now, from),
            Stranger::Ignore => {}
        }
    }

    /// Takes a join into account (Totem's rules for the proc and fail sets).
    fn gather_join(&mut self, now: Time, from: MemberId, join: &Join) {
        let quarantined = self.peers.is_quarantined(now, from);
        let local = self.local;
        let goodbyes_until = now + self.config.goodbyes_within();
        let gather = self.state.expect_gather();
        if gather.fail.contains(&from) {
            return;
        }
        gather.note_max_n(from, join.max_n);
        let stranger = !gather.proc.contains(&from);
        if stranger && quarantined {
            return;
        }
        if join.fail.contains(&local) {
            // It has given us up, so we give it up.
            if !stranger {
                self.note_accuser(now, from);
            }
            return;
        }
        if gather.accusers.remove(&from) && gather.accusers.is_empty() {
            let timeout = self.config.consensus_timeout;
            self.timers.set(Timer::Consensus, now + timeout);
        }
        let hears_us = join.heard.iter().any(|member| gather.proc.contains(member));
        if stranger && !hears_us {
            self.join_soon(now);
            return;
        }
        let most = self.config.members_max;
        if stranger
            && !gather.has_room(join.wanted(from), most)
            && !gather.crowds_out(local, from, join.wanted(from), most)
        {
            return;
        }
        let before = (gather.proc.len(), gather.fail.len());
        let namesake = gather
            .proc
            .iter()
            .copied()
            .find(|other| other.node == from.node && *other != from);
        if let Some(old) = namesake.filter(|old| !gather.fail.contains(old)) {
            if gather.heard.contains(&old) {
                return;
            }
            gather.fail.insert(old);
        }
        // Before its candidates: whom it has given up takes no room.
        let room = Peers::MAX.saturating_sub(gather.fail.len());
        let given_up = join.fail.iter().copied().filter(|member| *member != local);
        for member in given_up.take(room) {
            if gather.fail.insert(member) {
                gather.told.insert(member, from);
            }
        }
        gather.admit([from], most);
        gather.admit(join.proc.iter().copied(), most);
        let given_up = &gather.fail;
        gather.accusers.retain(|member| !given_up.contains(member));
        gather.note_left(&join.left, &self.goodbyes, goodbyes_until);
        let opinion = Opinion {
            attempt: join.attempt,
            proc: join.proc.iter().copied().collect(),
            fail: join.fail.iter().copied().collect(),
        };
        let last = gather.joins.insert(from, opinion);
        if before != (gather.proc.len(), gather.fail.len()) {
            self.change_mind(now);
        } else if gather.agreed && last.is_some_and(|last| last.attempt < join.attempt) {
            self.wait_anew(now, from);
        } else {
            self.check_consensus(now);
        }
        if let State::Gather(gather) = &mut self.state {
            gather.heard.insert(from);
        }
    }

    /// All agree, and `from` has a new attempt at the same ring. If it forms the ring, its commit
    /// token did not get through to somebody, and it tries once more before it gives that one up. A
    /// member that waits behind must not give up the one that forms the ring meanwhile: it would go
    /// to and fro between two members that do not hear each other.
    fn wait_anew(&mut self, now: Time, from: MemberId) {
        let gather = self.state.expect_gather();
        if gather.members().next() != Some(from) || gather.begun_anew || !gather.agrees(from) {
            return;
        }
        gather.begun_anew = true;
        self.timers
            .set(Timer::Loss, now + self.config.forming_loss());
    }

    /// `from` has given this member up. Whoever is given up by all others goes on alone at once.
    fn note_accuser(&mut self, now: Time, from: MemberId) {
        let local = self.local;
        let gather = self.state.expect_gather();
        gather.joins.remove(&from);
        if !gather.accusers.insert(from) {
            return;
        }
        // The ring that was agreed on does not come about.
        gather.agreed = false;
        self.timers.cancel(Timer::Loss);
        let accuses = |member| member == local || gather.accusers.contains(&member);
        if gather.members().all(accuses) {
            self.consensus_timeout(now);
            return;
        }
        let later = now + self.config.join_interval * ACCUSED_WAITS;
        let due = self.timers.due(Timer::Consensus);
        let due = due.map_or(later, |due| due.min(later));
        self.timers.set(Timer::Consensus, due);
    }

    /// Members of another ring that hears this member.
    pub(super) fn gather_strangers(&mut self, now: Time, from: MemberId, members: &[MemberId]) {
        let gather = self.state.expect_gather();
        if gather.proc.iter().any(|other| other.node == from.node) {
            return;
        }
        let (before, most) = (gather.proc.len(), self.config.members_max);
        if !gather.has_room(members.iter().copied().chain([from]), most) {
            return;
        }
        gather.admit([from], most);
        gather.admit(members.iter().copied(), most);
        if gather.proc.len() != before {
            self.change_mind(now);
        }
    }

    pub(super) fn gather_goodbye(&mut self, now: Time, from: MemberId) {
        let gather = self.state.expect_gather();
        if !gather.proc.contains(&from) {
            return;
        }
        if gather.fail.insert(from) {
            self.change_mind(now);
        } else {
            self.check_consensus(now);
        }
    }

    /// All candidates agree: the lowest forms the ring, the others wait for its commit token.
    fn check_consensus(&mut self, now: Time) {
        let gather = self.state.expect_gather();
        if gather.agreed || !gather.consensus(self.local) {
            return;
        }
        // No other member was heard yet: one may be about to answer.
        if gather.proc.len() == 1 && now.since(gather.entered) < self.config.alone_after {
            return;
        }
        if gather.members().next() == Some(self.local)
            && let Some(until) = self.awaits_goodbyes(now)
        {
            self.timers.set(Timer::Join, until);
            return;
        }
        let gather = self.state.expect_gather();
        gather.agreed = true;
        self.timers.cancel(Timer::Consensus);
        self.quarantine_excluded(now);
        let gather = self.state.expect_gather();
        if gather.members().next() == Some(self.local) {
            self.form(now);
        } else {
            self.timers
                .set(Timer::Loss, now + self.config.forming_loss());
        }
    }

    /// The next ring is without those that were given up: all of its members quarantine them, those
    /// too that the commit token reaches before they have heard that all agree. One that talks, or
    /// was given up by a newcomer, made way for newcomers; one that is silent may have stopped by
    /// chance while they were let in. One that was given up because others did, and was not heard
    /// here either, is probed from here, too: its way to this member may be the only one that is
    /// closed, and nobody else would see it open.
    pub(super) fn quarantine_excluded(&mut self, now: Time) {
        let lengths = self.config.quarantines();
        let gather = self.state.expect_gather();
        let members: Vec<MemberId> = gather.members().collect();
        self.peers.note_agreed(&members);
        let mut unheard = Vec::new();
        let left = |it| self.goodbyes.contains(it) || gather.told_left.contains(it);
        for excluded in gather.fail.iter().filter(|it| !left(*it)) {
            let begins = self.peers.quarantine(now, *excluded, lengths);
            if begins {
                let was_with = gather.old.as_ref().is_some_and(|old| old.has(*excluded));
                self.absences.note_excluded(now, *excluded, was_with);
            }
            let accuses = gather.accused_by.contains(excluded);
            if begins && accuses {
                self.peers.gave_us_up(*excluded);
            }
            let told = gather.told.get(excluded).copied();
            let witness = told.filter(|_| !self.probes.asks(*excluded));
            if let Some(witness) = witness.filter(|_| begins) {
                self.peers.took_word(now, *excluded, witness);
            }
            let heard = accuses || gather.joins.contains_key(excluded);
            if begins {
                let others = if heard { &members[..] } else { told.as_slice() };
                self.peers.made_way(now, *excluded, others, lengths);
            }
            if !heard && gather.proc.contains(excluded) {
                unheard.push(*excluded);
            }
        }
        for member in unheard {
            self.accuse(now, member, GivenUp::Silent);
        }
    }

    /// Consensus did not come: gives up those who have given up this member, else those who are
    /// silent; those who talk but disagree only after a while.
    pub(super) fn consensus_timeout(&mut self, now: Time) {
        let gather = self.state.expect_gather();
        let accusers = core::mem::take(&mut gather.accusers);
        let given_up = match accusers.is_empty() {
            true => self.silent_or_late(),
            false => accusers.clone(),
        };
        let gather = self.state.expect_gather();
        // One that has given this member up says nothing to it, and counts as silent, too.
        let is_silent = given_up.iter().all(|it| !gather.heard.contains(it));
        gather.accused_by.extend(accusers);
        gather.fail.extend(given_up.iter().copied());
        for member in given_up {
            match is_silent {
                true => self.give_up_absent(now, member),
                false => self.accuse(now, member, GivenUp::Silent),
            }
        }
        self.change_mind(now);
    }

    /// The candidates that said nothing since the consensus timer was set; if there are none, those
    /// that disagree, once that has happened several times.
    fn silent_or_late(&mut self) -> BTreeSet<MemberId> {
        let local = self.local;
        let gather = self.state.expect_gather();
        let silent: BTreeSet<MemberId> = gather
            .members()
            .filter(|member| *member != local && !gather.heard.contains(member))
            .collect();
        if !silent.is_empty() {
            return silent;
        }
        gather.rounds += 1;
        let late = gather.rounds >= ROUNDS;
        gather
            .members()
            .filter(|member| late && *member != local && !gather.agrees(*member))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    fn members(nodes: core::ops::Range<u64>) -> impl Iterator<Item = MemberId> {
        nodes.map(|node| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        })
    }

    #[test]
    fn who_left_is_noted_unless_it_is_to_be_a_member() {
        let mut gather = Gather::default();
        gather.proc.extend(members(0..4));
        gather.fail.extend(members(3..4));
        let left: Vec<MemberId> = members(2..6).collect();
        gather.note_left(&left, &BTreeSet::new(), Time::from_millis(1));
        assert!(gather.told_left.iter().copied().eq(members(3..6)));
        assert_eq!(gather.goodbyes_until, None, "none was in a ring with it");
    }

    #[test]
    fn members_that_were_never_candidates_make_no_room_by_being_given_up() {
        let mut gather = Gather::default();
        gather.fail.extend(members(1_000..1_200));
        gather.admit(members(0..300), 128);
        assert_eq!(gather.members().count(), 128);
        gather.fail.extend(members(0..1));
        gather.admit(members(300..400), 128);
        assert_eq!(gather.members().count(), 128);
    }

    #[test]
    fn who_is_given_up_needs_no_room_to_be_named() {
        let mut gather = Gather::default();
        gather.admit(members(0..3), 3);
        gather.fail.extend(members(4..5));
        gather.admit(members(3..6), 3);
        assert!(
            gather
                .proc
                .iter()
                .copied()
                .eq(members(0..3).chain(members(4..5)))
        );
        assert!(gather.members().eq(members(0..3)));
    }
}
