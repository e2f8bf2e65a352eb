//! Who is left out although it lives, from whom nothing comes, and for whom there is no room: for
//! the log and for `status`.
//!
//! The log tells of a member in quarantine once it was heard there: one that has crashed is not.
//! It tells again when the reason is another one, and when the quarantine is over.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::status::{GivenUp, Hearing, LeftOut};
use groupcast_core::{Instrumented, MemberId, Time};
use serde_json::{Value, json};

use crate::line_limit::LineLimit;
use crate::names::Names;

/// The daemon looks this often: no quarantine is shorter.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What is heard of a member so soon after it was given up was sent before.
const STILL_ON_ITS_WAY: Duration = Duration::from_millis(500);
/// The same is told of a member again after this long.
const AGAIN: Duration = Duration::from_secs(10);
/// That packets do not get to a member is told again after this long: each large message may cause
/// it.
const PACKETS_AGAIN: Duration = Duration::from_secs(60);
/// Every way carries a datagram with a body of this many bytes.
const SMALL: usize = 548;
/// Who was heard within this time lives.
const LATELY: Duration = Duration::from_secs(3);

/// Who is left out, and from whom nothing comes.
pub(crate) fn of(member: &dyn Instrumented, now: Time) -> Hearing {
    let mut hearing = member.hearing(now);
    if !hearing.left_out.is_empty() {
        let members = member.status().members;
        keep_those_out(&mut hearing, &members);
    }
    hearing
}

/// A member of the configuration is not left out: others let it in before the quarantine of this
/// one was over. Nor is its former life, which is over.
fn keep_those_out(hearing: &mut Hearing, members: &[MemberId]) {
    let is_member = |out: MemberId| members.iter().any(|it| it.node == out.node);
    hearing.left_out.retain(|it| !is_member(it.member));
}

/// What the log has told.
#[derive(Default)]
pub(crate) struct HearingLog {
    due: Time,
    /// Those that are left out, and those that were a moment ago.
    left_out: BTreeMap<MemberId, Told>,
    /// Those from which nothing comes.
    unheard: Vec<MemberId>,
    /// Those for whom there is no room.
    no_room: Vec<MemberId>,
    /// Faults that come and go make few lines.
    limit: LineLimit,
}

/// What was told of a member.
struct Told {
    why: GivenUp,
    at: Time,
    /// It is in the same quarantine.
    lasts: bool,
}

impl Told {
    /// Whether the log need not tell now that the member is left out, because of `why`.
    fn says(&self, now: Time, why: GivenUp) -> bool {
        is_alike(self.why, why) && (self.lasts || self.is_fresh(now))
    }

    fn is_fresh(&self, now: Time) -> bool {
        let again = match self.why {
            GivenUp::MissesPackets { .. } => PACKETS_AGAIN,
            _ => AGAIN,
        };
        now - self.at < again
    }
}

/// A line of the log.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line {
    Warn(String),
    Info(String),
}

