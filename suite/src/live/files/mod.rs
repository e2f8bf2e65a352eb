//! `send` and `recv` on the hosts of a test bed: which files are sent, by which hosts and to which,
//! and whether they arrived.
//!
//! Host 1 sends, the others receive into `out-HOST`. [`tree`] makes what is sent and compares it;
//! [`faults`] interrupts transfers at random; [`together`] kills a process of a transfer that is
//! put in place everywhere or nowhere; [`small`] measures many small files beside one large one;
//! [`shares`] measures how transfers and a TCP flow share a link.

pub mod faults;
pub mod shares;
pub mod small;
pub mod together;
pub mod tree;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use groupcast_bench::{Link, Process};
use serde_json::Value;

use super::cluster::Cluster;
use super::{Outcome, until};

/// How long a receiver may take until it listens.
const LISTENING_LIMIT: Duration = Duration::from_secs(10);

/// Hosts that send and receive files: no daemon runs.
pub struct Site {
    /// The hosts, without daemons.
    pub cluster: Cluster,
    /// What was started so far: outputs of processes have names of their own.
    started: usize,
}

impl Site {
    /// The group's address, the same for all transfers that share nothing but the hosts.
    pub const GROUP: &'static str = "239.79.1.2:4820";

    /// `hosts` hosts and a key.
    pub fn new(hosts: usize, link: Link) -> Outcome<Self> {
        Self::with_binary(hosts, link, None)
    }

    /// The same with another binary than the one under test, if one is named.
    pub fn with_binary(
        hosts: usize,
        link: Link,
        binary: Option<&std::path::Path>,
    ) -> Outcome<Self> {
        Ok(Self {
            cluster: Cluster::with_binary(hosts, link, binary)?,
            started: 0,
        })
    }

    /// What a host is called.
    pub fn name(host: usize) -> String {
        format!("host-{host}")
    }

    /// Where a host receives.
    pub fn out(&self, host: usize) -> PathBuf {
        self.cluster.path(&format!("out-{host}")).into()
    }

    /// `groupcast COMMAND` on a host, with JSON lines, in the group at `address`.
    pub fn launch_in(
        &mut self,
        address: &str,
        host: usize,
        command: &str,
        options: &[&str],
    ) -> Outcome<Process> {
        self.launch_as(&Self::name(host), address, host, command, options)
    }

    /// The same as a member called `name`, of which a host may have several.
    pub fn launch_as(
        &mut self,
        name: &str,
        address: &str,
        host: usize,
        command: &str,
        options: &[&str],
    ) -> Outcome<Process> {
        let interface = self.cluster.bed.address(host).to_string();
        let options = [&["--interface", &interface, "--name", name], options].concat();
        self.start(address, host, command, &options)
    }

    fn start(
        &mut self,
        address: &str,
        host: usize,
        command: &str,
        options: &[&str],
    ) -> Outcome<Process> {
        self.started += 1;
        let cluster = &self.cluster;
        let key = cluster.path("cluster.key");
        let mut line = cluster.command(host, &[command, "--group", address, "--key", &key]);
        line.arg("--json").args(options);
        let label = format!("{command}-{host}-{}", self.started);
        Ok(cluster.bed.launch(&label, line)?)
    }

    /// The same in the usual group.
    pub fn launch(&mut self, host: usize, command: &str, options: &[&str]) -> Outcome<Process> {
        self.launch_in(Self::GROUP, host, command, options)
    }

    /// A receiver that takes any number of transfers into the host's directory; it listens already.
    pub fn receiver(&mut self, host: usize) -> Outcome<Process> {
        let out = self.out(host);
        let process = self.launch(host, "recv", &["--out", &out.display().to_string()])?;
        await_event(&process, "listening")?;
        Ok(process)
    }

    /// The same on a host that multicasts do not reach, from now on; the senders have to name it.
    pub fn receiver_without_multicast(&mut self, host: usize) -> Outcome<Process> {
        self.receiver_without_multicast_in(Self::GROUP, host)
    }

    /// The same in the group at `address`.
    pub fn receiver_without_multicast_in(
        &mut self,
        address: &str,
        host: usize,
    ) -> Outcome<Process> {
        self.cluster.bed.without_multicast(host)?;
        let out = self.out(host).display().to_string();
        let (listen, name) = (self.cluster.bed.address(host).to_string(), Self::name(host));
        let options = ["--listen", &listen, "--name", &name, "--out", &out];
        let process = self.start(address, host, "recv", &options)?;
        await_event(&process, "listening")?;
        Ok(process)
    }
}

/// Waits until `process` prints an event.
pub fn await_event(process: &Process, event: &str) -> Outcome {
    let what = format!("{}: `{event}`", process.label());
    let sign = format!("\"event\":\"{event}\"");
    until(LISTENING_LIMIT, what, || {
        Ok(process.stdout()?.contains(&sign).then_some(()))
    })
}

/// Waits until `process` ends with success, and returns what it printed.
pub fn succeed(process: &mut Process, limit: Duration) -> Outcome<String> {
    match process.wait(limit)? {
        Some(status) if status.success() => Ok(process.stdout()?),
        status => Err(format!("{}: {status:?}: {}", process.label(), process.stderr()?).into()),
    }
}

/// The last line of the JSON that a sender printed.
pub fn last_line(printed: &str) -> Outcome<Value> {
    let line = printed.lines().last().ok_or("nothing was printed")?;
    Ok(serde_json::from_str(line)?)
}

/// What broken transfers have left in the target directory `out`.
pub fn leftovers(out: &std::path::Path) -> Outcome<Vec<String>> {
    match fs::read_dir(out.join(".groupcast")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect(),
    }
}
