//! Many small files beside one of the same size: what the ends of files cost.
//!
//! To three receivers over wires of 1 Gb/s, everything in memory (tmpfs), every byte compared. What
//! a user waits for is timed: the whole command, scan included.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use groupcast_bench::Link;
use groupcast_core::Rng;

use super::super::Outcome;
use super::{Site, await_event, succeed, tree};

/// Receivers are hosts 2 to this one.
const LAST: usize = 4;
/// Files of a directory: as many as people put there.
const DIRECTORY: usize = 1000;
/// How long a transfer may take.
const LIMIT: Duration = Duration::from_secs(600);

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// How many small files there were.
    pub files: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// How long they took.
    pub small: Duration,
    /// How long one file with as many bytes took.
    pub large: Duration,
}

impl Comparison {
    /// How many times longer small files take.
    pub fn ratio(&self) -> f64 {
        self.small.as_secs_f64() / self.large.as_secs_f64()
    }
}

/// A directory in memory that goes when it is dropped.
struct Memory(PathBuf);

impl Memory {
    fn new() -> Outcome<Self> {
        let path = Path::new("/dev/shm").join(format!("gc-files-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Nothing can be reported from here.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sends `files` files of 1 to 20 KB, and one file of their size.
pub fn compare(files: usize, seed: u64) -> Outcome<Comparison> {
    let memory = Memory::new()?;
    let mut rng = Rng::new(seed).fork("small files");
    let mut bytes = 0;
    for number in 0..files {
        let directory = memory
            .join("small")
            .join(format!("{:03}", number / DIRECTORY));
        if number % DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        let content = rng.range(1_000..20_001) as usize;
        bytes += content as u64;
        fs::write(
            directory.join(number.to_string()),
            tree::noise(&mut rng, content),
        )?;
    }
    fs::write(memory.join("large"), tree::noise(&mut rng, bytes as usize))?;

    let mut site = Site::new(LAST, Link::Gbit1)?;
    let large = transfer(&mut site, &memory, "large")?;
    let small = transfer(&mut site, &memory, "small")?;
    site.cluster.pass();
    Ok(Comparison {
        files,
        bytes,
        small,
        large,
    })
}

/// Sends the file or directory `name` to all receivers; returns how long that took.
fn transfer(site: &mut Site, memory: &Memory, name: &str) -> Outcome<Duration> {
    let source = memory.join(name);
    let mut receivers = Vec::new();
    for host in 2..=LAST {
        let out = memory.join(&format!("out-{host}"));
        let options = ["--out", &out.display().to_string(), "--once"];
        let receiver = site.launch(host, "recv", &options)?;
        await_event(&receiver, "listening")?;
        receivers.push(receiver);
    }
    let required: Vec<String> = (2..=LAST).map(Site::name).collect();
    let options = [
        &source.display().to_string(),
        "--require",
        &required.join(","),
    ];
    let begun = Instant::now();
    let mut sender = site.launch(1, "send", &options)?;
    succeed(&mut sender, LIMIT)?;
    let took = begun.elapsed();
    for (receiver, host) in receivers.iter_mut().zip(2..) {
        succeed(receiver, LIMIT)?;
        let out = memory.join(&format!("out-{host}"));
        tree::assert_same(&source, &out.join(name))?;
        fs::remove_dir_all(out)?;
    }
    Ok(took)
}
