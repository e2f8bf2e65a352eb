//! `send`, `recv` and `relay` where something around them changes, or is not as usual.
//!
//! Goal: whoever does not read, removes a directory or stops a process harms no transfer but his
//! own, and every command ends when it is asked to. Method: real processes on loopback, as in
//! `transfer.rs`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, PipeReader, Write as _, pipe};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;

use crate::host::{Running, until};
use crate::transfer::{Group, noise};

/// How long a command may take to end that was asked to: it waits two seconds for a reader of
/// stdout, one for one of stderr, and this machine may be busy.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// A pipe that is full, and that nobody reads.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    loop {
        match writer.write(&[b'\n'; 512]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer.into())
}

/// Starts `command`, of whose output nobody reads anything.
fn unread(command: &mut Command, label: &str) -> (Running, [PipeReader; 2]) {
    let ((out, stdout), (err, stderr)) = (full_pipe(), full_pipe());
    let child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    (Running::of(child, label), [out, err])
}

/// Asks it to end; its exit code.
fn ends(process: &mut Running) -> i32 {
    let begun = Instant::now();
    let code = process.terminate();
    assert!(begun.elapsed() < ENDS_WITHIN, "{:?}", begun.elapsed());
    code
}

#[test]
fn output_that_nobody_reads_stops_no_transfer_and_no_command() {
    for json in [true, false] {
        let group = Group::new();
        let content = noise(3_000_000);
        fs::write(group.path("file"), &content).unwrap();
        let options: &[&str] = if json { &["--json"] } else { &[] };
        let mut command = group.command(&["recv", "--name", "one", "--out", "out-one"]);
        let (mut receiver, _unread) = unread(command.args(options), "one");
        let _other = group.receiver("two", &[]);
        let sent = group.send(&["file", "--require", "one,two"]);
        assert_eq!(sent.code, 0, "{}", sent.stderr);
        assert!(group.received("one", "file") == content);

        fs::write(group.path("second"), &content).unwrap();
        let mut command = group.command(&["send", "second", "--require", "one,two"]);
        let (mut sender, _unread) = unread(command.args(options), "sender");
        until("both have it", || {
            ["one", "two"]
                .iter()
                .all(|it| group.received(it, "second") == content)
        });
        assert!(sender.is_running(), "what it has to say is not read");
        ends(&mut sender);
        assert_eq!(ends(&mut receiver), 0);
    }
}

