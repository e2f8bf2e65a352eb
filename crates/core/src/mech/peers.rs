//! What a member remembers of others from configuration to configuration: whom it hears, whose
//! messages about membership are stale, who is in quarantine, and when it answered last.
//!
//! - **Evidence**: another member's word that it hears us shows that the way to it works. A
//!   member that is in no configuration of ours is let in on evidence only; else a link that works
//!   one way would break and form the configuration again and again.
//! - **Quarantine**: who was excluded is not let in for a time, longer if it happens again soon; a
//!   member that was well for a while is spared that once, and the same failure counts once. If a
//!   member was excluded because it had given us up, it ends when that one hears us again. If it
//!   was excluded on the word of another member alone, the witness, it ends when that one is gone,
//!   or is together with it again.
//!   Others may name members that do not exist, and that are excluded since they do not answer:
//!   where there is no more room, one that was heard takes the place of one that was not.
//! - **New lives**: that of a member waits until the old one is missed; what two living processes
//!   of one name do is in [`namesakes`](super::namesakes).
//!
//! Every table is bounded by [`Peers::MAX`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::delays::{Delays, Lengths};
use super::indices::Indices;
use super::probes::Probes;
use crate::id::MemberId;
use crate::status::LeftOut;
use crate::time::Time;

/// A member's count of its own changes of mind about who should be in the next configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Attempt(pub u64);

impl Attempt {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What to do about a member that is in no configuration of ours, and that was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// Nothing: it is in quarantine, or a namesake of a member.
    Ignore,
    /// Let it know that it is heard, as often as [`Peers::may_answer`] allows.
    Answer,
    /// Let it in: it hears us.
    LetIn,
}

/// What a member remembers of others.
#[derive(Clone, Hash, Debug, Default)]
pub struct Peers {
    /// Own changes of mind so far.
    pub attempt: Attempt,
    /// The highest counter of a configuration seen anywhere since the last one was installed.
    counter: u64,
    /// The counter of the last configuration that this member began to form.
    formed: u64,
    /// The highest attempt of each member, and when it was last heard of one.
    attempts: BTreeMap<MemberId, (Attempt, Time)>,
    /// When a member was last heard.
    heard: BTreeMap<MemberId, Time>,
    quarantine: Delays,
    /// The last configuration that all agreed on, if none was installed since and somebody says so.
    agreed: Vec<MemberId>,
    /// Those on whose word somebody is in quarantine: when anything was last heard of them.
    witnesses: BTreeMap<MemberId, Time>,
    /// Strangers that say that they hear others of us: since when, and when they last did.
    hints: BTreeMap<MemberId, (Time, Time)>,
    /// When a stranger was last answered.
    answered: Option<Time>,
}

/// How long a member counts as heard. Short, so that a member that hears nothing any more is not
/// taken for one that does.
const HEARD_FOR: Duration = Duration::from_millis(300);
/// A member of which nothing was heard for this many turns of announcements is not heard: where one
/// datagram in five is lost, that is one chance in 400,000.
const UNHEARD_TURNS: u32 = 8;
/// How long a stranger must say that it hears others of us before that counts as evidence.
const HINTED_FOR: Duration = Duration::from_secs(1);
/// The most members whose evidence is told: as many as are in a configuration. Were they fewer, the
/// highest of a large one would be told that nobody hears them.
const HEARD_TOLD: usize = Indices::MAX;
/// Another member's word raises the counter of this member's next configuration by no more. No
/// group forms this many; and this many times as many are below what others refuse.
const COUNTER_JUMP_MAX: u64 = 1 << 32;
/// Strangers are answered at most this often.
const ANSWER_INTERVAL: Duration = Duration::from_millis(10);

impl Peers {
    /// The most entries of each table.
    pub const MAX: usize = 512;

    /// The highest counter of a configuration that is known.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// A configuration with this counter exists somewhere, as another member says.
    pub fn note_counter(&mut self, counter: u64) {
        self.counter = self.counter.max(counter);
    }

    /// The configuration with this counter was installed: higher ones that were heard of before
    /// came to nothing.
    pub fn note_installed(&mut self, counter: u64) {
        self.counter = counter;
    }

