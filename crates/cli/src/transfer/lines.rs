//! The lines of `send --json` and `recv --json`: field names are a contract with scripts
//! (docs/files.md).

use std::io::{self, ErrorKind, Write as _};

use groupcast_protocols::bulk::{Outcome, PhaseKind, Served};
use groupcast_transfer::{Described, ReceiveEvent, SendEvent, SendReport, Stranger};
use serde_json::{Value, json};

use super::printer::{Print, Printer};
use super::rates;
use super::send::in_words;
use crate::failure::{Failure, tell};
use crate::json::write_line;

/// What is printed in one line.
pub(super) enum Line {
    /// For programs, on stdout.
    Json(Value),
    /// For people, on stderr.
    Text(String),
}

/// Prints lines.
struct Lines {
    /// Whether programs read them.
    json: bool,
    /// What became of the last one for programs.
    written: io::Result<()>,
}

impl Print for Lines {
    type Item = Line;

    fn print(&mut self, line: Line) {
        match line {
            Line::Json(line) => {
                let mut out = io::stdout().lock();
                self.written = write_line(&mut out, &line).and_then(|()| out.flush());
            }
            Line::Text(line) => tell(line),
        }
    }

    fn left_out(&mut self, lines: u64) {
        self.print(match self.json {
            true => Line::Json(json!({"event": "left_out", "lines": lines})),
            false => Line::Text(left_out(lines)),
        });
    }

