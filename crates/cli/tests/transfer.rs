//! `send` and `recv` between processes on loopback, as their users run them.
//!
//! Goal: what arrives is what was sent, or nothing is; every receiver is accounted for by name and
//! by exit code; a transfer that breaks off is resumed. Method: real processes, real multicast on
//! the loopback interface, real files.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::{Host, Ran, Running, free_port, until};
use serde_json::Value;

/// A host, with the options of one group on loopback.
pub(crate) struct Group {
    pub(crate) host: Host,
    pub(crate) address: String,
}

impl Group {
    pub(crate) fn new() -> Self {
        let host = Host::new();
        assert_eq!(host.run(&["keygen", "group.key"]).code, 0);
        let address = format!("239.192.79.78:{}", free_port());
        Self { host, address }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.host.path(name).into()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.command(arguments);
        command
            .args(["--group", &self.address, "--interface", "127.0.0.1"])
            .args(["--key", "group.key"]);
        command
    }

    /// Starts a receiver called `name`, and waits until it listens.
    pub(crate) fn receiver(&self, name: &str, options: &[&str]) -> Running {
        let mut command = self.command(&["recv", "--name", name]);
        command.args(options);
        if !options.contains(&"--out") {
            command.args(["--out", &format!("out-{name}")]);
        }
        let receiver = self.host.launch(name, &mut command);
        let ready = |end| !self.host.read(&format!("{name}.{end}")).is_empty();
        until(&format!("{name} listens"), || ready("out") || ready("err"));
        receiver
    }

    pub(crate) fn send(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(&["send"]);
        Ran::of(command.args(arguments).output().unwrap())
    }

    /// What `name` received under `file`.
    pub(crate) fn received(&self, name: &str, file: &str) -> Vec<u8> {
        fs::read(self.path(&format!("out-{name}")).join(file)).unwrap_or_default()
    }

    /// What lies in the target directory of `name`.
    fn listing(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(&format!("out-{name}"))).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The JSON lines that `label` printed.
    pub(crate) fn lines(&self, label: &str) -> Vec<Value> {
        let text = self.host.read(&format!("{label}.out"));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until `label` has said that something has come.
    pub(crate) fn await_some(&self, label: &str) {
        let lines = || self.lines(label);
        until(&format!("{label} has some of it"), || {
            lines().iter().any(|it| it["event"] == "progress")
        });
    }
}

/// Bytes that do not repeat soon.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(len)
    .collect()
}

/// Starts a receiver called `name` that multicasts do not reach, and waits until it listens; where
/// that is.
fn without_multicast(group: &Group, name: &str) -> (Running, String) {
    let place = format!("127.0.0.1:{}", free_port());
    let mut command = group.host.command(&["recv", "--name", name, "--json"]);
    command
        .args(["--group", &group.address, "--listen", &place])
        .args(["--key", "group.key", "--out", &format!("out-{name}")]);
    let receiver = group.host.launch(name, &mut command);
    until(&format!("{name} listens"), || {
        !group.host.read(&format!("{name}.out")).is_empty()
    });
    (receiver, place)
}

#[test]
fn receivers_that_multicasts_do_not_reach_get_copies_from_the_same_command() {
    let group = Group::new();
    let content = noise(3_000_000);
    fs::write(group.path("file"), &content).unwrap();
    let _near = group.receiver("near", &[]);
    let (_far, far) = without_multicast(&group, "far");
    let (_other, _) = without_multicast(&group, "other");
    // The loopback interface has names for the address, too.
    let named = far.replace("127.0.0.1", "localhost");
    let options = ["file", "--peer", &named, "--json", "--status", "status"];
    let sent = group.send(&options);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    for name in ["near", "far"] {
        assert!(group.received(name, "file") == content, "{name}");
    }
    assert!(
        group.received("other", "file").is_empty(),
        "nobody named it"
    );
    let lines = sent.stdout.lines();
    let lines: Vec<Value> = lines.map(|it| serde_json::from_str(it).unwrap()).collect();
    for (name, copies) in [("near", false), ("far", true)] {
        let registered = lines.iter().filter(|it| it["event"] == "registered");
        let of = |it: &&Value| it["receiver"] == name && it["copies"] == copies;
        assert!(registered.clone().any(|it| of(&it)), "{name}: {lines:?}");
    }
    let done = lines.last().unwrap();
    let copies = done["copies"].as_u64().unwrap();
    assert!(copies >= done["packets"].as_u64().unwrap(), "{done}");
    let status: Value = serde_json::from_str(&group.host.read("status")).unwrap();
    assert_eq!(status["copies"], copies);
}

