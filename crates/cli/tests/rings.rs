//! Further rings at three daemons on loopback: the binary as its users run it.
//!
//! Goal: groups at and below a ring's top are ordered there, whoever sends to them; a daemon is in
//! the ring only while its clients want something of it; all histories are clean, judged order by
//! order. Method: real processes over real multicast on the loopback interface, judged by events.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read what a command printed has failed"
)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::{Host, Running, free_port};

/// Waits for what takes a daemon's patience, on a machine that is busy.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "it never came about: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The daemon `name`, with the ring wb.cb at `multicast`.
fn daemon(host: &Host, name: &str, multicast: &str) -> Running {
    let text =
        format!("insecure = true\n[[rings]]\ntop = \"wb.cb\"\nmulticast = \"{multicast}\"\n");
    let file = host.write(&format!("{name}.toml"), text);
    host.daemon(name, &["-c", &file])
}

/// What the daemon says of its ring.
pub(crate) fn ring(host: &Host, daemon: &str) -> Value {
    let status = host.status(daemon).unwrap_or_default();
    status["rings"][0].clone()
}

/// The daemons that are in the ring's configuration, as one of them sees it.
pub(crate) fn members(host: &Host, daemon: &str) -> usize {
    let members = ring(host, daemon)["configuration"]["members"].clone();
    members.as_array().map_or(0, Vec::len)
}

pub(crate) fn subscribe(host: &Host, label: &str, daemon: &str, groups: &[&str]) -> Running {
    let mut command = host.command(&["sub", "--json", "--socket", &host.socket(daemon)]);
    let subscriber = host.launch(label, command.args(groups));
    eventually(&format!("{label} is a member"), || {
        let views = host.read(&format!("{label}.out"));
        views.matches("\"event\":\"view\"").count() >= groups.len()
    });
    subscriber
}

