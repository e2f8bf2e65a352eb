//! `groupcast send --status FILE`: progress and outcomes in a file, for programs that look at it
//! from time to time (docs/files.md).
//!
//! The file is replaced in one step, so a reader always finds a whole state. A thread of its own
//! writes it, the newest state each time: a slow disk stops no transfer, and what changes while it
//! writes is written together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_protocols::bulk::Outcome;
use groupcast_transfer::{SendEvent, SendReport};
use serde_json::{Map, Value, json};

use super::lines;

/// The status file.
#[derive(Debug)]
pub(super) struct StatusFile {
    path: PathBuf,
    shared: Arc<Shared>,
    /// When it was last to be written.
    written: Instant,
    /// Whether the user was told that the file cannot be written.
    told: bool,
    /// Whether the end of the command is in it.
    is_ended: bool,
}

/// What the network's thread and the one that writes share.
#[derive(Debug, Default)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Slot {
    content: Content,
    /// Whether the content is to be written.
    is_due: bool,
    /// Whether nothing comes any more.
    is_closed: bool,
    /// Whether the thread has ended, and then, whether it has written everything.
    over: Option<bool>,
    /// Why the content could not be written, until the user is told.
    failed: Option<io::Error>,
}

/// What is in the file.
#[derive(Clone, Debug, Default)]
struct Content {
    state: Map<String, Value>,
    /// Copied while the network's thread may wait, so each is shared.
    receivers: BTreeMap<String, Arc<Map<String, Value>>>,
}

impl Content {
    fn set(&mut self, fields: &Value) {
        self.state
            .extend(fields.as_object().cloned().unwrap_or_default());
    }

    fn receiver(&mut self, name: &str, fields: &Value) {
        let receiver = self.receivers.entry(name.into()).or_default();
        let receiver = Arc::make_mut(receiver);
        receiver.insert("receiver".into(), name.into());
        receiver.extend(fields.as_object().cloned().unwrap_or_default());
    }

    /// The outcome of the receiver called `name`. One that has everything may not have been looked
    /// at since.
    fn settled(&mut self, name: &str, outcome: &Outcome) {
        let mut fields = json!({"outcome": lines::name(outcome), "reason": lines::reason(outcome)});
        if matches!(outcome, Outcome::Complete)
            && let Some(length) = self.state.get("length")
        {
            fields["held"] = length.clone();
        }
        self.receiver(name, &fields);
    }

    /// The command has done its work, or failed, with this exit code.
    fn finish(&mut self, exit_code: u8) {
        self.state.remove("waiting_for");
        self.set(&json!({"state": "done", "exit_code": exit_code}));
    }

