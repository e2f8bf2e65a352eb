//! Deterministic work, for counting its instructions: `cargo xtask bench --instructions` runs this
//! under callgrind.
//!
//! `instructions --list` names the cases, `instructions CASE COUNT` does one for this many
//! messages. The same code runs as in a daemon, without kernel and clock: the ring on three nodes
//! in memory ([`ring`]), and the codecs ([`codecs`]). What a message costs is the difference
//! between two counts, so that starting and forming the ring is not in it.

mod codecs;
mod ring;

use std::process::ExitCode;

/// A case: its name, and what it does for a number of messages.
type Case = (&'static str, fn(u64));

const CASES: &[Case] = &[
    ("ring of 3, 64 B, sealed", |count| {
        ring::order(count, 64, true);
    }),
    ("ring of 3, 1350 B, sealed", |count| {
        ring::order(count, 1350, true);
    }),
    ("ring of 3, 8850 B, sealed", |count| {
        ring::order(count, 8850, true);
    }),
    ("ring of 3, 1350 B, in clear", |count| {
        ring::order(count, 1350, false);
    }),
    ("frames of a message through a daemon, 64 B", |count| {
        codecs::frames(count, 64);
    }),
    ("frames of a message through a daemon, 1350 B", |count| {
        codecs::frames(count, 1350);
    }),
    ("packing and unpacking, 64 B", |count| {
        codecs::packing(count, 64);
    }),
    ("packing and unpacking, 1350 B", |count| {
        codecs::packing(count, 1350);
    }),
    ("prefix of a datagram, both ways", codecs::prefix),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [list] if list == "--list" => {
            for (name, _) in CASES {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        [name, count] => {
            let case = CASES.iter().find(|(known, _)| known == name);
            let (Some((_, run)), Ok(count)) = (case, count.parse()) else {
                eprintln!("no case `{name}`, or `{count}` is no number: see --list");
                return ExitCode::from(2);
            };
            run(count);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: instructions --list | CASE COUNT; counting is done by `cargo xtask bench --instructions`"
            );
            ExitCode::from(2)
        }
    }
}