impl HearingLog {
    /// Whether it is time to look again.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.due;
        if is_due {
            self.due = now + LOOK_EVERY;
        }
        is_due
    }

    /// The lines about what has changed; `members` are those of the configuration.
    pub(crate) fn lines(
        &mut self,
        now: Time,
        hearing: &Hearing,
        members: &[MemberId],
        names: &Names,
    ) -> Vec<Line> {
        let mut lines = self.left_out(now, &hearing.left_out, names);
        lines.extend(self.unheard(&hearing.unheard, members, names));
        lines.extend(self.no_room(&hearing.no_room, names));
        lines.retain(|_| self.limit.admit(now));
        if let Some(count) = self.limit.take_left_out(now) {
            let text = format!("{count} more lines about members that are not heard were left out");
            lines.push(Line::Warn(text));
        }
        lines
    }

    fn left_out(&mut self, now: Time, left_out: &[LeftOut], names: &Names) -> Vec<Line> {
        let mut lines = Vec::new();
        let is_out = |member: &MemberId| left_out.iter().any(|it| it.member == *member);
        let mut over = Vec::new();
        for (member, told) in &mut self.left_out {
            if told.lasts && !is_out(member) {
                told.lasts = false;
                over.push(*member);
            }
        }
        if !over.is_empty() {
            let who = names.list(&over);
            lines.push(Line::Info(format!("quarantine is over: {who}")));
        }
        self.left_out
            .retain(|_, told| told.lasts || told.is_fresh(now));
        // All with the same reason are in one line.
        let mut told: Vec<(LeftOut, Vec<MemberId>)> = Vec::new();
        for it in left_out.iter().filter(|it| is_to_be_told(it)) {
            let before = self.left_out.get(&it.member);
            if before.is_some_and(|before| before.says(now, it.why)) {
                continue;
            }
            let (why, at, lasts) = (it.why, now, true);
            self.left_out.insert(it.member, Told { why, at, lasts });
            match told.iter_mut().find(|(first, _)| first.why == it.why) {
                Some((first, members)) => {
                    members.push(it.member);
                    first.until = first.until.max(it.until);
                }
                None => told.push((*it, vec![it.member])),
            }
        }
        lines.extend(told.into_iter().map(|(it, members)| {
            let who = names.list(&members);
            Line::Warn(format!("left out: {who}: {}", describe(now, &it, names)))
        }));
        lines
    }

    fn no_room(&mut self, no_room: &[MemberId], names: &Names) -> Option<Line> {
        let new = without(no_room, &self.no_room);
        self.no_room = no_room.to_vec();
        let who = names.list(&new);
        (!new.is_empty()).then(|| Line::Warn(format!("no room: {who}: {NO_ROOM}")))
    }

    fn unheard(&mut self, unheard: &[MemberId], members: &[MemberId], names: &Names) -> Vec<Line> {
        let mut heard = without(&self.unheard, unheard);
        heard.retain(|it| members.contains(it));
        let new = without(unheard, &self.unheard);
        self.unheard = unheard.to_vec();
        let mut lines = Vec::new();
        if !new.is_empty() {
            let who = names.list(&new);
            lines.push(Line::Warn(format!("not heard: {who}: {UNHEARD}")));
        }
        if !heard.is_empty() {
            lines.push(Line::Info(format!("heard again: {}", names.list(&heard))));
        }
        lines
    }
}

/// Those of `all` that are not among the `others`.
fn without(all: &[MemberId], others: &[MemberId]) -> Vec<MemberId> {
    let rest = all.iter().filter(|it| !others.contains(it));
    rest.copied().collect()
}

/// What it means that there is no room for a daemon.
const NO_ROOM: &str = "heard here, and stays apart: all together would be more daemons than may be in one \
                       configuration (`members_max`)";

/// What it means that nothing comes from a member of the configuration.
const UNHEARD: &str = "the way to this host is closed, and others send again what is missing";

/// Whether `it` lives, or its reason says what to do.
fn is_to_be_told(it: &LeftOut) -> bool {
    let lives = it.heard.is_some_and(|at| at >= it.since + STILL_ON_ITS_WAY);
    lives || matches!(it.why, GivenUp::MissesPackets { .. })
}

/// Whether the log need not tell of the second after the first.
fn is_alike(before: GivenUp, now: GivenUp) -> bool {
    core::mem::discriminant(&before) == core::mem::discriminant(&now)
        && (!matches!(now, GivenUp::Word(_)) || before == now)
}

/// Why `it` is left out, whether it is heard, and for how long.
fn describe(now: Time, it: &LeftOut, names: &Names) -> String {
    let why = match it.why {
        GivenUp::Silent => "not heard here while a configuration formed".to_owned(),
        GivenUp::MissesToken => "the token did not get there".to_owned(),
        GivenUp::MissesPackets { bytes } => {
            let advice = match bytes > SMALL {
                true => {
                    "; if that way carries no more than smaller ones, a smaller `ring.body_max` at this daemon helps \
                     all"
                }
                false => "",
            };
            format!(
                "a datagram with a body of {bytes} bytes did not get there, again and again{advice}"
            )
        }
        GivenUp::Unbelievable => "said what cannot be".to_owned(),
        GivenUp::GaveUsUp => "gave this daemon up before".to_owned(),
        GivenUp::Word(witness) => {
            let witness = names.of(witness);
            format!("given up by {witness}, while this daemon saw nothing wrong")
        }
        GivenUp::Others => "given up by others".to_owned(),
    };
    let heard = match is_heard(now, it) {
        true => "heard here",
        false => "not heard here now",
    };
    let probes = match it.answers {
        Some(true) => ", answers probes",
        Some(false) => ", does not answer probes in time",
        None => "",
    };
    let rest = seconds(it.until - now);
    format!("{why}; {heard}{probes}, in quarantine for at most {rest}")
}

fn is_heard(now: Time, it: &LeftOut) -> bool {
    it.heard.is_some_and(|at| now - at <= LATELY)
}

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{seconds} s"),
    }
}

