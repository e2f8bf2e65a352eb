//! The fuzz corpora, replayed: every committed input of every target, seeds and past findings
//! alike.

use std::fs;
use std::path::{Path, PathBuf};

use groupcast_protocols::registry::FAMILIES;
use groupcast_suite::fuzz::{TARGETS, family};

fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The corpus of the target called `name`, if there is one.
fn corpus(name: &str) -> Option<PathBuf> {
    Some(home().join("corpus").join(name)).filter(|corpus| corpus.is_dir())
}

fn replay(corpus: &Path, target: impl Fn(&[u8])) {
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("a corpus can be listed") {
        let path = entry.expect("a corpus can be listed").path();
        // Shown by the test runner if the input fails.
        println!("{}", path.display());
        target(&fs::read(&path).expect("an input can be read"));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", corpus.display());
}

#[test]
fn every_committed_input_is_survived() {
    for (name, target) in TARGETS {
        replay(&corpus(name).expect("every target has a corpus"), target);
    }
}

/// A script means something to every family, so a family without a corpus of its own is played
/// those of all others.
#[test]
fn every_family_survives_its_corpus_or_that_of_all_others() {
    let corpora: Vec<PathBuf> = FAMILIES
        .iter()
        .filter_map(|family| corpus(family.name))
        .collect();
    for it in FAMILIES {
        let own = corpus(it.name).map(|own| vec![own]);
        for corpus in own.as_ref().unwrap_or(&corpora) {
            println!("{}:", it.name);
            replay(corpus, |script| family(it.name, script));
        }
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
    let mut targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    targets.push("family");
    targets.sort_unstable();
    assert_eq!(entries, targets);
}
