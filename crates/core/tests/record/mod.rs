//! Records of what files mean, in full: for tests of every crate that reads configuration files,
//! which include this file by its path.
//!
//! Each block of a record has a title and a file; below the line stands what came out, as the test
//! says it. `BLESS=1` rewrites the record.

use std::fmt::{Debug, Write as _};
use std::path::Path;

const BEGIN: &str = "==== ";
const OUTCOME: &str = "----\n";

/// A configuration, a line for each value, with the path to the value before it.
pub(crate) fn lines(config: &impl Debug) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for line in format!("{config:#?}").lines() {
        let text = line.trim();
        match text.strip_suffix(['{', '(', '[']) {
            Some(name) => path.push(name.trim_end_matches([' ', ':']).replace(": ", ":")),
            None if matches!(text, "}" | "}," | ")" | ")," | "]" | "],") => {
                path.pop();
            }
            // A switch of builds for tests, which no file can set.
            None if text.starts_with("planted: ") => {}
            None => lines.push(format!("{}/{text}", path.join("/"))),
        }
    }
    lines
}

/// What came out of a file that could be read: the `lines` that `usual` does not have.
pub(crate) fn told(lines: &[String], usual: &[String]) -> String {
    let others = lines.iter().filter(|line| !usual.contains(line));
    others.fold(String::from("read\n"), |text, line| text + line + "\n")
}

/// Holds the record at `path` against what `outcome` says of the file of each block.
///
/// # Panics
/// If they differ, unless `BLESS` is set.
pub(crate) fn check(path: &Path, mut outcome: impl FnMut(&str) -> String) {
    let recorded = std::fs::read_to_string(path).expect("the record is beside the test");
    let mut now = String::new();
    for block in recorded.split(BEGIN).skip(1) {
        let (title, rest) = block.split_once('\n').expect("a title is a line");
        let file = rest.split(OUTCOME).next().unwrap_or_default();
        let _ = write!(now, "{BEGIN}{title}\n{file}{OUTCOME}{}\n", outcome(file));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &now).expect("the record can be written");
        return;
    }
    assert!(now == recorded, "BLESS=1 rewrites {}", path.display());
}
