//! A connection to the bus: commands and their replies, what comes in between, and connecting
//! again.
//!
//! It reads while it writes, so that a bus that waits for its client to read, and a client that
//! waits for the bus to take a long message, do not wait for each other.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::RawFd;
use std::time::Duration;

use crate::error::{Code, Error};
use crate::message::{Event, Head, Message};
use crate::said::Said;
use crate::socket::{Address, Deadline, Socket, Stop, Waited};
use crate::words::{self, Syntax};

/// The most bytes that wait in the library: events to be received, lines of a reply, and commands
/// to be sent. Beyond it no command is sent and no reply is waited for, since more events may come
/// before it.
const KEPT_MAX: usize = 64 << 20;
/// The most bytes of a line of the bus, beside the bytes of a delivery.
const LINE_MAX: usize = 1 << 20;
/// The longest delivery; a longer one is an error of the bus.
const DELIVERY_MAX: usize = 1 << 30;
/// The most bytes that are read at once.
const READ_BLOCK: usize = 64 << 10;
/// How long a command waits for its reply unless told otherwise.
const REPLY_WITHIN: Duration = Duration::from_secs(30);
/// Ends of a connection that a new one need not have: the daemon is about to stop, or to be free.
const PASSING: [&str; 2] = ["stopping", "overload"];
/// How long an attempt to connect again waits for the greeting: what accepted it may be a process
/// that is stopped, or of a host that is gone.
const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// The pauses between two attempts to connect again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A connection.
#[derive(Debug)]
pub(crate) struct Bus {
    address: Address,
    /// None while it tries to connect again.
    socket: Option<Socket>,
    /// What has come; the first `read` bytes of it were read.
    input: Vec<u8>,
    read: usize,
    /// How long the input is when it is worth reading on, and how much of it was searched for the
    /// end of the next line.
    needed: usize,
    searched: usize,
    /// Where a read goes to.
    block: Vec<u8>,
    output: VecDeque<u8>,
    events: VecDeque<Message>,
    /// About how many bytes the events take.
    kept: usize,
    /// Commands without a reply so far.
    expected: VecDeque<Expected>,
    /// The reply that somebody waits for.
    reply: Option<Vec<String>>,
    /// The lines of a reply so far, and how many are missing.
    lines: Option<(Vec<String>, usize)>,
    /// About how many bytes the lines take.
    lines_kept: usize,
    /// The private name; a NUL stands behind it.
    name: String,
    reply_within: Option<Duration>,
    /// How long an attempt to connect again waits for the greeting.
    greeting_within: Duration,
    said: Said,
    /// Set by the thread that closes the connection.
    stop: Stop,
    /// This thread closes it: what comes in is of no use to anybody.
    leaving: bool,
    /// Why there is no connection any more.
    end: Option<Error>,
}

/// A command whose reply has not come.
#[derive(Debug)]
struct Expected {
    /// Lines follow `ok N`.
    has_lines: bool,
    /// Nobody waits for it any more.
    abandoned: bool,
}

impl Bus {
    pub(crate) fn connect(address: &str, within: Option<Duration>) -> Result<Self, Error> {
        let mut bus = Self {
            address: Address::read(address)?,
            socket: None,
            input: Vec::new(),
            read: 0,
            needed: 0,
            searched: 0,
            block: vec![0; READ_BLOCK],
            output: VecDeque::new(),
            events: VecDeque::new(),
            kept: 0,
            expected: VecDeque::new(),
            reply: None,
            lines: None,
            lines_kept: 0,
            name: String::new(),
            reply_within: Some(REPLY_WITHIN),
            greeting_within: GREETING_WITHIN,
            said: Said::default(),
            stop: Stop::new().map_err(|error| broken("cannot wait for the bus", &error))?,
            leaving: false,
            end: None,
        };
        bus.attach(Deadline::after(within))?;
        Ok(bus)
    }