#[test]
fn a_census_counts_receivers_that_multicasts_do_not_reach_if_it_names_them() {
    let group = Group::new();
    let _near = group.receiver("near", &[]);
    let (_far, far) = without_multicast(&group, "far");
    let census = |options: &[&str]| {
        let mut command = group.command(&["census", "--list", "--json"]);
        Ran::of(command.args(options).output().unwrap())
    };
    let counted = |ran: &Ran| {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let lines = ran.stdout.lines();
        let lines = lines.map(|it| serde_json::from_str::<Value>(it).unwrap());
        let mut lines: Vec<Value> = lines.collect();
        let last = lines.pop().unwrap();
        assert_eq!(last["complete"], true, "{last}");
        let names = lines.iter().map(|it| it["name"].as_str().unwrap().into());
        (names.collect::<Vec<String>>(), last["absent"].clone())
    };
    let none = Value::from(Vec::<Value>::new());
    assert_eq!(counted(&census(&[])), (vec!["near".into()], none.clone()));
    let both = vec!["far".to_owned(), "near".into()];
    assert_eq!(counted(&census(&["--peer", &far])), (both.clone(), none));
    let nobody = format!("127.0.0.1:{}", free_port());
    let ran = census(&["--peer", &format!("{far},{nobody}")]);
    assert_eq!(counted(&ran), (both, vec![nobody.clone()].into()));
    assert!(ran.stderr.contains(&nobody), "{}", ran.stderr);
}

