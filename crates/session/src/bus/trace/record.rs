//! The format of a trace, written and read. `docs/bus.md` has it to the byte.
//!
//! ```text
//! trace 1 NAME CLIENT PART START
//! TIME SIDE NUMBER CLIENT LENGTH
//! … LENGTH bytes …
//! ```

use std::io::{self, Write};
use std::time::Duration;

use crate::bus::words::{Words, write_word};

/// The version that the first line names.
const VERSION: &str = "1";
/// The most bytes of an item that a trace keeps: its first.
pub const KEPT_MAX: usize = 64 << 10;
/// The most bytes of a line that says what follows.
const LINE_MAX: usize = 4 << 10;

/// The first line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// What the trace is called.
    pub name: String,
    /// The private name of the client whose connection it is of.
    pub client: String,
    /// Which of the trace's files it is, from 1.
    pub part: u64,
    /// When the trace began, by the daemon's clock: since 1970, UTC. To microseconds in a file.
    pub start: Duration,
}

/// Whose item it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The program's.
    Sent,
    /// The bus's.
    Got,
}

/// What a connection sent or got: a command with its message, a reply, a delivery, another line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    /// Who sent it.
    pub side: Side,
    /// Which command of the trace it is, or is the reply to; 0 for what nobody asked for.
    pub number: u64,
    /// The private name of the client that did it; empty for the network.
    pub client: &'a str,
    /// As it went through the socket, ends of lines included.
    pub bytes: &'a [u8],
}

/// An item of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// When it was, since the trace began.
    pub at: Duration,
    /// Whose it is.
    pub side: Side,
    /// As in [`Item`].
    pub number: u64,
    /// As in [`Item`].
    pub client: String,
    /// The first [`KEPT_MAX`] bytes of it at most.
    pub bytes: &'a [u8],
    /// How many bytes it had.
    pub whole: usize,
}

/// Where a file is no trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The offset of what cannot be read.
    pub at: usize,
    /// Why, for people.
    pub text: &'static str,
}

impl Head {
    /// Appends the line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut line = format!("trace {VERSION} {} ", self.name);
        write_word(&mut line, &self.client, false);
        let start = seconds(self.start);
        line.push_str(&format!(" {} {start}\n", self.part));
        out.extend_from_slice(line.as_bytes());
    }

    fn read(line: &[u8]) -> Option<Self> {
        let mut words = Words::new(line);
        let mut next = || words.next().ok().flatten().map(|word| word.text);
        if next()? != "trace" || next()? != VERSION {
            return None;
        }
        Some(Self {
            name: next()?,
            client: next()?,
            part: next()?.parse().ok()?,
            start: span(&next()?)?,
        })
    }
}

impl Item<'_> {
    /// Writes the record of the item, which was `at` after the trace began.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write, at: Duration) -> io::Result<()> {
        let side = match self.side {
            Side::Sent => '>',
            Side::Got => '<',
        };
        let mut line = format!("{} {side} {} ", seconds(at), self.number);
        write_word(&mut line, self.client, false);
        let kept = &self.bytes[..self.bytes.len().min(KEPT_MAX)];
        line.push_str(&format!(" {}", kept.len()));
        if kept.len() < self.bytes.len() {
            line.push_str(&format!("/{}", self.bytes.len()));
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
        out.write_all(kept)?;
        out.write_all(b"\n")
    }
}

/// Reads a file.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    head: Head,
}

impl<'a> Reader<'a> {
    /// A reader of `text`, a whole file or what there is of it so far.
    ///
    /// # Errors
    /// It does not begin as a trace does.
    pub fn new(text: &'a [u8]) -> Result<Self, TraceError> {
        let error = TraceError {
            at: 0,
            text: "this is no trace of the bus: its first line is another",
        };
        let line = line_at(text, 0).ok_or_else(|| error.clone())?;
        let head = Head::read(line).ok_or(error)?;
        let at = line.len() + 1;
        Ok(Self { text, at, head })
    }

    /// What the first line says.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next record; `None` at the end, and before one that is not all there.
    ///
    /// # Errors
    /// What stands there is no record. Nothing more can be read.
    pub fn next_record(&mut self) -> Result<Option<Record<'a>>, TraceError> {
        let wrong = |text| TraceError { at: self.at, text };
        let Some(line) = line_at(self.text, self.at) else {
            return match self.text.len() - self.at > LINE_MAX {
                true => Err(wrong("a line here has no end")),
                false => Ok(None),
            };
        };
        let (mut record, kept) = read_line(line).ok_or_else(|| wrong("this is no record"))?;
        let from = self.at + line.len() + 1;
        let rest = &self.text[from..];
        if rest.len() <= kept {
            return Ok(None);
        }
        if rest[kept] != b'\n' {
            return Err(wrong(
                "the bytes of this record are not followed by an end of line",
            ));
        }
        record.bytes = &rest[..kept];
        self.at = from + kept + 1;
        Ok(Some(record))
    }

    /// How many bytes stand behind the last record that was read: of one that is not all there.
    pub fn left(&self) -> usize {
        self.text.len() - self.at
    }
}

/// The line that begins at `at`, without its end.
fn line_at(text: &[u8], at: usize) -> Option<&[u8]> {
    let rest = &text[at..];
    let searched = &rest[..rest.len().min(LINE_MAX)];
    let end = searched.iter().position(|byte| *byte == b'\n')?;
    Some(&rest[..end])
}

/// The record of a line without its bytes, and how many those are.
fn read_line(line: &[u8]) -> Option<(Record<'static>, usize)> {
    let mut words = Words::new(line);
    let mut next = || words.next().ok().flatten().map(|word| word.text);
    let at = span(&next()?)?;
    let side = match next()?.as_str() {
        ">" => Side::Sent,
        "<" => Side::Got,
        _ => return None,
    };
    let (number, client, length) = (next()?.parse().ok()?, next()?, next()?);
    let (kept, whole) = match length.split_once('/') {
        Some((kept, whole)) => (kept.parse().ok()?, whole.parse().ok()?),
        None => {
            let length: usize = length.parse().ok()?;
            (length, length)
        }
    };
    if kept > KEPT_MAX || kept > whole || next().is_some() {
        return None;
    }
    let record = Record {
        at,
        side,
        number,
        client,
        bytes: &[],
        whole,
    };
    Some((record, kept))
}

/// Seconds with six digits after the point.
fn seconds(span: Duration) -> String {
    format!("{}.{:06}", span.as_secs(), span.subsec_micros())
}

fn span(text: &str) -> Option<Duration> {
    let (seconds, micros) = text.split_once('.')?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if micros.len() != 6 || !is_digits(micros) || !is_digits(seconds) {
        return None;
    }
    let micros: u32 = micros.parse().ok()?;
    Some(Duration::new(seconds.parse().ok()?, micros * 1_000))
}
