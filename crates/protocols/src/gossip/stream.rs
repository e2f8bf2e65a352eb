//! One sender's messages as one member sees them: what it holds, what it misses, what it has given
//! up.
//!
//! Numbers up to `done` are delivered or reported; every number above, up to `high`, is held (and
//! waits) or is in a hole. A hole is lost when it is old enough; it is reported, as a gap, when all
//! before it is done, and until then a late copy still fills it. Memory: at most `window` numbers
//! lie between `done` and `high`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::MemberId;

use super::round::RoundNumber;
use super::wire::Run;

/// What is kept of a message besides its bytes is taken to cost this many.
pub(super) const SLOT_COST: usize = 128;

/// A message that was received and is not stable yet (004 5.2: an entry of the message buffer).
#[derive(Debug)]
pub(super) struct Slot {
    /// `None`: others keep it (004 ch. 7).
    pub(super) payload: Option<Bytes>,
    /// The round in which its gossip count was 0.
    pub(super) born: RoundNumber,
    /// Whether this member keeps it until it is stable.
    pub(super) long_term: bool,
    /// 004 Fig. 5.4: request_counter.
    pub(super) requests: u32,
    /// 004 Fig. 5.7: my_retransmit_bit.
    pub(super) retransmitted: bool,
    /// 004 Fig. 5.7: gossip_retransmit_bit, which counts.
    pub(super) flagged: u32,
    /// The round in which it was last multicast as a repair.
    pub(super) multicast: Option<RoundNumber>,
    /// To whom it was sent, in this round or the last.
    pub(super) sent: Vec<(MemberId, RoundNumber)>,
}

impl Slot {
    pub(super) fn new(payload: Bytes, round: RoundNumber, long_term: bool) -> Self {
        Self {
            payload: Some(payload),
            born: round,
            long_term,
            requests: 0,
            retransmitted: false,
            flagged: 0,
            multicast: None,
            sent: Vec::new(),
        }
    }
}

/// Consecutive numbers that are missing, from the key under which it is kept.
#[derive(Clone, Copy, Debug)]
struct Hole {
    last: u64,
    /// The round in which it was found.
    since: RoundNumber,
    lost: bool,
}

/// Others said that messages exist which the sender denied.
#[derive(Clone, Debug)]
struct Denied {
    /// Those of which a forged one was here: of these none is taken from others. At most
    /// [`Stream::FORGED_MAX`]; the lowest, which are next.
    forged: BTreeSet<u64>,
    /// Up to here.
    to: u64,
    /// In this round, last.
    at: RoundNumber,
    /// The round in which the sender last said how many messages it had sent.
    heard: RoundNumber,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    New,
    /// It is held already.
    Duplicate,
    /// It was delivered and is stable, or was given up.
    Late,
    /// Another member than the sender passed it on, and the window does not reach so far, or the
    /// sender has denied that there is such a message.
    Beyond,
}

/// What comes next for the user.
#[derive(Debug)]
pub(super) enum Next {
    Deliver(u64, Bytes),
    Gap(u64, u64),
}

/// One sender's messages.
#[derive(Debug)]
pub(super) struct Stream {
    slots: BTreeMap<u64, Slot>,
    holes: BTreeMap<u64, Hole>,
    done: u64,
    high: u64,
    /// The round since which it is open where this member's part of the stream begins.
    open: Option<RoundNumber>,
    /// Until something is delivered: messages up to here were sent before this member had heard of
    /// the sender, and are no gap if they are lost.
    before: u64,
    /// The sender itself has said that it had sent this many.
    own_word: u64,
    /// Only others have said where the sender is, and nothing was told of it.
    hearsay: bool,
    /// What the sender has denied.
    denied: Option<Denied>,
    /// The round in which it last learned of a new number.
    moved: RoundNumber,
    window: u64,
}

impl Stream {
    /// Rounds for which a word of the sender may be on its way.
    const ON_ITS_WAY: u64 = 2;

    /// The most numbers that are kept of forged messages of one sender.
    const FORGED_MAX: usize = 256;

