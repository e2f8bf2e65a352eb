//! `cargo xtask fuzz`: libFuzzer on stable Rust, over the targets of `fuzz/`.
//!
//! What cargo-fuzz would do with a nightly compiler is a matter of a few flags: LLVM's coverage instrumentation for
//! our code, and libFuzzer linked in. New inputs are kept in `fuzz/target/corpus`; one that is worth keeping for ever
//! goes, by hand, to `fuzz/corpus`, which `cargo test` replays.

use std::fs;
use std::process::Command;

use crate::exec::{self, cargo};
use crate::{Failure, number};

/// How long a target runs unless told otherwise.
const SECONDS: u64 = 60;

/// The only platform that the driver supports; naming it keeps the flags away from build scripts.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Coverage counters per edge, a table of program counters, and the operands of comparisons.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// `cargo xtask fuzz …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    let targets = targets()?;
    let Some((target, rest)) = args.split_first() else {
        for (name, about) in targets {
            println!("{name:<9} {about}");
        }
        return Ok(());
    };
    if !targets.iter().any(|(name, _)| name == target) {
        let known: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Failure::Usage(format!(
            "there is no fuzz target `{target}`; there are: {}",
            known.join(", ")
        )));
    }
    let (seconds, through) = match rest.split_first() {
        Some((flag, rest)) if flag == "--seconds" => match rest.split_first() {
            Some((value, through)) => (number(flag, value)?, through),
            None => return Err(Failure::Usage("`--seconds` needs a value".into())),
        },
        _ => (SECONDS, rest),
    };
    fuzz(target, seconds, through)
}

/// The targets by name, each with the first line of its entry point, which says what it feeds.
fn targets() -> Result<Vec<(String, String)>, String> {
    let dir = exec::root().join("fuzz/fuzz_targets");
    let trouble = |error| format!("cannot read {}: {error}", dir.display());
    let mut targets = Vec::new();
    for entry in fs::read_dir(&dir).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        let text = fs::read_to_string(&path).map_err(trouble)?;
        let about = text.lines().next().unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        targets.push((
            name.into_owned(),
            about.trim_start_matches("//!").trim().to_owned(),
        ));
    }
    targets.sort();
    Ok(targets)
}

fn fuzz(target: &str, seconds: u64, through: &[String]) -> Result<(), Failure> {
    let home = exec::root().join("fuzz");
    let (grown, seeds) = (
        home.join("target/corpus").join(target),
        home.join("corpus").join(target),
    );
    let artifacts = home.join("artifacts").join(target);
    for dir in [&grown, &artifacts] {
        fs::create_dir_all(dir)
            .map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
    }
    let mut command = cargo([
        "run",
        "--release",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target",
        PLATFORM,
        "--bin",
        target,
        "--",
    ]);
    command
        .env("RUSTFLAGS", COVERAGE)
        .args([grown, seeds])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(through);
    exec::hand_over(command)
}

/// The command that checks that the targets build. They share the workspace's build directory.
pub(crate) fn check() -> Command {
    let mut check = cargo(["check", "--manifest-path", "fuzz/Cargo.toml"]);
    check.env("CARGO_TARGET_DIR", exec::built("", ""));
    check
}
