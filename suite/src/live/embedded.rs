//! Programs with groups of their own, without daemons (`docs/embedded.md`), on the hosts of a bed.
//!
//! Two replicas of the library's example and a guest are on three hosts; programs on two more each
//! send half of a file at the same time. Meanwhile the replica that has the handler is killed: the
//! other one answers, and the file is in one order, and whole, at both senders.

#[expect(dead_code, reason = "its main is the example's own")]
#[path = "../../../crates/groups/examples/handler.rs"]
mod handler;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process, Testbed};
use groupcast_core::id::fnv1a;
use groupcast_groups::{ClientEvent, GroupsError, Service};

use super::text::text;
use super::{Outcome, Role, until};

/// The parts of its programs, by their hidden words.
pub const ROLES: [Role; 2] = [(HANDLER, play_handler), (HALVES, halves)];

const HANDLER: &str = "handler";
const HALVES: &str = "halves";
const ADDRESS: &str = "239.79.1.5:4840";
const FILE: &str = "file.example";
/// Bytes of the file, and of a message of it.
const FILE_LEN: usize = 5_000_000;
const CHUNK: usize = 10_000;
/// Each of the two sends a message this often: two seconds for its half.
const PACE: Duration = Duration::from_millis(8);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The example: `handler NAME serve`, `handler NAME ask TEXT`.
fn play_handler(words: &[&str]) -> Outcome {
    handler::play(words).map_err(|error| error.to_string().into())
}

/// `halves NAME PATH 0|1`: sends a half of the file once two are there, and prints what it has when
/// it has both: how many bytes, a hash of them in their order and places, and whether they are the
/// file's.
fn halves(words: &[&str]) -> Outcome {
    let [name, path, half] = words else {
        return Err(format!("usage: {HALVES} NAME PATH 0|1").into());
    };
    let file = fs::read(path)?;
    let (first, second) = file.split_at(file.len() / 2);
    let own = if *half == "0" { first } else { second };
    let mut groups = handler::open(name).map_err(|error| error.to_string())?;
    groups.join(FILE)?;
    let mut chunks = own.chunks(CHUNK).peekable();
    let mut got: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut hash, mut next) = (0, None);
    loop {
        if next.is_some_and(|next| Instant::now() >= next)
            && let Some(chunk) = chunks.peek()
        {
            match groups.publish(&[FILE], Service::Agreed, chunk) {
                Ok(_) => {
                    chunks.next();
                    next = next.map(|next| next + PACE);
                }
                Err(GroupsError::Full) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match groups.next_event(PACE / 2)? {
            Some(ClientEvent::View(view)) if view.members.len() == 2 && next.is_none() => {
                println!("both are here");
                next = Some(Instant::now());
            }
            Some(ClientEvent::Message(message)) => {
                let place = format!("{hash:x} {:?} {}", message.place, message.sender.as_str());
                hash = fnv1a(&[place.as_bytes(), &message.payload].concat());
                let sender = message.sender.as_str().to_owned();
                got.entry(sender).or_default().extend(&message.payload);
                let len: usize = got.values().map(Vec::len).sum();
                if len == file.len() {
                    let halves: Vec<&[u8]> = got.values().map(Vec::as_slice).collect();
                    let is_whole = halves == [first, second];
                    println!("{len} bytes, hash {hash:016x}, whole: {is_whole}");
                }
            }
            _ => {}
        }
    }
}

/// All of it, with messages that `order` orders; `program` plays the parts.
pub fn run(order: &str, program: &str) -> Outcome {
    let mut bed = Testbed::new(5, Link::Unlimited)?;
    bed.keep_outputs(true);
    let path = bed.directory().join("file");
    fs::write(&path, &text(FILE_LEN, 16).as_bytes()[..FILE_LEN])?;
    let path = path.display().to_string();
    let start = |host: usize, words: &[&str]| -> Outcome<Process> {
        let mut command = bed.command(host, program);
        command.args(words);
        command.env("GROUP", ADDRESS).env("ORDER", order);
        command.env("INTERFACE", bed.address(host).to_string());
        Ok(bed.launch(&words[1..].join("-").replace('/', "_"), command)?)
    };
    let mut ada = start(1, &[HANDLER, "ada", "serve"])?;
    await_line(&mut ada, "the handler is here")?;
    let mut ben = start(2, &[HANDLER, "ben", "serve"])?;
    await_line(&mut ben, "ada@ada has the handler")?;
    let mut guest = start(3, &[HANDLER, "cleo", "ask", "hello"])?;
    await_line(&mut guest, "ada@ada: HELLO")?;
    let mut senders = [
        start(4, &[HALVES, "dot", &path, "0"])?,
        start(5, &[HALVES, "eve", &path, "1"])?,
    ];
    for sender in &mut senders {
        await_line(sender, "both are here")?;
    }
    ada.kill()?;
    let mut guest = start(3, &[HANDLER, "cleo", "ask", "again"])?;
    await_line(&mut guest, "ben@ben: AGAIN")?;
    let mut lines = Vec::new();
    for sender in &mut senders {
        lines.push(await_line(sender, "bytes, hash")?);
    }
    if lines[0] != lines[1] || !lines[0].ends_with("whole: true") {
        return Err(format!("the file at the two senders: {lines:?}").into());
    }
    bed.keep_outputs(false);
    Ok(())
}

/// Waits for a line with `words` in what the program prints.
fn await_line(process: &mut Process, words: &str) -> Outcome<String> {
    let label = process.label().to_owned();
    until(PATIENCE, format!("{label} prints {words:?}"), || {
        let said = process.stdout()?;
        let line = said.lines().find(|line| line.contains(words));
        match line {
            Some(line) => Ok(Some(line.to_owned())),
            None if !process.is_running() => {
                Err(format!("{label} ended: {said}{}", process.stderr()?).into())
            }
            None => Ok(None),
        }
    })
}