    /// A stream of which all from `start` + 1 on is wanted.
    pub(super) fn from(start: u64, window: u32) -> Self {
        Self {
            slots: BTreeMap::new(),
            holes: BTreeMap::new(),
            done: start,
            high: start,
            open: None,
            before: 0,
            own_word: 0,
            hearsay: false,
            denied: None,
            moved: RoundNumber::default(),
            window: u64::from(window),
        }
    }

    /// A stream that this member came across at `number`: what is wanted of those before is settled
    /// by a digest that knows more, or by time. All up to `before` were sent before this member had
    /// heard of the sender: it takes what it can get of them.
    pub(super) fn met_at(number: u64, before: u64, round: RoundNumber, window: u32) -> Self {
        let mut stream = Self::from(number - 1, window);
        stream.open = (number > 1).then_some(round);
        stream.before = before;
        stream.hearsay = true;
        stream
    }

    /// A message arrived. `slot` is asked for its entry only if it is new.
    pub(super) fn insert(
        &mut self,
        number: u64,
        round: RoundNumber,
        slot: impl FnOnce() -> Slot,
    ) -> Inserted {
        if self.slots.contains_key(&number) {
            return Inserted::Duplicate;
        }
        if number <= self.done {
            if self.open.is_none() || self.high - number >= self.window {
                return Inserted::Late;
            }
            self.begin_at(number, round);
        }
        self.reach(number, round);
        self.fill(number);
        self.slots.insert(number, slot());
        Inserted::New
    }

    /// Whether `number` is so high that only the sender itself can make a member give up what has
    /// to go for it.
    pub(super) fn is_beyond(&self, number: u64) -> bool {
        number > self.done.saturating_add(self.window)
    }

    /// Whether message `number` may be taken from another member than the sender. Not one of which
    /// a forged one was here, until the sender's own word reaches it, or nothing was heard of the
    /// sender for this many `rounds`: others may have taken the same, and be denied later. Others
    /// are taken, since along a tree messages come from others: so a false word costs the sender
    /// one message of its stream for each number that it names, however often it is said.
    pub(super) fn takes(&self, number: u64, round: RoundNumber, rounds: u64) -> bool {
        let denied = self.denied.as_ref();
        let denied = denied.filter(|denied| round.since(denied.heard) <= rounds);
        denied.is_none_or(|denied| !denied.forged.contains(&number))
    }

    /// Up to where another member may be believed that says that message `number` exists. Not
    /// beyond the sender's own word, for this many `rounds` after it has denied what others said:
    /// they may have heard the same, and be denied later. Nothing that others say prolongs that.
    pub(super) fn believable(&self, number: u64, round: RoundNumber, rounds: u64) -> u64 {
        let denied = self.denied.as_ref();
        match denied.is_some_and(|denied| round.since(denied.at) <= rounds) {
            true => number.min(self.own_word),
            false => number,
        }
    }

    /// Somebody holds the messages `first` to `last`: what lies between and is not here is missing.
    ///
    /// Hearsay moves the stream by its window at most, so a lie cannot make a member give up more
    /// than that; who was away for longer and hears others only gets there a window at a time.
    pub(super) fn claimed(&mut self, first: u64, last: u64, round: RoundNumber) {
        if self.open.is_some() && first <= self.done && self.high - first < self.window {
            self.begin_at(first, round);
        }
        let limit = self.done.saturating_add(self.window);
        self.reach(last.min(limit), round);
    }

    /// Message `number` came from its sender, for the first time. Returns the entries that this
    /// shows to be false.
    pub(super) fn came_from_sender(&mut self, number: u64, round: RoundNumber) -> Vec<Slot> {
        let mut refuted = Vec::new();
        if self.is_denied_by(number) {
            let met = Self::met_at(number, number - 1, round, 0);
            refuted = self.begin_anew(met, number, round);
        }
        self.hearsay = false;
        self.note_own_word(number);
        refuted
    }

