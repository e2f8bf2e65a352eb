//! `request` and `answer` between processes on loopback, as their users run them.
//!
//! Goal: every member's reply comes once and whole with its exit code, everybody is accounted for
//! by name and by exit code, and no command outlives its request. Method: real processes, real
//! multicast on the loopback interface, commands that print, fail, sleep and say too much.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::host::{Host, Ran, Running, exists, free_port, until};
use serde_json::Value;

/// Members that answer in one group on loopback.
struct Members {
    host: Host,
    address: String,
}

impl Members {
    fn new() -> Self {
        let host = Host::new();
        assert_eq!(host.run(&["keygen", "group.key"]).code, 0);
        let address = format!("239.192.79.79:{}", free_port());
        Self { host, address }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.command(arguments);
        command
            .args(["--group", &self.address, "--interface", "127.0.0.1"])
            .args(["--key", "group.key"]);
        command
    }

    /// Starts a member called `name` with these options, and waits until it listens.
    fn member(&self, name: &str, options: &[&str]) -> Running {
        let mut command = self.command(&["answer", "--name", name, "--json"]);
        let member = self.host.launch(name, command.args(options));
        until(&format!("{name} listens"), || self.told(name, "listening"));
        member
    }

    /// A member that runs a line of a shell.
    fn shell(&self, name: &str, line: &str) -> Running {
        self.member(name, &["--exec", "sh", "-c", line])
    }

    /// Whether a member has told of such an event.
    fn told(&self, name: &str, event: &str) -> bool {
        self.host.read(&format!("{name}.out")).contains(event)
    }

    /// Asks `question` with these options.
    fn ask(&self, question: &[u8], options: &[&str]) -> Ran {
        let mut command = self.command(&["request", "--name", "console"]);
        command
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut requester = command.spawn().unwrap();
        // One that refuses its options reads nothing.
        let _ = requester.stdin.take().unwrap().write_all(question);
        Ran::of(requester.wait_with_output().unwrap())
    }
}

/// The objects that a requester has printed: replies by member, and the account.
fn lines(ran: &Ran) -> (Vec<Value>, Value) {
    let lines = ran.stdout.lines();
    let lines = lines.map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let account = lines.pop().unwrap();
    assert_eq!(account["event"], "done", "{}", ran.stderr);
    lines.sort_by_key(|line| line["member"].to_string());
    (lines, account)
}

