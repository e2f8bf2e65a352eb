//! Who is sent to and who is waited for: names, numbers, subgroups and lists, and who comes too
//! late.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Group, noise};
use crate::host::{Ran, until};

#[test]
fn a_name_that_is_there_twice_is_one_and_a_status_replaces_files_only() {
    let group = Group::new();
    fs::write(group.path("file"), "content").unwrap();
    for option in ["--require", "--to"] {
        let sent = group.send(&["file", option, "nobody,nobody", "--wait", "1", "--json"]);
        assert_eq!(sent.code, 3, "{}", sent.stderr);
        let settled = sent.stdout.lines().filter(|line| line.contains("settled"));
        assert_eq!(settled.count(), 1, "{option}: {}", sent.stdout);
    }
    // The key is looked at before files are.
    let line = [
        "send",
        "no-file",
        "--group",
        &group.address,
        "--key",
        "no-key",
    ];
    group.host.run(&line).fails_with(1, &["no key file no-key"]);
    let made = Command::new("mkfifo").arg(group.path("pipe")).status();
    assert!(made.unwrap().success());
    let sent = group.send(&["file", "--status", "pipe"]);
    sent.fails_with(1, &["cannot write the status to pipe", "is no file"]);
    let kind = fs::metadata(group.path("pipe")).unwrap().file_type();
    assert!(kind.is_fifo(), "{kind:?}");
}

#[test]
fn two_receivers_of_one_name_are_told_so_at_once() {
    let group = Group::new();
    fs::write(group.path("file"), noise(300_000)).unwrap();
    let mut one = group.receiver("one", &["--once", "--json"]);
    let mut command = group.command(&["recv", "--name", "one", "--once", "--out", "out-two"]);
    let mut two = group.host.launch("two", &mut command);
    until("two listens", || !group.host.read("two.err").is_empty());
    let begun = Instant::now();
    let sent = group.send(&["file", "--wait", "20"]);
    sent.fails_with(3, &["0 of 2 receivers are complete", "has the same name"]);
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!((one.wait(), two.wait()), (1, 1));
    assert!(group.host.read("two.err").contains("is called one too"));
}

