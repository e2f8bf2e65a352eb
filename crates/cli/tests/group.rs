//! Three daemons on loopback, with subscribers and publishers: the binary as its users run it.
//!
//! Goal: one order everywhere, views that tell what happened, exit codes that scripts can rely on,
//! and histories that the checker finds clean. Method: real processes over real multicast on the
//! loopback interface.

use crate::host;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::host::{Host, Ran, exists, until};

const NAMES: [&str; 3] = ["one", "three", "two"];

/// The numbers from `from` to `to`, one a line.
fn lines(from: u32, to: u32) -> String {
    (from..=to)
        .map(|number| format!("line {number}\n"))
        .collect()
}

#[test]
fn three_daemons_have_one_order_and_survive_the_death_of_one() {
    let host = Host::new();
    host.run(&["keygen", "cluster.key"]);
    let key = ["--key", "cluster.key"];
    let mut one = host.daemon("one", &key);
    let mut two = host.daemon("two", &key);
    let mut three = host.daemon("three", &key);
    for name in NAMES {
        host.await_members(name, &NAMES);
    }
    let mut at_one = host.subscribe("sub1", "one", &[]);
    let mut at_two = host.subscribe("sub2", "two", &[]);
    let mut at_three = host.subscribe("sub3", "three", &["--once"]);
    let subscribers = ["sub1", "sub2", "sub3"];

    // From all sides at once: one order.
    let publishers: Vec<_> = NAMES
        .iter()
        .map(|daemon| {
            let file = host.write(&format!("{daemon}.txt"), lines(1, 1_000));
            let socket = host.socket(daemon);
            let mut command = host.command(&["pub", "room", "--socket", &socket, "--file", &file]);
            host.launch(&format!("pub-{daemon}"), &mut command)
        })
        .collect();
    for mut publisher in publishers {
        assert_eq!(publisher.wait(), 0);
    }
    for subscriber in subscribers {
        until(&format!("{subscriber} has all"), || {
            host.messages(subscriber).len() == 3_000
        });
    }
    let order = host.messages("sub1");
    assert!(order.is_sorted_by(|a, b| a.1 < b.1), "places increase");
    assert_eq!(host.messages("sub2"), order);
    assert_eq!(host.messages("sub3"), order);

    // What people and programs are told.
    let status = host.status("two").unwrap();
    assert_eq!(status["name"], "two");
    assert_eq!(status["state"], "operational");
    assert_eq!(status["secured"], true);
    assert!(
        status["counters"]["ring"]["packets_received"]
            .as_u64()
            .unwrap()
            > 0
    );
    let groups = host.run(&["groups", "--json", "--socket", &host.socket("one")]);
    assert_eq!(groups.stdout.lines().count(), 1);
    assert!(
        groups
            .stdout
            .contains("\"members\":[\"sub1@one\",\"sub2@two\",\"sub3@three\"]"),
        "{}",
        groups.stdout
    );
    let shown = host.run(&["status", "--socket", &host.socket("one")]);
    assert!(
        shown.stdout.contains("encrypted") && shown.stdout.contains("sub1@one"),
        "{}",
        shown.stdout
    );

    // One dies without a word: the others go on, and say so.
    three.child.kill().unwrap();
    assert_eq!(at_three.wait(), 1);
    assert!(
        host.read("sub3.err")
            .contains("the connection to the daemon has ended")
    );
    for name in ["one", "two"] {
        host.await_members(name, &["one", "two"]);
    }
    let file = host.write("more.txt", lines(1, 500));
    let more = host.run(&[
        "pub",
        "room",
        "--socket",
        &host.socket("two"),
        "--file",
        &file,
        "--json",
    ]);
    assert_eq!(more.code, 0, "{}", more.stderr);
    assert!(
        more.stdout
            .contains("\"event\":\"done\",\"sent\":500,\"accepted\":500"),
        "{}",
        more.stdout
    );
    for subscriber in ["sub1", "sub2"] {
        until(&format!("{subscriber} has the rest"), || {
            host.messages(subscriber).len() == 3_500
        });
        let views = host.read(&format!("{subscriber}.out"));
        assert!(views.contains("\"kind\":\"transitional\",\"cause\":\"network\""));
    }
    assert_eq!(host.messages("sub1"), host.messages("sub2"));

    // A new life of the dead one takes the place of its stale socket and goes on in its history.
    let mut three = host.daemon("three", &key);
    for name in NAMES {
        host.await_members(name, &NAMES);
    }

    assert_eq!(at_one.terminate(), 0);
    assert_eq!(at_two.terminate(), 0);
    for daemon in [&mut one, &mut two, &mut three] {
        assert_eq!(daemon.terminate(), 0);
    }
    assert!(
        !exists(&host.socket("one")),
        "the socket goes with its daemon"
    );
    let histories = NAMES.map(|name| format!("{name}.ndjson"));
    let verdict = host.run(&["check", &histories[0], &histories[1], &histories[2]]);
    assert_eq!(verdict.code, 0, "{}", verdict.stdout);
}

