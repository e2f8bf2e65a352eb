//! Commit: the commit token goes round twice. On the first pass each member declares what it holds
//! of its old ring; on the second each learns what all hold.

use alloc::vec::Vec;

use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::{ConfigId, MemberId, Time};

use super::config::BODY_LEAST;
use super::gather::Gather;
use super::numbers::{Attempt, Hop, Seq};
use super::ordering::Ordering;
use super::passing::{Errand, Sent};
use super::recovery::Recovery;
use super::wire::{Commit, CommitMember, Message};
use super::{Ring, State, Timer};

/// A member that has declared what it holds.
#[derive(Debug)]
pub(super) struct CommitState {
    /// The token as it was passed on.
    commit: Commit,
    /// The ring whose holding was declared.
    pub(super) old: Option<Ordering>,
}

impl CommitState {
    /// The state in which `commit` goes on, after `before`.
    fn after(before: State, commit: Commit) -> State {
        State::Commit(Self {
            commit,
            old: before.into_installed(),
        })
    }

    /// Whether `member` is of the forming ring.
    pub(super) fn has(&self, member: MemberId) -> bool {
        self.members().any(|other| other == member)
    }

    /// Whether the ring forms by this attempt of `member`, or a later one.
    pub(super) fn is_formed_by(&self, member: MemberId, attempt: Attempt) -> bool {
        let mut parts = self.commit.members.iter();
        parts.any(|part| part.member == member && attempt <= part.attempt)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.commit.members.iter().map(|part| part.member)
    }
}

impl Ring {
    /// The lowest candidate starts the commit token.
    pub(super) fn form(&mut self, now: Time) {
        let left = self.have_left();
        let gather = self.state.expect_gather();
        let (counter, capped) = self.peers.next_counter();
        let ring = ConfigId {
            counter,
            representative: self.local,
        };
        let part = |member: MemberId| CommitMember {
            member,
            attempt: gather.attempt_of(member).unwrap_or(self.peers.attempt),
            body_max: 0,
            holding: None,
        };
        let members: Vec<CommitMember> = gather.members().map(part).collect();
        let mut commit = Commit {
            hop: Hop::default(),
            ring,
            left,
            members,
            marks: Vec::new(),
        };
        self.declare(&mut commit, 0);
        let alone = commit.members.len() == 1;
        let cause = match capped {
            true => "consensus; the counter of another member is too high",
            false => "consensus",
        };
        self.transition(cause, |gather| CommitState::after(gather, commit));
        if alone {
            self.recover(now);
        } else {
            self.pass_commit(now);
        }
    }

    /// Fills this member's part of the commit token, the one at `me`.
    fn declare(&self, commit: &mut Commit, me: usize) {
        let part = &mut commit.members[me];
        part.body_max = self.config.body_max as u16;
        part.holding = Some(self.holding());
        if let Some(ring) = self.state.installed() {
            ring.declare_marks(commit.left.iter(), &mut commit.marks);
        }
    }

    /// What this member holds of its old ring. From now on until the ring is installed, or fails to
    /// form, nothing is added to it but what recovery brings.
    fn holding(&self) -> Holding {
        match self.state.installed() {
            Some(ring) => {
                let (aru, high) = (ring.window.aru(), ring.window.high());
                Holding {
                    config: ring.id,
                    aru,
                    high,
                    safe: ring.safe.min(aru),
                    obligations: ring.obligations,
                }
            }
            None => {
                let config = ConfigId {
                    counter: 0,
                    representative: self.local,
                };
                Holding {
                    config,
                    aru: Seq::ZERO,
                    high: Seq::ZERO,
                    safe: Seq::ZERO,
                    obligations: Indices::default(),
                }
            }
        }
    }

    /// Passes the commit token to the next member, one hop further.
    fn pass_commit(&mut self, now: Time) {
        let commit = &mut self.state.expect_commit().commit;
        commit.hop = commit.hop.plus(1);
        let next = commit.hop.member(commit.members.len());
        let token = Sent {
            to: commit.members[next].member,
            ring: commit.ring.into(),
            hop: commit.hop,
            // No data exists above this seq in the forming ring before its first token: only an
            // answer is a sign.
            seq: Seq::MAX,
            errand: Errand::Round,
            again: 0,
            body: Message::Commit(commit.clone()).encode(),
            way: commit.way(),
            way_surely: BODY_LEAST,
        };
        self.timers
            .set(Timer::Loss, now + self.config.forming_loss());
        self.pass(now, token);
    }

