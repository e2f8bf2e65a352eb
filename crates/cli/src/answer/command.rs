//! A command that works on one request: bounded in what it is told of its surroundings and in what
//! it prints, and ended when its request is over.
//!
//! The command leads a process group of its own. When it ends, what is left of the group is killed:
//! nothing that one request has started works on after it.

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

/// What a command gets of the environment.
const ENVIRONMENT: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// How long a command may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(1);

/// How late it is seen that a command has ended, or that its request is over.
const TICK: Duration = Duration::from_millis(5);

/// Runs the command of these words: its exit code and what it printed, or why there is no reply.
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
    // A command that prints too much may have been ended by that.
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

/// Writes the request to a command that may read it, or not.
fn feed(input: Option<ChildStdin>, request: Bytes) {
    if let Some(mut input) = input {
        thread::spawn(move || {
            // Who does not read it all has seen enough.
            let _ = input.write_all(&request);
        });
    }
}

/// What a command has printed, once its output is closed; or why that is of no use.
type Printed = Result<Vec<u8>, String>;

/// Reads what a command prints, up to the longest reply.
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
            // Nobody waits for the output of a command that was ended.
            let _ = tell.send(result);
        });
    }
    printed
}

/// Waits for the command to end, without reaping it: with what it has printed, if its output is
/// closed by then.
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
            // It prints too much, and may do so for ever.
            Ok(Err(reason)) => return Err(reason),
            Ok(printed) => output = Some(printed),
            Err(_) => thread::sleep(TICK),
        }
    }
}

/// What a command that has ended had printed before. What it has started was killed, but for what
/// left its process group.
fn take_rest(printed: &Receiver<Printed>) -> Result<Printed, String> {
    let rest = printed.recv_timeout(GRACE);
    rest.map_err(|_| "what its command has started keeps its output open".to_owned())
}

fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(Pid::from_child(child)), options);
    // What cannot be asked about is not there.
    !matches!(status, Ok(None))
}

/// Asks a command to end, and lets it take its time for that; who does not is killed.
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
