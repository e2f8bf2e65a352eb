//! What a client asks, answers and holds, and the verdict on it from end to end (`docs/guests.md`).
//!
//! It knows only what the client sees, so the swarm of daemons, the swarm of names and the live run
//! of rings share it. A *stay* says with which life of which daemon a client is connected: what is
//! carried out once there may be carried out again where nothing is known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groupcast_core::{MemberId, Rng};
use groupcast_session::View;
use groupcast_session::client::{Ask, Asked, ClientEvent};
use groupcast_session::guests::{Ending, Role, RoleNotice, RoleState};

/// Handlers and locks of each group.
pub(crate) const NUMBERS: u64 = 2;
/// One request in this many is not answered.
const SILENT: u64 = 6;

/// A handler, a lock, or to answer.
pub(crate) fn draw_role(rng: &mut Rng) -> Role {
    let number = rng.below(NUMBERS) as u16;
    match rng.below(3) {
        0 => Role::Answering,
        1 => Role::Handler(number),
        _ => Role::Lock(number),
    }
}

/// A request for the first answer, two or all, of everybody or of a handler.
pub(crate) fn draw_ask(rng: &mut Rng) -> Ask {
    let handler = rng.chance(0.4).then(|| rng.below(NUMBERS) as u16);
    Ask {
        answers: rng.below(3) as u16,
        handler,
        within: std::time::Duration::from_millis(rng.range(50..2_000)),
    }
}

/// What a client asked, was asked, and holds; over all its connections.
#[derive(Default)]
pub(crate) struct Asking {
    /// Its requests, by number.
    requests: BTreeMap<u64, Request>,
    /// What it was given, each as it came, and in which stay.
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
    /// Who answered, and in which stay, in the order in which they did.
    from: Vec<(MemberId, String)>,
    ended: Option<(Ending, u32)>,
    /// It was asked again in another connection: answers may have come to the one before, or to
    /// nobody.
    repeated: bool,
}

/// How many requests ended how, and how many roles were held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AskTally {
    /// Requests that got the first answer, and wanted no more.
    pub first: u64,
    /// Requests that got as many answers as they wanted, more than one.
    pub some: u64,
    /// Requests that got the answers of all that were asked.
    pub all: u64,
    /// Requests that the holder of a handler answered, beside those.
    pub handled: u64,
    /// Requests that ended otherwise.
    pub otherwise: u64,
    /// Requests that members were given.
    pub given: u64,
    /// Roles that clients had in the end.
    pub held: u64,
}

impl AskTally {
    /// Requests that got all answers that they wanted.
    pub fn complete(&self) -> u64 {
        self.first + self.some + self.all + self.handled
    }

    /// Adds what a client asked.
    pub(crate) fn add(&mut self, asking: &Asking) {
        self.given += asking.given.len() as u64;
        for request in asking.requests.values() {
            let Some((ending, _)) = request.ended else {
                continue;
            };
            let count = match (ending, request.handled, request.answers) {
                (Ending::Complete, true, _) => &mut self.handled,
                (Ending::Complete, false, 0) => &mut self.all,
                (Ending::Complete, false, 1) => &mut self.first,
                (Ending::Complete, false, _) => &mut self.some,
                _ => &mut self.otherwise,
            };
            *count += 1;
        }
        let held = asking.roles.values();
        self.held += held.filter(|it| **it == RoleState::Held).count() as u64;
    }

    /// Adds another one.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            first,
            some,
            all,
            handled,
            otherwise,
            given,
            held,
        } = self;
        *first += other.first;
        *some += other.some;
        *all += other.all;
        *handled += other.handled;
        *otherwise += other.otherwise;
        *given += other.given;
        *held += other.held;
    }
}

impl Asking {
    /// A connection begins: roles went with the one before.
    pub(crate) fn restart(&mut self) {
        self.roles.clear();
        let requests = self.requests.values_mut();
        for request in requests.filter(|it| it.ended.is_none()) {
            request.repeated = true;
        }
    }

    /// How many requests it made.
    pub(crate) fn count(&self) -> usize {
        self.requests.len()
    }

    /// It asks.
    pub(crate) fn asks(&mut self, number: u64, ask: Ask) {
        let request = Request {
            answers: ask.answers,
            handled: ask.handler.is_some(),
            asked: None,
            from: Vec::new(),
            ended: None,
            repeated: false,
        };
        self.requests.insert(number, request);
    }