#[test]
fn a_daemon_guards_its_socket_and_its_name() {
    let host = Host::new();
    let mut first = host.daemon("first", &["--insecure"]);
    host.run(&[
        "daemon",
        "--insecure",
        "--name",
        "other",
        "--listen",
        "127.0.0.1:9",
        "--socket",
        &host.socket("first"),
    ])
    .fails_with(
        1,
        &["another daemon is alive", "first.sock", "--socket PATH"],
    );
    assert!(exists(&host.socket("first")));

    // The same name on the same network: the daemon that came later stops, and says why.
    let listen = format!("127.0.0.1:{}", host::free_port());
    let mut command = host.command(&[
        "daemon",
        "--insecure",
        "--name",
        "first",
        "--listen",
        &listen,
    ]);
    command.args([
        "--multicast",
        host.multicast(),
        "--socket",
        &host.path("second.sock"),
    ]);
    let mut second = host.launch("second", &mut command);
    assert_eq!(second.wait(), 1);
    let told = host.read("second.err");
    assert!(
        told.contains("the name `first` is in use") && told.contains("--name"),
        "{told}"
    );
    assert!(!exists(&host.path("second.sock")));
    assert!(first.is_running());
    assert_eq!(first.terminate(), 0);
}

#[test]
fn lines_are_messages_byte_for_byte() {
    let host = Host::new();
    let _daemon = host.daemon("d", &["--insecure"]);
    let socket = host.socket("d");
    let mut command = host.command(&["sub", "room", "--socket", &socket, "--count", "5"]);
    let mut subscriber = host.launch("plain", &mut command);
    until("the view is on stderr", || {
        host.read("plain.err").contains("view after join")
    });

    let mut publisher = host
        .command(&["pub", "room", "other", "--socket", &socket])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = publisher.stdin.take().unwrap();
    stdin.write_all(b"one\n\ncarriage\r\n").unwrap();
    // What is there is sent before the input ends.
    until("lines come out while more may follow", || {
        host.read("plain.out").len() >= 15
    });
    stdin.write_all("gr\u{fc}n\nno newline".as_bytes()).unwrap();
    drop(stdin);
    assert!(publisher.wait().unwrap().success());
    assert_eq!(subscriber.wait(), 0, "it ends after --count messages");
    assert_eq!(
        host.read("plain.out"),
        "one\n\ncarriage\r\ngr\u{fc}n\nno newline\n"
    );
}

