//! Runs a command for one request: with a small environment and bounded output, and no longer than
//! the request lasts.
//!
//! The command leads its own process group. When it ends, the rest of the group is killed, so no
//! process of a request outlives it.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_transfer::{Answered, Asked};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::request::REPLY_MAX;

/// The environment variables that a command gets.
const ENVIRONMENT: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// How long a command may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(1);

/// How often `wait` looks whether the command has ended or the request is over.
const TICK: Duration = Duration::from_millis(5);

/// Runs the command `words`. Returns its exit code and output, or why there is no reply.
pub(super) fn run(words: &[String], asked: &Asked) -> Answered {
    let mut child = start(words)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    feed(input, asked.bytes.clone());
    let printed = collect(output);
    let ended = wait(&child, asked, &printed);
    // Until the command is reaped its group's number is no other's.
    let group = Pid::from_child(&child);
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait();
    let output = ended?;
    let status = status.map_err(|error| format!("its command was lost: {error}"))?;
    let output = match output {
        Some(output) => output,
        None => take_rest(&printed)?,
    };
    // A command that prints too much may have ended because its output was closed.
    let output = output?;
    Ok((code(status)?, output))
}

fn start(words: &[String]) -> Result<Child, String> {
    let (program, arguments) = words.split_first().ok_or("there is no command")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0);
    for name in ENVIRONMENT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.spawn().map_err(|error| {
        let program = printable(program.as_bytes());
        format!("its command does not start: `{program}`: {error}")
    })
}

/// Writes the request to the command, which need not read it.
fn feed(input: Option<ChildStdin>, request: Bytes) {
    if let Some(mut input) = input {
        thread::spawn(move || {
            // A command that does not read all of it needs no more.
            let _ = input.write_all(&request);
        });
    }
}

/// The output of a command, once it is closed; or why there is no reply.
type Printed = Result<Vec<u8>, String>;

/// Reads the output of a command in a thread, up to the longest reply.
fn collect(output: Option<ChildStdout>) -> Receiver<Printed> {
    let (tell, printed) = mpsc::channel();
    if let Some(output) = output {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(REPLY_MAX as u64 + 1).read_to_end(&mut bytes);
            let result = match read {
                Err(error) => Err(format!("its command's output is lost: {error}")),
                Ok(_) if bytes.len() > REPLY_MAX => {
                    Err(format!("its command printed more than {REPLY_MAX} bytes"))
                }
                Ok(_) => Ok(bytes),
            };
            // If the command was ended, its output is not awaited any more.
            let _ = tell.send(result);
        });
    }
    printed
}

/// Waits for the command to end, without reaping it. Returns its output, if that is closed by then.
fn wait(
    child: &Child,
    asked: &Asked,
    printed: &Receiver<Printed>,
) -> Result<Option<Printed>, String> {
    let mut output = None;
    loop {
        if has_ended(child) {
            return Ok(output);
        }
        if asked.is_over() {
            end(child);
            return Err("its command was ended with the request".into());
        }
        match printed.try_recv() {
            // The command prints too much, and may never end.
            Ok(Err(reason)) => return Err(reason),
            Ok(printed) => output = Some(printed),
            Err(_) => thread::sleep(TICK),
        }
    }
}

/// The output of a command that has ended. The processes that it started were killed, except those
/// that left its process group.
fn take_rest(printed: &Receiver<Printed>) -> Result<Printed, String> {
    let rest = printed.recv_timeout(GRACE);
    rest.map_err(|_| "what its command has started keeps its output open".to_owned())
}

fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(Pid::from_child(child)), options);
    // A process whose state cannot be read is not there.
    !matches!(status, Ok(None))
}

/// Asks a command to end, and kills it if it does not within [`GRACE`].
fn end(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
    let asked = Instant::now();
    while !has_ended(child) && asked.elapsed() < GRACE {
        thread::sleep(TICK);
    }
}

fn code(status: ExitStatus) -> Result<u32, String> {
    match status.code() {
        Some(code) => Ok(code as u32),
        None => Err(format!(
            "its command was ended by signal {}",
            status.signal().unwrap_or_default()
        )),
    }
}
