//! The receiver's own folder in its target directory: what has arrived of transfers that are not
//! complete.
//!
//! ```text
//! DIR/.groupcast/                 locked by the receiver that uses it
//!     0123456789abcdef/           one transfer, called by the first bytes of its content id
//!         manifest                as it was received
//!         journal                 36 bytes for each chunk that was verified and written: number (4), hash (32)
//!         tree/                   the staging tree
//!         publishing              is there while the tree is moved into DIR
//! ```
//!
//! A transfer that breaks off leaves its folder; the next one of the same content begins with what
//! the journal says and the tree confirms, byte for byte. The journal is not synchronised with the
//! disk: what a crash of the machine loses fails its hash and is sent again. A complete transfer
//! leaves nothing.
//!
//! What is put in place was synchronised before, then `publishing`, then the moves, and only then
//! is the transfer complete. So a folder with `publishing` in it holds all that is not in place
//! yet: the next receiver moves the rest, before it does anything else. One without has changed
//! nothing in DIR.
//!
//! The target may be a directory that other users write to. So the folder is this user's alone
//! (0700, checked), it and all in it are reached by descriptors, no link is followed, and files are
//! new or verified to be this user's.

mod folder;
mod room;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, Stat, flock};

pub(crate) use self::folder::{Journal, TransferFolder};
use self::room::Room;
pub(crate) use self::room::{Claim, Reserved};
use crate::beneath::{FileIdentity, Root, sync};
use crate::manifest::{ContentId, Limits, SPOOL};