/// Those in quarantine, for `status`.
pub(crate) fn left_out(now: Time, hearing: &Hearing, names: &Names) -> Value {
    let said = hearing.left_out.iter().map(|it| {
        let (why, by, body) = match it.why {
            GivenUp::Silent => ("silent", None, None),
            GivenUp::MissesToken => ("misses_token", None, None),
            GivenUp::MissesPackets { bytes } => ("misses_packets", None, Some(bytes)),
            GivenUp::Unbelievable => ("unbelievable", None, None),
            GivenUp::GaveUsUp => ("gave_up", Some(it.member), None),
            GivenUp::Word(witness) => ("word", Some(witness), None),
            GivenUp::Others => ("others", None, None),
        };
        let mut said = names.json(it.member);
        said["why"] = why.into();
        said["by"] = by.map(|it| names.json(it)).into();
        said["body"] = body.into();
        said["lives"] = is_heard(now, it).into();
        said["heard"] = it.heard.map(|at| (now - at).as_secs_f64()).into();
        said["answers_probes"] = it.answers.into();
        said["rest"] = (it.until - now).as_secs_f64().into();
        said["hint"] = describe(now, it, names).into();
        said
    });
    said.collect()
}

/// Members from which nothing comes, for `status`.
pub(crate) fn unheard(hearing: &Hearing, names: &Names) -> Value {
    with_hint(&hearing.unheard, UNHEARD, names)
}

/// Those for whom there is no room, for `status`.
pub(crate) fn no_room(hearing: &Hearing, names: &Names) -> Value {
    with_hint(&hearing.no_room, NO_ROOM, names)
}

