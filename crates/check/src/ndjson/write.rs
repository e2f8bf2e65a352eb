//! Writing histories: what a daemon does with `--history FILE`.

use std::fmt::{self, Display, Write as _};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigurationKind, Contract, MemberId, MessageId, OrderPlace};

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
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(0o600);
        Self::append_to(options.open(path)?, member, name, order)
    }

    /// The same in a file that is open to read and to append.
    pub fn append_to(
        mut file: File,
        member: MemberId,
        name: &str,
        order: OrderedBy<'_>,
    ) -> io::Result<Self> {
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
        Fields::of("joined", &mut self.line)
            .text("ring", ring)
            .quoted("member", member)
            .end();
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
    let mut fields = Fields::of("start", line)
        .plain("schema", SCHEMA)
        .quoted("member", member)
        .text("name", name)
        .text("order", order.name);
    if order.contract == Contract::OrderedEarly {
        fields = fields.plain("early", true);
    }
    if let Some(ring) = order.ring {
        fields = fields.text("ring", ring);
    }
    fields.end();
}

/// Appends the line of `observation`, with its line feed; nothing for `Start`, which
/// [`write_start`] writes.
pub fn write_line(line: &mut String, observation: &Observation) {
    match observation {
        Observation::Start => {}
        Observation::Submit {
            id,
            service,
            digest,
        } => Fields::of("submit", line)
            .message(*id)
            .quoted("service", service)
            .digest(*digest)
            .end(),
        Observation::Deliver {
            id,
            service,
            place,
            digest,
        } => {
            let fields = Fields::of("deliver", line)
                .message(*id)
                .quoted("service", service);
            let fields = match place {
                Some(place) => fields.place(*place),
                None => fields.plain("config", "null").plain("seq", "null"),
            };
            fields.digest(*digest).end();
        }
        Observation::Configuration { kind, id, members } => {
            let kind = match kind {
                ConfigurationKind::Regular => "regular",
                ConfigurationKind::Transitional => "transitional",
            };
            Fields::of("configuration", line)
                .quoted("kind", kind)
                .quoted("config", id)
                .members("members", members)
                .end();
        }
        Observation::Enrolled { id } => Fields::of("enrolled", line).message(*id).end(),
        Observation::Held { id } => Fields::of("held", line).message(*id).end(),
        Observation::AllHold { id, holders } => {
            Fields::of("all_hold", line)
                .message(*id)
                .members("holders", holders)
                .end();
        }
        Observation::Account {
            id,
            complete,
            failed,
        } => Fields::of("account", line)
            .message(*id)
            .members("complete", complete)
            .members("failed", failed)
            .end(),
        Observation::GroupView {
            group,
            view,
            members,
        } => Fields::of("view", line)
            .text("group", group)
            .text("view", view)
            .list("members", members, |line, member| push_text(line, member))
            .end(),
        Observation::Gap(gap) => Fields::of("gap", line)
            .quoted("sender", gap.sender)
            .plain("first", gap.first)
            .plain("last", gap.last)
            .end(),
        Observation::Asked {
            request,
            group,
            client,
        } => Fields::of("asked", line)
            .text("request", request)
            .text("group", group)
            .text("client", client)
            .end(),
        Observation::Replied {
            request,
            client,
            handler,
        } => {
            let fields = Fields::of("replied", line)
                .text("request", request)
                .text("client", client);
            let fields = match handler {
                Some(handler) => fields.plain("handler", handler),
                None => fields.plain("handler", "null"),
            };
            fields.end();
        }
        Observation::Granted {
            group,
            role,
            client,
            place,
        } => Fields::of("granted", line)
            .role(group, role, client)
            .place(*place)
            .end(),
        Observation::Freed {
            group,
            role,
            client,
            place,
        } => Fields::of("freed", line)
            .role(group, role, client)
            .place(*place)
            .end(),
        Observation::Leave => Fields::of("leave", line).end(),
        Observation::Crash => Fields::of("crash", line).end(),
    }
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

/// A line that is appended, field by field.
struct Fields<'a> {
    line: &'a mut String,
}

impl<'a> Fields<'a> {
    /// Begins the line of an event.
    fn of(event: &str, line: &'a mut String) -> Self {
        line.push_str(r#"{"event":""#);
        line.push_str(event);
        line.push('"');
        Self { line }
    }

    fn begin(&mut self, name: &str) {
        self.line.push_str(",\"");
        self.line.push_str(name);
        self.line.push_str("\":");
    }

    /// A number, a truth value or `null`.
    fn plain(mut self, name: &str, value: impl Display) -> Self {
        self.begin(name);
        push(self.line, format_args!("{value}"));
        self
    }

    /// A string with nothing that JSON escapes.
    fn quoted(mut self, name: &str, value: impl Display) -> Self {
        self.begin(name);
        push(self.line, format_args!("\"{value}\""));
        self
    }

    /// A string with any characters.
    fn text(mut self, name: &str, text: &str) -> Self {
        self.begin(name);
        push_text(self.line, text);
        self
    }

    fn list<T>(mut self, name: &str, items: &[T], each: impl Fn(&mut String, &T)) -> Self {
        self.begin(name);
        self.line.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.line.push(',');
            }
            each(self.line, item);
        }
        self.line.push(']');
        self
    }

    fn members(self, name: &str, members: &[MemberId]) -> Self {
        self.list(name, members, |line, member| {
            push(line, format_args!("\"{member}\""));
        })
    }

    fn message(self, id: MessageId) -> Self {
        self.quoted("sender", id.sender).plain("number", id.number)
    }

    fn digest(self, digest: u64) -> Self {
        self.quoted("digest", format_args!("{digest:016x}"))
    }

    fn place(self, place: OrderPlace) -> Self {
        self.quoted("config", place.config).plain("seq", place.seq)
    }

    fn role(self, group: &str, role: &str, client: &str) -> Self {
        self.text("group", group)
            .text("role", role)
            .text("client", client)
    }

    /// Ends the line, with its line feed.
    fn end(self) {
        self.line.push_str("}\n");
    }
}

fn push(line: &mut String, text: fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a String takes everything");
}

/// As a JSON string.
fn push_text(line: &mut String, text: &str) {
    line.push_str(&serde_json::Value::from(text).to_string());
}
