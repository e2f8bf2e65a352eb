//! What members say in a reformation, asked of others that hear them (ours).
//!
//! While a group goes on, nobody is left out because one way between two members is closed
//! (`relaying`). A reformation would leave one of the two out; the others still hear both, and each
//! of the two would take them along in turn. So a member that misses another member's answer to its
//! poll, its declaration or its acceptance asks third members for it. What was declared or accepted
//! stays so, whoever tells it. And a poller gives way to a member that does not hear it, and polls.
//!
//! Where both ways between two members are closed, the one does not hear the other's poll, either.
//! But it hears others answer: a member that declares what it holds has left the configuration,
//! which is over with that. So it follows the poll that those follow, as if it had heard it; and
//! when they accept, it asks them for the proposal.
//!
//! A member that only one of several others hears could not be in a configuration with them: two
//! have to tell the same, if there are two.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use groupcast_core::mech::peers::{Attempt, Peers};
use groupcast_core::{ConfigId, MemberId, Time};

use super::askers::Verdict;
use super::polling::Polling;
use super::recovering::Recovering;
use super::wire::{Answer, Message, Missing, Poll, Proposal, RELAYED_MAX, Told};
use super::{Rmp, State};

/// Others are asked for what is missing once this many repeats have passed.
const WAITS: u32 = 3;
/// This many members have to tell it.
const TELLERS: usize = 2;
/// One is enough after all were asked this many times, in a poll and in a recovery: nobody else can
/// tell it.
const POLL_ROUNDS: usize = 1;
const RECOVERY_ROUNDS: usize = 2;
/// The most pollers that one teller alone can tell of: of any more, the highest is forgotten.
const POLLERS_MAX: usize = 4;

/// How many of `others` members can tell something: one, if all were asked for it this many times.
fn can_tell(others: usize, tries: u32, rounds: usize) -> usize {
    let all_asked = tries as usize > WAITS as usize + rounds * others;
    if all_asked { 1 } else { others }
}

/// Which members have told what of which others.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct Hearsay {
    /// For each member, and its answer (false) or acceptance (true).
    tellers: BTreeMap<(MemberId, bool), BTreeSet<MemberId>>,
}

impl Hearsay {
    /// One of `others` members has told what is missing of `member`: whether enough have.
    fn note(&mut self, member: MemberId, accepts: bool, teller: MemberId, others: usize) -> bool {
        let tellers = self.tellers.entry((member, accepts)).or_default();
        tellers.insert(teller);
        tellers.len() >= others.min(TELLERS)
    }
}

/// Which members of the present configuration have answered polls that are not heard here.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct PollsTold {
    /// Of each poller, its last poll and the members that have answered it.
    of: BTreeMap<MemberId, (Attempt, BTreeSet<MemberId>)>,
}

impl PollsTold {
    /// A configuration was installed.
    pub(super) fn clear(&mut self) {
        self.of.clear();
    }

    /// `teller` has answered this poll; `others` could: whether enough have.
    fn note(&mut self, poll: (MemberId, Attempt), teller: MemberId, others: usize) -> bool {
        let (poller, attempt) = poll;
        if !self.of.contains_key(&poller) {
            self.make_room(teller);
        }
        if self.of.len() >= Peers::MAX && !self.of.contains_key(&poller) {
            return false;
        }
        let (newest, tellers) = self.of.entry(poller).or_default();
        if attempt < *newest {
            return false;
        }
        if attempt > *newest {
            (*newest, *tellers) = (attempt, BTreeSet::new());
        }
        tellers.insert(teller);
        tellers.len() >= others.min(TELLERS)
    }

    /// `teller` tells of one more poller. One that tells of ever more does not keep others from
    /// being told of.
    fn make_room(&mut self, teller: MemberId) {
        let alone = self
            .of
            .iter()
            .filter(|(_, (_, tellers))| tellers.len() == 1 && tellers.contains(&teller));
        let alone: Vec<MemberId> = alone.map(|(poller, _)| *poller).collect();
        if alone.len() >= POLLERS_MAX
            && let Some(highest) = alone.last()
        {
            self.of.remove(highest);
        }
    }
}

/// A proposal that others told.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct ProposalTold {
    proposal: Option<Proposal>,
    hearsay: Hearsay,
}

impl ProposalTold {
    /// `teller` has told this proposal, as `others` members could: whether enough have told the
    /// same.
    pub(super) fn note(&mut self, teller: MemberId, proposal: &Proposal, others: usize) -> bool {
        if self.proposal.as_ref() != Some(proposal) {
            self.proposal = Some(proposal.clone());
            self.hearsay = Hearsay::default();
        }
        let proposer = proposal.config.representative;
        self.hearsay.note(proposer, true, teller, others)
    }
}

impl Polling {
    /// The wanted members that have not answered.
    fn unanswered(&self) -> Vec<MemberId> {
        let wanted = self.wanted.iter().copied();
        wanted.filter(|it| !self.answers.contains_key(it)).collect()
    }