    /// The configuration of `members` was installed: those that are in it are well, the others are
    /// not. A member that was well for a while is spared a longer quarantine once. Where nobody
    /// says who is well, nobody is spared.
    pub fn note_well(&mut self, now: Time, members: &[MemberId]) {
        self.agreed.clear();
        self.quarantine.note_well(now, members);
    }

    /// All agree on a configuration of `members`. Those that are excluded from it again and again
    /// have failed once, until it is installed or all agree on another one.
    pub fn note_agreed(&mut self, members: &[MemberId]) {
        if self.agreed != members {
            self.agreed = members.to_vec();
            self.quarantine.note_another();
        }
    }

    /// The counter of the next configuration that this member forms: higher than any that was seen,
    /// and than any that it gave before, which makes configurations distinct. Another member's word
    /// raises it by no more than 2^32 each time, so that it never reaches what others refuse. The
    /// second result says whether it would have been raised further.
    pub fn next_counter(&mut self) -> (u64, bool) {
        let most = self.formed + COUNTER_JUMP_MAX;
        let capped = self.counter > most;
        self.formed = self.counter.clamp(self.formed, most) + 1;
        self.counter = self.formed;
        (self.formed, capped)
    }

    /// Notes an attempt of `from`: `None` if it is stale, else whether it is a new one. Where too
    /// many members have made attempts, the one that has been silent for longest is forgotten, but
    /// none that `keeps` says to keep.
    pub fn note_attempt(
        &mut self,
        now: Time,
        from: MemberId,
        attempt: Attempt,
        keeps: impl Fn(MemberId) -> bool,
    ) -> Option<bool> {
        if self.attempts.len() >= Self::MAX && !self.attempts.contains_key(&from) {
            let strangers = self.attempts.iter().filter(|(member, _)| !keeps(**member));
            let silent = strangers.min_by_key(|(_, (_, at))| *at);
            let silent = silent.map(|(member, _)| *member)?;
            self.attempts.remove(&silent);
        }
        let first = (Attempt::default(), now);
        let (seen, at) = self.attempts.entry(from).or_insert(first);
        if attempt < *seen {
            return None;
        }
        let fresh = attempt > *seen;
        (*seen, *at) = (attempt, now);
        Some(fresh)
    }

    /// Whether this attempt of `from`, or a later one, was noted.
    pub fn has_heard(&self, from: MemberId, attempt: Attempt) -> bool {
        let seen = self.attempts.get(&from);
        seen.is_some_and(|(seen, _)| attempt <= *seen)
    }

    /// A message about membership came from `from`.
    pub fn note_heard(&mut self, now: Time, from: MemberId) {
        if self.heard.len() >= Self::MAX {
            self.heard.retain(|_, at| now.since(*at) < HEARD_FOR);
        }
        if self.heard.len() < Self::MAX {
            self.heard.insert(from, now);
        }
    }

    /// The members that were heard in the last 300 ms, at most 128: evidence for them that the way
    /// to us works.
    pub fn heard(&self, now: Time) -> Vec<MemberId> {
        let recent = self
            .heard
            .iter()
            .filter(|(_, at)| now.since(**at) < HEARD_FOR);
        recent.map(|(member, _)| *member).take(HEARD_TOLD).collect()
    }

    /// `member` was excluded: it is not let in for this long. What follows within the shortest
    /// quarantine counts as once, and so does what follows while all [agree](Self::note_agreed) on
    /// the same. Whether a quarantine begins.
    pub fn quarantine(&mut self, now: Time, member: MemberId, lengths: Lengths) -> bool {
        // Another member may have let it in before this one would have.
        let begun = self.quarantine.begun(now, member);
        let again = begun.is_none_or(|begun| now.since(begun) >= lengths.min);
        let heard = self.heard.get(&member).copied();
        let begins = again && self.quarantine.begin_heard(now, member, heard, lengths);
        if begins {
            self.heard.remove(&member);
            if !self.agreed.is_empty() {
                self.quarantine.mark_same(member);
            }
        }
        begins
    }

