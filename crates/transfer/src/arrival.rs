//! The command that a receiver runs when a transfer is in place.
//!
//! Only the receiver's user chooses it: no text of a sender becomes a part of its arguments. The
//! sender's name and label are in the environment, as text.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_core::text::printable;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::spool::{Spool, Whereabouts};

/// A command for each transfer that is in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnArrival {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<OsString>,
    /// How long it may run. After that it and its children are killed, and it counts as failed.
    pub limit: Duration,
}

/// A command that is ready to be run.
#[derive(Debug)]
pub(crate) struct ArrivalCommand {
    pub(crate) on_arrival: OnArrival,
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl ArrivalCommand {
    /// How often to check whether it has ended.
    const LOOK: Duration = Duration::from_millis(20);

    /// Runs the command in the target directory of `spool`, wherever that is now, and waits for its
    /// end. Its output goes to the standard error.
    ///
    /// # Errors
    /// If it cannot be run, fails or takes too long; for people.
    pub(crate) fn run(&self, spool: &Spool) -> Result<(), String> {
        let failed = |problem: String| format!("it is in place, but the command {problem}");
        let Some((program, arguments)) = self.on_arrival.command.split_first() else {
            return Ok(());
        };
        let name = printable(program.as_encoded_bytes());
        let Whereabouts { way, path } = spool.whereabouts();
        let child = io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .and_then(|stderr| {
                Command::new(program)
                    .args(arguments)
                    .envs(self.environment.iter().map(|(name, value)| (name, value)))
                    .env("GROUPCAST_DIR", path)
                    .current_dir(way)
                    .stdin(Stdio::null())
                    .stdout(stderr)
                    .process_group(0)
                    .spawn()
            });
        let mut child =
            child.map_err(|error| failed(format!("cannot be run: `{name}`: {error}")))?;
        match wait(&mut child, self.on_arrival.limit) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(failed(format!("failed: {status}"))),
            Ok(None) => Err(failed(format!(
                "was killed after {} s",
                self.on_arrival.limit.as_secs_f64()
            ))),
            Err(error) => Err(failed(format!("cannot be waited for: {error}"))),
        }
    }
}

/// How `child` ended; `None` if it was killed at its limit.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(ArrivalCommand::LOOK);
    }
    // It leads its group: its children go with it.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    Ok((status.signal() != Some(Signal::KILL.as_raw())).then_some(status))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::manifest::Limits;
    use crate::scratch::Scratch;

    fn run(scratch: &Scratch, words: &[&str], limit: Duration) -> Result<(), String> {
        let spool = Spool::open(&scratch.path(""), &Limits::default(), false).unwrap();
        run_in(&spool, words, limit)
    }

    fn run_in(spool: &Spool, words: &[&str], limit: Duration) -> Result<(), String> {
        let command = ArrivalCommand {
            on_arrival: OnArrival {
                command: words.iter().map(OsString::from).collect(),
                limit,
            },
            environment: vec![("GROUPCAST_LABEL", "a; touch b".into())],
        };
        command.run(spool)
    }

    #[test]
    fn a_command_gets_its_words_as_they_are_and_its_failure_is_told() {
        let scratch = Scratch::new();
        let long = Duration::from_secs(10);
        let script = "printf '%s' \"$1 $GROUPCAST_LABEL\" > said";
        run(&scratch, &["sh", "-c", script, "sh", "$HOME;"], long).unwrap();
        let said = fs::read_to_string(scratch.path("said")).unwrap();
        assert_eq!(said, "$HOME; a; touch b");
        let failed = run(&scratch, &["sh", "-c", "exit 3"], long).unwrap_err();
        assert!(
            failed.contains("in place") && failed.contains("exit status: 3"),
            "{failed}"
        );
        let missing = run(&scratch, &["/no/such/program"], long).unwrap_err();
        assert!(
            missing.contains("cannot be run: `/no/such/program`: "),
            "{missing}"
        );
    }

    #[test]
    fn a_command_runs_where_the_files_are_though_their_directory_was_moved() {
        let scratch = Scratch::new();
        let (out, moved) = (scratch.path("out"), scratch.path("moved"));
        let spool = Spool::open(&out, &Limits::default(), false).unwrap();
        let script = "printf '%s' \"$GROUPCAST_DIR\" > said";
        let say = || run_in(&spool, &["sh", "-c", script], Duration::from_secs(10)).unwrap();
        say();
        let said = |in_it: &PathBuf| fs::read_to_string(in_it.join("said")).unwrap();
        assert_eq!(PathBuf::from(said(&out)), out);
        fs::rename(&out, &moved).unwrap();
        fs::create_dir(&out).unwrap();
        say();
        assert!(!out.join("said").exists(), "another directory is there now");
        assert_eq!(PathBuf::from(said(&moved)), moved);
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_its_children() {
        let scratch = Scratch::new();
        let script = "sleep 1000 & echo $! > pid; wait";
        let words = ["sh", "-c", script];
        let killed = run(&scratch, &words, Duration::from_secs(1)).unwrap_err();
        assert!(killed.contains("killed after 1 s"), "{killed}");
        let pid = fs::read_to_string(scratch.path("pid")).unwrap();
        let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        // Whoever adopts it may take a while to reap it.
        let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        let begun = Instant::now();
        while !is_gone() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it sleeps on");
            thread::sleep(ArrivalCommand::LOOK);
        }
    }

    #[test]
    fn a_command_that_ends_at_its_limit_has_ended() {
        let mut child = Command::new("true").process_group(0).spawn().unwrap();
        // It has ended, and nobody has looked.
        thread::sleep(Duration::from_millis(500));
        let status = wait(&mut child, Duration::ZERO).unwrap();
        assert!(status.is_none_or(|status| status.success()));
    }
}
