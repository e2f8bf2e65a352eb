//! Running a command: its output streams through while the closing lines of test runners are
//! counted, and it is ended when it exceeds its time. What commands print that run beside each
//! other is shown of one after the other.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::tally::Tally;

/// How often a running command is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the output of a command that has ended may still be read: a process that it left behind
/// can hold the pipe.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// What a build does without whose files are thrown away: the state that makes the next build
/// faster, and the tables that give a backtrace its lines. A panic names its own line all the same.
const THROWN_AWAY: &[(&str, &str)] = &[
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_DEV_DEBUG", "none"),
    ("CARGO_PROFILE_TEST_DEBUG", "none"),
    ("CARGO_PROFILE_SWARM_DEBUG", "none"),
    // No test has a bar for speed, and this takes a third of the build.
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
];

/// What a command did.
#[derive(Default)]
pub(crate) struct Finished {
    /// Why it failed, if it did.
    pub(crate) error: Option<String>,
    /// What its test runners counted.
    pub(crate) tally: Tally,
    /// What its tests said of what they skipped.
    pub(crate) skipped: Vec<String>,
    /// The names of the tests that failed, as libtest prints them.
    pub(crate) failed: Vec<String>,
    /// How many runners began and never printed their closing line: they crashed.
    pub(crate) crashed: usize,
}

impl Finished {
    /// A command that could not be run, or not to its end.
    fn failed(error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    /// What this command and `other` did together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.error = match (self.error, other.error) {
            (Some(first), Some(second)) => Some(format!("{first}; {second}")),
            (first, second) => first.or(second),
        };
        self.tally += other.tally;
        self.skipped.extend(other.skipped);
        self.failed.extend(other.failed);
        self.crashed += other.crashed;
        self
    }

    /// Counts what a test runner says in `line`.
    fn read(&mut self, line: &str) {
        self.tally += Tally::of_line(line);
        let skipped = line.strip_prefix("skipped: ");
        self.skipped.extend(skipped.map(str::to_owned));
        self.failed.extend(failed_test(line).map(str::to_owned));
        if begins_runner(line) {
            self.crashed += 1;
        } else if line.starts_with("test result: ") {
            self.crashed = self.crashed.saturating_sub(1);
        }
    }

    /// How the command `line` ended.
    fn ended(mut self, line: &str, ended: Result<ExitStatus, String>) -> Self {
        self.error = match ended {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("`{line}`: {status}")),
            Err(error) => Some(format!("`{line}`: {error}")),
        };
        self
    }
}

/// A command of `program`, run in the root of the workspace.
pub(crate) fn command<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// The very cargo that runs this task. In continuous integration (`CI` is set) it builds what is
/// used once.
pub(crate) fn cargo<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(cargo, args);
    if std::env::var_os("CI").is_some() {
        command.envs(THROWN_AWAY.iter().copied());
    }
    command
}

/// How many threads this machine runs at once.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root of the workspace")
}

/// Where cargo puts what it builds with `profile`.
pub(crate) fn built(profile: &str, name: &str) -> std::path::PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir));
    target.join(profile).join(name)
}

/// A line that shows `command` as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or_default().to_os_string();
    for arg in command.get_args() {
        line.push(" ");
        line.push(arg);
    }
    line.to_string_lossy().into_owned()
}

/// Runs `command`, for at most `time_max`, with its output streaming through.
pub(crate) fn run(mut command: Command, time_max: Duration) -> Finished {
    let line = shown(&command);
    println!("$ {line}");
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Finished::failed(format!("cannot run `{line}`: {error}")),
    };
    let output = child.stdout.take().expect("its output is piped");
    let lines = stream(output, |line| print!("{line}"));
    let ended = wait(&mut child, time_max);
    let mut finished = Finished::default();
    drain(&lines, |line| finished.read(&line));
    finished.ended(&line, ended)
}

/// Runs `command` like [`run`], beside others: what it printed is printed in one piece, behind
/// `title` and how long it took, and its errors behind that.
pub(crate) fn run_beside(title: &str, mut command: Command, time_max: Duration) -> Finished {
    let line = shown(&command);
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match command.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return Finished::failed(format!("cannot run `{line}`: {error}")),
    };
    let lines = stream(child.stdout.take().expect("it is piped"), |_| ());
    let errors = stream(child.stderr.take().expect("it is piped"), |_| ());
    let ended = wait(&mut child, time_max);
    let mut finished = Finished::default();
    let seconds = begun.elapsed().as_secs_f64();
    let mut text = vec![format!("-- {title}, {seconds:.1} s\n$ {line}")];
    drain(&lines, |line| {
        finished.read(&line);
        text.push(line);
    });
    drain(&errors, |line| text.push(line));
    println!("{}\n", text.join("\n"));
    finished.ended(&line, ended)
}

/// Runs `command`, for at most `time_max`; the lines that it prints. Its errors pass through.
pub(crate) fn lines(mut command: Command, time_max: Duration) -> Result<Vec<String>, String> {
    let line = shown(&command);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("cannot run `{line}`: {error}"))?;
    let output = child.stdout.take().expect("its output is piped");
    let lines = stream(output, |_| ());
    let ended = wait(&mut child, time_max);
    let mut all = Vec::new();
    drain(&lines, |line| all.push(line));
    match Finished::default().ended(&line, ended).error {
        None => Ok(all),
        Some(error) => Err(error),
    }
}

