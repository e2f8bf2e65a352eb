//! The way of log lines from the daemon's thread to a terminal, a pipe or a disk. Each of these may
//! take as long as it likes (a terminal at Ctrl-S takes nothing), and the protocols may not: lines
//! wait in a bounded queue for a thread that writes them. What the queue has no room for, or what
//! cannot be written, is lost and counted; the next line that can be written says how much.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait to be written.
const LINES_WAITING: usize = 4096;
/// The most bytes of them; one line alone may be longer.
const BYTES_WAITING: usize = 1 << 20;
/// While a file has no room, the thread looks this often whether another one is in its place.
const LOOK_UP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// The thread's stack: all of it may be locked into memory.
const STACK: usize = 128 << 10;
/// The time between two tries to put the question whether all is written into a full queue.
const ROOM_PAUSE: Duration = Duration::from_millis(1);

/// The queue, from the side of the threads that log.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    items: SyncSender<Item>,
    /// Bytes of lines that wait.
    waiting: Arc<AtomicUsize>,
    /// Lines that found no room since the last one that did.
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Item {
    /// A line, and how many before it found no room.
    Line(Vec<u8>, u64),
    /// To be dropped when all before it is written.
    Mark(SyncSender<()>),
}

impl Lines {
    /// Starts the thread. `to` says for each line where it goes.
    pub(super) fn start(to: impl FnMut() -> Arc<File> + Send + 'static) -> io::Result<Self> {
        let (items, received) = sync_channel(LINES_WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&waiting);
        thread::Builder::new()
            .name("log".into())
            .stack_size(STACK)
            .spawn(move || write_lines(&received, &of_thread, to))?;
        Ok(Self {
            items,
            waiting,
            lost: Arc::default(),
        })
    }