#[test]
fn a_relay_of_whose_output_nobody_reads_anything_relays_and_ends() {
    let (above, below) = (Group::new(), Group::new());
    let content = noise(1_000_000);
    fs::write(above.path("file"), &content).unwrap();
    let _receiver = below.receiver("one", &[]);
    let mut command = above.host.command(&["relay", "--name", "r", "--json"]);
    command.args(["--from", &above.address, "--to", &below.address]);
    command.args(["--from-interface", "lo", "--to-interface", "lo"]);
    let to_key = below.path("group.key");
    command.args(["--key", "group.key", "--to-key", to_key.to_str().unwrap()]);
    let (mut relay, _unread) = unread(&mut command, "relay");
    let sent = above.send(&["file", "--require", "one"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(below.received("one", "file") == content);
    assert_eq!(ends(&mut relay), 0);
}

#[test]
fn a_directory_that_is_removed_while_recv_runs_is_made_anew_and_recv_says_so() {
    let group = Group::new();
    let _receiver = group.receiver("one", &["--json"]);
    for (content, removed) in [
        ("first", ""),
        ("second", "out-one/.groupcast"),
        ("third", "out-one"),
    ] {
        if !removed.is_empty() {
            fs::remove_dir_all(group.path(removed)).unwrap();
        }
        fs::write(group.path("file"), content).unwrap();
        let sent = group.send(&["file", "--receivers", "1"]);
        assert_eq!(sent.code, 0, "{removed}: {}", sent.stderr);
        assert_eq!(group.received("one", "file"), content.as_bytes());
    }
    let lines = group.lines("one");
    let renewed = lines.iter().filter(|line| line["event"] == "renewed");
    assert_eq!(renewed.count(), 2, "{lines:?}");
}

#[test]
fn names_in_the_json_of_a_dry_run_are_the_names_and_lists_may_have_spaces() {
    let group = Group::new();
    fs::create_dir(group.path("tree")).unwrap();
    let names: [&[u8]; 4] = [b"a\nb", b"a\\nb", b"\xff", b"\\xff"];
    for name in names {
        fs::write(group.path("tree").join(OsStr::from_bytes(name)), "").unwrap();
    }
    let listed = group.send(&["tree", "--dry-run", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let lines = listed.stdout.lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named = lines.filter_map(|line| {
        let encoded = line["path_base64"].as_str().map(str::to_owned);
        let name = line["path"].as_str()?.to_owned();
        Some(encoded.unwrap_or(name))
    });
    let named: Vec<String> = named.collect();
    assert_eq!(
        named,
        ["tree", "tree/\\xff", "tree/a\nb", "tree/a\\nb", "dHJlZS//"],
        "{}",
        listed.stdout
    );

    fs::write(group.path("file"), "content").unwrap();
    let _one = group.receiver("one", &[]);
    let _two = group.receiver("two", &[]);
    let sent = group.send(&["file", "--require", "one, two", "--wait", "20"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
}

#[test]
fn a_status_is_never_that_of_an_earlier_command() {
    let group = Group::new();
    let _one = group.receiver("one", &[]);
    fs::write(group.path("file"), "content").unwrap();
    let status = || -> Value { serde_json::from_str(&group.host.read("status")).unwrap() };
    let sent = group.send(&["file", "--status", "status"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(
        (&status()["state"], &status()["exit_code"]),
        (&"done".into(), &0.into())
    );
    for (options, code) in [(&["missing"][..], 1), (&["file", "--height", "3"], 2)] {
        let failed = group.send(&[options, &["--status", "status"]].concat());
        assert_eq!(failed.code, code, "{}", failed.stderr);
        let status = status();
        assert_eq!(
            (&status["state"], &status["exit_code"]),
            (&"done".into(), &code.into())
        );
        assert_eq!(status["receivers"], Value::Array(Vec::new()), "{status}");
    }
}

#[test]
fn a_file_that_is_sent_is_not_replaced_by_the_status() {
    let group = Group::new();
    fs::create_dir(group.path("tree")).unwrap();
    fs::write(group.path("file"), "content").unwrap();
    fs::write(group.path("tree/file"), "content").unwrap();
    std::os::unix::fs::symlink("file", group.path("link")).unwrap();
    for (sent, status) in [
        ("file", "file"),
        ("file", "tree/../file"),
        ("link", "file"),
        ("link", "link"),
        ("tree", "tree/file"),
        ("tree/../tree", "tree/file"),
        ("tree", "tree/new"),
    ] {
        let refused = group.send(&[sent, "--status", status]);
        assert_eq!(refused.code, 2, "{sent} {status}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("among the files"),
            "{}",
            refused.stderr
        );
        for file in ["file", "link", "tree/file"] {
            assert_eq!(group.host.read(file), "content", "{sent} {status}");
        }
        assert!(!group.path("tree/new").exists(), "{sent} {status}");
        assert!(group.path("link").is_symlink(), "{sent} {status}");
    }
    let _one = group.receiver("one", &[]);
    let left_out = ["tree", "--status", "tree/status", "--exclude", "tree/stat*"];
    let sent = group.send(&left_out);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let sent = group.send(&["link", "--status", "tree/file"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
}

#[test]
fn receivers_of_a_sender_that_pauses_say_so_and_that_it_goes_on() {
    let (above, below) = (Group::new(), Group::new());
    fs::write(above.path("file"), noise(6_000_000)).unwrap();
    let _near = above.receiver("near", &["--json"]);
    let _words = above.receiver("words", &[]);
    let _below = below.receiver("far", &["--json"]);
    let mut relay = above.host.command(&["relay", "--name", "r", "--json"]);
    relay.args(["--from", &above.address, "--to", &below.address]);
    relay.args(["--from-interface", "lo", "--to-interface", "lo"]);
    let to_key = below.path("group.key");
    relay.args(["--key", "group.key", "--to-key", to_key.to_str().unwrap()]);
    let _relay = above.host.launch("r", &mut relay);
    until("the relay listens", || {
        above.host.read("r.out").contains("listening")
    });
    let mut command = above.command(&[
        "send",
        "file",
        "--rate",
        "10",
        "--require",
        "near,words,far",
    ]);
    let mut sender = above.host.launch("sender", &mut command);
    above.await_some("near");
    let told = |lines: Vec<Value>| -> Vec<String> {
        let served = lines.into_iter().filter(|it| it["event"] == "served");
        served
            .map(|it| it["when"].as_str().unwrap().to_owned())
            .collect()
    };
    let all_told = |when: &[&str]| {
        let is = |lines: Vec<Value>| told(lines) == when;
        is(above.lines("near")) && is(above.lines("r")) && is(below.lines("far"))
    };
    sender.signal("USR1");
    until("all say that it pauses", || all_told(&["paused"]));
    sender.signal("USR2");
    until("all say that it goes on", || all_told(&["paused", "now"]));
    assert_eq!(sender.wait(), 0);
    let said = above.host.read("words.err");
    assert!(
        said.contains(": the sender pauses") && said.contains(": it goes on"),
        "{said}"
    );
}