    fn into_text(self) -> io::Result<Vec<u8>> {
        let mut state = self.state;
        let receivers = self.receivers.into_values().map(Arc::unwrap_or_clone);
        state.insert("receivers".into(), receivers.map(Value::Object).collect());
        let mut text = serde_json::to_vec_pretty(&state)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Says that the thread has ended, however it does.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.lock().over.get_or_insert(false);
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // A thread that panicked leaves a valid slot.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest content, once it is to be written; `None`: all is.
    fn next(&self) -> Option<Content> {
        let mut slot = self.lock();
        loop {
            if std::mem::take(&mut slot.is_due) {
                return Some(slot.content.clone());
            }
            if slot.is_closed {
                return None;
            }
            let waited = self.changed.wait(slot);
            slot = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl StatusFile {
    /// The file is written this often, and at every outcome.
    const EVERY: Duration = Duration::from_secs(1);
    /// How long a command that is to stop waits for the disk.
    const LAST: Duration = Duration::from_secs(2);

    /// Begins the file at `path`: what an earlier command left there does not hold any more.
    ///
    /// # Errors
    /// If it cannot be written, or is something that is no file, as `/dev/null`: to be replaced
    /// would be its end.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        let there = fs::symlink_metadata(path).map(|metadata| metadata.file_type());
        if there.is_ok_and(|it| !it.is_file() && !it.is_symlink() && !it.is_dir()) {
            let text = "what is there is no file, and a status replaces what is there";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut content = Content::default();
        content.set(&json!({"state": "reading"}));
        replace(path, &content.clone().into_text()?)?;
        let to = path.to_owned();
        Self::with(path, content, move |text| replace(&to, text))
    }

    /// Starts the thread, which writes by `write`.
    fn with(
        path: &Path,
        content: Content,
        mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.lock().content = content;
        let taken = Arc::clone(&shared);
        let write_all = move || {
            let over = Over(Arc::clone(&taken));
            while let Some(content) = taken.next() {
                if let Err(error) = content.into_text().and_then(|text| write(&text)) {
                    taken.lock().failed.get_or_insert(error);
                }
            }
            taken.lock().over = Some(true);
            drop(over);
        };
        thread::Builder::new()
            .name("status".into())
            .spawn(write_all)?;
        Ok(Self {
            path: path.into(),
            shared,
            written: Instant::now(),
            told: false,
            is_ended: false,
        })
    }

    /// The files are listed, and the transfer is about to be announced under this label. Returns
    /// what [`take`](Self::take) does.
    pub(super) fn announce(&mut self, label: &str) -> Option<String> {
        self.change(true, |content| {
            content.set(&json!({"state": "announcing", "label": label}));
        })
    }

    /// Takes in an event of the transfer. If the file could not be written, returns once what to
    /// tell the user.
    pub(super) fn take(&mut self, event: &SendEvent<'_>) -> Option<String> {
        let is_urgent = matches!(
            event,
            SendEvent::Settled { .. } | SendEvent::Waiting { .. } | SendEvent::Unconcluded { .. }
        );
        self.change(is_urgent, |content| match event {
            SendEvent::Announced { bytes, entries } => {
                content.set(&json!({"bytes": bytes, "entries": entries}));
            }
            SendEvent::Registered {
                receiver,
                address,
                copies,
                ..
            } => {
                content.receiver(receiver, &json!({"address": address, "copies": copies}));
            }
            SendEvent::Waiting {
                names,
                missing,
                here,
                ..
            } => {
                content.set(&json!({"waiting_for": names, "missing": missing, "here": here}));
            }
            SendEvent::Unconcluded { names, .. } => {
                content.set(&json!({"waiting_for": names}));
            }
            SendEvent::Started { .. } => {
                for field in ["waiting_for", "missing", "here"] {
                    content.state.remove(field);
                }
                content.set(&json!({"state": "sending"}));
            }
            SendEvent::Progress {
                progress,
                names,
                sent,
                copies,
            } => {
                content.set(&json!({
                    "length": progress.length,
                    "position": progress.position,
                    "acknowledged": progress.acknowledged,
                    "pass": progress.pass,
                    "rate": progress.rate,
                    "sent": sent,
                    "copies": copies,
                }));
                for (receiver, name) in progress.receivers.iter().zip(*names) {
                    content.receiver(name, &json!({"held": receiver.held}));
                }
            }
            SendEvent::Settled {
                receiver, outcome, ..
            } => content.settled(receiver, outcome),
            _ => {}
        })
    }

    /// Takes in the report of the transfer, and the exit code that follows from it. Returns what
    /// [`take`](Self::take) does.
    pub(super) fn done(&mut self, report: &SendReport, exit_code: u8) -> Option<String> {
        self.change(true, |content| {
            content.finish(exit_code);
            content.set(&json!({
                "sent": report.sent,
                "copies": report.copies,
                "seconds": report.took.as_secs_f64(),
                "stopped": report.stopped,
            }));
            // The report has the outcome of receivers that came back under their name. A relay that
            // its receivers stand for is not in it.
            let names: BTreeSet<&str> = report.receivers.iter().map(|(name, _)| &**name).collect();
            content
                .receivers
                .retain(|name, _| names.contains(name.as_str()));
            for (name, outcome) in &report.receivers {
                content.settled(name, outcome);
            }
        })
    }

    /// Writes the end of the command, once: with this exit code; and waits until it is written, or
    /// for [`LAST`](Self::LAST) once `stop` is set. Returns what [`take`](Self::take) does.
    pub(super) fn end(&mut self, exit_code: u8, stop: &AtomicBool) -> Option<String> {
        if std::mem::replace(&mut self.is_ended, true) {
            return None;
        }
        let problem = self.change(true, |content| content.finish(exit_code));
        let is_written = self.close(stop);
        problem.or_else(|| self.problem()).or_else(|| {
            let is_untold = !is_written && !self.told;
            is_untold.then(|| self.complaint("it takes too long, or has failed"))
        })
    }

    /// Changes the content, and has it written if that `is_urgent` or it is time.
    fn change(&mut self, is_urgent: bool, how: impl FnOnce(&mut Content)) -> Option<String> {
        let mut slot = self.shared.lock();
        how(&mut slot.content);
        if is_urgent || self.written.elapsed() >= Self::EVERY {
            self.written = Instant::now();
            slot.is_due = true;
            self.shared.changed.notify_all();
        }
        drop(slot);
        self.problem()
    }

    /// Waits until all is written; whether it is.
    fn close(&self, stop: &AtomicBool) -> bool {
        /// How late a stop request is seen.
        const PATIENCE: Duration = Duration::from_millis(50);
        let mut slot = self.shared.lock();
        slot.is_closed = true;
        self.shared.changed.notify_all();
        let mut stopped: Option<Instant> = None;
        loop {
            if let Some(is_written) = slot.over {
                return is_written;
            }
            if stop.load(Ordering::Relaxed) {
                let since = *stopped.get_or_insert_with(Instant::now);
                if since.elapsed() >= Self::LAST {
                    return false;
                }
            }
            let waited = self.shared.changed.wait_timeout(slot, PATIENCE);
            slot = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Why the file could not be written, once.
    fn problem(&mut self) -> Option<String> {
        let error = self.shared.lock().failed.take().filter(|_| !self.told)?;
        self.told = true;
        Some(self.complaint(error))
    }

    fn complaint(&self, why: impl std::fmt::Display) -> String {
        format!("cannot write the status to {}: {why}", self.path.display())
    }
}

/// Replaces the file at `path` in one step.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}", std::process::id()));
    // Others may write to the directory: what they put at this name is not followed.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::File::create_new(&partial)?;
    file.write_all(text)?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use groupcast_transfer::Life;

    use super::*;

    /// A status whose disk writes once for each word of the first channel, and tells the second one
    /// what it has written.
    fn on_a_slow_disk() -> (StatusFile, mpsc::Sender<()>, mpsc::Receiver<Value>) {
        let ((go, waits), (tell, written)) = (mpsc::channel::<()>(), mpsc::channel());
        let write = move |text: &[u8]| {
            // Once nobody holds it back any more, it writes at once.
            let _ = waits.recv();
            let _ = tell.send(serde_json::from_slice(text)?);
            Ok(())
        };
        let status = StatusFile::with(Path::new("status"), Content::default(), write);
        (status.expect("a thread can be started"), go, written)
    }

    fn settles(status: &mut StatusFile, receiver: &str) -> Option<String> {
        let outcome = &Outcome::Complete;
        let life = Life::Only;
        status.take(&SendEvent::Settled {
            receiver,
            outcome,
            life,
        })
    }

    #[test]
    fn a_slow_disk_stops_nobody_and_has_the_last_state_in_the_end() {
        let (mut status, go, written) = on_a_slow_disk();
        for number in 0..1000 {
            assert_eq!(settles(&mut status, &format!("r{number}")), None);
        }
        assert!(written.try_recv().is_err(), "nothing is written yet");
        drop(go);
        assert_eq!(status.end(3, &AtomicBool::new(false)), None);
        let states: Vec<Value> = written.iter().collect();
        // The first one, what waited when the disk went on, and the last one.
        assert!(states.len() <= 3, "it was written {} times", states.len());
        let last = states.last().expect("it is written");
        assert_eq!(
            (&last["state"], &last["exit_code"]),
            (&"done".into(), &3.into())
        );
        assert_eq!(last["receivers"].as_array().map(Vec::len), Some(1000));
    }

    #[test]
    fn a_command_that_is_to_stop_does_not_wait_for_a_disk_for_long() {
        let (mut status, go, _written) = on_a_slow_disk();
        settles(&mut status, "one");
        let begun = Instant::now();
        let problem = status.end(1, &AtomicBool::new(true));
        assert!(begun.elapsed() >= StatusFile::LAST);
        assert!(problem.is_some_and(|it| it.contains("too long")));
        drop(go);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_once() {
        let write = |_: &[u8]| Err(io::Error::other("no room"));
        let status = StatusFile::with(Path::new("status"), Content::default(), write);
        let mut status = status.expect("a thread can be started");
        let first = settles(&mut status, "one");
        let last = status.end(0, &AtomicBool::new(false));
        let told: Vec<String> = first.into_iter().chain(last).collect();
        assert_eq!(told, ["cannot write the status to status: no room"]);
        assert_eq!(status.end(0, &AtomicBool::new(false)), None);
    }
}
