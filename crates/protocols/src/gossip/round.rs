//! What happens in every round (004 Fig. 5.2, timer interrupt; Fig. 5.3): gossip, age, give up,
//! discard.

use alloc::vec::Vec;

use groupcast_core::mech::participation::Participation;
use groupcast_core::{Destination, Event, MemberId, Time};

use super::senders::Met;
use super::stream::Stream;
use super::wire::{self, HOLDING_LEN, HOLDING_RUNS_MAX, Holding, Message, Run, SelfDescription};
use super::{Gossip, Leaving, Variant};

/// The number of a member's round. Every member counts its own (004 3.7), so two members' are not
/// comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct RoundNumber(pub(super) u64);

impl RoundNumber {
    /// How many rounds ago `earlier` was.
    pub(super) fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether this is the round `now` or the one before.
    pub(super) fn is_recent(self, now: Self) -> bool {
        now.since(self) <= 1
    }
}

/// How often a round has become due since the start: with those that a pause has swallowed, unlike
/// the numbers of rounds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Steps(pub(super) u64);

/// The round that a member is in.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: RoundNumber,
    pub(super) steps: Steps,
    /// When the next one begins.
    pub(super) due: Time,
    /// Requests sent in this one.
    pub(super) requests: u32,
    /// Messages whose bufferers were looked for on others' behalf in this one.
    pub(super) searches: u32,
    /// Proofs given in this one.
    pub(super) proofs: u32,
    /// Repairs sent in this one, and their bytes.
    pub(super) repairs: u32,
    pub(super) repair_bytes: usize,
}

impl Round {
    pub(super) fn new(due: Time) -> Self {
        Self {
            number: RoundNumber::default(),
            steps: Steps::default(),
            due,
            requests: 0,
            searches: 0,
            proofs: 0,
            repairs: 0,
            repair_bytes: 0,
        }
    }

    fn advance(&mut self) {
        *self = Self {
            number: RoundNumber(self.number.0 + 1),
            steps: self.steps,
            ..Self::new(self.due)
        };
    }
}

impl Gossip {
    pub(super) fn begin_round(&mut self) {
        self.round.advance();
        if !self.remains() {
            return;
        }
        self.give_up();
        self.announce();
        self.gossip();
        self.discard();
        let patience = self
            .view
            .patience(self.config.fail_rounds, self.config.members_per_gossip);
        if self.config.fail_rounds < u32::MAX {
            self.counters.failed += self.view.expire(self.round.number, patience) as u64;
        }
    }

    /// Declares lost what has been missing for too long, and reports it.
    fn give_up(&mut self) {
        let round = self.round.number;
        let threshold = u64::from(self.config.stable_threshold);
        let mut changed: Vec<MemberId> = Vec::new();
        let mut doubted: Vec<MemberId> = Vec::new();
        for (sender, stream) in &mut self.streams {
            if stream.doubts(round, threshold / 2) && self.view.knows(*sender) {
                doubted.push(*sender);
            }
            if stream
                .open()
                .is_some_and(|since| round.since(since) > threshold)
            {
                stream.close();
            }
            stream.give_up(round, threshold);
            if stream.waits() {
                changed.push(*sender);
            }
        }
        for sender in changed {
            self.deliver(sender);
        }
        // What only others have said to exist is given up too, unless the sender denies it.
        for sender in doubted {
            self.ask_for_proof(sender);
        }
    }

    /// Sends the digest to this round's partners.
    fn gossip(&mut self) {
        let partners = self.partners();
        if partners.is_empty() {
            return;
        }
        let gossip = Message::Gossip(wire::Gossip {
            round: self.round.number,
            about: self.about(),
            alive: self.view.signs(self.config.members_per_gossip),
            digest: self.digest(),
        });
        let bytes = gossip.encode();
        for partner in partners {
            self.outbox
                .control(Destination::Member(partner), bytes.clone());
        }
    }

