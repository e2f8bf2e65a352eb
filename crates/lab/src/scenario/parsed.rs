//! What `[protocol]` means, for every key of every protocol, against a record of it.
//!
//! Each block of `parsed.txt` is a `[protocol]`; below the line stands what came out: where it
//! differs from the block before that names the same protocol alone, or the error with its place
//! and its help. `BLESS=1` rewrites the record.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::path::Path;
use std::sync::Arc;

use groupcast_protocols::ring::RingConfig;
use groupcast_protocols::srm::SrmConfig;

use super::error::{ErrorSpan, ScenarioError, Source};
use super::section::Section;
use super::{Scenario, bulk, gossip, settings, tree};

const BEGIN: &str = "==== ";
const OUTCOME: &str = "----\n";
const WORLD: &str = "duration = \"1 s\"\n[network]\nkind = \"switch\"\nhosts = 4\n\
    link = { bandwidth = \"1 Gb/s\", delay = \"5 us\" }\n[protocol]\n";

/// A configuration, a line each, every line with the path to it, in alphabetical order.
fn lines(config: &impl Debug) -> Vec<String> {
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
    let starts = [
        "RingConfig",
        "MessagesConfig",
        "GossipConfig",
        "SrmConfig",
        "zones",
    ];
    let shortened = |line: &String| {
        let at = starts.iter().filter_map(|name| line.find(name)).min();
        line[at.expect("a line of a configuration")..].to_owned()
    };
    let mut lines: Vec<String> = lines.iter().map(shortened).collect();
    lines.sort();
    lines
}

/// The settings of the protocol that `[protocol]` names first.
fn settings_of(section: &Section<'_>, name: &str) -> Result<Vec<String>, ScenarioError> {
    Ok(match name {
        "ring" => lines(&settings::checked(section, RingConfig::validate)?),
        "bulk" => lines(&bulk::config(section)?),
        "gossip" => lines(&gossip::gossip_table(section)?),
        "srm" => lines(&settings::checked(section, SrmConfig::validate)?),
        name => panic!("no protocol `{name}`"),
    })
}

fn read(text: &str, name: &str) -> Result<Vec<String>, ScenarioError> {
    Scenario::parse(Path::new("s.toml"), text, &[])?;
    let source = Arc::new(Source {
        name: "s.toml".into(),
        text: text.into(),
    });
    let document = tree::parse(&source)?;
    let protocol = Section::top(&document)?.require("protocol")?;
    settings_of(&protocol.section("[protocol]")?, name)
}

fn outcome(keys: &str, usual: &mut BTreeMap<String, Vec<String>>) -> String {
    let text = format!("{WORLD}{keys}");
    let name = keys.lines().next().and_then(|line| line.split('"').nth(1));
    let name = name.expect("the protocol comes first");
    match read(&text, name) {
        Ok(lines) => {
            let before = usual.entry(name.to_owned()).or_default();
            let told = lines.iter().filter(|line| !before.contains(line));
            let told = told.fold(String::from("read\n"), |text, line| text + line + "\n");
            if before.is_empty() {
                *before = lines;
            }
            told
        }
        Err(error) => {
            let line = error.place().map_or(0, ErrorSpan::line) - WORLD.lines().count();
            format!("refused, line {line}\n{error}\n{}\n", error.help())
        }
    }
}

#[test]
fn settings_mean_what_they_always_meant() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenario/parsed.txt");
    let recorded = std::fs::read_to_string(&path).unwrap();
    let mut now = String::new();
    let mut usual = BTreeMap::new();
    for block in recorded.split(BEGIN).skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let keys = rest.split(OUTCOME).next().unwrap();
        let told = outcome(keys, &mut usual);
        let _ = write!(now, "{BEGIN}{title}\n{keys}{OUTCOME}{told}\n");
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
        return;
    }
    assert!(now == recorded, "BLESS=1 rewrites {}", path.display());
}
