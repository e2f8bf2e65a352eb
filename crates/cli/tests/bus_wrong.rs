//! Programs that say wrong things to the bus, over real sockets: each is told what and where and
//! goes on, or hears in its last line why not; nobody else notices, no part of a message is sent,
//! and the daemon keeps nothing of it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemon has failed"
)]

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::host::{Host, free_port};

/// How long a reply may take.
const LINE_WITHIN: Duration = Duration::from_secs(60);
/// What the daemon may keep, beside what it had: far below the 20 MB messages that are thrown at it
/// a dozen times.
const GROWTH_MAX: u64 = 120 << 20;

/// A socket of either kind.
trait Socket: Read + Write + Send + Sized + 'static {
    fn again(&self) -> Self;
    fn end(&self);
}

impl Socket for UnixStream {
    fn again(&self) -> Self {
        self.set_read_timeout(Some(LINE_WITHIN)).unwrap();
        self.try_clone().unwrap()
    }

    fn end(&self) {
        // It may have been ended from the other side.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Socket for TcpStream {
    fn again(&self) -> Self {
        self.set_read_timeout(Some(LINE_WITHIN)).unwrap();
        self.try_clone().unwrap()
    }

    fn end(&self) {
        // It may have been ended from the other side.
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// What a program says that is wrong.
struct Wrong {
    said: Vec<u8>,
    /// How what it hears begins.
    heard: &'static str,
    /// It says no more behind that.
    ends: bool,
}

fn wrong(said: impl Into<Vec<u8>>, heard: &'static str) -> Wrong {
    Wrong {
        said: said.into(),
        heard,
        ends: false,
    }
}

fn wrong_at_the_end(said: impl Into<Vec<u8>>, heard: &'static str) -> Wrong {
    Wrong {
        ends: true,
        ..wrong(said, heard)
    }
}

/// All of it.
fn all() -> Vec<Wrong> {
    let domains = vec!["d"; 1_000].join(",");
    let deep = "(".repeat(1_000_000) + &")".repeat(1_000_000);
    let flat = format!("({})", "a ".repeat(10_000_000));
    let many = format!("({})", "a ".repeat(2_000_000));
    let whole = |list: &str, syntax: &str| format!("msg t d {syntax} {}\n{list}\n", list.len());
    vec![
        wrong(vec![b'x'; (64 << 10) + 1], "closed line-too-long "),
        wrong("msg t d -5\n", "error length 9 "),
        wrong("msg t d 99999999999\n", "closed length-too-long "),
        wrong("msg t d 5\nhello, world\n", "closed no-line-end "),
        wrong("msg \"t d 5\n", "closed length-unknown "),
        wrong_at_the_end("msg t d 100\nnot a hund", "closed end-in-message "),
        wrong_at_the_end("msg t d (a (b)\n", "closed end-in-message "),
        wrong("accept a\0b d\n", "error word 9 "),
        wrong(&b"accept a\xffb d\n"[..], "error word 9 "),
        wrong("accept * a..b\n", "error domain 10 "),
        wrong(format!("msg t {domains} x\n"), "error too-many "),
        wrong("accept ( d\n", "error pattern 8 "),
        wrong("accept \\w{1000} d\n", "error pattern 8 "),
        wrong("msg t d (a))\n", "error list 12 "),
        wrong(format!("msg t d {deep}\n"), "closed line-too-long "),
        wrong(format!("msg t d (\n{}\n", &deep[1..]), "error depth "),
        wrong(whole(&deep, "sexp"), "error depth "),
        wrong(whole(&many, "sexp"), "error atoms "),
        wrong(whole(&flat, "sexp"), "error too-long "),
        wrong(
            format!("msg t d (\n{}\n", &flat[1..]),
            "closed list-too-long ",
        ),
        wrong("tracefile ../x\n", "error name 11 "),
        wrong("acept * d\n", "error unknown-command 1 "),
    ]
}

/// Says what is wrong and then `info`; what is heard up to the reply to that, or to the end.
fn hear(socket: impl Socket, wrong: &Wrong) -> String {
    let mut lines = BufReader::new(socket.again()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("bus 1 "));
    let (said, ends) = (wrong.said.clone(), wrong.ends);
    let mut writer = socket.again();
    // It writes on while it is told that it need not.
    let writing = std::thread::spawn(move || {
        let mut done = writer.write_all(&said);
        if !ends {
            done = done.and_then(|()| writer.write_all(b"info\n"));
        } else {
            writer.end();
        }
        // A bus that has said its last line reads no more.
        let _ = done;
    });
    let mut heard = String::new();
    for line in lines {
        // A program that writes on behind the last line may find the connection reset.
        let Ok(line) = line else {
            break;
        };
        if line.starts_with("ok name=") {
            heard.push_str("and goes on");
            break;
        }
        heard.push_str(&line);
        heard.push('\n');
    }
    socket.end();
    writing.join().unwrap();
    heard
}

/// The daemon's resident memory in bytes.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
    kibibytes.unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn who_says_something_wrong_is_told_and_nobody_else_notices() {
    let host = Host::new();
    let path = host.path("h1.bus");
    let (unix, tcp) = (format!("unix:{path}"), format!("127.0.0.1:{}", free_port()));
    let traces = host.path("traces");
    std::fs::create_dir(&traces).unwrap();
    let buses = ["--insecure", "--bus", &unix, "--bus", &tcp];
    let daemon = host.daemon("h1", &[&buses[..], &["--bus-trace", &traces]].concat());
    host.await_members("h1", &["h1"]);
    let mut bystander = UnixStream::connect(&path).unwrap();
    let mut told = BufReader::new(bystander.again()).lines();
    bystander.write_all(b"accept * d\n").unwrap();
    assert!(told.nth(1).unwrap().unwrap() == "ok");
    let before = memory(daemon.child.id());
    for wrong in all() {
        let by_unix = hear(UnixStream::connect(&path).unwrap(), &wrong);
        let by_tcp = hear(TcpStream::connect(&tcp).unwrap(), &wrong);
        for heard in [by_unix, by_tcp] {
            let said = String::from_utf8_lossy(&wrong.said[..wrong.said.len().min(40)]);
            assert!(heard.starts_with(wrong.heard), "{said:?}: {heard:?}");
            let goes_on = heard.ends_with("\nand goes on");
            assert_eq!(
                goes_on,
                wrong.heard.starts_with("error "),
                "{said:?}: {heard:?}"
            );
            assert!(heard.lines().count() <= 2, "{said:?}: {heard:?}");
        }
    }
    let grown = memory(daemon.child.id()).saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
    bystander.write_all(b"msg t d over\n").unwrap();
    let said: Vec<String> = told.by_ref().take(3).map(Result::unwrap).collect();
    assert_eq!(said, ["msg t d raw 4", "over", "ok"], "and nothing before");
    drop(daemon);
}

#[test]
fn patterns_without_end_are_refused_at_the_limit() {
    const LINES: usize = 50_000;
    let host = Host::new();
    let path = host.path("h1.bus");
    let _daemon = host.daemon("h1", &["--insecure", "--bus", &format!("unix:{path}")]);
    host.await_members("h1", &["h1"]);
    let patterns = (0..LINES).map(|number| format!("accept t{number} d{}\n", number % 7));
    let heard = hear(
        UnixStream::connect(&path).unwrap(),
        &wrong(patterns.collect::<String>(), ""),
    );
    let count = |begin: &str| heard.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(count("ok"), 1_000);
    assert_eq!(count("error too-many "), LINES - 1_000);
    assert!(heard.ends_with("\nand goes on"));
}
