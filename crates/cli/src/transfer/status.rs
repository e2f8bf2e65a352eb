//! `groupcast send --status FILE`: progress and outcomes in a file, for programs that look at it
//! from time to time (docs/files.md).
//!
//! The file is replaced in one step, so a reader always finds a whole state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use groupcast_transfer::{SendEvent, SendReport};
use serde_json::{Map, Value, json};

use super::lines;

/// The status file and its content.
#[derive(Debug)]
pub(super) struct StatusFile {
    path: PathBuf,
    written: Instant,
    /// Whether the user was told that the file cannot be written.
    told: bool,
    /// Whether the end of the command is in it.
    is_done: bool,
    state: Map<String, Value>,
    receivers: BTreeMap<String, Map<String, Value>>,
}

impl StatusFile {
    /// The file is written this often, and at every outcome.
    const EVERY: Duration = Duration::from_secs(1);

    /// Begins the file at `path`: what an earlier command left there does not hold any more.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        let mut file = Self {
            path: path.into(),
            written: Instant::now(),
            told: false,
            is_done: false,
            state: Map::new(),
            receivers: BTreeMap::new(),
        };
        file.set(&json!({"state": "reading"}));
        file.write()?;
        Ok(file)
    }

    /// The files are listed, and the transfer is about to be announced under this label. Returns
    /// what [`take`](Self::take) does.
    pub(super) fn announce(&mut self, label: &str) -> Option<String> {
        self.set(&json!({"state": "announcing", "label": label}));
        self.write_or_complain()
    }

    /// Takes in an event of the transfer. If the file cannot be written, returns once what to tell
    /// the user.
    pub(super) fn take(&mut self, event: &SendEvent<'_>) -> Option<String> {
        let mut is_urgent = false;
        match event {
            SendEvent::Announced { bytes, entries } => {
                self.set(&json!({"bytes": bytes, "entries": entries}));
            }
            SendEvent::Registered {
                receiver,
                address,
                copies,
            } => {
                self.receiver(receiver, &json!({"address": address, "copies": copies}));
            }
            SendEvent::Started { .. } => self.set(&json!({"state": "sending"})),
            SendEvent::Progress {
                progress,
                names,
                sent,
                copies,
            } => {
                self.set(&json!({
                    "length": progress.length,
                    "position": progress.position,
                    "acknowledged": progress.acknowledged,
                    "pass": progress.pass,
                    "rate": progress.rate,
                    "sent": sent,
                    "copies": copies,
                }));
                for (receiver, name) in progress.receivers.iter().zip(*names) {
                    self.receiver(name, &json!({"held": receiver.held}));
                }
            }
            SendEvent::Settled { receiver, outcome } => {
                is_urgent = true;
                let outcome =
                    json!({"outcome": lines::name(outcome), "reason": lines::reason(outcome)});
                self.receiver(receiver, &outcome);
            }
            _ => return None,
        }
        match is_urgent || self.written.elapsed() >= Self::EVERY {
            true => self.write_or_complain(),
            false => None,
        }
    }

    /// Writes the end of the command, once: the report of the transfer and the exit code. Returns
    /// what [`take`](Self::take) does.
    pub(super) fn end(&mut self, report: Option<&SendReport>, exit_code: u8) -> Option<String> {
        if std::mem::replace(&mut self.is_done, true) {
            return None;
        }
        self.set(&json!({"state": "done", "exit_code": exit_code}));
        if let Some(report) = report {
            self.set(&json!({
                "sent": report.sent,
                "copies": report.copies,
                "seconds": report.took.as_secs_f64(),
                "stopped": report.stopped,
            }));
            // The report has the outcome of receivers that came back under their name. A relay that
            // its receivers stand for is not in it.
            let names: BTreeSet<&str> = report.receivers.iter().map(|(name, _)| &**name).collect();
            self.receivers
                .retain(|name, _| names.contains(name.as_str()));
            for (name, outcome) in &report.receivers {
                let outcome =
                    json!({"outcome": lines::name(outcome), "reason": lines::reason(outcome)});
                self.receiver(name, &outcome);
            }
        }
        self.write_or_complain()
    }

    fn set(&mut self, fields: &Value) {
        self.state
            .extend(fields.as_object().cloned().unwrap_or_default());
    }

    fn receiver(&mut self, name: &str, fields: &Value) {
        let receiver = self.receivers.entry(name.into()).or_default();
        receiver.insert("receiver".into(), name.into());
        receiver.extend(fields.as_object().cloned().unwrap_or_default());
    }

    fn write_or_complain(&mut self) -> Option<String> {
        let error = self.write().err().filter(|_| !self.told)?;
        self.told = true;
        let path = self.path.display();
        Some(format!("cannot write the status to {path}: {error}"))
    }

    fn write(&mut self) -> io::Result<()> {
        self.written = Instant::now();
        let mut state = self.state.clone();
        let receivers = self.receivers.values().cloned().map(Value::Object);
        state.insert("receivers".into(), receivers.collect());
        let mut text = serde_json::to_vec_pretty(&state)?;
        text.push(b'\n');
        let mut partial = self.path.clone().into_os_string();
        partial.push(format!(".{}", std::process::id()));
        // Others may write to the directory: what they put at this name is not followed.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::File::create_new(&partial)?;
        file.write_all(&text)?;
        fs::rename(&partial, &self.path)
    }
}