/// Whether they go on or not, nobody is waited for in their place.
#[test]
fn two_receivers_of_one_name_are_the_two_that_a_sender_waits_for() {
    let group = Group::new();
    fs::write(group.path("file"), noise(300_000)).unwrap();
    let _one = group.receiver("one", &["--json"]);
    let mut command = group.command(&["recv", "--name", "one", "--once", "--out", "out-two"]);
    let mut two = group.host.launch("two", &mut command);
    until("two listens", || !group.host.read("two.err").is_empty());
    let begun = Instant::now();
    let sent = group.send(&["file", "--receivers", "2", "--wait", "20"]);
    sent.fails_with(3, &["0 of 2 receivers are complete", "has the same name"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(two.wait(), 1);
}

/// Nobody has been told of receivers before: who has answered so far is called by its name.
#[test]
fn a_sender_that_is_stopped_while_it_waits_calls_receivers_by_name() {
    let group = Group::new();
    fs::write(group.path("file"), noise(300_000)).unwrap();
    let _one = group.receiver("one", &["--json"]);
    let mut command = group.command(&["send", "file", "--require", "absent", "--json"]);
    let mut sender = group.host.launch("send", &mut command);
    until("it waits", || !group.lines("send").is_empty());
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(sender.terminate(), 1);
    let said = group.lines("send");
    let settled = said.iter().filter(|line| line["event"] == "settled");
    let names: Vec<&str> = settled.map(|it| it["receiver"].as_str().unwrap()).collect();
    assert_eq!(names, ["one"], "{said:?}");
}

#[test]
fn a_sender_says_for_whom_it_waits() {
    let group = Group::new();
    fs::write(group.path("file"), noise(300_000)).unwrap();
    let _one = group.receiver("one", &["--json"]);
    let waits = ["file", "--require", "one,absent,other", "--wait", "5"];
    let mut command = group.command(&["send", "--json", "--status", "status"]);
    let mut sender = group.host.launch("send", command.args(waits));
    let status = || serde_json::from_str::<Value>(&group.host.read("status")).unwrap_or_default();
    until("the status says it", || {
        status()["waiting_for"] == names_in_json(&["absent", "other"])
    });
    assert_eq!(
        (&status()["missing"], &status()["here"]),
        (&2.into(), &1.into())
    );
    let mut words = group.command(&["send"]);
    let mut words = group.host.launch("words", words.args(waits));
    assert_eq!((sender.wait(), words.wait()), (3, 3));
    assert_eq!(status()["waiting_for"], Value::Null);
    let said = group.lines("send");
    let waiting: Vec<&Value> = said.iter().filter(|it| it["event"] == "waiting").collect();
    assert_eq!(waiting.len(), 1, "nothing has changed: {said:?}");
    assert_eq!(waiting[0]["receivers"], names_in_json(&["absent", "other"]));
    let said = group.host.read("words.err");
    assert!(
        said.contains("waiting for absent, other (1 here); "),
        "{said}"
    );
    let sent = group.send(&["file", "--receivers", "2", "--wait", "4"]);
    sent.fails_with(3, &["waiting for 1 more (1 here); "]);
    let sent = group.send(&["file", "--min", "2", "--wait", "4"]);
    sent.fails_with(1, &["waiting for 1 more (1 here); "]);
    let sent = group.send(&["file", "--min", "1", "--wait", "4"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let enough = "as many are here as are needed (1); others may come for ";
    assert!(sent.stderr.contains(enough), "{}", sent.stderr);
    let sent = group.send(&["file", "--require", "absent", "--no-compare", "--wait", "4"]);
    sent.fails_with(3, &["waiting for absent (1 here); "]);
}

/// Names as they are in JSON.
fn names_in_json(names: &[&str]) -> Value {
    names.iter().map(|name| Value::from(*name)).collect()
}

#[test]
fn a_sender_of_a_pipe_hears_who_came_too_late_for_it() {
    let group = Group::new();
    let _one = group.receiver("one", &[]);
    let (input, mut pipe) = std::io::pipe().unwrap();
    let mut command = group.command(&["send", "-", "--json"]);
    let mut sender = group.host.launch("send", command.stdin(input));
    drop(command);
    let has = |event: &str| group.lines("send").iter().any(|it| it["event"] == event);
    until("it has begun", || has("started"));
    let _late = group.receiver("late", &[]);
    until("it hears of the late one", || {
        pipe.write_all(&noise(70_000)).unwrap();
        has("came_late")
    });
    drop(pipe);
    assert_eq!(sender.wait(), 0, "it is none of its receivers");
    let said = group.lines("send");
    let late: Vec<&Value> = said
        .iter()
        .filter(|it| it["event"] == "came_late")
        .collect();
    assert_eq!(late.len(), 1, "{said:?}");
    assert_eq!(late[0]["receiver"], "late");
    assert_eq!(said.last().unwrap()["complete"], 1, "{said:?}");
}

#[test]
fn a_receiver_that_refuses_is_named_and_not_waited_for() {
    let group = Group::new();
    fs::write(group.path("file"), noise(300_000)).unwrap();
    let mut pipe = group.receiver("pipe", &["--out", "-"]);
    let begun = Instant::now();
    let sent = group.send(&["file"]);
    let told = "pipe: refused: this receiver takes a stream only";
    sent.fails_with(3, &[told, "first mend what is said above"]);
    assert!(begun.elapsed() < Duration::from_secs(15));
    // It takes one transfer, and that was it.
    assert_eq!(pipe.wait(), 1);
    let said = group.host.read("pipe.err");
    assert!(said.contains("takes a stream only"), "{said}");
}

#[test]
fn below_the_least_nobody_is_served_and_at_the_most_it_begins() {
    let group = Group::new();
    fs::write(group.path("image"), noise(300_000)).unwrap();
    let mut one = group.receiver("one", &["--json", "--once"]);
    group
        .send(&["image", "--protocol", "multidriver", "--height", "2"])
        .fails_with(2, &["--height is for --protocol tree"]);
    let arguments = ["image", "--protocol", "multidriver", "--wait", "2"];
    let alone = [&arguments[..], &["--min", "2", "--max", "3"]].concat();
    group
        .send(&alone)
        .fails_with(1, &["only 1 receiver came: nobody was served"]);
    assert_eq!(one.wait(), 1);
    assert!(
        group
            .host
            .read("one.out")
            .contains("1 receiver has come, and it needs 2")
    );
    assert!(!group.path("out-one/image").exists());

    let mut two = group.receiver("two", &["--once"]);
    let mut three = group.receiver("three", &["--once"]);
    let sent = group.send(&["image", "--protocol", "multidriver", "--max", "2"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!((two.wait(), three.wait()), (0, 0));
    assert_eq!(group.received("two", "image"), noise(300_000));
    group
        .send(&["image", "--min", "3", "--max", "2"])
        .fails_with(2, &["--min 3 is more than the most"]);
}

#[test]
fn a_census_and_what_is_sent_follow_subgroups_and_who_is_gone_is_not_counted() {
    let group = Group::new();
    let census = |options: &[&str]| {
        let mut command = group.command(&["census"]);
        Ran::of(command.args(options).output().unwrap())
    };
    census(&["--timeout", "1"]).fails_with(1, &["no receiver answered", "groupcast recv"]);
    census(&["--subgroup", "64"]).fails_with(2, &["0,3,8-11"]);
    census(&["--timeout", "0"]).fails_with(2, &["seconds"]);
    group
        .host
        .run(&[
            "recv",
            "--out",
            "d",
            "--insecure",
            "--subgroup",
            "",
            "--group",
            &group.address,
        ])
        .fails_with(2, &["0,3,8-11"]);
    let _one = group.receiver("one", &["--subgroup", "0,3"]);
    let two = group.receiver("two", &["--subgroup", "1"]);
    let all = census(&["--list"]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    assert!(
        all.stdout
            .starts_with("2 hosts, 2 members, subgroups 0-1,3\n")
    );
    assert!(all.stdout.contains("one") && all.stdout.contains("127.0.0.1"));
    let some = census(&["--subgroup", "2-3", "--json"]);
    let line: Value = serde_json::from_str(&some.stdout).unwrap();
    assert_eq!(
        (&line["hosts"], &line["complete"]),
        (&1.into(), &true.into())
    );
    fs::write(group.path("a"), "for three").unwrap();
    let sent = group.send(&["a", "--subgroup", "2-3", "--receivers", "1"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(group.received("one", "a"), b"for three");
    assert!(!group.listing("two").contains(&"a".to_owned()));
    group
        .send(&["a", "--subgroup", "5", "--wait", "1"])
        .fails_with(1, &["nobody in the subgroups 5", "--subgroup"]);
    drop(two);
    let rest = census(&[]);
    assert!(rest.stdout.starts_with("1 host, 1 member, subgroups 0,3\n"));
}

#[test]
fn a_list_says_who_is_sent_to_and_nobody_else_is() {
    let group = Group::new();
    let mut one = group.receiver("one", &["--subgroup", "0,3"]);
    let mut two = group.receiver("two", &["--subgroup", "1"]);
    fs::write(group.path("a"), "for one").unwrap();
    fs::write(group.path("b"), "for both").unwrap();
    fs::write(group.path("c"), "for two").unwrap();
    let sent = group.send(&["a", "--to", "one", "--protocol", "list"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);

    let mut census = group.command(&["census", "--as-list", "--timeout", "30"]);
    let census = Ran::of(census.output().unwrap());
    let mut lines: Vec<&str> = census.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one 0,3", "two 1"], "{}", census.stderr);
    fs::write(group.path("hosts"), &census.stdout).unwrap();
    let list = ["--list", "hosts"];
    let sent = group.send(&[&["b", "--protocol", "list"], &list[..]].concat());
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let sent = group.send(&[&["c", "--subgroup", "1,9"], &list[..]].concat());
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    for (name, files) in [("one", ["a", "b"]), ("two", ["b", "c"])] {
        let mut listing = group.listing(name);
        listing.retain(|entry| entry != ".groupcast");
        assert_eq!(listing, files);
    }
    assert_eq!(group.received("two", "b"), b"for both");

    fs::write(group.path("hosts"), "one 0\nthree 2\n").unwrap();
    let sent = group.send(&[&["c", "--wait", "1"], &list[..]].concat());
    sent.fails_with(3, &["1 of 2", "three: never came"]);
    fs::write(group.path("hosts"), "one 0 3\n").unwrap();
    group
        .send(&[&["c"], &list[..]].concat())
        .fails_with(2, &["hosts: line 1"]);
    group
        .send(&["c", "--to", "one", "--require", "two"])
        .fails_with(2, &["--require"]);
    assert_eq!((one.terminate(), two.terminate()), (0, 0));
}
