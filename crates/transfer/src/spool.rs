//! The receiver's own folder in its target directory: the data of transfers that are not complete.
//!
//! ```text
//! DIR/.groupcast/                 locked by the receiver that uses it
//!     0123456789abcdef/           one transfer, called by the first bytes of its content id
//!         manifest                as it was received
//!         journal                 36 bytes for each chunk that was verified and written: number (4), hash (32)
//!         journal.new             the next journal, before it takes that name
//!         tree/                   the staging tree
//!         publishing              is there while the tree is moved into DIR; names files that only get their mode and time
//! ```
//!
//! A transfer that breaks off leaves its folder. The next one of the same content begins with the
//! chunks that the journal names and whose bytes in the tree have the same hash. It begins its
//! journal anew, and puts it in the place of the former one in one step: a receiver that is stopped
//! meanwhile loses nothing of what is kept. What comes after that is not synchronised with the
//! disk: a chunk that a crash of the machine loses is not in the journal or fails its hash, and is
//! sent again. A complete transfer leaves nothing.
//!
//! First the staging tree loses what it has of files that stay in DIR as they are, and is
//! synchronised with the disk, then `publishing`, then the moves; only then is the transfer
//! complete. So a folder with `publishing` in it holds everything that is not in place yet, and the
//! next receiver moves the rest before it does anything else. A transfer without `publishing` has
//! changed nothing in DIR.
//!
//! Other users may be able to write to the target. So the folder is this user's alone (0700,
//! checked); it and everything in it are reached by descriptors; no link is followed; and files are
//! new, or checked to be this user's.

mod folder;
mod home;
mod room;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use groupcast_core::text::printable;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, Stat, flock};
use rustix::io::Errno;

pub(crate) use self::folder::{Finished, Journal, TransferFolder};
pub(crate) use self::home::Home;
use self::room::Room;
pub(crate) use self::room::{Claim, Reserved};
use crate::beneath::{FileIdentity, Root, append, sync};
use crate::manifest::{ContentId, Limits, SPOOL};
#[cfg(test)]
use crate::power_loss::{Change, note};
use crate::publish::Instant;
use crate::warnings::Warnings;

/// Why the target directory cannot be used.
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
    /// Another user may have made the entry `.groupcast` there, to mislead this one.
    #[error("{}/.groupcast {problem}: remove it, or choose a directory that others cannot write to", .path.display())]
    Untrusted {
        /// The target directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Where a target directory is.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// Leads this process, and one that it starts, to it whatever its path is.
    pub(crate) way: PathBuf,
    /// Its path, for people and programs.
    pub(crate) path: PathBuf,
}

/// The file of a stream that is not complete, for appending.
#[derive(Debug)]
pub(crate) struct StreamFile(File);

impl Write for StreamFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        append(&mut self.0, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A target directory with its folder, in use by one receiver.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    target: Root,
    /// Holds the lock.
    folder: Root,
    room: Mutex<Room>,
    /// Held while something is put in place: what stands there when the moves are planned stands
    /// there until they are made, as far as this receiver is concerned.
    placing: Mutex<()>,
    /// Whether transfers are synchronised with the disk before they are reported complete.
    durable: bool,
    /// Whether other users could write to the target when it was opened.
    is_shared: bool,
    warnings: Arc<Warnings>,
}

impl Spool {
    /// Opens the target directory at `path`, and makes it if it does not exist. Finishes
    /// publications that a receiver that died there had begun.
    #[cfg(test)]
    pub(crate) fn open(path: &Path, limits: &Limits, durable: bool) -> Result<Self, SpoolError> {
        Self::open_and_warn(path, limits, durable, Arc::default())
    }

