//! One attempt to carry the file: what it works with, and what comes of it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::files::Files;
use crate::measure::{BenchError, clock};
use crate::process::Process;
use crate::testbed::Testbed;

/// What every attempt works with.
pub(super) struct Course<'a> {
    /// Host 1 sends, all others receive.
    pub(super) bed: &'a Testbed,
    pub(super) executable: &'a Path,
    pub(super) files: &'a Files,
    pub(super) limit: Duration,
}

/// What came of an attempt.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Attempt {
    pub(super) outcome: Outcome,
    /// Of the whole, from the first data on, in seconds; where the contestant says so.
    pub(super) data_seconds: Option<f64>,
    /// Packets, and how many of them were sent again; where the contestant says so.
    pub(super) packets: Option<(u64, u64)>,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    /// Every receiver has the file, and it is the one that was sent.
    Complete {
        /// From the start of the sending command to its end.
        seconds: f64,
    },
    /// Not every receiver has the file as it was sent.
    Fails {
        /// The reason, in words.
        reason: String,
        /// Whether somebody took a file for complete that is another.
        differs: bool,
    },
    /// It is not installed: which packages are.
    Missing(&'static str),
}

impl From<Outcome> for Attempt {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            data_seconds: None,
            packets: None,
        }
    }
}

impl Outcome {
    pub(super) fn fails(reason: impl Into<String>) -> Self {
        Self::Fails {
            reason: reason.into(),
            differs: false,
        }
    }
}

impl Course<'_> {
    /// The hosts that receive.
    pub(super) fn receivers(&self) -> std::ops::RangeInclusive<usize> {
        2..=self.bed.hosts()
    }

    /// A command on `host` that runs `program` with `args`.
    pub(super) fn command<'a>(
        &self,
        host: usize,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut command = self.bed.command(host, program);
        command.args(args);
        command
    }

    /// Runs the sending command `command` to its end, and compares what arrived as `name` at every
    /// receiver.
    pub(super) fn race(
        &self,
        label: &str,
        command: Command,
        name: &str,
    ) -> Result<(Outcome, Process), BenchError> {
        let begun = clock::now();
        let mut sender = self.bed.launch(label, command)?;
        let ended = sender
            .wait(self.limit)
            .map_err(BenchError::io("wait for a sender"))?;
        let seconds = (clock::now() - begun) as f64 / 1e9;
        let outcome = match ended {
            None => {
                sender.kill().map_err(BenchError::io("end a sender"))?;
                let standing = self.files.standing(self.receivers(), name)?;
                let limit = self.limit.as_secs();
                Outcome::fails(format!("did not finish in {limit} s: {standing}"))
            }
            Some(status) if !status.success() => {
                let output = format!(
                    "{}{}",
                    sender.stdout().unwrap_or_default(),
                    sender.stderr().unwrap_or_default()
                );
                let last = output.lines().rfind(|line| !line.trim().is_empty());
                let last = last.unwrap_or_default().trim();
                let standing = self.files.standing(self.receivers(), name)?;
                Outcome::fails(format!("{status}: {last}; {standing}"))
            }
            Some(_) => match self.files.differs(self.receivers(), name)? {
                None => Outcome::Complete { seconds },
                Some((reason, differs)) => Outcome::Fails { reason, differs },
            },
        };
        Ok((outcome, sender))
    }

    /// Whether the program `name` can be run on this machine.
    pub(super) fn is_installed(name: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    }
}
