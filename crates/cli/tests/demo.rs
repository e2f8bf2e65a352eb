//! Goal: `groupcast demo` tells its whole story on this machine and the checker agrees.
//! Method: run the built binary, read its JSON; look at one story as a person would.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Generous: the machine that runs the tests may be busy with others.
const TIME_MAX: Duration = Duration::from_secs(60);

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_groupcast"))
        .arg("demo")
        .args(arguments)
        .output()
        .unwrap()
}

/// The events of a run that must succeed.
fn events(arguments: &[&str]) -> Vec<Value> {
    let output = demo(arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}\n{stdout}");
    assert_eq!(stderr, "");
    let lines = stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The events of the step called `name`.
fn step<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    let is_step = |event: &&Value| event["event"] == "step";
    events
        .iter()
        .skip_while(|event| event["name"] != name)
        .skip(1)
        .take_while(|event| !is_step(event))
        .collect()
}

/// Members of the regular configurations of a step, in the order of time.
fn regular(events: &[&Value]) -> Vec<Value> {
    events
        .iter()
        .filter(|event| event["event"] == "configuration" && event["kind"] == "regular")
        .map(|event| event["members"].clone())
        .collect()
}

#[test]
fn the_story_of_three_members_is_clean() {
    let start = Instant::now();
    let events = events(&[
        "--members",
        "3",
        "--messages",
        "200",
        "--seed",
        "7",
        "--json",
    ]);
    assert!(start.elapsed() < TIME_MAX);

    let steps: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "step")
        .map(|event| &event["name"])
        .collect();
    assert_eq!(
        steps,
        [
            "start",
            "load",
            "kill",
            "restart",
            "partition",
            "merge",
            "leave",
            "verdict"
        ]
    );
    let verdict = events.last().unwrap();
    assert_eq!(verdict["event"], "verdict");
    assert_eq!(verdict["clean"], true);
    assert_eq!(verdict["observers"], 4, "three members, one of them twice");
    assert_eq!(verdict["violations"], Value::Array(vec![]));
    assert!(verdict["deliveries"].as_u64().unwrap() >= 600);
}

#[test]
fn the_story_is_clean_with_rmp_too() {
    let events = events(&[
        "--members",
        "3",
        "--messages",
        "200",
        "--seed",
        "7",
        "--protocol",
        "rmp",
        "--json",
    ]);
    assert_eq!(events[0]["protocol"], "rmp");
    let verdict = events.last().unwrap();
    assert_eq!(
        (&verdict["event"], &verdict["clean"]),
        (&"verdict".into(), &true.into())
    );
    assert_eq!(verdict["observers"], 4, "three members, one of them twice");
    assert!(verdict["deliveries"].as_u64().unwrap() >= 600);
}

#[test]
fn each_step_shows_what_it_is_about() {
    let events = events(&["--members", "4", "--messages", "100", "--json"]);
    let all = serde_json::json!(["ada", "ben", "cleo", "dan"]);
    assert_eq!(regular(&step(&events, "start")).last(), Some(&all));

    let load = step(&events, "load");
    let delivered = load.last().unwrap();
    assert_eq!(
        (&delivered["at"], &delivered["messages"]),
        (&all, &Value::from(100))
    );

    let kill = step(&events, "kill");
    let victim = kill[0]["member"].as_str().unwrap();
    let without = regular(&kill).pop().unwrap();
    assert_eq!(without.as_array().unwrap().len(), 3);
    assert!(!without.as_array().unwrap().contains(&victim.into()));
    assert!(kill.iter().any(|event| event["kind"] == "transitional"));

    let reborn = format!("{victim}#2");
    let restart = regular(&step(&events, "restart")).pop().unwrap();
    assert!(restart.as_array().unwrap().contains(&reborn.into()));

    let partition = step(&events, "partition");
    let sides = partition[0]["sides"].as_array().unwrap();
    for side in sides {
        assert!(
            regular(&partition).contains(side),
            "{side} has a configuration"
        );
        let progress = partition.iter().any(|event| {
            event["event"] == "delivered"
                && event["at"] == *side
                && event["messages"].as_u64() > Some(0)
        });
        assert!(progress, "{side} delivers");
    }

    let merged = regular(&step(&events, "merge")).pop().unwrap();
    assert_eq!(merged, restart);
}

#[test]
fn a_person_reads_a_story_without_escapes_in_a_pipe() {
    let output = demo(&["--members", "2", "--messages", "50"]);
    let story = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{story}",
        text(&output.stderr)
    );
    assert!(!story.contains('\u{1b}'), "{story:?}");
    assert!(
        story.lines().all(|line| line.chars().count() <= 80),
        "{story}"
    );
    assert!(story.contains("every promise was kept"), "{story}");
}

#[test]
fn a_group_needs_two_members_and_has_room_for_sixteen() {
    for members in ["1", "17"] {
        let output = demo(&["--members", members]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "");
        assert!(text(&output.stderr).contains("2..=16"));
    }
}
