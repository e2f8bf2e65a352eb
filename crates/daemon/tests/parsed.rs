//! What the daemon makes of configuration files, in full, against a record of it.
//!
//! Each block of `parsed/files.txt` is a file; below the line stands what came out: where it
//! differs from the first block's configuration, or the error with its line and its help. `BLESS=1`
//! rewrites the record.

use std::path::Path;

use groupcast_daemon::config::{Config, File, FilePlace, Options};

#[path = "../../core/tests/record/mod.rs"]
mod record;

fn outcome(text: &str, usual: &mut Vec<String>) -> String {
    let result = File::parse(Path::new("daemon.toml"), text)
        .and_then(|file| Config::build(Some(&file), Options::default()));
    match result {
        Ok(config) => {
            let lines = record::lines(&config);
            let told = record::told(&lines, usual);
            if usual.is_empty() {
                *usual = lines;
            }
            told
        }
        Err(error) => {
            let line = error.place().map_or(0, FilePlace::line);
            format!("refused, line {line}\n{error}\n{}\n", error.help())
        }
    }
}

#[test]
fn files_mean_what_they_always_meant() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parsed/files.txt");
    let mut usual = Vec::new();
    record::check(&path, |text| outcome(text, &mut usual));
}
