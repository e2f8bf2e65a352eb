//! `cargo xtask fuzz`: libFuzzer on stable Rust, over the targets of `fuzz/`.
//!
//! What cargo-fuzz would do with a nightly compiler is a matter of a few flags: LLVM's coverage
//! instrumentation for our code, and libFuzzer linked in. New inputs are kept in `fuzz/grown`; one
//! that is worth keeping for ever goes, by hand, to `fuzz/corpus`, which `cargo test` replays.

use std::fs;

use crate::exec::{self, cargo};
use crate::{Failure, families, number};

/// How long a target runs unless told otherwise.
const SECONDS: u64 = 60;

/// What links libFuzzer into the targets; without it none is built.
pub(crate) const FEATURE: &str = "groupcast-fuzz/libfuzzer";

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
        for (name, Target { about, .. }) in targets {
            println!("{name:<9} {about}");
        }
        return Ok(());
    };
    let Some((_, Target { binary, .. })) = targets.iter().find(|(name, _)| name == target) else {
        let known: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Failure::Usage(format!(
            "there is no fuzz target `{target}`; there are: {}",
            known.join(", ")
        )));
    };
    let (seconds, through) = match rest.split_first() {
        Some((flag, rest)) if flag == "--seconds" => match rest.split_first() {
            Some((value, through)) => (number(flag, value)?, through),
            None => return Err(Failure::Usage("`--seconds` needs a value".into())),
        },
        _ => (SECONDS, rest),
    };
    fuzz(target, binary, seconds, through)
}

/// What is run for a target.
struct Target {
    /// The entry point.
    binary: String,
    /// What it feeds.
    about: String,
}

/// The entry point that serves every family of the registry, under the family's name.
const FAMILY: &str = "family";
/// Which family it is to serve.
const FAMILY_VARIABLE: &str = "GROUPCAST_FAMILY";

/// The targets by name: every entry point, which says in its first line what it feeds, and every
/// family.
fn targets() -> Result<Vec<(String, Target)>, String> {
    let dir = exec::root().join("fuzz/fuzz_targets");
    let trouble = |error| format!("cannot read {}: {error}", dir.display());
    let mut targets = Vec::new();
    for entry in fs::read_dir(&dir).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        let text = fs::read_to_string(&path).map_err(trouble)?;
        let about = text.lines().next().unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let about = about.trim_start_matches("//!").trim().to_owned();
        let names = match &*name {
            FAMILY => families::names()?,
            _ => vec![name.clone().into_owned()],
        };
        targets.extend(names.into_iter().map(|target| {
            let (binary, about) = (name.clone().into_owned(), about.clone());
            (target, Target { binary, about })
        }));
    }
    targets.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(targets)
}

fn fuzz(target: &str, binary: &str, seconds: u64, through: &[String]) -> Result<(), Failure> {
    let home = exec::root().join("fuzz");
    let (grown, seeds) = (
        home.join("grown").join(target),
        home.join("corpus").join(target),
    );
    let artifacts = home.join("artifacts").join(target);
    for dir in [&grown, &artifacts] {
        fs::create_dir_all(dir)
            .map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
    }
    let mut command = cargo([
        "run",
        "--profile",
        "swarm",
        "--package",
        "groupcast-fuzz",
        "--features",
        FEATURE,
        "--target",
        PLATFORM,
        "--bin",
        binary,
        "--",
    ]);
    command
        .env("RUSTFLAGS", COVERAGE)
        .env(FAMILY_VARIABLE, target)
        .arg(grown)
        // A family may have no corpus of its own yet.
        .args(Some(seeds).filter(|seeds| seeds.is_dir()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(through);
    exec::hand_over(command)
}