#[test]
fn every_member_replies_what_its_command_prints_with_its_exit_code() {
    let members = Members::new();
    let _one = members.shell("one", "tr a-z A-Z");
    let _two = members.shell("two", "cat > /dev/null");
    let all = members.ask(b"who\nis there", &["-", "--max", "2"]);
    let mut printed: Vec<&str> = all.stdout.lines().collect();
    printed.sort_unstable();
    assert_eq!(printed, ["one: WHO\\nIS THERE", "two: "]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    assert!(all.stderr.starts_with("2 replies in "), "{}", all.stderr);

    for options in [&["--max", "2"][..], &["--max", "2", "--json"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut lost = members.command(&["request", "--name", "console"]);
        let lost = lost.args(options).stdin(Stdio::null()).stdout(full);
        assert_eq!(lost.status().unwrap().code(), Some(1), "{options:?}");
    }

    let line = "head -c 65536 /dev/zero; exit 4";
    let _three = members.shell("three", line);
    let all = members.ask(b"", &["--max", "3", "--json", "--deliver-to", "0"]);
    assert_eq!(all.code, 3, "{}", all.stderr);
    assert!(all.stderr.contains("2 of 3") && all.stderr.contains("three: exit code 4"));
    let (replies, account) = lines(&all);
    let names: Vec<&Value> = replies.iter().map(|reply| &reply["member"]).collect();
    assert_eq!(names, ["one", "three", "two"]);
    assert_eq!(
        (&replies[1]["exit_code"], &replies[1]["bytes"]),
        (&4.into(), &65_536.into())
    );
    assert_eq!(replies[1]["text"].as_str().unwrap().len(), 65_536);
    assert_eq!(
        (&account["replies"], &account["failed"]),
        (&3.into(), &Vec::<Value>::new().into())
    );
    let nonzero = serde_json::json!([{"member": "three", "exit_code": 4}]);
    assert_eq!(account["nonzero"], nonzero, "code 3 is for this one");
    until("the member knows", || members.told("three", "\"replied\""));
}

#[test]
fn members_that_multicasts_do_not_reach_reply_to_the_same_request() {
    let members = Members::new();
    let near = members.shell("near", "cat");
    let listening = |name: &str, line: &str| {
        let place = format!("127.0.0.1:{}", free_port());
        let mut command = members.host.command(&["answer", "--name", name, "--json"]);
        command
            .args(["--group", &members.address, "--key", "group.key"])
            .args(["--listen", &place, "--exec", "sh", "-c", line]);
        let member = members.host.launch(name, &mut command);
        until(&format!("{name} listens"), || {
            members.told(name, "listening")
        });
        (member, place)
    };
    let (_far, far) = listening("far", "cat > /dev/null; head -c 65536 /dev/zero; exit 4");
    let (_other, _) = listening("other", "cat");
    // A request of several packets; the loopback interface has names for the address, too.
    let question = vec![b'q'; 5_000];
    let named = far.replace("127.0.0.1", "localhost");
    let both = members.ask(&question, &["--peer", &named, "--max", "2", "--json"]);
    assert_eq!(both.code, 3, "{}", both.stderr);
    let (replies, account) = lines(&both);
    let of = |index: usize| (&replies[index]["member"], &replies[index]["bytes"]);
    assert_eq!(of(0), (&"far".into(), &65_536.into()));
    assert_eq!(of(1), (&"near".into(), &5_000.into()));
    assert_eq!(account["failed"], Value::from(Vec::<Value>::new()));
    assert!(!members.told("other", "begun"), "nobody named it");
    until("it knows", || members.told("far", "\"replied\""));

    // With an address that never answers.
    let nobody = format!("127.0.0.1:{}", free_port());
    let absent = format!("{nobody}: never came");
    let peers = format!("{far},{nobody}");
    let ran = members.ask(b"", &["--peer", &peers, "--json"]);
    ran.fails_with(3, &["1 of 3 members", &absent, "answer --listen"]);
    let (_, account) = lines(&members.ask(b"", &["--peer", &peers, "--json"]));
    let failed = serde_json::json!([{"member": nobody, "problem": "never came"}]);
    assert_eq!(
        (&account["failed"], &account["replies"]),
        (&failed, &2.into())
    );
    drop(near);
    let alone = members.ask(b"", &["--peer", &nobody, "--wait", "0.5"]);
    alone.fails_with(1, &["nobody is there to reply", &absent, "answer --listen"]);
    members
        .ask(b"", &["--peer", "239.192.79.1:4820"])
        .fails_with(2, &["is not one host"]);
    let mut both = members.command(&["answer", "--listen", "lo", "--exec", "true"]);
    Ran::of(both.output().unwrap()).fails_with(2, &["--listen"]);
}

#[test]
fn only_members_in_the_subgroups_are_asked() {
    let members = Members::new();
    let one = ["--subgroup", "0,3", "--exec", "echo", "one"];
    let two = ["--subgroup", "1", "--exec", "echo", "two"];
    let _one = members.member("one", &one);
    let _two = members.member("two", &two);
    let some = members.ask(b"", &["--subgroup", "2-9", "--max", "1"]);
    assert_eq!((&some.stdout[..], some.code), ("one: one\n", 0));
    let all = members.ask(b"", &["--subgroup", "1,3", "--max", "2"]);
    assert_eq!((all.stdout.lines().count(), all.code), (2, 0));
    members
        .ask(b"", &["--subgroup", "4-63", "--wait", "0.5"])
        .fails_with(1, &["nobody in the subgroups 4-63", "--subgroup"]);
    members
        .ask(b"", &["--subgroup", "8-3"])
        .fails_with(2, &["0,3,8-11"]);
}

#[test]
fn below_the_least_nobody_is_asked_and_a_request_that_makes_no_sense_is_refused() {
    let members = Members::new();
    let ran = members.host.path("ran");
    members
        .ask(b"", &["--wait", "0.3"])
        .fails_with(1, &["nobody is there", "groupcast answer"]);
    let _one = members.member("one", &["--exec", "touch", &ran]);
    members
        .ask(b"", &["--min", "2", "--wait", "0.5"])
        .fails_with(1, &["only 1 member came: nobody was asked", "--min"]);
    assert!(!exists(&ran) && !members.told("one", "begun"));
    members
        .ask(b"", &["--min", "3", "--max", "2"])
        .fails_with(2, &["--min 3"]);
    members
        .ask(&vec![0; (1 << 20) + 1], &[])
        .fails_with(2, &["1048576 bytes"]);
    members
        .ask(b"", &["missing"])
        .fails_with(1, &["cannot read missing"]);
    let mut nothing = members.command(&["answer"]);
    Ran::of(nothing.output().unwrap()).fails_with(2, &["--exec"]);
    // A receiver of files takes no notice of requests.
    let mut receiver = members.command(&["recv", "--out", "files"]);
    let _receiver = members.host.launch("receiver", &mut receiver);
    until("it listens", || {
        members.host.read("receiver.err").contains("ready")
    });
    assert_eq!(members.ask(b"", &[]).code, 0);
    assert!(exists(&ran));
    assert!(!members.host.read("receiver.err").contains("refused"));
}

/// Whether the process of this number is a `sleep` that runs: its number may soon be another's, and
/// one that has ended may wait for its parent.
fn sleeps(number: &str) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", number.trim()));
    line.is_ok_and(|line| line.starts_with(b"sleep\0"))
}

#[test]
fn a_command_ends_with_its_request_and_everything_that_it_has_started() {
    let members = Members::new();
    let (child, late) = (members.host.path("child"), members.host.path("late"));
    let line = format!("sleep 60 & echo $! > {child}; wait; touch {late}");
    let mut slow = members.shell("slow", &line);
    let _quick = members.shell("quick", "echo here; sleep 60 & exit 0");
    let begun = Instant::now();
    let some = members.ask(b"", &["--max", "2", "--timeout", "2", "--json"]);
    assert!(begun.elapsed() < Duration::from_secs(50));
    some.fails_with(3, &["1 of 2", "slow: no reply in time"]);
    let (replies, account) = lines(&some);
    assert_eq!((replies.len(), &replies[0]["text"]), (1, &"here\n".into()));
    assert_eq!(account["failed"][0]["member"], "slow");
    assert_eq!(account["timed_out"], true);
    let child = members.host.read("child");
    until("what it has started is ended", || !sleeps(&child));
    until("the member tells", || {
        members.told("slow", "its time is over")
    });
    assert!(!exists(&late));

    // A member that is stopped ends its commands, too, and its requester is told.
    let asked = members.command(&["request", "--max", "2", "--name", "console"]);
    let mut asked = asked;
    let mut asked = members.host.launch("asked", asked.stdin(Stdio::null()));
    until("it is asked again", || {
        let begun = members.host.read("slow.out");
        begun.matches("begun").count() == 2
    });
    until("its command runs", || sleeps(&members.host.read("child")));
    let child = members.host.read("child");
    assert_eq!(slow.terminate(), 0);
    assert_eq!(asked.wait(), 3);
    let said = members.host.read("asked.err");
    assert!(
        said.contains("slow: failed: the member was stopped"),
        "{said}"
    );
    until("what it has started is ended", || !sleeps(&child));
}

#[test]
fn what_a_command_gets_and_gives_is_bounded() {
    let members = Members::new();
    let _one = members.member("env", &["--exec", "env"]);
    let _two = members.member("much", &["--exec", "cat", "/dev/zero"]);
    let _three = members.member("no-such", &["--exec", "/no/such/program"]);
    let _four = members.shell("signal", "kill -9 $$");
    let all = members.ask(b"$(touch shell) `touch shell`", &["--max", "4", "--json"]);
    all.fails_with(
        3,
        &[
            "much: failed: its command printed more than 262144 bytes",
            "no-such: failed: its command does not start",
            "signal: failed: its command was ended by signal 9",
        ],
    );
    let (replies, _) = lines(&all);
    let environment = replies[0]["text"].as_str().unwrap();
    let known = [
        "PATH=", "HOME=", "USER=", "LANG=", "LC_ALL=", "TZ=", "TMPDIR=",
    ];
    let is_known = |line: &str| known.iter().any(|name| line.starts_with(name));
    assert!(environment.lines().all(is_known), "{environment}");
    assert!(!exists(&members.host.path("shell")));
}

#[test]
fn a_member_runs_so_many_commands_at_once_and_refuses_what_waits_too_long() {
    let members = Members::new();
    let line = "cat > /dev/null; sleep 1; echo done";
    let _one = members.member("one", &["--at-once", "1", "--exec", "sh", "-c", line]);
    let asked: Vec<Running> = (0..8)
        .map(|number| {
            let name = format!("asker-{number}");
            let mut command = members.command(&["request", "--max", "1", "--name", &name]);
            members.host.launch(&name, command.stdin(Stdio::null()))
        })
        .collect();
    let mut codes: Vec<i32> = asked.into_iter().map(|mut it| it.wait()).collect();
    codes.sort_unstable();
    // One runs and four wait; the others are turned away, or nobody is there for them.
    assert_eq!(codes[..5], [0; 5], "{codes:?}");
    assert!(
        codes[5..].iter().all(|code| [1, 3].contains(code)),
        "{codes:?}"
    );
}

#[test]
fn with_deliver_to_no_command_runs_before_all_hold_the_request() {
    let members = Members::new();
    let ran = members.host.path("ran");
    let _one = members.member("one", &["--exec", "touch", &ran]);
    for (options, runs) in [(&["--deliver-to", "0"][..], false), (&[][..], true)] {
        let two = members.member("two", &["--exec", "true"]);
        let mut request = members.command(&["request", "--name", "console", "--timeout", "6"]);
        // Both are there, and until the end of the wait a third may come.
        request.args(["--min", "2", "--max", "3", "--wait", "3"]);
        let mut request = members
            .host
            .launch("console", request.args(options).stdin(Stdio::null()));
        thread::sleep(Duration::from_millis(1_500));
        two.signal("STOP");
        assert_eq!(request.wait(), 3);
        let said = members.host.read("console.err");
        assert!(said.contains("two: "), "{said}");
        assert_eq!(exists(&ran), runs, "{options:?}: {said}");
    }
}