#[test]
fn generated_messages_services_and_bytes_that_are_no_text() {
    let host = Host::new();
    let server = format!("127.0.0.1:{}", host::free_port());
    let _daemon = host.daemon("d", &["--insecure", "--client-listen", &server]);
    let _subscriber = host.subscribe("json", "d", &[]);
    for service in ["reliable", "fifo", "causal", "agreed", "safe", "unreliable"] {
        let sent = host.run(&[
            "pub",
            "room",
            "--server",
            &server,
            "--service",
            service,
            "--size",
            "3",
            "--count",
            "2",
        ]);
        assert_eq!(sent.code, 0, "{service}: {}", sent.stderr);
        let line = format!("\"service\":\"{service}\"");
        until(&line, || host.read("json.out").matches(&line).count() == 2);
    }
    let out = host.read("json.out");
    assert!(
        out.contains(
            "\"service\":\"unreliable\",\"config\":null,\"seq\":null,\"bytes\":3,\"text\":\"1..\""
        ),
        "{out}"
    );
    let file = host.write("whole", "two\nlines\n");
    let whole = [
        "pub", "room", "--server", &server, "--file", &file, "--whole",
    ];
    assert_eq!(host.run(&whole).code, 0);
    until("a file is one message", || {
        let out = host.read("json.out");
        out.contains("\"bytes\":10,\"text\":\"two\\nlines\\n\"")
    });
    let file = host.write("bytes", b"\xff\xfe\n");
    assert_eq!(
        host.run(&["pub", "room", "--server", &server, "--file", &file])
            .code,
        0
    );
    until("base64", || {
        host.read("json.out")
            .contains("\"bytes\":2,\"base64\":\"//4=\"")
    });
}

