//! Delays: members with whom something is not done for a time, as with those in quarantine.
//!
//! A delay that is needed again soon is longer than the one before. A member that was well for a
//! while is spared that once, and the same failure counts once ([`Peers`] has the words).
//!
//! The table is bounded by [`Peers::MAX`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use super::peers::Peers;
use crate::id::MemberId;
use crate::status::{GivenUp, LeftOut};
use crate::time::Time;

/// This many times in a row, behind the first, a member that stopped is let in as soon as it
/// answers.
const FORGIVEN_MAX: u8 = 3;
/// How long a witness must say that it is together with whom it wanted out: one that does not get
/// on with it may be for a moment.
const TOGETHER_FOR: Duration = Duration::from_secs(1);

/// How long delays last.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// The first one.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// How many times as long as the one before is one that is needed again soon.
    pub growth: u32,
}

/// Members with whom something is not done for a time, longer each time that it is needed again
/// soon.
#[derive(Clone, Hash, Debug, Default)]
pub struct Delays {
    pub(super) delays: BTreeMap<MemberId, Delay>,
}

#[derive(Clone, Hash, Debug)]
pub(super) struct Delay {
    begun: Time,
    pub(super) until: Time,
    pub(super) length: Duration,
    /// It is no longer than the one before, although that was not long ago.
    spared: bool,
    /// Since when the member is well: in each configuration.
    well: Option<Time>,
    /// How many in a row might end early.
    forgiven: u8,
    /// What follows now is the same failure.
    same: bool,
    /// It only answers what the member has done.
    answers: bool,
    /// On whose word alone it began.
    witness: Option<MemberId>,
    /// Since when that one says that it is in a configuration with the member.
    together: Option<Time>,
    /// When the member was last heard before, if it was.
    heard_before: Option<Time>,
    /// When anything was last heard of it since.
    heard: Option<Time>,
}

/// What is only told: nothing that a member does follows from it, so members that differ in it are
/// alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<T>(pub(super) T);

impl<T> Hash for Told<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Delay {
    /// How many times its length a delay is remembered after its end.
    const REMEMBERED: u32 = 8;
    /// A member that is well for less than this many of the shortest delays has failed soon.
    const SOON: u32 = 8;

    /// The first one of a member, or one after a long time.
    fn first(now: Time, length: Duration) -> Self {
        Self {
            begun: now,
            until: now + length,
            length,
            spared: false,
            well: None,
            forgiven: 0,
            same: false,
            answers: false,
            witness: None,
            together: None,
            heard_before: None,
            heard: None,
        }
    }

    /// The one that follows now: longer, if it does so while this one is remembered.
    ///
    /// A member that was well for a while may not be to blame for what others went through with it:
    /// it waits for as long as before. It is spared so once for each length, and this one is
    /// remembered for as long as ever, so a link that fails again and again gains little by lasting
    /// longer now and then. What is the same failure once more makes it no longer, and does not
    /// spare it.
    fn next(&self, now: Time, lengths: Lengths) -> Self {
        let Lengths { min, max, growth } = lengths;
        if !self.is_remembered(now) {
            return Self::first(now, min);
        }
        let (length, spared) = if self.same {
            (self.length, self.spared)
        } else if self.spared || !self.is_well(now, min) {
            ((self.length * growth).min(max), false)
        } else {
            (self.length, true)
        };
        Self {
            spared,
            forgiven: self.forgiven,
            heard_before: self.last_heard(),
            ..Self::first(now, length)
        }
    }

    /// Whether the member has been well for long enough, with `min` for the shortest delay.
    fn is_well(&self, now: Time, min: Duration) -> bool {
        let is_long = |since| now.since(since) >= min * Self::SOON;
        self.well.is_some_and(is_long)
    }

    /// When the member was last heard.
    fn last_heard(&self) -> Option<Time> {
        self.heard.max(self.heard_before)
    }

    /// Whether one that follows now does so soon.
    fn is_remembered(&self, now: Time) -> bool {
        now.since(self.until) < self.length * Self::REMEMBERED
    }
}