    fn close(self) -> io::Result<()> {
        match self.written {
            // A reader that has gone has what it wanted.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

/// That so many lines are missing, for people.
pub(super) fn left_out(lines: u64) -> String {
    format!("{lines} lines are left out here: nobody read them in time")
}

/// A printer of lines, for programs with `json`, else for people.
pub(super) fn printer(json: bool) -> Result<Printer<Line>, Failure> {
    let written = Ok(());
    Printer::start(Lines { json, written })
}

/// Prints `line`, if there is one.
pub(super) fn print(printer: &Printer<Line>, line: Option<Value>) {
    let Some(line) = line else {
        return;
    };
    match line["event"] == "progress" {
        true => printer.print_stale(Line::Json(line)),
        false => printer.print(Line::Json(line)),
    }
}

/// The line of what happened at a sender.
pub(super) fn sent(event: &SendEvent<'_>) -> Option<Value> {
    Some(match event {
        SendEvent::Announced { bytes, entries } => {
            json!({"event": "announced", "bytes": bytes, "entries": entries})
        }
        SendEvent::Registered {
            receiver,
            address,
            copies,
            back,
        } => json!({
            "event": "registered",
            "receiver": receiver,
            "address": address,
            "copies": copies,
            "back": back,
        }),
        SendEvent::Waiting {
            names,
            missing,
            here,
            left,
        } => json!({
            "event": "waiting",
            "receivers": names,
            "missing": missing,
            "here": here,
            "seconds": left.as_secs_f64(),
        }),
        SendEvent::Comparing { bytes } => json!({"event": "comparing", "bytes": bytes}),
        SendEvent::Unconcluded { names, compare } => {
            json!({"event": "unconcluded", "receivers": names, "compare": compare})
        }
        SendEvent::CameLate { receiver, address } => {
            json!({"event": "came_late", "receiver": receiver, "address": address})
        }
        SendEvent::Started { receivers } => json!({"event": "started", "receivers": receivers}),
        SendEvent::Progress {
            progress,
            names,
            sent,
            copies,
        } => {
            let receivers: Vec<Value> = progress
                .receivers
                .iter()
                .zip(*names)
                .map(|(receiver, name)| {
                    json!({
                        "receiver": name,
                        "held": receiver.held,
                        "waited_for": receiver.waited_for,
                        "loss": f64::from(receiver.loss_permille) / 1000.0,
                    })
                })
                .collect();
            json!({
                "event": "progress",
                "phase": phase(progress.phase),
                "pass": progress.pass,
                "position": progress.position,
                "acknowledged": progress.acknowledged,
                "length": progress.length,
                "sent": sent,
                "packets": progress.packets,
                "repeated": progress.repeated,
                "copies": copies,
                "rate": progress.rate,
                "receivers": receivers,
            })
        }
        SendEvent::Outrun { receiver } => json!({"event": "outrun", "receiver": receiver}),
        SendEvent::Settled {
            receiver,
            outcome,
            life,
        } => json!({
            "event": "settled",
            "receiver": receiver,
            "outcome": name(outcome),
            "reason": reason(outcome),
            "life": life.name(),
        }),
        SendEvent::Rate { rate } => json!({"event": "rate", "rate": rates::name(*rate)}),
        SendEvent::Stranger(it) => stranger(it),
        SendEvent::Trouble { problem } => json!({"event": "trouble", "problem": problem}),
        SendEvent::Warning { problem } => json!({"event": "warning", "problem": problem}),
        _ => return None,
    })
}

fn stranger(stranger: &Stranger) -> Value {
    json!({"event": "stranger", "kind": stranger.kind, "address": stranger.last, "hint": stranger.hint})
}

/// The line of how a transfer ended.
pub(super) fn report(report: &SendReport) -> Value {
    let is_complete = |outcome: &Outcome| *outcome == Outcome::Complete;
    let complete = report
        .receivers
        .iter()
        .filter(|(_, outcome)| is_complete(outcome));
    let failed: Vec<Value> = report
        .receivers
        .iter()
        .filter(|(_, outcome)| !is_complete(outcome))
        .map(|(receiver, outcome)| json!({"receiver": receiver, "problem": in_words(outcome)}))
        .collect();
    json!({
        "event": "done",
        "complete": complete.count(),
        "failed": failed,
        "bytes": report.bytes,
        "sent": report.sent,
        "seconds": report.took.as_secs_f64(),
        "packets": report.packets,
        "repeated": report.repeated,
        "copies": report.copies,
        "stopped": report.stopped,
    })
}

/// The line of what happened at a receiver.
pub(super) fn received(event: &ReceiveEvent<'_>) -> Option<Value> {
    Some(match event {
        ReceiveEvent::Stranger(it) => stranger(it),
        ReceiveEvent::Trouble { problem } => json!({"event": "trouble", "problem": problem}),
        ReceiveEvent::Warning { problem } => json!({"event": "warning", "problem": problem}),
        ReceiveEvent::Shared { directory } => {
            json!({"event": "shared", "directory": directory.to_string_lossy()})
        }
        ReceiveEvent::Renewed { directory } => {
            json!({"event": "renewed", "directory": directory.to_string_lossy()})
        }
        ReceiveEvent::Rejoined { address } => json!({"event": "rejoined", "address": address}),
        ReceiveEvent::Listening => json!({"event": "listening"}),
        ReceiveEvent::Accepted { transfer, held } => {
            line("accepted", transfer, &json!({"held": held}))
        }
        ReceiveEvent::Refused { transfer, reason } => {
            line("refused", transfer, &json!({"reason": reason}))
        }
        ReceiveEvent::Progress { transfer, received } => {
            line("progress", transfer, &json!({"received": received}))
        }
        ReceiveEvent::Served { transfer, served } => served_line(transfer, *served),
        ReceiveEvent::Missed { address } => json!({"event": "missed", "address": address}),
        ReceiveEvent::Outrun { transfer } => line("outrun", transfer, &json!({})),
        ReceiveEvent::Complete {
            transfer,
            received,
            took,
        } => {
            let fields = json!({"received": received, "seconds": took.as_secs_f64()});
            line("complete", transfer, &fields)
        }
        ReceiveEvent::Failed {
            transfer,
            reason,
            kept,
        } => line("failed", transfer, &json!({"reason": reason, "kept": kept})),
        _ => return None,
    })
}

/// The line of an event of `transfer`, with the event's `fields`.
pub(super) fn line(event: &str, transfer: &Described, fields: &Value) -> Value {
    let mut line = json!({
        "event": event,
        "transfer": format!("{}-{}", transfer.id.sender, transfer.id.number),
        "label": transfer.label,
        "sender": transfer.sender,
        "length": transfer.length,
    });
    if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object()) {
        line.extend(fields.clone());
    }
    line
}

/// The line of when a receiver or a relay is served.
pub(super) fn served_line(transfer: &Described, served: Served) -> Value {
    let when = match served {
        Served::Now => "now",
        Served::Later => "later",
        Served::Paused => "paused",
    };
    line("served", transfer, &json!({"when": when}))
}

/// The same for people.
pub(super) fn served_in_words(served: Served) -> &'static str {
    match served {
        Served::Now => "it goes on",
        Served::Later => "it is served later, after the others",
        Served::Paused => "the sender pauses",
    }
}

fn phase(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Announcing => "announcing",
        PhaseKind::Starting => "starting",
        PhaseKind::Sending => "sending",
        PhaseKind::Concluding => "concluding",
    }
}

/// An outcome for programs.
pub(super) fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "complete",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
        Outcome::Vanished => "vanished",
        Outcome::Slow => "slow",
        Outcome::Late => "late",
        Outcome::Outrun => "outrun",
        Outcome::TooFew => "too_few",
        Outcome::Excluded => "excluded",
        Outcome::Absent => "absent",
        Outcome::SameName => "same_name",
        Outcome::Cancelled => "cancelled",
        _ => "other",
    }
}

pub(super) fn reason(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Refused(reason) | Outcome::Failed(reason) => Some(reason),
        _ => None,
    }
}
