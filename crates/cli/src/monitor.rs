//! `groupcast monitor`: the state of a daemon as it changes, until it is stopped.
//!
//! On a terminal each look replaces the one before; elsewhere it is one line.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_client::{Client, ClientError};
use groupcast_core::text::printable;
use indicatif::BinaryBytes;
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use unicode_width::UnicodeWidthChar as _;

use crate::failure::{Failure, printed, tell};
use crate::number;
use crate::reader;
use crate::status::not_heard;
use crate::table::Table;
use crate::target::Target;

/// How long the daemon may take to say its status.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Signals and the reader of stdout are looked at this often.
const LOOK_UP: Duration = Duration::from_millis(100);
/// The shortest time between two looks, in seconds: a status costs the daemon some work.
const INTERVAL_MIN: f64 = 0.1;
/// The longest.
const INTERVAL_MAX: f64 = 86_400.0;
/// The most clients in the table on a terminal: those for which most waits.
const CLIENTS_SHOWN: usize = 10;
/// To the first place of the terminal; erase the rest of a line; erase what is below.
const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

/// Watch a daemon: its configuration, what passes through it, and what waits.
///
/// On a terminal the picture is renewed in place; elsewhere each look is one line. Rates are those
/// since the look before. A daemon must run when this starts; when it goes later, it is looked for
/// until it is back. Exit code 0 at SIGINT or SIGTERM, when its reader has gone, and after --count
/// looks.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The time between two looks, in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// End after N looks
    #[arg(long, value_name = "N", value_parser = number::above_0::<std::num::NonZeroU64>)]
    count: Option<std::num::NonZeroU64>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("not a number of seconds from 0.1 to 86400".into()),
    }
}