    /// It gives a role back, or its place in the queue.
    pub(crate) fn releases(&mut self, group: &str, role: Role) {
        self.roles.remove(&(group.to_owned(), role));
    }

    /// What it sees of its requests, of others' and of roles, in `stay`. It is called `name`.
    pub(crate) fn see(&mut self, stay: MemberId, name: &str, event: &ClientEvent) {
        match event {
            ClientEvent::View(view) => self.view(view, name),
            ClientEvent::Asked(asked) => self.given.push((stay, asked.clone())),
            ClientEvent::Taken { number, asked } => match self.requests.get_mut(number) {
                Some(request) => request.asked = Some(*asked),
                None => self.wrong.push(format!("{number}, which it did not ask")),
            },
            ClientEvent::Answer { number, from, .. } => self.answered(stay, *number, from),
            ClientEvent::Ended {
                number,
                ending,
                answers,
                ..
            } => self.ended(*number, *ending, *answers),
            ClientEvent::Role(notice) => self.role(notice),
            _ => {}
        }
    }

    /// Somebody answers, and the daemon hands that over.
    fn answered(&mut self, stay: MemberId, number: u64, from: &str) {
        let Some(request) = self.requests.get_mut(&number) else {
            return self
                .wrong
                .push(format!("an answer to {number}, which it did not ask"));
        };
        if request.ended.is_some() {
            self.wrong
                .push(format!("an answer to {number} of {from} after its end"));
        }
        request.from.push((stay, from.to_owned()));
    }

    fn ended(&mut self, number: u64, ending: Ending, answers: u32) {
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

    fn role(&mut self, notice: &RoleNotice) {
        if let RoleState::Refused { holder, text, .. } = &notice.state {
            if text.is_empty() {
                self.wrong.push(format!(
                    "{} refused without a word, {holder:?} has it",
                    notice.role
                ));
            }
            return;
        }
        let role = (notice.group.clone(), notice.role);
        self.roles.insert(role, notice.state.clone());
    }

    /// A client that is in the group no more has no role in it.
    fn view(&mut self, view: &View, name: &str) {
        let is_own = |member: &Arc<str>| member.split('@').next() == Some(name);
        if !view.members.iter().any(is_own) {
            self.roles.retain(|(group, _), _| **group != *view.group);
        }
    }

    /// What it was given since it looked last and answers: most of it.
    pub(crate) fn answerable(&mut self) -> Vec<Asked> {
        let new = &self.given[self.looked_at..];
        let answers = |asked: &&Asked| !(asked.place.seq >> 16).is_multiple_of(SILENT);
        let new = new.iter().map(|(_, asked)| asked).filter(answers).cloned();
        let new = new.collect();
        self.looked_at = self.given.len();
        new
    }

    /// What the client, called `name`, has against it.
    pub(crate) fn judge(&self, name: &str, found: &mut Vec<String>) {
        let wrong = self.wrong.iter();
        found.extend(wrong.map(|wrong| format!("{name} sees {wrong}")));
        // A daemon that starts again knows nothing of what its clients were given before.
        let mut given = BTreeSet::new();
        for (stay, asked) in &self.given {
            if !given.insert((stay, &asked.payload)) {
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
        let (ending, answers) = self.ended?;
        if !self.repeated && answers as usize != from.len() {
            return Some(format!("ends with {answers} answers, of {from:?}"));
        }
        if ending != Ending::Complete {
            return None;
        }
        let wanted = match self.answers {
            0 => self.asked?,
            some => u32::from(some),
        };
        (answers != wanted).then(|| format!("is complete with {answers} of {wanted}"))
    }
}

/// When all is at peace, a client that believes to have a role is the only one, and what somebody
/// waits for has a holder. `clients` are those that are connected, by name.
pub(crate) fn judge_roles<'a>(
    clients: impl Iterator<Item = (&'a str, &'a Asking)>,
    found: &mut Vec<String>,
) {
    let mut holders: BTreeMap<&(String, Role), Vec<&str>> = BTreeMap::new();
    let mut waits = Vec::new();
    for (name, asking) in clients {
        for (role, state) in &asking.roles {
            match state {
                RoleState::Held if role.1.is_exclusive() => {
                    holders.entry(role).or_default().push(name);
                }
                RoleState::Waits { .. } => waits.push((role, name)),
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
