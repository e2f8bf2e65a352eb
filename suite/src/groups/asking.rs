//! Requests, handlers and locks in the simulation: what clients ask and answer, and the verdict on
//! it from end to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::{MemberId, Rng};
use groupcast_session::View;
use groupcast_session::client::{Ask, Asked};
use groupcast_session::guests::{Ending, Role, RoleNotice, RoleState};

use super::GROUPS;
use super::client::Client;
use super::ledger::Ledger;

/// Handlers and locks of each group.
const NUMBERS: u64 = 2;
/// One request in so many is not answered.
const SILENT: u64 = 6;

/// What a client asked, was asked, and holds; over all its connections.
#[derive(Default)]
pub(super) struct Asking {
    /// Its requests, by number.
    requests: BTreeMap<u64, Request>,
    /// What it was given, each as it came, and by which daemon.
    given: Vec<(MemberId, Asked)>,
    /// How many of these it has looked at.
    looked_at: usize,
    /// What became of the roles that it claimed in this connection: of each the last that it heard.
    roles: BTreeMap<(String, Role), RoleState>,
    /// What was wrong at once.
    wrong: Vec<String>,
}

/// A request of a client.
struct Request {
    answers: u16,
    handled: bool,
    /// How many were asked, as far as it heard.
    asked: Option<u32>,
    /// Who answered, and to which of its own daemons, in the order in which they did.
    from: Vec<(MemberId, String)>,
    ended: Option<(Ending, u32)>,
}

/// How many requests ended how, and how many roles were held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AskTally {
    /// Requests that got all answers that were wanted.
    pub complete: u64,
    /// Requests that ended otherwise.
    pub otherwise: u64,
    /// Requests that members were given.
    pub given: u64,
    /// Roles that clients had in the end.
    pub held: u64,
}

impl AskTally {
    /// Adds what the clients of one run asked.
    pub(super) fn add(&mut self, ledger: &Ledger) {
        for client in &ledger.clients {
            let asking = &client.asking;
            self.given += asking.given.len() as u64;
            let ended = asking.requests.values().filter_map(|it| it.ended);
            for (ending, _) in ended {
                match ending {
                    Ending::Complete => self.complete += 1,
                    _ => self.otherwise += 1,
                }
            }
            let held = asking.roles.values();
            self.held += held.filter(|it| **it == RoleState::Held).count() as u64;
        }
    }
}

impl Asking {
    /// A connection begins: roles went with the one before.
    pub(super) fn restart(&mut self) {
        self.roles.clear();
    }

    /// It is asked, at `daemon`.
    pub(super) fn given(&mut self, daemon: MemberId, asked: Asked) {
        self.given.push((daemon, asked));
    }

    pub(super) fn taken(&mut self, number: u64, asked: u32) {
        match self.requests.get_mut(&number) {
            Some(request) => request.asked = Some(asked),
            None => self.wrong.push(format!("{number}, which it did not ask")),
        }
    }

    /// Somebody answers, and `daemon` hands that over.
    pub(super) fn answered(&mut self, daemon: MemberId, number: u64, from: String) {
        let Some(request) = self.requests.get_mut(&number) else {
            return self
                .wrong
                .push(format!("an answer to {number}, which it did not ask"));
        };
        if request.ended.is_some() {
            self.wrong
                .push(format!("an answer to {number} of {from} after its end"));
        }
        request.from.push((daemon, from));
    }

    pub(super) fn ended(&mut self, number: u64, ending: Ending, answers: u32) {
        let Some(request) = self.requests.get_mut(&number) else {
            return self
                .wrong
                .push(format!("the end of {number}, which it did not ask"));
        };
        if let Some(before) = request.ended.replace((ending, answers)) {
            self.wrong.push(format!(
                "the end of {number} as {ending:?} after {before:?}"
            ));
        }
    }

    pub(super) fn role(&mut self, notice: RoleNotice) {
        if let RoleState::Refused { holder, text, .. } = &notice.state {
            if text.is_empty() {
                self.wrong.push(format!(
                    "{} refused without a word, {holder:?} has it",
                    notice.role
                ));
            }
            return;
        }
        self.roles.insert((notice.group, notice.role), notice.state);
    }

    /// Who is in the group no more has no role in it.
    pub(super) fn view(&mut self, view: &View, name: &str) {
        let is_own = |member: &Arc<str>| member.split('@').next() == Some(name);
        if !view.members.iter().any(is_own) {
            self.roles.retain(|(group, _), _| **group != *view.group);
        }
    }

