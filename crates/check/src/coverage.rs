//! What the histories leave open: members without a history, and histories that end before their
//! run did.
//!
//! The rules judge what histories tell. Half of a run can be without a violation, so a verdict on
//! files also says what the files do not tell. A history that just ends, with neither a leave nor a
//! crash, is in order in two cases:
//!
//! - The others' configurations tell that the member was gone: it was killed, and is judged as a
//!   crash.
//! - No other history tells of anything after it: the whole run ends there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use groupcast_core::MemberId;
use groupcast_core::text::printable;
use serde::{Serialize, Serializer};

use crate::ledger::{ConfigIx, Ledger, MemberLife, Stay};
use crate::outcome::Ending;

/// Something that could not be judged, because the histories do not tell it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unjudged {
    /// The member that it is about; `None` if it is about a file.
    #[serde(serialize_with = "display")]
    pub member: Option<MemberId>,
    /// The member's name, or that of another life of the same daemon, where a history or a client
    /// in a view tells it.
    pub name: Option<String>,
    /// What is missing, and how that is known.
    pub text: String,
}

fn display<S: Serializer>(member: &Option<MemberId>, serializer: S) -> Result<S::Ok, S::Error> {
    match member {
        Some(member) => serializer.collect_str(member),
        None => serializer.serialize_none(),
    }
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not be judged: ")?;
        match (self.member, &self.name) {
            (Some(member), Some(name)) => {
                let name = printable(name.as_bytes());
                write!(f, "{name}.{:016x}: ", member.incarnation.0)?;
            }
            (Some(member), None) => write!(f, "{member}: ")?,
            (None, _) => {}
        }
        f.write_str(&printable(self.text.as_bytes()))
    }
}

/// What the histories of a run leave open.
#[derive(Default, Debug)]
pub(crate) struct Coverage {
    pub(crate) unjudged: Vec<Unjudged>,
    /// Members that were killed, as the others' configurations tell.
    pub(crate) killed: u64,
}

impl Coverage {
    /// Of the run in `ledger`. The histories of `torn` end within a line.
    pub(crate) fn of(ledger: &Ledger, torn: &BTreeSet<MemberId>) -> Self {
        let mut coverage = Self::default();
        let last = last_configurations(ledger);
        let sources = ledger.lives().filter(|life| life.lines == 0);
        let named: BTreeSet<MemberId> = last
            .keys()
            .copied()
            .chain(sources.map(|life| life.id))
            .collect();
        for member in named {
            if !is_observer(ledger, member) {
                let why = match last.get(&member) {
                    Some(config) => format!("{} names it", ledger.call_config(*config)),
                    None => "others name messages of it".to_owned(),
                };
                coverage.miss(ledger, member, &why);
            }
        }
        for (_, life) in ledger.observers() {
            let last = last.get(&life.id).copied();
            match end_of(ledger, life, last, torn.contains(&life.id)) {
                HistoryEnd::InOrder => {}
                HistoryEnd::Killed => coverage.killed += 1,
                HistoryEnd::Open(text) => coverage.unjudged.push(Unjudged {
                    member: Some(life.id),
                    name: life.name.clone(),
                    text,
                }),
            }
        }
        coverage
    }

    /// The senders in `group` that have no history in `all` either.
    pub(crate) fn add_group(&mut self, group: &Ledger, all: &Ledger) {
        for life in group.lives().filter(|life| life.lines == 0) {
            let is_known = self
                .unjudged
                .iter()
                .any(|known| known.member == Some(life.id));
            if !is_known && !is_observer(all, life.id) {
                self.miss(all, life.id, "others name messages of it");
            }
        }
    }

    fn miss(&mut self, ledger: &Ledger, member: MemberId, why: &str) {
        let same_daemon = ledger.lives().filter(|life| life.id.node == member.node);
        self.unjudged.push(Unjudged {
            member: Some(member),
            name: same_daemon.filter_map(|life| life.name.clone()).next(),
            text: format!("its history is missing: {why}"),
        });
    }
}

/// How a history ends.
enum HistoryEnd {
    /// With a leave, a crash, or the run.
    InOrder,
    /// It just ends, and the others went on without the member.
    Killed,
    /// It just ends, and others tell of more.
    Open(String),
}

/// `last` is the last regular configuration that any history tells of with the member in it.
fn end_of(ledger: &Ledger, life: &MemberLife, last: Option<ConfigIx>, is_torn: bool) -> HistoryEnd {
    if life.ended.is_some() {
        return HistoryEnd::InOrder;
    }
    if is_torn {
        return HistoryEnd::Open("its history is cut off within a line".to_owned());
    }
    let counter = |config: ConfigIx| ledger.config(config).id.counter;
    let others = || ledger.lives().filter(|other| other.id != life.id);
    let stays = || others().flat_map(|other| other.stays.iter().map(move |stay| (other, stay)));
    // A member that passes from one later configuration to the next with others has installed the
    // first of them.
    let later = stays().find(|(_, stay)| {
        counter(stay.config) > life.counter && goes_on_with(ledger, stay, life.id) == Some(true)
    });
    if let Some((other, stay)) = later {
        let (other, config) = (ledger.call_id(other.id), ledger.call_config(stay.config));
        return HistoryEnd::Open(format!(
            "its history ends early: it went with {other} through {config} and beyond"
        ));
    }
    let Some(last) = last else {
        return HistoryEnd::InOrder;
    };
    let in_last = || stays().filter(|(_, stay)| stay.config == last);
    if in_last().any(|(_, stay)| goes_on_with(ledger, stay, life.id) == Some(false)) {
        return HistoryEnd::Killed;
    }
    let further = |other: &MemberLife| {
        let spot = other.last.filter(|spot| spot.config == last);
        spot.is_some_and(|spot| Some(spot.seq) > life.last.map(|last| last.seq))
    };
    let witness = in_last().map(|(other, _)| other).find(|other| {
        counter(last) > life.counter || other.ended == Some(Ending::Left) || further(other)
    });
    match witness {
        Some(other) => {
            let (other, config) = (ledger.call_id(other.id), ledger.call_config(last));
            HistoryEnd::Open(format!(
                "its history ends early: {other} tells of more in {config}, and nobody of its end"
            ))
        }
        None => HistoryEnd::InOrder,
    }
}

