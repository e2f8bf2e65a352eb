//! The history of this daemon, in the file that `--history` names.
//!
//! The node's observer and the loop share the writer: the observer writes lines, the loop flushes
//! them. The digest of a long payload is made in parts, one in each turn of the loop, so that a
//! message of 64 MiB does not keep the protocols waiting. The lines behind it wait for the digest,
//! so that they stay in order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::HistoryWriter;
use groupcast_check::ndjson::OrderedBy;
use groupcast_core::trace::{Digest, Observation, Observer, digest};
use groupcast_core::{Event, MemberId, MessageId, Node, Protocol, Service, Time};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::DaemonError;
use crate::instance::is_long;

/// A history that is being written.
#[derive(Clone)]
pub(crate) struct History {
    file: Rc<RefCell<HistoryFile>>,
}

struct HistoryFile {
    path: PathBuf,
    /// `None` after an error: later lines without the lost ones would be no history.
    writer: Option<HistoryWriter<BufWriter<File>>>,
    /// When the buffered lines have to be flushed.
    due: Option<Time>,
    /// Lines were written since `due` was last set.
    written: bool,
    /// Lines that wait for a digest; the first one waits for its own.
    waiting: VecDeque<Line>,
    /// Their payload bytes that are not digested yet.
    undigested: usize,
}

/// A line that is not written yet.
struct Line {
    /// The name of its bimodal group, if it is of one.
    group: Option<String>,
    observation: Observation,
    /// The payload whose digest it lacks, if it lacks one.
    undigested: Option<Undigested>,
}

struct Undigested {
    /// The rest of the payload.
    payload: Bytes,
    /// The digest of the bytes before it.
    digest: Digest,
}

impl History {
    /// How long lines are buffered at most; the start and configurations are written at once.
    pub(crate) const DELAY: Duration = Duration::from_millis(100);
    /// The longest payload that is digested at once.
    pub(crate) const AT_ONCE: usize = 256 << 10;
    /// The most bytes that are digested in a turn of the loop.
    const SHARE: usize = 1 << 20;
    /// The most bytes that wait for their digests; beyond it the oldest are digested at once.
    const UNDIGESTED_MAX: usize = 256 << 20;

    /// Appends to the history at `path`, or begins it. `order` is the order of the daemon `name`.
    pub(crate) fn open(
        path: &Path,
        member: MemberId,
        name: &str,
        order: OrderedBy<'_>,
    ) -> Result<Self, DaemonError> {
        let mut options = OpenOptions::new();
        let file = open_own(options.create(true).mode(0o600), path);
        let writer = file.and_then(|file| HistoryWriter::append_to(file, member, name, order));
        let writer = writer.map_err(|source| DaemonError::History {
            path: path.to_owned(),
            source,
        })?;
        let history = Self {
            file: Rc::new(RefCell::new(HistoryFile {
                path: path.to_owned(),
                writer: Some(writer),
                due: None,
                written: false,
                waiting: VecDeque::new(),
                undigested: 0,
            })),
        };
        // Even a daemon that is killed right after its start has a history.
        history.file.borrow_mut().flush();
        Ok(history)
    }

    /// Writes an observation in the bimodal group called `group`.
    pub(crate) fn observe_in(&self, group: &str, observation: &Observation) {
        let mut file = self.file.borrow_mut();
        file.take(Some(group), observation, None);
    }

    /// Writes an observation of a message with `payload`, whose digest `observation` lacks.
    pub(crate) fn observe_message(
        &self,
        group: Option<&str>,
        observation: &Observation,
        payload: &Bytes,
    ) {
        let mut file = self.file.borrow_mut();
        file.take(group, observation, Some(payload.clone()));
        while file.undigested > Self::UNDIGESTED_MAX {
            file.digest(Self::SHARE);
        }
    }

    /// Notes that the daemon has joined the ring with the top `ring`, as `member`. The ring has a
    /// history of its own.
    pub(crate) fn joined(&self, ring: &str, member: MemberId) {
        let mut file = self.file.borrow_mut();
        file.attempt(|writer| writer.write_joined(ring, member));
        file.flush();
    }

