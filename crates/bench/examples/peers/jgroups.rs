//! JGroups with the stack `sequencer.xml` that it comes with: UDP multicast, a sequencer for the
//! total order. No encryption, a heap of at most 1 GiB. It is a library: one process a host is
//! member, sender and receiver (`Flood.java`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use groupcast_bench::{Process, Testbed};

use super::Failure;
use super::system::{Load, System};

const CLIENT: &str = include_str!("Flood.java");

/// JGroups, ready to be started.
pub(crate) struct JGroups {
    /// Where its classes are: the jar's and ours.
    classes: String,
}

impl JGroups {
    /// Compiles the member.
    pub(crate) fn prepare(bed: &Testbed, jar: &Path) -> Result<Self, Failure> {
        let directory: PathBuf = bed.directory().join("java");
        fs::create_dir_all(&directory)?;
        let source = directory.join("Flood.java");
        fs::write(&source, CLIENT)?;
        let output = Command::new("javac")
            .arg("-cp")
            .arg(jar)
            .arg("-d")
            .args([&directory, &source])
            .output()
            .map_err(|error| format!("no javac: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("not compiled: {said}").into());
        }
        Ok(Self {
            classes: format!("{}:{}", jar.display(), directory.display()),
        })
    }
}

impl System for JGroups {
    fn daemons(&self, _bed: &Testbed) -> Result<Vec<Process>, Failure> {
        Ok(Vec::new())
    }

    fn client(&self, bed: &Testbed, host: usize, load: &Load) -> Command {
        let mut command = bed.command(host, "java");
        command
            .args(["-Xmx1g", "-Djava.net.preferIPv4Stack=true"])
            .arg(format!("-Djgroups.bind_addr={}", bed.address(host)))
            .arg("-Djgroups.udp.mcast_addr=239.79.9.2")
            .args(["-cp", &self.classes, "Flood", "sequencer.xml"])
            .args([host, bed.hosts(), load.size].map(|number| number.to_string()))
            .arg(load.interval_ns.to_string());
        command
    }
}
