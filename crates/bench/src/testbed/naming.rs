//! Names of test beds, and the removal of beds whose creator died without a chance to clean up.
//!
//! A bed's identity tells who made it: process id, the time at which that process started (process
//! ids come back), and a count. Its namespaces are `gc-IDENTITY-sw` for the switch and
//! `gc-IDENTITY-1`, `-2`, … for the hosts.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::TestbedError;
use super::command::run;
use crate::process::start_time;

const PREFIX: &str = "gc-";

/// Who made a bed, and which of that process's beds it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Identity {
    creator: u32,
    creator_start: u64,
    count: u32,
}

impl Identity {
    /// The next one of this process.
    pub(super) fn next() -> Result<Self, TestbedError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let creator = std::process::id();
        Ok(Self {
            creator,
            creator_start: start_time(creator).map_err(TestbedError::Proc)?,
            count: COUNT.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// The namespace of the switch.
    pub(super) fn switch(&self) -> String {
        format!("{PREFIX}{self}-sw")
    }

    /// The namespace of a host, from 1.
    pub(super) fn host(&self, host: usize) -> String {
        format!("{PREFIX}{self}-{host}")
    }

    /// Where outputs of the bed's processes go.
    pub(super) fn directory(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{PREFIX}{self}"))
    }

    /// The third byte of the bed's addresses: differs among beds that are likely to exist at once.
    pub(super) fn subnet(&self) -> u8 {
        ((self.creator.wrapping_mul(7)).wrapping_add(self.count) % 256) as u8
    }

    fn creator_is_alive(&self) -> bool {
        start_time(self.creator).is_ok_and(|start| start == self.creator_start)
    }

    /// Of a namespace's name, or of a directory's (which has no last part).
    fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix(PREFIX)?;
        let identity = name.split_once('-').map_or(name, |(identity, _)| identity);
        let mut parts = identity.split('.');
        let identity = Self {
            creator: parts.next()?.parse().ok()?,
            creator_start: parts.next()?.parse().ok()?,
            count: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(identity)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.creator, self.creator_start, self.count)
    }
}

/// Removes all namespaces of beds whose creator is gone, with the processes in them and their
/// outputs.
pub(super) fn remove_stale() -> Result<(), TestbedError> {
    for namespace in existing()? {
        if Identity::parse(&namespace).is_some_and(|identity| !identity.creator_is_alive()) {
            remove(&namespace)?;
        }
    }
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten() {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let stale = name
            .to_str()
            .and_then(Identity::parse)
            .is_some_and(|identity| !identity.creator_is_alive());
        // Outputs of a failed run are kept for the person who looks into it; only empty directories
        // are in the way.
        if stale {
            let _ = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

/// Removes one namespace and kills the processes in it: nobody but a bed's creator puts any there.
pub(super) fn remove(namespace: &str) -> Result<(), TestbedError> {
    let pids = run("ip", &["netns", "pids", namespace], "")?;
    for pid in pids.lines().filter_map(|line| line.trim().parse().ok()) {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    run("ip", &["netns", "delete", namespace], "").map(|_| ())
}

fn existing() -> Result<Vec<String>, TestbedError> {
    let list = run("ip", &["netns", "list"], "")?;
    Ok(list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with(PREFIX))
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_back_from_all_its_names() {
        let identity = Identity::next().unwrap();
        assert_eq!(Identity::parse(&identity.switch()), Some(identity));
        assert_eq!(Identity::parse(&identity.host(12)), Some(identity));
        let directory = identity.directory();
        let name = directory.file_name().and_then(|name| name.to_str());
        assert_eq!(name.and_then(Identity::parse), Some(identity));
        assert!(identity.creator_is_alive());
    }

    #[test]
    fn a_process_id_that_came_back_is_another_creator() {
        let mut identity = Identity::next().unwrap();
        identity.creator_start += 1;
        assert!(!identity.creator_is_alive());
    }

    #[test]
    fn other_peoples_namespaces_are_no_beds() {
        for name in [
            "blue",
            "gc-",
            "gc-x-1",
            "gc-1.2-1",
            "gc-1.2.3.4-1",
            "gc-demo",
        ] {
            assert_eq!(Identity::parse(name), None, "{name}");
        }
    }
}