    /// Writes the line of a delivered long message, whose digest takes several turns. The node's
    /// observer writes all other lines.
    pub(crate) fn observe_long(&self, event: &Event) {
        if let Event::Deliver(delivery) = event
            && is_long(&delivery.payload)
        {
            let observation = Observation::Deliver {
                id: delivery.id,
                service: delivery.service,
                place: delivery.place,
                digest: 0,
            };
            self.observe_message(None, &observation, &delivery.payload);
        }
    }

    /// Writes the line of a message that the member of `node` has submitted to its order.
    pub(crate) fn observe_submission<P: Protocol>(
        &self,
        node: &mut Node<P>,
        id: MessageId,
        service: Service,
        payload: &Bytes,
    ) {
        let submission = submission(id, service, payload);
        match is_long(payload) {
            true => self.observe_message(None, &submission, payload),
            false => node.observe(&submission),
        }
    }

    /// Digests a part of the waiting payloads, and flushes lines that are due. Returns how long
    /// until the next call.
    pub(crate) fn tend(&self, now: Time) -> Option<Duration> {
        let mut file = self.file.borrow_mut();
        file.digest(Self::SHARE);
        if file.due.is_some_and(|due| due <= now) {
            file.flush();
        }
        if std::mem::take(&mut file.written) {
            file.due = Some(file.due.unwrap_or(now + Self::DELAY));
        }
        match file.waiting.is_empty() {
            true => file.due.map(|due| due - now),
            false => Some(Duration::ZERO),
        }
    }

    /// For `groupcast status`: the file, and whether it is still written.
    pub(crate) fn status(&self) -> serde_json::Value {
        let file = self.file.borrow();
        let path = file.path.to_string_lossy();
        serde_json::json!({"path": path, "written": file.writer.is_some()})
    }

    /// Writes and flushes all lines, at the end of the daemon.
    pub(crate) fn finish(&self) {
        let mut file = self.file.borrow_mut();
        file.digest(usize::MAX);
        file.flush();
    }
}