    /// The sender said that it had sent this many messages, which may be long ago: then they came
    /// late, behind messages that were sent after them. Returns the entries that this shows to be
    /// false.
    pub(super) fn described(&mut self, sent: u64, round: RoundNumber) -> Vec<Slot> {
        let refuted = if self.is_denied_by(sent) {
            self.begin_anew(Self::from(sent, 0), sent, round)
        } else {
            self.refute(sent, round)
        };
        self.hearsay = false;
        self.note_own_word(sent);
        if let Some(denied) = &mut self.denied
            && sent == self.own_word
        {
            denied.heard = round;
        }
        if self.open.is_some() && sent <= self.done {
            // It was heard of before it sent any of those that came.
            self.before = self.before.min(sent);
            self.begin_at(sent + 1, round);
            self.close();
            self.leave_behind();
        }
        // Its own word: what the window leaves behind is given up, as if the last message had come.
        self.reach(sent, round);
        refuted
    }

    /// The sender itself has said that it had sent this many.
    fn note_own_word(&mut self, sent: u64) {
        self.own_word = self.own_word.max(sent);
        self.denied.take_if(|denied| denied.to <= self.own_word);
        if let Some(denied) = &mut self.denied {
            denied.forged = denied.forged.split_off(&(self.own_word + 1));
        }
    }

    /// The sender denies that there are messages above its own word up to `to`, of which those in
    /// `forged` were here.
    fn deny(&mut self, to: u64, forged: impl IntoIterator<Item = u64>, round: RoundNumber) {
        let mut before = self.denied.take().unwrap_or_else(|| Denied {
            forged: BTreeSet::new(),
            to,
            at: round,
            heard: round,
        });
        before.forged.extend(forged);
        while before.forged.len() > Self::FORGED_MAX {
            before.forged.pop_last();
        }
        self.denied = Some(Denied {
            forged: before.forged,
            to: before.to.max(to),
            at: round,
            heard: round,
        });
    }

    /// All that others alone have said is beyond the sender's word, `sent`, and was false: the
    /// stream begins anew, as `stream`. Returns the entries that it had.
    fn begin_anew(&mut self, stream: Self, sent: u64, round: RoundNumber) -> Vec<Slot> {
        let (window, denied) = (self.window, self.denied.take());
        let begun = Self {
            window,
            denied,
            ..stream
        };
        let before = core::mem::replace(self, begun);
        let beyond = before.slots.keys().copied().filter(|it| *it > sent);
        self.deny(before.high, beyond, round);
        before.slots.into_values().collect()
    }

    /// Whether the sender itself is so far from where others alone have said it was that they lied.
    fn is_denied_by(&self, sent: u64) -> bool {
        self.hearsay && sent.saturating_add(self.window) <= self.high
    }

    /// The sender has sent no more than `sent` messages by now: forgets what others claimed beyond,
    /// but for what is so new that it may have been sent since. If that is wrong, because the
    /// sender's word was long on its way, the next word of anybody tells of them again.
    ///
    /// Each claim counts by itself. A new one says that all before it has been sent since: that is
    /// missing as of the new claim, and a message that was here by then is forged all the same. So
    /// whoever goes on to name ever higher numbers does not keep what it named before. What the
    /// window has left behind stays given up.
    fn refute(&mut self, sent: u64, round: RoundNumber) -> Vec<Slot> {
        let floor = sent.max(self.done);
        if sent < self.own_word || self.high <= floor {
            return Vec::new();
        }
        let is_new = |since| round.since(since) <= Self::ON_ITS_WAY;
        let slots = self.slots.range(floor + 1..).rev();
        let mut slots = slots.map(|(number, slot)| (*number, slot.born));
        let holes = self
            .holes
            .values()
            .rev()
            .map(|hole| (hole.last, hole.since));
        let mut holes = holes.take_while(|(last, _)| *last > floor);
        let newest = slots
            .find(|(_, born)| is_new(*born))
            .max(holes.find(|(_, since)| is_new(*since)));
        let top = newest.map_or(floor, |(number, _)| number);
        let claimed = core::mem::replace(&mut self.high, top);
        self.split(floor + 1);
        self.split(top + 1);
        let is_forged = |(number, slot): (&u64, &Slot)| (!is_new(slot.born)).then_some(*number);
        let forged: Vec<u64> = self
            .slots
            .range(floor + 1..)
            .filter_map(is_forged)
            .collect();
        let refuted = forged.iter().filter_map(|number| self.slots.remove(number));
        let refuted: Vec<Slot> = refuted.collect();
        let mut above = self.holes.split_off(&(floor + 1));
        above.split_off(&(top + 1));
        let mut is_denied = top < claimed || !forged.is_empty();
        if let Some((_, since)) = newest {
            let missing = |last| Hole {
                last,
                since,
                lost: false,
            };
            for hole in above.values_mut().filter(|hole| !is_new(hole.since)) {
                *hole = missing(hole.last);
                is_denied = true;
            }
            let within = forged.iter().filter(|number| **number < top);
            above.extend(within.map(|number| (*number, missing(*number))));
            self.join(above);
            self.leave_behind();
        }
        if is_denied {
            self.deny(claimed, forged, round);
        }
        refuted
    }