/// Whether `member` is in the transitional configuration that ends the stay; `None` as long as none
/// does.
fn goes_on_with(ledger: &Ledger, stay: &Stay, member: MemberId) -> Option<bool> {
    let transitional = stay.transitional?;
    Some(ledger.set(transitional.set).contains(&member))
}

/// Of each member, the last regular configuration that names it, of those that any member
/// installed.
fn last_configurations(ledger: &Ledger) -> BTreeMap<MemberId, ConfigIx> {
    let mut last = BTreeMap::<MemberId, ConfigIx>::new();
    for (ix, config) in ledger.configs() {
        let Some((set, _)) = config.installed else {
            continue;
        };
        for member in ledger.set(set) {
            let known = last.entry(*member).or_insert(ix);
            if config.id.counter > ledger.config(*known).id.counter {
                *known = ix;
            }
        }
    }
    last
}

fn is_observer(ledger: &Ledger, member: MemberId) -> bool {
    let found = ledger.find(member);
    found.is_some_and(|member| ledger.life(member).lines > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checker;
    use crate::story::Story;

    /// What the story leaves open, as `LETTER: TEXT`, and how many members were killed.
    fn coverage(text: &str, torn: &str) -> (Vec<String>, u64) {
        let story = Story::of(text);
        let mut checker = Checker::new();
        for (member, observation) in story.observations() {
            checker.observe(*member, observation);
        }
        let letter = |member: MemberId| char::from(member.node.0 as u8);
        let ids = story.observations().iter().map(|(member, _)| *member);
        let torn = ids
            .filter(|member| torn.contains(letter(*member)))
            .collect();
        let coverage = Coverage::of(checker.ledger(), &torn);
        let texts = coverage.unjudged.iter().map(|open| {
            let text = open
                .text
                .split_once(':')
                .map_or(&*open.text, |(text, _)| text);
            format!("{}: {text}", letter(open.member.unwrap()))
        });
        (texts.collect(), coverage.killed)
    }

    #[track_caller]
    fn assert_open(text: &str, expected: &[&str]) {
        assert_eq!(coverage(text, "").0, expected, "{text}");
    }

    const EARLY: &str = "b: its history ends early";

    #[test]
    fn complete_histories_leave_nothing_open() {
        assert_open(
            "a,b regular 1a ab; a transitional 1a a; a regular 2a a; a leave; b leave",
            &[],
        );
        assert_open("a,b regular 1a ab; a,b crash", &[]);
        // All end together: copied from daemons that still run, or all were killed.
        assert_open("a,b regular 1a ab; a submit a1; a,b deliver a1 1a:1", &[]);
        assert_open("a start; b start", &[]);
    }

    #[test]
    fn members_without_a_history_are_missing() {
        assert_open(
            "a regular 1a abc; b regular 1a abc",
            &["c: its history is missing"],
        );
        assert_open("a deliver b1 - unreliable", &["b: its history is missing"]);
    }

    #[test]
    fn a_member_that_was_killed_is_judged_as_a_crash() {
        let gone = "a,b regular 1a ab; a transitional 1a a; a regular 2a a; a leave";
        assert_eq!(coverage(gone, ""), (Vec::new(), 1));
        // Killed before it installed, or before it wrote, what the others had formed with it.
        let forming = "a regular 1a a; b regular 1b b; a transitional 1a a; a regular 2a ab;
            a transitional 2a a; a regular 3a a; a leave";
        assert_eq!(coverage(forming, ""), (Vec::new(), 1));
    }

    #[test]
    fn a_history_that_ends_while_others_go_on_ends_early() {
        assert_open("a,b regular 1a ab; a leave", &[EARLY]);
        assert_open(
            "a,b regular 1a ab; a submit a1; a deliver a1 1a:1",
            &[EARLY],
        );
        assert_open(
            "a,b regular 1a ab; a transitional 1a ab; a regular 2a ab",
            &[EARLY],
        );
        // It was gone in the end, long after its history ends.
        assert_open(
            "a,b regular 1a ab; a transitional 1a ab; a regular 2a ab; a transitional 2a ab;
            a regular 3a ab; a transitional 3a a; a regular 4a a; a leave",
            &[EARLY],
        );
    }

    #[test]
    fn a_history_that_ends_within_a_line_is_cut_off() {
        let story = "a,b regular 1a ab; a transitional 1a a; a regular 2a a; a leave";
        let (open, killed) = coverage(story, "ab");
        assert_eq!(open, ["b: its history is cut off within a line"]);
        assert_eq!(killed, 0);
    }
}