    /// `member`, whose quarantine begins now, made way for those of `others` that were let in a
    /// moment ago. Two that do not get on would take each other's place again and again, each with
    /// a quarantine that is still short: that of `member` lasts for at least as long as the next
    /// one of any of them.
    pub fn made_way(&mut self, now: Time, member: MemberId, others: &[MemberId], lengths: Lengths) {
        let next = |it: &MemberId| self.quarantine.next_of_newcomer(now, *it, lengths);
        if let Some(length) = others.iter().filter_map(next).max() {
            self.quarantine.lengthen(member, length);
        }
    }

    /// The quarantine of `member`, which begins now, only answers that it has given us up.
    pub fn gave_us_up(&mut self, member: MemberId) {
        self.quarantine.mark_answer(member);
    }

    /// `member` says that it hears us: if its quarantine only answers that it had given us up, and
    /// began `min` ago, it is over. What it said earlier may still be on its way before that. One
    /// that is in [doubt](Self::doubt) stays.
    pub fn hears_us(&mut self, now: Time, member: MemberId, min: Duration) {
        if self.quarantine.answers_since(now, member, min) {
            self.quarantine.end(now, member);
        }
    }

    /// The quarantine of `member`, which begins now, is on the word of `witness` alone: this member
    /// saw nothing wrong itself.
    pub fn took_word(&mut self, now: Time, member: MemberId, witness: MemberId) {
        if self.witnesses.len() >= Self::MAX {
            let delays = &self.quarantine;
            self.witnesses.retain(|it, _| delays.has_witness(now, *it));
        }
        if self.witnesses.len() < Self::MAX {
            self.witnesses.insert(witness, now);
            self.quarantine.mark_word(member, witness);
        }
    }

    /// When anything was last heard of `member`, which is in quarantine or was.
    pub fn heard_excluded(&self, member: MemberId) -> Option<Time> {
        self.quarantine.last_heard(member)
    }

    /// Anything was heard of `from`, which may be a witness, or in quarantine.
    pub fn note_alive(&mut self, now: Time, from: MemberId) {
        if let Some(at) = self.witnesses.get_mut(&from) {
            *at = now;
        }
        self.quarantine.note_alive(now, from);
    }

    /// Those in quarantine, and why, as far as is known here and of their `probes`.
    pub fn left_out(&self, now: Time, probes: &Probes) -> Vec<LeftOut> {
        let answers = |member| probes.asks(member).then(|| probes.answers_now(member));
        self.quarantine
            .left_out(now, |member| probes.why(member), answers)
    }

    /// When a message about membership last came from `member`, as far as is remembered.
    pub fn last_heard(&self, member: MemberId) -> Option<Time> {
        self.heard.get(&member).copied()
    }

    /// Which of `members`, that this one, `local`, has been together with `since` then and that
    /// announce themselves in turn, one in each `interval` or a quarter more, are not heard.
    pub fn unheard(
        &self,
        now: Time,
        local: MemberId,
        members: &[MemberId],
        since: Time,
        interval: Duration,
    ) -> Vec<MemberId> {
        let turn = interval * members.len() as u32 * 5 / 4;
        let is_unheard = |member: &MemberId| {
            let last = self.last_heard(*member).map_or(since, |at| at.max(since));
            *member != local && now.since(last) >= turn * UNHEARD_TURNS
        };
        members.iter().copied().filter(is_unheard).collect()
    }

    /// `member`, which leaves, bears witness no longer.
    pub fn note_left(&mut self, member: MemberId) {
        self.witnesses.remove(&member);
    }

    /// `member` is heard. Its quarantine ends if it rests on one witness alone, and that witness is
    /// gone: not `here`, and silent for `patience`. Nobody is left who could say whether what it
    /// saw is still so.
    pub fn outlives_word(
        &mut self,
        now: Time,
        member: MemberId,
        patience: Duration,
        here: impl Fn(MemberId) -> bool,
    ) {
        let Some(witness) = self.quarantine.word_of(now, member) else {
            return;
        };
        let last = self.witnesses.get(&witness);
        let is_gone = last.is_none_or(|at| now.since(*at) >= patience);
        if is_gone && !here(witness) {
            self.quarantine.end(now, member);
        }
    }