    /// Adds holes, of which those that follow each other and are alike become one.
    fn join(&mut self, holes: BTreeMap<u64, Hole>) {
        let mut holes = holes.into_iter().peekable();
        while let Some((first, mut hole)) = holes.next() {
            let goes_on = |next: &(u64, Hole), hole: &Hole| {
                next.0 == hole.last + 1 && (next.1.since, next.1.lost) == (hole.since, hole.lost)
            };
            while let Some((_, next)) = holes.next_if(|next| goes_on(next, &hole)) {
                hole.last = next.last;
            }
            self.holes.insert(first, hole);
        }
    }

    /// Whether something that only others have said to exist has been missing for more than
    /// `rounds`.
    pub(super) fn doubts(&self, round: RoundNumber, rounds: u64) -> bool {
        let claimed = self.holes.values().rev();
        let mut claimed = claimed.take_while(|hole| hole.last > self.own_word);
        claimed.any(|hole| round.since(hole.since) > rounds)
    }

    /// It is settled where this member's part of the stream begins.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// The round since which it is open where the stream begins, if it is.
    pub(super) fn open(&self) -> Option<RoundNumber> {
        self.open
    }

    /// The first number that is not done.
    pub(super) fn first(&self) -> u64 {
        self.done + 1
    }

    /// While it is open where the stream begins: at `number`, not above the first that is here.
    fn begin_at(&mut self, number: u64, round: RoundNumber) {
        if number <= self.done {
            let hole = Hole {
                last: self.done,
                since: round,
                lost: false,
            };
            self.holes.insert(number, hole);
            self.done = number - 1;
        }
        if self.done == 0 {
            // Nothing comes before a sender's first message.
            self.close();
        }
    }

    /// Makes `number` part of the stream, as missing.
    fn reach(&mut self, number: u64, round: RoundNumber) {
        if number <= self.high {
            return;
        }
        let hole = Hole {
            last: number,
            since: round,
            lost: false,
        };
        self.holes.insert(self.high + 1, hole);
        self.high = number;
        self.moved = round;
        self.leave_behind();
    }

    /// Gives up what the window has left behind.
    fn leave_behind(&mut self) {
        let limit = self.high.saturating_sub(self.window);
        if limit <= self.done {
            return;
        }
        self.split(limit + 1);
        for (_, hole) in self.holes.range_mut(..=limit) {
            hole.lost = true;
        }
    }

    /// Makes a hole begin at `number`, if one goes on there.
    fn split(&mut self, number: u64) {
        if let Some((first, hole)) = self.holes.range_mut(..number).next_back()
            && *first < number
            && hole.last >= number
        {
            let rest = *hole;
            hole.last = number - 1;
            self.holes.insert(number, rest);
        }
    }

    /// Takes `number` out of the hole that it is in.
    fn fill(&mut self, number: u64) {
        self.split(number);
        self.split(number + 1);
        self.holes.remove(&number);
    }

    /// Gives up holes that are older than `threshold` rounds.
    pub(super) fn give_up(&mut self, round: RoundNumber, threshold: u64) {
        for hole in self.holes.values_mut() {
            hole.lost |= round.since(hole.since) > threshold;
        }
    }

    /// What the user should know next, once.
    pub(super) fn next(&mut self) -> Option<Next> {
        while self.open.is_none() && self.done < self.high {
            let next = self.done + 1;
            let Some(hole) = self.holes.get(&next).copied() else {
                let payload = self.slots.get(&next)?.payload.clone()?;
                self.done = next;
                self.before = 0;
                self.hearsay = false;
                return Some(Next::Deliver(next, payload));
            };
            if !hole.lost {
                return None;
            }
            self.holes.remove(&next);
            self.done = hole.last;
            if hole.last > self.before {
                let first = next.max(self.before + 1);
                self.before = 0;
                self.hearsay = false;
                return Some(Next::Gap(first, hole.last));
            }
        }
        None
    }

