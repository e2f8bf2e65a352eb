//! Traces of connections of the bus, in the directory that `--bus-trace` names.
//!
//! A trace has two files at most: `NAME.trace`, which grows to [`PART_MAX`], and `NAME.1.trace`,
//! the former `NAME.trace`. Files are always created, and by the directory's descriptor, so that a
//! link in the directory cannot redirect them. As with histories, the connection writes into a
//! buffer, and the loop flushes it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use groupcast_core::Time;
use groupcast_session::bus::trace::{Head, Item, Trace, TraceRefusal, Tracer, is_trace_name};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::error::DaemonError;

/// The size at which a file is put aside and the next one begun.
const PART_MAX: u64 = 8 << 20;
/// The most traces in the directory. Where there are more, from elsewhere, each can be written
/// anew and no other can begin.
const TRACES_MAX: usize = 32;
/// How long records are buffered at most.
const DELAY: Duration = Duration::from_millis(100);
/// The suffix of the file that grows.
const SUFFIX: &str = ".trace";
/// The suffix of the file that was put aside.
const OLD_SUFFIX: &str = ".1.trace";

/// The directory of traces, and the open ones.
#[derive(Clone, Debug)]
pub(crate) struct Traces(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    directory: Rc<OwnedFd>,
    /// The open traces, by name.
    open: Vec<(String, Rc<RefCell<TraceFile>>)>,
    /// The names of traces with files in the directory, [`TRACES_MAX`] of them at most.
    names: BTreeSet<String>,
    /// When buffered records have to be flushed.
    due: Option<Time>,
    part_max: u64,
}

impl Traces {
    /// The traces in the directory at `path`, which must exist.
    pub(crate) fn open(path: &Path) -> Result<Self, DaemonError> {
        let failed = |error: Errno| DaemonError::Traces {
            path: path.to_owned(),
            source: error.into(),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let names = names_in(&directory).map_err(failed)?;
        if names.len() >= TRACES_MAX {
            tracing::warn!(
                "{TRACES_MAX} traces or more are in {}, as many as may be: clients begin no others before some are removed",
                path.display()
            );
        }
        Ok(Self(Rc::new(RefCell::new(Inner {
            directory: Rc::new(directory),
            open: Vec::new(),
            names,
            due: None,
            part_max: PART_MAX,
        }))))
    }

    /// Flushes traces that are due; returns whether one has ended by an error.
    pub(crate) fn tend(&self, now: Time) -> bool {
        let mut inner = self.0.borrow_mut();
        let mut failed = false;
        if inner.due.is_some_and(|due| due <= now) {
            inner.due = None;
            for (_, file) in &inner.open {
                let mut file = file.borrow_mut();
                if file.is_dirty {
                    failed |= file.flush().is_err();
                }
            }
        }
        let is_dirty = inner.open.iter().any(|(_, file)| file.borrow().is_dirty);
        if is_dirty && inner.due.is_none() {
            inner.due = Some(now + DELAY);
        }
        failed
    }

    /// When the next flush is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.0.borrow().due
    }
}

impl Tracer for Traces {
    fn begin(&mut self, name: &str, client: &str) -> Result<Box<dyn Trace>, TraceRefusal> {
        let mut inner = self.0.borrow_mut();
        if inner.open.iter().any(|(open, _)| open == name) {
            return Err(TraceRefusal::InUse);
        }
        let system = |error: io::Error| {
            TraceRefusal::System(format!("the file of the trace cannot be made: {error}"))
        };
        if inner.names.len() >= TRACES_MAX && !has_files(&inner.directory, name) {
            // The operator may have removed some.
            inner.names = names_in(&inner.directory).map_err(|error| system(error.into()))?;
            if inner.names.len() >= TRACES_MAX {
                return Err(TraceRefusal::TooMany(TRACES_MAX));
            }
        }
        let start = SystemTime::now().duration_since(UNIX_EPOCH);
        let head = Head {
            name: name.to_owned(),
            client: client.to_owned(),
            part: 0,
            start: start.unwrap_or_default(),
        };
        let file = TraceFile::begin(inner.directory.clone(), head, inner.part_max);
        let file = Rc::new(RefCell::new(file.map_err(system)?));
        if inner.names.len() < TRACES_MAX {
            inner.names.insert(name.to_owned());
        }
        inner.open.push((name.to_owned(), file.clone()));
        Ok(Box::new(FileTrace {
            file,
            traces: self.clone(),
        }))
    }
}