/// Why there is no folder to receive into.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The file system refuses.
    #[error("cannot write to {}: {source}", .path.display())]
    Io {
        /// The path that cannot be used.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Two receivers would write the same files.
    #[error("another receiver uses {}: give each its own directory", .path.display())]
    InUse {
        /// The target directory.
        path: PathBuf,
    },
    /// What is called `.groupcast` there may have been made by another user, to mislead this one.
    #[error("{}/.groupcast {problem}: remove it, or choose a directory that others cannot write to", .path.display())]
    Untrusted {
        /// The target directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// A target directory with its folder, of one receiver alone.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    target: Root,
    /// Holds the lock.
    folder: Root,
    room: Mutex<Room>,
    /// Whether what is complete is on the disk before it is said to be.
    durable: bool,
}

impl Spool {
    /// The target directory at `path`, made if it is not there. What a receiver that died there has
    /// begun to put in place is finished.
    pub(crate) fn open(path: &Path, limits: &Limits, durable: bool) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError::Io {
            path: path.into(),
            source,
        };
        fs::create_dir_all(path).map_err(|error| {
            let is_other = path.exists() && !path.is_dir();
            failed(match is_other {
                true => io::ErrorKind::NotADirectory.into(),
                false => error,
            })
        })?;
        let mut target = Root::open(path).map_err(failed)?;
        if is_shared(&target.own_stat().map_err(failed)?) {
            tracing::warn!(
                "other users can write to {}: they can replace what arrives there",
                path.display()
            );
        }
        target.make_directory(SPOOL).map_err(failed)?;
        let folder = open_folder(&mut target, path)?;
        flock(
            folder.descriptor(),
            FlockOperation::NonBlockingLockExclusive,
        )
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => SpoolError::InUse { path: path.into() },
            _ => failed(error.into()),
        })?;
        let spool = Self {
            path: path.into(),
            target,
            folder,
            room: Mutex::default(),
            durable,
        };
        spool.remove_streams().map_err(failed)?;
        spool.finish_publications(limits).map_err(failed)?;
        Ok(spool)
    }

    /// Whether what is complete is on the disk before it is said to be.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Finishes what was being put in place when a receiver died. What cannot be finished stays
    /// for the next attempt.
    fn finish_publications(&self, limits: &Limits) -> io::Result<()> {
        for name in self.folder.names()? {
            let folder = TransferFolder {
                spool: self.folder.directory(b".")?,
                name,
            };
            if !folder.is_publishing() {
                continue;
            }
            let path = self.path.display();
            match folder.finish_publishing(&mut self.target()?, limits, self.durable) {
                Ok(_) => tracing::info!("a transfer that was half in place in {path} is complete"),
                Err(problem) => tracing::warn!(
                    "a transfer is half in place in {path}, and the rest cannot be: {problem}"
                ),
            }
        }
        Ok(())
    }

    /// The target directory, to put things in place.
    pub(crate) fn target(&self) -> io::Result<Root> {
        self.target.directory(b".")
    }

    /// Whether the target directory is still where it was when the receiver began.
    pub(crate) fn is_in_place(&self) -> io::Result<bool> {
        let there = rustix::fs::stat(&self.path)?;
        Ok(FileIdentity::of(&there) == FileIdentity::of(&self.target.own_stat()?))
    }

    /// Where the target directory is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the transfer `id`, which may not be there.
    pub(crate) fn folder(&self, id: &ContentId) -> io::Result<TransferFolder> {
        Ok(TransferFolder {
            spool: self.folder.directory(b".")?,
            name: id.short().into_bytes(),
        })
    }

    /// Whether anything of the transfer `id` is kept.
    pub(crate) fn has(&self, id: &ContentId) -> bool {
        self.folder.directory(id.short().as_bytes()).is_ok()
    }

    /// A new file for a stream called `name` until it is complete. One that breaks off is of no
    /// use.
    pub(crate) fn create_stream(&self, name: &str) -> io::Result<File> {
        // With the permissions that it will have in place; the folder keeps others out until then.
        self.folder.directory(b".")?.create(name.as_bytes(), 0o666)
    }

    /// The stream called `name` is complete: it takes its place, under the name `there`.
    pub(crate) fn publish_stream(&self, name: &str, there: &str) -> io::Result<()> {
        if self.durable {
            sync(self.folder.read(name.as_bytes())?)?;
        }
        self.folder
            .rename_to(name.as_bytes(), &self.target, there.as_bytes())?;
        match self.durable {
            true => sync(self.target.descriptor()),
            false => Ok(()),
        }
    }

    /// The stream called `name` broke off.
    pub(crate) fn discard_stream(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name.as_bytes())
    }

    /// Removes the folders of the transfers that broke off longest ago, all but `keep`.
    pub(crate) fn trim(&self, keep: usize) -> io::Result<()> {
        let folders = self.broken_off(&self.room())?;
        let surplus = folders.len().saturating_sub(keep);
        for name in &folders[..surplus] {
            self.folder.remove(name)?;
        }
        Ok(())
    }

    /// The folders of transfers that broke off and are not under way again, the oldest first.
    fn broken_off(&self, room: &Room) -> io::Result<Vec<Vec<u8>>> {
        let mut folders = Vec::new();
        for name in self.folder.names()? {
            // A stream that is under way is a file.
            let Ok(mut folder) = self.folder.directory(&name) else {
                continue;
            };
            let is_half_in_place = matches!(folder.stat(folder::PUBLISHING), Ok(Some(_)));
            if !room.is_claimed(&name) && !is_half_in_place {
                let journal = folder.stat(b"journal").ok().flatten();
                let age = journal.map(|stat| (stat.st_mtime, stat.st_mtime_nsec));
                folders.push((age, name));
            }
        }
        folders.sort();
        Ok(folders.into_iter().map(|(_, name)| name).collect())
    }

    /// The disk has `bytes` for what is kept here.
    #[cfg(test)]
    pub(crate) fn pretend_disk(&self, bytes: u64) {
        self.room().disk = Some(bytes);
    }

    /// Removes what a receiver that was killed left of streams: they cannot be resumed.
    fn remove_streams(&self) -> io::Result<()> {
        for name in self.folder.names()? {
            if self.folder.directory(&name).is_err() {
                self.folder.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // It stays if a transfer that can be resumed is in it.
        let name = Path::new(".groupcast");
        let _ = rustix::fs::unlinkat(self.target.descriptor(), name, AtFlags::REMOVEDIR);
    }
}

/// The folder in `target`, if it is this user's alone.
fn open_folder(target: &mut Root, path: &Path) -> Result<Root, SpoolError> {
    let untrusted = |problem| SpoolError::Untrusted {
        path: path.into(),
        problem,
    };
    let failed = |source| SpoolError::Io {
        path: path.into(),
        source,
    };
    let there = target.stat(SPOOL).map_err(failed)?;
    let kind = there.map(|stat| FileType::from_raw_mode(stat.st_mode));
    if kind.is_some_and(|kind| kind != FileType::Directory) {
        return Err(untrusted("is not a directory"));
    }
    let folder = target.directory(SPOOL).map_err(failed)?;
    let stat = folder.own_stat().map_err(failed)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(untrusted("belongs to another user"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(untrusted("can be written to by other users"));
    }
    // One that could be read by others is closed to them; what is in it is this user's.
    rustix::fs::fchmod(folder.descriptor(), Mode::from_raw_mode(0o700))
        .map_err(|error| failed(error.into()))?;
    Ok(folder)
}

/// Whether users other than this one and root can write to a directory.
fn is_shared(directory: &Stat) -> bool {
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let by_group = directory.st_mode & 0o020 != 0 && directory.st_gid != group;
    let by_owner = directory.st_uid != user && directory.st_uid != 0;
    by_owner || by_group || directory.st_mode & 0o002 != 0
}

#[cfg(test)]
mod tests;