/// Runs `command` with this task's own input and output, and passes its failure on.
pub(crate) fn hand_over(mut command: Command) -> Result<(), Failure> {
    let status = command
        .status()
        .map_err(|error| format!("cannot run `{}`: {error}", shown(&command)))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Said(u8::try_from(code).unwrap_or(1))),
        None => Err(Failure::Failed(format!("`{}`: {status}", shown(&command)))),
    }
}

/// Runs `command` and returns what it prints; its standard error passes through.
pub(crate) fn output(mut command: Command) -> Result<String, Failure> {
    let line = shown(&command);
    eprintln!("$ {line}");
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(Failure::Failed(format!("`{line}`: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Passes on the lines of `output`, each of which `show` has had.
fn stream(
    output: impl Read + Send + 'static,
    show: impl Fn(&str) + Send + 'static,
) -> mpsc::Receiver<String> {
    let (printed, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while output
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|read| read > 0)
        {
            let line = String::from_utf8_lossy(&bytes);
            show(&line);
            if printed.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    lines
}

/// Hands on the `lines` of a command that has ended.
fn drain(lines: &mpsc::Receiver<String>, mut line: impl FnMut(String)) {
    let deadline = Instant::now() + DRAIN_MAX;
    let left = || deadline.saturating_duration_since(Instant::now());
    while let Ok(next) = lines.recv_timeout(left()) {
        line(next);
    }
}

/// Whether `line` is the first that libtest prints: `running 3 tests`.
fn begins_runner(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|line| {
        line.strip_suffix(" tests")
            .or_else(|| line.strip_suffix(" test"))
    });
    count.is_some_and(|count| count.parse::<u32>().is_ok())
}

/// The test that `line` of libtest says has failed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

fn wait(child: &mut Child, time_max: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + time_max;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                end(child);
                return Err(format!("ended after {} s", time_max.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Ends `child` and all that it started. They stay in our process group, so that an interrupt at
/// the terminal reaches them; that is why they are found one by one.
fn end(child: &mut Child) {
    let mut family = vec![child.id()];
    let mut index = 0;
    while let Some(&parent) = family.get(index) {
        family.extend(children(parent));
        index += 1;
    }
    for pid in family.iter().rev() {
        // One that has ended meanwhile is no concern.
        let _ = Command::new("kill")
            .args(["-9", &pid.to_string()])
            .stderr(Stdio::null())
            .status();
    }
    let _ = child.wait();
}

/// Pids of the processes that `parent` started and that still run.
fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| parent_of(&stat) == Some(parent))
        })
        .collect()
}

/// The parent's pid in a line of `/proc/PID/stat`. The name in it may contain spaces and
/// parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn counts_pass_through_and_a_failing_command_says_so() {
        let script = "echo 'running 2 tests'; echo 'test a::b ... ok'; echo 'test a::c ... FAILED'; \
             echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'; \
             echo 'skipped: for a reason'; echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; exit 3";
        let finished = run(command("sh", ["-c", script]), LONG);
        assert_eq!(finished.tally.passed, 2);
        assert_eq!(finished.tally.skipped, 2);
        assert_eq!(finished.skipped, ["for a reason"]);
        assert_eq!(finished.failed, ["a::c"]);
        assert_eq!(finished.crashed, 0);
        assert!(finished.error.expect("it exits with 3").contains("3"));
    }

    #[test]
    fn what_is_run_beside_others_is_counted_too() {
        let script = "echo 'running 1 test'; echo half a line | tr -d '\\n' >&2; \
             echo 'test a::b ... FAILED'; exit 3";
        let finished = run_beside("a script", command("sh", ["-c", script]), LONG);
        assert_eq!(finished.failed, ["a::b"]);
        assert_eq!(finished.crashed, 1);
        assert!(finished.error.expect("it exits with 3").contains("3"));
        let ended = run_beside(
            "a script",
            command("sh", ["-c", "sleep 60; true"]),
            Duration::from_millis(300),
        );
        assert!(ended.error.expect("it was ended").contains("ended after"));
        let missing = run_beside("nothing", command("no-such-program-here", ["x"]), LONG);
        assert!(missing.error.expect("it cannot run").contains("no-such"));
    }

    #[test]
    fn a_runner_without_a_closing_line_has_crashed() {
        let finished = run(
            command("sh", ["-c", "echo 'running 1 test'; kill -9 $$"]),
            LONG,
        );
        assert_eq!(finished.crashed, 1);
        assert!(finished.error.is_some());
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
        let begun = Instant::now();
        let finished = run(
            command(
                "sh",
                ["-c", "exec 2>/dev/null; sh -c 'sleep 60; true'; true"],
            ),
            Duration::from_millis(300),
        );
        assert!(
            finished
                .error
                .expect("it was ended")
                .contains("ended after")
        );
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_missing_program_is_named() {
        let finished = run(command("no-such-program-here", ["x"]), LONG);
        assert!(
            finished
                .error
                .expect("it cannot run")
                .contains("no-such-program-here")
        );
    }

    #[test]
    fn the_parent_is_found_behind_any_process_name() {
        assert_eq!(parent_of("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of("garbage"), None);
    }
}
