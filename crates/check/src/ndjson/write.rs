//! Writing histories: what a daemon does with `--history FILE`.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigurationKind, Contract, MemberId};

use super::SCHEMA;

/// What every history begins with.
const BEGIN: &str = r#"{"event":"start""#;

/// Writes the history of one member.
///
/// It buffers nothing itself: a `write` is one call of the writer below, and [`flush`](Self::flush)
/// is passed down. A process that may be killed flushes at least before it waits for input, so that
/// only the last moments are lost.
#[derive(Debug)]
pub struct HistoryWriter<W: Write> {
    writer: W,
    line: String,
}

/// What orders the messages of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderedBy<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it promises: whether messages may be delivered before they are ordered.
    pub contract: Contract,
    /// The top of the ring that it is, beside the daemon's own order; `None` of that.
    pub ring: Option<&'a str>,
}

impl HistoryWriter<BufWriter<File>> {
    /// Goes on at the end of the file at `path`, or begins it: writes the `start` line of `member`,
    /// called `name`, whose messages `order` orders.
    ///
    /// A file that holds something else, or that another process writes into, is refused and stays
    /// as it is. Ends a line that an earlier life left torn. A new file can be read by its owner
    /// alone: digests of payloads tell those who guess a payload whether they are right.
    pub fn append(
        path: &Path,
        member: MemberId,
        name: &str,
        order: OrderedBy<'_>,
    ) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        // Where a file system knows no locks, that two do not take one file is left to the user.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let message = "another process writes its history into the file: give each its own";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
        }
        if !begins_as_history(&mut file)? {
            let message = "the file holds something that is not a history";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if !ends_in_line_feed(&mut file)? {
            file.write_all(b"\n")?;
        }
        Self::new(BufWriter::new(file), member, name, order)
    }
}

impl<W: Write> HistoryWriter<W> {
    /// Begins a life: writes the `start` line of `member`, called `name`, whose messages `order`
    /// orders.
    pub fn new(
        mut writer: W,
        member: MemberId,
        name: &str,
        order: OrderedBy<'_>,
    ) -> io::Result<Self> {
        let mut line = String::new();
        write_start(&mut line, member, name, order);
        writer.write_all(line.as_bytes())?;
        Ok(Self { writer, line })
    }

    /// Writes one line. `Start` is skipped: the line is there since the beginning.
    pub fn write(&mut self, observation: &Observation) -> io::Result<()> {
        self.line.clear();
        write_line(&mut self.line, observation);
        self.writer.write_all(self.line.as_bytes())
    }

    /// Writes one line of what the member saw in the bimodal group called `group`: a submission, a
    /// delivery, a gap.
    pub fn write_in(&mut self, group: &str, observation: &Observation) -> io::Result<()> {
        self.line.clear();
        write_line_in(&mut self.line, group, observation);
        self.writer.write_all(self.line.as_bytes())
    }

