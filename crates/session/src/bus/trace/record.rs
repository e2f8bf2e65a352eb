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
/// The most bytes that a trace keeps of an item: its first ones.
pub const KEPT_MAX: usize = 64 << 10;
/// The most bytes of the line before an item's bytes.
const LINE_MAX: usize = 4 << 10;

/// The first line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The name of the trace.
    pub name: String,
    /// The private name of the client whose connection is traced.
    pub client: String,
    /// The number of this file of the trace, from 1.
    pub part: u64,
    /// When the trace began, by the daemon's clock: since 1970, UTC. To microseconds in a file.
    pub start: Duration,
}

/// The side that sent an item.
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
    /// The number of the command, or of the command that this replies to; 0 for what the bus says
    /// unasked.
    pub number: u64,
    /// The private name of the client whose act this is; empty for the network.
    pub client: &'a str,
    /// The bytes as they went through the socket, with line ends.
    pub bytes: &'a [u8],
}

/// An item of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// When the item was sent, since the trace began.
    pub at: Duration,
    /// The side that sent it.
    pub side: Side,
    /// As in [`Item`].
    pub number: u64,
    /// As in [`Item`].
    pub client: String,
    /// Its bytes, at most the first [`KEPT_MAX`].
    pub bytes: &'a [u8],
    /// How many bytes the whole item had.
    pub whole: usize,
}

/// A place at which a file is no trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The offset of the bytes that cannot be read.
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
    /// Writes the record of the item, which was sent `at` after the trace began.
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
    /// A reader of `text`, a whole file or the part that has been written so far.
    ///
    /// # Errors
    /// If `text` does not begin as a trace does.
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

    /// The next record; `None` at the end, or if the next record is not complete yet.
    ///
    /// # Errors
    /// If the bytes are no record. Nothing more can be read then.
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

    /// How many bytes follow the last record that was read: those of an incomplete record.
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

/// The record that a line announces, without its bytes, and how many bytes follow.
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

/// The time that [`seconds`] has written so.
fn span(text: &str) -> Option<Duration> {
    let (seconds, micros) = text.split_once('.')?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if micros.len() != 6 || !is_digits(micros) || !is_digits(seconds) {
        return None;
    }
    let micros: u32 = micros.parse().ok()?;
    Some(Duration::new(seconds.parse().ok()?, micros * 1_000))
}
