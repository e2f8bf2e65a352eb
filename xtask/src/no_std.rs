//! `core` and `protocols` stay `no_std` and deterministic: no name of `std`, no clock, no thread,
//! no hash table whose order differs from run to run.
//!
//! The compiler holds most of this through `#![no_std]`; this checks that the attribute is there,
//! unconditional, and that nothing outside of tests opens the door again. It reads lines, not
//! syntax: code under `#[cfg(test)]` and comments are left out, which is all that the house style
//! needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::exec;

/// Crates that must build without `std`.
const CRATES: &[&str] = &["crates/core", "crates/protocols"];

/// What must not be named in them, and what to use instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std", "`core` or `alloc`"),
    ("HashMap", "`BTreeMap`: its order is the same in every run"),
    ("HashSet", "`BTreeSet`: its order is the same in every run"),
    ("Instant", "`Time`, handed in"),
    ("SystemTime", "`Time`, handed in"),
];

/// Every breach found, one a line; empty if there is none.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let mut breaches = Vec::new();
    for name in CRATES {
        let src = exec::root().join(name).join("src");
        let mut texts = Vec::new();
        read(&src, &mut texts)?;
        breaches.extend(check_crate(name, &texts));
    }
    Ok(breaches)
}

/// A source file: its path inside `src`, and its text.
type Text = (PathBuf, String);

fn read(dir: &Path, texts: &mut Vec<Text>) -> Result<(), String> {
    let trouble = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    for entry in fs::read_dir(dir).map_err(|error| trouble(dir, error))? {
        let path = entry.map_err(|error| trouble(dir, error))?.path();
        if path.is_dir() {
            read(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|error| trouble(&path, error))?;
            texts.push((path, text));
        }
    }
    texts.sort();
    Ok(())
}

fn check_crate(name: &str, texts: &[Text]) -> Vec<String> {
    let mut breaches = Vec::new();
    let has_attribute = texts
        .iter()
        .filter(|(path, _)| path.ends_with("src/lib.rs"))
        .any(|(_, text)| text.lines().any(|line| line.trim() == "#![no_std]"));
    if !has_attribute {
        breaches.push(format!("{name}: src/lib.rs does not say #![no_std]"));
    }
    let tests: BTreeSet<PathBuf> = texts
        .iter()
        .flat_map(|(path, text)| test_modules(path, text))
        .collect();
    for (path, text) in texts {
        let is_test = tests
            .iter()
            .any(|module| path == &module.with_extension("rs") || path.starts_with(module));
        if is_test {
            continue;
        }
        for (number, line) in code_lines(text) {
            for (word, instead) in FORBIDDEN {
                if names(line, word) {
                    breaches.push(format!(
                        "{}:{number}: names `{word}`; use {instead}",
                        path.strip_prefix(exec::root()).unwrap_or(path).display()
                    ));
                }
            }
        }
    }
    breaches
}

/// Modules in files of their own that `text` declares under `#[cfg(test)]`, as paths without
/// extension.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let is_root = ["lib.rs", "mod.rs", "main.rs"]
        .iter()
        .any(|root| path.ends_with(root));
    let dir = if is_root {
        path.parent().unwrap_or(path).to_path_buf()
    } else {
        path.with_extension("")
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines
        .windows(2)
        .filter(|pair| pair[0] == "#[cfg(test)]")
        .filter_map(|pair| {
            let (_, name) = pair[1].strip_suffix(';')?.rsplit_once("mod ")?;
            Some(dir.join(name))
        })
        .collect()
}

/// The lines of `text` with their numbers, without comments and without what is under
/// `#[cfg(test)]`.
fn code_lines(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            skip_item(&mut lines);
            continue;
        }
        let code = line.split("//").next().unwrap_or_default();
        if !code.trim().is_empty() {
            kept.push((index + 1, code));
        }
    }
    kept
}

/// Skips one item: to its semicolon, or to the brace that closes it (rustfmt puts that at the
/// item's own indent).
fn skip_item<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) {
    let mut indent = None;
    for (_, line) in lines {
        let start = line.len() - line.trim_start().len();
        let indent = *indent.get_or_insert(start);
        if start == indent && line.trim_end().ends_with([';', '}']) {
            return;
        }
    }
}

/// Whether `line` names `word`, as a whole identifier.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let texts: Vec<Text> = files
            .iter()
            .map(|(path, text)| (Path::new("/c/src").join(path), (*text).to_owned()))
            .collect();
        check_crate("c", &texts)
    }

    #[test]
    fn core_and_protocols_hold() {
        assert_eq!(check(), Ok(Vec::new()));
    }

    #[test]
    fn the_attribute_must_be_there_unconditionally() {
        assert!(found(&[("lib.rs", "#![no_std]\n")]).is_empty());
        let conditional = "#![cfg_attr(not(test), no_std)]\n";
        assert_eq!(
            found(&[("lib.rs", conditional)]),
            ["c: src/lib.rs does not say #![no_std]"]
        );
    }

    #[test]
    fn forbidden_names_are_found_with_their_line() {
        let text = "#![no_std]\nuse std::vec::Vec;\nlet t = Instant::now();\n";
        let found = found(&[("lib.rs", text)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("/c/src/lib.rs:2: names `std`"));
        assert!(found[1].starts_with("/c/src/lib.rs:3: names `Instant`"));
    }

    #[test]
    fn comments_tests_and_longer_identifiers_are_no_breach() {
        let lib = "#![no_std]\n// std::fs\n#[cfg(test)]\nextern crate std;\nlet std_dev = my_std;\n\
                   #[cfg(test)]\nmod model;\n#[cfg(test)]\nmod tests {\n    use std::vec;\n\n    fn f() {}\n}\n";
        let model = "use std::collections::HashMap;\n";
        assert_eq!(
            found(&[("lib.rs", lib), ("model.rs", model)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn code_after_a_test_item_is_read_again() {
        let text =
            "#![no_std]\n#[cfg(test)]\nfn f(\n    x: u8,\n) -> u8 {\n    x\n}\nuse std::fs;\n";
        assert_eq!(found(&[("lib.rs", text)]).len(), 1);
    }
}