    /// Writes that the member has joined the further ring with the top `ring`, where it is `member`
    /// and has a history of its own.
    pub fn write_joined(&mut self, ring: &str, member: MemberId) -> io::Result<()> {
        self.line.clear();
        self.line.push_str(r#"{"event":"joined","ring":"#);
        push_text(&mut self.line, ring);
        push(&mut self.line, format_args!(",\"member\":\"{member}\"}}\n"));
        self.writer.write_all(self.line.as_bytes())
    }

    /// Flushes the writer below.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// The writer below.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

/// Whether a history can go on in the file at `path`: it is empty, or begins as all histories do.
/// Only reads.
///
/// # Errors
/// If the file cannot be read.
pub fn is_history(path: &Path) -> io::Result<bool> {
    begins_as_history(&mut File::open(path)?)
}

/// Whether the file is empty or begins as all histories do, be it torn in its first line. Leaves
/// the position anywhere.
fn begins_as_history(file: &mut File) -> io::Result<bool> {
    let mut begin = Vec::new();
    file.take(BEGIN.len() as u64).read_to_end(&mut begin)?;
    Ok(BEGIN.as_bytes().starts_with(&begin))
}

/// Whether the file is empty or ends in a line feed. Leaves the position anywhere: the file is in
/// append mode.
fn ends_in_line_feed(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Appends the `start` line of `member`, called `name`, whose messages `order` orders, with its
/// line feed.
pub fn write_start(line: &mut String, member: MemberId, name: &str, order: OrderedBy<'_>) {
    push(
        line,
        format_args!(r#"{BEGIN},"schema":{SCHEMA},"member":"{member}","name":"#),
    );
    push_text(line, name);
    line.push_str(r#","order":"#);
    push_text(line, order.name);
    if order.contract == Contract::OrderedEarly {
        line.push_str(r#","early":true"#);
    }
    if let Some(ring) = order.ring {
        line.push_str(r#","ring":"#);
        push_text(line, ring);
    }
    line.push_str("}\n");
}

/// Appends the line of `observation`, with its line feed; nothing for `Start`, which
/// [`write_start`] writes.
pub fn write_line(line: &mut String, observation: &Observation) {
    match observation {
        Observation::Start => return,
        Observation::Submit {
            id,
            service,
            digest,
        } => push(
            line,
            format_args!(
                r#"{{"event":"submit","sender":"{}","number":{},"service":"{service}","digest":"{digest:016x}"}}"#,
                id.sender, id.number
            ),
        ),
        Observation::Deliver {
            id,
            service,
            place,
            digest,
        } => {
            push(
                line,
                format_args!(
                    r#"{{"event":"deliver","sender":"{}","number":{},"service":"{service}","#,
                    id.sender, id.number
                ),
            );
            match place {
                Some(place) => push(
                    line,
                    format_args!(r#""config":"{}","seq":{}"#, place.config, place.seq),
                ),
                None => line.push_str(r#""config":null,"seq":null"#),
            }
            push(line, format_args!(r#","digest":"{digest:016x}"}}"#));
        }
        Observation::Configuration { kind, id, members } => {
            let kind = match kind {
                ConfigurationKind::Regular => "regular",
                ConfigurationKind::Transitional => "transitional",
            };
            push(
                line,
                format_args!(
                    r#"{{"event":"configuration","kind":"{kind}","config":"{id}","members":["#
                ),
            );
            push_list(line, members, push_member);
            line.push_str("]}");
        }
        Observation::Enrolled { id } => push(
            line,
            format_args!(
                r#"{{"event":"enrolled","sender":"{}","number":{}}}"#,
                id.sender, id.number
            ),
        ),
        Observation::Held { id } => push(
            line,
            format_args!(
                r#"{{"event":"held","sender":"{}","number":{}}}"#,
                id.sender, id.number
            ),
        ),
        Observation::AllHold { id, holders } => {
            push(
                line,
                format_args!(
                    r#"{{"event":"all_hold","sender":"{}","number":{},"holders":["#,
                    id.sender, id.number
                ),
            );
            push_list(line, holders, push_member);
            line.push_str("]}");
        }
        Observation::Account {
            id,
            complete,
            failed,
        } => {
            push(
                line,
                format_args!(
                    r#"{{"event":"account","sender":"{}","number":{},"complete":["#,
                    id.sender, id.number
                ),
            );
            push_list(line, complete, push_member);
            line.push_str(r#"],"failed":["#);
            push_list(line, failed, push_member);
            line.push_str("]}");
        }
        Observation::GroupView {
            group,
            view,
            members,
        } => {
            line.push_str(r#"{"event":"view","group":"#);
            push_text(line, group);
            line.push_str(r#","view":"#);
            push_text(line, view);
            line.push_str(r#","members":["#);
            push_list(line, members, |line, member| push_text(line, member));
            line.push_str("]}");
        }
        Observation::Gap(gap) => push(
            line,
            format_args!(
                r#"{{"event":"gap","sender":"{}","first":{},"last":{}}}"#,
                gap.sender, gap.first, gap.last
            ),
        ),
        Observation::Asked {
            request,
            group,
            client,
        } => {
            let texts = [("request", request), ("group", group), ("client", client)];
            push_texts(line, "asked", &texts);
            line.push('}');
        }
        Observation::Replied {
            request,
            client,
            handler,
        } => {
            push_texts(line, "replied", &[("request", request), ("client", client)]);
            match handler {
                Some(handler) => push(line, format_args!(r#","handler":{handler}}}"#)),
                None => line.push_str(r#","handler":null}"#),
            }
        }
        Observation::Granted {
            group,
            role,
            client,
            place,
        }
        | Observation::Freed {
            group,
            role,
            client,
            place,
        } => {
            let event = match observation {
                Observation::Granted { .. } => "granted",
                _ => "freed",
            };
            let texts = [("group", group), ("role", role), ("client", client)];
            push_texts(line, event, &texts);
            push(
                line,
                format_args!(r#","config":"{}","seq":{}}}"#, place.config, place.seq),
            );
        }
        Observation::Leave => line.push_str(r#"{"event":"leave"}"#),
        Observation::Crash => line.push_str(r#"{"event":"crash"}"#),
    }
    line.push('\n');
}

/// The same of what was seen in the bimodal group called `group`, which the line names.
fn write_line_in(line: &mut String, group: &str, observation: &Observation) {
    let start = line.len();
    write_line(line, observation);
    // `event` comes first in every line, and its value has no comma in it.
    if let Some(after_event) = line[start..].find(',') {
        let mut field = String::from("\"group\":");
        push_text(&mut field, group);
        field.push(',');
        line.insert_str(start + after_event + 1, &field);
    }
}

fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a String takes everything");
}

/// As a JSON string.
fn push_text(line: &mut String, text: &str) {
    line.push_str(&serde_json::Value::from(text).to_string());
}

/// An event with these fields, up to its last brace.
fn push_texts(line: &mut String, event: &str, fields: &[(&str, &String)]) {
    push(line, format_args!(r#"{{"event":"{event}""#));
    for (name, text) in fields {
        push(line, format_args!(r#","{name}":"#));
        push_text(line, text);
    }
}

fn push_member(line: &mut String, member: &MemberId) {
    push(line, format_args!("\"{member}\""));
}

fn push_list<T>(line: &mut String, items: &[T], each: impl Fn(&mut String, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        each(line, item);
    }
}