#[test]
fn a_host_without_multicast_that_does_not_answer_is_named_and_one_that_is_killed_too() {
    let group = Group::new();
    let content = noise(8_000_000);
    fs::write(group.path("file"), &content).unwrap();
    let _near = group.receiver("near", &[]);
    let (far, at) = without_multicast(&group, "far");
    let nobody = format!("127.0.0.1:{}", free_port());
    let peers = format!("{at},{nobody}");
    let mut command = group.command(&["send", "file", "--peer", &peers, "--rate", "32"]);
    let sender = command.stderr(Stdio::piped()).spawn().unwrap();
    group.await_some("far");
    drop(far);
    let sent = Ran::of(sender.wait_with_output().unwrap());
    assert_eq!(sent.code, 3, "{}", sent.stderr);
    assert!(group.received("near", "file") == content);
    let absent = format!("{nobody}: never came");
    for problem in [&absent, "far: not heard any more", "recv --listen"] {
        assert!(sent.stderr.contains(problem), "{problem}: {}", sent.stderr);
    }
}

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
fn what_cannot_be_done_without_multicast_is_refused_before_anything_is_sent() {
    let group = Group::new();
    fs::write(group.path("file"), "content").unwrap();
    let many: Vec<String> = (1..=65).map(|last| format!("10.79.0.{last}")).collect();
    let many = many.join(",");
    for (options, problem) in [
        (
            &["--peer", "10.79.0.4", "--protocol", "tree"][..],
            "speak to each other",
        ),
        (&["--peer", "10.79.0.4:65535"], "not a port from 1 to 65534"),
        (&["--peer", "a b"], "not a host"),
        (&["--peer", "239.192.79.1:4820"], "is not one host"),
        (&["--peer", &many], "at most 64"),
    ] {
        let refused = group.send(&[&["file"], options].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
    let nowhere = group.send(&["file", "--peer", "no-such-host.invalid"]);
    assert_eq!(nowhere.code, 1, "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("no-such-host.invalid"));
    let both = group.command(&["recv", "--listen", "lo", "--out", "out"]);
    let both = Ran::of({ both }.output().unwrap());
    assert_eq!(both.code, 2, "--interface says another: {}", both.stderr);
}

#[test]
fn options_that_make_no_sense_are_refused_and_a_dry_run_sends_nothing() {
    let group = Group::new();
    fs::create_dir_all(group.path("tree/cache")).unwrap();
    fs::write(group.path("tree/a"), "12345").unwrap();
    fs::write(group.path("tree/a.o"), "object").unwrap();
    fs::write(group.path("tree/cache/b"), "cached").unwrap();
    let options = [
        "tree",
        "--exclude",
        "*.o",
        "--exclude",
        "cache/",
        "--dry-run",
    ];
    let listed = group.send(&options);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let lines: Vec<&str> = listed.stdout.lines().map(str::trim_start).collect();
    assert_eq!(lines[..2], ["directory  tree", "5  tree/a"]);
    assert!(
        lines[2].contains("2 entries; nothing was sent"),
        "{lines:?}"
    );
    assert!(listed.stderr.contains("left out: 2 entries"));
    let json = group.send(&[&options[..], &["--json"]].concat());
    let total: Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&total["entries"], &total["bytes"]), (&2.into(), &5.into()));

    for (options, problem) in [
        (&["tree", "--exclude", "[a"][..], "[a"),
        (&["tree", "--exclude", "tree"], "leaves out everything"),
        (&["-", "--dry-run"], "for files"),
        (&["-", "--exclude", "*"], "for files"),
        (&["tree", "--dry-run", "--status", "s"], "--status"),
        (&["tree", "--together", "--max-failed", "1"], "--together"),
        (&["tree", "--ttl", "0"], "--ttl"),
        (&["tree", "--dscp", "64"], "--dscp"),
    ] {
        group.send(options).fails_with(2, &[problem]);
    }
    let mut nowhere = group.host.command(&["send", "tree", "--key", "group.key"]);
    nowhere.args(["--group", &group.address, "--interface", "none7"]);
    Ran::of(nowhere.output().unwrap()).fails_with(2, &["none7", "lo"]);
    let stdout = ["recv", "--out", "-", "--exec", "true"];
    Ran::of(group.command(&stdout).output().unwrap()).fails_with(2, &["--exec"]);
}

#[test]
fn a_command_runs_where_files_arrived_and_the_sender_hears_if_it_failed() {
    let group = Group::new();
    fs::write(group.path("image"), noise(100_000)).unwrap();
    let script =
        "echo \"$GROUPCAST_OUTCOME $GROUPCAST_LABEL $GROUPCAST_GROUP\" > told; test $1 = well";
    let receiver = |name: &str, how| {
        let out = format!("out-{name}");
        let before = ["--once", "--no-sync", "--out", &out];
        let exec = ["--exec", "sh", "-c", script, "sh", how];
        group.receiver(name, &[&before[..], &exec].concat())
    };
    let (mut good, mut bad) = (receiver("good", "well"), receiver("bad", "badly"));
    let options = [
        "image",
        "--require",
        "good,bad",
        "--status",
        "status",
        "--ttl",
        "2",
    ];
    let sent = group.send(&[&options[..], &["--dscp", "8"]].concat());
    sent.fails_with(
        3,
        &["bad: failed: it is in place, but the command failed: exit status: 1"],
    );
    assert_eq!((good.wait(), bad.wait()), (0, 1));
    let told = format!("complete image {}\n", group.address);
    for name in ["good", "bad"] {
        assert_eq!(group.received(name, "told"), told.as_bytes());
        assert!(group.received(name, "image") == noise(100_000));
    }
    let status: Value = serde_json::from_str(&group.host.read("status")).unwrap();
    assert_eq!(
        (&status["state"], &status["exit_code"]),
        (&"done".into(), &3.into())
    );
    let outcomes = status["receivers"].as_array().unwrap().iter();
    let outcomes: Vec<(&str, &str)> = outcomes
        .map(|it| {
            (
                it["receiver"].as_str().unwrap(),
                it["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(outcomes, [("bad", "failed"), ("good", "complete")]);
}

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
fn a_tree_reaches_two_receivers_whole_and_leaves_nothing_else() {
    let group = Group::new();
    let tree = group.path("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    fs::write(tree.join("large"), noise(3_000_000)).unwrap();
    fs::write(tree.join("empty"), "").unwrap();
    fs::write(tree.join("deep/er/run\n"), "#!").unwrap();
    fs::set_permissions(
        tree.join("deep/er/run\n"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    symlink("../large", tree.join("deep/link")).unwrap();

    let mut one = group.receiver("one", &["--json", "--once"]);
    let mut two = group.receiver("two", &["--once"]);
    let sent = group.send(&["tree", "--require", "one,two", "--json"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let last: Value = serde_json::from_str(sent.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "done");
    assert_eq!(last["complete"], 2);
    assert_eq!((one.wait(), two.wait()), (0, 0));
    for name in ["one", "two"] {
        assert!(group.received(name, "tree/large") == noise(3_000_000));
        assert_eq!(group.received(name, "tree/deep/er/run\n"), b"#!");
        let out = group.path(&format!("out-{name}/tree"));
        let mode = fs::metadata(out.join("deep/er/run\n"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(
            fs::read_link(out.join("deep/link")).unwrap().to_str(),
            Some("../large")
        );
        assert!(out.join("empty").exists());
        assert_eq!(group.listing(name), ["tree"], "nothing else is left");
    }
    let events: Vec<String> = group
        .lines("one")
        .iter()
        .map(|line| line["event"].as_str().unwrap().to_owned())
        .filter(|event| event != "progress")
        .collect();
    assert_eq!(events, ["listening", "accepted", "complete"]);
}

#[test]
fn a_pipe_reaches_a_pipe_and_a_file() {
    let group = Group::new();
    let mut pipe = group.receiver("pipe", &["--out", "-"]);
    let mut file = group.receiver("file", &["--once"]);
    let mut command = group.command(&["send", "-", "--receivers", "2"]);
    let mut sender = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let content = noise(500_000);
    let mut stdin = sender.stdin.take().unwrap();
    stdin.write_all(&content[..300_000]).unwrap();
    // What does not fill a packet waits for more, and what does not fill a frame for its hash.
    until("what was written is there before the pipe ends", || {
        group.host.read_bytes("pipe.out").len() > 200_000
    });
    stdin.write_all(&content[300_000..]).unwrap();
    drop(stdin);
    assert!(sender.wait().unwrap().success());
    assert_eq!((pipe.wait(), file.wait()), (0, 0));
    assert!(group.host.read_bytes("pipe.out") == content);
    assert!(group.received("file", "stdin") == content);
    assert_eq!(group.listing("file"), ["stdin"]);
}

#[test]
fn each_protocol_of_the_paper_reaches_receivers_that_know_nothing_of_it() {
    let group = Group::new();
    let sent = noise(1_000_001);
    for (protocol, packet) in [
        ("ack", 50_000),
        ("nak", 8_000),
        ("ring", 8_000),
        ("tree", 8_000),
    ] {
        let file = format!("by-{protocol}");
        fs::write(group.path(&file), &sent).unwrap();
        let receivers = ["one", "two"].map(|name| group.receiver(name, &["--once"]));
        let options = ["--paper", "--protocol", protocol, "--receivers", "2"];
        let ran = group.send(&[&[&*file, "--json"], &options[..]].concat());
        assert_eq!(ran.code, 0, "{protocol}: {}", ran.stderr);
        for mut receiver in receivers {
            assert_eq!(receiver.wait(), 0, "{protocol}");
        }
        for name in ["one", "two"] {
            assert!(group.received(name, &file) == sent, "{protocol}: {name}");
        }
        let done: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
        let number = |field: &str| done[field].as_u64().unwrap();
        // No receiver was asked what it holds, and no parity was sent.
        let first_time = number("packets") - number("repeated");
        assert_eq!(first_time, number("bytes").div_ceil(packet), "{protocol}");
    }
    // Wrong lines end before anything is sent; the rules are tested beside the code.
    for (options, problem) in [
        (&["--paper"][..], "--protocol ack, nak, ring or tree"),
        (
            &["--paper", "--protocol", "ring", "--rate", "5"],
            "--rate 5",
        ),
        (&["--protocol", "ack", "--poll", "5"], "--poll is for"),
        (
            &["--paper", "--protocol", "tree", "--poll", "5"],
            "--poll is for",
        ),
        (
            &["--paper", "--protocol", "nak", "--height", "5"],
            "--height is for",
        ),
    ] {
        group
            .send(&[&["by-ack"], options].concat())
            .fails_with(2, &[problem]);
    }
    let many = ["--paper", "--protocol", "ring", "--receivers", "50"];
    group
        .send(&[&["by-ack"], &many[..]].concat())
        .fails_with(2, &["too small for the policy `ring`"]);
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
fn what_cannot_work_is_said_before_anything_is_sent() {
    let group = Group::new();
    let host = &group.host;
    let at = ["--group", &group.address, "--interface", "127.0.0.1"];
    let run = |arguments: &[&str]| host.run(&[arguments, &at].concat());
    run(&["send", "group.key"]).fails_with(2, &["neither --key nor --insecure"]);
    run(&["recv", "--out", "d"]).fails_with(2, &["neither --key nor --insecure"]);
    host.run(&[
        "relay",
        "--from",
        &group.address,
        "--to",
        "239.192.79.79:4829",
    ])
    .fails_with(2, &["neither --key nor --insecure"]);
    let nowhere = run(&["recv", "--out", "/proc/nowhere", "--insecure"]);
    nowhere.fails_with(1, &["cannot write to /proc/nowhere"]);
    assert!(!nowhere.stderr.contains("is made"), "{}", nowhere.stderr);
    symlink("gone", group.path("link")).unwrap();
    run(&["recv", "--out", "link", "--insecure"])
        .fails_with(1, &["it is a symbolic link that leads nowhere"]);
    let pauses = ["--rate-at", "8:00=pause", "--rate-at", "9:00=pause"];
    run(&[&["send", "group.key", "--insecure"][..], &pauses].concat())
        .fails_with(2, &["nothing but pauses"]);
    fs::create_dir_all(group.path("tree/cache")).unwrap();
    fs::write(group.path("tree/cache/f"), "f").unwrap();
    let excluding = |pattern: &str| {
        let at = ["--exclude", pattern, "--group", &group.address];
        let ran = host.run(&[&["send", "tree", "--dry-run"][..], &at].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (ran.stdout, ran.stderr.contains("leaves out nothing"))
    };
    for pattern in ["cache/**", "./tree/cache", "/cache/"] {
        assert!(excluding(pattern).1, "{pattern}");
    }
    for pattern in [
        "tree/cache/**",
        "/tree/cache",
        "cache/",
        "**/f",
        "cache",
        "t*/f",
    ] {
        assert!(!excluding(pattern).1, "{pattern}");
    }
    let listed = excluding("cache").0;
    assert!(listed.contains(" in 1 entry; nothing"), "{listed}");
    host.run(&["send", "group.key", "--insecure", "--group", "10.0.0.1:5"])
        .fails_with(2, &["not a multicast address"]);
    run(&["send", "missing", "--insecure"]).fails_with(1, &["missing"]);
    run(&["send", "group.key", "--insecure", "--require", "a,rl/b1"])
        .fails_with(2, &["required by its own, `b1`"]);
    run(&["send", "/", "--insecure"]).fails_with(2, &["no name"]);
    run(&["send", "/proc/cpuinfo", "--insecure"]).fails_with(2, &["/proc/cpuinfo"]);
    fs::create_dir_all(group.path("kept/.groupcast")).unwrap();
    run(&["send", "kept/.groupcast", "--insecure"]).fails_with(1, &[".groupcast"]);
    run(&["send", "-", "group.key", "--insecure"]).fails_with(2, &["standard input"]);
    // Each is called as its user called it, and in its unit.
    for (options, says) in [
        ("--window 8 --poll 9", "--poll: 9 is out of range"),
        ("--protocol xtp --poll 2000", "--poll: 2000 is out of range"),
        (
            "--protocol multidriver --poll 0",
            "--poll: 0 is out of range",
        ),
        (
            "--protocol list --poll 2000",
            "--poll: 2000 is out of range",
        ),
        ("--window 0", "--window: 0 is out of range"),
        ("--protocol tree --height 0", "--height: 0 is out of range"),
        (
            "--protocol xtp --rate background",
            "rate in Mb/s, as --rate 20",
        ),
        (
            "--protocol xtp --rate-at 8:00=background --rate-at 9:00=20",
            "rate in Mb/s, as --rate-at 08:00=20",
        ),
        ("--protocol ring --window 1 --receivers 3", "help: --window"),
    ] {
        let words: Vec<&str> = options.split(' ').collect();
        let refused = run(&[&["send", "group.key", "--insecure"][..], &words].concat());
        refused.fails_with(2, &[says]);
        for internal in ["setting", "_every", "bits a second"] {
            assert!(!refused.stderr.contains(internal), "{}", refused.stderr);
        }
    }
    for bytes in [
        "0",
        "10",
        "63",
        "65001",
        "-1",
        "9999999999999999999999",
        "1400 bit",
        "1 MiB",
    ] {
        let packet = format!("--packet={bytes}");
        run(&["send", "group.key", "--insecure", &packet])
            .fails_with(2, &["a packet has 64 to 65000 bytes"]);
    }
    let long = format!("{}end", "directory/".repeat(500));
    let sent = run(&["send", &long, "--insecure"]);
    sent.fails_with(1, &["directory/directory/", "/end", "too long"]);
    assert!(sent.stderr.len() < 700, "{}", sent.stderr);
    run(&["send", "group.key", "--insecure", "--protocol", "tcp"]).fails_with(2, &["tcp"]);
    run(&["recv", "--out", "-", "--json", "--insecure"]).fails_with(2, &["--json"]);
    run(&["recv", "--out", "group.key", "--insecure"]).fails_with(1, &["group.key"]);
    run(&["send", "group.key", "--insecure", "--wait", "1"])
        .fails_with(1, &["nobody received anything", "groupcast recv"]);
    let _holder = group.receiver("one", &[]);
    let second = group
        .command(&["recv", "--out", "out-one"])
        .output()
        .unwrap();
    Ran::of(second).fails_with(1, &["another receiver uses"]);
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
