//! Who may connect, with what, and what becomes of files that are none: tokens of TCP clients, odd
//! files as keys and configurations.

use std::process::Command;
use std::time::Instant;

use crate::host::{Host, free_port, until};

#[test]
fn a_tcp_client_needs_the_token_where_the_daemon_asks_for_it() {
    let host = Host::new();
    for key in ["client.token", "other.token"] {
        assert_eq!(host.run(&["keygen", key]).code, 0);
    }
    let address = format!("127.0.0.1:{}", free_port());
    let token = host.path("client.token");
    let mut daemon = host.daemon(
        "a",
        &[
            "--insecure",
            "--client-listen",
            &address,
            "--client-token",
            &token,
        ],
    );
    let status = ["status", "--server", &address];
    let with = |file: &str| host.run(&[&status[..], &["--token", &host.path(file)]].concat());
    host.run(&status)
        .fails_with(1, &["asks its TCP clients for a token", "--token"]);
    with("other.token").fails_with(1, &["another than this daemon's"]);
    assert_eq!(with("client.token").code, 0);
    assert!(host.status("a").is_some(), "the Unix socket needs none");
    Command::new("chmod")
        .args(["644", &token])
        .status()
        .unwrap();
    with("client.token").fails_with(1, &["open to other users", "chmod 600"]);
    let secret = host.read("client.token");
    let secret = secret.lines().last().unwrap();
    assert_eq!(daemon.terminate(), 0);
    let log = host.read("a.err");
    assert!(log.contains("with the token of client_token"), "{log}");
    assert!(!log.contains(secret) && !log.contains("every user of this host"));
}

#[test]
fn without_a_token_the_log_says_who_may_connect() {
    let host = Host::new();
    let address = format!("127.0.0.1:{}", free_port());
    let _daemon = host.daemon("a", &["--insecure", "--client-listen", &address]);
    assert_eq!(host.run(&["status", "--server", &address]).code, 0);
    let log = host.read("a.err");
    assert!(
        log.contains("every user of this host can be a client") && log.contains("client_token"),
        "{log}"
    );
}

#[test]
fn files_that_are_none_are_refused_at_once() {
    let host = Host::new();
    let pipe = host.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for odd in [pipe.as_str(), "/dev/zero", &host.path(".")] {
        let regular = &["regular file"];
        host.run(&["daemon", "--check", "--key", odd])
            .fails_with(1, regular);
        host.run(&["daemon", "--check", "-c", odd])
            .fails_with(2, regular);
    }
    let long = host.write("long.toml", "#".repeat(2 << 20));
    host.run(&["daemon", "--check", "-c", &long])
        .fails_with(2, &["longer than any configuration"]);
    let text = "insecure = true\nclient_token = \"t\"\n";
    let path = host.write("daemon.toml", text);
    host.run(&["daemon", "--check", "-c", &path])
        .fails_with(2, &["client_token", "client_listen"]);
}

/// Only root can give a file away, so only root can try.
#[test]
fn a_key_and_a_token_of_another_user_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::new();
    for key in ["cluster.key", "client.token"] {
        assert_eq!(host.run(&["keygen", key]).code, 0);
    }
    let (key, token) = (host.path("cluster.key"), host.path("client.token"));
    let listen = format!("127.0.0.1:{}", free_port());
    let check = || {
        let all = [
            "daemon",
            "--check",
            "--listen",
            "127.0.0.1",
            "--key",
            &key,
            "--client-listen",
            &listen,
            "--client-token",
            &token,
            "--socket",
            &host.socket("a"),
        ];
        host.run(&all)
    };
    assert_eq!(check().code, 0, "{}", check().stderr);
    for file in [&key, &token] {
        let give = |user| std::os::unix::fs::chown(file, Some(user), None).unwrap();
        give(12_345);
        check().fails_with(1, &[file, "belongs to user 12345", "chown"]);
        let start = ["daemon", "--listen", "127.0.0.1", "--key", &key];
        if file == &key {
            let socket = ["--socket", &host.socket("a")];
            host.run(&[&start[..], &socket].concat())
                .fails_with(1, &["belongs to user 12345"]);
        }
        give(0);
    }
}

#[test]
fn a_new_key_is_not_the_token_and_its_path_writes_no_line_of_the_log() {
    let host = Host::new();
    for key in ["old.key", "client.token"] {
        assert_eq!(host.run(&["keygen", key]).code, 0);
    }
    let (key, token) = (host.path("old.key"), host.path("client.token"));
    let listen = format!("127.0.0.1:{}", free_port());
    let _daemon = host.daemon(
        "a",
        &[
            "--key",
            &key,
            "--client-listen",
            &listen,
            "--client-token",
            &token,
        ],
    );
    let socket = host.socket("a");
    let rekey = |path: &str| host.run(&["rekey", path, "--socket", &socket]);
    rekey(&token).fails_with(1, &["token of clients"]);
    let began = Instant::now();
    for _ in 0..120 {
        assert_eq!(rekey("/none\nFORGED line").code, 1);
    }
    let log = host.read("a.err");
    assert!(log.contains("none\\nFORGED"), "{log}");
    assert!(!log.contains("\nFORGED"), "{log}");
    let lines = log.matches("the key is not changed").count();
    // 50 in each span of 10 s, of which two may have begun at once.
    let spans = began.elapsed().as_secs() as usize / 10 + 2;
    assert!(lines <= 50 * spans, "{lines} lines in {spans} spans");
}

