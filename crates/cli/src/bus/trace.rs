//! `groupcast bus trace`: what a connection of the bus sent and got, from the files that its daemon
//! wrote.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use groupcast_core::text::printable;
use groupcast_session::bus::trace::{About, Head, Reader, Record, Side, TraceError};
use groupcast_session::frame::Syntax;
use serde::Serialize;

use crate::failure::{Failure, printed, tell};
use crate::json::write_line;
use crate::line::Payload;

/// The options of `groupcast bus trace`.
///
/// A reply is shown where its command is; options that are given several times name alternatives.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The files of a trace, the older first: NAME.1.trace, NAME.trace
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only what names this domain, or with `*.REST` one below REST
    #[arg(long, value_name = "DOMAIN")]
    domain: Vec<String>,
    /// Only what has this tag, or this pattern for tags
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only what the client with this private name did
    #[arg(long, value_name = "CLIENT")]
    client: Vec<String>,
    /// Print JSON, one object a record
    #[arg(long)]
    json: bool,
}

/// Shows what is wanted of the files.
pub(super) fn show(args: &Args) -> Result<ExitCode, Failure> {
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    let mut wanted = Wanted {
        args,
        commands: BTreeSet::new(),
    };
    for path in &args.files {
        let text = std::fs::read(path)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
        match show_file(&mut out, &mut wanted, path, &text) {
            Ok(()) => {}
            // The rest is not wanted, or cannot be shown.
            Err(Stop::Unwritten(error)) => {
                printed(Err(error))?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(Stop::NoTrace(error)) => {
                let _ = out.flush();
                let (path, at) = (path.display(), error.at);
                return Err(
                    Failure::failed(format!("{path}: byte {at}: {}", error.text)).help(
                        "give files that a daemon wrote into the directory of its --bus-trace",
                    ),
                );
            }
        }
    }
    printed(out.flush())?;
    Ok(ExitCode::SUCCESS)
}

/// Why showing stops.
enum Stop {
    Unwritten(io::Error),
    NoTrace(TraceError),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

impl From<TraceError> for Stop {
    fn from(error: TraceError) -> Self {
        Self::NoTrace(error)
    }
}

fn show_file(
    out: &mut impl Write,
    wanted: &mut Wanted<'_>,
    path: &Path,
    text: &[u8],
) -> Result<(), Stop> {
    let mut reader = Reader::new(text)?;
    let json = wanted.args.json;
    match json {
        true => write_line(out, &HeadLine::of(reader.head()))?,
        false => write_head(out, reader.head())?,
    }
    while let Some(record) = reader.next_record()? {
        let about = About::of(record.bytes);
        if !wanted.has(&record, &about) {
            continue;
        }
        match json {
            true => write_line(out, &RecordLine::of(&record, &about))?,
            false => write_record(out, &record)?,
        }
    }
    if reader.left() > 0 {
        out.flush()?;
        let (path, left) = (path.display(), reader.left());
        tell(format_args!(
            "{path}: the last {left} bytes are the beginning of a record"
        ));
    }
    Ok(())
}

/// The records to show.
struct Wanted<'a> {
    args: &'a Args,
    /// The numbers of the commands that were shown: their replies are shown too.
    commands: BTreeSet<u64>,
}

impl Wanted<'_> {
    fn has(&mut self, record: &Record<'_>, about: &About<'_>) -> bool {
        let is_reply = record.side == Side::Got && record.number > 0;
        if is_reply && !self.wants_all() {
            return self.commands.remove(&record.number);
        }
        let Args {
            domain,
            tag,
            client,
            ..
        } = self.args;
        let is_one = |wanted: &[String], has: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|it| has(it))
        };
        let wants = is_one(domain, &|wanted| about.names(wanted))
            && is_one(tag, &|wanted| about.tag.as_deref() == Some(wanted))
            && is_one(client, &|wanted| record.client == wanted);
        if wants && record.side == Side::Sent {
            self.commands.insert(record.number);
        }
        wants
    }

    fn wants_all(&self) -> bool {
        let args = self.args;
        args.domain.is_empty() && args.tag.is_empty() && args.client.is_empty()
    }
}

#[derive(Serialize)]
struct HeadLine<'a> {
    event: &'static str,
    name: &'a str,
    client: &'a str,
    part: u64,
    /// Seconds since 1970, UTC.
    start: f64,
}

impl<'a> HeadLine<'a> {
    fn of(head: &'a Head) -> Self {
        Self {
            event: "trace",
            name: &head.name,
            client: &head.client,
            part: head.part,
            start: head.start.as_secs_f64(),
        }
    }
}

#[derive(Serialize)]
struct RecordLine<'a> {
    event: &'static str,
    /// Seconds since the trace began.
    at: f64,
    number: u64,
    client: &'a str,
    word: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    domains: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    syntax: Option<&'static str>,
    /// The bytes of the whole item.
    bytes: usize,
    /// How many of these bytes the trace kept, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<usize>,
    /// The item, as it went through the socket.
    #[serde(flatten)]
    item: Payload<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Payload<'a>>,
}

impl<'a> RecordLine<'a> {
    fn of(record: &'a Record<'_>, about: &'a About<'_>) -> Self {
        Self {
            event: match record.side {
                Side::Sent => "sent",
                Side::Got => "got",
            },
            at: record.at.as_secs_f64(),
            number: record.number,
            client: &record.client,
            word: &about.word,
            tag: about.tag.as_deref(),
            domains: &about.domains,
            syntax: about.syntax.map(Syntax::name),
            bytes: record.whole,
            kept: (record.bytes.len() < record.whole).then_some(record.bytes.len()),
            item: Payload::of(record.bytes),
            message: about.message.as_deref().map(Payload::of),
        }
    }
}

fn write_head(out: &mut impl Write, head: &Head) -> io::Result<()> {
    let (name, client) = (&head.name, printable(head.client.as_bytes()));
    writeln!(
        out,
        "trace {} of {client}, file {}, begun {}",
        printable(name.as_bytes()),
        head.part,
        date(head.start)
    )
}

/// The date and time, in UTC, that is this long after the beginning of 1970.
fn date(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Counted from March of the year 0, a leap day is the last of its year, its century, and its
    // 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Writes a record for people: time, direction, the client if the bus says it unasked, and the
/// lines.
fn write_record(out: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    let side = match record.side {
        Side::Sent => '>',
        Side::Got => '<',
    };
    let at = record.at.as_secs_f64();
    write!(out, "{at:12.6} {side} ")?;
    if record.side == Side::Got && record.number == 0 {
        write!(out, "[{}] ", printable(record.client.as_bytes()))?;
    }
    let bytes = record.bytes.strip_suffix(b"\n").unwrap_or(record.bytes);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let indent = if index == 0 { "" } else { "               " };
        writeln!(out, "{indent}{}", printable(line))?;
    }
    let cut = record.whole - record.bytes.len();
    match cut {
        0 => Ok(()),
        cut => writeln!(
            out,
            "               and {cut} bytes more, which were not kept"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_its_date() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00"),
            (68_169_599, "1972-02-28T23:59:59"),
            (68_169_600, "1972-02-29T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_795_391_700, "2026-11-22T23:55:00"),
            (4_107_542_399, "2100-02-28T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            let since = Duration::new(seconds, 123_456_789);
            assert_eq!(date(since), format!("{shown}.123456Z"));
        }
        assert!(date(Duration::MAX).ends_with('Z'));
    }
}
