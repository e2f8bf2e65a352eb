//! What the demo prints on stdout: the same events as a story for people or as JSON, one object a
//! line.
//!
//! The fields of the JSON objects are those of [`Event`], with the variant's name in lower case as
//! `event`. Members are named by incarnation (`ben`, then `ben#2`), configurations by their full id
//! as everywhere in groupcast's JSON, and durations are milliseconds. The last line is the verdict
//! unless the demo failed before; then stderr says why.

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use groupcast_check::Violation;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::json::write_line;

/// An event of the demo, as it is printed.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    /// The demo begins. `network` is `multicast` or, where loopback has none, `mesh` (a unicast
    /// copy to each).
    Demo {
        members: Vec<String>,
        messages: u64,
        seed: u64,
        /// What orders the messages.
        protocol: &'static str,
        network: &'static str,
        group: Option<String>,
    },
    /// A step of the story begins: `start`, `load`, `kill`, `restart`, `partition`, `merge`,
    /// `leave`, `verdict`.
    Step {
        number: usize,
        name: &'static str,
        title: String,
        /// What to look for, for people.
        #[serde(skip)]
        note: &'static str,
    },
    /// Members were started, in this order.
    Started { members: Vec<String> },
    /// A member's thread was ended without telling the others.
    Killed { member: String },
    /// The network was cut: members hear only those of their own side.
    Cut { sides: Vec<Vec<String>> },
    /// The cut is over.
    Healed,
    /// A configuration was installed at the members `at`, the last of them `after_ms` after what
    /// caused it (the start, the kill, the cut, …). A transitional one has the id of the regular
    /// one that it closes.
    Configuration {
        kind: &'static str,
        config: String,
        /// The id for people.
        #[serde(skip)]
        short: String,
        members: Vec<String>,
        at: Vec<String>,
        after_ms: f64,
    },
    /// All of `at` delivered the same messages in the same order: those of the load, or all of the
    /// configuration that they are in.
    Delivered {
        at: Vec<String>,
        messages: u64,
        /// How many of them may come before they are ordered, and so in any order with the others.
        #[serde(skip_serializing_if = "is_zero")]
        early: u64,
        /// Digest of the messages and their places in the order of delivery.
        order: String,
        /// The speed; of the load alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        load: Option<Load>,
    },
    /// The group changed during the load, as it does where the machine does not schedule members
    /// for long; the load is repeated.
    Disturbed { configurations: usize },
    /// All of `at` deliver again in a regular configuration, the last of them `after_ms` after what
    /// broke the old one.
    Resumed { at: Vec<String>, after_ms: f64 },
    /// Members left gracefully, the last of them `after_ms` after they were told to.
    Left { members: Vec<String>, after_ms: f64 },
    /// The verdict of the judge of histories.
    Verdict {
        clean: bool,
        /// The number of incarnations of members that the judge has seen.
        observers: u64,
        configurations: u64,
        messages: u64,
        deliveries: u64,
        violations: Vec<Violation>,
        /// How long the whole demo took.
        took_ms: f64,
    },
}

/// The speed of the load, measured from the first command to submit until the last delivery at the
/// slowest member.
#[derive(Serialize, Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) bytes: u64,
    pub(crate) took_ms: f64,
    pub(crate) messages_per_s: f64,
    pub(crate) mbit_per_s: f64,
}

impl Load {
    /// `messages` of `bytes` payload bytes in `took`.
    pub(crate) fn new(messages: u64, bytes: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64().max(1e-9);
        Self {
            bytes,
            took_ms: millis(took),
            messages_per_s: (messages as f64 / seconds).round(),
            mbit_per_s: (bytes as f64 * 8.0 / seconds / 1e4).round() / 100.0,
        }
    }
}

/// Milliseconds, to the microsecond.
pub(crate) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Prints the events.
pub(crate) struct DemoReport {
    /// As JSON, one object a line; else as a story for people.
    json: bool,
    /// The result of writing the last event.
    written: RefCell<io::Result<()>>,
}

impl DemoReport {
    /// A report as JSON, one object a line, or as a story for people.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            written: RefCell::new(Ok(())),
        }
    }

    /// Prints `event`. The demo goes on if that fails.
    pub(crate) fn tell(&self, event: &Event) {
        let mut stdout = anstream::stdout().lock();
        let written = match self.json {
            false => write_text(&mut stdout, event),
            true => write_line(&mut stdout, event),
        };
        *self.written.borrow_mut() = written.and_then(|()| stdout.flush());
    }

    /// The result of writing the last event, the verdict.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.written.into_inner()
    }

    /// A bar for `total` messages: on stderr if that is a terminal, and never beside JSON.
    pub(crate) fn progress(&self, total: u64) -> ProgressBar {
        let target = match self.json {
            false => ProgressDrawTarget::stderr(),
            true => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template("   {bar:40} {pos}/{len} messages")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(total), target).with_style(style)
    }
}