    /// Queues a line, or counts it as lost. Never waits.
    fn put(&self, line: &[u8]) {
        let waiting = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let has_room = waiting == 0 || waiting + line.len() <= BYTES_WAITING;
        if !has_room
            || self
                .items
                .try_send(Item::Line(line.to_vec(), lost))
                .is_err()
        {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines so far are written or lost, for `within` at most; returns whether they
    /// are.
    pub(super) fn flush(&self, within: Duration) -> bool {
        let end = Instant::now() + within;
        let (mark, reached) = sync_channel(0);
        let mut item = Item::Mark(mark);
        while let Err(error) = self.items.try_send(item) {
            match error {
                TrySendError::Full(back) if Instant::now() < end => item = back,
                _ => return false,
            }
            thread::sleep(ROOM_PAUSE);
        }
        let left = end.saturating_duration_since(Instant::now());
        // It is dropped, and nothing is sent.
        reached.recv_timeout(left) == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    }
}

/// Reports every line as written, so that no caller has an error to handle.
impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Writes what comes, as long as somebody can log.
fn write_lines(items: &Receiver<Item>, waiting: &AtomicUsize, mut to: impl FnMut() -> Arc<File>) {
    let mut unwritten = 0;
    for item in items {
        let (line, lost) = match item {
            Item::Line(line, lost) => (line, lost),
            Item::Mark(mark) => {
                drop(mark);
                continue;
            }
        };
        waiting.fetch_sub(line.len(), Ordering::Relaxed);
        unwritten += lost;
        let written = match unwritten {
            0 => write_all(&mut to, &line),
            count => {
                let note = format!("{count} lines of the log could not be written\n");
                write_all(&mut to, note.as_bytes()).and_then(|()| {
                    unwritten = 0;
                    write_all(&mut to, &line)
                })
            }
        };
        if written.is_err() {
            unwritten += 1;
        }
    }
}

/// Writes all of `line`, and waits for room where the system does not. If `to` names another file
/// meanwhile, all of the line goes there.
fn write_all(to: &mut impl FnMut() -> Arc<File>, line: &[u8]) -> io::Result<()> {
    let mut file = to();
    let mut rest = line;
    while !rest.is_empty() {
        match (&*file).write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // If waiting fails, writing will fail with a better error.
                let _ = poll(&mut [PollFd::new(&*file, PollFlags::OUT)], Some(&LOOK_UP));
                let now = to();
                if !Arc::ptr_eq(&file, &now) {
                    (file, rest) = (now, line);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A log that writes to `file`.
    fn onto(file: impl Into<OwnedFd>) -> Lines {
        let file = Arc::new(File::from(file.into()));
        Lines::start(move || Arc::clone(&file)).unwrap()
    }

    /// Logs more lines than there is room for anywhere; fails if that has to wait.
    fn log_many(lines: &Lines) {
        let (told, done) = sync_channel(1);
        let lines = lines.clone();
        thread::spawn(move || {
            for _ in 0..20_000 {
                lines.put(&[b"x".repeat(299), b"\n".into()].concat());
            }
            told.send(())
        });
        done.recv_timeout(LONG).expect("it never waits");
    }

    #[test]
    fn a_terminal_that_nobody_reads_holds_no_line_up() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let peer = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        let lines = onto(peer);
        log_many(&lines);
        assert!(!lines.flush(Duration::from_millis(10)), "nobody reads it");
        // It is read again: what waits comes, and then how much was lost.
        let reader = thread::spawn(move || {
            let (mut terminal, mut text) = (File::from(terminal), Vec::new());
            let mut part = [0; 4096];
            loop {
                let len = terminal.read(&mut part).unwrap();
                text.extend_from_slice(&part[..len]);
                if text.ends_with(b"again\r\n") {
                    return String::from_utf8(text).unwrap();
                }
            }
        });
        assert!(lines.flush(LONG));
        lines.put(b"again\n");
        let text = reader.join().unwrap();
        let told = text.lines().filter_map(|line| {
            let count = line.strip_suffix(" lines of the log could not be written")?;
            count.parse::<usize>().ok()
        });
        let lost: usize = told.sum();
        assert!(lost > 0, "there is no room for so many");
        assert_eq!(text.matches("x\r\n").count() + lost, 20_000);
    }

    #[test]
    fn a_file_in_the_place_of_one_without_room_takes_the_lines_that_wait() {
        let (unread, reader) = UnixStream::pair().unwrap();
        unread.set_nonblocking(true).unwrap();
        let file = Arc::new(Mutex::new(Arc::new(File::from(OwnedFd::from(unread)))));
        let of_thread = Arc::clone(&file);
        let lines = Lines::start(move || Arc::clone(&of_thread.lock().unwrap())).unwrap();
        log_many(&lines);
        assert!(!lines.flush(Duration::from_millis(10)), "nobody reads it");
        let (renewed, mut renewed_reader) = UnixStream::pair().unwrap();
        *file.lock().unwrap() = Arc::new(File::from(OwnedFd::from(renewed)));
        let read = thread::spawn(move || {
            let mut text = String::new();
            renewed_reader.read_to_string(&mut text).map(|_| text)
        });
        assert!(lines.flush(LONG), "the old one is waited for no longer");
        lines.put(b"again\n");
        assert!(lines.flush(LONG));
        drop((lines, file));
        let text = read.join().unwrap().unwrap();
        assert!(text.ends_with("again\n"), "{}", text.len());
        drop(reader);
    }

    #[test]
    fn what_cannot_be_written_is_lost_and_said_later() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (closed, end) = UnixStream::pair().unwrap();
        drop(end);
        let to_full = onto(full);
        to_full.put(b"line\n");
        assert!(to_full.flush(LONG));
        let to_closed = onto(closed);
        to_closed.put(b"line\n");
        assert!(to_closed.flush(LONG));

        // One that nobody reads, whether the system waits for it or says that it would have to.
        for waits in [true, false] {
            let (unread, mut reader) = UnixStream::pair().unwrap();
            unread.set_nonblocking(!waits).unwrap();
            let lines = onto(unread);
            log_many(&lines);
            let read = thread::spawn(move || {
                let mut text = String::new();
                reader.read_to_string(&mut text).map(|_| text)
            });
            assert!(lines.flush(LONG));
            lines.put(b"again\n");
            assert!(lines.flush(LONG));
            drop(lines);
            let text = read.join().unwrap().unwrap();
            assert!(
                text.ends_with(" lines of the log could not be written\nagain\n"),
                "{}",
                text.len()
            );
        }
    }
}
