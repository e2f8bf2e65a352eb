//! The test programs of the workspace: cargo builds all, and they run from here, two beside each
//! other.
//!
//! Cargo runs one after another, and of each the last tests are waited for by processors that have
//! nothing else to do. Here one that waits most of its time runs beside one that computes.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::exec::{self, Finished, cargo};

/// All that have tests: not those whose manifest says that they have none, nor examples, which the
/// step `lint` compiles; each is linked with half of the workspace.
const TESTS: &[&str] = &["test", "--workspace", "--tests", "--no-run"];

/// Packages whose tests wait for more than half of their time: for other programs, for clocks, for
/// the disk. All others compute.
const WAITING: &[&str] = &[
    "groupcast",
    "groupcast-bench",
    "groupcast-client",
    "groupcast-daemon",
    "groupcast-groups",
    "groupcast-member",
    "groupcast-net",
    "groupcast-transfer",
];
/// How much those that compute give way: one that waits gets a processor when it has waited.
const NICE: &str = "10";

/// A test program.
pub(crate) struct Program {
    /// What a person knows it by: its package and its source.
    title: String,
    executable: PathBuf,
    /// Where its package is; cargo would run it there.
    directory: PathBuf,
    waits: bool,
}

/// Builds all test programs, in `time_max`.
pub(crate) fn built(time_max: Duration) -> Result<Vec<Program>, String> {
    match exec::run(cargo(TESTS), time_max).error {
        Some(error) => Err(error),
        // It builds nothing more, and says where everything is.
        None => {
            let mut list = cargo(TESTS);
            list.arg("--message-format=json");
            let lines = exec::lines(list, time_max)?;
            let programs = lines.iter().map(|line| Program::listed(line));
            let mut programs: Vec<_> = programs
                .filter_map(Result::transpose)
                .collect::<Result<_, _>>()?;
            programs.sort_by(|a, b| a.title.cmp(&b.title));
            Ok(programs)
        }
    }
}

/// Runs all `programs`, each for at most `time_max`; what each did, in their order.
pub(crate) fn run(programs: &[Program], time_max: Duration) -> Vec<Finished> {
    let (waiting, computing): (Vec<_>, Vec<_>) =
        (0..programs.len()).partition(|&index| programs[index].waits);
    let queue = Mutex::new(VecDeque::from([waiting, computing].concat()));
    let locked = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    // One lane begins with those that wait, one with those that compute; the one that is through
    // with its own helps the other.
    let lane = |next: &dyn Fn() -> Option<usize>| -> Vec<(usize, Finished)> {
        std::iter::from_fn(next)
            .map(|index| (index, programs[index].run(time_max)))
            .collect()
    };
    let mut finished = thread::scope(|scope| {
        let waiting = scope.spawn(|| lane(&|| locked().pop_front()));
        let mut finished = lane(&|| locked().pop_back());
        finished.extend(waiting.join().expect("no lane panics"));
        finished
    });
    finished.sort_by_key(|(index, _)| *index);
    finished.into_iter().map(|(_, finished)| finished).collect()
}

impl Program {
    /// The program that a line of cargo's messages names, if it names one with tests.
    fn listed(line: &str) -> Result<Option<Self>, String> {
        let message: Value = match line.starts_with('{') {
            true => serde_json::from_str(line).map_err(|error| format!("`{line}`: {error}"))?,
            false => return Ok(None),
        };
        if message["profile"]["test"] != true {
            return Ok(None);
        }
        let Some(executable) = message["executable"].as_str() else {
            return Ok(None);
        };
        let text = |value: &Value| value.as_str().map(PathBuf::from);
        let place = text(&message["manifest_path"])
            .and_then(|manifest| Some(manifest.parent()?.to_owned()))
            .zip(text(&message["target"]["src_path"]))
            .zip(package(&message["package_id"]));
        let Some(((directory, source), package)) = place else {
            return Err(format!("cargo does not say whose program this is: {line}"));
        };
        let source = source.strip_prefix(&directory).unwrap_or(&source);
        Ok(Some(Self {
            title: format!("{package}, {}", source.display()),
            executable: executable.into(),
            waits: WAITING.contains(&package),
            directory,
        }))
    }

    fn run(&self, time_max: Duration) -> Finished {
        // Of those that wait twice as many tests as processors, and they wait still.
        let threads = match self.waits {
            true => 2 * exec::processors(),
            false => exec::processors(),
        };
        let threads = format!("--test-threads={threads}");
        let command = match self.waits {
            true => self.command(&self.executable, [&threads]),
            false => {
                let words = [OsStr::new("-n"), NICE.as_ref(), self.executable.as_ref()];
                let mut nice = self.command("nice", words);
                nice.arg(threads);
                nice
            }
        };
        exec::run_beside(&self.title, command, time_max)
    }

    /// Runs the tests once more that `failed`, with nothing beside them.
    pub(crate) fn again(&self, failed: &[String], time_max: Duration) -> Finished {
        let mut command = self.command(&self.executable, ["--exact"]);
        command.args(failed);
        exec::run_beside(&self.title, command, time_max)
    }

    /// A command of `program`, run as cargo runs this one.
    fn command<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = exec::command(program, args);
        command.current_dir(&self.directory);
        command.env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }
}

/// The name of the package with an id such as `path+file:///groupcast/crates/core#0.1.0` or
/// `path+file:///groupcast/crates/core#groupcast-core@0.1.0`.
fn package(id: &Value) -> Option<&str> {
    let (path, version) = id.as_str()?.split_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => path.rsplit('/').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let message = |test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\
                 \"package_id\":\"path+file:///w/crates/cli#groupcast@0.1.0\",\
                 \"manifest_path\":\"/w/crates/cli/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"test\"],\"name\":\"program\",\
                 \"src_path\":\"/w/crates/cli/tests/main.rs\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":{executable}}}"
            )
        };
        let listed = |line: &str| Program::listed(line).expect("it can be read");
        let program = listed(&message(true, "\"/t/program-1\"")).expect("it is one");
        assert_eq!(program.title, "groupcast, tests/main.rs");
        assert_eq!(program.directory, PathBuf::from("/w/crates/cli"));
        assert!(program.waits);
        assert!(listed(&message(false, "\"/t/groupcast\"")).is_none());
        assert!(listed(&message(true, "null")).is_none());
        assert!(listed("warning: something").is_none());
        assert!(Program::listed("{").is_err());
    }

    #[test]
    fn packages_are_known_with_and_without_a_name_of_their_own() {
        for id in [
            "path+file:///w/bindings/c#groupcast-c@0.1.0",
            "path+file:///w/groupcast-c#0.1.0",
        ] {
            assert_eq!(package(&id.into()), Some("groupcast-c"));
        }
        assert_eq!(package(&Value::Null), None);
    }

    #[test]
    fn each_runs_once_and_what_it_did_is_told_in_their_order() {
        let program = |index: usize| Program {
            title: format!("program {index}"),
            executable: "true".into(),
            directory: "/".into(),
            waits: index.is_multiple_of(2),
        };
        let mut programs: Vec<Program> = (0..7).map(program).collect();
        programs[3].executable = "false".into();
        let finished = run(&programs, Duration::from_secs(60));
        let failed: Vec<bool> = finished.iter().map(|it| it.error.is_some()).collect();
        assert_eq!(failed, [false, false, false, true, false, false, false]);
    }
}
