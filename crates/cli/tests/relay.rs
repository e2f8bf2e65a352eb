//! `relay` between processes on loopback, as their users run it: two groups, or three, of one host.
//!
//! Goal: receivers below a relay, and below two, have what was sent, are named in the sender's
//! account and its exit code, and a relay that is killed is named with those behind it. Method:
//! real processes, real multicast on the loopback interface, real files. Nothing is measured.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::host::{Host, Ran, Running, free_port, until};
use serde_json::Value;

/// A host with groups on loopback, numbered from 0; the sender's is the first.
struct Groups {
    host: Host,
    addresses: Vec<String>,
}

impl Groups {
    fn new(count: usize) -> Self {
        let host = Host::new();
        assert_eq!(host.run(&["keygen", "group.key"]).code, 0);
        let address = |number| format!("239.192.79.{}:{}", 90 + number, free_port());
        let addresses = (0..count).map(address).collect();
        Self { host, addresses }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.host.path(name).into()
    }

    fn command(&self, group: usize, arguments: &[&str]) -> Command {
        let mut command = self.host.command(arguments);
        command.args(["--group", &self.addresses[group], "--interface", "lo"]);
        command.args(["--key", "group.key"]);
        command
    }

    fn listens(&self, name: &str) {
        until(&format!("{name} listens"), || {
            self.host.read(&format!("{name}.out")).contains("listening")
        });
    }

    fn receiver(&self, group: usize, name: &str, options: &[&str]) -> Running {
        let out = format!("out-{name}");
        let mut command = self.command(group, &["recv", "--json", "--name", name]);
        let receiver = self
            .host
            .launch(name, command.args(["--out", &out]).args(options));
        self.listens(name);
        receiver
    }

    fn relay(&self, from: usize, to: usize, name: &str) -> Running {
        self.relay_with(from, to, name, &["--from-interface", "lo"])
    }

    fn relay_with(&self, from: usize, to: usize, name: &str, options: &[&str]) -> Running {
        let mut command = self.host.command(&["relay", "--json", "--name", name]);
        command.args(["--from", &self.addresses[from], "--to", &self.addresses[to]]);
        command.args(options).args(["--to-interface", "127.0.0.1"]);
        let relay = self.host.launch(name, command.args(["--key", "group.key"]));
        self.listens(name);
        relay
    }

    fn sending(&self, options: &[&str]) -> Command {
        let mut command = self.command(0, &["send", "--json", "--name", "source"]);
        command.args(options);
        command
    }

    fn send(&self, options: &[&str]) -> Ran {
        Ran::of(self.sending(options).output().unwrap())
    }

    fn received(&self, name: &str, file: &str) -> Vec<u8> {
        fs::read(self.path(&format!("out-{name}")).join(file)).unwrap_or_default()
    }

    /// Whether a process has told of such an event.
    fn told(&self, name: &str, event: &str) -> bool {
        let event = format!("\"event\":\"{event}\"");
        self.host.read(&format!("{name}.out")).contains(&event)
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * at % 251) as u8).collect()
}

/// The account at the end of what a sender printed.
fn account(printed: &str) -> Value {
    let last = printed.lines().last().unwrap();
    let account: Value = serde_json::from_str(last).unwrap();
    assert_eq!(account["event"], "done", "{printed}");
    account
}

