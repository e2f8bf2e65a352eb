//! `groupcast sim` from outside: a wrong scenario is shown with its line, a right one prints what
//! came out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scenario in a file of its own, gone at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("groupcast-{name}-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn sim(file: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_groupcast"));
    command.arg("sim").arg(file).args(options);
    command.env("NO_COLOR", "1").output().unwrap()
}

const RING: &str = r#"
name = "small"
duration = "2 s"
warm_up = "500 ms"
seeds = "1..3"
[network]
kind = "switch"
hosts = 3
link = { bandwidth = "1 Gb/s", delay = "5 us" }
[protocol]
name = "ring"
[[source]]
hosts = 0
rate = "100/s"
size = 200
"#;

#[test]
fn a_wrong_scenario_is_a_usage_error_with_line_mark_and_suggestion() {
    let file = File::new("wrong", &RING.replace("hosts = 3", "hots = 3"));
    let output = sim(&file.0, &[]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    for part in [
        ".toml:8:1",
        "network.hots",
        "hots = 3",
        "did you mean `hosts`?",
    ] {
        assert!(error.contains(part), "{part} is not in\n{error}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_value_that_is_laid_over_is_shown_where_it_was_given() {
    let file = File::new("over", RING);
    let output = sim(&file.0, &["--set", "source.0.rate=100"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("--set:1:15") && error.contains("\"100/s\""),
        "{error}"
    );
}

#[test]
fn a_run_prints_a_table_or_one_line_of_json() {
    let file = File::new("right", RING);
    let output = sim(&file.0, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with("small: ring on 4 vertices with 3 hosts"),
        "{text}"
    );
    assert!(
        text.contains("every promise was kept") && text.contains("events/s"),
        "{text}"
    );

    let output = sim(
        &file.0,
        &["--json", "--seeds", "5..6", "--set", "source.0.rate=50/s"],
    );
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["seeds"], serde_json::json!([5]));
    let throughput = line["measures"]["throughput_slowest"]["mean"]
        .as_f64()
        .unwrap();
    assert!((49.0..=51.0).contains(&throughput), "{throughput}");
    assert!(line["speed"]["events_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(line["overrides"], serde_json::json!(["source.0.rate=50/s"]));
}

#[test]
fn a_check_runs_nothing() {
    let file = File::new("check", RING);
    let output = sim(&file.0, &["--check", "--json"]);
    let outline: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outline["hosts"], &outline["links"]),
        (&3.into(), &3.into())
    );
    let missing = sim(Path::new("no-such.toml"), &["--check"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        String::from_utf8(missing.stderr)
            .unwrap()
            .contains("cannot read no-such.toml")
    );
}
