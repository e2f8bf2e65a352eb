//! The log: its filter, and where lines go, stderr or a file. A line that cannot be written is lost
//! and counted; the daemon goes on.

mod lines;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::OFlags;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, reload};

use self::lines::Lines;

/// The environment variable with the filter of the log, for example `debug` or
/// `warn,groupcast_net=debug`. It takes precedence over the configuration's `log`.
pub const LOG_VARIABLE: &str = "GROUPCAST_LOG";

/// The words for levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The help for a wrong filter.
pub(crate) const FILTER_HELP: &str =
    "use error, warn, info, debug, trace or off, or a list such as warn,groupcast_net=debug";

/// How long [`Log::flush`] waits.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The filter is wrong.
    #[error("{LOG_VARIABLE} is not a filter: {reason}; {FILTER_HELP}")]
    Filter {
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be opened.
    #[error("cannot append log lines to {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system has no room for the log's thread, or for one more open file.
    #[error("cannot set the log up: {0}")]
    Setup(#[source] io::Error),
}

/// A handle to the log of this process, to change it while it is in use.
#[derive(Clone)]
pub struct Log {
    filter: reload::Handle<Targets, Registry>,
    file: Option<LogFile>,
    lines: Lines,
}

/// A file that lines are appended to, and that can be opened again.
#[derive(Clone)]
struct LogFile {
    path: PathBuf,
    open: Arc<Mutex<Arc<File>>>,
}

/// From now on logs to stderr, `info` and above unless `GROUPCAST_LOG` says otherwise. A logger
/// that was set up before stays. See [`log_to`] for the end of the process, and for errors.
pub fn log_to_stderr() -> Result<Log, LogError> {
    log_to(None, None)
}

/// From now on logs to `file`, or to stderr if it is `None`. The filter is that of `GROUPCAST_LOG`,
/// or else `filter`, or else `info`. A logger that was set up before stays. A thread writes the
/// lines: call [`Log::flush`] before the process ends, or the last ones may be lost.
///
/// # Errors
/// If the filter is wrong, the file cannot be opened, or the system has no room for the thread;
/// nothing has changed.
pub fn log_to(filter: Option<&str>, file: Option<&Path>) -> Result<Log, LogError> {
    let (filter, handle) = reload::Layer::new(targets(filter)?);
    let file = file.map(LogFile::open).transpose()?;
    let is_terminal = file.is_none() && io::stderr().is_terminal();
    // Not the standard library's handle: others would wait for its lock while a line is written.
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    let stderr = Arc::new(File::from(stderr.map_err(LogError::Setup)?));
    let destination = file.clone();
    let writer = Lines::start(move || match &destination {
        Some(file) => file.current(),
        None => Arc::clone(&stderr),
    });
    let log = Log {
        filter: handle,
        file,
        lines: writer.map_err(LogError::Setup)?,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(is_terminal)
        .with_target(false)
        .with_writer(log.lines.clone());
    // The logger of an embedding program stays.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init();
    Ok(log)
}

impl Log {
    /// Replaces the filter by that of `GROUPCAST_LOG`, or else `filter`, or else `info`.
    ///
    /// # Errors
    /// If the filter is wrong; nothing has changed.
    pub fn set_filter(&self, filter: Option<&str>) -> Result<(), LogError> {
        let targets = targets(filter)?;
        // If another logger was there first, this handle has no effect.
        let _ = self.filter.reload(targets);
        Ok(())
    }

    /// Waits until the lines so far are written, for a second at most: before the process ends.
    pub fn flush(&self) {
        // What nobody takes cannot be written.
        let _ = self.lines.flush(FLUSH_WITHIN);
    }

    /// Opens the file again, if there is one: lines go to the file that has its path now.
    ///
    /// # Errors
    /// If the file cannot be opened; lines go to the old one.
    pub fn reopen(&self) -> Result<(), LogError> {
        self.file.as_ref().map_or(Ok(()), LogFile::reopen)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|file| &file.path);
        f.debug_struct("Log").field("file", &file).finish()
    }
}

impl LogFile {
    fn open(path: &Path) -> Result<Self, LogError> {
        Ok(Self {
            path: path.to_owned(),
            open: Arc::new(Mutex::new(append(path)?)),
        })
    }

    fn reopen(&self) -> Result<(), LogError> {
        let file = append(&self.path)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }

    fn current(&self) -> Arc<File> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&open)
    }
}

fn append(path: &Path) -> Result<Arc<File>, LogError> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut options = OpenOptions::new();
    // A pipe that nobody reads is an error: to wait for a reader would stop the daemon.
    let options = options.append(true).create(true).custom_flags(flags);
    let opened = options.open(path);
    opened.map(Arc::new).map_err(|source| LogError::File {
        path: path.to_owned(),
        source,
    })
}

/// The filter of the environment, or else `filter`.
fn targets(filter: Option<&str>) -> Result<Targets, LogError> {
    let environment = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let directives = match environment.trim() {
        "" => filter.unwrap_or_default(),
        directives => directives,
    };
    check_filter(directives).map_err(|reason| LogError::Filter { reason })
}

/// Reads a filter.
///
/// # Errors
/// Why it is none, for people.
pub(crate) fn check_filter(directives: &str) -> Result<Targets, String> {
    let directives = match directives.trim() {
        "" => "info",
        directives => directives,
    };
    // A lone word that is no level would be taken for a target: it would turn that one on and all
    // others off.
    let words = directives.split(',').map(str::trim);
    let unknown = words.filter(|word| !word.contains('=') && !word.starts_with("groupcast"));
    for word in unknown {
        if !LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) {
            return Err(format!("`{word}` is no level"));
        }
    }
    directives
        .parse()
        .map_err(|error: ParseError| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error_and_no_wait() {
        let path = std::env::temp_dir().join(format!("gc-log-pipe-{}", std::process::id()));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let text = append(&path).unwrap_err().to_string();
        assert!(text.contains("gc-log-pipe"), "{text}");
        let reader = OpenOptions::new().read(true).write(true).open(&path);
        append(&path).unwrap();
        drop(reader);
        std::fs::remove_file(&path).unwrap();
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
            assert!(check_filter(good).is_ok(), "{good}");
        }
        for bad in ["json", "verbose", "info,json", "groupcast_net=loud"] {
            assert!(check_filter(bad).is_err(), "{bad}");
        }
    }
}
