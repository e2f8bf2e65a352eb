//! Live tests: the real binary on the hosts of a test bed, judged by what its users see.
//!
//! - [`cluster`]: daemons, subscribers and publishers on the hosts of a bed.
//! - [`stream`]: what a subscriber printed; [`judge`]: what is wrong with that.
//! - [`text`]: something to publish.
//! - [`eavesdrop`], [`pcap`]: what an eavesdropper has; [`forged`]: what an adversary makes of it
//!   (`src/bin/adversary.rs`).
//! - [`transfer`]: a text through a lossy network; [`exclusion`]: all members flood.
//! - [`files`]: files to many hosts, interrupted, many and small, beside other flows.
//! - [`bus`]: many clients of the bus against a naive model; people beside a large volume.
//! - [`chaos`]: everything that happens to hosts, at random; [`compilers`]: what else runs on them.
//! - [`farewell`]: the last words of a daemon to its clients; [`large`]: the longest messages.
//! - [`embedded`]: programs with groups of their own, without daemons.
//! - [`guests`]: requests to a group, a handler and a lock, of which holders are killed.
//! - [`failover`]: how long the others are held up when a member dies or falls silent.
//! - [`hostile`]: a thousand clients, some of them hostile; [`flood`]: datagrams that no daemon
//!   should believe; [`insider`]: a holder of the key; [`races`]: a local user against a receiver.
//! - [`requests`]: a program that asks hosts by the library.
//! - [`rings`]: rings that joins make, while daemons are killed and cut off.
//! - [`rekeys`]: the key is changed again and again. [`bars`]: what long runs are held to;
//!   [`memory`]: whether it is flat.
//!
//! The tests are in `tests/live/`, one behaviour a file. They are ignored unless asked for, as
//! `cargo xtask test` does.

pub mod bars;
pub mod bus;
pub mod chaos;
pub mod cluster;
pub mod compilers;
pub mod eavesdrop;
pub mod embedded;
pub mod exclusion;
pub mod failover;
pub mod farewell;
pub mod files;
pub mod flood;
pub mod forged;
pub mod guests;
pub mod hostile;
pub mod insider;
pub mod judge;
pub mod large;
pub mod memory;
pub mod pcap;
pub mod races;
pub mod rekeys;
pub mod requests;
pub mod rings;
pub mod stream;
pub mod text;
pub mod transfer;

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_bench::Testbed;

/// How a live test ends: any error is a failure that says what was expected.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A part that a program plays in a process of its own: the hidden word that asks for it, and what
/// it does with the words that follow.
pub type Role = (&'static str, fn(&[&str]) -> Outcome);

/// Whether live tests cannot run here; says why where the reader of the test's output sees it.
pub fn skipped() -> bool {
    match Testbed::available() {
        Ok(()) => false,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            true
        }
    }
}

/// Whether the machine kept a daemon from running for so long that the daemon logged a scheduling
/// gap.
static STARVED: AtomicBool = AtomicBool::new(false);

/// Runs a live test, or says why it cannot run here.
///
/// On a machine that keeps a daemon from running for long (it logs such gaps), the others may
/// rightly exclude it, and a test that expects all members to stay says nothing: it is run again,
/// at most twice. A failure without such a gap stands, and so does a [`BrokenPromise`].
pub fn live(test: impl Fn() -> Outcome) -> Outcome {
    const ATTEMPTS: usize = 3;
    if skipped() {
        return Ok(());
    }
    for _ in 1..ATTEMPTS {
        STARVED.store(false, Ordering::Relaxed);
        match test() {
            Err(error) if STARVED.load(Ordering::Relaxed) && !error.is::<BrokenPromise>() => {
                eprintln!("again, because a daemon was kept from running: {error}");
            }
            outcome => return outcome,
        }
    }
    test()
}

/// Asks `question` until it has an answer, or fails with `what` was awaited after `limit`.
pub fn until<T>(
    limit: Duration,
    what: impl fmt::Display,
    mut question: impl FnMut() -> Outcome<Option<T>>,
) -> Outcome<T> {
    const INTERVAL: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = question()? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            return Err(format!("{what}: not within {limit:?}").into());
        }
        thread::sleep(INTERVAL);
    }
}

/// What no fault of the network and no lack of processors excuses: order, agreement, what histories
/// are judged by.
#[derive(Debug)]
pub struct BrokenPromise(String);

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BrokenPromise {}

/// An error that lists all faults of a run in which every member should have stayed, if there are
/// any.
pub fn verdict(faults: &[judge::Fault]) -> Outcome {
    list(faults).map_or(Ok(()), |text| Err(text.into()))
}

/// A [`BrokenPromise`] that lists all faults, if there are any.
pub fn promised(faults: &[judge::Fault]) -> Outcome {
    list(faults).map_or(Ok(()), |text| Err(BrokenPromise(text).into()))
}

fn list(faults: &[judge::Fault]) -> Option<String> {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    (!faults.is_empty()).then(|| format!("{} faults:\n{}", lines.len(), lines.join("\n")))
}