/// What `groupcast status` says of a daemon's key.
fn key(host: &Host, daemon: &str) -> serde_json::Value {
    host.status(daemon).unwrap_or_default()["key"].clone()
}

#[test]
fn the_key_is_changed_while_the_daemons_run() {
    let host = Host::new();
    for key in ["old.key", "new.key", "third.key"] {
        assert_eq!(host.run(&["keygen", key]).code, 0);
    }
    let old = host.path("old.key");
    let names = ["a", "b", "c"];
    let mut daemons = names.map(|name| host.daemon(name, &["--key", &old]));
    host.await_members("a", &names);
    let before = key(&host, "a")["fingerprint"].clone();
    let rekey = |name: &str, file: &str| {
        host.run(&["rekey", &host.path(file), "--socket", &host.socket(name)])
    };
    let first = rekey("a", "new.key");
    assert_eq!(first.code, 0, "{}", first.stderr);
    let others = ["not yet to b, c:", "not yet to c, b:"];
    let named = others.iter().any(|others| first.stdout.contains(others));
    assert!(named, "{}", first.stdout);
    until("b has heard of it", || {
        key(&host, "b")["change"].is_object()
    });
    rekey("b", "third.key").fails_with(1, &["a change to another key", "is under way"]);
    rekey("a", "third.key").fails_with(1, &["is under way"]);
    rekey("b", "none.key").fails_with(1, &["none.key"]);
    assert!(host.read("b.err").contains("groupcast rekey NEWFILE"));
    assert_eq!(rekey("b", "new.key").code, 0);
    assert_eq!(rekey("c", "new.key").code, 0);
    for name in names {
        until(&format!("{name} has the new key alone"), || {
            let key = key(&host, name);
            key["fingerprint"] != before && key["change"].is_null()
        });
        assert!(
            host.read(&format!("{name}.err"))
                .contains("the old one is dead")
        );
    }
    rekey("a", "new.key").fails_with(1, &["uses that key already"]);
    let told = host.run(&["status", "--socket", &host.socket("a")]);
    assert_eq!(told.code, 0, "{}", told.stderr);

    // A daemon that was away with the old key is told what to do, and comes back by doing it.
    assert_eq!(daemons[2].terminate(), 0);
    let _away = host.daemon("c", &["--key", &old]);
    until("both sides say what to do", || {
        host.read("a.err")
            .contains("run `groupcast rekey NEWFILE` on its host")
            && host
                .read("c.err")
                .contains("give it the new one: `groupcast rekey NEWFILE`")
    });
    assert_eq!(rekey("c", "new.key").code, 0);
    host.await_members("a", &names);
}

#[test]
fn rules_say_who_may_join_publish_and_change_the_key() {
    let host = Host::new();
    assert_eq!(host.run(&["keygen", "new.key"]).code, 0);
    let listen = format!("127.0.0.1:{}", free_port());
    let file = |user: &str| {
        let text = format!(
            "insecure = true\nlisten = \"{listen}\"\nmulticast = \"{}\"\n\
             [[access]]\ngroups = [\"ops/*\"]\nusers = [{user}]\nrights = [\"join\", \"send\"]\n\
             [[access]]\nusers = [{user}]\nrights = [\"rekey\"]\n",
            host.multicast()
        );
        host.write("daemon.toml", text)
    };
    let path = file("4000000000");
    let daemon = host.daemon_at("a", &["--config", &path]);
    let socket = host.socket("a");
    let publish = |group: &str| {
        host.run(&[
            "pub", group, "--socket", &socket, "--count", "1", "--size", "9",
        ])
    };
    assert_eq!(publish("chat").code, 0);
    let rules = &["access rules do not let"];
    publish("ops/alerts").fails_with(1, rules);
    let sub = [
        "sub",
        "ops/alerts",
        "--once",
        "--count",
        "1",
        "--socket",
        &socket,
    ];
    host.run(&sub).fails_with(1, rules);
    let rekey = ["rekey", &host.path("new.key"), "--socket", &socket];
    host.run(&rekey).fails_with(1, rules);

    let own = Command::new("id").arg("-u").output().unwrap().stdout;
    file(String::from_utf8(own).unwrap().trim());
    daemon.signal("HUP");
    until("the rules hold", || publish("ops/alerts").code == 0);
    host.run(&rekey).fails_with(1, &["runs without a key"]);
    let wrong = host.write(
        "wrong.toml",
        "insecure = true\n[[access]]\nrights = [\"jion\"]\n",
    );
    host.run(&["daemon", "--check", "-c", &wrong])
        .fails_with(2, &["`jion` is no right", "did you mean `join`?"]);
}
