//! A replicated table of counters: every replica applies the same commands in the same order, so
//! all tables are equal.
//!
//! Start daemons as the README shows, then a replica beside each of them:
//!
//! ```text
//! cargo run --release -p groupcast-client --example replica -- /tmp/gc-1.sock
//! ```
//!
//! Type `KEY NUMBER` to add a number to a counter. Every replica prints the new value, its own
//! commands included, and who takes part.
//!
//! A replica that comes later has no table, and after a cut of the network each part has gone on
//! with its own. Both are one case here: at a view with somebody who was elsewhere, every replica
//! sends its table, and all take the one that has had the most commands. What is delivered between
//! the view and the last of these tables waits, and is then applied to the table that was taken: so
//! nothing is applied twice or left out. What the other part of a cut has done is lost; a service
//! that must not lose it goes on only in a part with a majority. All members of the group must be
//! replicas, and a table must fit into one message (64 MiB).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use groupcast_client::{Address, Client, ClientEvent, Options, Service, View, ViewKind};

const GROUP: &str = "replica.example";
/// How long the daemon is listened to before the keyboard is looked at again.
const TURN: Duration = Duration::from_millis(20);
/// A message that begins so has a table and no command.
const TABLE: &str = "\0table\n";

fn main() -> Result<(), Box<dyn Error>> {
    let address = match std::env::args().nth(1) {
        Some(socket) => Address::from(Path::new(&socket)),
        None => Address::Default,
    };
    play(&address, &keyboard(), |line| println!("{line}"))
}

/// A replica that takes `commands` until there are no more, and prints a line of what happens each
/// time.
pub(crate) fn play(
    address: &Address,
    commands: &mpsc::Receiver<String>,
    print: impl Fn(String),
) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(address, Options::default())?;
    client.join(GROUP)?;
    let mut replica = Replica::default();
    loop {
        match commands.try_recv() {
            // Nothing is applied here. The command comes back in its place in the order, as the
            // others' do.
            Ok(line) => {
                client.publish(&[GROUP], Service::Agreed, line.as_bytes())?;
            }
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => break,
        }
        match client.next_event(Some(TURN))? {
            Some(ClientEvent::View(view)) => {
                // It is sent before the next event is taken: it is the table as of this view.
                if let Some(table) = replica.view(&view) {
                    client.publish(&[GROUP], Service::Agreed, table.as_bytes())?;
                }
            }
            Some(ClientEvent::Message(message)) => {
                if let Ok(text) = std::str::from_utf8(&message.payload) {
                    replica.message(&message.sender.to_string(), text);
                }
            }
            Some(ClientEvent::Disconnected { text, .. }) => {
                print(format!("the daemon is gone: {text}"));
            }
            _ => {}
        }
        replica.lines.drain(..).for_each(&print);
    }
    // What was typed is accepted before the replica leaves.
    client.close(Duration::from_secs(5))?;
    Ok(())
}

/// The lines typed, read by a thread of their own: the client belongs to one thread.
fn keyboard() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// A table, and how many commands it has had; `None` of a replica that has just started. The one
/// with more commands is greater.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Table {
    commands: Option<u64>,
    counters: BTreeMap<String, i64>,
}

/// From a view with somebody new until all have sent their tables.
struct Round {
    view: String,
    tables: BTreeMap<String, Table>,
    /// The commands that came meanwhile, and their senders.
    waiting: Vec<(String, String)>,
}

#[derive(Default)]
struct Replica {
    table: Table,
    members: BTreeSet<String>,
    /// The members that have delivered all that this one has.
    together: BTreeSet<String>,
    round: Option<Round>,
    /// What is to be printed.
    lines: Vec<String>,
}

