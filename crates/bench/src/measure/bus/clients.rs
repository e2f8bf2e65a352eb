//! The programs at the bus of a measurement: one that sends stamped messages, one that receives and
//! tallies them.

use std::io::{BufWriter, Write};
use std::time::Duration;

use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId, OrderPlace};
use serde::{Deserialize, Serialize};

use super::super::clients::{JOINING, Schedule};
use super::super::clock::{self, Window};
use super::super::stamp::Stamp;
use super::super::tally::Tally;
use super::super::{BenchError, Said as Spoken, await_window, say};
use super::lines::{Lines, Said, Socket};
use super::message::Form;

/// The bus tells no places: what is compared is the row of messages that a program gets.
const ROW: OrderPlace = OrderPlace {
    config: ConfigId {
        counter: 0,
        representative: MemberId {
            node: NodeId(0),
            incarnation: Incarnation(0),
        },
    },
    seq: 0,
};
/// What is gathered before it is written, as the binary client does.
const WRITE_BUFFER: usize = 64 << 10;
/// How long a receiver waits in one read: the window ends within.
const PATIENCE: Duration = Duration::from_millis(20);

/// A program that sends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Send {
    pub(super) address: String,
    /// Each message goes to the next.
    pub(super) domains: Vec<String>,
    pub(super) tag: String,
    pub(super) sender: u32,
    pub(super) size: usize,
    pub(super) form: Form,
    pub(super) service: String,
    /// Nanoseconds from one message to the next; as fast as possible without.
    pub(super) interval_ns: Option<u64>,
    /// It is ready once this many programs get its messages.
    pub(super) receivers: usize,
}

/// A program that receives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Receive {
    pub(super) address: String,
    pub(super) domains: Vec<String>,
    /// What it accepts in each domain.
    pub(super) patterns: Vec<String>,
    pub(super) form: Form,
    /// This many programs receive in each domain, this one among them.
    pub(super) members: usize,
}

/// What a view says of the members of a domain.
enum Change {
    /// Some are not there.
    Gone,
    /// All are there, after a change of the network.
    Formed,
    /// Nothing that counts.
    Nothing,
}

impl Send {
    /// Sends until the window's end; the result is how many.
    pub(in super::super) fn run(&self) -> Result<(), BenchError> {
        let (mut lines, mut socket) = connect(&self.address)?;
        ask(
            &mut lines,
            &mut socket,
            &format!("service {}", self.service),
        )?;
        self.await_receivers(&mut lines, &mut socket)?;
        let window = await_window()?;
        // Replies come while this program writes.
        let replies = std::thread::spawn(move || count_replies(&mut lines));
        let sent = self.send(socket, window)?;
        let accepted = replies
            .join()
            .map_err(|_| BenchError::client("read replies", "the reader panicked"))??;
        if accepted != sent {
            let problem = format!("{accepted} of {sent} messages were accepted");
            return Err(BenchError::client("send", problem));
        }
        say(&Spoken::Result(sent))
    }

    fn send(&self, socket: Socket, window: Window) -> Result<u64, BenchError> {
        let heads: Vec<String> = self
            .domains
            .iter()
            .map(|domain| self.head(domain))
            .collect();
        let mut message = self.form.blank(self.size);
        let mut out = BufWriter::with_capacity(WRITE_BUFFER, socket);
        let mut schedule = Schedule::staggered(clock::now(), self.interval_ns)?;
        let mut index = 0;
        loop {
            let due = schedule.next();
            if self.interval_ns.is_some() {
                clock::sleep_until(due);
            }
            let now = clock::now();
            if now >= window.until {
                break;
            }
            let stamp = Stamp {
                sender: self.sender,
                index,
                sent: schedule.sent(due, now),
            };
            self.form.stamp(stamp, &mut message);
            let head = &heads[index as usize % heads.len()];
            let written = out
                .write_all(head.as_bytes())
                .and_then(|()| out.write_all(&message))
                .and_then(|()| out.write_all(b"\n"))
                .and_then(|()| match self.interval_ns {
                    Some(_) => out.flush(),
                    None => Ok(()),
                });
            written.map_err(BenchError::io("send to the bus"))?;
            index += 1;
        }
        let ended = out.write_all(b"quit\n").and_then(|()| out.flush());
        ended.map_err(BenchError::io("send to the bus"))?;
        Ok(index)
    }

    /// The line before each message to `domain`.
    fn head(&self, domain: &str) -> String {
        let len = self.form.blank(self.size).len();
        format!("msg {} {domain} {} {len}\n", self.tag, self.form.name())
    }

    fn await_receivers(
        &self,
        lines: &mut Lines<Socket>,
        socket: &mut Socket,
    ) -> Result<(), BenchError> {
        const INTERVAL: Duration = Duration::from_millis(20);
        let deadline = clock::now() + clock::nanos(JOINING);
        for domain in &self.domains {
            loop {
                let command = format!("ping {} {domain}", self.tag);
                let reply = ask(lines, socket, &command)?;
                let count = reply.split_ascii_whitespace().count() - 1;
                if count == self.receivers {
                    break;
                }
                if clock::now() > deadline {
                    let problem = format!("{count} receivers of {} are there", self.receivers);
                    return Err(BenchError::client("wait for receivers", problem));
                }
                std::thread::sleep(INTERVAL);
            }
        }
        Ok(())
    }
}