    /// An answer of `member` is told by another: whether it counts.
    fn note_told(&mut self, member: MemberId, teller: MemberId) -> bool {
        // This member has answered, too.
        let others = self.answers.len() - 1;
        let others = can_tell(others, self.repeats, POLL_ROUNDS);
        self.wanted.contains(&member)
            && !self.answers.contains_key(&member)
            && self.answers.contains_key(&teller)
            && self.hearsay.note(member, false, teller, others)
    }

    /// Whether `from`, which polls, too, has not heard this poll of `local`, although it was
    /// repeated.
    pub(super) fn is_unheard(&self, local: MemberId, from: MemberId, poll: &Poll) -> bool {
        self.repeats > WAITS
            && self.wanted.contains(&from)
            && !self.answers.contains_key(&from)
            && !poll.heard.contains(&local)
    }
}

impl Recovering {
    /// The members whose declarations `local` lacks to make the plan.
    fn undeclared(&self, local: MemberId) -> Vec<MemberId> {
        if self.plan.is_some() || self.old.is_none() {
            return Vec::new();
        }
        let mut along = self.along(local);
        along.retain(|it| !self.inventories.contains_key(it));
        along
    }

    /// What `member` said is told by another: whether it counts.
    fn note_told(&mut self, member: MemberId, accepts: bool, teller: MemberId) -> bool {
        // But for the member and this one.
        let others = self.proposal.members.len().saturating_sub(2);
        let others = can_tell(others, self.tries, RECOVERY_ROUNDS);
        self.has(member) && self.has(teller) && self.hearsay.note(member, accepts, teller, others)
    }

    /// The members whose acceptance `local` lacks, if it is the proposer.
    fn not_accepted(&self, local: MemberId) -> Vec<MemberId> {
        if !self.is_proposer(local) {
            return Vec::new();
        }
        let members = self.members();
        members
            .filter(|it| *it != local && !self.accepted.contains(it))
            .collect()
    }
}

impl Rmp {
    /// Asks third members, in turn, for what is missing of others.
    pub(super) fn ask_others(&mut self) {
        let local = self.local;
        let (tries, others, wanted): (u32, Vec<MemberId>, [Vec<MemberId>; 2]) = match &self.state {
            State::Polling(polling) => {
                let others = polling.answers.keys().copied().collect();
                (polling.repeats, others, [polling.unanswered(), Vec::new()])
            }
            State::Recovering(recovering) => {
                let wanted = [recovering.undeclared(local), recovering.not_accepted(local)];
                (recovering.tries, recovering.members().collect(), wanted)
            }
            _ => return,
        };
        if tries <= WAITS {
            return;
        }
        let (poller, attempt) = match &self.state {
            State::Recovering(recovering) => (recovering.id().representative, recovering.attempt()),
            _ => (local, self.peers.attempt),
        };
        for (accepts, members) in [false, true].into_iter().zip(wanted) {
            for member in members.into_iter().take(RELAYED_MAX) {
                let asked = others.iter().filter(|it| **it != local && **it != member);
                let asked: Vec<&MemberId> = asked.collect();
                let Some(turn) = (tries as usize).checked_rem(asked.len()) else {
                    continue;
                };
                let missing = Missing {
                    poller,
                    attempt,
                    member,
                    accepts,
                };
                self.outbox
                    .unicast(*asked[turn], &Message::Missing(missing));
            }
        }
    }

    /// Tells what `missing` asks for, if it was heard here.
    pub(super) fn handle_missing(&mut self, now: Time, from: MemberId, missing: &Missing) {
        let Missing {
            poller,
            attempt,
            member,
            accepts,
        } = *missing;
        let concerns = match &self.state {
            State::Standby(_) => from == poller && !accepts,
            State::Recovering(recovering) => {
                recovering.is_of(poller, attempt) && recovering.has(from)
            }
            _ => false,
        };
        if !concerns || !self.may_tell(now, from) {
            return;
        }
        let said = match &self.state {
            State::Standby(standby) => {
                let answer = standby.answer_of(member, poller, attempt);
                if answer.is_none() && standby.was_with(member) {
                    let attempt = attempt.0;
                    self.outbox
                        .unicast(member, &Message::Ask { poller, attempt });
                }
                answer.cloned().map(Message::Answer)
            }
            State::Recovering(recovering) => {
                let config = recovering.id();
                let accepted = recovering.accepted.contains(&member);
                let inventory = recovering.inventories.get(&member);
                let size = recovering.proposal.size_of(member);
                match accepts {
                    true if member == poller => {
                        Some(Message::Proposal(recovering.proposal.clone()))
                    }
                    true => accepted.then_some(Message::Accept { config }),
                    false => inventory.map(|inventory| {
                        Message::Answer(Answer {
                            poller,
                            attempt,
                            counter: self.peers.counter(),
                            body_max: size.unwrap_or_default(),
                            inventory: inventory.clone(),
                        })
                    }),
                }
            }
            _ => None,
        };
        if let Some(said) = said {
            let told = Message::Told(Told {
                member,
                said: said.into(),
            });
            self.outbox.unicast(from, &told);
        }
    }