impl Replica {
    /// Takes a view; returns the message with this replica's table, if it is asked for.
    fn view(&mut self, view: &View) -> Option<String> {
        let members: BTreeSet<String> = view.members.iter().map(ToString::to_string).collect();
        if view.kind == ViewKind::Transitional {
            self.together.retain(|member| members.contains(member));
            return None;
        }
        let names = view.members.join(", ");
        self.lines.push(format!("replicas now: {names}"));
        let is_anybody_new = !members.is_subset(&self.together);
        self.together.clone_from(&members);
        self.members = members;
        if !is_anybody_new {
            self.take_if_all_are_here();
            return None;
        }
        // What waited for tables that did not all come goes to the own one, at all alike.
        self.end_round();
        let view = view.id.to_string();
        let message = self.table.encode(&view);
        self.round = Some(Round {
            view,
            tables: BTreeMap::new(),
            waiting: Vec::new(),
        });
        Some(message)
    }

    fn message(&mut self, sender: &str, text: &str) {
        if let Some(text) = text.strip_prefix(TABLE) {
            if let (Some(round), Some((view, table))) = (&mut self.round, Table::decode(text))
                && view == round.view
            {
                round.tables.insert(sender.to_owned(), table);
                self.take_if_all_are_here();
            }
        } else if let Some(round) = &mut self.round {
            round.waiting.push((sender.to_owned(), text.to_owned()));
        } else {
            self.lines.push(self.table.apply(sender, text));
        }
    }

    /// Once all have sent their tables, all see the same ones, and take the same one.
    fn take_if_all_are_here(&mut self) {
        let Some(round) = &self.round else {
            return;
        };
        if !self.members.iter().all(|it| round.tables.contains_key(it)) {
            return;
        }
        let best = round.tables.iter();
        let best = best.max_by_key(|(sender, table)| (table.commands, Reverse(*sender)));
        if let Some((sender, table)) = best {
            if table.counters != self.table.counters {
                let counters = table.counters.iter();
                let counters = counters.map(|(key, value)| format!("{key} = {value}"));
                self.lines
                    .push(format!("this is now the table of {sender}:"));
                self.lines.extend(counters);
            }
            self.table = table.clone();
            self.table.commands.get_or_insert(0);
        }
        self.end_round();
    }

    /// Applies what has waited, if there is a table for it.
    fn end_round(&mut self) {
        let round = self.round.take();
        for (sender, text) in round.into_iter().flat_map(|round| round.waiting) {
            if self.table.commands.is_some() {
                self.lines.push(self.table.apply(&sender, &text));
            }
        }
    }
}

impl Table {
    /// Applies a command; says what came of it.
    fn apply(&mut self, sender: &str, text: &str) -> String {
        match parse(text) {
            Some((key, number)) => {
                let value = self.counters.entry(key.to_owned()).or_insert(0_i64);
                *value = value.wrapping_add(number);
                self.commands = self.commands.map(|commands| commands + 1);
                format!("{key} = {value}   ({number:+} by {sender})")
            }
            None => "not `KEY NUMBER`, ignored by all replicas alike".to_owned(),
        }
    }

    fn encode(&self, view: &str) -> String {
        let commands = self.commands.map_or_else(String::new, |it| it.to_string());
        let mut text = format!("{TABLE}{view}\n{commands}\n");
        for (key, value) in &self.counters {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{key} {value}");
        }
        text
    }

    /// The view that a table was sent at, and the table.
    fn decode(text: &str) -> Option<(&str, Self)> {
        let mut lines = text.lines();
        let (view, commands) = (lines.next()?, lines.next()?);
        let commands = match commands {
            "" => None,
            number => Some(number.parse().ok()?),
        };
        let counters = lines.map(|line| parse(line).map(|(key, value)| (key.to_owned(), value)));
        let counters = counters.collect::<Option<_>>()?;
        let table = Self { commands, counters };
        Some((view, table))
    }
}

fn parse(text: &str) -> Option<(&str, i64)> {
    let (key, number) = text.split_once(' ')?;
    let is_one_line = !key.contains(char::is_control);
    is_one_line.then_some((key, number.trim().parse().ok()?))
}
