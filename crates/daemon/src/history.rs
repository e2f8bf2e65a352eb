//! The history of this daemon, in the file that `--history` names.
//!
//! The node's observer and the loop share the writer: the observer writes lines, the loop flushes
//! them.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use groupcast_check::HistoryWriter;
use groupcast_core::trace::{Observation, Observer};
use groupcast_core::{MemberId, Time};

use crate::error::DaemonError;

/// A history that is being written.
#[derive(Clone)]
pub(crate) struct History {
    file: Rc<RefCell<HistoryFile>>,
}

struct HistoryFile {
    path: PathBuf,
    /// None after an error: what follows would not be a history.
    writer: Option<HistoryWriter<BufWriter<File>>>,
    /// When the lines that are not in the file yet must be.
    due: Option<Time>,
    /// Something was written that has no time yet.
    written: bool,
}

impl History {
    /// Lines are in the file this long after what they report; the start and configurations at
    /// once.
    pub(crate) const DELAY: Duration = Duration::from_millis(100);

    /// Goes on at the end of the file at `path`, or begins it.
    pub(crate) fn open(path: &Path, member: MemberId, name: &str) -> Result<Self, DaemonError> {
        let writer =
            HistoryWriter::append(path, member, name).map_err(|source| DaemonError::History {
                path: path.to_owned(),
                source,
            })?;
        let history = Self {
            file: Rc::new(RefCell::new(HistoryFile {
                path: path.to_owned(),
                writer: Some(writer),
                due: None,
                written: false,
            })),
        };
        // A daemon that is killed at once has a history all the same.
        history.flush();
        Ok(history)
    }

    /// The daemon saw something in the bimodal group called `group`.
    pub(crate) fn observe_in(&self, group: &str, observation: &Observation) {
        let mut file = self.file.borrow_mut();
        file.written = true;
        file.attempt(|writer| writer.write_in(group, observation));
    }

    /// Flushes what is due; how long until the next flush.
    pub(crate) fn tend(&self, now: Time) -> Option<Duration> {
        let mut file = self.file.borrow_mut();
        if file.due.is_some_and(|due| due <= now) {
            file.flush();
        }
        if std::mem::take(&mut file.written) {
            file.due = Some(file.due.unwrap_or(now + Self::DELAY));
        }
        file.due.map(|due| due - now)
    }

    /// Writes all lines into the file.
    pub(crate) fn flush(&self) {
        self.file.borrow_mut().flush();
    }
}

impl HistoryFile {
    fn attempt(&mut self, act: impl FnOnce(&mut HistoryWriter<BufWriter<File>>) -> io::Result<()>) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(error) = act(writer) {
            tracing::error!(
                "the history {} ends here, it cannot be written: {error}",
                self.path.display()
            );
            self.writer = None;
        }
    }

    fn flush(&mut self) {
        self.due = None;
        self.written = false;
        self.attempt(HistoryWriter::flush);
    }
}

impl Observer for History {
    fn observe(&mut self, _observer: MemberId, observation: &Observation) {
        let mut file = self.file.borrow_mut();
        file.written = true;
        file.attempt(|writer| writer.write(observation));
        // Configurations are rare, and what they say tells a kill from a history that ends early.
        if matches!(observation, Observation::Configuration { .. }) {
            file.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    #[test]
    fn lines_are_in_the_file_after_the_delay() {
        let path = std::env::temp_dir().join(format!("gc-history-{}.ndjson", std::process::id()));
        let member = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(2),
        };
        let mut history = History::open(&path, member, "a").unwrap();
        history.observe(member, &Observation::Leave);
        let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(history.tend(Time::ZERO), Some(History::DELAY));
        assert_eq!(lines(), 1, "the start");
        assert_eq!(history.tend(Time::from_millis(100)), None);
        assert_eq!(lines(), 2);
        assert_eq!(history.tend(Time::from_millis(200)), None, "nothing new");
        std::fs::remove_file(&path).unwrap();
    }
}