    pub(super) fn handle_commit(&mut self, now: Time, from: MemberId, commit: Commit) {
        let members = commit.members.len();
        let last = Hop::last_of_commit(members);
        let Some(me) = commit
            .members
            .iter()
            .position(|part| part.member == self.local)
        else {
            self.counters.foreign += 1;
            return;
        };
        if commit.hop.member(members) != me || commit.hop > last {
            self.counters.malformed += 1;
            return;
        }
        let ack = Message::Ack {
            ring: commit.ring.into(),
            hop: commit.hop,
        };
        self.note_told_left(now, &commit.left);
        let taken = match &self.state {
            State::Gather(gather) => {
                commit.hop == Hop(me as u64)
                    && self.agrees_with(gather, &commit, me)
                    && self.awaits_goodbyes(now).is_none()
            }
            State::Commit(state) => commit.ring == state.commit.ring,
            State::Recovery(recovery) => commit.ring == recovery.ordering.id,
            State::Operational(_) => self.configuration() == Some(commit.ring),
            State::Left(_) => false,
        };
        if !taken {
            self.counters.foreign += 1;
            return;
        }
        self.outbox.unicast(from, ack.encode());
        match &self.state {
            State::Gather(_) => self.first_pass(now, commit, me),
            State::Commit(state) if commit.hop > state.commit.hop => self.second_pass(now, commit),
            State::Recovery(_) if commit.hop == last => self.start_token(now),
            _ => {
                self.outbox.unicast_as_data(from, ack.encode());
                self.counters.token_duplicates += 1;
            }
        }
    }

    /// Whether the commit token is of the ring that this member wants, at its present attempt.
    fn agrees_with(&self, gather: &Gather, commit: &Commit, me: usize) -> bool {
        commit.members[me].attempt == self.peers.attempt
            && commit.ring.representative == commit.members[0].member
            && commit
                .members
                .iter()
                .map(|part| part.member)
                .eq(gather.members())
            && commit.members[..me]
                .iter()
                .all(|part| part.holding.is_some())
    }

    fn first_pass(&mut self, now: Time, mut commit: Commit, me: usize) {
        self.peers.note_counter(commit.ring.counter);
        self.quarantine_excluded(now);
        self.strike_missed(&mut commit);
        self.declare(&mut commit, me);
        self.timers.cancel_all_but(&[Timer::Leave, Timer::Probe]);
        self.transition("commit token", |gather| CommitState::after(gather, commit));
        self.pass_commit(now);
    }

    fn second_pass(&mut self, now: Time, commit: Commit) {
        if commit.members.iter().any(|part| part.holding.is_none()) {
            self.counters.malformed += 1;
            return;
        }
        if !self.believes(now, &commit) {
            return;
        }
        self.state.expect_commit().commit = commit;
        self.pass_commit(now);
        self.recover(now);
    }

