//! `send --together`, with a process killed at random: a file is in place nowhere while a host that
//! is required lacks the verified whole.
//!
//! A round sends a new tree to three receivers. One of the four processes gets SIGKILL, at a random
//! time of the transfer or right after the tree was in place somewhere for the first time, and is
//! not started again. What counts then is what lies on the disks.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use groupcast_core::Rng;

use super::super::Outcome;
use super::{Site, tree};

/// Receivers are hosts 2 to this one.
const LAST: usize = 4;
/// How often the disks are looked at, until the tree is in place somewhere.
const LOOK: Duration = Duration::from_millis(1);
/// How long the others go on after a kill.
const AFTER: Duration = Duration::from_millis(700);
/// How long an undisturbed transfer may take.
const TRANSFER_MAX: Duration = Duration::from_secs(30);
/// The longest time from the first tree in place to a kill.
const SOON: Duration = Duration::from_millis(20);

/// Where the tree was after a round: whole in place, or whole and kept aside, at this many hosts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Places {
    /// Hosts that have it in place.
    pub in_place: usize,
    /// Hosts that hold all of it, and have not put it in place.
    pub aside: usize,
}

/// What a round did and showed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Round {
    /// Which host's process was killed: 1 is the sender's.
    pub host: usize,
    /// When, since the sender's start.
    pub at: Duration,
    /// Where the tree was then.
    pub places: Places,
}

/// Three receivers and a sender.
pub struct Together {
    site: Site,
    /// How long a transfer takes that nobody disturbs.
    usual: Duration,
}

impl Together {
    /// Sends once undisturbed, to know how long that takes.
    pub fn new() -> Outcome<Self> {
        let mut together = Self {
            site: Site::new(LAST, Link::Gbit1)?,
            usual: TRANSFER_MAX,
        };
        let (begun, mut all) = together.begin(0)?;
        let Some(status) = all[0].wait(TRANSFER_MAX)? else {
            return Err("an undisturbed transfer does not end".into());
        };
        together.usual = begun.elapsed();
        let places = together.places()?;
        kill(&mut all)?;
        match status.success() && places.in_place == LAST - 1 {
            true => Ok(together),
            false => Err(format!("an undisturbed transfer: {status}, {places:?}").into()),
        }
    }

    /// Runs a round.
    ///
    /// # Errors
    /// If a host has the tree in place, and another does not hold all of it.
    pub fn round(&mut self, seed: u64) -> Outcome<Round> {
        let mut rng = Rng::new(seed).fork("together");
        let host = rng.range(1..LAST as u64 + 1) as usize;
        let at = match rng.chance(0.5) {
            true => Some(rng.duration(self.usual / 4, self.usual)),
            // As soon as it is in place anywhere.
            false => None,
        };
        let soon = rng.duration(Duration::ZERO, SOON);
        let (begun, mut all) = self.begin(seed)?;
        loop {
            let now = begun.elapsed();
            let is_due = match at {
                Some(at) => now >= at,
                None => (2..=LAST).any(|host| self.site.out(host).join("tree").exists()),
            };
            if is_due || now > TRANSFER_MAX {
                break;
            }
            sleep(LOOK);
        }
        if at.is_none() {
            sleep(soon);
        }
        let at = begun.elapsed();
        all[host - 1].kill()?;
        sleep(AFTER);
        let mut places = self.places();
        kill(&mut all)?;
        if places.is_err() {
            // Something was moved while it was looked at.
            places = self.places();
        }
        let places = places?;
        let (in_place, holding) = (places.in_place, places.in_place + places.aside);
        match in_place == 0 || holding == LAST - 1 {
            true => Ok(Round { host, at, places }),
            false => Err(format!(
                "host {host} was killed after {at:?}: {in_place} have the tree in place, and only {holding} hold it"
            )
            .into()),
        }
    }

    /// Starts receivers with nothing in their directories, and the sender. Returns the time of its
    /// start, and all processes, the sender's first.
    fn begin(&mut self, seed: u64) -> Outcome<(Instant, Vec<Process>)> {
        let source = self.site.cluster.path("tree");
        tree::make(Path::new(&source), 1_500_000, &mut Rng::new(seed))?;
        let mut receivers = Vec::new();
        for host in 2..=LAST {
            match fs::remove_dir_all(self.site.out(host)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            receivers.push(self.site.receiver(host)?);
        }
        let required: Vec<String> = (2..=LAST).map(Site::name).collect();
        let required = required.join(",");
        let options = [source.as_str(), "--together", "--require", &required];
        let options = [&options[..], &["--rate", "50", "--wait", "5"]].concat();
        let begun = Instant::now();
        let mut all = vec![self.site.launch(1, "send", &options)?];
        all.append(&mut receivers);
        Ok((begun, all))
    }

    fn places(&self) -> Outcome<Places> {
        let source = self.site.cluster.path("tree");
        let mut places = Places::default();
        for host in 2..=LAST {
            let out = self.site.out(host);
            if out.join("tree").exists() {
                if !has_content(Path::new(&source), &out.join("tree"))? {
                    return Err(format!("host {host} has something else in place").into());
                }
                places.in_place += 1;
            } else if is_kept_aside(Path::new(&source), &out)? {
                places.aside += 1;
            }
        }
        Ok(places)
    }

    /// Ends a run that has passed: none of its outputs are kept.
    pub fn end(mut self) {
        self.site.cluster.pass();
    }
}

/// Kills all processes that still run.
fn kill(all: &mut [Process]) -> Outcome {
    for process in all {
        if process.is_running() {
            process.kill()?;
        }
    }
    Ok(())
}

/// Whether a receiver keeps all of `source` aside.
fn is_kept_aside(source: &Path, out: &Path) -> Outcome<bool> {
    let folder = match fs::read_dir(out.join(".groupcast")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    for transfer in folder {
        let staged = transfer?.path().join("tree").join("tree");
        if staged.exists() && has_content(source, &staged)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `there` has all that `here` has, byte for byte. Modes and times come when it is put in
/// place.
fn has_content(here: &Path, there: &Path) -> Outcome<bool> {
    let kind = here.symlink_metadata()?.file_type();
    match there.symlink_metadata() {
        Ok(found) if found.file_type() == kind => {}
        _ => return Ok(false),
    }
    if kind.is_symlink() {
        return Ok(fs::read_link(here)? == fs::read_link(there)?);
    }
    if kind.is_file() {
        return Ok(fs::read(here)? == fs::read(there)?);
    }
    for entry in fs::read_dir(here)? {
        let name = entry?.file_name();
        if !has_content(&here.join(&name), &there.join(&name))? {
            return Ok(false);
        }
    }
    Ok(true)
}