/// Publishes lines, and waits until they are accepted.
pub(crate) fn publish(host: &Host, daemon: &str, group: &str, lines: &str) {
    let file = host.write(&format!("{daemon}.{group}.txt"), lines);
    let ran = host.run(&[
        "pub",
        group,
        "--socket",
        &host.socket(daemon),
        "--file",
        &file,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// The lines of `label` with this text.
pub(crate) fn lines(host: &Host, label: &str, text: &str) -> Vec<Value> {
    let out = host.read(&format!("{label}.out"));
    let whole = out
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let read = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
    read.filter(|line| line["text"] == text).collect()
}

#[test]
fn groups_below_a_top_have_an_order_of_their_own_and_daemons_come_and_go() {
    let host = Host::new();
    let multicast = format!("239.192.79.76:{}", free_port());
    let names = ["one", "two", "three"];
    let mut daemons = names.map(|name| daemon(&host, name, &multicast));
    for name in names {
        host.await_members(name, &["one", "three", "two"]);
        assert_eq!(
            ring(&host, name)["stay"],
            "out",
            "nobody wants anything of it"
        );
        assert_eq!(ring(&host, name)["groups_state"], "idle");
    }
    let mut subscribers = [
        subscribe(&host, "at-one", "one", &["page1.wb.cb", "room"]),
        subscribe(&host, "at-two", "two", &["page1.wb.cb", "room"]),
    ];
    eventually("both are in the ring", || {
        members(&host, "one") == 2 && members(&host, "two") == 2
    });
    assert_eq!(ring(&host, "three")["stay"], "out");
    for (name, left_out) in [("one", json!([])), ("three", Value::Null)] {
        let ring = ring(&host, name);
        assert_eq!(
            (&ring["left_out"], &ring["trouble"]),
            (&left_out, &Value::Null)
        );
    }

    publish(&host, "one", "page1.wb.cb", "first\n");
    publish(&host, "three", "room", "outside\n");
    assert_eq!(
        ring(&host, "three")["stay"],
        "out",
        "the room is not the ring's"
    );
    // A daemon that is not in it sends to it, and is in it for that.
    publish(&host, "three", "page1.wb.cb", "second\n");
    for label in ["at-one", "at-two"] {
        eventually(&format!("{label} has all"), || {
            let all = ["first", "second", "outside"];
            all.iter().all(|text| lines(&host, label, text).len() == 1)
        });
        let [in_ring, outside] =
            ["second", "outside"].map(|text| lines(&host, label, text)[0].clone());
        assert_eq!(
            (&in_ring["ring"], &in_ring["order"]),
            (&"wb.cb".into(), &"rmp".into())
        );
        assert_eq!(
            (&outside["ring"], &outside["order"]),
            (&Value::Null, &"ring".into())
        );
        let places = ["first", "second"].map(|text| lines(&host, label, text)[0]["seq"].as_u64());
        assert!(places[0] < places[1]);
    }
    let [one, two] = ["at-one", "at-two"].map(|label| lines(&host, label, "second")[0].clone());
    assert_eq!((&one["config"], &one["seq"]), (&two["config"], &two["seq"]));
    let refused = host.run(&[
        "pub",
        "room",
        "page1.wb.cb",
        "--socket",
        &host.socket("one"),
        "--count",
        "1",
        "--size",
        "1",
    ]);
    refused.fails_with(1, &["two orders", "the ring \"wb.cb\""]);
    let groups = host
        .run(&["groups", "--json", "--socket", &host.socket("one")])
        .stdout;
    assert!(groups.contains("\"ring\":\"wb.cb\""), "{groups}");

    // It leaves when its clients want nothing any more, and comes back.
    eventually("three has left the ring", || {
        ring(&host, "three")["stay"] == "out"
    });
    eventually("the others know", || members(&host, "one") == 2);
    publish(&host, "three", "wb.cb", "again\n");
    // One dies without a word; the ring of the others goes on without it.
    daemons[1].signal("KILL");
    daemons[1].wait();
    eventually("two is gone from the ring", || {
        let members = ring(&host, "one")["configuration"]["members"].clone();
        let members = members.as_array().cloned().unwrap_or_default();
        !members.is_empty() && members.iter().all(|member| member["name"] != "two")
    });
    publish(&host, "one", "page1.wb.cb", "third\n");
    eventually("the third is there", || {
        lines(&host, "at-one", "third").len() == 1
    });

    subscribers[0].terminate();
    for daemon in [0, 2] {
        assert_eq!(daemons[daemon].terminate(), 0);
    }
    let files = names.map(|name| host.path(&format!("{name}.ndjson")));
    let of_ring = names.map(|name| host.path(&format!("{name}.wb.cb.ndjson")));
    let mut check = vec!["check"];
    check.extend(files.iter().chain(&of_ring).map(String::as_str));
    let verdict = host.run(&check);
    assert_eq!(verdict.code, 0, "{}{}", verdict.stdout, verdict.stderr);
    // A daemon's own history tells which rings it was in: theirs are missing.
    let mut own = vec!["check"];
    own.extend(files.iter().map(String::as_str));
    let without = host.run(&own);
    assert_eq!(without.code, 3, "{}{}", without.stdout, without.stderr);
    let missing = "in the ring \"wb.cb\": its history is missing";
    assert!(without.stdout.contains(missing), "{}", without.stdout);
    // A ring's histories are judged apart: without one of them, something is not judged.
    let without = host.run(&["check", &of_ring[0]]);
    assert_eq!(without.code, 3, "{}{}", without.stdout, without.stderr);
    assert!(
        without.stdout.contains("in the ring \"wb.cb\""),
        "{}",
        without.stdout
    );
}

/// The rings that joins have made, as a daemon says, with its stay in each.
fn made(host: &Host, daemon: &str) -> Vec<(String, String)> {
    let status = host.status(daemon).unwrap_or_default();
    let rings = status["rings"].as_array().cloned().unwrap_or_default();
    let text = |ring: &Value, key: &str| ring[key].as_str().unwrap_or_default().to_owned();
    let all = rings
        .iter()
        .map(|ring| (text(ring, "top"), text(ring, "stay")));
    all.collect()
}

/// Goal: a subscriber that asks for a ring gets one, clients of other daemons join it by name, a
/// daemon of it is killed, and with the last to leave it is gone at all daemons, its address given
/// back. Method: three daemons with one pool, judged by what they and the subscribers say.
#[test]
fn a_join_makes_a_ring_others_join_it_one_is_killed_and_the_last_gives_it_back() {
    let host = Host::new();
    let names = ["one", "two", "three"];
    let port = free_port();
    let text = format!(
        "insecure = true\nring_pool = {{ network = \"239.192.80.0/24\", port = {port} }}\n"
    );
    let mut daemons = names.map(|name| {
        let file = host.write(&format!("{name}.toml"), text.clone());
        host.daemon(name, &["-c", &file])
    });
    for name in names {
        host.await_members(name, &["one", "three", "two"]);
    }
    let subscribe_as = |label: &str, daemon: &str, group: &str, option: Option<&str>| {
        let mut command = host.command(&["sub", "--json", "--socket", &host.socket(daemon)]);
        command.args(option).arg(group);
        let subscriber = host.launch(label, &mut command);
        eventually(&format!("{label} is a member"), || {
            host.read(&format!("{label}.out"))
                .contains("\"event\":\"view\"")
        });
        subscriber
    };
    // The others' groups are in use, so a ring above them is refused.
    let _room = subscribe_as("room", "two", "room.other", None);
    let refused = host.run(&[
        "sub",
        "--ring",
        "other",
        "--once",
        "--socket",
        &host.socket("one"),
    ]);
    refused.fails_with(1, &["room.other", "the daemons' own order"]);

    let mut first = subscribe_as("first", "one", "wb.cb", Some("--ring"));
    let mut second = subscribe_as("second", "two", "page1.wb.cb", None);
    let third = subscribe_as("third", "three", "wb.cb", Some("--ring"));
    for name in names {
        eventually(&format!("{name} is in the ring"), || {
            made(&host, name) == [("wb.cb".to_owned(), "in".to_owned())]
        });
    }
    let multicast = |daemon: &str| ring(&host, daemon)["multicast"].clone();
    assert!(multicast("one").is_string() && multicast("one") == multicast("three"));
    assert_eq!(ring(&host, "one")["number"], ring(&host, "two")["number"]);

    publish(&host, "three", "wb.cb", "to the ring\n");
    publish(&host, "one", "page1.wb.cb", "below\n");
    for (label, text) in [
        ("first", "to the ring"),
        ("third", "to the ring"),
        ("second", "below"),
    ] {
        eventually(&format!("{label} has {text}"), || {
            lines(&host, label, text).len() == 1
        });
        assert_eq!(lines(&host, label, text)[0]["ring"], "wb.cb", "{label}");
    }

    daemons[2].signal("KILL");
    daemons[2].wait();
    drop(third);
    eventually("three is gone from the ring", || members(&host, "one") == 2);
    publish(&host, "two", "wb.cb", "without three\n");
    eventually("the first has it", || {
        lines(&host, "first", "without three").len() == 1
    });

    first.terminate();
    eventually("one has left the ring", || {
        made(&host, "one") == [("wb.cb".to_owned(), "out".to_owned())]
    });
    assert_eq!(made(&host, "two").len(), 1);
    second.terminate();
    for name in ["one", "two"] {
        eventually(&format!("{name} knows no ring any more"), || {
            made(&host, name).is_empty()
        });
    }
    // The name is free: without asking for a ring there is none.
    let _again = subscribe_as("again", "one", "wb.cb", None);
    assert!(made(&host, "one").is_empty());
    for daemon in &mut daemons[..2] {
        assert_eq!(daemon.terminate(), 0);
    }
    let mut check = vec!["check".to_owned()];
    for name in names {
        check.push(host.path(&format!("{name}.ndjson")));
        check.push(host.path(&format!("{name}.wb.cb.ndjson")));
    }
    let check: Vec<&str> = check.iter().map(String::as_str).collect();
    let verdict = host.run(&check);
    assert_eq!(verdict.code, 0, "{}{}", verdict.stdout, verdict.stderr);
}

/// Goal: a ring whose history cannot be written hangs nobody. Method: something else stands where
/// the history would be; what clients ask of the ring fails with the reason, `status` and the log
/// tell it, and when the file is gone the ring is joined.
#[test]
fn a_ring_whose_history_cannot_be_written_refuses_its_clients_until_it_can() {
    let host = Host::new();
    let multicast = format!("239.192.79.76:{}", free_port());
    let in_the_way = host.write("one.wb.cb.ndjson", "no history\n");
    let _daemon = daemon(&host, "one", &multicast);
    host.await_members("one", &["one"]);
    let socket = host.socket("one");
    let why = ["the ring \"wb.cb\"", "one.wb.cb.ndjson", "not a history"];
    let joined = host.run(&["sub", "page.wb.cb", "--once", "--socket", &socket]);
    joined.fails_with(1, &why);
    let lines = host.write("lines", "never ordered\n");
    let published = host.run(&["pub", "page.wb.cb", "--socket", &socket, "--file", &lines]);
    published.fails_with(1, &why);
    let told = host.run(&["status", "--socket", &socket]).stdout;
    assert!(told.contains("ring wb.cb cannot be joined"), "{told}");
    assert!(ring(&host, "one")["trouble"].is_string());
    assert!(host.read("one.err").contains("its clients are told so"));

    std::fs::remove_file(in_the_way).unwrap();
    let _subscriber = subscribe(&host, "at-one", "one", &["page.wb.cb"]);
    assert_eq!(ring(&host, "one")["trouble"], Value::Null);
}

/// Goal: rings may share an address and a port. Method: two daemons with two rings at one address;
/// both hear the datagrams of both, and each ring takes its own alone.
#[test]
fn rings_at_one_address_are_told_apart_by_their_labels() {
    let host = Host::new();
    let multicast = format!("239.192.79.77:{}", free_port());
    let ring_of = |top: &str| format!("[[rings]]\ntop = \"{top}\"\nmulticast = \"{multicast}\"\n");
    let text = format!("insecure = true\n{}{}", ring_of("a.cb"), ring_of("b.cb"));
    let names = ["one", "two"];
    let mut daemons = names.map(|name| {
        let file = host.write(&format!("{name}.toml"), &text);
        host.daemon(name, &["-c", &file])
    });
    for name in names {
        host.await_members(name, &names);
    }
    let groups = ["page.a.cb", "page.b.cb"];
    let subscribers = names.map(|name| subscribe(&host, &format!("at-{name}"), name, &groups));
    let rings = |name: &str| -> Vec<Value> {
        let status = host.status(name).unwrap_or_default();
        status["rings"].as_array().cloned().unwrap_or_default()
    };
    let members = |ring: &Value| {
        let members = ring["configuration"]["members"].as_array();
        members.map_or(0, Vec::len)
    };
    eventually("both are in both rings", || {
        let all = names.map(&rings).concat();
        all.len() == 4 && all.iter().all(|ring| members(ring) == 2)
    });
    for group in groups {
        publish(&host, "one", group, &format!("to {group}\n"));
    }
    for name in names {
        for (group, ring) in groups.iter().zip(["a.cb", "b.cb"]) {
            let (label, text) = (format!("at-{name}"), format!("to {group}"));
            eventually(&format!("{label} has {text}"), || {
                !lines(&host, &label, &text).is_empty()
            });
            let lines = lines(&host, &label, &text);
            assert_eq!(lines.len(), 1);
            assert_eq!(
                (&lines[0]["ring"], &lines[0]["group"]),
                (&ring.into(), &(*group).into())
            );
        }
        for ring in rings(name) {
            assert!(ring["foreign"].as_u64() > Some(0), "{ring}");
        }
    }
    drop(subscribers);
    for daemon in &mut daemons {
        assert_eq!(daemon.terminate(), 0);
    }
    let files = names
        .map(|name| ["", ".a.cb", ".b.cb"].map(|top| host.path(&format!("{name}{top}.ndjson"))));
    let files = files.concat();
    let mut check = vec!["check"];
    check.extend(files.iter().map(String::as_str));
    let verdict = host.run(&check);
    assert_eq!(verdict.code, 0, "{}{}", verdict.stdout, verdict.stderr);
}
