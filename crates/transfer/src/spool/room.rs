//! The room on the disk, which is promised to transfers before they are taken.
//!
//! A transfer [claims](Claim) its name in the folder, and reserves the bytes that it is going to
//! write, before its sender is told that it is taken. Written bytes are taken off the promise, so
//! that no two transfers count on the same room. Transfers that broke off count as room. They are
//! removed, the oldest first, only when bytes arrive that have no other place: an announcement
//! alone makes nobody lose a transfer that is kept.
//!
//! Other programs know of no promises: if they fill the disk, a transfer ends, and its bytes are
//! kept.
//!
//! A file system may also have a place for so many files and no more. Nothing is promised of these:
//! a transfer is refused if it has more files than there are places, and those of transfers that
//! broke off are made free when its list of files has come.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use groupcast_core::text::printable;

use super::Spool;
use crate::beneath::Root;

/// The promises of room.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes that each transfer under way may still write, by its name in the folder.
    promised: BTreeMap<Vec<u8>, u64>,
    /// The size of the disk, and how many files it has a place for, for tests.
    #[cfg(test)]
    pub(super) disk: Option<u64>,
    #[cfg(test)]
    pub(super) places: Option<u64>,
}

impl Room {
    /// Whether a transfer under way is called `name`.
    pub(super) fn is_claimed(&self, name: &[u8]) -> bool {
        self.promised.contains_key(name)
    }

    fn promised_to_others(&self, name: &[u8]) -> u64 {
        let others = self.promised.iter().filter(|(other, _)| *other != name);
        others.map(|(_, bytes)| bytes).sum()
    }
}

/// A number of bytes for people.
fn amount(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Why a transfer gets no room.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRoom {
    /// The disk is too full.
    #[error(
        "disk full: {} are needed in {}, {} are free, and {} of those are promised to other transfers",
        amount(*.need),
        .path.display(),
        amount(*.free),
        amount(*.promised)
    )]
    Full {
        need: u64,
        free: u64,
        promised: u64,
        path: PathBuf,
    },
    /// The file system has places for fewer files.
    #[error(
        "no place for more files: {need} are to be made in {}, and its file system has room for {free} (inodes)",
        .path.display()
    )]
    Places { need: u64, free: u64, path: PathBuf },
    /// The file system refuses.
    #[error("cannot keep what arrives: {0}")]
    Io(#[from] io::Error),
}

/// A transfer's name in the folder, and its promise of room, until it is dropped. The folder of
/// that name is not removed meanwhile.
#[derive(Debug)]
pub(crate) struct Claim {
    spool: Arc<Spool>,
    name: Vec<u8>,
}

impl Claim {
    /// Claims `name`, which no other transfer under way has.
    pub(crate) fn new(spool: &Arc<Spool>, name: Vec<u8>) -> Self {
        let before = spool.room().promised.insert(name.clone(), 0);
        debug_assert!(before.is_none(), "two transfers work in one folder");
        Self {
            spool: Arc::clone(spool),
            name,
        }
    }

    /// The spool that it is in.
    pub(crate) fn spool(&self) -> &Arc<Spool> {
        &self.spool
    }

