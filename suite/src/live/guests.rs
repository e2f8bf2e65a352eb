//! Requests, a handler and a lock of a group over live daemons (`docs/guests.md`).
//!
//! Two servers, processes of their own, answer for a group at two daemons, and want its handler and
//! its lock; a guest at a third daemon asks. The server that has both is killed, then the daemon of
//! the other.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use groupcast_client::{
    Address, Ask, Client, ClientEvent, Ending, Options, Reject, Role as GroupRole, RoleState,
};

use super::cluster::Cluster;
use super::{Outcome, Role, until};

/// The part of a server, by its hidden word.
pub const ROLE: Role = (SERVE, serve);

const SERVE: &str = "serve";
const GROUP: &str = "served";
const HANDLER: GroupRole = GroupRole::Handler(1);
const LOCK: GroupRole = GroupRole::Lock(1);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server does: `serve SOCKET NAME`. It prints what becomes of its roles, and answers with
/// its name.
fn serve(words: &[&str]) -> Outcome {
    let [socket, name] = words else {
        return Err(format!("usage: {SERVE} SOCKET NAME").into());
    };
    let mut client = connect(socket, name)?;
    client.join(GROUP)?;
    client.claim(GROUP, GroupRole::Answering, false)?;
    for role in [HANDLER, LOCK] {
        client.claim(GROUP, role, true)?;
    }
    while let Some(event) = client.next_event(None)? {
        match event {
            ClientEvent::Role(notice) => println!("{}: {:?}", notice.role, notice.state),
            ClientEvent::Asked(asked) => client.answer(&asked, name.as_bytes())?,
            _ => {}
        }
    }
    Ok(())
}

fn connect(socket: &str, name: &str) -> Outcome<Client> {
    let options = Options {
        name: Some(name.to_owned()),
        ..Options::default()
    };
    let address = Address::Unix(Path::new(socket).into());
    Ok(Client::connect(&address, options)?)
}

/// All of it over daemons whose messages `protocol` orders; `program` plays the servers.
pub fn run(protocol: &str, program: &str) -> Outcome {
    let mut cluster = Cluster::running_with(3, Link::Unlimited, protocol)?;
    let mut ann = start(&cluster, program, 1, "ann", "Held")?;
    let bob = start(
        &cluster,
        program,
        2,
        "bob",
        "Waits { holder: \"ann@host-1\" }",
    )?;
    let mut guest = Guest(connect(&cluster.socket(3), "guest")?);
    guest.ask_for_first_some_and_all()?;
    guest.expect_answers(Some(1), &["ann"])?;
    guest.0.join(GROUP)?;
    guest.expect_refusals("ann@host-1")?;

    ann.kill()?;
    guest.await_event("a view without ann", |event| match event {
        ClientEvent::View(view) => (view.members.len() == 2).then_some(()),
        _ => None,
    })?;
    guest.expect_answers(Some(1), &["bob"])?;
    guest.expect_answers(None, &["bob"])?;

    guest.0.claim(GROUP, LOCK, true)?;
    let state = guest.await_role(LOCK)?;
    let holder = "bob@host-2".to_owned();
    expect("the lock", state, RoleState::Waits { holder })?;
    cluster.daemon(2)?.kill()?;
    let state = guest.await_role(LOCK)?;
    expect("the lock of a daemon that is gone", state, RoleState::Held)?;
    expect(
        "without a handler",
        guest.ask(Some(1), 0)?.0,
        Ending::Nobody,
    )?;
    drop(bob);
    cluster.check_histories()
}

/// Starts a server on a host and waits until it says that both its roles are in `state`.
fn start(
    cluster: &Cluster,
    program: &str,
    host: usize,
    name: &str,
    state: &str,
) -> Outcome<Process> {
    let mut command = cluster.bed.command(host, program);
    command.args([SERVE, &cluster.socket(host), name]);
    let mut server = cluster.bed.launch(name, command)?;
    let lines = [HANDLER, LOCK].map(|role| format!("{role}: {state}"));
    until(PATIENCE, format!("{name} prints {lines:?}"), || {
        if !server.is_running() {
            return Err(format!("{name} ended: {}", server.stderr()?).into());
        }
        let said = server.stdout()?;
        let all = lines.iter().all(|line| said.lines().any(|it| it == line));
        Ok(all.then_some(()))
    })?;
    Ok(server)
}

fn expect<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}").into()),
    }
}

/// A client that asks.
struct Guest(Client);

impl Guest {
    /// Of two that answer: the first, two, and all.
    fn ask_for_first_some_and_all(&mut self) -> Outcome {
        let (ending, first) = self.ask(None, 1)?;
        expect("the first", (ending, first.len()), (Ending::Complete, 1))?;
        let both = vec!["ann".to_owned(), "bob".to_owned()];
        for wanted in [2, 0] {
            expect(
                "both",
                self.ask(None, wanted)?,
                (Ending::Complete, both.clone()),
            )?;
        }
        Ok(())
    }

    /// All that are asked answer, and are these.
    fn expect_answers(&mut self, handler: Option<u16>, names: &[&str]) -> Outcome {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let answered = self.ask(handler, 0)?;
        expect("who answers", answered, (Ending::Complete, names))
    }

    /// A lock that another has cannot be freed, nor a handler taken: the holder is named.
    fn expect_refusals(&mut self, holder: &str) -> Outcome {
        self.0.release(GROUP, LOCK)?;
        let freed = (LOCK, Reject::NotHeld, self.await_role(LOCK)?);
        self.0.claim(GROUP, HANDLER, false)?;
        let taken = (HANDLER, Reject::Taken, self.await_role(HANDLER)?);
        for (role, expected, state) in [freed, taken] {
            let named = match &state {
                RoleState::Refused { holder, code, text } => (&**holder, *code, &**text),
                _ => return Err(format!("{role} is not refused: {state:?}").into()),
            };
            expect("the reason", (named.0, named.1), (holder, expected))?;
            expect("the holder in words", named.2.contains(holder), true)?;
        }
        Ok(())
    }

    /// Asks, and waits for the end: how, and who answered, sorted.
    fn ask(&mut self, handler: Option<u16>, answers: u16) -> Outcome<(Ending, Vec<String>)> {
        let ask = Ask {
            answers,
            handler,
            within: PATIENCE,
        };
        let asked = self.0.ask(GROUP, ask, b"who are you?")?;
        let mut names = Vec::new();
        let (ending, count) = self.await_event("the end of a request", |event| match event {
            ClientEvent::Answer {
                number, payload, ..
            } if number == asked => {
                names.push(String::from_utf8_lossy(&payload).into_owned());
                None
            }
            ClientEvent::Ended {
                number,
                ending,
                answers,
                ..
            } if number == asked => Some((ending, answers as usize)),
            _ => None,
        })?;
        names.sort();
        expect("answers that are counted", count, names.len())?;
        Ok((ending, names))
    }

    fn await_role(&mut self, role: GroupRole) -> Outcome<RoleState> {
        self.await_event("what becomes of a role", |event| match event {
            ClientEvent::Role(notice) if notice.role == role => Some(notice.state),
            _ => None,
        })
    }

    /// The first thing that `wanted` makes of an event.
    fn await_event<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(ClientEvent) -> Option<T>,
    ) -> Outcome<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.0.next_event(Some(left))?;
            let event = event.ok_or_else(|| format!("{what}: not within {PATIENCE:?}"))?;
            if let Some(found) = wanted(event) {
                return Ok(found);
            }
        }
    }
}
