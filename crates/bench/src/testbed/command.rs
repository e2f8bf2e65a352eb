//! Runs the system's network tools (`ip`, `tc`, `nft`), each within a time limit.
//!
//! Scripts go in by standard input, so that a whole namespace costs one process. What the commands
//! mean is the business of the files beside this one.

use std::io::{self, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::TestbedError;

/// No tool takes longer than this, even on a machine that is busy with benchmarks.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// How often a running tool is looked at. They usually end within a few milliseconds.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

/// Runs `program` with `args`, feeds it `input` and returns what it printed on standard output.
pub(super) fn run(program: &str, args: &[&str], input: &str) -> Result<String, TestbedError> {
    let shown = || format!("{program} {}", args.join(" "));
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| TestbedError::Start {
            command: shown(),
            source,
        })?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    if let Some(mut pipe) = child.stdin.take() {
        // A tool that fails early closes its end; its own message is the one worth showing.
        let _ = pipe.write_all(input.as_bytes());
    }
    let Some(success) = wait(&mut child).map_err(|source| TestbedError::Start {
        command: shown(),
        source,
    })?
    else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(TestbedError::Timeout {
            command: shown(),
            limit: TIME_LIMIT,
        });
    };
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    if success {
        Ok(stdout)
    } else {
        Err(TestbedError::Failed {
            command: shown(),
            stderr: stderr.trim().to_owned(),
        })
    }
}

/// Whether the child succeeded; `None` if it still runs when its time is up.
fn wait(child: &mut Child) -> io::Result<Option<bool>> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reads a pipe to its end on a thread, so that a talkative tool never blocks on a full one.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Option<JoinHandle<String>> {
    pipe.map(|mut pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What could be read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    })
}

fn collect(reader: Option<JoinHandle<String>>) -> String {
    reader
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_goes_in_and_output_comes_back() {
        assert_eq!(run("cat", &[], "a\nb").unwrap(), "a\nb");
    }

    #[test]
    fn a_failing_tool_is_quoted() {
        let error = run("sh", &["-c", "echo no such bridge >&2; exit 3"], "").unwrap_err();
        assert!(error.to_string().contains("no such bridge"), "{error}");
    }

    #[test]
    fn a_missing_tool_is_named() {
        let error = run("gc-no-such-tool", &[], "").unwrap_err();
        assert!(error.to_string().contains("gc-no-such-tool"), "{error}");
    }
}
