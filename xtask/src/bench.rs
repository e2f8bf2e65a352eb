//! `cargo xtask bench`: installs what the measurements call, builds the program `performance`
//! (crates/bench) and passes the options on to it.

use std::process::Command;

use crate::exec::{self, cargo};
use crate::{Failure, setup};

/// `cargo xtask bench …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    let has = |option: &str| args.iter().any(|arg| arg == option);
    if has("--instructions") {
        setup::install_counter()?;
    }
    // A system that cannot be installed stands in the table with the reason.
    if has("--peers")
        && !has("--show")
        && let Err(reason) = setup::install_peers()
    {
        eprintln!("warning: {reason}");
    }
    let build = ["build", "--release", "--package", "groupcast-bench"];
    exec::hand_over(cargo(build.into_iter().chain(["--bin", "performance"])))?;
    // In the caller's folder: files are named from there.
    let mut performance = Command::new(exec::built("release", "performance"));
    performance.args(args);
    exec::hand_over(performance)
}