#[test]
fn a_subscriber_ends_quietly_when_its_reader_goes() {
    let host = Host::new();
    let _daemon = host.daemon("d", &["--insecure"]);
    let socket = host.socket("d");
    let mut subscriber = host
        .command(&["sub", "room", "--json", "--socket", &socket])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(subscriber.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("\"event\":\"view\""), "{line}");
    drop(reader);
    until("it ends", || subscriber.try_wait().unwrap().is_some());
    let ran = Ran::of(subscriber.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn a_publisher_whose_daemon_dies_says_what_was_accepted() {
    let host = Host::new();
    let mut daemon = host.daemon("d", &["--insecure"]);
    let socket = host.socket("d");
    let mut publisher = host
        .command(&["pub", "room", "--json", "--socket", &socket])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = publisher.stdin.take().unwrap();
    stdin.write_all(b"a\nb\nbegun").unwrap();
    until("both are delivered", || {
        let status = host.status("d").unwrap_or_default();
        status["counters"]["session"]["published"] == 2 && status["clients"][0]["unaccepted"] == 0
    });
    std::thread::sleep(Duration::from_millis(200));
    daemon.child.kill().unwrap();
    daemon.wait();
    let ran = Ran::of(publisher.wait_with_output().unwrap());
    drop(stdin);
    ran.fails_with(
        1,
        &[
            "connection to the daemon",
            "2 of 2 messages sent were accepted",
            "line 3 is the first",
        ],
    );
    assert!(ran.stdout.contains("\"event\":\"error\""), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("\"sent\":2,\"accepted\":2"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_publisher_that_is_interrupted_says_what_was_accepted() {
    let host = Host::new();
    let _daemon = host.daemon("d", &["--insecure"]);
    let mut command = host.command(&["pub", "room", "--json", "--socket", &host.socket("d")]);
    let mut publisher = host.launch("publisher", command.stdin(Stdio::piped()));
    let mut stdin = publisher.child.stdin.take().unwrap();
    stdin.write_all(b"a\nb\nc\n").unwrap();
    until("they are accepted", || {
        let status = host.status("d").unwrap_or_default();
        status["counters"]["session"]["published"] == 3 && status["clients"][0]["unaccepted"] == 0
    });
    publisher.signal("INT");
    assert_eq!(publisher.wait(), 1);
    drop(stdin);
    let told = host.read("publisher.err");
    assert!(
        told.contains("interrupted")
            && told.contains("3 of 3 messages sent were accepted: all that were read"),
        "{told}"
    );
    let out = host.read("publisher.out");
    assert!(
        out.contains("\"message\":\"interrupted\",\"sent\":3,\"accepted\":3"),
        "{out}"
    );
}

/// The name of the daemon's host gets another address, as after a host was replaced. The name is in
/// a file that only the subscriber has for `/etc/hosts`, where this host lets it have one.
#[test]
fn a_subscriber_looks_the_name_of_its_daemon_up_again() {
    let host = Host::new();
    let port = host::free_port();
    let hosts = host.write("hosts", "127.0.0.1 daemon.test\n");
    let other_hosts = format!("mount --bind '{hosts}' /etc/hosts && exec \"$@\"");
    let unshare = |command: &[&str]| {
        let mut unshared = Command::new("unshare");
        unshared
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                &other_hosts,
                "sh",
            ])
            .args(command)
            .stdin(Stdio::null());
        unshared
    };
    match unshare(&["true"]).output() {
        Ok(output) if output.status.success() => {}
        output => return eprintln!("skipped: {output:?}"),
    }
    let at = |address: &str| {
        let listen = format!("{address}:{port}");
        host.daemon("d", &["--insecure", "--client-listen", &listen])
    };
    let mut first = at("127.0.0.1");
    let server = format!("daemon.test:{port}");
    let mut command = unshare(&[env!("CARGO_BIN_EXE_groupcast"), "sub", "room", "--json"]);
    let mut subscriber = host.launch("sub", command.args(["--server", &server]));
    let views = || host.read("sub.out").matches("\"cause\":\"join\"").count();
    until("it is a member", || views() == 1);
    assert_eq!(first.terminate(), 0);
    host.write("hosts", "127.0.0.2 daemon.test\n");
    let _second = at("127.0.0.2");
    until("it is a member again", || views() == 2);
    assert_eq!(subscriber.terminate(), 0);
}

/// The line that has begun is no reason to keep those before it, nor to wait for the input alone.
#[test]
fn a_line_that_has_begun_holds_nothing_up() {
    let host = Host::new();
    let _daemon = host.daemon("d", &["--insecure"]);
    let mut command = host.command(&["pub", "room", "--json", "--socket", &host.socket("d")]);
    let mut publisher = host.launch("publisher", command.stdin(Stdio::piped()));
    let mut stdin = publisher.child.stdin.take().unwrap();
    stdin.write_all(b"a\nb\nbegun").unwrap();
    until("the whole lines are accepted", || {
        let status = host.status("d").unwrap_or_default();
        status["counters"]["session"]["published"] == 2 && status["clients"][0]["unaccepted"] == 0
    });
    publisher.signal("INT");
    assert_eq!(publisher.wait(), 1);
    drop(stdin);
    let told = host.read("publisher.err");
    assert!(
        told.contains("interrupted")
            && told.contains("2 of 2 messages sent were accepted; line 3 is the first"),
        "{told}"
    );
}

#[test]
fn a_subscriber_connects_again_and_views_stand_around_what_it_missed() {
    let host = Host::new();
    let mut first = host.daemon("d", &["--insecure"]);
    let socket = host.socket("d");
    let publish = |line: &str| {
        let file = host.write("line", line);
        let sent = host.run(&["pub", "room", "--file", &file, "--socket", &socket]);
        assert_eq!(sent.code, 0, "{}", sent.stderr);
    };
    let mut subscriber = host.subscribe("s", "d", &["--count", "2"]);
    let mut verbose = host.command(&["sub", "room", "-v", "--name", "v", "--socket", &socket]);
    let mut verbose = host.launch("v", &mut verbose);
    let mut once = host.command(&["sub", "room", "--once", "--name", "o", "--socket", &socket]);
    let mut once = host.launch("o", &mut once);
    until("all are members", || {
        host.read("s.out").contains("\"v@d\"") && host.read("s.out").contains("\"o@d\"")
    });
    publish("before");
    until("it came", || host.messages("s").len() == 1);
    first.child.kill().unwrap();
    first.wait();
    assert_eq!(once.wait(), 1);
    assert!(host.read("o.err").contains("subscribe again"));
    until("it is said", || {
        host.read("s.out").contains("\"disconnected\"")
    });
    let _second = host.daemon("d", &["--insecure"]);
    until("it is a member again", || {
        let out = host.read("s.out");
        out.split("\"reconnected\"")
            .nth(1)
            .is_some_and(|after| after.contains("\"view\""))
            && host.read("v.err").contains("connected again as v@d")
    });
    publish("after");
    assert_eq!(subscriber.wait(), 0);
    let out = host.read("s.out");
    let events: Vec<String> = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| match line["event"].as_str().unwrap() {
            "view" => format!(
                "{} {}",
                line["kind"].as_str().unwrap(),
                line["members"].as_array().unwrap().len()
            ),
            event => event.to_owned(),
        })
        .collect();
    let at = events.iter().position(|event| event == "message").unwrap();
    assert_eq!(
        events[at + 1..at + 4],
        ["transitional 1", "disconnected", "reconnected"]
    );
    assert!(events[at + 4].starts_with("regular"), "{events:?}");
    until("the other has both", || {
        host.read("v.out").lines().count() == 2
    });
    let seen = host.read("v.out");
    assert!(
        seen.starts_with("[room] c")
            && seen.contains("@d: before\n")
            && seen.contains("@d: after\n"),
        "{seen}"
    );
    assert_eq!(verbose.terminate(), 0);
}

#[test]
fn daemons_without_multicast_find_each_other_if_one_of_two_lists_the_other() {
    let host = Host::new();
    let addresses = [(); 3].map(|()| format!("127.0.0.1:{}", host::free_port_pair()));
    let start = |name: &str, listen: &str, peers: &[&str]| {
        let mut options = vec!["--insecure", "--listen", listen];
        options.extend(peers.iter().flat_map(|peer| ["--peer", *peer]));
        host.daemon_at(name, &options)
    };
    let [first, second, third] = [&addresses[0], &addresses[1], &addresses[2]].map(String::as_str);
    let _one = start("one", first, &[second]);
    let _two = start("two", second, &[first]);
    // No daemon lists the third, but it lists all, itself included: one list can serve all.
    let _three = start("three", third, &[first, second, third]);
    for name in NAMES {
        host.await_members(name, &NAMES);
    }
    let _subscriber = host.subscribe("sub", "three", &[]);
    let file = host.write("text", lines(1, 500));
    let sent = host.run(&[
        "pub",
        "room",
        "--socket",
        &host.socket("two"),
        "--file",
        &file,
    ]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    until("all is delivered", || host.messages("sub").len() == 500);
}

#[test]
fn strangers_at_the_clients_socket_do_no_harm() {
    let host = Host::new();
    let config = host.write("d.toml", "[clients]\nmax = 3\nhello_within = \"300 ms\"\n");
    let mut daemon = host.daemon("d", &["--insecure", "-c", &config]);
    let socket = host.socket("d");
    let connect = || UnixStream::connect(&socket).unwrap();

    let mut noise = connect();
    noise.write_all(&[0x5a; 1000]).unwrap();
    let mut huge = connect();
    // The right beginning, then a frame of 4 GiB.
    huge.write_all(b"gcst\xff\xff\xff\xff\x01").unwrap();
    let silent = connect();
    for mut stranger in [noise, huge, silent] {
        let mut rest = Vec::new();
        // They are told what is wrong, and the connection ends.
        stranger.read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(b"gcst") && rest.len() > 20, "{rest:?}");
    }

    let subscribers: Vec<_> = (0..3)
        .map(|number| host.subscribe(&format!("sub{number}"), "d", &[]))
        .collect();
    host.run(&["sub", "--once", "--socket", &socket, "room"])
        .fails_with(1, &["has 3 clients, as many as it takes"]);
    assert!(
        host.status("d").is_some(),
        "who runs the daemon is let in beside them"
    );
    drop(subscribers);
    let nothing = host.write("nothing", "");
    let publish = ["pub", "room", "--socket", &socket, "--file", &nothing];
    until("there is room again", || host.run(&publish).code == 0);
    assert_eq!(daemon.terminate(), 0);
    let log = host.read("d.err");
    assert!(log.contains("no hello came within"), "{log}");
}