    /// The missing numbers from `first` to `last`, highest first (004 3.7: most recent first).
    pub(super) fn missing(&self, first: u64, last: u64) -> impl Iterator<Item = u64> {
        let holes = self.holes.range(..=last).rev();
        holes
            .take_while(move |(_, hole)| hole.last >= first)
            .flat_map(move |(start, hole)| ((*start).max(first)..=hole.last.min(last)).rev())
    }

    /// Whether `number` is wanted and not here.
    pub(super) fn lacks(&self, number: u64) -> bool {
        number > self.done && !self.slots.contains_key(&number)
    }

    /// The entry of a message.
    pub(super) fn slot_mut(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(&number)
    }

    /// Another member says which messages of `run` it has repaired. Returns how many entries were
    /// looked at: those that are held there, however many numbers it names.
    pub(super) fn flag(&mut self, run: &Run) -> usize {
        let Some((first, last)) = run.repaired_within() else {
            return 0;
        };
        let mut looked_at = 0;
        for (number, slot) in self.slots.range_mut(first..=last) {
            looked_at += 1;
            if run.is_repaired(*number) {
                slot.flagged = slot.flagged.saturating_add(1);
            }
        }
        looked_at
    }

    /// The entry of a message.
    pub(super) fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots.get(&number)
    }

    /// All entries, highest first.
    pub(super) fn slots(&self) -> impl DoubleEndedIterator<Item = (u64, &Slot)> {
        self.slots
            .iter()
            .rev()
            .map(|(number, slot)| (*number, slot))
    }

    /// The runs of missing numbers, highest first.
    pub(super) fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.holes
            .iter()
            .rev()
            .map(|(first, hole)| (*first, hole.last))
    }

    /// Passes every entry to `keep`, which may change it; those delivered that it returns false for
    /// are forgotten.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64, bool, &mut Slot) -> bool) {
        let done = if self.open.is_some() { 0 } else { self.done };
        self.slots
            .retain(|number, slot| keep(*number, *number <= done, slot) || *number > done);
    }

    /// The age of the oldest entry, if it is delivered.
    pub(super) fn evictable(&self) -> Option<RoundNumber> {
        let (number, slot) = self.slots.first_key_value()?;
        (*number <= self.done && self.open.is_none()).then_some(slot.born)
    }

    /// Forgets the oldest entry, if it is delivered.
    pub(super) fn evict(&mut self) -> Option<Slot> {
        self.evictable()?;
        self.slots.pop_first().map(|(_, slot)| slot)
    }

    /// Whether `number` is delivered as soon as it is here.
    pub(super) fn is_next(&self, number: u64) -> bool {
        self.open.is_none() && number == self.done + 1
    }

    /// Since which round messages that are here wait for others that are not.
    pub(super) fn blocked(&self) -> Option<RoundNumber> {
        if self.waiting() == 0 {
            return None;
        }
        let hole = self.holes.get(&(self.done + 1));
        self.open.or(hole.map(|hole| hole.since))
    }

    /// Waits no longer for what the first messages that are here wait for.
    pub(super) fn give_up_first(&mut self) {
        self.close();
        if let Some(hole) = self.holes.get_mut(&(self.done + 1)) {
            hole.lost = true;
        }
    }

    /// The round in which it last learned of a new number.
    pub(super) fn moved(&self) -> RoundNumber {
        self.moved
    }

    /// Whether only others have said where the sender is, and nothing was told of it.
    pub(super) fn is_hearsay(&self) -> bool {
        self.hearsay
    }

    /// Whether nothing is held or missing.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.holes.is_empty() && self.open.is_none()
    }

    /// Whether something is not done yet.
    pub(super) fn waits(&self) -> bool {
        self.done < self.high
    }

    /// Messages that are held and wait for others.
    pub(super) fn waiting(&self) -> usize {
        self.slots.range(self.done + 1..).count()
    }
}

#[cfg(test)]
mod tests;
