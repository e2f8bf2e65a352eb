//! Output that is lost, or that nobody reads any more.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::fs::{self, File};
use std::io::Read as _;

use serde_json::Value;

use crate::host::{Host, Running, until};
use crate::transfer::Group;

#[test]
fn the_status_has_the_exit_code_also_where_the_account_is_lost() {
    let group = Group::new();
    fs::write(group.path("file"), vec![7; 10_000]).unwrap();
    let _receiver = group.receiver("there", &[]);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (required, code) in [("there", 1), ("there,absent", 3)] {
        let mut command = group.command(&["send", "file", "--json", "--wait", "2"]);
        command.args(["--require", required, "--status", "status"]);
        let sent = command.stdout(full()).status().unwrap();
        assert_eq!(sent.code(), Some(code));
        let status: Value = serde_json::from_str(&group.host.read("status")).unwrap();
        assert_eq!(
            (&status["state"], &status["exit_code"]),
            (&"done".into(), &code.into())
        );
    }
}

#[test]
fn a_monitor_ends_with_its_reader_while_it_prints_nothing() {
    let host = Host::new();
    let mut daemon = host.daemon("d", &["--insecure"]);
    host.await_members("d", &["d"]);
    let monitor = |interval: &str| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = host.command(&["monitor", "--socket", &host.socket("d")]);
        command.args(["--interval", interval]);
        let err = File::create(host.path("monitor.err")).unwrap();
        command.stdout(writer).stderr(err);
        let running = Running::of(command.spawn().unwrap(), "monitor");
        drop(command);
        // Its first look is read.
        let mut first = [0; 1];
        reader.read_exact(&mut first).unwrap();
        (running, reader)
    };
    let (mut waits, reader) = monitor("3600");
    drop(reader);
    assert_eq!(waits.wait(), 0);

    let (mut asks, reader) = monitor("0.5");
    daemon.signal("STOP");
    // It waits for an answer now.
    std::thread::sleep(std::time::Duration::from_secs(1));
    drop(reader);
    assert_eq!(asks.wait(), 0);
    daemon.signal("CONT");

    let (mut looks, reader) = monitor("0.1");
    assert_eq!(daemon.terminate(), 0);
    until("it says why there is nothing to see", || {
        host.read("monitor.err").contains("no daemon listens on")
    });
    drop(reader);
    assert_eq!(looks.wait(), 0);
}
