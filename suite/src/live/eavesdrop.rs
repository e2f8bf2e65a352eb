//! An eavesdropper between the daemons: `tcpdump` at the switch of a bed.

use std::fs;
use std::time::Duration;

use groupcast_bench::Process;

use super::cluster::Cluster;
use super::{Outcome, until};

/// A running capture of all frames at the switch.
pub struct Eavesdropper {
    process: Process,
    path: String,
}

/// Whether there is no `tcpdump`; says so where the reader of the test's output sees it.
pub fn skipped_without_tcpdump() -> bool {
    let missing = std::process::Command::new("tcpdump")
        .arg("--version")
        .output()
        .is_err();
    if missing {
        eprintln!("skipped: needs tcpdump");
    }
    missing
}

impl Eavesdropper {
    /// Begins to listen at the switch of the cluster's bed.
    pub fn start(cluster: &Cluster) -> Outcome<Self> {
        let path = cluster.path("capture.pcap");
        let mut command = cluster.bed.switch_command("tcpdump");
        // Promiscuous on the bridge, it sees multicasts and unicasts between all ports; -Z root:
        // the directory is ours. Immediately: what waits in its buffer when it is told to end is
        // lost.
        command.args([
            "--immediate-mode",
            "-i",
            "br0",
            "-U",
            "-Z",
            "root",
            "-s",
            "0",
            "-w",
            &path,
        ]);
        let process = cluster.bed.launch("tcpdump", command)?;
        until(Duration::from_secs(10), "tcpdump listens", || {
            Ok(process.stderr()?.contains("listening on").then_some(()))
        })?;
        Ok(Self { process, path })
    }

    /// Where the capture is being written.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Stops listening; what was captured.
    pub fn finish(mut self) -> Outcome<Vec<u8>> {
        self.process.terminate()?;
        if self.process.wait(Duration::from_secs(10))?.is_none() {
            return Err("tcpdump does not end".into());
        }
        Ok(fs::read(&self.path)?)
    }
}