    /// Reserves room for `bytes` more, in place of what was reserved before. Transfers that broke
    /// off count as free room.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), NoRoom> {
        // The lock is held meanwhile, so that room is looked at and promised in one step.
        let mut room = self.spool.room();
        let promised = room.promised_to_others(&self.name);
        let free = self.spool.free(&room)?;
        let missing = bytes.saturating_add(promised).saturating_sub(free);
        if missing > 0 && self.spool.removable(&room)? < missing {
            return Err(NoRoom::Full {
                need: bytes,
                free,
                promised,
                path: self.spool.path.clone(),
            });
        }
        room.promised.insert(self.name.clone(), bytes);
        Ok(())
    }

    /// `bytes` of the reserved room are about to be written: removes transfers that broke off, the
    /// oldest first, if there is no place for them.
    pub(crate) fn make_way(&self, bytes: u64) -> io::Result<()> {
        let room = self.spool.room();
        let missing = bytes.saturating_sub(self.spool.free(&room)?);
        match missing {
            0 => Ok(()),
            missing => self.spool.make_way(&room, missing, Root::size),
        }
    }

    /// So many files, directories and links are about to be made: removes transfers that broke off,
    /// the oldest first, if the file system has no place for them.
    pub(crate) fn make_places(&self, need: u64) -> Result<(), NoRoom> {
        let room = self.spool.room();
        let Some(free) = self.spool.free_places(&room)? else {
            return Ok(());
        };
        let missing = need.saturating_sub(free);
        if missing == 0 {
            return Ok(());
        }
        let names = self.spool.broken_off(&room)?.into_iter();
        let counts: io::Result<u64> = names.map(|name| self.spool.folder.count(&name)).sum();
        if counts? < missing {
            return Err(NoRoom::Places {
                need,
                free,
                path: self.spool.path.clone(),
            });
        }
        Ok(self.spool.make_way(&room, missing, Root::count)?)
    }

    /// The block size of the file system: a file takes whole blocks.
    pub(crate) fn block(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.spool.folder.descriptor())?;
        Ok(stat.f_frsize.max(1))
    }

    /// `bytes` of the reserved room are written.
    pub(crate) fn written(&self, bytes: u64) {
        if let Some(promised) = self.spool.room().promised.get_mut(&self.name) {
            *promised = promised.saturating_sub(bytes);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.spool.room().promised.remove(&self.name);
    }
}

/// Writes a stream of unknown length: reserves room for it step by step.
#[derive(Debug)]
pub(crate) struct Reserved<W> {
    out: W,
    claim: Claim,
    left: u64,
}

impl<W: Write> Reserved<W> {
    /// How many bytes are reserved at once, if there is room for them.
    const AHEAD: u64 = 16 << 20;

    pub(crate) fn new(out: W, claim: Claim) -> Self {
        Self {
            out,
            claim,
            left: 0,
        }
    }
}

impl<W: Write> Write for Reserved<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let need = bytes.len() as u64;
        if self.left < need {
            let ahead = Self::AHEAD.max(need);
            let reserved = self.claim.reserve(ahead).map(|()| ahead);
            let reserved = reserved.or_else(|_| self.claim.reserve(need).map(|()| need));
            self.left = reserved.map_err(io::Error::other)?;
        }
        self.claim.make_way(need)?;
        let written = self.out.write(bytes)?;
        self.left -= written as u64;
        self.claim.written(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Spool {
    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        // A thread that panicked leaves valid numbers.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that are free in the file system for this user.
    fn free(&self, room: &Room) -> io::Result<u64> {
        #[cfg(test)]
        if let Some(disk) = room.disk {
            let kept = self.folder.names()?.into_iter();
            let used: io::Result<u64> = kept.map(|name| self.folder.size(&name)).sum();
            return Ok(disk.saturating_sub(used?));
        }
        let _ = room;
        let stat = rustix::fs::fstatvfs(self.folder.descriptor())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// How many files have a place in the file system for this user; `None` if it has no such
    /// limit.
    fn free_places(&self, room: &Room) -> io::Result<Option<u64>> {
        #[cfg(test)]
        if let Some(places) = room.places {
            let kept = self.folder.names()?.into_iter();
            let used: io::Result<u64> = kept.map(|name| self.folder.count(&name)).sum();
            return Ok(Some(places.saturating_sub(used?)));
        }
        let _ = room;
        let stat = rustix::fs::fstatvfs(self.folder.descriptor())?;
        Ok((stat.f_files > 0).then_some(stat.f_favail))
    }

    /// The bytes of the transfers that broke off.
    fn removable(&self, room: &Room) -> io::Result<u64> {
        let names = self.broken_off(room)?.into_iter();
        names.map(|name| self.folder.size(&name)).sum()
    }

    /// Removes transfers that broke off, the oldest first, until `missing` of what `measure` counts
    /// are gained or none is left.
    fn make_way(
        &self,
        room: &Room,
        missing: u64,
        measure: impl Fn(&Root, &[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        let mut gained = 0;
        for name in self.broken_off(room)? {
            if gained >= missing {
                break;
            }
            gained += measure(&self.folder, &name)?;
            self.folder.remove(&name)?;
            self.warn(format!(
                "what had arrived of the transfer {}, which broke off, is removed: another one needs the room",
                printable(&name)
            ));
        }
        Ok(())
    }
}