fn with_hint(members: &[MemberId], hint: &str, names: &Names) -> Value {
    let said = members.iter().map(|member| {
        let mut said = names.json(*member);
        said["hint"] = json!(hint);
        said
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(name: &str) -> MemberId {
        MemberId {
            node: NodeId::from_name(name),
            incarnation: Incarnation(1),
        }
    }

    fn names() -> Names {
        let mut names = Names::new(member("h1"), "h1");
        let others = ["h2", "h3", "h4"].map(|name| (member(name), name.into()));
        names.learn(others.to_vec());
        names
    }

    fn out(name: &str, why: GivenUp, heard: Option<u64>) -> LeftOut {
        LeftOut {
            member: member(name),
            why,
            since: Time::from_millis(1_000),
            until: Time::from_millis(20_000),
            heard: heard.map(Time::from_millis),
            answers: None,
        }
    }

    fn lines(log: &mut HearingLog, millis: u64, left_out: &[LeftOut]) -> Vec<Line> {
        let hearing = Hearing {
            left_out: left_out.to_vec(),
            ..Hearing::default()
        };
        log.lines(Time::from_millis(millis), &hearing, &[], &names())
    }

    #[test]
    fn a_living_member_that_is_left_out_is_told_once_with_its_witness() {
        let mut log = HearingLog::default();
        let word = GivenUp::Word(member("h3"));
        assert_eq!(lines(&mut log, 1_200, &[out("h4", word, Some(1_100))]), []);
        let told = lines(&mut log, 2_000, &[out("h4", word, Some(1_900))]);
        let [Line::Warn(told)] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(
            told,
            "left out: h4: given up by h3, while this daemon saw nothing wrong; heard here, in \
             quarantine for at most 18 s"
        );
        assert_eq!(lines(&mut log, 3_000, &[out("h4", word, Some(2_900))]), []);
        let other = GivenUp::Word(member("h2"));
        assert_eq!(
            lines(&mut log, 3_200, &[out("h4", other, Some(3_100))]).len(),
            1
        );
        let over = lines(&mut log, 4_000, &[]);
        assert_eq!(over, [Line::Info("quarantine is over: h4".into())]);
    }

    #[test]
    fn a_member_that_has_crashed_is_not_told_of_and_those_with_one_reason_share_a_line() {
        let mut log = HearingLog::default();
        let gave_up = GivenUp::GaveUsUp;
        let all = [
            out("h2", gave_up, Some(1_900)),
            out("h3", GivenUp::Silent, None),
            out("h4", gave_up, Some(1_900)),
        ];
        let told = lines(&mut log, 2_000, &all);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(matches!(&told[0], Line::Warn(text) if text.starts_with("left out: h2, h4: gave")));
    }

    #[test]
    fn a_length_that_does_not_get_through_is_told_at_once_with_the_setting_and_once_a_minute() {
        let mut log = HearingLog::default();
        let mut warns = Vec::new();
        for time in 0..600 {
            let bytes = 1_431 - time as usize % 3;
            let all = [out("h4", GivenUp::MissesPackets { bytes }, None)];
            let all = if time % 2 == 0 { &all[..] } else { &[] };
            let said = lines(&mut log, 1_000 + time * 200, all);
            warns.extend(said.into_iter().filter(|it| matches!(it, Line::Warn(_))));
        }
        let [Line::Warn(first), _] = &warns[..] else {
            panic!("{warns:?}");
        };
        assert!(first.starts_with("left out: h4: a datagram with a body of 1431 bytes did not"));
        assert!(first.contains("a smaller `ring.body_max`"));
        let small = out("h4", GivenUp::MissesPackets { bytes: 200 }, None);
        let said = describe(Time::ZERO, &small, &names());
        assert!(!said.contains("body_max"), "{said}");
    }

    #[test]
    fn faults_of_many_members_that_come_and_go_flood_nothing() {
        let mut log = HearingLog::default();
        let mut count = 0;
        for time in 0..1_000_u64 {
            let witness = GivenUp::Word(member(&format!("h{}", time % 7)));
            let all = [out("h4", witness, Some(1_600))];
            count += lines(&mut log, 2_000 + time, &all).len();
        }
        assert_eq!(count, 50);
    }

    #[test]
    fn a_closed_way_is_told_and_that_it_is_open_again() {
        let mut log = HearingLog::default();
        let members = [member("h1"), member("h2"), member("h4")];
        let mut told = |unheard: &[MemberId], members: &[MemberId]| {
            let hearing = Hearing {
                unheard: unheard.to_vec(),
                ..Hearing::default()
            };
            log.lines(Time::from_millis(1), &hearing, members, &names())
        };
        let warns = told(&[member("h4")], &members);
        assert!(matches!(&warns[..], [Line::Warn(text)] if text.starts_with("not heard: h4: ")));
        assert_eq!(told(&[member("h4")], &members), []);
        assert_eq!(told(&[], &members), [Line::Info("heard again: h4".into())]);
        told(&[member("h4")], &members);
        assert_eq!(told(&[], &members[..2]), [], "it is gone");
    }

    #[test]
    fn for_whom_there_is_no_room_is_told_once_and_again_when_it_comes_back() {
        let mut log = HearingLog::default();
        let mut told = |names_of: &[&str]| {
            let no_room = names_of.iter().map(|it| member(it)).collect();
            let hearing = Hearing {
                no_room,
                ..Hearing::default()
            };
            log.lines(Time::from_millis(1), &hearing, &[], &names())
        };
        let warns = told(&["h3", "h4"]);
        assert!(matches!(&warns[..], [Line::Warn(text)] if text.starts_with("no room: h3, h4: ")));
        assert_eq!(told(&["h3", "h4"]), []);
        assert_eq!(told(&["h4"]), []);
        let again = told(&["h3", "h4"]);
        assert!(matches!(&again[..], [Line::Warn(text)] if text.starts_with("no room: h3: ")));
    }

    #[test]
    fn who_was_let_in_before_its_quarantine_was_over_is_not_left_out() {
        let mut hearing = Hearing {
            left_out: ["h3", "h4"]
                .map(|it| out(it, GivenUp::Silent, Some(9_000)))
                .to_vec(),
            ..Hearing::default()
        };
        keep_those_out(&mut hearing, &[member("h1"), member("h3")]);
        assert_eq!(hearing.left_out.len(), 1);
        assert_eq!(hearing.left_out[0].member, member("h4"));

        let restarted = MemberId {
            incarnation: Incarnation(2),
            ..member("h4")
        };
        keep_those_out(&mut hearing, &[member("h1"), restarted]);
        assert_eq!(hearing.left_out, []);
    }

    #[test]
    fn status_says_who_is_left_out_by_whom_and_for_how_long() {
        let hearing = Hearing {
            left_out: vec![out("h4", GivenUp::Word(member("h3")), Some(9_000))],
            unheard: vec![member("h2")],
            ..Hearing::default()
        };
        let said = left_out(Time::from_millis(10_000), &hearing, &names());
        assert_eq!(said[0]["name"], "h4");
        assert_eq!(said[0]["why"], "word");
        assert_eq!(said[0]["by"]["name"], "h3");
        assert_eq!(
            (&said[0]["rest"], &said[0]["heard"]),
            (&json!(10.0), &json!(1.0))
        );
        assert_eq!(said[0]["lives"], true);
        assert_eq!(said[0]["answers_probes"], Value::Null);
        assert_eq!(unheard(&hearing, &names())[0]["name"], "h2");
    }
}