    /// Whom to gossip with in this round.
    fn partners(&mut self) -> Vec<MemberId> {
        let index = (self.round.number.0 - 1) as usize;
        if let Some(listed) = self.config.partners.get(index) {
            let named = listed.iter().filter_map(|node| self.view.named(*node));
            return named.collect();
        }
        let count = self.config.sub_gsize as usize;
        let Some(hierarchy) = self.config.hierarchy else {
            return self.view.draw(count, |_| true);
        };
        // 004 3.7: mostly within the LAN; those with links also over the WAN.
        let zone = self.config.zone;
        let mut partners = self.view.draw(count, |peer| peer.may_be_in(zone));
        let due = self
            .round
            .number
            .0
            .is_multiple_of(u64::from(hierarchy.remote_every));
        if hierarchy.link && due {
            partners.extend(self.view.draw(1, |peer| peer.is_link_beyond(zone)));
        }
        partners
    }

    /// What this member holds, most recent first, as far as `digest_max` goes; senders take turns
    /// to be first.
    fn digest(&self) -> Vec<Holding> {
        let bits = self.config.flags();
        let gaps = self.config.hash.as_ref().is_some_and(|hash| hash.gaps);
        let turn = self.round.number.0 as usize % self.streams.len().max(1);
        let streams = self.streams.iter().cycle().skip(turn);
        let mut budget = self.config.digest_max;
        let mut digest = Vec::new();
        for (origin, stream) in streams.take(self.streams.len()) {
            if budget <= HOLDING_LEN {
                break;
            }
            budget -= HOLDING_LEN;
            let mut holding = Holding {
                origin: *origin,
                runs: runs(
                    stream
                        .slots()
                        .map(|(number, slot)| (number, bits && slot.retransmitted)),
                    &mut budget,
                ),
                gaps: Vec::new(),
            };
            if gaps {
                let holes = stream.holes().map(|(first, last)| Run::of(first, last));
                let holes = holes.take(HOLDING_RUNS_MAX).collect();
                holding.gaps = within(holes, false, &mut budget);
            }
            if holding.runs.is_empty() && holding.gaps.is_empty() {
                budget += HOLDING_LEN;
            } else {
                digest.push(holding);
            }
        }
        digest
    }

    /// Forgets what is stable: what was gossiped about for more than `stable_threshold` rounds (004
    /// Fig. 5.3).
    fn discard(&mut self) {
        let round = self.round.number;
        let threshold = u64::from(self.config.stable_threshold);
        let short_term = self
            .config
            .hash
            .as_ref()
            .map_or(u64::MAX, |hash| u64::from(hash.short_term));
        let held = &mut self.held;
        for (sender, stream) in &mut self.streams {
            let mut stable = 0;
            stream.retain(|number, delivered, slot| {
                let age = round.since(slot.born);
                if !delivered {
                    return true;
                }
                if age > threshold {
                    held.discard(slot);
                    stable = stable.max(number);
                    return false;
                }
                if age >= short_term && !slot.long_term {
                    held.release(slot);
                }
                true
            });
            if stable > 0 && self.config.stability_notices {
                self.events.push_back(Event::Stable {
                    sender: *sender,
                    number: stable,
                });
            }
        }
    }

    /// Lets others know of this member, where its gossip does not.
    fn announce(&mut self) {
        let round = self.round.number.0;
        let zones = self.config.hierarchy.is_some() || self.config.variant == Variant::Local;
        // At first in rounds 1, 2 and 4: others may have to admit this member before they can hear
        // it.
        let begins = round <= 4 && round.is_power_of_two() && (zones || !self.met);
        let alone = self.view.len() == 0 && round.is_power_of_two();
        let sampled = self.view.len() >= self.config.view_max;
        let turn = self.config.announce_every.is_some_and(|every| {
            let rounds = u64::from(every) * (self.view.len() as u64 + 1);
            !sampled && self.rng.below(rounds) == 0
        });
        if begins || alone || turn {
            let about = self.about();
            self.outbox.tell_all(&Message::Join {
                about,
                answer: true,
            });
        }
    }

    /// A member announced itself.
    pub(super) fn handle_join(&mut self, from: MemberId, about: SelfDescription, answer: bool) {
        let new = self.described(from, about);
        // A member that began together with the joiner announces itself anyway.
        let settled = self.round.number.0 > 4;
        if new && answer && settled && self.participation.is_member() {
            let about = self.about();
            let answer = false;
            self.outbox.tell(from, &Message::Join { about, answer });
        }
    }

