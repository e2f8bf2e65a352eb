//! Processes that use processor time and touch nothing else: what hostile clients are compared to.

use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use groupcast_bench::{Process, Testbed};

use super::super::Outcome;

/// The hidden word: with it the soak program plays such a process.
pub(super) const BURN: &str = "burn";
/// How long a thread that has used its share waits before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// Starts a process whose `threads` threads together use the share `share` of a processor.
pub(super) fn start(
    bed: &Testbed,
    label: &str,
    threads: usize,
    share: f64,
    length: Duration,
) -> Outcome<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([BURN, &threads.to_string()]);
    command.args([share, length.as_secs_f64()].map(|number| number.to_string()));
    Ok(bed.launch(label, command)?)
}

/// The body of such a process.
pub(super) fn main(words: &[&str]) -> Outcome {
    let [threads, share, seconds] = words else {
        return Err("usage: burn THREADS SHARE SECONDS".into());
    };
    let (threads, share): (usize, f64) = (threads.parse()?, share.parse()?);
    let length = Duration::from_secs_f64(seconds.parse()?);
    let running: Vec<_> = (0..threads)
        .map(|_| thread::spawn(move || burn(share / threads as f64, length)))
        .collect();
    for thread in running {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn burn(share: f64, length: Duration) -> Outcome {
    let begun = Instant::now();
    let before = used()?;
    while begun.elapsed() < length {
        if used()? - before >= begun.elapsed().mul_f64(share) {
            sleep(PAUSE);
        } else {
            (0..10_000_u64).for_each(|number| {
                black_box(number);
            });
        }
    }
    Ok(())
}

/// The processor time that this thread has used.
fn used() -> Outcome<Duration> {
    let line = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = line.split_whitespace().next();
    let nanos = nanos.ok_or("/proc/thread-self/schedstat is empty")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}