    /// The same; what its user could do something about goes to `warnings`.
    pub(crate) fn open_and_warn(
        path: &Path,
        limits: &Limits,
        durable: bool,
        warnings: Arc<Warnings>,
    ) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError::Io {
            path: path.into(),
            source,
        };
        make_directories(path).map_err(|error| {
            let is_link = path.is_symlink() && !path.exists();
            let is_other = path.exists() && !path.is_dir();
            failed(match (is_link, is_other) {
                (true, _) => io::Error::other("it is a symbolic link that leads nowhere"),
                (_, true) => io::ErrorKind::NotADirectory.into(),
                _ => error,
            })
        })?;
        let mut target = Root::open(path).map_err(failed)?;
        let is_shared = is_shared(&target.own_stat().map_err(failed)?);
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
            placing: Mutex::default(),
            durable,
            is_shared,
            warnings,
        };
        spool.remove_streams().map_err(failed)?;
        spool.finish_publications(limits).map_err(failed)?;
        Ok(spool)
    }

    /// Tells the user of something that goes on in spite of it.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.add(warning);
    }

    /// Whether transfers are synchronised with the disk before they are reported complete.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Finishes the publications that a receiver that died had begun. One that cannot be finished
    /// stays for the next attempt.
    fn finish_publications(&self, limits: &Limits) -> io::Result<()> {
        for name in self.folder.names()? {
            let folder = TransferFolder {
                spool: self.folder.directory(b".")?,
                name,
            };
            if !folder.is_publishing()? {
                continue;
            }
            let path = self.path.display();
            match folder.finish_publishing(&mut self.target()?, limits, self.durable) {
                Ok(Finished::Moved) => {
                    tracing::info!("a transfer that was half in place in {path} is complete");
                }
                Ok(Finished::WasInPlace) => {
                    tracing::info!("what a complete transfer had left in {path} is removed");
                }
                Ok(Finished::Damaged) => self.warn(format!(
                    "a transfer is half in place in {path}, and its list of files is damaged: send the \
                     same files again, or remove .groupcast/{} there",
                    printable(&folder.name)
                )),
                Err(problem) => self.warn(format!(
                    "a transfer is half in place in {path}, and the rest cannot be: {problem}"
                )),
            }
        }
        Ok(())
    }

    /// The turn to put things in place: one transfer at a time.
    pub(crate) fn placing(&self) -> MutexGuard<'_, ()> {
        self.placing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The target directory, to put things in place.
    pub(crate) fn target(&self) -> io::Result<Root> {
        self.target.directory(b".")
    }

    /// Whether the path still leads to the target directory that was opened.
    pub(crate) fn is_in_place(&self) -> io::Result<bool> {
        let there = rustix::fs::stat(&self.path)?;
        Ok(FileIdentity::of(&there) == FileIdentity::of(&self.target.own_stat()?))
    }

    /// Where the target directory is now: another one may have its path, if it was moved.
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let number = self.target.descriptor().as_raw_fd();
        let by_descriptor = PathBuf::from(format!("/proc/self/fd/{number}"));
        let given = || std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let path = match self.is_in_place() {
            Ok(true) => given(),
            _ => fs::read_link(&by_descriptor).unwrap_or_else(|_| given()),
        };
        // Without /proc only the path is left.
        let way = match by_descriptor.exists() {
            true => by_descriptor,
            false => path.clone(),
        };
        Whereabouts { way, path }
    }

    /// Whether the names of the target directory and of its folder still lead to those that were
    /// opened. What cannot be looked at counts as there.
    fn is_there(&self) -> bool {
        let is_gone = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            )
        };
        match self.is_in_place() {
            Ok(is_there) => is_there && self.has_folder(),
            Err(error) => !is_gone(&error),
        }
    }

    /// Whether the folder in the target directory is this one.
    fn has_folder(&self) -> bool {
        let there = rustix::fs::statat(
            self.target.descriptor(),
            own_name(),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        let own = self.folder.own_stat();
        match (there, own) {
            (Ok(there), Ok(own)) => FileIdentity::of(&there) == FileIdentity::of(&own),
            (Err(error), _) => error != Errno::NOENT,
            (_, Err(_)) => true,
        }
    }

    /// The path of the target directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether other users could write to the target directory when it was opened.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The folder of the transfer `id`, which may not exist.
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

    /// Makes a new file `name` for the stream of a pipe, until it is complete.
    pub(crate) fn create_stream(&self, name: &str) -> io::Result<StreamFile> {
        // It has the permissions that it will have in place; the folder keeps others out until
        // then.
        let mut folder = self.folder.directory(b".")?;
        folder.create(name.as_bytes(), 0o666).map(StreamFile)
    }

    /// The stream in the file `name` is complete: moves it into the target as `there`. Returns when
    /// what was there had been put there, or changed last.
    ///
    /// With the file system also the names of the target and of the directories above it are on the
    /// disk then: a receiver may just have made them.
    pub(crate) fn publish_stream(&self, name: &str, there: &str) -> io::Result<Option<Instant>> {
        if self.durable {
            sync(self.folder.read(name.as_bytes())?)?;
        }
        let _turn = self.placing();
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let replaced = rustix::fs::statat(self.target.descriptor(), there, flags);
        let replaced = replaced.ok().map(|it| (it.st_ctime, it.st_ctime_nsec));
        self.folder
            .rename_to(name.as_bytes(), &self.target, there.as_bytes())?;
        if self.durable {
            self.target.sync_file_system()?;
        }
        Ok(replaced)
    }

    /// The stream in the file `name` broke off: removes it.
    pub(crate) fn discard_stream(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name.as_bytes())
    }

    /// Removes the folders of transfers that broke off, the oldest first, until `keep` are left.
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
            // A file is a stream under way.
            let Ok(mut folder) = self.folder.directory(&name) else {
                continue;
            };
            let is_half_in_place = matches!(folder.stat(folder::PUBLISHING), Ok(Some(_)));
            if !room.is_claimed(&name) && !is_half_in_place {
                let journal = folder.stat(folder::JOURNAL).ok().flatten();
                let age = journal.map(|stat| (stat.st_mtime, stat.st_mtime_nsec));
                folders.push((age, name));
            }
        }
        folders.sort();
        Ok(folders.into_iter().map(|(_, name)| name).collect())
    }

    /// Whether a transfer of `id` is under way.
    #[cfg(test)]
    pub(crate) fn is_claimed(&self, id: &ContentId) -> bool {
        self.room().is_claimed(id.short().as_bytes())
    }

    /// Pretends that the disk has `bytes` for this folder.
    #[cfg(test)]
    pub(crate) fn pretend_disk(&self, bytes: u64) {
        self.room().disk = Some(bytes);
    }

    /// Pretends that the disk has places for so many files in this folder.
    #[cfg(test)]
    pub(crate) fn pretend_places(&self, files: u64) {
        self.room().places = Some(files);
    }

    /// Removes streams that a killed receiver has left: they cannot be resumed.
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
        // The folder stays if it is not empty: a transfer can be resumed. One that was made in its
        // place belongs to another spool.
        if self.has_folder() {
            let _ = rustix::fs::unlinkat(self.target.descriptor(), own_name(), AtFlags::REMOVEDIR);
        }
    }
}

/// The name of a receiver's own folder, as a path.
fn own_name() -> &'static Path {
    Path::new(OsStr::from_bytes(SPOOL))
}

/// Makes the directory `path`, with those above it, if they are not there.
fn make_directories(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    let missing: Vec<_> = path.ancestors().take_while(|it| !it.exists()).collect();
    fs::create_dir_all(path)?;
    #[cfg(test)]
    for made in missing.into_iter().rev() {
        note(|| Change::Directory(made.into()));
    }
    Ok(())
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
    // A folder of an earlier version that others can read is closed to them.
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
