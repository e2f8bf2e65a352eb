//! Tests that a pipe is durable, too: what is in place is whole after every crash, and what was
//! told complete is there.
//!
//! Goal and method are those of the module above. The receiver makes its target directory itself,
//! or replaces what an earlier pipe has left there.

use std::io::Write as _;

use super::*;

const NAME: &str = "stdin";

/// Receives a pipe in `parts` into `out`; what changed on the disk.
fn receive(out: &Path, parts: &[&[u8]], durable: bool) -> Vec<Change> {
    recorded(|| {
        let spool = Spool::open(out, &Limits::default(), durable).unwrap();
        let mut stream = spool.create_stream("under-way").unwrap();
        for part in parts {
            stream.write_all(part).unwrap();
        }
        drop(stream);
        spool.publish_stream("under-way", NAME).unwrap();
        note(|| Change::Told);
    })
}

/// Crashes at every moment of a pipe that comes into a directory where `former` is, or into a new
/// one, and starts a receiver after each: how often the former state was there then, and how often
/// the new one.
fn crash(former: Option<&str>, durable: bool, seeds: u64) -> (usize, usize) {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    let out = disk.join("deep/out");
    fs::create_dir(&disk).unwrap();
    if let Some(former) = former {
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join(NAME), former).unwrap();
    }
    let before = Model::of(&disk);
    let changes = receive(&out, &[b"a stream ", b"in parts"], durable);
    let told = changes.iter().position(|it| matches!(it, Change::Told));
    let told = told.expect("it was complete");
    let new = Some(Node::File(b"a stream in parts".to_vec()));
    let old = former.map(|former| Node::File(former.into()));
    let (mut is_old, mut is_new) = (0, 0);
    for moment in 0..=changes.len() {
        for seed in 0..seeds {
            let mut rng = Rng::new(seed * 1000 + moment as u64);
            let loses_all = seed == 0;
            let lost = || loses_all || rng.below(2) == 0;
            Model::after(&before, &changes[..moment], lost).restore(&disk);
            drop(Spool::open(&out, &Limits::default(), false).unwrap());
            let mut seen = Model::of(&out).seen(&out);
            assert_eq!(seen.remove(&out), Some(Node::Directory));
            let found = seen.remove(&out.join(NAME));
            assert!(seen.is_empty(), "moment {moment}, seed {seed}: {seen:#?}");
            if found == new {
                is_new += 1;
            } else {
                is_old += 1;
                assert_eq!(found, old, "moment {moment}, seed {seed}");
                assert!(
                    moment <= told,
                    "it was told complete: moment {moment}, seed {seed}"
                );
            }
        }
    }
    (is_old, is_new)
}

#[test]
fn a_pipe_that_was_told_complete_is_there_in_a_directory_that_was_new() {
    let (nothing, everything) = crash(None, true, 8);
    assert!(nothing > 30 && everything >= 8, "{nothing} {everything}");
}

#[test]
fn a_pipe_replaces_the_former_one_whole_or_not_at_all() {
    let (old, new) = crash(Some("an earlier stream"), true, 8);
    assert!(old > 30 && new >= 8, "{old} {new}");
}

#[test]
fn a_pipe_that_was_not_synchronised_is_found_missing() {
    let found = std::panic::catch_unwind(|| crash(None, false, 8));
    assert!(found.is_err(), "a crash loses what was told");
}
