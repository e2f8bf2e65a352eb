//! The key is changed while three daemons are in rings under load: the binary as its users run it.
//!
//! Goal: no message of any ring is lost, nothing is sealed under a key that another daemon of the
//! ring does not open, and rings that are made, joined and left meanwhile come out under the new
//! key; who was away is told what to do. Method: a ring of the configuration and one that a join
//! has made, with publishers that go on until the change is done; judged by what daemons count and
//! by all histories, never by time.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read what a command printed has failed"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::host::{Host, Running, free_port};
use crate::rings::{eventually, publish};

/// Lines that a publisher publishes in one go.
const LINES: usize = 200;

/// The ring `top` of a daemon.
fn ring(host: &Host, daemon: &str, top: &str) -> Value {
    let status = host.status(daemon).unwrap_or_default();
    let rings = status["rings"].as_array().cloned().unwrap_or_default();
    let found = rings.into_iter().find(|ring| ring["top"] == top);
    found.unwrap_or_default()
}

fn members(host: &Host, daemon: &str, top: &str) -> usize {
    let members = ring(host, daemon, top)["configuration"]["members"].clone();
    members.as_array().map_or(0, Vec::len)
}

fn subscribe(host: &Host, label: &str, daemon: &str, arguments: &[&str]) -> Running {
    let mut command = host.command(&["sub", "--json", "--socket", &host.socket(daemon)]);
    let subscriber = host.launch(label, command.args(arguments));
    eventually(&format!("{label} is a member"), || {
        host.read(&format!("{label}.out"))
            .contains("\"event\":\"view\"")
    });
    subscriber
}

/// How many messages a subscriber has got whose text begins with `part`.
fn count(host: &Host, label: &str, part: &str) -> usize {
    let out = host.read(&format!("{label}.out"));
    out.matches(&format!("\"text\":\"{part}")).count()
}

/// Publishes to `group` in parts until it is asked to end; how many lines.
fn publish_until(host: &Host, daemon: &str, group: &str, end: &AtomicBool) -> usize {
    let mut published = 0;
    while !end.load(Ordering::Relaxed) {
        let lines = (published..published + LINES).map(|line| format!("load {line}\n"));
        publish(host, daemon, group, &lines.collect::<String>());
        published += LINES;
    }
    published
}

fn key(host: &Host, daemon: &str) -> Value {
    host.status(daemon).unwrap_or_default()["key"].clone()
}

/// Datagrams that a daemon could not open, in its own order and in the rings that it is in.
fn unopened(host: &Host, daemon: &str) -> u64 {
    let status = host.status(daemon).unwrap();
    let rings = status["rings"].as_array().cloned().unwrap_or_default();
    let nodes = rings.iter().map(|ring| &ring["node"]);
    let nodes = nodes.chain([&status["counters"]["node"]]);
    let count = |node: &Value, kind: &str| node[kind].as_u64().unwrap_or(0);
    nodes
        .map(|node| count(node, "other_cluster") + count(node, "forged"))
        .sum()
}

