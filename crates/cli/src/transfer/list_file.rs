//! Transfer lists in files: a line for each receiver, its name and the subgroups that it is in
//! (docs/lists.md).

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

use groupcast_core::text::is_visible;
use groupcast_transfer::xgm::Subgroups;

use super::name;
use crate::failure::Failure;

/// The most bytes of a list: room for the longest name for each receiver.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the list in the file at `path`, of at most `receivers_max` receivers.
pub(super) fn read(path: &Path, receivers_max: usize) -> Result<Vec<(String, Subgroups)>, Failure> {
    let shown = path.display();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| Failure::usage(format!("cannot read the list {shown}: {error}")))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::usage(format!(
            "the list {shown} is longer than 1 MiB"
        )));
    }
    let listed = parse(&text).map_err(|problem| Failure::usage(format!("{shown}: {problem}")))?;
    match listed.len() {
        0 => Err(Failure::usage(format!("the list {shown} names nobody"))),
        count if count > receivers_max => Err(Failure::usage(format!(
            "the list {shown} names {count} receivers, and {receivers_max} are the most"
        ))),
        _ => Ok(listed),
    }
}

fn parse(text: &str) -> Result<Vec<(String, Subgroups)>, String> {
    let mut listed: Vec<(String, Subgroups)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let Some(word) = words.next() else {
            continue;
        };
        let problem = |problem: &dyn ToString| format!("line {number}: {}", problem.to_string());
        let host = name(word).map_err(|error| problem(&error))?;
        let subgroups = words.next().map(str::parse).transpose();
        let subgroups: Option<Subgroups> = subgroups.map_err(|error| problem(&error))?;
        if words.next().is_some() {
            return Err(problem(
                &"a name and its subgroups are all that is in a line",
            ));
        }
        if listed.iter().any(|(other, _)| *other == host) {
            return Err(problem(&format!("{host} is there already")));
        }
        listed.push((host, subgroups.unwrap_or(Subgroups::ALL)));
    }
    Ok(listed)
}

/// Writes a list. Leaves out names that cannot stand in one, and returns them.
pub(super) fn write<'a>(
    out: &mut impl Write,
    hosts: impl Iterator<Item = (&'a str, Subgroups)>,
) -> io::Result<Vec<&'a str>> {
    let mut left_out = Vec::new();
    for (host, subgroups) in hosts {
        let line = format!("{host} {subgroups}");
        let comes_back = parse(&line).is_ok_and(|it| it == [(host.to_owned(), subgroups)]);
        match comes_back && host.chars().all(is_visible) {
            true => writeln!(out, "{line}")?,
            false => left_out.push(host),
        }
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back_and_names_that_cannot_are_named() {
        let some: Subgroups = "0,3".parse().expect("a list");
        let hosts = [
            ("one", some),
            ("two hosts", some),
            ("#", some),
            ("\u{1b}[2J", some),
            ("two", Subgroups::ALL),
        ];
        let mut written = Vec::new();
        let left_out = write(&mut written, hosts.iter().copied()).expect("it is memory");
        assert_eq!(left_out, ["two hosts", "#", "\u{1b}[2J"]);
        let text = String::from_utf8(written).expect("it is text");
        assert_eq!(text, "one 0,3\ntwo 0-63\n");
        let back = vec![("one".to_owned(), some), ("two".to_owned(), Subgroups::ALL)];
        assert_eq!(parse(&text), Ok(back));
    }

    #[test]
    fn a_line_without_subgroups_is_in_all_and_nonsense_is_refused_by_its_line() {
        let listed = parse("# rack 3\n\n one # the first\n").expect("a list");
        assert_eq!(listed, [("one".to_owned(), Subgroups::ALL)]);
        for (text, problem) in [
            ("one 64", "line 1: not a list of subgroups"),
            ("one\none 3", "line 2: one is there already"),
            ("one 3 4", "line 1: a name and its subgroups"),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.starts_with(problem), "{refused}");
        }
    }
}
