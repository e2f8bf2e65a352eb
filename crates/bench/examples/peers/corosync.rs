//! Corosync with a client of its closed process groups (`flood_cpg.c`).
//!
//! Settings are Corosync's own; `totem.transport` is knet, what it comes with (unicast), or udp
//! (multicast). No encryption. A daemon sees a `/run` of its own, since all would use the same
//! files there.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use groupcast_bench::{Process, Testbed};

use super::Failure;
use super::system::{Load, System};

const CLIENT: &str = include_str!("flood_cpg.c");

/// The lines of `totem` for multicast.
const MULTICAST: &str = "  transport: udp
  interface {
    mcastaddr: 239.79.9.1
    mcastport: 5405
  }
";

/// How its daemons reach each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Unicast to every host.
    Knet,
    /// IP multicast.
    Multicast,
}

/// Corosync, ready to be started.
pub(crate) struct Corosync {
    client: PathBuf,
    config: PathBuf,
}

impl Corosync {
    /// Compiles the client and writes the configuration.
    pub(crate) fn prepare(bed: &Testbed, transport: Transport) -> Result<Self, Failure> {
        if Command::new("corosync").arg("-v").output().is_err() {
            return Err("not installed".into());
        }
        let directory = bed.directory();
        let source = directory.join("flood_cpg.c");
        let client = directory.join("flood_cpg");
        fs::write(&source, CLIENT)?;
        let output = Command::new("cc")
            .args(["-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&client, &source])
            .arg("-lcpg")
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().next().unwrap_or_default();
            return Err(format!("its client does not compile (it needs libcpg): {first}").into());
        }
        let config = directory.join(match transport {
            Transport::Knet => "knet.conf",
            Transport::Multicast => "multicast.conf",
        });
        fs::write(&config, configuration(bed, transport))?;
        Ok(Self { client, config })
    }
}

fn configuration(bed: &Testbed, transport: Transport) -> String {
    let transport = match transport {
        Transport::Knet => "  transport: knet\n",
        Transport::Multicast => MULTICAST,
    };
    let mut text = format!(
        "totem {{\n  version: 2\n  cluster_name: flood\n  crypto_cipher: none\n  crypto_hash: none\n{transport}}}\n\
         logging {{\n  to_stderr: yes\n  to_syslog: no\n  to_logfile: no\n}}\n\
         nodelist {{\n"
    );
    for host in 1..=bed.hosts() {
        let address = bed.address(host);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  node {{\n    ring0_addr: {address}\n    name: host-{host}\n    nodeid: {host}\n  }}"
        );
    }
    text + "}\n"
}

impl System for Corosync {
    fn daemons(&self, bed: &Testbed) -> Result<Vec<Process>, Failure> {
        (1..=bed.hosts())
            .map(|host| {
                let mut command = bed.command(host, "unshare");
                command.args(["--mount", "sh", "-c"]);
                command.arg(
                    "mount -t tmpfs tmpfs /run && mkdir -p /var/lib/corosync && \
                     mount -t tmpfs tmpfs /var/lib/corosync && exec corosync -f -c \"$1\"",
                );
                command.arg("sh").arg(&self.config);
                Ok(bed.launch(&format!("corosync-{host}"), command)?)
            })
            .collect()
    }

    fn client(&self, bed: &Testbed, host: usize, load: &Load) -> Command {
        let mut command = bed.command(host, &self.client);
        command.args([host, bed.hosts(), load.size].map(|number| number.to_string()));
        command.arg(load.interval_ns.to_string());
        command
    }
}