/// The names of traces with files in the directory; [`TRACES_MAX`] of them at most.
fn names_in(directory: &OwnedFd) -> Result<BTreeSet<String>, Errno> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy();
        let name = file.strip_suffix(OLD_SUFFIX).or(file.strip_suffix(SUFFIX));
        if let Some(name) = name.filter(|name| is_trace_name(name)) {
            names.insert(name.to_owned());
        }
        if names.len() >= TRACES_MAX {
            break;
        }
    }
    Ok(names)
}

/// Whether the trace has a file in the directory, whatever stands at its name.
fn has_files(directory: &OwnedFd, name: &str) -> bool {
    [SUFFIX, OLD_SUFFIX].iter().any(|suffix| {
        let file = format!("{name}{suffix}");
        rustix::fs::statat(directory, file, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    })
}

/// A connection's trace; it ends on drop.
#[derive(Debug)]
struct FileTrace {
    file: Rc<RefCell<TraceFile>>,
    traces: Traces,
}

impl Trace for FileTrace {
    fn take(&mut self, item: Item<'_>) {
        self.file.borrow_mut().take(item);
    }

    fn failure(&self) -> Option<String> {
        self.file.borrow().failure.clone()
    }
}

impl Drop for FileTrace {
    fn drop(&mut self) {
        // The client has gone, so an error here can be told to nobody.
        let _ = self.file.borrow_mut().flush();
        let mut inner = self.traces.0.borrow_mut();
        inner.open.retain(|(_, file)| !Rc::ptr_eq(file, &self.file));
    }
}

/// The files of a trace.
#[derive(Debug)]
struct TraceFile {
    directory: Rc<OwnedFd>,
    head: Head,
    begun: Instant,
    /// `None` after an error: later records without the lost ones would be no trace.
    writer: Option<BufWriter<Counted>>,
    failure: Option<String>,
    part_max: u64,
    /// Whether records may be in the buffer.
    is_dirty: bool,
}

/// A file, and how many bytes were written to it.
#[derive(Debug)]
struct Counted {
    file: File,
    len: u64,
}

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.file.write(bytes)?;
        self.len += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TraceFile {
    fn begin(directory: Rc<OwnedFd>, head: Head, part_max: u64) -> io::Result<Self> {
        let mut file = Self {
            directory,
            head,
            begun: Instant::now(),
            writer: None,
            failure: None,
            part_max,
            is_dirty: false,
        };
        file.next_part()?;
        if let Err(error) = file.flush() {
            file.undo();
            return Err(error);
        }
        Ok(file)
    }

    /// The names of the current file, and of the one that was put aside.
    fn names(&self) -> (String, String) {
        let name = &self.head.name;
        (format!("{name}{SUFFIX}"), format!("{name}{OLD_SUFFIX}"))
    }

    /// Nothing could be written: removes the new file, and brings back the one that was put aside
    /// for it.
    fn undo(&mut self) {
        let (new, old) = self.names();
        self.writer = None;
        let removed = rustix::fs::unlinkat(&self.directory, &new, AtFlags::empty());
        if removed.is_ok() {
            // If there was no file before, this fails, and there is none now.
            let _ = rustix::fs::renameat(&self.directory, &old, &self.directory, &new);
        }
    }

    /// Puts the current file aside, if there is one, and begins another.
    fn next_part(&mut self) -> io::Result<()> {
        if let Some(mut before) = self.writer.take() {
            before.flush()?;
        }
        self.head.part += 1;
        let (new, old) = self.names();
        // A rename over an existing file makes some file systems write the new one out at once,
        // which takes several times as long as removing the old file first.
        match rustix::fs::unlinkat(&self.directory, &old, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let is_aside = match rustix::fs::renameat(&self.directory, &new, &self.directory, &old) {
            Ok(()) => true,
            Err(Errno::NOENT) => false,
            Err(error) => return Err(error.into()),
        };
        // If there is a link at this name by now, this is an error.
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = rustix::fs::openat(&self.directory, &new, flags, mode);
        if opened.is_err() && is_aside {
            let _ = rustix::fs::renameat(&self.directory, &old, &self.directory, &new);
        }
        let file = File::from(opened?);
        let mut writer = BufWriter::new(Counted { file, len: 0 });
        let mut line = Vec::new();
        self.head.write(&mut line);
        writer.write_all(&line)?;
        self.writer = Some(writer);
        self.is_dirty = true;
        Ok(())
    }

    fn take(&mut self, item: Item<'_>) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        self.is_dirty = true;
        let written = item.write(writer, self.begun.elapsed());
        let len = writer.get_ref().len + writer.buffer().len() as u64;
        let written = written.and_then(|()| match len >= self.part_max {
            true => self.next_part(),
            false => Ok(()),
        });
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.is_dirty = false;
        let flushed = self.writer.as_mut().map_or(Ok(()), BufWriter::flush);
        if let Err(error) = &flushed {
            self.fail(error);
        }
        flushed
    }

    fn fail(&mut self, error: &io::Error) {
        self.failure = Some(error.to_string());
        self.is_dirty = false;
        if let Some(writer) = self.writer.take() {
            // `into_parts` does not try again to write the buffer.
            let _ = writer.into_parts();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::path::PathBuf;

    use groupcast_session::bus::trace::{Reader, Side};

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("gc-trace-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn item(bytes: &[u8]) -> Item<'_> {
        Item {
            side: Side::Sent,
            number: 2,
            client: "c1@h",
            bytes,
        }
    }

    /// How many records a file has.
    fn records(path: &Path) -> (u64, usize) {
        let text = fs::read(path).unwrap();
        let mut reader = Reader::new(&text).unwrap();
        let mut count = 0;
        while reader.next_record().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(reader.left(), 0);
        (reader.head().part, count)
    }

    #[test]
    fn a_trace_is_in_its_file_after_the_delay_and_only_its_user_reads_it() {
        let directory = directory("delay");
        let mut traces = Traces::open(&directory).unwrap();
        let mut trace = traces.begin("t", "c1@h").unwrap();
        assert!(matches!(
            traces.begin("t", "c2@h"),
            Err(TraceRefusal::InUse)
        ));
        let path = directory.join("t.trace");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(records(&path), (1, 0), "its head at once");
        trace.take(item(b"one\n"));
        assert!(!traces.tend(Time::ZERO));
        assert_eq!(traces.due(), Some(Time::ZERO + DELAY));
        assert_eq!(records(&path), (1, 0));
        assert!(!traces.tend(Time::ZERO + DELAY));
        assert_eq!(records(&path), (1, 1));
        assert_eq!(traces.due(), None);
        trace.take(item(b"two\n"));
        drop(trace);
        assert_eq!(records(&path), (1, 2), "it ends with its connection");

        // Another under the same name puts it aside.
        drop(traces.begin("t", "c1@h").unwrap());
        assert_eq!(records(&path), (1, 0));
        assert_eq!(records(&directory.join("t.1.trace")), (1, 2));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_long_trace_takes_two_files_and_no_more() {
        let directory = directory("long");
        let mut traces = Traces::open(&directory).unwrap();
        traces.0.borrow_mut().part_max = 10_000;
        let mut trace = traces.begin("t", "c1@h").unwrap();
        for _ in 0..1_000 {
            trace.take(item(&[b'x'; 100]));
        }
        assert_eq!(trace.failure(), None);
        drop(trace);
        let (part, rest) = records(&directory.join("t.trace"));
        let (before, full) = records(&directory.join("t.1.trace"));
        assert_eq!(before + 1, part);
        assert!((70..=90).contains(&full), "{full} of 123 bytes each");
        assert_eq!((part as usize - 1) * full + rest, 1_000);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn links_are_not_followed() {
        let directory = directory("links");
        let precious = directory.join("precious");
        fs::write(&precious, "precious").unwrap();
        for name in ["t.trace", "t.1.trace"] {
            symlink(&precious, directory.join(name)).unwrap();
        }
        let mut traces = Traces::open(&directory).unwrap();
        for _ in 0..3 {
            let mut trace = traces.begin("t", "c1@h").unwrap();
            trace.take(item(b"evil\n"));
            drop(trace);
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        let file = fs::symlink_metadata(directory.join("t.trace")).unwrap();
        assert!(file.is_file());

        // What cannot make room is left.
        fs::write(directory.join("d.trace"), "").unwrap();
        fs::create_dir(directory.join("d.1.trace")).unwrap();
        assert!(matches!(
            traces.begin("d", "c1@h"),
            Err(TraceRefusal::System(_))
        ));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn there_are_so_many_traces_until_the_operator_removes_some() {
        let directory = directory("many");
        let mut traces = Traces::open(&directory).unwrap();
        for number in 0..TRACES_MAX {
            drop(traces.begin(&format!("t{number}"), "c1@h").unwrap());
        }
        let mut again = Traces::open(&directory).unwrap();
        for traces in [&mut traces, &mut again] {
            let refusal = traces.begin("more", "c1@h").unwrap_err();
            assert_eq!(refusal, TraceRefusal::TooMany(TRACES_MAX));
            drop(traces.begin("t3", "c1@h").unwrap());
        }
        fs::remove_file(directory.join("t5.trace")).unwrap();
        drop(traces.begin("more", "c1@h").unwrap());
        fs::remove_dir_all(directory).unwrap();
    }

    /// Which of them are found first depends on the file system.
    #[test]
    fn where_there_are_more_traces_each_can_be_written_anew() {
        let directory = directory("more");
        let names: Vec<_> = (0..2 * TRACES_MAX).map(|it| format!("t{it}")).collect();
        for (number, name) in names.iter().enumerate() {
            let suffix = [SUFFIX, OLD_SUFFIX][number % 2];
            fs::write(directory.join(format!("{name}{suffix}")), "").unwrap();
        }
        let mut traces = Traces::open(&directory).unwrap();
        for name in &names {
            drop(traces.begin(name, "c1@h").unwrap());
        }
        let refusal = traces.begin("other", "c1@h").unwrap_err();
        assert_eq!(refusal, TraceRefusal::TooMany(TRACES_MAX));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_full_disk_ends_a_trace_with_its_reason() {
        let directory = directory("full");
        let traces = Traces::open(&directory).unwrap();
        let mut trace = traces.clone().begin("t", "c1@h").unwrap();
        {
            let inner = traces.0.borrow_mut();
            let mut file = inner.open[0].1.borrow_mut();
            let full = fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap();
            file.writer = Some(BufWriter::new(Counted { file: full, len: 0 }));
        }
        trace.take(item(b"one\n"));
        assert_eq!(trace.failure(), None, "it is buffered");
        assert!(!traces.tend(Time::ZERO));
        assert!(traces.tend(Time::ZERO + DELAY));
        assert!(trace.failure().unwrap().contains("No space left"));
        trace.take(item(b"two\n"));
        assert_eq!(traces.due(), None);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_trace_that_cannot_begin_leaves_the_one_before_it() {
        let directory = directory("undo");
        let mut traces = Traces::open(&directory).unwrap();
        let mut trace = traces.begin("t", "c1@h").unwrap();
        trace.take(item(b"one\n"));
        drop(trace);
        let before = fs::read(directory.join("t.trace")).unwrap();
        let head = Head {
            name: "t".to_owned(),
            client: "c2@h".to_owned(),
            part: 0,
            start: Duration::ZERO,
        };
        let inner = traces.0.borrow();
        let mut file = TraceFile::begin(inner.directory.clone(), head, inner.part_max).unwrap();
        assert!(directory.join("t.1.trace").exists());
        file.undo();
        assert_eq!(fs::read(directory.join("t.trace")).unwrap(), before);
        assert!(!directory.join("t.1.trace").exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_directory_that_is_none_is_an_error() {
        let directory = directory("none");
        assert!(Traces::open(&directory.join("missing")).is_err());
        fs::write(directory.join("file"), "").unwrap();
        let error = Traces::open(&directory.join("file")).unwrap_err();
        assert!(error.to_string().contains("Not a directory"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }
}