/// Reads replies to messages up to the last line; how many were `ok`, that to `quit` not counted.
fn count_replies(lines: &mut Lines<Socket>) -> Result<u64, BenchError> {
    let mut accepted = 0_u64;
    loop {
        let said = lines.next().map_err(BenchError::io("read from the bus"))?;
        match said {
            Some(Said::Line(b"ok")) => accepted += 1,
            Some(Said::Line(line)) if line.starts_with(b"closed bye ") => {
                return Ok(accepted.saturating_sub(1));
            }
            Some(Said::Line(line)) => {
                return Err(BenchError::client("send", String::from_utf8_lossy(line)));
            }
            Some(Said::Message(_)) | None => {}
        }
    }
}

impl Receive {
    /// Receives until the window's end; the result is a [`Tally`].
    pub(in super::super) fn run(&self) -> Result<(), BenchError> {
        let (mut lines, mut socket) = connect(&self.address)?;
        ask(
            &mut lines,
            &mut socket,
            &format!("syntax {}", self.form.name()),
        )?;
        for domain in &self.domains {
            for pattern in &self.patterns {
                ask(
                    &mut lines,
                    &mut socket,
                    &format!("accept {pattern} {domain}"),
                )?;
            }
        }
        ask(&mut lines, &mut socket, "views on")?;
        let window = await_window()?;
        let patience = lines.set_patience(PATIENCE);
        patience.map_err(BenchError::io("set a time-out"))?;
        let mut tally = Tally::new();
        // Senders begin when all receivers are there: the views before are those of the set-up.
        let mut begun = false;
        let mut now = clock::now();
        while now < window.until {
            let said = lines.next().map_err(BenchError::io("read from the bus"))?;
            now = clock::now();
            match said {
                Some(Said::Message(message)) => {
                    let stamp = self.form.read(message);
                    let stamp = stamp.ok_or_else(|| {
                        BenchError::client("receive", "a message without a stamp")
                    })?;
                    tally.add(now, window, stamp, Some(ROW), message.len());
                    begun = true;
                }
                Some(Said::Line(line)) => match self.change(line)? {
                    // At the end the other receivers go.
                    Change::Gone if begun && now < window.until => {
                        let said = String::from_utf8_lossy(line);
                        let problem = format!("members went during the measurement: {said}");
                        return Err(BenchError::client("receive", problem));
                    }
                    // A ring that formed anew with all its members has only been slow.
                    Change::Formed if begun => tally.reformations += 1,
                    Change::Gone | Change::Formed | Change::Nothing => {}
                },
                None => {}
            }
        }
        say(&Spoken::Result(tally))
    }

    /// What a line between deliveries says: how the domain's members changed.
    ///
    /// # Errors
    /// If it is no view.
    fn change(&self, line: &[u8]) -> Result<Change, BenchError> {
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let ["view", domain, kind, _, _, members @ ..] = &words[..] else {
            return Err(BenchError::client("receive", text));
        };
        let first = self.domains.first().is_some_and(|first| first == domain);
        Ok(match members.len() < self.members {
            true => Change::Gone,
            // A view in each domain is one reformation.
            false if first && *kind == "regular" => Change::Formed,
            false => Change::Nothing,
        })
    }
}

/// Connects to the bus of a daemon that may be starting.
fn connect(address: &str) -> Result<(Lines<Socket>, Socket), BenchError> {
    const INTERVAL: Duration = Duration::from_millis(20);
    let deadline = clock::now() + clock::nanos(JOINING);
    let socket = loop {
        match Socket::connect(address) {
            Ok(socket) => break socket,
            Err(_) if clock::now() < deadline => std::thread::sleep(INTERVAL),
            Err(error) => return Err(BenchError::client("connect", error)),
        }
    };
    let writer = socket.again().map_err(BenchError::io("share a socket"))?;
    let mut lines = Lines::new(socket);
    let patience = lines.set_patience(JOINING);
    patience.map_err(BenchError::io("set a time-out"))?;
    let greeting = line(&mut lines)?;
    match greeting.starts_with("bus 1 ") {
        true => Ok((lines, writer)),
        false => Err(BenchError::client("connect", greeting)),
    }
}

/// Says a command; its reply, which must begin with `ok`.
fn ask(
    lines: &mut Lines<Socket>,
    socket: &mut Socket,
    command: &str,
) -> Result<String, BenchError> {
    let said = socket.write_all(format!("{command}\n").as_bytes());
    said.map_err(BenchError::io("send to the bus"))?;
    let reply = line(lines)?;
    match reply.starts_with("ok") {
        true => Ok(reply),
        false => Err(BenchError::client("set the bus up", reply)),
    }
}

/// The next line; what is delivered before it is no matter of the caller's.
fn line(lines: &mut Lines<Socket>) -> Result<String, BenchError> {
    loop {
        match lines.next().map_err(BenchError::io("read from the bus"))? {
            Some(Said::Line(line)) => return Ok(String::from_utf8_lossy(line).into_owned()),
            Some(Said::Message(_)) => {}
            None => return Err(BenchError::client("hear the bus", "it says nothing")),
        }
    }
}