    /// Whether what was said in a reformation is told to `from`, which asks for it: as often as
    /// packets are sent to one that asks. If so, that counts.
    pub(super) fn may_tell(&mut self, now: Time, from: MemberId) -> bool {
        let trip = self.timing.trip().max(self.config.timer_min);
        let may = matches!(self.askers.asks(now, from, trip), Verdict::Answer(_));
        match may {
            true => self.askers.answered(from, 1),
            false => self.counters.nacks_refused += 1,
        }
        may
    }

    /// Takes what a third member has heard of another, where it is missing here.
    pub(super) fn handle_told(&mut self, now: Time, from: MemberId, told: Told) {
        let Told { member, said } = told;
        let counts = match (&mut self.state, &*said) {
            (State::Polling(polling), Message::Answer(_)) => polling.note_told(member, from),
            (State::Recovering(recovering), Message::Answer(_)) => {
                recovering.note_told(member, false, from)
            }
            (State::Recovering(recovering), Message::Accept { config }) => {
                recovering.id() == *config && recovering.note_told(member, true, from)
            }
            (State::Standby(standby), Message::Proposal(proposal)) => {
                standby.note_told(from, proposal)
            }
            _ => false,
        };
        match *said {
            Message::Answer(answer) if counts => {
                self.peers.note_counter(answer.counter);
                self.take_answer(now, member, answer);
            }
            Message::Accept { config } if counts => self.handle_accept(now, member, config),
            Message::Proposal(proposal) if counts => self.handle_proposal(now, member, proposal),
            _ => {}
        }
    }

    /// `from` answers the poll of a member that is perhaps not heard here. If it has left this
    /// member's configuration with that, this one goes along.
    pub(super) fn heed_answer(&mut self, now: Time, from: MemberId, answer: &Answer) {
        let (local, poller, attempt) = (self.local, answer.poller, answer.attempt);
        let Some(old) = self.state.installed() else {
            return;
        };
        let leaves = answer.inventory.holding.config == old.id && old.members.contains(&from);
        let third = |it: &&MemberId| ![local, poller].contains(*it);
        let others = old.members.iter().filter(third).count();
        let is_known =
            self.peers.has_heard(poller, attempt) || self.answered.is_spent(poller, attempt);
        if !leaves || !third(&&from) || poller == local || is_known {
            return;
        }
        if self.pollers.refuses(now, poller, &self.config) {
            return;
        }
        if !self.polls_told.note((poller, attempt), from, others) {
            return;
        }
        match &mut self.state {
            State::Polling(polling)
                if poller < local
                    && !polling.failed.contains(&poller)
                    && !polling.answers.contains_key(&poller) =>
            {
                self.counters.polls_aborted += 1;
                self.stand_by(
                    now,
                    "others answer a lower member",
                    poller,
                    &unheard_poll(answer),
                );
            }
            State::Operational(_) => {
                self.stand_by(now, "others answer a poll", poller, &unheard_poll(answer));
            }
            State::Standby(standby) if standby.attempt_of(poller) == Some(attempt) => {
                self.go_on_following(now);
            }
            State::Standby(_) => self.follow(now, poller, &unheard_poll(answer)),
            _ => {}
        }
    }

    /// A member accepts a proposal that this one has not heard, of the poller that it follows: asks
    /// for it.
    pub(super) fn ask_for_proposal(&mut self, now: Time, from: MemberId, config: ConfigId) {
        let State::Standby(standby) = &self.state else {
            return;
        };
        let poller = config.representative;
        let Some(attempt) = standby.attempt_of(poller) else {
            return;
        };
        let missing = Missing {
            poller,
            attempt,
            member: poller,
            accepts: true,
        };
        self.outbox.unicast(from, &Message::Missing(missing));
        self.go_on_following(now);
    }
}

/// What is known of the poll that `answer` answers.
fn unheard_poll(answer: &Answer) -> Poll {
    Poll {
        attempt: answer.attempt,
        counter: answer.counter,
        wanted: Vec::new(),
        failed: Vec::new(),
        left: Vec::new(),
        heard: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmp::fixtures::member;

    #[test]
    fn who_tells_of_ever_more_pollers_does_not_keep_others_from_telling_of_one() {
        let mut told = PollsTold::default();
        for poller in 100..2_000 {
            assert!(!told.note((member(poller), Attempt(1)), member(9), 3));
        }
        assert!(!told.note((member(1), Attempt(1)), member(2), 3));
        assert!(told.note((member(1), Attempt(1)), member(3), 3));
        assert!(told.of.len() <= POLLERS_MAX + 1);
    }
}