/// Opens the file of a history with `options`, to read and to append. Refuses a file of another
/// user, as `recv` refuses a spool of another: who owns it would choose what it says. A daemon of
/// root follows no link in the path's last component: whoever may write to the directory would
/// choose where root writes.
pub(crate) fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let user = rustix::process::geteuid();
    let flags = match user.is_root() {
        true => OFlags::NOFOLLOW,
        false => OFlags::empty(),
    };
    let options = options.read(true).append(true);
    let opened = options.custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::LOOP.raw_os_error() => {
            let message = "it is a link, and a daemon of root follows none: name the file itself";
            io::Error::new(io::ErrorKind::PermissionDenied, message)
        }
        _ => error,
    })?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() != user.as_raw() {
        let message = format!(
            "it belongs to user {}, and the daemon is user {}: `chown` it to the daemon's user",
            metadata.uid(),
            user.as_raw()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(file)
}

impl HistoryFile {
    /// Writes a line, or puts it behind the lines that wait.
    fn take(&mut self, group: Option<&str>, observation: &Observation, payload: Option<Bytes>) {
        if self.waiting.is_empty() && payload.is_none() {
            return self.write(group, observation);
        }
        self.undigested += payload.as_ref().map_or(0, Bytes::len);
        self.waiting.push_back(Line {
            group: group.map(str::to_owned),
            observation: observation.clone(),
            undigested: payload.map(|payload| Undigested {
                payload,
                digest: Digest::default(),
            }),
        });
    }

    /// Digests up to `share` bytes of waiting payloads, and writes the lines that are complete.
    fn digest(&mut self, mut share: usize) {
        while let Some(line) = self.waiting.front_mut() {
            if let Some(Undigested { payload, digest }) = &mut line.undigested {
                let part = payload.split_to(payload.len().min(share));
                digest.update(&part);
                self.undigested -= part.len();
                share -= part.len();
                if !payload.is_empty() {
                    return;
                }
                set_digest(&mut line.observation, digest.value());
            }
            if let Some(line) = self.waiting.pop_front() {
                self.write(line.group.as_deref(), &line.observation);
            }
        }
    }

    fn write(&mut self, group: Option<&str>, observation: &Observation) {
        self.written = true;
        self.attempt(|writer| match group {
            Some(group) => writer.write_in(group, observation),
            None => writer.write(observation),
        });
        // Configurations are rare, and a reader needs them to tell a killed daemon from a history
        // that ends early.
        if matches!(observation, Observation::Configuration { .. }) {
            self.flush();
        }
    }

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

/// Puts the digest of a message's payload into its line.
fn set_digest(observation: &mut Observation, made: u64) {
    if let Observation::Submit { digest, .. } | Observation::Deliver { digest, .. } = observation {
        *digest = made;
    }
}

/// The observation of a submitted message; without the digest if the message is long.
pub(crate) fn submission(id: MessageId, service: Service, payload: &Bytes) -> Observation {
    Observation::Submit {
        id,
        service,
        digest: match is_long(payload) {
            true => 0,
            false => digest(payload),
        },
    }
}

impl Observer for History {
    fn observe(&mut self, _observer: MemberId, observation: &Observation) {
        let mut file = self.file.borrow_mut();
        file.take(None, observation, None);
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::trace::digest;
    use groupcast_core::{Incarnation, MessageId, NodeId, Service};

    use super::*;

    const MEMBER: MemberId = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(2),
    };

    fn open(name: &str) -> (PathBuf, History) {
        let file = format!("gc-history-{}-{name}.ndjson", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        let order = OrderedBy {
            name: "ring",
            contract: groupcast_core::Contract::Ordered,
            ring: None,
        };
        let history = History::open(&path, MEMBER, "a", order).unwrap();
        (path, history)
    }

    /// The file can be read by its owner alone, and whoever may write to the directory neither
    /// chooses the file in which root writes, nor who may read it.
    #[test]
    fn a_daemon_of_root_writes_into_no_file_that_others_chose() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (path, history) = open("root");
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(history);
        let directory = path.with_extension("d");
        std::fs::create_dir_all(&directory).unwrap();
        let [link, foreign] = ["link", "foreign"].map(|name| directory.join(name));
        std::os::unix::fs::symlink(directory.join("planted"), &link).unwrap();
        std::fs::write(&foreign, "").unwrap();
        std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
        let refused = |path: &PathBuf| {
            let mut options = OpenOptions::new();
            let opened = open_own(options.create(true).mode(0o600), path);
            opened.unwrap_err().to_string()
        };
        let said = [&link, &foreign].map(refused);
        assert!(said[0].contains("is a link"), "{}", said[0]);
        assert!(said[1].contains("belongs to user 65534"), "{}", said[1]);
        assert!(!directory.join("planted").exists());
        std::fs::remove_dir_all(&directory).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_long_payload_is_digested_in_parts_and_the_lines_behind_it_wait() {
        let (path, mut history) = open("parts");
        let payload: Bytes = (0..3 * History::SHARE + 5)
            .map(|at| (at % 251) as u8)
            .collect::<Vec<u8>>()
            .into();
        let id = |number| MessageId {
            sender: MEMBER,
            number,
        };
        let submit = |number, digest| Observation::Submit {
            id: id(number),
            service: Service::Agreed,
            digest,
        };
        history.observe_message(None, &submit(1, 0), &payload);
        history.observe(MEMBER, &submit(2, 7));
        let lines = || std::fs::read_to_string(&path).unwrap();
        for _ in 0..3 {
            assert_eq!(history.tend(Time::ZERO), Some(Duration::ZERO));
        }
        assert_eq!(history.tend(Time::ZERO), Some(History::DELAY));
        history.finish();
        let text = lines();
        let [_, first, second] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        assert!(
            first.contains(&format!("{:016x}", digest(&payload))),
            "{first}"
        );
        assert!(second.contains("\"number\":2"), "{second}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_history_that_cannot_be_written_has_ended_and_says_so() {
        let (path, history) = open("ended");
        assert_eq!(history.status()["written"], true);
        let mut file = history.file.borrow_mut();
        file.attempt(|_| Err(io::ErrorKind::StorageFull.into()));
        drop(file);
        assert_eq!(history.status()["written"], false);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn lines_are_in_the_file_after_the_delay() {
        let (path, mut history) = open("delay");
        let member = MEMBER;
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