    /// `from` gave a sign of life.
    pub(super) fn heard(&mut self, from: MemberId) {
        // In a hierarchy only those are known whose zone is; in a sample a sender would be in
        // everybody's view.
        if self.config.hierarchy.is_some() || self.view.len() > 0 {
            self.view.refresh(from, self.round.number);
        } else {
            self.view.heard(from, self.round.number);
        }
    }

    /// `from` said what it is. Returns whether it is new here.
    pub(super) fn described(&mut self, from: MemberId, about: SelfDescription) -> bool {
        if let Some(hierarchy) = self.config.hierarchy
            && about.zone != self.config.zone
            && !(hierarchy.link && about.link)
        {
            self.view.remove(from);
            return false;
        }
        let new = self.view.heard(from, self.round.number);
        // A member that may have been followed before begins where it proves that it has come to.
        let accounted = self.bookmarks.get(from).unwrap_or_default();
        let floor = (!self.must_prove(from)).then_some(accounted);
        self.view.described(from, about, floor, self.round.steps);
        if floor.is_none() {
            self.ask_for_proof(from);
        }
        self.note_sent(from, about.sent);
        new
    }

    /// A sender says how many messages it has sent: those that nobody's digest named here are
    /// missing too, although they may be stable everywhere else.
    pub(super) fn note_sent(&mut self, sender: MemberId, sent: u64) {
        if !self.streams.contains_key(&sender)
            && let Some(before) = self.view.sent_before(sender)
            && before < sent
        {
            // Without room in the table the sender is not followed.
            let _ = self.follow(sender, Met::Described { before, sent });
        }
        if let Some(stream) = self.streams.get_mut(&sender) {
            for mut slot in stream.described(sent, self.round.number) {
                self.held.discard(&mut slot);
            }
            self.deliver(sender);
        }
    }

    /// Goes on with leaving: when its own messages are stable it says good-bye, and is gone a round
    /// later. Whether it is still a member.
    fn remains(&mut self) -> bool {
        match self.participation {
            Participation::Leaving(Leaving::Unstable { since }) => {
                let patience = u64::from(self.config.stable_threshold) + 1;
                let own = self.streams.get(&self.local);
                let stable = own.is_none_or(Stream::is_idle);
                if !stable && self.round.number.since(since) <= patience {
                    return true;
                }
                self.outbox.tell_all(&Message::Leave);
                let cause = if stable { "stable" } else { "time is up" };
                self.advance(Participation::Leaving(Leaving::Goodbye), cause);
                false
            }
            Participation::Leaving(Leaving::Goodbye) => {
                self.advance(Participation::Left, "good-bye");
                self.events.push_back(Event::Left);
                false
            }
            Participation::Member => true,
            Participation::Left => false,
        }
    }
}

/// Numbers, highest first, as runs within `budget` bytes.
fn runs(numbers: impl Iterator<Item = (u64, bool)>, budget: &mut usize) -> Vec<Run> {
    let mut numbers = numbers.peekable();
    let runs = core::iter::from_fn(|| {
        let (last, repaired) = numbers.next()?;
        let mut run = Run::of(last, last);
        if repaired {
            run.set_repaired(last);
        }
        while let Some((number, repaired)) = numbers.next_if(|(number, _)| number + 1 == run.first)
        {
            run.first = number;
            if repaired {
                run.set_repaired(number);
            }
        }
        Some(run)
    });
    let runs: Vec<Run> = runs.take(HOLDING_RUNS_MAX).collect();
    // Without a single flag the bits are not written.
    let bits = runs.iter().any(|run| !run.repaired.is_empty());
    within(runs, bits, budget)
}

/// As many runs as `budget` bytes take. The first one that does not fit is shortened to its most
/// recent numbers.
fn within(runs: Vec<Run>, bits: bool, budget: &mut usize) -> Vec<Run> {
    let mut kept = Vec::new();
    for mut run in runs {
        let whole = run.first;
        let Some(len) = run.shorten(*budget, bits) else {
            break;
        };
        *budget -= len;
        let shortened = run.first > whole;
        kept.push(run);
        if shortened {
            break;
        }
    }
    kept
}
