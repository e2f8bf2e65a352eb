//! `groupcast pub`: sends messages and waits until each has come back in order.
//!
//! Lines are gathered while they keep coming and sent as soon as there is a pause. The input is
//! never read whole: the daemon's credit sets the pace.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast_client::{Client, ClientError, ClientEvent, Request, RequestError, Service};
use groupcast_core::text::printable;
use groupcast_session::frame::DESTINATIONS_MAX;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Failure, printed};
use crate::json::write_line;
use crate::lines::{Source, Taken};
use crate::number;
use crate::target::Target;

/// While no line comes, the connection is checked this often.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Events of the daemon are taken at least once in so many messages.
const MESSAGES_BETWEEN_LOOKS: u64 = 1_000;
/// The lowest rate, in messages a second: one in eleven days.
const RATE_MIN: f64 = 0.000_001;
/// After a failure, what is on its way may take this long to be accepted.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);
/// How long a good-bye may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Send messages to groups: lines of a file or of stdin, or generated ones.
///
/// Each line is a message, without its newline; a carriage return stays, an empty line is an empty
/// message. A message to several groups is one message. Exit code 0: the daemon has ordered and
/// delivered every message. Otherwise, also after SIGINT or SIGTERM, the error says how many were
/// accepted and which line was the first that was not, if there was one.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The groups, or private names (`client@host`), to send to
    #[arg(value_name = "GROUP", required = true, value_parser = destination)]
    groups: Vec<String>,
    #[command(flatten)]
    target: Target,
    /// This client's name, without `@host` [default: the daemon makes one]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// The guarantee of the messages: unreliable, reliable, fifo, causal, agreed, k-resilient:K,
    /// majority or safe; bimodal in the daemon's bimodal groups
    #[arg(long, value_name = "S", default_value = "agreed")]
    service: Service,
    /// Send the lines of this file instead of stdin, which is also `-`
    #[arg(long, value_name = "F", conflicts_with_all = ["size", "count"])]
    file: Option<PathBuf>,
    /// Send all of the file or of stdin as one message, instead of one a line
    #[arg(long, conflicts_with_all = ["size", "count", "rate"])]
    whole: bool,
    /// Send at most so many messages a second
    #[arg(long, value_name = "MSG/S", value_parser = rate)]
    rate: Option<f64>,
    /// Send generated messages of so many bytes, for example 1350 or 64KiB
    #[arg(long, value_name = "BYTES", requires = "count", value_parser = |text: &str| number::size::<usize>(text, 0, u64::MAX))]
    size: Option<usize>,
    /// How many generated messages to send
    #[arg(long, value_name = "N", requires = "size", value_parser = number::above_0::<NonZeroU64>)]
    count: Option<NonZeroU64>,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

fn destination(name: &str) -> Result<String, String> {
    match groupcast_session::name::check_destination(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (RATE_MIN..f64::INFINITY).contains(&rate) => Ok(rate),
        _ => Err("not a rate: use a number of messages a second from 0.000001 on".into()),
    }
}

/// The outcome, as `--json` prints it.
#[derive(Serialize)]
struct Outcome {
    event: &'static str,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Messages handed to the daemon.
    sent: u64,
    /// Messages that have come back in order.
    accepted: u64,
    /// Payload bytes of what was sent.
    bytes: u64,
    seconds: f64,
    /// The first line that was not accepted, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_not_accepted: Option<u64>,
}

/// Sends everything and waits for it.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let count = args.groups.len();
    if count > DESTINATIONS_MAX {
        return Err(
            Failure::usage(format!("{count} groups are too many for one message"))
                .help(format!("name at most {DESTINATIONS_MAX}")),
        );
    }
    args.check_groups()?;
    // Before connecting: if the file cannot be read, the daemon is not needed.
    let input = args.input()?;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stopped))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stopped)))
            .map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    }
    let client = args.target.connect(args.name.as_deref())?;
    let source = match input {
        Input::Generated { size, .. } if size as u64 > client.message_max() => {
            let max = client.message_max();
            return Err(Failure::usage(format!(
                "messages of {size} bytes are longer than the daemon takes"
            ))
            .help(format!("use --size {max} at most")));
        }
        Input::Generated { size, count } => Source::generated(size, count),
        Input::File(file) if args.whole => Source::whole(file, client.message_max() as usize),
        Input::File(file) => Source::lines(file, client.message_max() as usize),
    };
    if args.waits_for_a_terminal() {
        let groups: Vec<String> = args
            .groups
            .iter()
            .map(|group| printable(group.as_bytes()))
            .collect();
        let groups = groups.join(", ");
        let what = if args.whole { "all of it" } else { "each line" };
        let _ = writeln!(
            anstream::stderr(),
            "{what} is a message to {groups}; Ctrl-D ends"
        );
    }
    let mut publisher = Publisher {
        unit: match source {
            Source::Lines { .. } => "line",
            Source::Whole { .. } | Source::Generated { .. } => "message",
        },
        client,
        stopped: &stopped,
        groups: args.groups.iter().map(String::as_str).collect(),
        service: args.service,
        rate: args.rate,
        start: Instant::now(),
        sent: 0,
        is_next_there: true,
        bytes: 0,
        rejected: BTreeSet::new(),
    };
    let result = publisher.publish_all(source);
    publisher.finish(result, args.json)
}

