//! `[[change]]`: what happens to the world while it runs, and when.

use groupcast_core::Time;
use groupcast_core::settings::suggest::{alternatives, did_you_mean, nearest};

use super::error::ScenarioError;
use super::hosts::HostKeys;
use super::link::LinkKeys;
use super::section::{Entry, Section};
use super::select::{Hosts, Links, Spot};

type Result<T> = std::result::Result<T, ScenarioError>;

/// A `[[change]]`, read.
#[derive(Clone, Debug)]
pub(super) struct ChangeKeys {
    pub(super) at: Time,
    pub(super) what: What,
    /// Where it is said what happens.
    pub(super) spot: Spot,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum What {
    Start(Hosts),
    Crash(Hosts),
    Pause(Hosts),
    Resume(Hosts),
    Leave(Hosts),
    Join(Hosts),
    Part(Hosts),
    Down(Links),
    Up(Links),
    Cut(Vec<Hosts>),
    Heal,
    Link(Links, Box<LinkKeys>),
    Host(Hosts, Box<HostKeys>),
    Silence(usize),
    Sound(usize),
}

const VERBS: &[&str] = &[
    "start", "crash", "pause", "resume", "leave", "join", "part", "down", "up", "cut", "heal",
    "link", "host", "silence", "sound",
];

impl ChangeKeys {
    /// `end`: of the world. `sources`: how many there are.
    pub(super) fn read(section: &mut Section<'_>, end: Time, sources: usize) -> Result<Self> {
        let at = section.require("at")?;
        let when = Time::ZERO + at.duration()?;
        if when > end {
            return Err(at.wrong(
                "after the end of the world",
                "let it happen before `duration`, or make that longer",
            ));
        }
        let verb = verb(section)?;
        let entry = section.require(verb)?;
        section.rename(format!("a change that says `{verb}`"));
        let what = what(section, verb, &entry, sources)?;
        section.finish(|_| None)?;
        Ok(Self {
            at: when,
            what,
            spot: Spot::of(&entry),
        })
    }
}

/// The one verb of a change.
fn verb(section: &Section<'_>) -> Result<&'static str> {
    let present = section.present(VERBS);
    match present[..] {
        [verb] => Ok(verb),
        [] => Err(
            match section
                .others()
                .find(|key| nearest(key, VERBS.iter().copied()).is_some())
            {
                Some(key) => section.unknown(key, did_you_mean(key, VERBS)),
                None => section.wrong(
                    "nothing changes",
                    format!("say what: {}", alternatives(VERBS)),
                ),
            },
        ),
        [first, second, ..] => Err(section.require(second)?.wrong(
            format!("a second change beside `{first}`"),
            "give each its own [[change]]; those of the same time happen in the order of the file",
        )),
    }
}

fn what(section: &Section<'_>, verb: &str, entry: &Entry<'_>, sources: usize) -> Result<What> {
    let hosts = || Hosts::read(entry);
    Ok(match verb {
        "start" => What::Start(hosts()?),
        "crash" => What::Crash(hosts()?),
        "pause" => What::Pause(hosts()?),
        "resume" => What::Resume(hosts()?),
        "leave" => What::Leave(hosts()?),
        "join" => What::Join(hosts()?),
        "part" => What::Part(hosts()?),
        "down" => What::Down(Links::read(entry)?),
        "up" => What::Up(Links::read(entry)?),
        "cut" => What::Cut(
            entry
                .list()?
                .iter()
                .map(Hosts::read)
                .collect::<Result<_>>()?,
        ),
        "heal" => match entry.boolean()? {
            true => What::Heal,
            false => return Err(entry.wrong("nothing changes", "write heal = true")),
        },
        "link" => {
            let keys = LinkKeys::read(section)?;
            if keys.is_empty() {
                let help = "say what the link has from then on, for example loss = \"1 %\"";
                return Err(entry.wrong("nothing changes", help));
            }
            What::Link(Links::read(entry)?, Box::new(keys))
        }
        "host" => What::Host(hosts()?, Box::new(HostKeys::read(section)?)),
        "silence" => What::Silence(source(entry, sources)?),
        _ => What::Sound(source(entry, sources)?),
    })
}

fn source(entry: &Entry<'_>, sources: usize) -> Result<usize> {
    let number = entry.number()? as usize;
    match number < sources {
        true => Ok(number),
        false => Err(entry.wrong(
            format!("there is no source {number}"),
            match sources {
                0 => "add a [[source]]".to_owned(),
                _ => format!(
                    "the [[source]] tables are counted from 0 to {}",
                    sources - 1
                ),
            },
        )),
    }
}

/// Whether a process runs on a host, as far as the changes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Running,
    Paused,
    /// Not started, crashed or leaving.
    Gone,
}

/// What a change does to the life of the hosts that it names: the state that it needs, the one that it leads to, and
/// what to say if the host is in another.
pub(super) fn life_after(
    what: &What,
    before: Life,
) -> std::result::Result<Life, (&'static str, &'static str)> {
    match (what, before) {
        (What::Start(_), Life::Gone) => Ok(Life::Running),
        (What::Start(_), _) => Err(("runs already", "let it crash or leave before")),
        (What::Crash(_), Life::Running | Life::Paused) => Ok(Life::Gone),
        (What::Leave(_), Life::Running) => Ok(Life::Gone),
        (What::Leave(_), Life::Paused) => Err(("is paused", "resume it before")),
        (What::Pause(_), Life::Running) => Ok(Life::Paused),
        (What::Pause(_), Life::Paused) => Err(("is paused already", "resume it before")),
        (What::Resume(_), Life::Paused) => Ok(Life::Running),
        (What::Resume(_), Life::Running) => Err(("is not paused", "leave this change out")),
        (What::Crash(_) | What::Leave(_) | What::Pause(_) | What::Resume(_), Life::Gone) => {
            Err(("does not run then", "start it before"))
        }
        (_, life) => Ok(life),
    }
}
