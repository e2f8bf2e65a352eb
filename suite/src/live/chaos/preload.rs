//! Steps of a host's wall clock and full disks: a library that is preloaded into its daemon, and
//! the file by which it is told what to do.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use crate::live::Outcome;
use crate::live::cluster::Cluster;

const SOURCE: &str = include_str!("preload.c");
const NANOS: i64 = 1_000_000_000;

/// The preloaded library of one host's daemons, to be told what to do.
pub(in crate::live) struct Preload {
    control: File,
}

impl Preload {
    /// Compiles the library, and has the daemons of all hosts load it from their next start on.
    pub(super) fn install(cluster: &mut Cluster) -> Outcome<Vec<Self>> {
        let (source, library) = (cluster.path("preload.c"), cluster.path("preload.so"));
        File::create(&source)?.write_all(SOURCE.as_bytes())?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o", &library, &source, "-ldl"]);
        let compiled = compiler.output().map_err(|error| {
            format!("clock steps and full disks need a C compiler, cc: {error}")
        })?;
        if !compiled.status.success() {
            let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
            return Err(format!("cc: {said}").into());
        }
        (1..=cluster.bed.hosts())
            .map(|host| {
                let path = cluster.path(&format!("control-{host}"));
                cluster.set_environment(host, "GC_CHAOS_CONTROL", &path);
                cluster.set_environment(host, "LD_PRELOAD", &library);
                Self::open(Path::new(&path))
            })
            .collect()
    }

    fn open(path: &Path) -> Outcome<Self> {
        let preload = Self {
            control: File::create(path)?,
        };
        preload.step_clock(0)?;
        preload.fill_disk(false)?;
        Ok(preload)
    }

    /// The host's wall clock is `seconds` ahead of this machine's from now on, or behind it.
    pub(super) fn step_clock(&self, seconds: i64) -> Outcome {
        self.tell(0, seconds * NANOS)
    }

    /// From now on nothing can be written to files, if `full`; otherwise everything can again.
    pub(super) fn fill_disk(&self, full: bool) -> Outcome {
        self.tell(1, full.into())
    }

    fn tell(&self, field: u64, value: i64) -> Outcome {
        Ok(self.control.write_all_at(&value.to_ne_bytes(), field * 8)?)
    }
}