enum Input {
    File(File),
    Generated { size: usize, count: u64 },
}

impl Args {
    /// Refuses a text with blanks in the place of a second group: the user expects it to be sent as
    /// a message.
    fn check_groups(&self) -> Result<(), Failure> {
        let Some(text) = self
            .groups
            .iter()
            .skip(1)
            .find(|name| name.contains(char::is_whitespace))
        else {
            return Ok(());
        };
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let (text, group) = (
            printable(text.as_bytes()),
            printable(self.groups[0].as_bytes()),
        );
        let group = match group.contains(char::is_whitespace) {
            true => quoted(&group),
            false => group,
        };
        Err(Failure::usage(format!(
            "{text:?} looks like a message, not like a group: messages are read from stdin"
        ))
        .help(format!(
            "printf '%s\\n' {} | groupcast pub {group}; a group with a space in its name stands first",
            quoted(&text)
        )))
    }

    /// Whether the messages are to be typed at a terminal.
    fn waits_for_a_terminal(&self) -> bool {
        self.named_file().is_none() && self.size.is_none() && io::stdin().is_terminal()
    }

    /// The file whose lines are sent, if it is not the standard input.
    fn named_file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|path| *path != Path::new("-"))
    }

    fn input(&self) -> Result<Input, Failure> {
        if let (Some(size), Some(count)) = (self.size, self.count) {
            return Ok(Input::Generated {
                size,
                count: count.get(),
            });
        }
        let Some(path) = self.named_file() else {
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            return stdin
                .map(|stdin| Input::File(stdin.into()))
                .map_err(|error| Failure::failed(format!("cannot read stdin: {error}")));
        };
        let cannot = |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(Failure::usage(format!("{} is a directory", path.display())));
        }
        Ok(Input::File(file))
    }
}

/// A publication on its way.
struct Publisher<'a> {
    client: Client,
    /// A signal has asked it to end.
    stopped: &'a AtomicBool,
    groups: Vec<&'a str>,
    service: Service,
    /// Messages a second.
    rate: Option<f64>,
    /// What a message is called in errors.
    unit: &'static str,
    start: Instant,
    /// Messages handed over: the number of the last line.
    sent: u64,
    /// Whether something is there of the line behind that, as far as is known.
    is_next_there: bool,
    bytes: u64,
    /// Numbers of the messages that the daemon rejected. Sending stops at the first, so they are
    /// few.
    rejected: BTreeSet<u64>,
}

