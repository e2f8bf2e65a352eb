//! The measurements that docs/performance.md is made of: `cargo xtask bench` builds this program
//! and passes its options on to it.
//!
//! - [`sweep`]: `groupcast bench ring` over its settings, in one table.
//! - [`peers`]: `--peers`, other systems beside the ring.
//! - [`instructions`]: `--instructions`, deterministic work counted in instructions instead of
//!   time.

mod conditions;
mod exec;
mod instructions;
mod peers;
mod plan;
mod results;
mod sweep;
mod table;

use std::path::Path;
use std::process::ExitCode;

/// Why nothing was measured.
#[derive(Debug)]
enum Failure {
    /// The program was called wrongly: what to do instead.
    Usage(String),
    /// It failed: what went wrong.
    Failed(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("--instructions") => instructions::task(&args[1..]),
        Some("--peers") => peers::task(&args[1..]),
        _ => sweep::task(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}\nTry `cargo xtask help`.");
            ExitCode::from(2)
        }
    }
}

/// What follows `option`.
fn value_of<'a>(
    option: &str,
    args: &mut impl Iterator<Item = &'a String>,
) -> Result<&'a String, Failure> {
    args.next()
        .ok_or_else(|| Failure::Usage(format!("`{option}` takes a value")))
}

/// A number from 1 to 100 that follows `option`.
fn count(option: &str, value: &str) -> Result<u8, Failure> {
    match value.parse() {
        Ok(count @ 1..=100) => Ok(count),
        _ => Err(Failure::Usage(format!(
            "`{option}` takes a number from 1 to 100, not `{value}`"
        ))),
    }
}

/// `--show` goes with `--out`.
fn shown_from(show: bool, out: Option<&Path>) -> Result<(), Failure> {
    if show && out.is_none() {
        return Err(Failure::Usage(
            "`--show` prints what is in a file: name it with `--out FILE`".into(),
        ));
    }
    Ok(())
}
