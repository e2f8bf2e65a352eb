//! One sender's messages as one member sees them: what it holds, what it misses, what it has given
//! up.
//!
//! Numbers up to `done` are delivered or reported; every number above, up to `high`, is held (and
//! waits) or is in a hole. A hole is lost when it is old enough; it is reported, as a gap, when all
//! before it is done, and until then a late copy still fills it. Memory: at most `window` numbers
//! lie between `done` and `high`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::MemberId;

use super::round::RoundNumber;

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

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    New,
    /// It is held already.
    Duplicate,
    /// It was delivered and is stable, or was given up.
    Late,
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
    /// The round in which it last learned of a new number.
    moved: RoundNumber,
    window: u64,
}

impl Stream {
    /// A stream of which all from `start` + 1 on is wanted.
    pub(super) fn from(start: u64, window: u32) -> Self {
        Self {
            slots: BTreeMap::new(),
            holes: BTreeMap::new(),
            done: start,
            high: start,
            open: None,
            before: 0,
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

    /// Somebody holds the messages `first` to `last`: what lies between and is not here is missing.
    ///
    /// Hearsay moves the stream by its window at most, so a lie cannot make a member give up more
    /// than that.
    pub(super) fn claimed(&mut self, first: u64, last: u64, round: RoundNumber) {
        if self.open.is_some() && first <= self.done && self.high - first < self.window {
            self.begin_at(first, round);
        }
        let limit = self.done.saturating_add(self.window);
        if last > self.high && first <= limit {
            self.reach(last.min(limit), round);
        }
    }

    /// The sender said that it had sent so many messages, which may be long ago: then they came
    /// late, behind messages that were sent after them.
    pub(super) fn described(&mut self, sent: u64, round: RoundNumber) {
        if self.open.is_some() && sent <= self.done {
            // It was heard of before it sent any of those that came.
            self.before = self.before.min(sent);
            self.begin_at(sent + 1, round);
            self.close();
            self.leave_behind();
        }
        // Its own word: what the window leaves behind is given up, as if the last message had come.
        self.reach(sent, round);
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
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn put(stream: &mut Stream, number: u64, round: u64) -> Inserted {
        let round = RoundNumber(round);
        stream.insert(number, round, || Slot::new(Bytes::new(), round, true))
    }

    fn drain(stream: &mut Stream) -> Vec<(u64, u64, bool)> {
        core::iter::from_fn(|| stream.next())
            .map(|next| match next {
                Next::Deliver(number, _) => (number, number, true),
                Next::Gap(first, last) => (first, last, false),
            })
            .collect()
    }

    #[test]
    fn a_hole_waits_for_its_age_then_is_a_gap_in_its_place() {
        let mut stream = Stream::from(0, 64);
        put(&mut stream, 1, 0);
        put(&mut stream, 4, 0);
        assert_eq!(drain(&mut stream), [(1, 1, true)]);
        assert_eq!(stream.missing(1, 9).collect::<Vec<_>>(), [3, 2]);
        stream.give_up(RoundNumber(2), 2);
        assert_eq!(drain(&mut stream), []);
        stream.give_up(RoundNumber(3), 2);
        assert_eq!(drain(&mut stream), [(2, 3, false), (4, 4, true)]);
        assert_eq!(put(&mut stream, 2, 3), Inserted::Late);
    }

    #[test]
    fn a_late_copy_fills_a_lost_hole_that_is_not_reported_yet() {
        let mut stream = Stream::from(0, 64);
        put(&mut stream, 2, 0);
        stream.claimed(4, 5, RoundNumber(5));
        stream.give_up(RoundNumber(6), 3);
        assert_eq!(put(&mut stream, 1, 6), Inserted::New);
        assert_eq!(drain(&mut stream), [(1, 1, true), (2, 2, true)]);
    }

    #[test]
    fn a_claim_moves_the_stream_by_its_window_at_most() {
        let mut stream = Stream::from(0, 64);
        stream.claimed(1, u64::MAX, RoundNumber(0));
        assert_eq!(stream.missing(1, u64::MAX).count(), 64);
        let mut far = Stream::from(0, 64);
        far.claimed(1 << 40, 1 << 41, RoundNumber(0));
        assert_eq!(far.missing(1, u64::MAX).count(), 0);
    }

    #[test]
    fn a_message_beyond_the_window_leaves_the_old_ones_behind() {
        let mut stream = Stream::from(0, 64);
        put(&mut stream, 2, 0);
        put(&mut stream, 1000, 0);
        assert_eq!(
            drain(&mut stream),
            [(1, 1, false), (2, 2, true), (3, 936, false)]
        );
        assert_eq!(stream.missing(1, 2000).count(), 63);
    }

    #[test]
    fn a_stream_met_in_its_middle_begins_where_the_first_digest_says() {
        let mut stream = Stream::met_at(10, 9, RoundNumber(3), 64);
        put(&mut stream, 10, 3);
        assert_eq!(drain(&mut stream), []);
        stream.claimed(8, 10, RoundNumber(4));
        stream.close();
        assert_eq!(stream.missing(1, 20).collect::<Vec<_>>(), [9, 8]);
        put(&mut stream, 8, 4);
        assert_eq!(drain(&mut stream), [(8, 8, true)]);
        assert_eq!(put(&mut stream, 7, 4), Inserted::Late);
    }

    #[test]
    fn what_is_lost_before_the_first_delivery_of_a_stream_met_in_its_middle_is_no_gap() {
        let met = |arrived: &[u64]| {
            let mut stream = Stream::met_at(10, 9, RoundNumber(0), 64);
            stream.claimed(5, 12, RoundNumber(0));
            stream.close();
            for number in arrived {
                put(&mut stream, *number, 0);
            }
            stream.give_up(RoundNumber(9), 3);
            drain(&mut stream)
        };
        let gaps = [(7, 7, true), (8, 8, false), (9, 9, true), (10, 12, false)];
        assert_eq!(met(&[7, 9]), gaps);
        assert_eq!(met(&[12]), [(10, 11, false), (12, 12, true)]);
    }

    #[test]
    fn a_description_from_before_the_first_arrival_settles_where_the_stream_begins() {
        let mut stream = Stream::met_at(2, 1, RoundNumber(0), 64);
        put(&mut stream, 2, 0);
        stream.described(0, RoundNumber(0));
        assert_eq!(drain(&mut stream), []);
        assert_eq!(stream.missing(1, 9).collect::<Vec<_>>(), [1]);
        stream.give_up(RoundNumber(9), 3);
        assert_eq!(drain(&mut stream), [(1, 1, false), (2, 2, true)]);
        // From before all that the window can hold: the rest of it is given up at once.
        let mut far = Stream::met_at(100, 99, RoundNumber(0), 64);
        put(&mut far, 100, 0);
        far.described(3, RoundNumber(0));
        assert_eq!(drain(&mut far), [(4, 36, false)]);
        assert_eq!(far.missing(1, 200).count(), 63);
    }

    proptest! {
        /// The same where the stream is met in its middle and its sender says of itself what it
        /// likes.
        #[test]
        fn a_stream_met_in_its_middle_is_told_once_and_in_order(
            met in 1u64..40, steps in prop::collection::vec((1u64..80, 0u8..6), 1..100)
        ) {
            let mut stream = Stream::met_at(met, met - 1, RoundNumber(0), 16);
            put(&mut stream, met, 0);
            let (mut round, mut next) = (0, None);
            for (number, what) in steps {
                match what {
                    0 => { round += 1; stream.give_up(RoundNumber(round), 3); }
                    1 => stream.claimed(number, number + 2, RoundNumber(round)),
                    2 => stream.described(number - 1, RoundNumber(round)),
                    3 if number < 8 => stream.close(),
                    _ => { put(&mut stream, number, round); }
                }
                for (first, last, _) in drain(&mut stream) {
                    prop_assert!(first <= last && next.is_none_or(|next| first == next));
                    next = Some(last + 1);
                }
                prop_assert!(stream.high - stream.done <= 16 || stream.open.is_some());
            }
        }

        /// Whatever arrives in whatever order: every number is delivered or reported, once, in
        /// order.
        #[test]
        fn every_number_is_delivered_or_reported_once_and_in_order(
            steps in prop::collection::vec((1u64..40, 0u8..4), 1..100)
        ) {
            let mut stream = Stream::from(0, 64);
            let (mut round, mut told, mut arrived) = (0, Vec::new(), BTreeSet::new());
            let mut high = 0;
            for (number, what) in steps {
                match what {
                    0 => { round += 1; stream.give_up(RoundNumber(round), 3); }
                    1 => { stream.claimed(number, number + 2, RoundNumber(round)); high = high.max(number + 2); }
                    _ => {
                        high = high.max(number);
                        if put(&mut stream, number, round) == Inserted::New {
                            prop_assert!(arrived.insert(number));
                        }
                    }
                }
                told.extend(drain(&mut stream));
                stream.retain(|_, _, _| true);
            }
            stream.give_up(RoundNumber(round + 10), 3);
            told.extend(drain(&mut stream));
            let mut next = 1;
            for (first, last, delivered) in told {
                prop_assert_eq!(first, next);
                prop_assert!((first..=last).all(|number| arrived.contains(&number) == delivered));
                next = last + 1;
            }
            prop_assert_eq!(next, high + 1);
        }
    }
}