    /// `witness` says that it is in a configuration of `members`. Once it has said so for a second,
    /// it bears witness against none of them: what it saw is no longer so.
    pub fn note_together(&mut self, now: Time, witness: MemberId, members: &[MemberId]) {
        self.quarantine.take_back(now, witness, members);
    }

    /// The quarantine of `member`, which begins now, lasts for `longest`, unless somebody
    /// [vouches](Self::vouch) for it.
    pub fn doubt(&mut self, now: Time, member: MemberId, longest: Duration) {
        self.quarantine.stretch(member, now + longest);
    }

    /// The way to `member` and back works as it must: its quarantine, which was stretched, lasts no
    /// longer than it did otherwise.
    pub fn vouch(&mut self, now: Time, member: MemberId) {
        self.quarantine.unstretch(now, member);
    }

    /// Whether the quarantine of `member` would last now if it had not been stretched.
    pub fn is_quarantined_anyway(&self, now: Time, member: MemberId) -> bool {
        self.quarantine.would_last(now, member)
    }

    /// The quarantine of `member` is over. The next one is longer, if it is soon.
    pub fn release(&mut self, now: Time, member: MemberId) {
        self.quarantine.end(now, member);
    }

    /// `member` is given up since nothing comes of it: whether it may be let in as soon as it
    /// answers. So it is for whoever stops for a moment, the first time and three times in a row
    /// behind that; being well for a while begins anew. What lasts, and is not seen by those who
    /// ask, costs no more.
    pub fn forgive(&mut self, now: Time, member: MemberId, min: Duration) -> bool {
        self.quarantine.forgive(now, member, min)
    }

    /// Whether `member` is not let in now.
    pub fn is_quarantined(&self, now: Time, member: MemberId) -> bool {
        self.quarantine.lasts(now, member)
    }

    /// Whether `from`, which says that it hears `heard`, has given evidence to `local`, a member of
    /// a configuration of `members`: it hears it, or has heard others of them for a while.
    pub fn evidence(
        &mut self,
        now: Time,
        from: MemberId,
        heard: &[MemberId],
        local: MemberId,
        members: &[MemberId],
    ) -> bool {
        let hears_another = || heard.iter().any(|it| members.contains(it));
        heard.contains(&local) || hears_another() && self.hears_others(now, from)
    }

    /// `from` says that it hears another member of our configuration, and not us: whether that
    /// counts, since it has said so for a second. Before, it may only be about to end our
    /// quarantine, and a configuration with it would not come about.
    fn hears_others(&mut self, now: Time, from: MemberId) -> bool {
        if self.hints.len() >= Self::MAX {
            self.hints
                .retain(|_, (_, last)| now.since(*last) < HINTED_FOR);
        }
        if self.hints.len() >= Self::MAX && !self.hints.contains_key(&from) {
            return false;
        }
        let (since, last) = self.hints.entry(from).or_insert((now, now));
        if now.since(*last) >= HINTED_FOR {
            *since = now;
        }
        *last = now;
        now.since(*since) >= HINTED_FOR
    }

    /// What a member of a configuration of `members` does about `from`, which has given evidence,
    /// or not, that it hears us. That it names us as members may be history.
    pub fn stranger(
        &self,
        now: Time,
        from: MemberId,
        evidence: bool,
        members: &[MemberId],
    ) -> Stranger {
        // A new life of a member might be a namesake of a living one.
        let namesake = members.iter().any(|member| member.node == from.node);
        if namesake || self.is_quarantined(now, from) {
            Stranger::Ignore
        } else if evidence {
            Stranger::LetIn
        } else {
            Stranger::Answer
        }
    }

