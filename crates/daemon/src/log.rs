//! Where log lines go: stderr, filtered by `GROUPCAST_LOG`. A line that cannot be written is lost,
//! and nothing else.

use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The environment variable that says what is logged, for example `debug` or
/// `warn,groupcast_net=debug`.
pub const LOG_VARIABLE: &str = "GROUPCAST_LOG";

/// The words for how much is logged.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// `GROUPCAST_LOG` is not a filter.
#[derive(Debug, thiserror::Error)]
#[error(
    "{LOG_VARIABLE} is not a filter: {reason}; use error, warn, info, debug, trace or off, or a list such as \
     warn,groupcast_net=debug"
)]
pub struct LogError {
    reason: String,
}

/// From now on logs to stderr; `info` and above unless `GROUPCAST_LOG` says otherwise. A logger
/// that is set up already stays.
pub fn log_to_stderr() -> Result<(), LogError> {
    let directives = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let filter = filter(&directives)?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Lossy::new(io::stderr()))
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    // An embedding program may have its own logger: it stays.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init();
    Ok(())
}

fn filter(directives: &str) -> Result<Targets, LogError> {
    let directives = match directives.trim() {
        "" => "info",
        directives => directives,
    };
    // A word alone would be taken for a part of the program of which all is logged, and nothing of
    // all others.
    let words = directives.split(',').map(str::trim);
    let unknown = words.filter(|word| !word.contains('=') && !word.starts_with("groupcast"));
    for word in unknown {
        if !LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) {
            return Err(LogError {
                reason: format!("`{word}` is no level"),
            });
        }
    }
    directives.parse().map_err(|error: ParseError| LogError {
        reason: error.to_string(),
    })
}

/// How many bytes a pipe takes at once if it takes any (POSIX's PIPE_BUF).
const AT_ONCE: usize = 4096;

/// Lines that were lost since the last one that was written.
static LOST: AtomicU64 = AtomicU64::new(0);

/// A writer of lines that loses those which cannot be written at once: to a closed pipe, to one
/// that is not read, to a full disk. What it is asked to write it calls written, so that no caller
/// has an error to handle.
struct Lossy<W> {
    to: W,
}

impl<W: Write + AsFd> Lossy<W> {
    fn new(to: W) -> Self {
        Self { to }
    }

    /// Whether a part of a line can be written without waiting.
    fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.to, PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        matches!(poll(&mut fds, Some(&now)), Ok(1)) && fds[0].revents().contains(PollFlags::OUT)
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        let lost = LOST.load(Ordering::Relaxed);
        if lost > 0 {
            let note = format!("{lost} lines of the log could not be written\n");
            self.write_ready(note.as_bytes())?;
            LOST.store(0, Ordering::Relaxed);
        }
        line.chunks(AT_ONCE)
            .try_for_each(|part| self.write_ready(part))
    }

    fn write_ready(&mut self, part: &[u8]) -> io::Result<()> {
        match self.is_ready() {
            true => self.to.write_all(part),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<W: Write + AsFd> Write for Lossy<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.try_write(line).is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_lost_and_said_later() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut to_full = Lossy::new(full);
        assert_eq!(to_full.write(b"line\n").unwrap(), 5);

        let (closed, end) = UnixStream::pair().unwrap();
        drop(end);
        assert_eq!(Lossy::new(closed).write(b"line\n").unwrap(), 5);

        let (unread, end) = UnixStream::pair().unwrap();
        let mut to_unread = Lossy::new(unread);
        let line = [b'x'; 1000];
        for _ in 0..10_000 {
            assert_eq!(
                to_unread.write(&line).unwrap(),
                line.len(),
                "it never waits"
            );
        }
        drop(end);

        let (mut reader, read) = UnixStream::pair().unwrap();
        Lossy::new(read).write_all(b"again\n").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(
            text.contains(" lines of the log could not be written\nagain\n"),
            "{text}"
        );
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for good in [
            "",
            "debug",
            "WARN",
            "warn,groupcast_net=debug",
            "groupcast_net",
            "off",
        ] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["json", "verbose", "info,json", "groupcast_net=loud"] {
            let error = filter(bad).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("use error, warn, info"), "{error}");
        }
    }
}