/// Columns of a terminal that a line may fill.
const WIDTH: usize = 80;
/// The column of the text, after the label.
const INDENT: usize = 17;
/// The column of a note.
const NOTE_INDENT: usize = 3;
/// At most this many members are named each time; more are counted.
const FEW: usize = 4;
/// Stands for a space at which a line does not break.
const NO_BREAK: char = '\u{a0}';

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const CYAN: Style = AnsiColor::Cyan.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();
const GREEN: Style = AnsiColor::Green.on_default();

fn write_text(out: &mut impl Write, event: &Event) -> io::Result<()> {
    match event {
        Event::Demo {
            members,
            seed,
            protocol,
            group,
            ..
        } => {
            let count = members.len();
            writeln!(
                out,
                "{BOLD}groupcast demo{BOLD:#}: {count} members in this process, ordered by {protocol} (seed {seed})"
            )?;
            let way = match group {
                Some(group) => format!("IP multicast to {group} on loopback"),
                None => "no multicast on loopback here: a unicast copy to each".to_owned(),
            };
            line(out, DIM, "network", &format!("{way}, encrypted"))
        }
        Event::Step {
            number,
            title,
            note,
            ..
        } => {
            writeln!(out, "\n{BOLD}{number}  {title}{BOLD:#}")?;
            paragraph(out, DIM, note)
        }
        Event::Started { members } => line(out, GREEN, "started", &members.join(", ")),
        Event::Killed { member } => line(out, RED, "killed", member),
        Event::Cut { sides } => {
            let sides: Vec<String> = sides.iter().map(|side| side.join(" ")).collect();
            line(out, RED, "cut", &sides.join("  |  "))
        }
        Event::Healed => line(out, GREEN, "healed", "everybody can hear everybody"),
        Event::Configuration { .. } => write_configuration(out, event),
        Event::Delivered {
            at,
            messages,
            early,
            order,
            load,
        } => write_delivered(out, at, (*messages, *early), order, *load),
        Event::Disturbed { configurations } => line(
            out,
            YELLOW,
            "disturbed",
            &format!(
                "the group changed in the middle of it ({configurations} configurations), as it does where members \
                 are not scheduled for long: once more"
            ),
        ),
        Event::Resumed { at, after_ms } => line(
            out,
            GREEN,
            "goes on",
            &format!("{} again {}", deliver(at), after(*after_ms)),
        ),
        Event::Left { members, after_ms } => line(
            out,
            YELLOW,
            "left",
            &format!("{}, {}", members.join(" "), after(*after_ms)),
        ),
        Event::Verdict { .. } => write_verdict(out, event),
    }
}

fn write_configuration(out: &mut impl Write, event: &Event) -> io::Result<()> {
    let Event::Configuration {
        kind,
        short,
        members,
        at,
        after_ms,
        ..
    } = event
    else {
        return Ok(());
    };
    let is_regular = *kind == "regular";
    let style = if is_regular { CYAN } else { YELLOW };
    let name = if is_regular {
        short.clone()
    } else {
        format!("closes {short}")
    };
    let place = if at == members {
        String::new()
    } else {
        format!(" at {}", at.join(" "))
    };
    let text = format!(
        "{name}: {} ({}{place})",
        members.join(" "),
        after(*after_ms)
    );
    line(out, style, kind, &text)
}

/// For fields that are left out where they are 0.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn write_delivered(
    out: &mut impl Write,
    at: &[String],
    (messages, early): (u64, u64),
    order: &str,
    load: Option<Load>,
) -> io::Result<()> {
    let mut text = match at.len() {
        1 => format!("{} {messages} messages in order", deliver(at)),
        _ => format!(
            "{} the same {messages} messages in the same order",
            deliver(at)
        ),
    };
    if early > 0 {
        text += &format!(" ({early} of them fifo, as soon as they came)");
    }
    line(out, GREEN, "delivered", &text)?;
    line(out, DIM, "digest", order)?;
    let Some(load) = load else { return Ok(()) };
    let text = format!(
        "{:.0} messages/s, {:.1} Mb/s of payload ({:.1} MB {})",
        load.messages_per_s,
        load.mbit_per_s,
        load.bytes as f64 / 1e6,
        after(load.took_ms).replace("after", "in"),
    );
    line(out, DIM, "speed", &text)
}