    /// All know what all hold.
    fn recover(&mut self, now: Time) {
        let state = self.state.expect_commit();
        let alone = state.commit.members.len() == 1;
        let old = state.old.take();
        let recovery = Recovery::new(&state.commit, self.local, old, &self.claims, &self.config);
        self.transition("all have declared", |_| State::Recovery(recovery.into()));
        if alone {
            self.start_token(now);
        } else {
            self.timers
                .set(Timer::Loss, now + self.config.forming_loss());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use groupcast_core::Rng;

    use super::*;
    use crate::ring::config::RingConfig;
    use crate::ring::ordering::tests::{member, order};
    use crate::ring::wire::OldMarks;

    /// Member 1 of a ring of four has the commit token of three again. It has heard member 3 say
    /// good-bye. Of the old ring MaxN was declared as `max_n`, and `left` is what is not struck.
    fn second_pass(max_n: u16, left: Vec<MemberId>) -> Ring {
        let old = order(4, 1);
        let part = |index| CommitMember {
            member: member(index),
            attempt: Attempt::default(),
            body_max: 1_431,
            holding: Some(Holding {
                config: old.id,
                aru: old.window.high(),
                high: old.window.high(),
                safe: old.window.high(),
                obligations: Indices::default(),
            }),
        };
        let commit = Commit {
            hop: Hop(4),
            ring: ConfigId {
                counter: 2,
                representative: member(0),
            },
            left,
            members: (0..3).map(part).collect(),
            marks: vec![OldMarks {
                ring: old.id,
                max_n,
                marks: vec![old.window.high(); 4],
            }],
        };
        let config = RingConfig::lan();
        let mut ring = Ring::new(config, member(1), Rng::new(1), Time::ZERO).expect("valid");
        ring.goodbyes.insert(member(3));
        let old = Some(old);
        ring.state = State::Commit(CommitState {
            commit: commit.clone(),
            old,
        });
        ring.second_pass(Time::from_millis(1), commit);
        ring
    }

    /// Another member, of another ring, struck it out when all of this ring had declared.
    #[test]
    fn who_is_struck_out_late_is_counted_by_all_of_its_ring() {
        let forms = |ring: &Ring| matches!(ring.state, State::Recovery(_));
        let mut ring = second_pass(3, vec![]);
        assert!(!forms(&ring));
        assert_eq!(
            ring.state
                .expect_gather()
                .old
                .as_ref()
                .map(|it| it.own_max_n),
            Some(4)
        );
        assert!(ring.goodbyes.is_empty(), "it strikes it out itself next");
        for ring in [second_pass(4, vec![]), second_pass(3, vec![member(3)])] {
            assert!(forms(&ring));
            assert!(ring.goodbyes.contains(&member(3)));
        }
    }

    type Change = fn(&mut Ring, &mut Commit);

    /// Member 1 gathers with members 0 and 2, and the commit token comes for the first time, with
    /// this change.
    fn first_pass(change: Change) -> Ring {
        let config = RingConfig::lan();
        let mut ring = Ring::new(config, member(1), Rng::new(1), Time::ZERO).expect("valid");
        ring.state.expect_gather().proc = (0..3).map(member).collect();
        let attempt = ring.peers.attempt;
        let holding = || Holding {
            config: ConfigId {
                counter: 0,
                representative: member(0),
            },
            aru: Seq::ZERO,
            high: Seq::ZERO,
            safe: Seq::ZERO,
            obligations: Indices::default(),
        };
        let part = |index| CommitMember {
            member: member(index),
            attempt,
            body_max: 1_431,
            holding: (index == 0).then(holding),
        };
        let mut commit = Commit {
            hop: Hop(1),
            ring: ConfigId {
                counter: 2,
                representative: member(0),
            },
            left: vec![],
            members: (0..3).map(part).collect(),
            marks: vec![],
        };
        change(&mut ring, &mut commit);
        ring.handle_commit(Time::from_millis(1), member(0), commit);
        ring
    }

    #[test]
    fn the_commit_token_is_taken_of_the_ring_that_this_member_wants_alone() {
        let taken = first_pass(|_, _| {});
        assert!(matches!(&taken.state, State::Commit(it) if it.commit.hop == Hop(2)));
        let changes: [(&str, Change); 6] = [
            ("of another representative", |_, it| {
                it.ring.representative = member(2);
            }),
            ("without a member", |ring, _| {
                ring.state.expect_gather().proc.insert(member(3));
            }),
            ("of an earlier attempt", |ring, it| {
                it.members[1].attempt = ring.peers.attempt.next();
            }),
            ("not declared by who had it", |_, it| {
                it.members[0].holding = None;
            }),
            ("in its second round", |_, it| it.hop = Hop(4)),
            ("for another", |_, it| it.hop = Hop(2)),
        ];
        for (what, change) in changes {
            let ring = first_pass(change);
            assert!(matches!(ring.state, State::Gather(_)), "{what}");
            let refused = ring.counters.foreign + ring.counters.malformed;
            assert_eq!(refused, 1, "{what}");
        }
    }

    #[test]
    fn the_commit_token_comes_again_with_what_all_have_declared() {
        let pass_again = |counter, hop, declared| {
            let mut ring = first_pass(|_, _| {});
            let mut commit = ring.state.expect_commit().commit.clone();
            (commit.hop, commit.ring.counter) = (hop, counter);
            let holding = commit.members[0].holding;
            if declared {
                commit.members[2].holding = holding;
            }
            ring.handle_commit(Time::from_millis(2), member(0), commit);
            let formed = matches!(ring.state, State::Recovery(_));
            let counters = &ring.counters;
            let refused = [
                counters.foreign,
                counters.malformed,
                counters.token_duplicates,
            ];
            (formed, refused)
        };
        assert_eq!(pass_again(2, Hop(4), true), (true, [0; 3]));
        assert_eq!(pass_again(2, Hop(4), false), (false, [0, 1, 0]));
        assert_eq!(pass_again(3, Hop(4), true), (false, [1, 0, 0]));
        assert_eq!(pass_again(2, Hop(1), true), (false, [0, 0, 1]), "again");
    }
}