impl Publisher<'_> {
    /// Sends all of `source` and waits until it is accepted.
    fn publish_all(&mut self, mut source: Source) -> Result<(), Failure> {
        let mut payload = Vec::new();
        loop {
            self.await_turn()?;
            payload.clear();
            if !self.await_payload(&mut source, &mut payload)? {
                break;
            }
            self.publish(&payload)?;
            if self.sent.is_multiple_of(MESSAGES_BETWEEN_LOOKS) {
                self.look(Duration::ZERO)?;
            }
        }
        while self.client.undecided() > 0 {
            self.look(LOOK_UP)?;
        }
        self.look(Duration::ZERO)
    }

    fn publish(&mut self, payload: &[u8]) -> Result<(), Failure> {
        loop {
            // Without credit publishing would wait, and not be asked to end meanwhile.
            while !self.client.has_credit() {
                self.look(LOOK_UP)?;
            }
            match self.client.publish(&self.groups, self.service, payload) {
                Ok(_) => {
                    self.sent += 1;
                    self.bytes += payload.len() as u64;
                    return Ok(());
                }
                // Other clients may send to this one: their messages are taken, so that there is
                // room for its own events.
                Err(ClientError::Unread { .. }) => self.look(Duration::ZERO)?,
                Err(error @ ClientError::Request(RequestError::TooLarge { .. })) => {
                    let (unit, number) = (self.unit, self.sent + 1);
                    return Err(Failure::failed(format!("{unit} {number}: {error}")));
                }
                Err(error) => return Err(Failure::failed(error)),
            }
        }
    }

    /// Waits until the rate allows the next message.
    fn await_turn(&mut self) -> Result<(), Failure> {
        let Some(rate) = self.rate else {
            return Ok(());
        };
        let due = self.start + Duration::from_secs_f64(self.sent as f64 / rate);
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            self.look(wait.min(LOOK_UP))?;
        }
    }

    /// Takes the next payload, as it comes; false if there is none.
    fn await_payload(
        &mut self,
        source: &mut Source,
        payload: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        loop {
            if let Err(failure) = self.await_input(source) {
                let came = source.is_ready(Duration::ZERO).unwrap_or(false);
                self.is_next_there = came || !payload.is_empty();
                return Err(failure);
            }
            let (unit, number) = (self.unit, self.sent + 1);
            let taken = source.take(payload);
            match taken.map_err(|error| Failure::failed(format!("{unit} {number}: {error}")))? {
                Taken::Whole => return Ok(true),
                Taken::Part => {}
                Taken::End => return Ok(false),
            }
        }
    }

    /// Waits until there is something to read, having sent what is there. A daemon that goes away
    /// ends the wait.
    fn await_input(&mut self, source: &Source) -> Result<(), Failure> {
        let is_ready = |patience| {
            let ready = source.is_ready(patience);
            ready.map_err(|error| Failure::failed(format!("cannot wait for input: {error}")))
        };
        if is_ready(Duration::ZERO)? {
            return Ok(());
        }
        loop {
            self.look(Duration::ZERO)?;
            if is_ready(LOOK_UP)? {
                return Ok(());
            }
        }
    }

    /// Sends what is gathered and takes events of the daemon; waits for one for up to `patience`.
    fn look(&mut self, patience: Duration) -> Result<(), Failure> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Failure::failed("interrupted"));
        }
        self.take_events(patience)
    }

    fn take_events(&mut self, mut patience: Duration) -> Result<(), Failure> {
        let mut failure = None;
        while let Some(event) = self
            .client
            .next_event(Some(patience))
            .map_err(Failure::failed)?
        {
            patience = Duration::ZERO;
            match event {
                ClientEvent::Rejected {
                    request: Request::Publish(number),
                    text,
                    ..
                } => {
                    self.rejected.insert(number);
                    let unit = self.unit;
                    failure.get_or_insert_with(|| {
                        Failure::failed(format!("{unit} {number} was rejected: {text}"))
                    });
                }
                ClientEvent::Disconnected { text, .. } => {
                    return Err(Failure::failed(format!(
                        "the connection to the daemon has ended: {text}"
                    )));
                }
                _ => {}
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Prints how it ended.
    fn finish(mut self, result: Result<(), Failure>, json: bool) -> Result<ExitCode, Failure> {
        if result.is_err() {
            // What is on its way may still be accepted, if the daemon is still there.
            let _ = self.client.flush_accepted(Some(SETTLE_WITHIN));
            // What came before the connection ended counts in any case.
            let _ = self.take_events(Duration::ZERO);
        }
        let outcome = self.outcome(result.as_ref().err());
        let told = match json {
            true => printed(write_line(&mut io::stdout(), &outcome)),
            false => Ok(()),
        };
        match result {
            Ok(()) => {
                // Everything is accepted: the good-bye is a courtesy.
                let _ = self.client.close(CLOSE_WITHIN);
                told.map_err(|failure| failure.help("everything was accepted"))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(failure) => {
                let (accepted, sent) = (outcome.accepted, outcome.sent);
                let rest = match outcome.first_not_accepted {
                    Some(first) if first <= sent || self.is_next_there => {
                        format!("; {} {first} is the first that was not", self.unit)
                    }
                    _ => ": all that were read".to_owned(),
                };
                Err(failure.help(format!(
                    "{accepted} of {sent} messages sent were accepted{rest}"
                )))
            }
        }
    }

    fn outcome(&self, failure: Option<&Failure>) -> Outcome {
        let up_to = self.client.accepted();
        let rejected = self.rejected.range(..=up_to).count() as u64;
        let first = self
            .rejected
            .first()
            .map_or(up_to + 1, |rejected| (up_to + 1).min(*rejected));
        Outcome {
            event: if failure.is_some() { "error" } else { "done" },
            message: failure.map(ToString::to_string),
            sent: self.sent,
            accepted: up_to - rejected,
            bytes: self.bytes,
            seconds: self.start.elapsed().as_secs_f64(),
            first_not_accepted: failure.map(|_| first),
        }
    }
}
