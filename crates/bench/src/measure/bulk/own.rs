//! `groupcast send` and `recv`, as a user runs them.

use std::time::Duration;

use serde::Deserialize;

use super::BulkOptions;
use super::attempt::{Attempt, Course};
use crate::measure::{BenchError, make_key};
use crate::process::Process;

/// The group's address.
const GROUP: &str = "239.79.1.3:4820";
/// How long receivers may take to be ready, and to end after the sender.
const PATIENCE: Duration = Duration::from_secs(10);

/// groupcast's own part.
pub(super) struct Own<'a> {
    options: &'a BulkOptions,
}

/// The sender's last line.
#[derive(Deserialize)]
struct Done {
    seconds: f64,
    packets: u64,
    repeated: u64,
}

impl<'a> Own<'a> {
    pub(super) fn new(options: &'a BulkOptions) -> Self {
        Self { options }
    }

    pub(super) fn attempt(&self, course: &Course<'_>) -> Result<Attempt, BenchError> {
        let key = make_key(course.bed, course.executable, self.options.encrypt)?;
        let secret: Vec<&str> = match &key {
            Some(key) => vec!["--key", key],
            None => vec!["--insecure"],
        };
        let mut receivers = course
            .receivers()
            .map(|host| {
                let directory = course.files.clear(host)?.display().to_string();
                let (address, name) = (course.bed.address(host).to_string(), format!("h{host}"));
                let args = ["recv", "--once", "--json", "--group", GROUP];
                let place = [
                    "--interface",
                    &address,
                    "--name",
                    &name,
                    "--out",
                    &directory,
                ];
                let args = args.into_iter().chain(place).chain(secret.iter().copied());
                let command = course.command(host, course.executable, args);
                Ok(course.bed.launch(&format!("recv-{host}"), command)?)
            })
            .collect::<Result<Vec<Process>, BenchError>>()?;
        for receiver in &mut receivers {
            await_listening(receiver)?;
        }

        let source = course.files.source().display().to_string();
        let address = course.bed.address(1).to_string();
        let count = receivers.len().to_string();
        let args = ["send", &source, "--json", "--group", GROUP, "--name", "h1"];
        let whom = ["--interface", &address, "--receivers", &count];
        let how = ["--protocol", &self.options.protocol];
        let settings = self.options.settings.iter().map(String::as_str);
        let args = args.into_iter().chain(whom).chain(how).chain(settings);
        let command = course.command(1, course.executable, args.chain(secret));
        let (outcome, sender) = course.race("send", command, course.files.name())?;
        for receiver in &mut receivers {
            // One that did not end by itself is ended when it is dropped.
            let _ = receiver.wait(PATIENCE);
        }
        let output = sender
            .stdout()
            .map_err(BenchError::io("read the sender's lines"))?;
        let done: Option<Done> = output
            .lines()
            .last()
            .and_then(|line| serde_json::from_str(line).ok());
        Ok(Attempt {
            outcome,
            data_seconds: done.as_ref().map(|done| done.seconds),
            packets: done.map(|done| (done.packets, done.repeated)),
        })
    }
}

/// Waits until `recv` says that it listens.
fn await_listening(receiver: &mut Process) -> Result<(), BenchError> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let output = receiver
            .stdout()
            .map_err(BenchError::io("read a receiver's lines"))?;
        if output.contains("listening") {
            return Ok(());
        }
        if !receiver.is_running() {
            return Err(BenchError::process(receiver, "ended before it was ready"));
        }
        if std::time::Instant::now() > deadline {
            return Err(BenchError::process(receiver, "is not ready after 10 s"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
