//! `[[change]]`: what happens to the world while it runs, and when.

use groupcast_core::Time;
use groupcast_core::settings::suggest::{alternatives, did_you_mean, nearest};
use groupcast_sim::experiment::ProcessChange;

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
    pub(super) change: NamedChange,
    /// Where the file says what changes.
    pub(super) spot: Spot,
}

/// What changes: the simulator's [`Change`](groupcast_sim::experiment::Change) of hosts, links and
/// sources as the file names them.
#[derive(Clone, Debug)]
pub(super) enum NamedChange {
    Process(Hosts, ProcessChange),
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
        let change = change(section, verb, &entry, sources)?;
        section.finish(|_| None)?;
        Ok(Self {
            at: when,
            change,
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

fn change(
    section: &Section<'_>,
    verb: &str,
    entry: &Entry<'_>,
    sources: usize,
) -> Result<NamedChange> {
    let hosts = || Hosts::read(entry);
    let process = |change| Ok(NamedChange::Process(hosts()?, change));
    Ok(match verb {
        "start" => process(ProcessChange::Start)?,
        "crash" => process(ProcessChange::Crash)?,
        "pause" => process(ProcessChange::Pause)?,
        "resume" => process(ProcessChange::Resume)?,
        "leave" => process(ProcessChange::Leave)?,
        "join" => NamedChange::Join(hosts()?),
        "part" => NamedChange::Part(hosts()?),
        "down" => NamedChange::Down(Links::read(entry)?),
        "up" => NamedChange::Up(Links::read(entry)?),
        "cut" => NamedChange::Cut(
            entry
                .list()?
                .iter()
                .map(Hosts::read)
                .collect::<Result<_>>()?,
        ),
        "heal" => match entry.boolean()? {
            true => NamedChange::Heal,
            false => return Err(entry.wrong("nothing changes", "write heal = true")),
        },
        "link" => {
            let keys = LinkKeys::read(section)?;
            section.finish(|_| None)?;
            if keys.is_empty() {
                let help = "say what the link has from then on, for example loss = \"1 %\"";
                return Err(entry.wrong("nothing changes", help));
            }
            NamedChange::Link(Links::read(entry)?, Box::new(keys))
        }
        "host" => NamedChange::Host(hosts()?, Box::new(HostKeys::read(section)?)),
        "silence" => NamedChange::Silence(source(entry, sources)?),
        _ => NamedChange::Sound(source(entry, sources)?),
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
pub(super) enum ProcessState {
    Running,
    Paused,
    /// Not started, crashed or leaving.
    Absent,
}

/// The state of a host's process after a change; an error if the change makes no sense before it:
/// what is wrong and what to do.
pub(super) fn state_after(
    change: ProcessChange,
    before: ProcessState,
) -> std::result::Result<ProcessState, (&'static str, &'static str)> {
    use ProcessState::{Absent, Paused, Running};
    match (change, before) {
        (ProcessChange::Start, Absent) | (ProcessChange::Resume, Paused) => Ok(Running),
        (ProcessChange::Pause, Running) => Ok(Paused),
        (ProcessChange::Crash, Running | Paused) | (ProcessChange::Leave, Running) => Ok(Absent),
        (ProcessChange::Start, _) => Err(("runs already", "let it crash or leave before")),
        (_, Absent) => Err(("does not run then", "start it before")),
        (ProcessChange::Leave, Paused) => Err(("is paused", "resume it before")),
        (ProcessChange::Pause, Paused) => Err(("is paused already", "resume it before")),
        (ProcessChange::Resume, Running) => Err(("is not paused", "leave this change out")),
    }
}
