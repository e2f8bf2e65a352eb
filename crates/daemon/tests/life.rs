//! Daemons as values in one process: they start, find each other, leave when asked, and leave
//! nothing behind.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use groupcast_check::check_files;
use groupcast_daemon::config::{Listen, Options};
use groupcast_daemon::{Config, Daemon, DaemonError, StopHandle};

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gc-life-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for a test");
        Self(path)
    }

    /// A configuration of the daemon `name`, with its files here.
    fn config(&self, name: &str, multicast: SocketAddrV4) -> Config {
        self.config_with(name, multicast, "ring")
    }

    /// The same where `protocol` orders the messages.
    fn config_with(&self, name: &str, multicast: SocketAddrV4, protocol: &str) -> Config {
        let options = Options {
            name: Some(name.into()),
            listen: Some(Listen {
                ip: Ipv4Addr::LOCALHOST.into(),
                port: Some(free_port()),
            }),
            multicast: Some(multicast),
            socket: Some(self.0.join(format!("{name}.sock"))),
            history: Some(self.0.join(format!("{name}.ndjson"))),
            insecure: Some(true),
            protocol: Some(protocol.into()),
            ..Options::default()
        };
        Config::build(None, options).expect("the options are good")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    socket.local_addr().expect("it is bound").port()
}

fn multicast() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 78), free_port())
}

/// A daemon in a thread of its own, which starts it: it never changes threads.
fn spawn(config: Config) -> (StopHandle, JoinHandle<Result<(), DaemonError>>) {
    let (told, started) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let daemon = Daemon::start(config)?;
        told.send(daemon.stop_handle())
            .expect("the test waits for it");
        daemon.run()
    });
    let handle = started.recv().expect("the daemon starts");
    (handle, thread)
}

/// How many members a line of a history names.
fn members_in(line: &str) -> usize {
    match line.split_once("\"members\":[") {
        Some((_, members)) => members.split(',').count(),
        None => 0,
    }
}

/// Waits for a regular configuration of two.
fn await_two(history: &Path) {
    let end = Instant::now() + Duration::from_secs(10);
    let is_of_two = |line: &str| line.contains("\"kind\":\"regular\"") && members_in(line) == 2;
    while !std::fs::read_to_string(history)
        .unwrap_or_default()
        .lines()
        .any(is_of_two)
    {
        assert!(Instant::now() < end, "no two in {}", history.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_daemons_meet_and_leave() {
    let directory = Directory::new("meet");
    let multicast = multicast();
    let (first, first_thread) = spawn(directory.config("first", multicast));
    let (second, second_thread) = spawn(directory.config("second", multicast));
    let histories = ["first", "second"].map(|name| directory.0.join(format!("{name}.ndjson")));
    for history in &histories {
        await_two(history);
    }
    first.stop();
    first_thread.join().unwrap().unwrap();
    second.stop();
    second_thread.join().unwrap().unwrap();

    for (name, history) in ["first", "second"].into_iter().zip(&histories) {
        assert!(!directory.0.join(format!("{name}.sock")).exists());
        let text = std::fs::read_to_string(history).unwrap();
        assert!(text.ends_with("{\"event\":\"leave\"}\n"), "{text}");
    }
    let report = check_files(&histories).unwrap();
    assert!(report.clean, "{report}");
    assert_eq!(report.observers, 2);
}

#[test]
fn daemons_with_different_protocols_are_two_groups_on_one_address() {
    let directory = Directory::new("orders");
    let multicast = multicast();
    let daemons = [("a", "ring"), ("b", "rmp"), ("c", "ring"), ("d", "rmp")];
    let running = daemons.map(|(name, order)| spawn(directory.config_with(name, multicast, order)));
    let histories = daemons.map(|(name, _)| directory.0.join(format!("{name}.ndjson")));
    for history in &histories {
        await_two(history);
    }
    for (stop, thread) in running {
        stop.stop();
        thread.join().unwrap().unwrap();
    }
    for ((_, order), history) in daemons.iter().zip(&histories) {
        let text = std::fs::read_to_string(history).unwrap();
        assert!(text.contains(&format!("\"order\":\"{order}\"")), "{text}");
        assert_eq!(text.lines().map(members_in).max(), Some(2), "{text}");
    }
    let report = check_files(&histories).unwrap();
    assert!(report.clean, "{report}");
    assert_eq!(report.observers, 4);
}

#[test]
fn what_is_taken_is_said_and_nothing_stays_behind() {
    let directory = Directory::new("taken");
    let multicast = multicast();
    let config = directory.config("first", multicast);
    let daemon = Daemon::start(config.clone()).unwrap();

    // The address is taken before the daemon starts.
    let error = Daemon::start(config.clone()).err().unwrap();
    assert!(error.to_string().contains("is in use"), "{error}");

    let apart = directory.config("other", multicast);
    let shared = Config {
        history: config.history.clone(),
        ..apart.clone()
    };
    let error = Daemon::start(shared).err().unwrap();
    assert!(error.to_string().contains("another process"), "{error}");

    let other = Config {
        endpoint: apart.endpoint,
        history: apart.history,
        name: "other".into(),
        ..config.clone()
    };
    let error = Daemon::start(other).err().unwrap();
    assert!(matches!(error, DaemonError::SocketInUse { .. }), "{error}");
    assert!(error.help().is_some());

    drop(daemon);
    assert!(!config.socket.exists());
    let again = Daemon::start(config);
    assert!(again.is_ok(), "everything is free again");
}
