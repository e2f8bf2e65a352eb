//! Transfers that break off, and how they end: a receiver or the sender is killed, a file changes,
//! too many fail. What was begun is resumed, and everybody is told.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Group, noise};
use crate::host::until;

#[test]
fn too_many_failures_end_it_for_all_who_are_told() {
    let group = Group::new();
    fs::write(group.path("image"), noise(2_000_000)).unwrap();
    let mut one = group.receiver("one", &["--once", "--json"]);
    let mut two = group.receiver("two", &["--once", "--json"]);
    let options = [
        "image",
        "--require",
        "one,two,three",
        "--max-failed",
        "0",
        "--wait",
        "2",
    ];
    let begun = Instant::now();
    let sent = group.send(&options);
    sent.fails_with(
        3,
        &["three: never came", "one: cancelled", "two: cancelled"],
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!((one.wait(), two.wait()), (1, 1));
    let last = group.lines("two").pop().unwrap();
    assert_eq!(last["event"], "failed");
    let reason = last["reason"].as_str().unwrap();
    assert!(reason.contains("more than 0 receivers failed"), "{reason}");
    assert_eq!(group.received("two", "image"), b"");
}

#[test]
fn a_receiver_that_was_killed_resumes_and_one_that_never_came_is_named() {
    let group = Group::new();
    let content = noise(8_000_000);
    fs::write(group.path("file"), &content).unwrap();
    let mut one = group.receiver("one", &[]);
    let mut command = group.command(&["send", "file", "--require", "one", "--rate", "40"]);
    let mut sender = group.host.launch("send", &mut command);
    let journal = || {
        let folders = fs::read_dir(group.path("out-one/.groupcast"))
            .into_iter()
            .flatten();
        let journals =
            folders.filter_map(|folder| fs::metadata(folder.ok()?.path().join("journal")).ok());
        journals.map(|journal| journal.len()).sum::<u64>()
    };
    until("some chunks are there", || journal() > 4 * 36);
    one.signal("KILL");
    one.wait();
    let left = group.listing("one");
    assert_eq!(left, [".groupcast"], "nothing half-written is visible");
    assert_eq!(sender.terminate(), 1);
    assert!(group.host.read("send.err").contains("resumes"));

    let mut one = group.receiver("one", &["--json"]);
    let sent = group.send(&["file", "--require", "one"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(group.received("one", "file") == content);
    let accepted = &group.lines("one")[1];
    assert!(accepted["held"].as_u64() > Some(1_000_000), "{accepted}");

    // Again, to one that has it and one that is not there.
    let sent = group.send(&["file", "--require", "one,nobody", "--wait", "1"]);
    sent.fails_with(3, &["1 of 2 receivers are complete", "nobody: never came"]);
    assert_eq!(one.terminate(), 0);
    assert_eq!(group.listing("one"), ["file"]);
}

#[test]
fn a_receiver_that_is_killed_and_comes_back_is_told_of_as_one_that_came_back() {
    let group = Group::new();
    fs::write(group.path("file"), noise(8_000_000)).unwrap();
    let mut one = group.receiver("one", &["--json"]);
    let options = ["send", "file", "--require", "one", "--rate", "20"];
    let mut sender = group.host.launch("send", &mut group.command(&options));
    group.await_some("one");
    one.signal("KILL");
    one.wait();
    let _one = group.receiver("one", &["--json"]);
    assert_eq!(sender.wait(), 0, "{}", group.host.read("send.err"));
    let told = group.host.read("send.err");
    assert!(told.contains("one came back, as one@"), "{told}");
    assert!(told.contains(": complete"), "{told}");
    assert!(!told.contains("not heard any more"), "{told}");
}

#[test]
fn a_sender_that_was_killed_is_resumed_by_the_next() {
    let group = Group::new();
    let content = noise(4_000_000);
    fs::write(group.path("file"), &content).unwrap();
    let mut one = group.receiver("one", &["--json"]);
    let mut command = group.command(&["send", "file", "--rate", "20"]);
    let sender = group.host.launch("send", &mut command);
    let received = || {
        group
            .lines("one")
            .last()
            .and_then(|line| line["received"].as_u64())
    };
    until("some of it is there", || received() > Some(1_000_000));
    sender.signal("KILL");
    let sent = group.send(&["file"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(group.received("one", "file") == content);
    let lines = group.lines("one");
    let resumed = lines
        .iter()
        .rfind(|line| line["event"] == "accepted")
        .unwrap();
    assert!(resumed["held"].as_u64() > Some(500_000), "{resumed}");
    assert_eq!(one.terminate(), 0);
    assert_eq!(group.listing("one"), ["file"]);
}

#[test]
fn a_file_that_changes_reaches_nobody_in_two_halves() {
    let group = Group::new();
    fs::write(group.path("file"), noise(8_000_000)).unwrap();
    let mut one = group.receiver("one", &["--json", "--once"]);
    let mut command = group.command(&["send", "file", "--receivers", "1", "--rate", "40"]);
    let mut sender = group.host.launch("send", &mut command);
    until("data flows", || group.lines("one").len() > 2);
    let mut file = fs::File::options()
        .append(true)
        .open(group.path("file"))
        .unwrap();
    file.write_all(b"more").unwrap();
    assert_eq!(sender.wait(), 1);
    let said = group.host.read("send.err");
    assert!(said.contains("file changed while it was sent"), "{said}");
    assert_eq!(one.wait(), 1);
    let lines = group.lines("one");
    let failed = lines.last().unwrap();
    assert_eq!(failed["event"], "failed", "{failed}");
    assert!(
        failed["reason"].as_str().unwrap().contains("changed"),
        "{failed}"
    );
    assert!(group.listing("one").is_empty(), "nothing is left");
}

#[test]
fn together_means_everywhere_or_nowhere() {
    let group = Group::new();
    fs::write(group.path("image"), noise(300_000)).unwrap();
    let mut one = group.receiver("one", &["--json"]);
    let mut two = group.receiver("two", &["--json"]);
    let together = ["image", "--together", "--require"];
    let absent = [&together[..], &["one,two,three", "--wait", "2"]].concat();
    let problems = ["0 of 3", "one: cancelled", "three: never came"];
    group.send(&absent).fails_with(3, &problems);
    assert!(group.received("one", "image").is_empty());

    for _ in 0..2 {
        // The second time everything is in place.
        for protocol in ["auto", "multidriver"] {
            let options = ["one,two", "--protocol", protocol];
            let sent = group.send(&[&together[..], &options[..]].concat());
            assert_eq!(sent.code, 0, "{protocol}: {}", sent.stderr);
        }
    }
    for name in ["one", "two"] {
        assert_eq!(group.received(name, "image"), noise(300_000));
        let mut listing = group.listing(name);
        // The receiver's own, as long as it runs.
        listing.retain(|entry| entry != ".groupcast");
        assert_eq!(listing, ["image"], "nothing else is left");
    }
    group
        .send(&["-", "--together"])
        .fails_with(2, &["--together is for files"]);
    assert_eq!((one.terminate(), two.terminate()), (0, 0));
}

#[test]
fn strict_ends_it_for_all_when_one_goes_and_without_it_the_others_go_on() {
    let group = Group::new();
    // So slow that nobody is complete before one is stopped.
    fs::write(group.path("image"), noise(12_000_000)).unwrap();
    let options = ["image", "--rate", "1", "--no-compare"];
    let strict = |audience: &[&str]| {
        let mut one = group.receiver("one", &["--once", "--json"]);
        let mut two = group.receiver("two", &["--once", "--json"]);
        let mut command = group.command(&[&["send", "--strict", "--json"], &options[..]].concat());
        let mut sender = group.host.launch("send", command.args(audience));
        group.await_some("two");
        two.terminate();
        assert_eq!((sender.wait(), one.wait()), (3, 1), "{audience:?}");
        let done = group.lines("send").pop().unwrap();
        assert_eq!(
            (&done["event"], &done["complete"]),
            (&"done".into(), &0.into())
        );
        let failed = done["failed"].as_array().unwrap().iter();
        let mut names: Vec<&str> = failed.map(|it| it["receiver"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "two"], "each is named");
        let told = group.lines("one").pop().unwrap();
        assert_eq!(told["event"], "failed");
        told["reason"].as_str().unwrap().to_owned()
    };
    for audience in [&["--require", "one,two"][..], &["--to", "one,two"]] {
        let reason = strict(audience);
        assert!(reason.contains("has gone: two"), "{reason}");
    }
    let reason = strict(&["--receivers", "2"]);
    assert!(reason.contains("only 1 is left"), "{reason}");
    // What has come is kept, and nothing is in place.
    assert!(!group.listing("one").contains(&"image".to_owned()));

    let mut one = group.receiver("one", &["--once"]);
    let _two = group.receiver("two", &["--once"]);
    let required = ["image", "--strict", "--require", "one,three", "--wait", "2"];
    let problems = ["one: cancelled", "two: cancelled", "three: never came"];
    group.send(&required).fails_with(3, &problems);
    assert_eq!(one.wait(), 1);
}

/// Under XTP the sender knows no single receiver before the end. Group management does.
#[test]
fn a_receiver_that_is_killed_is_found_whatever_the_protocol_knows() {
    let group = Group::new();
    fs::write(group.path("image"), noise(40_000_000)).unwrap();
    let mut one = group.receiver("one", &["--once", "--json"]);
    let mut two = group.receiver("two", &["--once", "--json"]);
    // It would take five minutes.
    let options = ["send", "image", "--strict", "--require", "one,two"];
    let slow = ["--rate", "1", "--no-compare", "--protocol", "xtp"];
    let mut command = group.command(&[&options[..], &slow[..]].concat());
    let mut sender = group.host.launch("send", &mut command);
    group.await_some("two");
    two.signal("KILL");
    two.wait();
    assert_eq!((sender.wait(), one.wait()), (3, 1));
    let told = group.host.read("send.err");
    assert!(told.contains("two: not heard any more"), "{told}");
    assert!(told.contains("one: cancelled"), "{told}");
    let last = group.lines("one").pop().unwrap();
    let reason = last["reason"].as_str().unwrap();
    assert!(reason.contains("has gone: two"), "{reason}");
}

/// The protocol takes two windows ahead of what it sends: here most of the file.
#[test]
fn what_was_read_ahead_of_a_stopped_transfer_is_not_counted_as_sent() {
    let group = Group::new();
    fs::write(group.path("image"), noise(3_000_000)).unwrap();
    let _receiver = group.receiver("one", &["--out", "out"]);
    let mut command = group.command(&["send", "--json", "image", "--rate", "1"]);
    let mut sender = group.host.launch("sender", &mut command);
    until("it sends", || {
        let said = group.host.read("sender.out");
        said.matches("\"progress\"").count() >= 3
    });
    assert_eq!(sender.terminate(), 1);
    let said = group.host.read("sender.out");
    let done: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&done["event"], &done["stopped"]),
        (&"done".into(), &true.into())
    );
    let number = |field: &str| done[field].as_u64().unwrap();
    assert!(number("sent") > 0, "{done}");
    // A packet has less than 1,500 bytes.
    assert!(number("sent") <= number("packets") * 1500, "{done}");
}
