//! Histories in files: the documented example is clean, a broken promise is found and told, errors
//! name the file.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use groupcast_check::{CheckReport, HistoryError, check_files};
use groupcast_core::NodeId;
use groupcast_core::text::is_visible;

/// A directory of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("groupcast-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover in the temporary directory is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/history.md");
    std::fs::read_to_string(path).unwrap()
}

/// The history in `docs/history.md`.
fn example() -> String {
    let document = document();
    let (_, section) = document.split_once("## Example").unwrap();
    let (_, block) = section.split_once("```json\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_documented_example_is_a_clean_history() {
    let folder = Folder::new("example");
    let report = check_files([folder.write("a.ndjson", &example())]).unwrap();
    assert_eq!(report.violations, []);
    assert!(report.clean);
    let missing = "could not be judged: d04f7a6e21b8c935.0b5ad00ddeadbeef: its history is missing: \
        configuration 5-6b1c5e1f0a9d3c42.91d3c0ffee5a7711 names it";
    let verdict = "no violation, and 1 thing could not be judged \
        (observers: 1, configurations: 3, messages: 2, deliveries: 2)";
    assert_eq!(report.to_string(), format!("{missing}\n{verdict}"));
    // The document shows it as JSON.
    let json = serde_json::to_string(&report.unjudged[0]).unwrap();
    assert!(document().contains(&json), "{json}");
}

#[test]
fn a_violation_is_told_for_a_person_and_for_a_machine() {
    let folder = Folder::new("violation");
    let text = example().replace("196608,\"digest\":\"85", "196608,\"digest\":\"86");
    let report = check_files([folder.write("a.ndjson", &text)]).unwrap();
    let expected = "integrity: at a.91d3c0ffee5a7711, observation 6: message 1 of a.91d3c0ffee5a7711 \
        has digest 86944171f73967e8 here and 85944171f73967e8 at a.91d3c0ffee5a7711\n";
    assert!(report.to_string().starts_with(expected), "{report}");
    assert!(report.to_string().contains("\n1 violation, and 1 thing"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["clean"], false);
    assert_eq!(json["violations"][0]["rule"], "integrity");
    assert_eq!(json["violations"][0]["line"], 6);
    assert_eq!(
        json["violations"][0]["observer"],
        "6b1c5e1f0a9d3c42.91d3c0ffee5a7711"
    );
}

/// Who wrote a history chose its names: they clear no screen, and write no line of the report.
#[test]
fn names_of_a_foreign_history_do_not_control_the_terminal() {
    let folder = Folder::new("hostile");
    let text = example()
        .replace("196608,\"digest\":\"85", "196608,\"digest\":\"86")
        .replace(
            "\"name\":\"a\"",
            r#""name":"a\u001b[2J\u009b2J\u202e\nno violation""#,
        );
    let report = check_files([folder.write("a.ndjson", &text)]).unwrap();
    let shown = report.to_string();
    let at = r"integrity: at a\u{1b}[2J\u{9b}2J\u{202e}\nno violation.91d3c0ffee5a7711";
    assert!(shown.starts_with(at), "{shown}");
    assert!(shown.lines().all(|line| line.chars().all(is_visible)));
    assert!(
        !shown.lines().any(|line| line.starts_with("no violation")),
        "{shown}"
    );
}

#[test]
fn files_of_different_daemons_are_judged_together() {
    let folder = Folder::new("together");
    let a = folder.write("a.ndjson", &example());
    let b = "{\"event\":\"start\",\"schema\":1,\"member\":\"d04f7a6e21b8c935.0b5ad00ddeadbeef\",\"name\":\"b\"}\n\
        {\"event\":\"submit\",\"sender\":\"d04f7a6e21b8c935.0b5ad00ddeadbeef\",\"number\":1,\
        \"service\":\"agreed\",\"digest\":\"cbf29ce484222325\"}\n";
    let report = check_files([a, folder.write("b.ndjson", b)]).unwrap();
    assert_eq!(report.observers, 2);
    assert_eq!(report.violations.len(), 1);
    assert!(
        report.violations[0]
            .text
            .contains("is agreed here and safe at a.")
    );
}

/// A daemon was in a ring, and its own history alone is given: that of the ring is missing.
#[test]
fn a_ring_that_a_daemon_joined_has_a_history_too() {
    let folder = Folder::new("joined");
    let own = "{\"event\":\"start\",\"schema\":4,\"member\":\"6b1c5e1f0a9d3c42.91d3c0ffee5a7711\",\"name\":\"a\"}\n\
        {\"event\":\"joined\",\"ring\":\"wb.cb\",\"member\":\"6b1c5e1f0a9d3c42.00000000000000aa\"}\n\
        {\"event\":\"leave\"}\n";
    let own = folder.write("a.ndjson", own);
    let report = check_files([&own]).unwrap();
    assert!(report.clean);
    let texts: Vec<String> = report.unjudged.iter().map(ToString::to_string).collect();
    let missing = "could not be judged: a.00000000000000aa: in the ring \"wb.cb\": its history is missing: \
        the daemon's own says that it joined";
    assert_eq!(texts, [missing]);

    let of_ring = "{\"event\":\"start\",\"schema\":4,\"member\":\"6b1c5e1f0a9d3c42.00000000000000aa\",\
        \"name\":\"a\",\"ring\":\"wb.cb\"}\n{\"event\":\"leave\"}\n";
    let of_ring = folder.write("a.wb.cb.ndjson", of_ring);
    let report = check_files([own, of_ring]).unwrap();
    assert!(report.clean && report.unjudged.is_empty(), "{report}");
}

#[test]
fn errors_name_the_file() {
    let folder = Folder::new("errors");
    let missing = folder.0.join("missing.ndjson");
    let error = check_files([&missing]).unwrap_err();
    assert!(error.to_string().contains("missing.ndjson"));
    let error = check_files([&folder.0]).unwrap_err().to_string();
    let expected = format!(
        "{} is a directory: name the histories in it",
        folder.0.display()
    );
    assert_eq!(error, expected);
    let empty = folder.write("empty.ndjson", "{\"event\":\"sta");
    assert!(matches!(check_files([empty]), Err(HistoryError::Empty)));
    let text = folder.write("text.ndjson", "dear diary\n");
    let error = check_files([text]).unwrap_err().to_string();
    assert!(error.contains("text.ndjson:1: expected value"), "{error}");
}

#[test]
fn the_same_history_twice_is_an_error() {
    let folder = Folder::new("twice");
    let first = folder.write("a.ndjson", &example());
    let copy = folder.write("copy.ndjson", &example());
    for second in [&first, &copy] {
        let error = check_files([&first, second]).unwrap_err().to_string();
        let expected = format!(
            "{} tells the life of a.91d3c0ffee5a7711, which {} tells as well: give each history once",
            second.display(),
            first.display()
        );
        assert_eq!(error, expected);
    }
}

/// `a` and `b` in one configuration; what follows at each is given.
fn pair(folder: &Folder, at_a: &str, at_b: &str) -> CheckReport {
    let ids = ['a', 'b'].map(|letter| format!("{0}.{0}", letter.to_string().repeat(16)));
    let shared = configuration("regular", 1, &ids[0], &ids);
    let files = ["a", "b"].into_iter().zip(&ids).zip([at_a, at_b]);
    let files = files.map(|((name, id), rest)| {
        let start = format!(
            "{{\"event\":\"start\",\"schema\":1,\"member\":\"{id}\",\"name\":\"{name}\"}}\n"
        );
        folder.write(&format!("{name}.ndjson"), &(start + &shared + rest))
    });
    check_files(files).unwrap()
}

fn configuration(kind: &str, counter: u64, representative: &str, members: &[String]) -> String {
    format!(
        "{{\"event\":\"configuration\",\"kind\":\"{kind}\",\"config\":\"{counter}-{representative}\",\
         \"members\":{members:?}}}\n"
    )
}

const LEAVE: &str = "{\"event\":\"leave\"}\n";

#[test]
fn histories_that_end_early_are_said_and_a_kill_that_others_tell_is_not() {
    let folder = Folder::new("early");
    let a = format!("{0}.{0}", "a".repeat(16));
    let gone = configuration("transitional", 1, &a, std::slice::from_ref(&a))
        + &configuration("regular", 2, &a, std::slice::from_ref(&a))
        + LEAVE;

    let whole = pair(&folder, &gone, LEAVE);
    assert_eq!((whole.unjudged.len(), whole.killed), (0, 0), "{whole}");
    let killed = pair(&folder, &gone, "");
    assert_eq!((killed.unjudged.len(), killed.killed), (0, 1), "{killed}");
    assert!(
        killed
            .to_string()
            .contains("(observers: 2, of which killed: 1,")
    );

    let silent = pair(&folder, LEAVE, "");
    assert!(silent.clean);
    assert!(silent.to_string().starts_with(
        "could not be judged: b.bbbbbbbbbbbbbbbb: its history ends early: a.aaaaaaaaaaaaaaaa tells of more"
    ), "{silent}");
    let cut = pair(&folder, &gone, "{\"event\":\"lea");
    assert!(
        cut.to_string()
            .contains("b.bbbbbbbbbbbbbbbb: its history is cut off within a line")
    );
    let empty = folder.write("empty.ndjson", "");
    let with_empty = check_files([folder.write("a.ndjson", &example()), empty]).unwrap();
    assert_eq!(with_empty.unjudged.len(), 2);
    assert!(
        with_empty
            .to_string()
            .contains("empty.ndjson has no whole line")
    );
}

/// A view names its clients with their daemons, and the number of a daemon follows from its name.
#[test]
fn a_daemon_without_any_history_has_the_name_that_views_give_it() {
    let folder = Folder::new("named");
    let id = |name: &str, life: u64| format!("{:016x}.{life:016x}", NodeId::from_name(name).0);
    let members = [id("h1", 1), id("h2", 2), id("h3", 3)];
    let history = format!(
        "{{\"event\":\"start\",\"schema\":4,\"member\":\"{}\",\"name\":\"h1\"}}\n{}\
         {{\"event\":\"view\",\"group\":\"room\",\"view\":\"1\",\"members\":[\"al@h1\",\"bo@h2\"]}}\n",
        members[0],
        configuration("regular", 1, &members[0], &members),
    );
    let report = check_files([folder.write("h1.ndjson", &history)]).unwrap();
    let names = report.unjudged.iter().map(|it| it.name.as_deref());
    let mut names: Vec<Option<&str>> = names.collect();
    names.sort();
    // No client of h3 is in any view.
    assert_eq!(names, [None, Some("h2")], "{report}");
    let missing = "could not be judged: h2.0000000000000002: its history is missing";
    assert!(report.to_string().contains(missing), "{report}");
}

#[test]
fn a_sender_in_a_bimodal_group_without_a_history_is_missing() {
    let folder = Folder::new("sender");
    let lines = ticks("deliver", 1, 1);
    let report = check_files([folder.write("b.ndjson", &bimodal_life('b', &lines))]).unwrap();
    assert_eq!(report.unjudged.len(), 1, "{report}");
    assert!(
        report.unjudged[0]
            .text
            .contains("its history is missing: others name messages")
    );
}

/// A life of the daemon `name`, whose identity is its letter, in the bimodal group `ticks` beside
/// the ring.
fn bimodal_life(letter: char, lines: &str) -> String {
    let member = format!(
        "{0}{0}.{1}",
        &letter.to_string().repeat(8),
        letter.to_string().repeat(16)
    );
    format!(
        "{{\"event\":\"start\",\"schema\":1,\"member\":\"{member}\",\"name\":\"{letter}\"}}\n\
         {{\"event\":\"configuration\",\"kind\":\"regular\",\"config\":\"1-{member}\",\"members\":[\"{member}\"]}}\n\
         {{\"event\":\"submit\",\"sender\":\"{member}\",\"number\":1,\"service\":\"agreed\",\"digest\":\"00000000000000ff\"}}\n\
         {{\"event\":\"deliver\",\"sender\":\"{member}\",\"number\":1,\"service\":\"agreed\",\"config\":\"1-{member}\",\"seq\":65536,\"digest\":\"00000000000000ff\"}}\n\
         {lines}"
    )
}

/// Lines of `ticks`: `a`'s messages as `what`, or a gap of them.
fn ticks(what: &str, number: u64, digest: u64) -> String {
    let sender = format!("{}.{}", "a".repeat(16), "a".repeat(16));
    let place = if what == "deliver" {
        "\"config\":null,\"seq\":null,"
    } else {
        ""
    };
    match what {
        "gap" => format!(
            "{{\"event\":\"gap\",\"group\":\"ticks\",\"sender\":\"{sender}\",\"first\":{number},\"last\":{number}}}\n"
        ),
        _ => format!(
            "{{\"event\":\"{what}\",\"group\":\"ticks\",\"sender\":\"{sender}\",\"number\":{number},\
             \"service\":\"bimodal\",{place}\"digest\":\"{digest:016x}\"}}\n"
        ),
    }
}

#[test]
fn bimodal_groups_are_judged_apart_from_the_ring_by_their_own_rules() {
    let folder = Folder::new("bimodal");
    let sender: String = (1..=3)
        .map(|n| ticks("submit", n, n) + &ticks("deliver", n, n))
        .collect();
    let judge = |lines: String| {
        let sender = folder.write("a.ndjson", &bimodal_life('a', &sender));
        let receiver = folder.write("b.ndjson", &bimodal_life('b', &lines));
        check_files([receiver, sender]).unwrap()
    };
    let deliver = |n: u64| ticks("deliver", n, n);
    let clean = judge(deliver(1) + &ticks("gap", 2, 0) + &deliver(3));
    assert_eq!((clean.violations, clean.unjudged), (vec![], vec![]));
    // The ring's message 1 of each and the three of the group.
    assert_eq!((clean.messages, clean.deliveries), (5, 7));

    for (lines, rule, text) in [
        (
            deliver(1) + &deliver(3),
            "gaps",
            "neither delivered nor reported its message 2",
        ),
        (deliver(2) + &deliver(1), "gaps", "after its message 2"),
        (
            deliver(1) + &ticks("gap", 1, 0),
            "gaps",
            "of which it delivered 1",
        ),
        (ticks("deliver", 1, 9), "integrity", "digest"),
    ] {
        let report = judge(lines);
        let told = report.violations.iter().any(|violation| {
            violation.rule == rule
                && violation.text.contains(text)
                && violation.text.contains("in the bimodal group \"ticks\"")
        });
        assert!(told, "{text}: {report}");
    }
}