/// Who failed, by name, in the order of names.
fn failed(account: &Value) -> Vec<String> {
    let failed = account["failed"].as_array().unwrap();
    let name = |it: &Value| it["receiver"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = failed.iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn files_reach_receivers_below_one_relay_and_below_two() {
    let groups = Groups::new(3);
    fs::write(groups.path("image"), bytes(3_000_000)).unwrap();
    let _near = groups.receiver(0, "near", &[]);
    let _middle = groups.receiver(1, "middle", &[]);
    let _far = groups.receiver(2, "far", &[]);
    let mut second = groups.relay(1, 2, "second");
    let mut first = groups.relay(0, 1, "first");

    let all = groups.send(&["image", "--require", "near,middle,far"]);
    assert_eq!(
        all.code,
        0,
        "{} {}",
        all.stderr,
        groups.host.read("first.out")
    );
    assert_eq!(account(&all.stdout)["complete"], 3, "{}", all.stdout);
    for name in ["near", "middle", "far"] {
        assert!(groups.received(name, "image") == bytes(3_000_000), "{name}");
        let settled = match name {
            "near" => "near".to_owned(),
            "middle" => "first/middle".to_owned(),
            _ => "first/second/far".to_owned(),
        };
        assert!(
            all.stdout.contains(&format!("\"{settled}\"")),
            "{}",
            all.stdout
        );
    }

    // They count as receivers, and what all of them have is not sent again.
    let again = groups.send(&["image", "--receivers", "3", "--status", "status"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let status: Value = serde_json::from_str(&groups.host.read("status")).unwrap();
    let listed = status["receivers"].as_array().unwrap().iter();
    let listed: Vec<&str> = listed.filter_map(|it| it["receiver"].as_str()).collect();
    assert_eq!(listed, ["first/middle", "first/second/far", "near"]);
    let account = account(&again.stdout);
    assert_eq!(account["complete"], 3, "{account}");
    assert!(account["sent"].as_u64().unwrap() < 30_000, "{account}");

    assert_eq!((first.terminate(), second.terminate()), (0, 0));
    assert!(groups.told("first", "done") && groups.told("second", "done"));
}

#[test]
fn a_relay_that_multicasts_do_not_reach_passes_copies_on_to_receivers_with_and_without_them() {
    let groups = Groups::new(2);
    fs::write(groups.path("image"), bytes(3_000_000)).unwrap();
    let at = || format!("127.0.0.1:{}", free_port());
    let (at_relay, at_far) = (at(), at());
    let _near = groups.receiver(1, "near", &[]);
    let mut far = groups.host.command(&["recv", "--json", "--name", "far"]);
    far.args(["--group", &groups.addresses[1], "--key", "group.key"]);
    far.args(["--listen", &at_far, "--out", "out-far"]);
    let _far = groups.host.launch("far", &mut far);
    groups.listens("far");
    let options = ["--listen", at_relay.as_str(), "--peer", at_far.as_str()];
    let _relay = groups.relay_with(0, 1, "relay", &options);

    let sent = groups.send(&["image", "--peer", &at_relay, "--require", "near,far"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(account(&sent.stdout)["complete"], 2, "{}", sent.stdout);
    for name in ["near", "far"] {
        assert!(groups.received(name, "image") == bytes(3_000_000), "{name}");
        assert!(sent.stdout.contains(&format!("\"relay/{name}\"")));
    }
    let account = account(&sent.stdout);
    let (packets, copies) = (&account["packets"], &account["copies"]);
    assert!(copies.as_u64() >= packets.as_u64(), "{account}");
}

#[test]
fn a_pipe_passes_a_relay() {
    let groups = Groups::new(2);
    fs::write(groups.path("input"), bytes(700_000)).unwrap();
    let _below = groups.receiver(1, "below", &[]);
    let _relay = groups.relay(0, 1, "relay");
    let input = fs::File::open(groups.path("input")).unwrap();
    let mut command = groups.sending(&["-", "--receivers", "1"]);
    let sent = Ran::of(command.stdin(input).output().unwrap());
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(groups.received("below", "stdin") == bytes(700_000));
}

#[test]
fn who_comes_too_late_below_is_named_by_the_relay_and_by_the_sender() {
    let groups = Groups::new(2);
    let _receiver = groups.receiver(1, "b1", &[]);
    let _relay = groups.relay(0, 1, "r1");
    let (input, mut pipe) = std::io::pipe().unwrap();
    let mut command = groups.sending(&["-", "--require", "b1"]);
    let mut sender = groups.host.launch("send", command.stdin(input));
    drop(command);
    until("it has begun", || groups.told("send", "started"));
    let _late = groups.receiver(1, "late", &[]);
    until("the sender hears of the late one", || {
        pipe.write_all(&bytes(70_000)).unwrap();
        groups.told("send", "came_late")
    });
    drop(pipe);
    assert_eq!(sender.wait(), 0, "it is none of its receivers");
    for (process, named) in [("send", "r1/late"), ("r1", "late")] {
        let said = groups.host.read(&format!("{process}.out"));
        let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
        let late: Vec<Value> = lines
            .filter(|it: &Value| it["event"] == "came_late")
            .collect();
        assert_eq!(late.len(), 1, "{said}");
        assert_eq!(late[0]["receiver"], named);
    }
    let account = account(&groups.host.read("send.out"));
    assert_eq!(account["complete"], 1);
}

#[test]
fn who_fails_below_is_named_and_the_others_are_complete() {
    let groups = Groups::new(2);
    fs::write(groups.path("image"), bytes(300_000)).unwrap();
    let _good = groups.receiver(1, "good", &[]);
    let _bad = groups.receiver(1, "bad", &["--exec", "false"]);
    let _relay = groups.relay(0, 1, "relay");
    let sent = groups.send(&["image", "--require", "good,bad"]);
    sent.fails_with(3, &["1 of 2 receivers are complete", "relay/bad: failed"]);
    let account = account(&sent.stdout);
    assert_eq!(failed(&account), ["relay/bad"], "{account}");
    assert!(groups.received("good", "image") == bytes(300_000));
}

#[test]
fn a_receiver_that_is_killed_below_and_a_relay_that_is_killed_are_named() {
    let groups = Groups::new(2);
    fs::write(groups.path("image"), bytes(6_000_000)).unwrap();
    let _near = groups.receiver(0, "near", &[]);
    let _one = groups.receiver(1, "one", &[]);
    let two = groups.receiver(1, "two", &[]);
    let relay = groups.relay(0, 1, "relay");
    let options = ["image", "--require", "near,one,two", "--rate", "8"];
    let mut sender = groups.host.launch("source", &mut groups.sending(&options));
    until("data passes", || groups.told("one", "progress"));
    two.signal("KILL");
    assert_eq!(sender.wait(), 3, "{}", groups.host.read("source.err"));
    let account_of_first = account(&groups.host.read("source.out"));
    assert_eq!(failed(&account_of_first), ["relay/two"]);
    assert!(groups.received("one", "image") == bytes(6_000_000));

    fs::write(groups.path("image"), bytes(6_000_007)).unwrap();
    let _two = groups.receiver(1, "third", &[]);
    let options = [
        "image",
        "--require",
        "near,one,third",
        "--rate",
        "8",
        "--no-compare",
    ];
    let mut sender = groups.host.launch("again", &mut groups.sending(&options));
    until("data passes", || groups.told("third", "progress"));
    relay.signal("KILL");
    assert_eq!(sender.wait(), 3, "{}", groups.host.read("again.err"));
    let account = account(&groups.host.read("again.out"));
    assert_eq!(
        failed(&account),
        ["relay", "relay/one", "relay/third"],
        "{account}"
    );
    assert!(groups.received("near", "image") == bytes(6_000_007));

    // What has come is kept, and the next relay brings the rest.
    until("they know that it is gone", || {
        groups.told("one", "failed") && groups.told("third", "failed")
    });
    let _relay = groups.relay(0, 1, "heir");
    let sent = groups.send(&["image", "--require", "near,one,third"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(groups.received("third", "image") == bytes(6_000_007));
}

#[test]
fn what_a_relay_cannot_do_is_said_with_what_to_do() {
    let groups = Groups::new(2);
    let [from, to] = [&groups.addresses[0], &groups.addresses[1]];
    let run = |options: &[&str]| groups.host.run(&[&["relay"], options].concat());
    run(&["--from", from, "--to", from, "--insecure"])
        .fails_with(2, &["the same group", "multicast address of its own"]);
    run(&[
        "--from",
        from,
        "--to",
        to,
        "--insecure",
        "--from-interface",
        "nowhere0",
    ])
    .fails_with(2, &["nowhere0"]);
    run(&[
        "--from",
        from,
        "--to",
        to,
        "--insecure",
        "--to-key",
        "group.key",
    ])
    .fails_with(2, &["--to-key"]);
    run(&["--from", from, "--to", to]).fails_with(2, &["neither --key nor --insecure"]);
    run(&["--from", from, "--to", "10.0.0.1:77", "--insecure"]).fails_with(2, &["multicast"]);

    fs::write(groups.path("image"), bytes(1000)).unwrap();
    let _below = groups.receiver(1, "below", &[]);
    let _relay = groups.relay(0, 1, "relay");
    for (options, says) in [
        (&["--together"][..], "without --together"),
        (&["--protocol", "xtp"], "nak, ack, ring and tree"),
    ] {
        let all = [
            &["image", "--no-compare", "--wait", "3", "--require", "relay"],
            options,
        ]
        .concat();
        groups.send(&all).fails_with(3, &["relay: refused: ", says]);
    }
    // It takes the next one all the same.
    assert_eq!(groups.send(&["image", "--receivers", "1"]).code, 0);
}

#[test]
fn each_side_may_have_its_own_key() {
    let groups = Groups::new(2);
    assert_eq!(groups.host.run(&["keygen", "other.key"]).code, 0);
    fs::write(groups.path("image"), bytes(50_000)).unwrap();
    let mut command =
        groups
            .host
            .command(&["recv", "--json", "--out", "out-below", "--name", "below"]);
    command.args([
        "--group",
        &groups.addresses[1],
        "--interface",
        "lo",
        "--key",
        "other.key",
    ]);
    let _below = groups.host.launch("below", &mut command);
    groups.listens("below");
    let mut command = groups.host.command(&["relay", "--json", "--name", "relay"]);
    command.args(["--from", &groups.addresses[0], "--to", &groups.addresses[1]]);
    command.args(["--from-interface", "lo", "--to-interface", "lo"]);
    command.args(["--key", "group.key", "--to-key", "other.key"]);
    let _relay = groups.host.launch("relay", &mut command);
    groups.listens("relay");
    let sent = groups.send(&["image", "--receivers", "1"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(groups.received("below", "image") == bytes(50_000));
}

/// Before files are sent, receivers are asked what they hold, and a relay that cannot take part
/// says so then. Its user and the sender's heard of it only when the time for others to come was
/// over.
#[test]
fn what_a_relay_cannot_take_is_told_at_once_and_once() {
    let groups = Groups::new(2);
    fs::write(groups.path("image"), bytes(1000)).unwrap();
    let _below = groups.receiver(1, "below", &[]);
    let _relay = groups.relay(0, 1, "relay");
    let options = [
        "image",
        "--protocol",
        "xtp",
        "--require",
        "below",
        "--wait",
        "5",
    ];
    let mut sender = groups.host.launch("sender", &mut groups.sending(&options));
    until("both have told", || {
        groups.told("relay", "refused") && groups.told("sender", "settled")
    });
    assert!(sender.is_running());
    let early = groups.host.read("sender.out");
    assert!(!early.contains("absent"), "{early}");
    assert_eq!(sender.wait(), 3);
    let sender = groups.host.read("sender.out");
    assert_eq!(sender.matches("\"settled\"").count(), 2, "{sender}");
    assert_eq!(failed(&account(&sender)), ["below", "relay"]);
    let relay = groups.host.read("relay.out");
    assert_eq!(relay.matches("\"refused\"").count(), 1, "{relay}");
}
