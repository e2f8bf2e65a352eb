//! The disk's room, promised to transfers before they are taken.
//!
//! A transfer [claims](Claim) its name in the folder, and reserves what it is going to write before
//! its sender is told that it is taken. What it writes is taken off what it was promised, so that
//! no two transfers count on the same bytes. What broke off before counts as room; it is removed,
//! the oldest first, when bytes arrive that have no other place: an announcement alone costs nobody
//! what is kept for him.
//!
//! Other programs know of no promises: a disk that they fill ends a transfer, and what has arrived
//! of it is kept.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::Spool;

/// What is promised to whom.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes that each transfer under way may still write, by its name in the folder.
    promised: BTreeMap<Vec<u8>, u64>,
    /// How large the disk is, for tests.
    #[cfg(test)]
    pub(super) disk: Option<u64>,
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

/// Why a transfer gets no room.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRoom {
    /// The disk is too full.
    #[error(
        "disk full: {need} bytes are needed in {}, {free} are free, and {promised} of those are promised to other \
         transfers",
        .path.display()
    )]
    Full {
        need: u64,
        free: u64,
        promised: u64,
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("cannot keep what arrives: {0}")]
    Io(#[from] io::Error),
}

/// A transfer's name in the folder, and its part of the room, until it is dropped. What is kept
/// under the name stays meanwhile.
#[derive(Debug)]
pub(crate) struct Claim {
    spool: Arc<Spool>,
    name: Vec<u8>,
}

impl Claim {
    /// Claims `name`, which no other transfer under way has.
    pub(crate) fn new(spool: &Arc<Spool>, name: Vec<u8>) -> Self {
        spool.room().promised.insert(name.clone(), 0);
        Self {
            spool: Arc::clone(spool),
            name,
        }
    }

    /// Where it is.
    pub(crate) fn spool(&self) -> &Arc<Spool> {
        &self.spool
    }

    /// Has `bytes` more to write, and no more than that. What broke off counts as free.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), NoRoom> {
        // All transfers wait meanwhile: what is free is asked for and promised in one step.
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

    /// `bytes` of what was reserved are about to be written: where they have no place, what broke
    /// off longest ago is removed.
    pub(crate) fn make_way(&self, bytes: u64) -> io::Result<()> {
        let room = self.spool.room();
        let missing = bytes.saturating_sub(self.spool.free(&room)?);
        match missing {
            0 => Ok(()),
            missing => self.spool.make_room(&room, missing),
        }
    }

    /// Bytes by which the file system gives room to files: each takes whole ones.
    pub(crate) fn block(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.spool.folder.descriptor())?;
        Ok(stat.f_frsize.max(1))
    }

    /// `bytes` of what was reserved are written.
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

/// Writes a stream whose length nobody knows: room for it is reserved bit by bit.
#[derive(Debug)]
pub(crate) struct Reserved<W> {
    out: W,
    claim: Claim,
    left: u64,
}

impl<W: Write> Reserved<W> {
    /// What is reserved at once, where there is so much.
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
        // What a thread that panicked has left is numbers all the same.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the file system has left for this user.
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

    /// Bytes of what broke off.
    fn removable(&self, room: &Room) -> io::Result<u64> {
        let names = self.broken_off(room)?.into_iter();
        names.map(|name| self.folder.size(&name)).sum()
    }

    /// Removes what broke off, the oldest first, until `missing` bytes are gained or there is none.
    fn make_room(&self, room: &Room, missing: u64) -> io::Result<()> {
        let mut gained = 0;
        for name in self.broken_off(room)? {
            if gained >= missing {
                break;
            }
            gained += self.folder.size(&name)?;
            tracing::info!(
                "what has arrived of the transfer {} is removed: another one needs the room",
                String::from_utf8_lossy(&name)
            );
            self.folder.remove(&name)?;
        }
        Ok(())
    }
}