    /// Connects anew, trying until it succeeds or the time is over, and says again what holds.
    pub(crate) fn reconnect(&mut self, within: Option<Duration>) -> Result<(), Error> {
        let deadline = Deadline::after(within);
        let mut pause = PAUSES.0;
        loop {
            self.socket = None;
            let attached = self.attach(deadline.within(Some(self.greeting_within)));
            let attached = attached.map_err(|error| self.ended_by(error));
            let Err(error) = attached.and_then(|()| self.say_again(deadline)) else {
                return Ok(());
            };
            let is_passing = matches!(error.code, Code::Connection | Code::Timeout)
                || error.code == Code::Closed && PASSING.contains(&&*error.word);
            if !is_passing || deadline.left().is_some_and(|left| left <= pause) {
                return Err(error);
            }
            if self.stop.wait(pause) {
                return Err(stopped());
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Says to a new connection what holds.
    fn say_again(&mut self, deadline: Deadline) -> Result<(), Error> {
        for line in self.said.lines() {
            self.command(&line, false, deadline.within(self.reply_within))?;
        }
        Ok(())
    }

    /// Leaves, once what was sent is carried out.
    pub(crate) fn quit(&mut self, within: Option<Duration>) -> Result<(), Error> {
        let deadline = Deadline::after(within);
        self.leaving = true;
        self.events.clear();
        self.kept = 0;
        self.command("quit", false, deadline)?;
        loop {
            match self.step(deadline) {
                Ok(()) => {}
                Err(error) if error.code == Code::Closed && error.word == "bye" => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// What ends the waiting of other threads.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    pub(crate) fn fd(&self) -> Option<RawFd> {
        self.socket.as_ref().map(Socket::fd)
    }

    /// The private name, with a zero behind it; empty while there is no connection.
    pub(crate) fn name(&self) -> &[u8] {
        let with_zero = match self.name.as_bytes() {
            [] => b"\0",
            name => name,
        };
        &with_zero[..with_zero.len() - 1]
    }

    pub(crate) fn set_reply_within(&mut self, within: Option<Duration>) {
        self.reply_within = within;
    }

    /// Says a command that is no message; the lines of its reply, without `ok`.
    pub(crate) fn say(&mut self, line: &str) -> Result<Vec<String>, Error> {
        if line.contains(['\n', '\r', '\0']) {
            return Err(Error::argument("a command is one line"));
        }
        let name = line.split([' ', '\t']).find(|word| !word.is_empty());
        let name = match name {
            None => return Err(Error::argument("the command is empty")),
            Some(name) if name.starts_with('#') || name.starts_with('"') => {
                return Err(Error::argument("a command begins with its name"));
            }
            Some("msg" | "quit") => {
                return Err(Error::argument(
                    "messages and the end have functions of their own",
                ));
            }
            Some(name) => name,
        };
        let has_lines = matches!(name, "clients" | "help");
        let reply = self.command(line, has_lines, Deadline::after(self.reply_within))?;
        self.said.note(name, line);
        Ok(reply)
    }

    /// Sends a message.
    pub(crate) fn send(
        &mut self,
        tag: &str,
        domains: &[String],
        syntax: Syntax,
        data: &[u8],
    ) -> Result<(), Error> {
        if domains.is_empty() {
            return Err(Error::argument("a message needs a domain"));
        }
        let domains: Vec<String> = domains.iter().map(|name| words::quoted(name)).collect();
        let tag = words::quoted(tag);
        let head = format!(
            "msg {tag} {} {} {}\n",
            domains.join(","),
            syntax.word(),
            data.len()
        );
        let deadline = Deadline::after(self.reply_within);
        self.begin(head.as_bytes(), data, b"\n", false)?;
        self.answer(deadline).map(|_| ())
    }

    /// The syntax in which its lists are written.
    pub(crate) fn syntax(&self) -> Syntax {
        match self.said.syntax() {
            Some("cstream") => Syntax::Cstream,
            _ => Syntax::Sexp,
        }
    }

    /// The next message, view, or end of being in a domain.
    pub(crate) fn receive(&mut self, within: Option<Duration>) -> Result<Message, Error> {
        let deadline = Deadline::after(within);
        loop {
            if let Some(message) = self.events.pop_front() {
                self.kept -= message.size();
                return Ok(message);
            }
            match self.step(deadline) {
                // Something may have come with the last line of the connection.
                Err(error) if self.events.is_empty() => return Err(error),
                _ => {}
            }
        }
    }

    /// Connects once and reads the greeting.
    fn attach(&mut self, deadline: Deadline) -> Result<(), Error> {
        let socket = Socket::connect(&self.address, deadline);
        let failed = |error| {
            let what = format!("cannot connect to the bus at {}", self.address);
            broken(&what, &error)
        };
        self.socket = Some(socket.map_err(failed)?);
        self.input.clear();
        (self.read, self.needed, self.searched, self.lines_kept) = (0, 0, 0, 0);
        self.output.clear();
        self.expected.clear();
        (self.reply, self.lines, self.end) = (None, None, None);
        self.name.clear();
        while self.name.is_empty() {
            self.step(deadline)?;
        }
        Ok(())
    }

    /// Says a command and waits for its reply.
    fn command(&mut self, line: &str, has_lines: bool, by: Deadline) -> Result<Vec<String>, Error> {
        self.begin(line.as_bytes(), b"", b"\n", has_lines)?;
        self.answer(by)
    }

    /// Queues a command.
    fn begin(&mut self, head: &[u8], data: &[u8], end: &[u8], lines: bool) -> Result<(), Error> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        self.check_room()?;
        for bytes in [head, data, end] {
            self.output.extend(bytes);
        }
        self.expected.push_back(Expected {
            has_lines: lines,
            abandoned: false,
        });
        Ok(())
    }

    /// An error if no more may be kept.
    fn check_room(&self) -> Result<(), Error> {
        if self.kept + self.lines_kept + self.output.len() <= KEPT_MAX {
            return Ok(());
        }
        let text = "too much waits to be received: receive it first";
        Err(Error::new(Code::Full, text))
    }

    /// Waits for the reply to the command that was queued last.
    fn answer(&mut self, deadline: Deadline) -> Result<Vec<String>, Error> {
        let reply = loop {
            if let Some(reply) = self.reply.take() {
                break reply;
            }
            if let Err(error) = self.step(deadline).and_then(|()| self.check_room()) {
                // The reply may have come with the last line of the connection.
                if let Some(reply) = self.reply.take() {
                    break reply;
                }
                if let Some(last) = self.expected.back_mut() {
                    last.abandoned = true;
                }
                return Err(error);
            }
        };
        let first = reply.first().map_or("", String::as_str);
        let Some(error) = first.strip_prefix("error ") else {
            let mut reply = reply;
            if let Some(first) = reply.first_mut() {
                *first = first.strip_prefix("ok").unwrap_or(first).trim().to_owned();
            }
            return Ok(reply);
        };
        let mut parts = error.splitn(3, ' ');
        Err(Error {
            code: Code::Refused,
            word: parts.next().unwrap_or_default().to_owned(),
            column: parts.next().and_then(|it| it.parse().ok()).unwrap_or(0),
            text: parts.next().unwrap_or_default().to_owned(),
        })
    }

    /// Writes what can be written and reads what has come; waits for one of them.
    fn step(&mut self, deadline: Deadline) -> Result<(), Error> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let Some(socket) = &mut self.socket else {
            return Err(Error::new(Code::Connection, "there is no connection"));
        };
        let stop = Some(&self.stop).filter(|_| !self.leaving);
        let waited = socket.wait(!self.output.is_empty(), stop, deadline);
        let moved = waited.and_then(|waited| {
            match waited {
                Waited::InVain => return Err(ErrorKind::TimedOut.into()),
                Waited::Stopped => return Err(ErrorKind::ConnectionAborted.into()),
                Waited::Ready => {}
            }
            while !self.output.is_empty() {
                match socket.write(self.output.as_slices().0) {
                    Ok(len) => drop(self.output.drain(..len)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // What the bus has said before it went may be read.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => self.output.clear(),
                    Err(error) => return Err(error),
                }
            }
            match socket.read(&mut self.block) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                read => read.map(Some),
            }
        });
        match moved {
            Ok(None) => Ok(()),
            Ok(Some(0)) => {
                let text = "the connection ended without a word";
                Err(self.ended_by(Error::new(Code::Connection, text)))
            }
            Ok(Some(len)) => {
                self.input.extend_from_slice(&self.block[..len]);
                self.take().map_err(|error| self.ended_by(error))
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            // Not an end of the connection, which is still to be left.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Err(stopped()),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(Error::new(Code::Timeout, "nothing came in time"))
            }
            Err(error) => {
                let error = broken("the connection to the bus is broken", &error);
                Err(self.ended_by(error))
            }
        }
    }

    /// Remembers why there is no connection any more.
    fn ended_by(&mut self, error: Error) -> Error {
        self.end = Some(error.clone());
        error
    }

    /// Reads all that has come whole.
    fn take(&mut self) -> Result<(), Error> {
        while self.input.len() >= self.needed && self.take_one()? {
            (self.needed, self.searched) = (0, self.read);
        }
        self.input.drain(..self.read);
        self.needed = self.needed.saturating_sub(self.read);
        self.searched = self.searched.saturating_sub(self.read);
        self.read = 0;
        Ok(())
    }

    /// Reads a line, with the bytes of a delivery; whether it had come whole.
    fn take_one(&mut self) -> Result<bool, Error> {
        let rest = &self.input[self.read..];
        if self.name.is_empty() && !may_greet(rest) {
            // A program of another protocol may say nothing more, and no end of a line.
            return Err(no_bus(rest));
        }
        let from = self.searched.saturating_sub(self.read);
        let found = rest[from..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| from + at) else {
            self.searched = self.input.len();
            return match rest.len() > LINE_MAX {
                true => Err(protocol()),
                false => Ok(false),
            };
        };
        let line = str::from_utf8(&rest[..end]).map_err(|_| protocol())?;
        let line = line.trim_end_matches('\r').to_owned();
        let mut len = end + 1;
        let (word, words) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            _ if self.name.is_empty() => self.greet(word, words)?,
            _ if line.starts_with(' ') => self.take_line(line)?,
            "msg" => {
                let head = Head::read(words).ok_or_else(protocol)?;
                if head.len > DELIVERY_MAX {
                    return Err(protocol());
                }
                let Some(data) = rest.get(len..len + head.len + 1) else {
                    self.needed = self.read + len + head.len + 1;
                    return Ok(false);
                };
                len += data.len();
                let data = &data[..head.len];
                let message = Message::delivery(head, data);
                self.keep(message);
            }
            "view" => self.keep(Message::line(Event::View, words).ok_or_else(protocol)?),
            "left" => self.keep(Message::line(Event::Left, words).ok_or_else(protocol)?),
            "gap" => self.keep(Message::line(Event::Gap, words).ok_or_else(protocol)?),
            "ok" | "error" => self.take_line(line)?,
            "closed" => return Err(closed(words)),
            // What a newer bus says of itself is for newer libraries.
            _ => {}
        }
        self.read += len;
        Ok(true)
    }

    fn greet(&mut self, word: &str, rest: &str) -> Result<(), Error> {
        if word == "closed" {
            return Err(closed(rest));
        }
        let words = words::read(rest).unwrap_or_default();
        let (Some("1"), Some(name)) = (
            words.first().map(String::as_str),
            words.get(1).filter(|_| word == "bus"),
        ) else {
            return Err(no_bus(word.as_bytes()));
        };
        self.name = format!("{name}\0");
        Ok(())
    }

    fn keep(&mut self, message: Message) {
        if self.leaving {
            return;
        }
        self.kept += message.size();
        self.events.push_back(message);
    }

    /// Takes a line of a reply.
    fn take_line(&mut self, line: String) -> Result<(), Error> {
        let expected = self.expected.front().ok_or_else(protocol)?;
        let lines = match &mut self.lines {
            Some((lines, missing)) if line.starts_with(' ') && *missing > 0 => {
                self.lines_kept += line.len() + size_of::<String>();
                lines.push(line);
                *missing -= 1;
                if *missing > 0 {
                    return Ok(());
                }
                std::mem::take(lines)
            }
            None if !line.starts_with(' ') => {
                let count = line.strip_prefix("ok ").filter(|_| expected.has_lines);
                let missing = count.map_or(Some(0), |it| it.trim().parse().ok());
                match missing.ok_or_else(protocol)? {
                    0 => vec![line],
                    missing => {
                        self.lines = Some((vec![line], missing));
                        return Ok(());
                    }
                }
            }
            _ => return Err(protocol()),
        };
        (self.lines, self.lines_kept) = (None, 0);
        let expected = self.expected.pop_front();
        if expected.is_some_and(|it| !it.abandoned) {
            self.reply = Some(lines);
        }
        Ok(())
    }
}

/// Whether a bus may begin so.
fn may_greet(begin: &[u8]) -> bool {
    let is_begin = |of: &[u8]| begin.iter().zip(of).all(|(one, other)| one == other);
    is_begin(b"bus ") || is_begin(b"closed ")
}

/// That another program listens there, whose first bytes these are.
fn no_bus(begin: &[u8]) -> Error {
    let text = match begin.starts_with(b"gcst") {
        true => "what listens there is no bus, but where the daemon listens for other clients",
        false => "what listens there is no bus of version 1",
    };
    Error::new(Code::Address, text)
}

/// The end of the connection by the bus, which says `CODE TEXT`.
fn closed(words: &str) -> Error {
    let (code, text) = words.split_once(' ').unwrap_or((words, ""));
    Error {
        word: code.to_owned(),
        ..Error::new(Code::Closed, text)
    }
}

fn stopped() -> Error {
    Error::new(Code::Closed, "the program has closed the connection")
}

fn protocol() -> Error {
    Error::new(Code::Connection, "the bus said what makes no sense")
}

fn broken(what: &str, error: &io::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::TimedOut => Code::Timeout,
        _ => Code::Connection,
    };
    Error::new(code, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests;
