//! `send` and `recv` between processes on loopback, as their users run them.
//!
//! Goal: what arrives is what was sent, or nothing is; every receiver is accounted for by name and
//! by exit code; a transfer that breaks off is resumed. Method: real processes, real multicast on
//! the loopback interface, real files.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

mod copies;
mod ends;
mod receivers;
mod refused;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::host::{Host, Ran, Running, free_port, until};

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