/// Looks until something ends it.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stopped))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stopped)))
            .map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    }
    let is_over = || stopped.load(Ordering::Relaxed) || reader::has_gone(&io::stdout());
    let looker = Looker::start(args.target.clone())?;
    let mut out = Out::new();
    let mut before: Option<Value> = None;
    let mut left = args.count.map(std::num::NonZeroU64::get);
    let mut next = Instant::now();
    // Each reason is told once, not with every attempt.
    let mut told = String::new();
    loop {
        match looker.look(&is_over)? {
            None => return Ok(ExitCode::SUCCESS),
            Some(Ok(status)) => {
                told.clear();
                if let Err(error) = out.show(before.as_ref(), &status) {
                    printed(Err(error))?;
                    return Ok(ExitCode::SUCCESS);
                }
                before = Some(status);
                left = left.map(|left| left - 1);
            }
            Some(Err(why)) if why == told => {}
            Some(Err(why)) => {
                tell(format_args!(
                    "no answer from the daemon; trying again: {why}"
                ));
                told = why;
            }
        }
        if left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
        // A look that took long is not made up for by several at once.
        next = (next + args.interval).max(Instant::now());
        while let Some(wait) = next.checked_duration_since(Instant::now()) {
            if is_over() {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(wait.min(LOOK_UP));
            if wait.is_zero() {
                break;
            }
        }
        if is_over() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Looks on a thread of its own: a daemon that says nothing does not keep what ends it waiting.
struct Looker {
    questions: Sender<()>,
    answers: Receiver<Result<Value, String>>,
}

impl Looker {
    /// Connects, and starts the thread.
    fn start(target: Target) -> Result<Self, Failure> {
        let mut daemon = Watched {
            client: target.connect_as_tool()?,
            target,
            is_lost: false,
        };
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        thread::Builder::new()
            .name("look".into())
            .spawn(move || {
                for () in asked {
                    if answer.send(daemon.look()).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(Self { questions, answers })
    }

    /// The status, or why there is none; `None` if it `is_over` before.
    fn look(&self, is_over: &dyn Fn() -> bool) -> Result<Option<Result<Value, String>>, Failure> {
        // If the thread has ended, so have its answers.
        let _ = self.questions.send(());
        loop {
            match self.answers.recv_timeout(LOOK_UP) {
                Ok(answer) => return Ok(Some(answer)),
                Err(RecvTimeoutError::Timeout) if is_over() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::failed("the thread that looks has ended"));
                }
            }
        }
    }
}

/// The daemon that is looked at.
struct Watched {
    target: Target,
    client: Client,
    /// Whether the connection has ended, or did not answer: its host may have gone without a word.
    is_lost: bool,
}

impl Watched {
    /// Asks for the status, by a new connection if the old one is lost.
    fn look(&mut self) -> Result<Value, String> {
        let mut answer = match self.is_lost {
            true => self.look_anew()?,
            false => self.client.status(ANSWER_WITHIN),
        };
        if let Err(error) = &answer {
            let is_late = matches!(error, ClientError::TimedOut(_));
            if !std::mem::replace(&mut self.is_lost, true) && !is_late {
                answer = self.look_anew()?;
            }
        }
        self.is_lost = answer.is_err();
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer)
            .map_err(|error| format!("its answer makes no sense: {error}"))
    }

    /// The same by a new connection, at one of the addresses that the daemon has now.
    fn look_anew(&mut self) -> Result<Result<Bytes, ClientError>, String> {
        let addresses = self.target.addresses();
        let addresses = addresses.map_err(|failure| failure.to_string())?;
        let mut why = String::new();
        let is_found = addresses.iter().any(|address| {
            let connected = self.client.reconnect_at(address);
            connected.map_err(|error| why = error.to_string()).is_ok()
        });
        match is_found {
            true => Ok(self.client.status(ANSWER_WITHIN)),
            false => Err(why),
        }
    }
}

/// Where looks are shown.
struct Out {
    to_terminal: bool,
    begun: bool,
}

impl Out {
    fn new() -> Self {
        let moves = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
        Self {
            to_terminal: io::stdout().is_terminal() && moves,
            begun: false,
        }
    }

    fn show(&mut self, before: Option<&Value>, status: &Value) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let passed = Passed::between(before, status);
        if !self.to_terminal {
            writeln!(out, "{}", line(&passed, status))?;
            return out.flush();
        }
        let (columns, rows) = match tcgetwinsize(rustix::stdio::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 1 => (size.ws_col, size.ws_row),
            _ => (80, 24),
        };
        let picture = picture(&passed, status);
        let lines = picture.lines().take(usize::from(rows) - 1);
        let lines: Vec<String> = lines.map(|line| cut(line, usize::from(columns))).collect();
        if !std::mem::replace(&mut self.begun, true) {
            write!(out, "{HOME}{ERASE_BELOW}")?;
        }
        write!(out, "{HOME}")?;
        for line in lines {
            // Before the line: behind one that fills its row, it would erase the last letter.
            writeln!(out, "{ERASE_LINE}{line}")?;
        }
        write!(out, "{ERASE_BELOW}")?;
        out.flush()
    }
}

/// As much of a line as fits.
fn cut(line: &str, columns: usize) -> String {
    let mut width = 0;
    line.chars()
        .take_while(|letter| {
            width += letter.width().unwrap_or(0);
            width <= columns
        })
        .collect()
}

/// What has passed between two looks, a second.
struct Passed {
    /// Seconds; 0 where there is no earlier look at the same life of the daemon.
    time: f64,
    published: f64,
    delivered: f64,
    /// Bytes of datagrams.
    sent: f64,
    received: f64,
    /// In all of the time, and not a second.
    lost: u64,
    again: u64,
}

impl Passed {
    fn between(before: Option<&Value>, now: &Value) -> Self {
        let is_same = |before: &&Value| before["member"] == now["member"];
        let before = before.filter(is_same);
        let uptime = |status: &Value| status["uptime"].as_f64().unwrap_or(0.0);
        let time = before.map_or(0.0, |before| (uptime(now) - uptime(before)).max(0.0));
        let grown = |place: &str| -> u64 {
            let at = |status: &Value| status.pointer(place).and_then(Value::as_u64).unwrap_or(0);
            before.map_or(0, |before| at(now).saturating_sub(at(before)))
        };
        let order = now["protocol"].as_str().unwrap_or_default();
        let rate = |count: u64| if time > 0.0 { count as f64 / time } else { 0.0 };
        let received = grown("/counters/net/data/bytes") + grown("/counters/net/control/bytes");
        Self {
            time,
            published: rate(grown("/counters/session/published")),
            delivered: rate(grown("/counters/session/delivered")),
            sent: rate(grown("/counters/net/sent/bytes")),
            received: rate(received),
            lost: grown("/counters/net/data/kernel_drops")
                + grown("/counters/net/control/kernel_drops"),
            // The first is the ring's, the others are RMP's.
            again: ["retransmissions", "packets_again", "answers_sent"]
                .map(|name| grown(&format!("/counters/{order}/{name}")))
                .iter()
                .sum(),
        }
    }
}

/// Megabits a second.
fn megabits(bytes: f64) -> f64 {
    bytes * 8.0 / 1e6
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text.as_bytes()),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn sum(clients: &[Value], key: &str) -> u64 {
    clients
        .iter()
        .filter_map(|client| client[key].as_u64())
        .sum()
}

fn counted(count: usize, one: &str, several: &str) -> String {
    number::number_of(count as u64, one, several)
}

/// What waits, and where.
fn waits(status: &Value) -> String {
    let order = text(&status["protocol"]);
    let queued = status[&order]["queued"].as_u64().unwrap_or(0);
    let clients = items(&status["clients"]);
    let mut waits = format!(
        "{} for the {order}, {} for clients",
        BinaryBytes(queued),
        BinaryBytes(sum(clients, "backlog"))
    );
    let holding = clients.iter().filter(|it| it["holds_back"] == true).count();
    if holding > 0 {
        waits.push_str(&format!(
            "; publishers wait for {}",
            counted(holding, "client", "clients")
        ));
    }
    waits
}

fn states(status: &Value) -> String {
    let mut states = format!(
        "{} {}, groups {}",
        text(&status["protocol"]),
        text(&status["state"]),
        text(&status["groups_state"])
    );
    let configuration = &status["configuration"];
    if configuration["majority"] == false {
        states.push_str(&format!(
            ", NO MAJORITY of {}",
            text(&configuration["majority_of"])
        ));
    }
    states
}

/// A look as one line.
fn line(passed: &Passed, status: &Value) -> String {
    let members = items(&status["configuration"]["members"]).len();
    let groups = status["groups"].as_u64().unwrap_or(0);
    let rates = match passed.time > 0.0 {
        false => "no rates yet".to_owned(),
        true => format!(
            "messages {:.0}/s in {:.0}/s out, network {:.1} Mb/s out {:.1} Mb/s in, {} dropped, {} again",
            passed.published,
            passed.delivered,
            megabits(passed.sent),
            megabits(passed.received),
            passed.lost,
            passed.again
        ),
    };
    format!(
        "{} up {:.0} s: {}; {}, {}, {}; {rates}; waits: {}",
        text(&status["name"]),
        status["uptime"].as_f64().unwrap_or(0.0),
        states(status),
        counted(members, "daemon", "daemons"),
        number::number_of(groups, "group", "groups"),
        counted(items(&status["clients"]).len(), "client", "clients"),
        waits(status),
    )
}

/// A look for a terminal.
fn picture(passed: &Passed, status: &Value) -> String {
    let mut picture = String::new();
    let mut row = |name: &str, value: String| {
        picture.push_str(&format!("{name:<10}{value}\n"));
    };
    row(
        "daemon",
        format!(
            "{}, version {}, up {:.0} s",
            text(&status["name"]),
            text(&status["version"]),
            status["uptime"].as_f64().unwrap_or(0.0)
        ),
    );
    row("state", states(status));
    let members = items(&status["configuration"]["members"]);
    let names: Vec<String> = members.iter().map(|member| text(&member["name"])).collect();
    row("members", format!("{}: {}", names.len(), names.join(", ")));
    let clients = items(&status["clients"]);
    row(
        "groups",
        format!(
            "{}; {}",
            text(&status["groups"]),
            counted(clients.len(), "client", "clients")
        ),
    );
    if passed.time > 0.0 {
        row(
            "messages",
            format!(
                "{:.0}/s published here, {:.0}/s delivered here",
                passed.published, passed.delivered
            ),
        );
        row(
            "network",
            format!(
                "{:.1} Mb/s out, {:.1} Mb/s in; datagrams dropped {}, sent again {}",
                megabits(passed.sent),
                megabits(passed.received),
                passed.lost,
                passed.again
            ),
        );
    }
    row("waits", waits(status));
    if let Some(trouble) = status["trouble"].as_str() {
        row("trouble", trouble.to_owned());
    }
    for (what, told) in not_heard(status) {
        row(what, told);
    }
    for stranger in items(&status["strangers"]) {
        row(
            "stranger",
            format!("{}: {}", text(&stranger["last"]), text(&stranger["hint"])),
        );
    }
    for ring in items(&status["rings"]) {
        let members = items(&ring["configuration"]["members"]).len();
        let daemons = counted(members, "daemon", "daemons");
        row(
            "ring",
            format!(
                "{}: {}, {daemons}",
                text(&ring["top"]),
                text(&ring["groups_state"])
            ),
        );
    }
    for group in items(&status["bimodal"]) {
        let daemons = group["daemons"].as_u64().unwrap_or(0);
        row(
            "bimodal",
            format!(
                "{}: {}, gaps {}",
                text(&group["group"]),
                number::number_of(daemons, "daemon", "daemons"),
                text(&group["gossip"]["gaps"])
            ),
        );
    }
    if !clients.is_empty() {
        picture.push('\n');
        picture.push_str(&clients_table(clients));
    }
    picture
}

/// The clients for which most waits, the first most.
fn clients_table(clients: &[Value]) -> String {
    let mut sorted: Vec<&Value> = clients.iter().collect();
    let waiting = |client: &Value| client["backlog"].as_u64().unwrap_or(0);
    sorted.sort_by_key(|client| std::cmp::Reverse(waiting(client)));
    let columns = [
        "name",
        "transport",
        "groups",
        "unaccepted",
        "backlog",
        "dropped",
    ];
    let mut table = Table::new(&["client", "by", "groups", "unaccepted", "backlog", "dropped"]);
    for client in sorted.iter().take(CLIENTS_SHOWN) {
        table.row(columns.map(|column| text(&client[column])));
    }
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    let _ = table.write(&mut anstream::StripStream::new(&mut bytes));
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(more) = sorted
        .len()
        .checked_sub(CLIENTS_SHOWN)
        .filter(|more| *more > 0)
    {
        text.push_str(&format!(
            "and {}\n",
            counted(more, "client more", "clients more")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(uptime: f64, count: u64) -> Value {
        json!({
            "name": "h1", "member": "aa.bb", "version": "0.1.0", "uptime": uptime, "protocol": "ring",
            "state": "operational", "groups_state": "steady", "groups": 1,
            "configuration": {"members": [{"name": "h1"}, {"name": null}]},
            "clients": [
                {"name": "al@h1", "transport": "unix", "groups": 1, "unaccepted": 0, "backlog": 0, "dropped": 0},
                {"name": "bo@h1", "transport": "tcp", "groups": 1, "unaccepted": 2, "backlog": 2048, "dropped": 3,
                    "holds_back": true},
            ],
            "ring": {"queued": 1024},
            "counters": {
                "session": {"published": 10 * count, "delivered": 20 * count},
                "net": {"sent": {"bytes": 250_000 * count}, "data": {"bytes": 125_000 * count, "kernel_drops": count},
                    "control": {"bytes": 0, "kernel_drops": 0}},
                "ring": {"retransmissions": 3 * count},
            },
        })
    }

    #[test]
    fn a_line_has_the_rates_since_the_look_before() {
        let (before, now) = (status(10.0, 1), status(12.0, 3));
        let first = line(&Passed::between(None, &before), &before);
        assert_eq!(
            first,
            "h1 up 10 s: ring operational, groups steady; 2 daemons, 1 group, 2 clients; no rates yet; waits: \
             1.00 KiB for the ring, 2.00 KiB for clients; publishers wait for 1 client"
        );
        let second = line(&Passed::between(Some(&before), &now), &now);
        let rates =
            "; messages 10/s in 20/s out, network 2.0 Mb/s out 1.0 Mb/s in, 2 dropped, 6 again; ";
        assert!(second.contains(rates), "{second}");
        let mut another = status(1.0, 0);
        another["member"] = "aa.cc".into();
        let restarted = line(&Passed::between(Some(&now), &another), &another);
        assert!(restarted.contains("no rates yet"), "{restarted}");
    }

    #[test]
    fn a_part_without_a_majority_says_so() {
        let mut status = status(10.0, 1);
        status["configuration"]["majority"] = true.into();
        assert_eq!(states(&status), "ring operational, groups steady");
        status["configuration"]["majority"] = false.into();
        status["configuration"]["majority_of"] = 5.into();
        let said = "ring operational, groups steady, NO MAJORITY of 5";
        assert_eq!(states(&status), said);
    }

    #[test]
    fn a_picture_says_what_is_wrong() {
        let mut status = status(10.0, 1);
        status["trouble"] = "it is down".into();
        status["left_out"] = json!([{"name": "h4", "member": "aa.bb", "hint": "given up"}]);
        let picture = picture(&Passed::between(None, &status), &status);
        let lines = "trouble   it is down\nleft out  h4: given up\n";
        assert!(picture.contains(lines), "{picture}");
    }

    #[test]
    fn a_picture_names_members_and_the_clients_for_which_most_waits() {
        let (before, now) = (status(10.0, 1), status(12.0, 3));
        let picture = picture(&Passed::between(Some(&before), &now), &now);
        assert!(picture.contains("members   2: h1, -\n"), "{picture}");
        let (bo, al) = (
            picture.find("bo@h1").unwrap(),
            picture.find("al@h1").unwrap(),
        );
        assert!(bo < al, "{picture}");
        assert_eq!(cut("a\u{fc}b\u{6f22}c", 4), "a\u{fc}b");
    }
}
