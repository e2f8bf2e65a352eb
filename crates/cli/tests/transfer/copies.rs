//! Receivers that multicasts do not reach: each gets a copy.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::{Group, noise};
use crate::host::{Ran, Running, free_port, until};

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
