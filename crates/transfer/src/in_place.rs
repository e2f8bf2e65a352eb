//! What a receiver has put in place, and whether it is still as it was left.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::{FileType, Stat};

use crate::beneath::Root;
use crate::manifest::{Entry, Kind, Limits, Manifest};
use crate::spool::Spool;

/// Files that this process has put in place.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    /// Their encoded list.
    pub(crate) manifest: Bytes,
    /// When all of them were there.
    at: SystemTime,
}

impl InPlace {
    /// The files of `manifest` have just been put in place.
    pub(crate) fn now(manifest: Bytes) -> Self {
        Self {
            manifest,
            at: SystemTime::now(),
        }
    }

    /// Whether they are in the target of `spool` and nobody has changed them, as far as their
    /// sizes, modes and times tell. The time of a file's last change, which nobody can set, tells
    /// of one that has kept size and time; not if the clock was set back meanwhile.
    pub(crate) fn is_unchanged(&self, spool: &Spool, limits: &Limits) -> bool {
        let manifest = Manifest::decode(&self.manifest, limits);
        let (Ok(manifest), Ok(mut target)) = (manifest, spool.target()) else {
            return false;
        };
        let mut entries = manifest.entries().iter();
        entries.all(|entry| self.has(&mut target, entry)) && spool.is_in_place().unwrap_or(false)
    }

    /// Whether `entry` is in `target`, unchanged.
    fn has(&self, target: &mut Root, entry: &Entry) -> bool {
        let Ok(Some(there)) = target.stat(&entry.path) else {
            return false;
        };
        let kind = FileType::from_raw_mode(there.st_mode);
        match &entry.kind {
            Kind::Directory => kind == FileType::Directory && has_mode(&there, entry),
            Kind::File { size, .. } => {
                kind == FileType::RegularFile
                    && has_mode(&there, entry)
                    && u64::try_from(there.st_size) == Ok(*size)
                    && has_time(&there, entry)
                    && changed_at(&there).is_some_and(|changed| changed <= self.at)
            }
            Kind::Link { target: to } => target
                .link_target(&entry.path)
                .is_ok_and(|found| found == *to),
        }
    }
}

/// Whether `stat` has the permissions of `entry`.
pub(crate) fn has_mode(stat: &Stat, entry: &Entry) -> bool {
    stat.st_mode & 0o777 == u32::from(entry.mode)
}

/// Whether `stat` has the time of modification of `entry`.
pub(crate) fn has_time(stat: &Stat, entry: &Entry) -> bool {
    stat.st_mtime == entry.modified.seconds
        && stat.st_mtime_nsec == u64::from(entry.modified.nanoseconds)
}

/// When content, mode, owner or name of a file was last changed; `None` before 1970.
fn changed_at(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_ctime).ok()?;
    let nanoseconds = u32::try_from(stat.st_ctime_nsec).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}
