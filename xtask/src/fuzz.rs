//! `cargo xtask fuzz`: libFuzzer on stable Rust, over the targets of `fuzz/`.
//!
//! What cargo-fuzz would do with a nightly compiler is a matter of a few flags: LLVM's coverage instrumentation for
//! our code, and libFuzzer linked in. New inputs are kept in `fuzz/target/corpus`; one that is worth keeping for ever
//! goes, by hand, to `fuzz/corpus`, which `cargo test` replays.

use std::fs;
use std::process::Command;

use crate::exec::{self, cargo};
use crate::{Failure, number};

/// The fuzz targets and what each feeds.
const TARGETS: &[(&str, &str)] = &[
    ("node", "datagrams of anybody, handed to a node"),
    ("wire", "the cursors and the prefix of every datagram"),
];

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
    let Some((target, rest)) = args.split_first() else {
        for (name, about) in TARGETS {
            println!("{name:<12} {about}");
        }
        return Ok(());
    };
    if !TARGETS.iter().any(|(name, _)| name == target) {
        let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
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
    let mut check = cargo(["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"]);
    check.env("CARGO_TARGET_DIR", exec::built("", ""));
    check
}
