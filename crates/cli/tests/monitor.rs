//! `groupcast monitor`: looks at a daemon, as lines and on a terminal.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemon has failed"
)]

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use crate::host::{Host, Running, until};
use crate::terminal::open_terminal;

#[test]
fn looks_are_lines_also_of_the_next_life_of_a_daemon() {
    let host = Host::new();
    let mut daemon = host.daemon("d", &["--insecure"]);
    host.await_members("d", &["d"]);
    let socket = host.socket("d");
    let counted = host.run(&[
        "monitor",
        "--socket",
        &socket,
        "--interval",
        "0.1",
        "--count",
        "2",
    ]);
    assert_eq!((counted.code, counted.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = counted.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("d up ") && lines[0].contains("1 daemon, 0 groups"));
    assert!(
        lines[1].contains("; messages 0/s in 0/s out, "),
        "{lines:?}"
    );

    let mut command = host.command(&["monitor", "--socket", &socket, "--interval", "0.1"]);
    let mut monitor = host.launch("monitor", &mut command);
    let count = || host.read("monitor.out").lines().count();
    until("it looks", || count() > 2);
    assert_eq!(daemon.terminate(), 0);
    until("it says why there is nothing to see", || {
        host.read("monitor.err").contains("no daemon listens on")
    });
    let seen = count();
    let next = host.daemon("d", &["--insecure"]);
    until("it looks at the next life", || count() > seen + 2);
    let told = host.read("monitor.err");
    assert!(
        told.lines().count() <= 3,
        "each reason is told once: {told}"
    );
    next.signal("STOP");
    // It waits for an answer now: two looks have had their time.
    std::thread::sleep(Duration::from_millis(500));
    let told = host.read("monitor.err").len();
    assert_eq!(monitor.terminate(), 0);
    let told = host.read("monitor.err").split_off(told);
    assert_eq!(told, "", "a daemon that hangs is not waited for");
    next.signal("CONT");
    for wrong in ["0", "-1", "nan", "x"] {
        host.run(&["monitor", "--interval", wrong])
            .fails_with(2, &["--interval", "from 0.1 to 86400"]);
    }
}

#[test]
fn on_a_terminal_a_look_replaces_the_one_before() {
    let host = Host::new();
    let _daemon = host.daemon("d", &["--insecure"]);
    host.await_members("d", &["d"]);
    let (ours, theirs) = open_terminal();
    let looks = ["--interval", "0.1", "--count", "3"];
    let mut command = host.command(&["monitor", "--socket", &host.socket("d")]);
    command
        .args(looks)
        .env("TERM", "xterm")
        .stdout(Stdio::from(theirs));
    let mut monitor = Running::of(command.spawn().unwrap(), "monitor");
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut ours, mut text) = (File::from(ours), Vec::new());
        let mut part = [0; 4096];
        // The last of the other side ends it, with an error.
        while let Ok(len @ 1..) = ours.read(&mut part) {
            text.extend_from_slice(&part[..len]);
        }
        String::from_utf8(text).unwrap()
    });
    assert_eq!(monitor.wait(), 0);
    let text = reader.join().unwrap();
    let looks: Vec<&str> = text
        .split("\x1b[H\x1b[Kdaemon    d, version ")
        .skip(1)
        .collect();
    assert_eq!(looks.len(), 3, "{text:?}");
    assert!(looks[0].contains("\x1b[Kmembers   1: d\r\n"), "{text:?}");
    assert!(!looks[0].contains("messages") && looks[2].contains("messages  0/s published"));
}
