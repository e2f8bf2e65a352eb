//! The fuzz corpora, replayed: every committed input of every target, seeds and past findings alike.

use std::fs;
use std::path::PathBuf;

use groupcast_suite::fuzz::TARGETS;

fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

#[test]
fn every_committed_input_is_survived() {
    for (name, target) in TARGETS {
        let corpus = home().join("corpus").join(name);
        let mut replayed = 0;
        for entry in fs::read_dir(&corpus).expect("every target has a corpus") {
            let path = entry.expect("the corpus can be listed").path();
            // Shown by the test runner if the input fails.
            println!("{}", path.display());
            target(&fs::read(&path).expect("an input can be read"));
            replayed += 1;
        }
        assert!(replayed > 0, "{} is empty", corpus.display());
    }
}

#[test]
fn every_target_has_an_entry_point_and_nothing_else_has() {
    let mut entries: Vec<String> = fs::read_dir(home().join("fuzz_targets"))
        .expect("the entry points can be listed")
        .map(|entry| {
            let path = entry.expect("the entry points can be listed").path();
            path.file_stem()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    entries.sort();
    let targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(entries, targets);
}