#[test]
fn the_key_is_changed_while_rings_are_made_joined_and_left_under_load() {
    let host = Host::new();
    for key in ["old.key", "new.key"] {
        assert_eq!(host.run(&["keygen", key]).code, 0);
    }
    let (port, pool) = (free_port(), free_port());
    let text = format!(
        "key = \"{}\"\nring_pool = {{ network = \"239.192.80.0/24\", port = {pool} }}\n\
         [[rings]]\ntop = \"fixed\"\nmulticast = \"239.192.79.76:{port}\"\n\
         [[rings]]\ntop = \"left\"\nmulticast = \"239.192.79.75:{port}\"\n",
        host.path("old.key")
    );
    let daemon = |name: &str| {
        let file = host.write(&format!("{name}.toml"), &text);
        host.daemon(name, &["-c", &file])
    };
    let names = ["one", "two", "three"];
    let mut daemons = names.map(daemon);
    for name in names {
        host.await_members(name, &["one", "three", "two"]);
    }
    let rekey = |name: &str| {
        let ran = host.run(&[
            "rekey",
            &host.path("new.key"),
            "--socket",
            &host.socket(name),
        ]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    let old = key(&host, "one")["fingerprint"].clone();

    // One and two are in two rings; three is in none but that which it will leave.
    let mut subscribers = vec![
        subscribe(&host, "made-one", "one", &["--ring", "made"]),
        subscribe(&host, "made-two", "two", &["page.made"]),
        subscribe(&host, "fixed-one", "one", &["page.fixed"]),
        subscribe(&host, "fixed-two", "two", &["page.fixed"]),
    ];
    publish(&host, "three", "room.left", "in and out\n");
    assert_eq!(ring(&host, "three", "made")["stay"], "out");

    let end = AtomicBool::new(false);
    let [fixed, made] = std::thread::scope(|scope| {
        let fixed = scope.spawn(|| publish_until(&host, "one", "page.fixed", &end));
        let made = scope.spawn(|| publish_until(&host, "two", "page.made", &end));
        // Publishers that go on end with a test that fails, too.
        let _ended = Ended(&end);

        rekey("one");
        rekey("two");
        eventually("the change waits for three", || {
            let change = key(&host, "two")["change"].clone();
            change["step"] == "known" && change["waits_for"] == serde_json::json!(["three"])
        });
        // Now a ring is made, two are joined, and one is left.
        subscribers.extend([
            subscribe(&host, "late-two", "two", &["--ring", "late"]),
            subscribe(&host, "late-one", "one", &["--ring", "late"]),
            subscribe(&host, "fixed-three", "three", &["page.fixed"]),
        ]);
        eventually("three has left a ring", || {
            ring(&host, "three", "left")["stay"] == "out"
        });
        publish(&host, "three", "page.made", "from three\n");
        rekey("three");
        for name in names {
            eventually(&format!("{name} has the new key alone"), || {
                let key = key(&host, name);
                key["fingerprint"] != old && key["change"].is_null()
            });
            eventually(&format!("{name} has dropped the old key"), || {
                host.read(&format!("{name}.err"))
                    .contains("the old one is dead")
            });
        }
        end.store(true, Ordering::Relaxed);
        [fixed, made].map(|publisher| publisher.join().unwrap())
    });

    // Rings that were there, were joined and were made go on, and one is joined only now.
    publish(&host, "three", "page.fixed", "after\n");
    publish(&host, "three", "page.made", "after\n");
    publish(&host, "three", "late", "after\n");
    for (label, load) in [
        ("fixed-one", fixed),
        ("fixed-two", fixed),
        ("made-two", made),
    ] {
        eventually(&format!("{label} has all"), || {
            count(&host, label, "load ") == load && count(&host, label, "after") == 1
        });
    }
    for label in ["fixed-three", "late-one", "late-two"] {
        eventually(&format!("{label} has what came after"), || {
            count(&host, label, "after") == 1
        });
    }
    assert_eq!(count(&host, "made-two", "from three"), 1);
    for name in names {
        assert_eq!(unopened(&host, name), 0, "{name}");
    }

    // A daemon that was away has the old key: it is alone in its rings, is told what to do, and
    // comes in by doing it.
    let mut away = daemon("away");
    subscribers.push(subscribe(&host, "fixed-away", "away", &["page.fixed"]));
    eventually("both sides say what to do", || {
        let told = "run `groupcast rekey NEWFILE` on its host";
        let named = "give it the new one: `groupcast rekey NEWFILE`";
        host.read("one.err").contains(told) && host.read("away.err").contains(named)
    });
    assert_eq!(members(&host, "away", "fixed"), 1);
    rekey("away");
    eventually("it is in the ring with the others", || {
        members(&host, "away", "fixed") == 4 && members(&host, "one", "fixed") == 4
    });
    publish(&host, "one", "page.fixed", "to all\n");
    eventually("it has what is published there", || {
        count(&host, "fixed-away", "to all") == 1
    });

    for subscriber in &mut subscribers {
        subscriber.terminate();
    }
    for daemon in daemons.iter_mut().chain([&mut away]) {
        assert_eq!(daemon.terminate(), 0);
    }
    let mut check = vec!["check".to_owned()];
    for name in ["one", "two", "three", "away"] {
        let of = |ring: &str| host.path(&format!("{name}.{ring}ndjson"));
        let all = ["", "fixed.", "left.", "made.", "late."].map(of);
        check.extend(all.into_iter().filter(|file| crate::host::exists(file)));
    }
    let check: Vec<&str> = check.iter().map(String::as_str).collect();
    let verdict = host.run(&check);
    assert_eq!(verdict.code, 0, "{}{}", verdict.stdout, verdict.stderr);
}

/// Ends what runs beside, however this scope is left.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