impl Delays {
    /// Delays `member` from `now` on: for the first time, or for longer than before if that was not
    /// long ago and it is not spared. False if there is no room for one more.
    pub fn begin(&mut self, now: Time, member: MemberId, lengths: Lengths) -> bool {
        self.begin_heard(now, member, None, lengths)
    }

    /// The same of a member that was last `heard` then: where there is no room, it takes the place
    /// of the one that has been silent for longest, or was never heard. Others may name whom they
    /// like; who is not there does not have to be delayed.
    pub(super) fn begin_heard(
        &mut self,
        now: Time,
        member: MemberId,
        heard: Option<Time>,
        lengths: Lengths,
    ) -> bool {
        if !self.has_room(now, member, heard) {
            return false;
        }
        let mut delay = match self.delays.get(&member) {
            Some(before) => before.next(now, lengths),
            None => Delay::first(now, lengths.min),
        };
        delay.heard_before = delay.heard_before.max(heard);
        self.delays.insert(member, delay);
        true
    }

    /// Whether there is room for `member`, which was last `heard` then; makes some.
    fn has_room(&mut self, now: Time, member: MemberId, heard: Option<Time>) -> bool {
        if self.delays.len() >= Peers::MAX {
            self.delays.retain(|_, delay| now < delay.until);
        }
        if self.delays.len() < Peers::MAX || self.delays.contains_key(&member) {
            return true;
        }
        let silent = self.delays.iter().min_by_key(|(_, it)| it.last_heard());
        let silent = silent.filter(|(_, it)| it.last_heard() < heard);
        let silent = silent.map(|(member, _)| *member);
        silent.is_some_and(|silent| self.delays.remove(&silent).is_some())
    }

    /// When `member`, which is delayed or was, was last heard.
    pub(super) fn last_heard(&self, member: MemberId) -> Option<Time> {
        self.delays.get(&member)?.last_heard()
    }

    /// These members are well, and no others.
    pub(super) fn note_well(&mut self, now: Time, members: &[MemberId]) {
        for (member, delay) in &mut self.delays {
            let since = delay.well.unwrap_or(now);
            delay.same = false;
            delay.well = members.contains(member).then_some(since);
        }
    }

    /// What follows now is another failure, of whomever.
    pub(super) fn note_another(&mut self) {
        for delay in self.delays.values_mut() {
            delay.same = false;
        }
    }

