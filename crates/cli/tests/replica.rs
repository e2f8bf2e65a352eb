//! The example of a replicated table (`crates/client/examples/replica.rs`) at real daemons.
//!
//! Goal: a replica that comes later gets the table, and from then on all tables are equal whoever
//! commands. Method: replicas in threads of this process, each at a daemon of its own, judged by
//! the lines that they print.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemons has failed"
)]

#[expect(dead_code, reason = "its main is the example's own")]
#[path = "../../client/examples/replica.rs"]
mod example;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use groupcast_client::Address;

use crate::host::Host;

/// How long a line may take: a loaded machine is no fault.
const PATIENCE: Duration = Duration::from_secs(60);

/// A replica in a thread.
struct Replica {
    commands: Sender<String>,
    lines: Receiver<String>,
    thread: JoinHandle<Result<(), String>>,
}

impl Replica {
    /// Starts one at the daemon `name`.
    fn start(host: &Host, name: &str) -> Self {
        let address = Address::from(Path::new(&host.socket(name)));
        let (commands, typed) = mpsc::channel();
        let (print, lines) = mpsc::channel();
        let thread = thread::spawn(move || {
            let print = |line| print.send(line).unwrap();
            example::play(&address, &typed, print).map_err(|error| error.to_string())
        });
        Self {
            commands,
            lines,
            thread,
        }
    }

    fn command(&self, text: &str) {
        self.commands.send(text.to_owned()).unwrap();
    }

    /// Waits for a line that begins so; what was printed before it is passed over.
    fn await_line(&self, start: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("no line `{start}`: {error}"));
            if line.starts_with(start) {
                return;
            }
        }
    }

    /// Ends it, as at the end of its input.
    fn end(self) {
        drop(self.commands);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
    }
}

#[test]
fn a_replica_that_comes_later_gets_the_table_and_all_stay_equal() {
    let host = Host::new();
    let _daemons = ["h1", "h2"].map(|name| host.daemon(name, &["--insecure"]));
    host.await_members("h1", &["h1", "h2"]);
    host.await_members("h2", &["h1", "h2"]);

    let first = Replica::start(&host, "h1");
    first.await_line("replicas now: ");
    first.command("apples 3");
    first.await_line("apples = 3 ");
    first.command("no number");
    first.await_line("not `KEY NUMBER`");

    let later = Replica::start(&host, "h2");
    later.await_line("this is now the table of ");
    later.await_line("apples = 3");
    later.command("apples 4");
    first.command("pears -1");
    for replica in [&first, &later] {
        // The two commands come in one order, which the sum does not show: a third comes after
        // both are there.
        replica.await_line("pears = -1 ");
    }
    first.command("apples 1");
    for replica in [&first, &later] {
        replica.await_line("apples = 8 ");
    }
    later.end();
    first.await_line("replicas now: ");
    first.end();
}
