//! What `[protocol]` means, for every key of every protocol, against a record of it.
//!
//! Each block of `parsed/NAME.txt` is a `[protocol]` of the family NAME; below the line stands what
//! came out: where it differs from the first block, or the error with its place and its help.
//! `BLESS=1` rewrites the records.

use std::path::Path;

use groupcast_protocols::registry::FAMILIES;

use super::Scenario;
use super::error::{ErrorSpan, ScenarioError};

#[path = "../../../core/tests/record/mod.rs"]
mod record;

const WORLD: &str = "duration = \"1 s\"\n[network]\nkind = \"switch\"\nhosts = 4\n\
    link = { bandwidth = \"1 Gb/s\", delay = \"5 us\" }\n[protocol]\n";

/// The settings of a `[protocol]` with these keys.
fn read(keys: &str) -> Result<Vec<String>, ScenarioError> {
    let scenario = Scenario::parse(Path::new("s.toml"), &format!("{WORLD}{keys}"), &[])?;
    let config = scenario.protocol.config();
    let mut lines = record::lines(&config.expect("a family with settings"));
    lines.sort();
    Ok(lines)
}

fn outcome(keys: &str, usual: &mut Vec<String>) -> String {
    match read(keys) {
        Ok(lines) => {
            let told = record::told(&lines, usual);
            if usual.is_empty() {
                *usual = lines;
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
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenario/parsed");
    for family in FAMILIES.iter().filter(|family| family.settings.is_some()) {
        let mut usual = Vec::new();
        record::check(&records.join(format!("{}.txt", family.name)), |keys| {
            outcome(keys, &mut usual)
        });
    }
}
