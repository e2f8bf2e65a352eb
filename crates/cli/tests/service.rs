//! A daemon as a service: a log that cannot be written, signals, checks before the start, the wrong
//! key.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::host::{Host, free_port, until};

/// The options of a daemon on loopback, at `multicast`.
fn on_loopback(multicast: &str) -> Vec<String> {
    let listen = format!("127.0.0.1:{}", free_port());
    ["--listen", &listen, "--multicast", multicast]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn a_log_that_cannot_be_written_costs_its_lines_only() {
    let host = Host::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (name, stderr) in [("full", Some(full)), ("closed", None)] {
        let mut command = host.command(&["daemon", "--insecure", "--name", name]);
        command
            .args(["--socket", &host.socket(name)])
            .args(on_loopback(host.multicast()))
            .env("GROUPCAST_LOG", "trace")
            .stdout(Stdio::null())
            .stderr(stderr.map_or_else(Stdio::piped, Stdio::from));
        let mut daemon = command.spawn().unwrap();
        // The reading end of the pipe is closed, if there is one.
        drop(daemon.stderr.take());
        until(&format!("{name} answers"), || host.status(name).is_some());
        let published = host.run(&[
            "pub",
            "g",
            "--socket",
            &host.socket(name),
            "--count",
            "3",
            "--size",
            "10",
        ]);
        assert_eq!(published.code, 0, "{}", published.stderr);
        assert!(daemon.try_wait().unwrap().is_none(), "{name} runs");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut keygen = host.command(&["keygen", "some.key"]);
    assert!(keygen.stderr(full).status().unwrap().success());
}

#[test]
fn a_receiver_of_files_outlives_its_log() {
    let host = Host::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let group = host.multicast().to_owned();
    let mut receiver = host
        .command(&[
            "recv",
            "--out",
            &host.path("in"),
            "--insecure",
            "--group",
            &group,
        ])
        .args(["--interface", "127.0.0.1", "--name", "r", "--once"])
        .stdout(Stdio::null())
        .stderr(full)
        .spawn()
        .unwrap();
    let file = host.write("file", "what is sent");
    let sent = host.run(&[
        "send",
        &file,
        "--insecure",
        "--group",
        &group,
        "--interface",
        "127.0.0.1",
        "--require",
        "r",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    until("the receiver ends", || {
        receiver.try_wait().unwrap().is_some()
    });
    assert!(receiver.wait().unwrap().success());
    assert_eq!(host.read("in/file"), "what is sent");
}

#[test]
fn signals_read_the_configuration_and_report_the_status() {
    let host = Host::new();
    let listen = format!("127.0.0.1:{}", free_port());
    let file = |rest: &str| {
        let text = format!(
            "insecure = true\nlisten = \"{listen}\"\nmulticast = \"{}\"\n{rest}",
            host.multicast()
        );
        host.write("daemon.toml", text)
    };
    let path = file("");
    let mut daemon = host.daemon_at("a", &["--config", &path]);
    let logged = |part: &str| host.read("a.err").contains(part);

    daemon.signal("HUP");
    until("nothing is new", || {
        logged("the configuration is as it was")
    });
    file("ring.confirm_after = \"4 ms\"\n");
    daemon.signal("HUP");
    until("a key is new", || {
        logged("when the daemon starts again: ring.confirm_after")
    });
    file("ring.confirm_after = 4\n");
    daemon.signal("HUP");
    until("the file is wrong", || {
        logged("daemon.toml:4: ring.confirm_after: the number 4 where a duration belongs")
    });
    daemon.signal("USR1");
    until("the status is in the log", || {
        logged("status: {\"bimodal\"")
    });
    assert!(daemon.is_running() && host.status("a").is_some());
    assert_eq!(daemon.terminate(), 0);
    assert!(logged("left the group and stopped"));
}

#[test]
fn a_log_file_is_opened_again_and_limits_hold_at_once() {
    let host = Host::new();
    let listen = format!("127.0.0.1:{}", free_port());
    let file = |rest: &str| {
        let text = format!(
            "insecure = true\nlisten = \"{listen}\"\nmulticast = \"{}\"\nlog_file = \"a.log\"\n{rest}",
            host.multicast()
        );
        host.write("daemon.toml", text)
    };
    let path = file("");
    let mut daemon = host.daemon_at("a", &["--config", &path]);
    assert!(host.read("a.log").contains("groupcast 0"));
    assert_eq!(
        host.read("a.err"),
        "",
        "what goes to the file is not on stderr"
    );

    std::fs::rename(host.path("a.log"), host.path("old.log")).unwrap();
    file("log = \"debug\"\nring.confirm_after = \"4 ms\"\n[clients]\nmax = 2\n");
    daemon.signal("HUP");
    until("the new file has the outcome", || {
        let log = host.read("a.log");
        log.contains("SIGHUP: these hold from now on: log, clients.max")
            && log.contains("starts again: ring.confirm_after")
    });
    assert!(!host.read("old.log").contains("SIGHUP"));
    let socket = host.socket("a");
    let _first = host.subscribe("first", "a", &[]);
    let _second = host.subscribe("second", "a", &[]);
    assert!(
        host.read("a.log").contains("DEBUG"),
        "{}",
        host.read("a.log")
    );
    host.run(&["sub", "room", "--socket", &socket])
        .fails_with(1, &["2 clients"]);

    file("log = \"verbose\"\n");
    daemon.signal("HUP");
    until("a filter that is none changes nothing", || {
        host.read("a.log")
            .contains("daemon.toml:5: log: `verbose` is not a filter: `verbose` is no level")
    });
    file("[clients]\nmax = 3\n");
    daemon.signal("HUP");
    until("there is room for one more", || {
        host.run(&["status", "--socket", &socket]).code == 0
    });
    assert_eq!(daemon.terminate(), 0);

    let path = host.write("bad.toml", "insecure = true\nlog_file = \"no/a.log\"\n");
    host.run(&[
        "daemon",
        "--config",
        &path,
        "--socket",
        &host.path("b.sock"),
    ])
    .fails_with(1, &["cannot append log lines to", "no/a.log"]);
}

#[test]
fn a_configuration_is_checked_without_a_start() {
    let host = Host::new();
    assert_eq!(host.run(&["keygen", "cluster.key"]).code, 0);
    let path = host.write(
        "daemon.toml",
        "name = \"a\"\nkey = \"cluster.key\"\nlisten = \"127.0.0.1\"\n",
    );
    let checked = host.run(&["daemon", "--check", "--config", &path]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked
            .stdout
            .contains("valid: `a`, listening on 127.0.0.1:4810"),
        "{}",
        checked.stdout
    );
    let path = host.write("daemon.toml", "key = \"no.key\"\n");
    host.run(&["daemon", "--check", "-c", &path])
        .fails_with(1, &["no.key"]);
    for (text, code, said) in [
        ("spill_dir = \"no\"", 1, "`spill_dir`"),
        ("history = \"daemon.toml.key\"", 1, "not a history"),
        ("log_file = \"no/x\"", 1, "cannot append log lines"),
        (
            "client_listen = \"127.0.0.1:4811\"\nclient_token = \"no\"",
            1,
            "client_token: there is no token",
        ),
        ("metrics = 9812", 2, "for example \"9812\""),
    ] {
        host.write("daemon.toml.key", "no history");
        let path = host.write("daemon.toml", format!("insecure = true\n{text}\n"));
        host.run(&["daemon", "--check", "-c", &path])
            .fails_with(code, &[said]);
    }
    let path = host.write("daemon.toml", "insecure = true\nring.preset = \"wam\"\n");
    host.run(&["daemon", "--check", "-c", &path])
        .fails_with(2, &["there is no `wam`", "did you mean `wan`?"]);
}

#[test]
fn the_environment_names_the_socket_and_the_log() {
    let host = Host::new();
    let _daemon = host.daemon("a", &["--insecure"]);
    let mut status = host.command(&["status"]);
    let told = status
        .env("GROUPCAST_SOCKET", host.socket("a"))
        .output()
        .unwrap();
    assert!(told.status.success());
    let mut refused = host.command(&["daemon", "--insecure"]);
    let refused = refused.env("GROUPCAST_LOG", "json").output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`json` is no level"), "{stderr}");
    let help = host.run(&["daemon", "--help"]).stdout;
    for part in [
        "GROUPCAST_LOG",
        "GROUPCAST_SOCKET",
        "SIGHUP",
        "SIGUSR1",
        "--check",
    ] {
        assert!(help.contains(part), "{part} in {help}");
    }
}

#[test]
fn who_has_another_key_is_seen() {
    let host = Host::new();
    for key in ["one.key", "two.key"] {
        assert_eq!(host.run(&["keygen", key]).code, 0);
    }
    let key = |name: &str| host.path(name);
    let _one = host.daemon("one", &["--key", &key("one.key")]);
    let _two = host.daemon("two", &["--key", &key("two.key")]);
    until("one sees two", || {
        let status = host.status("one").unwrap_or_default();
        status["strangers"][0]["kind"] == "other_cluster"
            && status["strangers"][0]["last"]
                .as_str()
                .is_some_and(|it| it.starts_with("127.0.0.1:"))
    });
    let text = host
        .run(&["status", "--socket", &host.socket("one")])
        .stdout;
    assert!(
        text.contains("stranger") && text.contains("of another key, last from 127.0.0.1:"),
        "{text}"
    );

    let group = format!("239.192.79.78:{}", free_port());
    let receiver = [
        "recv",
        "--out",
        "in",
        "--group",
        &group,
        "--interface",
        "127.0.0.1",
        "--key",
    ];
    let mut receiver = host.command(&receiver);
    let _receiver = host.launch("recv", receiver.arg(key("one.key")));
    let file = host.write("file", "what is sent");
    let sent = host.run(&[
        "send",
        "--wait",
        "2",
        &file,
        "--group",
        &group,
        "--interface",
        "127.0.0.1",
        "--key",
        &key("two.key"),
    ]);
    assert_ne!(sent.code, 0, "nobody can read it");
    until("the receiver says why", || {
        host.read("recv.err").contains("it has another key")
    });
}
