//! The system calls that change the disk, in one place.
//!
//! Tests record them, to find what a crash after each of them leaves (`power_loss.rs`). Calls that
//! set modes and times are not here, because a crash that loses those loses no content.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

#[cfg(test)]
use crate::power_loss::{Change, note, path_of};

/// Opens `path` below `directory`, and makes the file if `flags` contain CREATE.
pub(super) fn open(
    directory: &OwnedFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let opened = rustix::fs::openat2(directory, path, flags, mode, resolve)?;
    #[cfg(test)]
    if flags.contains(OFlags::CREATE) {
        note(|| Change::File(path_of(directory).join(path)));
    }
    Ok(opened)
}

pub(super) fn make_directory(at: BorrowedFd<'_>, last: &Path, mode: Mode) -> Result<(), Errno> {
    rustix::fs::mkdirat(at, last, mode)?;
    #[cfg(test)]
    note(|| Change::Directory(path_of(at).join(last)));
    Ok(())
}

pub(super) fn make_link(at: BorrowedFd<'_>, last: &Path, target: &Path) -> Result<(), Errno> {
    rustix::fs::symlinkat(target, at, last)?;
    #[cfg(test)]
    note(|| Change::Link(path_of(at).join(last), target.into()));
    Ok(())
}

pub(super) fn unlink(at: BorrowedFd<'_>, last: &Path, flags: AtFlags) -> Result<(), Errno> {
    rustix::fs::unlinkat(at, last, flags)?;
    #[cfg(test)]
    note(|| Change::Remove(path_of(at).join(last)));
    Ok(())
}

pub(super) fn rename(
    from: BorrowedFd<'_>,
    last: &Path,
    to: BorrowedFd<'_>,
    there: &Path,
    flags: RenameFlags,
) -> Result<(), Errno> {
    match flags.is_empty() {
        true => rustix::fs::renameat(from, last, to, there)?,
        false => rustix::fs::renameat_with(from, last, to, there, flags)?,
    }
    #[cfg(test)]
    note(|| Change::Rename(path_of(from).join(last), path_of(to).join(there)));
    Ok(())
}

/// Writes `bytes` at `offset` of `file`.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    #[cfg(test)]
    note(|| Change::Write(path_of(file), offset, bytes.to_vec()));
    Ok(())
}

/// Writes `bytes` at the end of `file`, which was new when it was opened.
pub(crate) fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    let end = file.metadata()?.len();
    file.write_all(bytes)?;
    #[cfg(test)]
    note(|| Change::Write(path_of(&*file), end, bytes.to_vec()));
    Ok(())
}

/// Returns when the bytes of a file, or the names in a directory, are on the disk.
pub(crate) fn sync(opened: impl AsFd) -> io::Result<()> {
    rustix::fs::fsync(&opened)?;
    #[cfg(test)]
    note(|| Change::Sync(path_of(&opened)));
    Ok(())
}

/// Returns when everything that was written to the file system of `opened` is on its disk. Linux
/// 5.8 and later report write errors since it was opened.
pub(super) fn sync_file_system(opened: impl AsFd) -> io::Result<()> {
    rustix::fs::syncfs(&opened)?;
    #[cfg(test)]
    note(|| Change::SyncAll(path_of(&opened)));
    Ok(())
}
