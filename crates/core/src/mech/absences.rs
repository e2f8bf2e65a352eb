//! Members that come and go (ours).
//!
//! A member whose link fails again and again for a moment stops the group each time: the others
//! begin to form another configuration, it is back before they have given it up, and all go on as
//! before. Nobody would ever be left out, and nobody held responsible. So each member notes who was
//! away when a reformation began and came back while it lasted. Who does so too often, each time
//! soon after the one before, is left out, and so it is each time after that: its quarantine grows,
//! and it must answer probes for longer before it is let in early.
//!
//! A member that was away itself finds all others late. It holds that against nobody: only where
//! another one was there at once is one that was not away.
//!
//! A member may hear nothing for a moment while all others hear it. What it says then shows that it
//! heard nobody, and it is away for as long as it goes on so. What it heard just before does not
//! count for much: it must have heard two others, if there are three or more.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::peers::Peers;
use crate::id::MemberId;
use crate::time::Time;

/// How often members were away lately.
#[derive(Clone, Hash, Debug)]
pub struct Absences {
    /// After this many absences a member is left out.
    most: u32,
    /// An absence is forgotten if no other one follows while the member is in for this long.
    remembered: Duration,
    of: BTreeMap<MemberId, Absence>,
    /// The reformation under way.
    roll: Option<Roll>,
}

/// That of one member.
#[derive(Clone, Copy, Hash, Debug)]
struct Absence {
    times: u32,
    /// When the last one began, or the member came in again after it.
    last: Time,
    /// It is in no configuration with this member since.
    is_out: bool,
}

/// Who was heard since a reformation began.
#[derive(Clone, Hash, Debug)]
struct Roll {
    begun: Time,
    present: BTreeSet<MemberId>,
    /// Some were there at once.
    prompt: bool,
    /// Those that were not.
    late: BTreeSet<MemberId>,
    /// Those of them that are left out.
    out: BTreeSet<MemberId>,
}

/// What a member says while a configuration forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// It hears others: it is there.
    Hears,
    /// It names too few that it has heard: it may be the first that speaks, or hear nobody.
    Speaks,
}

impl Says {
    /// What a member says that `heard` these, of those with which it was in a configuration.
    pub fn of(from: MemberId, heard: &[MemberId], together: &[MemberId]) -> Self {
        let others = together.len().saturating_sub(1);
        let enough = HEARD_ENOUGH.min(others.saturating_sub(1)).max(1);
        let heard = heard.iter().filter(|it| **it != from);
        let heard = heard.filter(|it| together.contains(it)).count();
        match heard >= enough {
            true => Self::Hears,
            false => Self::Speaks,
        }
    }
}

/// Who names so many others that it has heard lately hears them.
const HEARD_ENOUGH: usize = 2;

impl Absences {
    /// Members are left out after this many absences, of which each is remembered for as long.
    pub fn new(most: u32, remembered: Duration) -> Self {
        Self {
            most,
            remembered,
            of: BTreeMap::new(),
            roll: None,
        }
    }

    /// A reformation begins: the configuration of this member is over.
    pub fn begin(&mut self, now: Time) {
        self.roll.get_or_insert(Roll {
            begun: now,
            present: BTreeSet::new(),
            prompt: false,
            late: BTreeSet::new(),
            out: BTreeSet::new(),
        });
    }

    /// No configuration came of what the members said so far: they begin again, and who comes late
    /// again was away once more.
    pub fn begin_again(&mut self, now: Time) {
        if let Some(roll) = &mut self.roll {
            roll.begun = now;
            roll.prompt = false;
            roll.present.clear();
        }
    }

    /// A member of that configuration `says` that it is there, as one does `within` this time.
    /// Whether it is to be left out.
    pub fn is_out(&mut self, now: Time, member: MemberId, says: Says, within: Duration) -> bool {
        let Some(roll) = &mut self.roll else {
            return false;
        };
        let waited = now.since(roll.begun);
        let is_noted = match says {
            Says::Hears => true,
            Says::Speaks => roll.prompt && waited > within,
        };
        if is_noted && roll.present.insert(member) {
            if waited <= within {
                roll.prompt = true;
            } else if roll.prompt {
                roll.late.insert(member);
                if self.count(now, member) >= self.most
                    && let Some(roll) = &mut self.roll
                {
                    roll.out.insert(member);
                }
            }
        }
        let roll = self.roll.as_ref();
        roll.is_some_and(|roll| roll.out.contains(&member))
    }

    /// `member` was away once more: how many times by now.
    fn count(&mut self, now: Time, member: MemberId) -> u32 {
        let remembered = self.remembered;
        let is_old = |it: &Absence| !it.is_out && now.since(it.last) >= remembered;
        if self.of.len() >= Peers::MAX {
            self.of.retain(|_, it| now.since(it.last) < remembered);
        }
        if self.of.len() >= Peers::MAX && !self.of.contains_key(&member) {
            return 0;
        }
        let first = Absence {
            times: 0,
            last: now,
            is_out: false,
        };
        let absence = self.of.entry(member).or_insert(first);
        if is_old(absence) {
            *absence = first;
        }
        absence.times = absence.times.saturating_add(1);
        absence.last = now;
        absence.times
    }

    /// `member` is excluded, which was with this one in the configuration before, or not. Whether
    /// it was away, as far as that is known here.
    pub fn note_excluded(&mut self, now: Time, member: MemberId, was_with: bool) -> bool {
        let Some(roll) = &self.roll else {
            return false;
        };
        let is_silent = !roll.present.contains(&member);
        let was_away = is_silent || roll.late.contains(&member);
        if is_silent && was_with && roll.prompt {
            self.count(now, member);
        }
        was_away
    }

