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

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use groupcast_client::{Address, Client, ClientEvent, Options, Service, ViewKind};

const GROUP: &str = "replica.example";
/// How long the daemon is listened to before the keyboard is looked at again.
const TURN: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let address = match std::env::args().nth(1) {
        Some(socket) => Address::from(Path::new(&socket)),
        None => Address::Default,
    };
    let mut client = Client::connect(&address, Options::default())?;
    client.join(GROUP)?;
    let commands = keyboard();
    let mut table = BTreeMap::new();
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
        if let Some(event) = client.next_event(Some(TURN))? {
            handle(event, &mut table);
        }
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

fn handle(event: ClientEvent, table: &mut BTreeMap<String, i64>) {
    match event {
        ClientEvent::Message(message) => match parse(&message.payload) {
            Some((key, number)) => {
                let value = table.entry(key.to_owned()).or_insert(0_i64);
                *value = value.wrapping_add(number);
                println!("{key} = {value}   ({number:+} by {})", message.sender);
            }
            None => println!("not `KEY NUMBER`, ignored by all replicas alike"),
        },
        ClientEvent::View(view) if view.kind == ViewKind::Regular => {
            println!("replicas now: {}", view.members.join(", "));
        }
        ClientEvent::Disconnected { text, .. } => println!("the daemon is gone: {text}"),
        _ => {}
    }
}

fn parse(payload: &[u8]) -> Option<(&str, i64)> {
    let (key, number) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    Some((key, number.trim().parse().ok()?))
}
