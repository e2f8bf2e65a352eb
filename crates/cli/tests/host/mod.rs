//! One host for the tests of the binary: a directory, ports of its own, daemons on loopback, and
//! commands.
//!
//! Everything that it starts it ends: processes are killed and the directory is removed when it is
//! dropped.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

static HOSTS: AtomicU32 = AtomicU32::new(0);

/// A directory, and daemons on loopback that know each other only.
pub(crate) struct Host {
    directory: PathBuf,
    multicast: String,
}

impl Host {
    pub(crate) fn new() -> Self {
        let number = HOSTS.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("groupcast-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self {
            directory,
            multicast: format!("239.192.79.77:{}", free_port()),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.directory.join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }

    pub(crate) fn read_bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.join(name)).unwrap_or_default()
    }

    /// Where the daemons' multicasts go.
    pub(crate) fn multicast(&self) -> &str {
        &self.multicast
    }

    /// The socket of the daemon `name`.
    pub(crate) fn socket(&self, name: &str) -> String {
        self.path(&format!("{name}.sock"))
    }

    /// `groupcast` with nothing of this environment that matters to it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcast"));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env_remove("GROUPCAST_LOG")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Starts it; stdout and stderr go to files `LABEL.out` and `LABEL.err`.
    pub(crate) fn launch(&self, label: &str, command: &mut Command) -> Running {
        let file =
            |end: &str| fs::File::create(self.directory.join(format!("{label}.{end}"))).unwrap();
        let child = command
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Running::of(child, label)
    }

    /// Starts a daemon with its history in `NAME.ndjson`, and waits until it answers.
    pub(crate) fn daemon(&self, name: &str, options: &[&str]) -> Running {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut all = vec!["--listen", &listen, "--multicast", &self.multicast];
        all.extend(options);
        self.daemon_at(name, &all)
    }

    /// The same, where `options` say how it reaches the others.
    pub(crate) fn daemon_at(&self, name: &str, options: &[&str]) -> Running {
        let mut command = self.command(&["daemon", "--name", name]);
        command
            .args(["--socket", &self.socket(name)])
            .args(["--history", &self.path(&format!("{name}.ndjson"))])
            .args(options);
        let mut daemon = self.launch(name, &mut command);
        until(&format!("{name} answers"), || {
            assert!(daemon.is_running(), "{}", self.read(&format!("{name}.err")));
            self.status(name).is_some()
        });
        daemon
    }

    pub(crate) fn status(&self, daemon: &str) -> Option<Value> {
        let ran = self.run(&["status", "--json", "--socket", &self.socket(daemon)]);
        (ran.code == 0).then(|| serde_json::from_str(&ran.stdout).unwrap())
    }

    /// Waits until `daemon` is in a configuration of exactly `members`.
    pub(crate) fn await_members(&self, daemon: &str, members: &[&str]) {
        until(&format!("{daemon} is with {members:?}"), || {
            let status = self.status(daemon).unwrap_or_default();
            let mut names: Vec<String> = status["configuration"]["members"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|member| member["name"].as_str().map(str::to_owned))
                .collect();
            names.sort();
            names == members
        });
    }

    /// Starts `groupcast sub GROUP --json` at a daemon, and waits until it is a member.
    pub(crate) fn subscribe(&self, label: &str, daemon: &str, options: &[&str]) -> Running {
        let mut command =
            self.command(&["sub", "room", "--json", "--socket", &self.socket(daemon)]);
        let subscriber = self.launch(label, command.args(["--name", label]).args(options));
        until(&format!("{label} is a member"), || {
            self.read(&format!("{label}.out"))
                .contains("\"event\":\"view\"")
        });
        subscriber
    }

    /// The messages that a subscriber printed: (config, seq, text).
    pub(crate) fn messages(&self, label: &str) -> Vec<(String, u64, String)> {
        let text = self.read(&format!("{label}.out"));
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["event"] == "message")
            .map(|line| {
                (
                    line["config"].as_str().unwrap().to_owned(),
                    line["seq"].as_u64().unwrap(),
                    line["text"].as_str().unwrap().to_owned(),
                )
            })
            .collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what was there is in {}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// A command that ran to its end.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code and that stderr holds each of `parts`.
    pub(crate) fn fails_with(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.stderr);
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "no {part:?} in: {}",
                self.stderr
            );
        }
    }
}

/// A process that is killed if it still runs at the end.
pub(crate) struct Running {
    pub(crate) child: Child,
    label: String,
}

impl Running {
    /// A process that the caller has started.
    pub(crate) fn of(child: Child, label: &str) -> Self {
        Self {
            child,
            label: label.to_owned(),
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Asks it to end; its exit code.
    pub(crate) fn terminate(&mut self) -> i32 {
        self.signal("TERM");
        self.wait()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end; its exit code, -1 if a signal ended it.
    pub(crate) fn wait(&mut self) -> i32 {
        let label = self.label.clone();
        until(&format!("{label} ends"), || !self.is_running());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for up to a minute: what is slow is no fault here.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "not within 60 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A UDP port that is free now.
pub(crate) fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// A UDP port that is free now, and so is the next one.
pub(crate) fn free_port_pair() -> u16 {
    loop {
        let port = free_port();
        if port < u16::MAX && UdpSocket::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// Whether `path` exists.
pub(crate) fn exists(path: &str) -> bool {
    Path::new(path).exists()
}
