//! What the daemon makes of configuration files, in full, against a record of it.
//!
//! Each block of `parsed/files.txt` is a file; below the line stands what came out: where it
//! differs from the first block's configuration, or the error with its line and its help. `BLESS=1`
//! rewrites the record.

use std::fmt::Write as _;
use std::path::Path;

use groupcast_daemon::config::{Config, File, Options, Place};

const BEGIN: &str = "==== ";
const OUTCOME: &str = "----\n";

/// The configuration, a line each, every line with the path to it.
fn lines(config: &Config) -> Vec<String> {
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

fn outcome(text: &str, usual: &[String]) -> String {
    let result = File::parse(Path::new("daemon.toml"), text)
        .and_then(|file| Config::build(Some(&file), Options::default()));
    match result {
        Ok(config) => lines(&config)
            .into_iter()
            .filter(|line| !usual.contains(line))
            .fold(String::from("read\n"), |text, line| text + &line + "\n"),
        Err(error) => {
            let line = error.place().map_or(0, Place::line);
            format!("refused, line {line}\n{error}\n{}\n", error.help())
        }
    }
}

#[test]
fn files_mean_what_they_always_meant() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parsed/files.txt");
    let recorded = std::fs::read_to_string(&path).unwrap();
    let mut now = String::new();
    let mut usual = Vec::new();
    for block in recorded.split(BEGIN).skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let file = rest.split(OUTCOME).next().unwrap();
        let _ = write!(
            now,
            "{BEGIN}{title}\n{file}{OUTCOME}{}\n",
            outcome(file, &usual)
        );
        if usual.is_empty() {
            let file = File::parse(Path::new("daemon.toml"), file).unwrap();
            usual = lines(&Config::build(Some(&file), Options::default()).unwrap());
        }
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
        return;
    }
    assert!(now == recorded, "BLESS=1 rewrites {}", path.display());
}