    /// What follows is the same failure of `member` for now.
    pub(super) fn mark_same(&mut self, member: MemberId) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.same = true;
        }
    }

    /// When the delay of `member` began, if it is delayed now.
    pub(super) fn begun(&self, now: Time, member: MemberId) -> Option<Time> {
        let delay = self.delays.get(&member).filter(|it| now < it.until)?;
        Some(delay.begun)
    }

    /// How long the next delay of `member` is, if the last one is remembered and the member is not
    /// well since.
    pub(super) fn next_of_newcomer(
        &self,
        now: Time,
        member: MemberId,
        lengths: Lengths,
    ) -> Option<Duration> {
        let last = self.delays.get(&member)?;
        let is_newcomer = last.is_remembered(now) && !last.is_well(now, lengths.min);
        is_newcomer.then(|| last.length.saturating_mul(lengths.growth).min(lengths.max))
    }

    /// Whether the next delay of `member` may end early.
    pub(super) fn forgive(&mut self, now: Time, member: MemberId, min: Duration) -> bool {
        let last = self.delays.get_mut(&member);
        let Some(last) = last.filter(|it| it.is_remembered(now)) else {
            return true;
        };
        if last.is_well(now, min) {
            last.forgiven = 0;
        }
        last.forgiven = (last.forgiven + 1).min(FORGIVEN_MAX + 1);
        last.forgiven <= FORGIVEN_MAX
    }

    /// The delay of `member` lasts for `length`, if that is longer.
    pub(super) fn lengthen(&mut self, member: MemberId, length: Duration) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.length = delay.length.max(length);
            delay.until = delay.until.max(delay.begun + length);
        }
    }

    /// The delay of `member` only answers what the member has done.
    pub(super) fn mark_answer(&mut self, member: MemberId) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.answers = true;
        }
    }

    /// The delay of `member` is on the word of `witness` alone.
    pub(super) fn mark_word(&mut self, member: MemberId, witness: MemberId) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.witness = Some(witness);
        }
    }

    /// On whose word alone `member` is delayed now.
    pub(super) fn word_of(&self, now: Time, member: MemberId) -> Option<MemberId> {
        let delay = self.delays.get(&member).filter(|it| now < it.until)?;
        delay.witness
    }

    /// `witness` has these members with it: their delays on its word alone end once it has had them
    /// for a second.
    pub(super) fn take_back(&mut self, now: Time, witness: MemberId, members: &[MemberId]) {
        let on_its_word = |it: &&mut Delay| now < it.until && it.witness == Some(witness);
        for (member, delay) in &mut self.delays {
            let Some(delay) = Some(delay).filter(on_its_word) else {
                continue;
            };
            let since = delay.together.unwrap_or(now);
            delay.together = members.contains(member).then_some(since);
            if delay.together.is_some() && now.since(since) >= TOGETHER_FOR {
                delay.until = now;
            }
        }
    }

    /// Whether anybody is delayed now on the word of `witness`.
    pub(super) fn has_witness(&self, now: Time, witness: MemberId) -> bool {
        let mut delays = self.delays.values();
        delays.any(|it| now < it.until && it.witness == Some(witness))
    }

    /// Anything was heard of `member`.
    pub(super) fn note_alive(&mut self, now: Time, member: MemberId) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.heard = Some(now);
        }
    }

    /// Those that are delayed now; why, where `why` does not know more of a member.
    pub(super) fn left_out(
        &self,
        now: Time,
        why: impl Fn(MemberId) -> Option<GivenUp>,
        answers: impl Fn(MemberId) -> Option<bool>,
    ) -> Vec<LeftOut> {
        let lasting = self.delays.iter().filter(|(_, it)| now < it.until);
        let said = lasting.map(|(member, delay)| LeftOut {
            member: *member,
            why: match (delay.answers, delay.witness) {
                (true, _) => GivenUp::GaveUsUp,
                (false, Some(witness)) => GivenUp::Word(witness),
                (false, None) => why(*member).unwrap_or(GivenUp::Others),
            },
            since: delay.begun,
            until: delay.until,
            heard: delay.heard,
            answers: answers(*member),
        });
        said.collect()
    }

    /// Whether the delay of `member` only answers what it has done, was not stretched, and began at
    /// least `min` ago.
    pub(super) fn answers_since(&self, now: Time, member: MemberId, min: Duration) -> bool {
        let delay = self.delays.get(&member);
        let answers = |it: &Delay| it.answers && it.until <= it.begun + it.length;
        delay.is_some_and(|it| answers(it) && now.since(it.begun) >= min)
    }

    /// The delay of `member` ends at `until`, if it ends earlier otherwise.
    pub(super) fn stretch(&mut self, member: MemberId, until: Time) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.until = delay.until.max(until);
        }
    }

    /// The delay of `member` ends when its length is over, or now if it is.
    pub(super) fn unstretch(&mut self, now: Time, member: MemberId) {
        if let Some(delay) = self.delays.get_mut(&member) {
            let over = delay.begun + delay.length;
            delay.until = delay.until.min(over.max(now));
        }
    }

    /// Whether the length of the delay of `member` is not over.
    pub(super) fn would_last(&self, now: Time, member: MemberId) -> bool {
        let delay = self.delays.get(&member);
        delay.is_some_and(|it| now < it.until.min(it.begun + it.length))
    }

    /// `member` is delayed no longer.
    pub fn end(&mut self, now: Time, member: MemberId) {
        if let Some(delay) = self.delays.get_mut(&member) {
            delay.until = delay.until.min(now);
        }
    }

    /// Whether `member` is delayed now.
    pub fn lasts(&self, now: Time, member: MemberId) -> bool {
        let delay = self.delays.get(&member);
        delay.is_some_and(|delay| now < delay.until)
    }
}