    /// Whether strangers may be answered now. If so, the next answer must wait.
    pub fn may_answer(&mut self, now: Time) -> bool {
        let last = self.answered;
        let may = last.is_none_or(|at| now.since(at) >= ANSWER_INTERVAL);
        if may {
            self.answered = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Incarnation, NodeId};

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    #[test]
    fn many_lives_of_others_do_not_make_a_member_of_the_configuration_forgotten() {
        let mut peers = Peers::default();
        let in_ring = |member: MemberId| member.node.0 < 3;
        for node in 0..2_000 {
            let now = Time::from_millis(node);
            peers.note_attempt(now, member(node), Attempt(7), in_ring);
        }
        assert_eq!(peers.attempts.len(), Peers::MAX);
        let now = Time::from_millis(3_000);
        for node in 0..3 {
            let seen = peers.note_attempt(now, member(node), Attempt(6), in_ring);
            assert_eq!(seen, None, "a stale join of {node}");
        }
        assert!(peers.attempts.contains_key(&member(1_999)));
        assert!(!peers.attempts.contains_key(&member(3)));
    }

    #[test]
    fn members_that_are_not_there_leave_room_in_the_quarantine_for_those_that_are() {
        let mut peers = Peers::default();
        let long = Lengths {
            min: Duration::from_secs(60),
            ..LENGTHS
        };
        let at = Time::from_millis;
        let (real, late, never) = (member(3_000), member(3_001), member(3_002));
        peers.note_heard(at(0), real);
        let invented = |peers: &mut Peers, from: u64| {
            let begun = (from..from + 600).filter(|it| peers.quarantine(at(1), member(*it), long));
            begun.count()
        };
        assert_eq!(invented(&mut peers, 0), Peers::MAX);
        assert!(peers.quarantine(at(2), real, long), "it was heard");
        assert_eq!(invented(&mut peers, 1_000), 0);
        assert!(peers.is_quarantined(at(3), real));
        assert_eq!(peers.heard_excluded(real), Some(at(0)));
        // All places are of those that are heard: the one that was silent for longest gives way.
        for node in 0..Peers::MAX as u64 {
            peers.note_alive(at(10 + node), member(node));
        }
        peers.note_heard(at(20), late);
        assert!(!peers.quarantine(at(4), never, long));
        assert!(peers.quarantine(at(21), late, long) && !peers.is_quarantined(at(21), real));
    }

    #[test]
    fn that_a_stranger_hears_others_counts_after_a_second() {
        let mut peers = Peers::default();
        let mut says = |millis| peers.hears_others(Time::from_millis(millis), member(1));
        assert!(!says(0) && !says(500) && !says(999) && says(1_000));
        assert!(!says(2_000), "it was silent for a second");
        assert!(!says(2_900) && says(3_000));
    }

    #[test]
    fn a_counter_out_of_all_proportion_moves_ours_by_a_bounded_jump() {
        let mut peers = Peers::default();
        peers.note_counter(41);
        assert_eq!(peers.next_counter(), (42, false));
        peers.note_counter(u64::MAX);
        let jumped = 42 + COUNTER_JUMP_MAX + 1;
        assert_eq!(peers.next_counter(), (jumped, true));
        peers.note_installed(jumped);
        assert_eq!(peers.next_counter(), (jumped + 1, false));
    }

    #[test]
    fn a_quarantine_on_the_word_of_a_witness_ends_when_that_one_is_gone() {
        let (excluded, witness) = (member(1), member(2));
        let lengths = Lengths {
            min: Duration::from_secs(30),
            max: Duration::from_secs(60),
            growth: 4,
        };
        let at = Time::from_millis;
        let patience = Duration::from_secs(2);
        let quarantined = || {
            let mut peers = Peers::default();
            assert!(peers.quarantine(at(1_000), excluded, lengths));
            peers
        };
        let ends = |peers: &mut Peers, now, here| {
            peers.outlives_word(at(now), excluded, patience, |it| it == witness && here);
            !peers.is_quarantined(at(now), excluded)
        };
        let mut peers = quarantined();
        assert!(!ends(&mut peers, 9_000, false), "on nobody's word");
        peers.took_word(at(1_000), excluded, witness);
        peers.note_alive(at(8_000), witness);
        assert!(!ends(&mut peers, 9_999, false), "the witness was heard");
        assert!(!ends(&mut peers, 10_000, true), "it is in our ring");
        assert!(ends(&mut peers, 10_000, false));
        let mut peers = quarantined();
        peers.took_word(at(1_000), excluded, witness);
        peers.note_left(witness);
        assert!(ends(&mut peers, 1_001, false), "it said good-bye");
        // What this member sees itself later is on nobody's word.
        let again = Time::from_millis(32_000);
        assert!(peers.quarantine(again, excluded, lengths));
        assert!(!ends(&mut peers, 40_000, false));
    }

    #[test]
    fn a_quarantine_on_the_word_of_a_witness_ends_once_that_one_is_together_with_the_excluded() {
        let (excluded, witness, other) = (member(1), member(2), member(3));
        let mut peers = Peers::default();
        let long = Lengths {
            min: Duration::from_secs(30),
            ..LENGTHS
        };
        for it in [excluded, other] {
            assert!(peers.quarantine(Time::ZERO, it, long));
        }
        peers.took_word(Time::ZERO, excluded, witness);
        let (both, alone) = ([witness, excluded, other], [witness, other]);
        let mut ends = |millis, says: MemberId, members: &[MemberId]| {
            let now = Time::from_millis(millis);
            peers.note_together(now, says, members);
            assert!(peers.is_quarantined(now, other), "not on its word");
            !peers.is_quarantined(now, excluded)
        };
        assert!(!ends(1_000, witness, &both) && !ends(1_999, witness, &both));
        assert!(!ends(2_000, other, &both), "it is not the witness");
        assert!(!ends(2_500, witness, &alone), "it did not last");
        assert!(!ends(3_000, witness, &both) && !ends(3_999, witness, &both));
        assert!(ends(4_000, witness, &both));
    }

    #[test]
    fn who_makes_way_for_a_newcomer_waits_as_long_as_that_one_would_next() {
        let (one, two, well) = (member(1), member(2), member(3));
        let mut peers = Peers::default();
        let length = |peers: &Peers, it| peers.quarantine.delays[&it].length.as_millis();
        let mut out = |millis, out, within: &[MemberId]| {
            let now = Time::from_millis(millis);
            assert!(peers.quarantine(now, out, LENGTHS));
            peers.made_way(now, out, within, LENGTHS);
            peers.note_well(now, within);
            length(&peers, out)
        };
        assert_eq!(out(0, one, &[two, well]), 300, "nobody was let in");
        assert_eq!(out(400, two, &[one, well]), 1_200);
        assert_eq!(out(1_700, one, &[two, well]), 4_800);
        assert_eq!(out(6_600, two, &[one, well]), 19_200);
        // The newcomer has been well for a while: this is another matter.
        assert_eq!(out(9_100, well, &[one]), 300);
    }

    #[test]
    fn who_stops_for_a_moment_is_forgiven_three_times_in_a_row() {
        let (stops, other) = (member(1), member(2));
        let mut peers = Peers::default();
        // Each time it is let in a second later, and is well for this long.
        let mut now = Time::ZERO;
        let mut forgiven = |well_for: u64| {
            let forgiven = peers.forgive(now, stops, LENGTHS.min);
            peers.quarantine(now, stops, LENGTHS);
            peers.note_well(now, &[other]);
            now += Duration::from_secs(1);
            peers.release(now, stops);
            peers.note_well(now, &[stops, other]);
            now += Duration::from_millis(well_for);
            forgiven
        };
        assert_eq!(
            [100; 6].map(&mut forgiven),
            [true, true, true, true, false, false]
        );
        assert!(!forgiven(2_400), "it was not well before");
        assert_eq!([100; 4].map(&mut forgiven), [true, true, true, false]);
    }

    const LENGTHS: Lengths = Lengths {
        min: Duration::from_millis(300),
        max: Duration::from_secs(60),
        growth: 4,
    };

    /// The lengths of the quarantines of a member, in milliseconds: the first, and those after it
    /// was away for this long each time, and then well for each of these times.
    fn quarantines(away: Duration, well_for: &[u64]) -> Vec<u128> {
        let (excluded, other) = (member(1), member(2));
        let (mut peers, mut now) = (Peers::default(), Time::ZERO);
        let mut lengths = Vec::new();
        for millis in well_for.iter().map(Some).chain([None]) {
            assert!(peers.quarantine(now, excluded, LENGTHS));
            peers.note_well(now, &[other]);
            let delay = &peers.quarantine.delays[&excluded];
            lengths.push(delay.length.as_millis());
            let Some(millis) = millis else { break };
            now = delay.until + away;
            // Others come and go meanwhile; it stays.
            peers.note_well(now, &[excluded]);
            now += Duration::from_millis(*millis);
            peers.note_well(now, &[excluded, other]);
        }
        lengths
    }

    #[test]
    fn who_fails_again_soon_waits_longer_and_who_was_well_for_a_while_is_spared_once() {
        let of = |well_for: &[u64]| quarantines(Duration::ZERO, well_for);
        assert_eq!(of(&[2_399]), [300, 1_200]);
        assert_eq!(of(&[2_400]), [300, 300], "it is forgotten");
        assert_eq!(
            of(&[0, 0, 0, 0, 0]),
            [300, 1_200, 4_800, 19_200, 60_000, 60_000]
        );
        assert_eq!(of(&[0, 0, 2_399])[3], 19_200);
        assert_eq!(of(&[0, 0, 2_400])[3], 4_800, "as long as before");
        assert_eq!(of(&[0, 0, 2_400, 38_399])[3..], [4_800, 19_200], "once");
        assert_eq!(
            of(&[0, 0, 2_400, 0, 2_400])[3..],
            [4_800, 19_200, 19_200],
            "once for each length"
        );
        assert_eq!(of(&[0, 0, 38_399])[3], 4_800);
        assert_eq!(of(&[0, 0, 38_400])[3], 300, "it is forgotten");
    }

    /// Until a configuration is installed, or all agree on another one.
    #[test]
    fn a_failure_counts_once_however_often_all_agree_on_the_same() {
        let (excluded, other) = (member(1), member(2));
        let mut peers = Peers::default();
        let mut length = |millis: u64, agreed: &[MemberId], installed: bool| {
            let now = Time::from_millis(millis);
            if installed {
                peers.note_well(now, &[other]);
            }
            peers.note_agreed(agreed);
            assert!(peers.quarantine(now, excluded, LENGTHS));
            peers.quarantine.delays[&excluded].length.as_millis()
        };
        let (one, two) = ([other], [other, member(3)]);
        assert_eq!(length(0, &one, false), 300);
        assert_eq!(length(300, &one, false), 300, "the same once more");
        assert_eq!(length(700, &one, false), 300);
        assert_eq!(length(1_100, &two, false), 1_200, "another one fails, too");
        assert_eq!(length(1_500, &two, false), 1_200);
        assert_eq!(length(1_900, &two, true), 4_800, "it was installed");
        assert_eq!(length(7_000, &two, false), 4_800);
        assert_eq!(length(60_000, &two, false), 300, "it is forgotten");
    }

    /// It is well for a moment only when it comes back, and was away for an hour before.
    #[test]
    fn what_was_long_ago_is_forgotten_however_short_a_member_is_well() {
        let of = quarantines(Duration::from_secs(3_600), &[1_000, 0, 3_000]);
        assert_eq!(of, [300; 4]);
    }

    /// A link that works for these times in turn: how many times in a quarter of an hour the member
    /// behind it is excluded.
    fn exclusions(times: &[u64]) -> usize {
        let lasts = Duration::from_secs(900);
        let well_for: Vec<u64> = times.iter().copied().cycle().take(400).collect();
        let waits = quarantines(Duration::ZERO, &well_for);
        let cycles = waits.iter().zip(&well_for);
        let ends = cycles.scan(Duration::ZERO, |at, (waits, well)| {
            *at += Duration::from_millis(*waits as u64 + *well);
            Some(*at)
        });
        ends.take_while(|at| *at < lasts).count()
    }

    /// They are 20 and fewer where nobody is spared. Where a good while makes quarantines shorter
    /// by as much as it lasted they are 300, and by a quarter of that 240 (the last but one).
    #[test]
    fn a_link_that_lasts_for_a_little_longer_now_and_then_gains_little_by_it() {
        let flapping: [&[u64]; 8] = [
            &[1_000, 3_000],
            &[1_000, 3_000, 3_000],
            &[1_000, 1_000, 10_000],
            &[1_000, 1_000, 24_000],
            &[1_000, 1_000, 5_000, 5_000, 5_000],
            &[1_000, 1_000, 1_000, 30_000],
            &[1_000, 5_000],
            &[500],
        ];
        for times in flapping {
            let exclusions = exclusions(times);
            assert!(exclusions <= 25, "{times:?}: {exclusions}");
        }
    }

    /// Nobody says who is well.
    #[test]
    fn who_could_not_be_let_in_waits_longer_within_eight_times_as_long() {
        let lasts = |after: u64| {
            let mut peers = Peers::default();
            let excluded = member(1);
            peers.quarantine(Time::ZERO, excluded, LENGTHS);
            let again = Time::from_millis(300 + after);
            peers.quarantine(again, excluded, LENGTHS);
            peers.quarantine.delays[&excluded].length.as_millis()
        };
        assert_eq!((lasts(2_399), lasts(2_400)), (1_200, 300));
    }

    #[test]
    fn a_stranger_is_let_in_on_evidence_and_not_out_of_quarantine() {
        let mut peers = Peers::default();
        let ring = [member(1), member(2)];
        let (stranger, now) = (member(3), Time::from_millis(5));
        let about = |peers: &Peers, now, evidence| peers.stranger(now, stranger, evidence, &ring);
        assert_eq!(about(&peers, now, false), Stranger::Answer);
        assert_eq!(about(&peers, now, true), Stranger::LetIn);
        let min = Duration::from_millis(100);
        let lengths = Lengths {
            min,
            max: Duration::from_millis(150),
            growth: 2,
        };
        peers.quarantine(now, stranger, lengths);
        assert_eq!(about(&peers, now, true), Stranger::Ignore);
        let again = now + min;
        assert_eq!(about(&peers, again, true), Stranger::LetIn);
        peers.quarantine(again, stranger, lengths);
        let lasts = |peers: &Peers, millis| {
            peers.is_quarantined(again + Duration::from_millis(millis), stranger)
        };
        assert!(lasts(&peers, 149) && !lasts(&peers, 150));
        // Another member let it in, and it was excluded again.
        peers.quarantine(again + min, stranger, lengths);
        assert!(lasts(&peers, 249) && !lasts(&peers, 250));
        peers.release(again + min, stranger);
        assert!(!peers.is_quarantined(again + min, stranger));
        // One that was excluded only because it had given us up is let in when it hears us again.
        let begun = again + min * 8;
        peers.quarantine(begun, stranger, lengths);
        peers.hears_us(begun + min, stranger, min);
        assert!(
            peers.is_quarantined(begun + min, stranger),
            "it was for more"
        );
        peers.gave_us_up(stranger);
        peers.hears_us(begun + min / 2, stranger, min);
        assert!(peers.is_quarantined(begun + min, stranger), "it may be old");
        peers.hears_us(begun + min, stranger, min);
        assert!(!peers.is_quarantined(begun + min, stranger));
        // One that is in doubt stays outside until the way to it is known to work.
        let (begun, at) = (begun + min * 20, |from: Time, millis| {
            from + Duration::from_millis(millis)
        });
        peers.quarantine(begun, stranger, lengths);
        peers.doubt(begun, stranger, min * 30);
        assert!(
            peers.is_quarantined_anyway(at(begun, 99), stranger)
                && !peers.is_quarantined_anyway(begun + min, stranger)
        );
        assert!(peers.is_quarantined(begun + min * 29, stranger));
        peers.vouch(at(begun, 50), stranger);
        assert!(
            peers.is_quarantined(at(begun, 99), stranger)
                && !peers.is_quarantined(begun + min, stranger)
        );
        peers.doubt(begun, stranger, min * 30);
        peers.vouch(begun + min * 20, stranger);
        assert!(!peers.is_quarantined(begun + min * 20, stranger));
        let new_life = MemberId {
            incarnation: Incarnation(77),
            ..member(2)
        };
        let verdict = peers.stranger(now, new_life, true, &ring);
        assert_eq!(verdict, Stranger::Ignore);
    }
}