    fn judge(&self, name: &str, found: &mut Vec<String>) {
        let wrong = self.wrong.iter();
        found.extend(wrong.map(|wrong| format!("{name} sees {wrong}")));
        // A daemon that starts again knows nothing of what its clients were given before.
        let mut given = BTreeSet::new();
        for (daemon, asked) in &self.given {
            if !given.insert((daemon, &asked.payload)) {
                let (at, what) = (asked.place, &asked.payload);
                found.push(format!("{name} is given {what:?} again at {at:?}"));
            }
        }
        for (number, request) in &self.requests {
            if let Some(wrong) = request.wrong() {
                found.push(format!("request {number} of {name} {wrong}"));
            }
        }
    }
}

impl Request {
    /// What is wrong with what came of it.
    fn wrong(&self) -> Option<String> {
        let from: BTreeSet<&(MemberId, String)> = self.from.iter().collect();
        if from.len() < self.from.len() {
            return Some(format!("is answered twice by one of {from:?}"));
        }
        if self.handled && self.from.len() > 1 {
            return Some(format!("for a handler is answered by {from:?}"));
        }
        let (Ending::Complete, answers) = self.ended? else {
            return None;
        };
        let wanted = match self.answers {
            0 => self.asked?,
            some => u32::from(some),
        };
        (answers < wanted).then(|| format!("is complete with {answers} of {wanted}"))
    }
}

/// What the clients of a finished run have against it.
pub(super) fn judge(living: &[MemberId], ledger: &Ledger, found: &mut Vec<String>) {
    for client in &ledger.clients {
        client.asking.judge(&client.name, found);
    }
    judge_roles(living, ledger, found);
}

/// When all is at peace, who believes to have a role is the only one, and what somebody waits for
/// has a holder.
fn judge_roles(living: &[MemberId], ledger: &Ledger, found: &mut Vec<String>) {
    let clients = ledger.clients.iter().filter(|client| {
        let daemon = client.lives.last().map(|life| life.daemon);
        client.is_connected() && daemon.is_some_and(|daemon| living.contains(&daemon))
    });
    let mut holders: BTreeMap<&(String, Role), Vec<&str>> = BTreeMap::new();
    let mut waits = Vec::new();
    for client in clients {
        for (role, state) in &client.asking.roles {
            match state {
                RoleState::Held if role.1.is_exclusive() => {
                    holders.entry(role).or_default().push(&client.name);
                }
                RoleState::Waits { .. } => waits.push((role, &client.name)),
                _ => {}
            }
        }
    }
    for (role, holders) in holders.iter().filter(|(_, holders)| holders.len() > 1) {
        found.push(format!("{role:?} is held by {holders:?} in the end"));
    }
    for (role, name) in waits {
        if !holders.contains_key(role) {
            found.push(format!("{name} waits for {role:?}, which nobody has"));
        }
    }
}

/// Something that a client does about requests and roles.
pub(super) fn act(client: &mut Client, rng: &mut Rng) {
    let group = rng.pick(&GROUPS).copied().unwrap_or(GROUPS[0]);
    let number = rng.below(NUMBERS) as u16;
    let role = match rng.below(3) {
        0 => Role::Answering,
        1 => Role::Handler(number),
        _ => Role::Lock(number),
    };
    // Before its welcome, and without credit, it does something else another time.
    match rng.below(10) {
        0..5 => ask(client, rng, group),
        5..9 => {
            let _ = client.connection().join(group, false);
            let _ = client.connection().claim(group, role, rng.chance(0.5));
        }
        _ => {
            let _ = client.connection().release(group, role);
            client.asking.roles.remove(&(group.to_owned(), role));
        }
    }
}

fn ask(client: &mut Client, rng: &mut Rng, group: &str) {
    let handler = rng.chance(0.4).then(|| rng.below(NUMBERS) as u16);
    let ask = Ask {
        answers: rng.below(3) as u16,
        handler,
        within: Duration::from_millis(rng.range(50..2_000)),
    };
    let number = client.asking.requests.len() + 1;
    let payload = format!("{}?{number}", client.name);
    if let Ok(number) = client.connection().ask(group, ask, payload.as_bytes()) {
        let request = Request {
            answers: ask.answers,
            handled: handler.is_some(),
            asked: None,
            from: Vec::new(),
            ended: None,
        };
        client.asking.requests.insert(number, request);
    }
}

/// The client answers what it was given, most of it; whether there was anything.
pub(super) fn answer(client: &mut Client) -> bool {
    let from = client.asking.looked_at;
    let new: Vec<_> = client.asking.given[from..].to_vec();
    client.asking.looked_at += new.len();
    let mut any = false;
    for (_, asked) in new {
        if !(asked.place.seq >> 16).is_multiple_of(SILENT) {
            any |= client
                .connection()
                .answer(asked.place.seq, &asked.payload)
                .is_ok();
        }
    }
    any
}