    /// How often `member` was away lately.
    pub fn times(&self, member: MemberId) -> u32 {
        self.of.get(&member).map_or(0, |it| it.times)
    }

    /// Whether `member` was away so often that it is left out if it is once more.
    pub fn is_often_away(&self, member: MemberId) -> bool {
        self.times(member) >= self.most
    }

    /// The next configuration begins, of these `members`: whether a member came late to it.
    pub fn end(&mut self, now: Time, members: &[MemberId]) -> bool {
        for (member, absence) in &mut self.of {
            let is_in = members.contains(member);
            if is_in && absence.is_out {
                absence.last = now;
            }
            absence.is_out = !is_in;
        }
        self.roll.take().is_some_and(|roll| !roll.late.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::id::{Incarnation, NodeId};

    const WITHIN: Duration = Duration::from_millis(30);

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    fn three_in_a_minute() -> Absences {
        Absences::new(3, Duration::from_secs(60))
    }

    /// A reformation that begins at this second: member 1 is there at once if `prompt`, member 2
    /// after 40 ms. Whether that one is left out.
    fn reform(absences: &mut Absences, seconds: u64, prompt: bool) -> bool {
        let at = |millis| Time::from_millis(seconds * 1_000 + millis);
        absences.begin(at(0));
        let first = if prompt { 5 } else { 35 };
        assert!(!absences.is_out(at(first), member(1), Says::Hears, WITHIN));
        let out = absences.is_out(at(40), member(2), Says::Hears, WITHIN);
        assert_eq!(absences.is_out(at(50), member(2), Says::Hears, WITHIN), out);
        assert_eq!(absences.end(at(60), &[member(1), member(2)]), prompt);
        out
    }

    #[test]
    fn who_was_away_three_times_is_left_out_from_then_on_until_a_minute_has_passed() {
        let mut absences = three_in_a_minute();
        let outs = [0, 50, 100, 150, 209, 269, 270, 271];
        let outs = outs.map(|seconds| reform(&mut absences, seconds, true));
        assert_eq!(outs, [false, false, true, true, true, false, false, true]);
        assert_eq!(absences.times(member(1)), 0, "it was there");
    }

    /// Member 2 speaks from the first on, and says that it hears somebody after so many ms; member
    /// 1 is there at once. How often member 2 was away.
    fn times_of_one_that_hears_after(millis: u64) -> u32 {
        let mut absences = three_in_a_minute();
        absences.begin(Time::ZERO);
        for now in 1..200 {
            let (now, hears) = (Time::from_millis(now), now >= millis);
            absences.is_out(now, member(1), Says::Hears, WITHIN);
            let says = if hears { Says::Hears } else { Says::Speaks };
            assert!(!absences.is_out(now, member(2), says, WITHIN));
        }
        absences.times(member(2))
    }

    #[test]
    fn who_speaks_and_hears_nobody_is_away() {
        let times = [1, 30, 31, 60, 61, 199, 200].map(times_of_one_that_hears_after);
        assert_eq!(times, [0, 0, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn who_heard_others_before_a_configuration_failed_must_show_it_again() {
        let mut absences = three_in_a_minute();
        absences.begin(Time::ZERO);
        for member in [1, 2].map(member) {
            assert!(!absences.is_out(Time::ZERO, member, Says::Hears, WITHIN));
        }
        let at = Time::from_millis;
        absences.begin_again(at(100));
        assert!(!absences.is_out(at(101), member(1), Says::Hears, WITHIN));
        assert!(!absences.is_out(at(101), member(2), Says::Speaks, WITHIN));
        assert_eq!(absences.times(member(2)), 0);
        assert!(!absences.is_out(at(140), member(2), Says::Speaks, WITHIN));
        assert_eq!(absences.times(member(2)), 1);
        assert_eq!(absences.times(member(1)), 0);
    }

    #[test]
    fn what_a_member_heard_of_itself_or_of_strangers_does_not_show_that_it_hears_us() {
        let members = [1, 2, 3, 4].map(member);
        let says = |heard: &[u64], together: usize| {
            let heard: Vec<MemberId> = heard.iter().map(|it| member(*it)).collect();
            Says::of(member(2), &heard, &members[..together])
        };
        for together in [2, 3, 4] {
            assert_eq!(says(&[], together), Says::Speaks);
            assert_eq!(says(&[2, 7], together), Says::Speaks);
        }
        let one = [2, 3, 4].map(|together| says(&[7, 1], together));
        assert_eq!(one, [Says::Hears, Says::Hears, Says::Speaks]);
        assert_eq!(says(&[7, 1, 3], 4), Says::Hears);
    }

    #[test]
    fn who_was_away_itself_holds_it_against_nobody() {
        let mut absences = three_in_a_minute();
        for seconds in 0..10 {
            assert!(!reform(&mut absences, seconds, false));
        }
        assert_eq!(absences.times(member(2)), 0);
    }

    #[test]
    fn what_a_member_did_before_it_was_out_is_not_forgotten_while_it_is() {
        let mut absences = three_in_a_minute();
        for seconds in 0..3 {
            reform(&mut absences, seconds, true);
        }
        assert!(absences.is_often_away(member(2)));
        let at = |seconds: u64| Time::from_millis(seconds * 1_000);
        absences.end(at(3), &[member(1)]);
        absences.end(at(500), &[member(1), member(2)]);
        absences.end(at(520), &[member(1), member(2)]);
        assert!(reform(&mut absences, 559, true));
        assert!(!reform(&mut absences, 619, true));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut absences = three_in_a_minute();
        for node in 0..2_000 {
            absences.count(Time::from_millis(node), member(node));
        }
        assert_eq!(absences.of.len(), Peers::MAX);
    }
}