fn write_verdict(out: &mut impl Write, event: &Event) -> io::Result<()> {
    let Event::Verdict {
        clean,
        observers,
        configurations,
        messages,
        deliveries,
        violations,
        took_ms,
    } = event
    else {
        return Ok(());
    };
    let seen = format!(
        "{observers} lives, {configurations} configurations, {messages} messages, {deliveries} deliveries"
    );
    line(out, DIM, "judged", &seen)?;
    for violation in violations {
        line(out, RED, "violation", &violation.to_string())?;
    }
    if *clean {
        line(out, GREEN.bold(), "clean", "every promise was kept")?;
    } else {
        let text = format!("promises were broken: {} times", violations.len());
        line(out, RED.bold(), "broken", &text)?;
    }
    line(out, DIM, "took", &format!("{:.1} s", took_ms / 1e3))
}

/// The members that deliver: by name if they are few, else their number.
fn deliver(who: &[String]) -> String {
    match who {
        [one] => format!("{one} delivers"),
        few if few.len() <= FEW => format!("{} deliver", few.join(" ")),
        many => format!("all {} deliver", many.len()),
    }
}

/// The time as a single word, so that the line does not break in it.
fn after(ms: f64) -> String {
    if ms < 10.0 {
        format!("after{NO_BREAK}{ms:.1}{NO_BREAK}ms")
    } else {
        format!("after{NO_BREAK}{ms:.0}{NO_BREAK}ms")
    }
}

/// Writes a labelled text.
fn line(out: &mut impl Write, style: Style, label: &str, text: &str) -> io::Result<()> {
    write!(out, "   {style}{label:<13}{style:#} ")?;
    wrap(out, INDENT, text)?;
    writeln!(out)
}

/// Writes a text without a label, if it is not empty.
fn paragraph(out: &mut impl Write, style: Style, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    write!(out, "{:NOTE_INDENT$}{style}", "")?;
    wrap(out, NOTE_INDENT, text)?;
    writeln!(out, "{style:#}")
}

/// Writes `text` from column `indent` on, broken between words where a line would be too long.
fn wrap(out: &mut impl Write, indent: usize, text: &str) -> io::Result<()> {
    let mut column = indent;
    for (index, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > WIDTH {
            write!(out, "\n{:indent$}", "")?;
            column = indent;
        } else if index > 0 {
            out.write_all(b" ")?;
            column += 1;
        }
        out.write_all(word.replace(NO_BREAK, " ").as_bytes())?;
        column += width;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event: &Event) -> String {
        let mut bytes = Vec::new();
        write_text(&mut anstream::StripStream::new(&mut bytes), event).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn names(count: usize) -> Vec<String> {
        super::super::stage::NAMES[..count]
            .iter()
            .map(|name| (*name).to_owned())
            .collect()
    }

    fn configuration(members: Vec<String>, at: Vec<String>) -> Event {
        Event::Configuration {
            kind: "regular",
            config: "3-1.2".into(),
            short: "3@ada".into(),
            members,
            at,
            after_ms: 412.345,
        }
    }

    #[test]
    fn lines_fit_eighty_columns() {
        let story = text(&configuration(names(16), names(15)));
        assert!(story.lines().count() > 1, "{story}");
        assert!(
            story.lines().all(|line| line.chars().count() <= WIDTH),
            "{story}"
        );
    }

    #[test]
    fn a_configuration_says_where_it_was_installed_if_not_at_all_its_members() {
        assert_eq!(
            text(&configuration(names(2), names(2))),
            "   regular       3@ada: ada ben (after 412 ms)\n"
        );
        assert_eq!(
            text(&configuration(names(2), names(1))),
            "   regular       3@ada: ada ben (after 412 ms at ada)\n"
        );
    }

    #[test]
    fn json_events_are_named_and_carry_full_ids() {
        let json = serde_json::to_string(&configuration(names(1), names(1))).unwrap();
        assert_eq!(
            json,
            "{\"event\":\"configuration\",\"kind\":\"regular\",\"config\":\"3-1.2\",\"members\":[\"ada\"],\
             \"at\":[\"ada\"],\"after_ms\":412.345}"
        );
    }
}
