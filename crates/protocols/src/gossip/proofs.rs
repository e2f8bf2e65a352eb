//! Which members must prove that they live before a stream of theirs begins.
//!
//! While bookmarks are few enough, a sender without one was never followed, and its stream may
//! begin anywhere. Once a bookmark was dropped, a sender that looks new may be one that was
//! followed, and what comes of it may be a datagram of long ago that was late or recorded: of
//! messages that were delivered here, of a life that has ended. So it is asked for how many
//! messages it has sent, with a nonce. The answer was made after the question, so whatever was ever
//! delivered of the sender is among what it had sent by then: its stream begins behind that.

use alloc::collections::BTreeMap;

use groupcast_core::{MemberId, Rng};

use super::Gossip;
use super::round::RoundNumber;
use super::wire::{Message, SelfDescription};

/// Rounds between two questions to the same member, whether it has answered or not: false words do
/// not use up what this member may ask in a round, nor what the other may answer.
const ASKED_EVERY: u64 = 2;

/// The members that were asked; the one asked longest ago gives way, those that have answered
/// first.
#[derive(Debug)]
pub(super) struct Proofs {
    asked: BTreeMap<MemberId, Asked>,
    max: usize,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    /// It stays the same as long as there is no answer: nothing of the member is delivered
    /// meanwhile. `None`: it has answered.
    nonce: Option<u64>,
    last: RoundNumber,
}

impl Proofs {
    pub(super) fn new(max: usize, rng: Rng) -> Self {
        Self {
            asked: BTreeMap::new(),
            max,
            rng,
        }
    }

    /// The nonce to ask `member` with, unless it was asked just now.
    fn ask(&mut self, member: MemberId, round: RoundNumber) -> Option<u64> {
        if let Some(asked) = self.asked.get_mut(&member) {
            if round.since(asked.last) < ASKED_EVERY {
                return None;
            }
            asked.last = round;
            let nonce = asked.nonce.unwrap_or_else(|| self.rng.next_u64());
            asked.nonce = Some(nonce);
            return Some(nonce);
        }
        if self.asked.len() >= self.max {
            let place = |asked: &Asked| (asked.nonce.is_some(), asked.last);
            let oldest = self.asked.iter().min_by_key(|(_, asked)| place(asked));
            let oldest = oldest.map(|(member, _)| *member)?;
            self.asked.remove(&oldest);
        }
        let nonce = self.rng.next_u64();
        let asked = Asked {
            nonce: Some(nonce),
            last: round,
        };
        self.asked.insert(member, asked);
        Some(nonce)
    }

    /// Whether `member` was asked with `nonce`. Each question is answered once.
    fn take(&mut self, member: MemberId, nonce: u64) -> bool {
        let asked = self.asked.get_mut(&member);
        asked.is_some_and(|asked| asked.nonce.take_if(|it| *it == nonce).is_some())
    }
}

impl Gossip {
    /// Whether it has to be proved where the stream of `sender` begins: nothing is known of it any
    /// more, and it may have been followed.
    pub(super) fn must_prove(&self, sender: MemberId) -> bool {
        self.bookmarks.dropped()
            && !self.streams.contains_key(&sender)
            && self.bookmarks.get(sender).is_none()
            && self.view.sent_before(sender).is_none()
    }

    /// Asks `sender` for a proof, within the limit of requests.
    pub(super) fn ask_for_proof(&mut self, sender: MemberId) {
        if self.round.requests >= self.config.limit_requests || sender == self.local {
            return;
        }
        if let Some(nonce) = self.proofs.ask(sender, self.round.number) {
            self.count_request();
            self.outbox.tell(sender, &Message::Prove { nonce });
        }
    }

    /// A member wants to know that this one lives, and how many messages it has sent.
    pub(super) fn handle_prove(&mut self, from: MemberId, nonce: u64) {
        if self.round.proofs < self.config.limit_requests {
            self.round.proofs += 1;
            let about = self.about();
            self.outbox.tell(from, &Message::Proof { nonce, about });
        }
    }

    /// A member that was asked answers.
    pub(super) fn handle_proof(&mut self, from: MemberId, nonce: u64, about: SelfDescription) {
        if !self.proofs.take(from, nonce) {
            return;
        }
        if self.must_prove(from) {
            self.view.proved(from, about.sent);
        } else {
            self.note_sent(from, about.sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn a_question_is_repeated_seldom_and_answered_once() {
        let mut proofs = Proofs::new(8, Rng::new(1));
        let nonce = proofs
            .ask(member(1), RoundNumber(5))
            .expect("not asked yet");
        assert_eq!(proofs.ask(member(1), RoundNumber(5)), None);
        assert_eq!(proofs.ask(member(1), RoundNumber(7)), Some(nonce));
        assert!(!proofs.take(member(2), nonce) && !proofs.take(member(1), nonce ^ 1));
        assert!(proofs.take(member(1), nonce) && !proofs.take(member(1), nonce));
        assert_eq!(
            proofs.ask(member(1), RoundNumber(8)),
            None,
            "it has just been"
        );
        assert_ne!(proofs.ask(member(1), RoundNumber(9)), Some(nonce));
    }

    #[test]
    fn the_table_is_bounded_and_who_was_asked_longest_ago_gives_way() {
        let mut proofs = Proofs::new(3, Rng::new(1));
        let nonces: [_; 5] = core::array::from_fn(|node| {
            let node = node as u64;
            proofs.ask(member(node), RoundNumber(node)).expect("new")
        });
        assert_eq!(proofs.asked.len(), 3);
        assert!(!proofs.take(member(1), nonces[1]) && proofs.take(member(4), nonces[4]));
    }
}
