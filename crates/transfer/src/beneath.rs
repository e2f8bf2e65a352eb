//! Paths below a directory, never outside of it: no link and no `..` is followed, whatever others
//! put there meanwhile.
//!
//! Every call goes through a descriptor of the directory; the kernel resolves the rest beneath it
//! (openat2). A file whose metadata are changed is opened first and changed by its descriptor, so
//! that no other file can take its place in between. No path leads to another file system, because
//! nothing could be moved there.

mod calls;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat,
    StatxAttributes, StatxFlags, Timespec, Timestamps,
};
use rustix::io::Errno;

pub(crate) use self::calls::{append, sync, write_at};
use crate::manifest::{Timestamp, parent};

/// The identity of a file or directory, whatever its name: device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// The number of the inode.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }
}

/// A directory, by descriptor.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    /// The parent that was used last, because entries of one directory come one after the other.
    last: Option<(Vec<u8>, OwnedFd)>,
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl Root {
    /// Opens the existing directory at `path`; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Self {
            directory,
            last: None,
        })
    }

    /// Opens the existing directory at `path` below this one.
    pub(crate) fn directory(&self, path: &[u8]) -> io::Result<Self> {
        Ok(Self {
            directory: self.open_at(path, DIRECTORY)?,
            last: None,
        })
    }

    /// The descriptor, to lock it or to query its file system.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The metadata of this directory.
    pub(crate) fn own_stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.directory)?)
    }

    /// Opens the file at `path`, which must be a file of this user alone, to read.
    pub(crate) fn read(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        own_file(self.open_at(path, flags)?)
    }

    /// Opens the file at `path` to write, and makes it, for the owner only, if it does not exist.
    /// An existing one must be a file of this user alone.
    pub(crate) fn write(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o600);
        let file = calls::open(&self.directory, name(path), flags, mode, RESOLVE)?;
        own_file(file)
    }

    /// Makes a new file at `path` with permissions `mode`, less the process's mask. Removes what is
    /// there before, unless it is a directory.
    pub(crate) fn create(&mut self, path: &[u8], mode: u16) -> io::Result<File> {
        self.remove_file(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode.into());
        let file = calls::open(&self.directory, name(path), flags, mode, RESOLVE)?;
        Ok(file.into())
    }

    /// Removes the file or link at `path`, if it exists.
    pub(crate) fn remove_file(&mut self, path: &[u8]) -> io::Result<()> {
        let removed = self.in_parent(path, |parent, last| {
            calls::unlink(parent, last, AtFlags::empty())
        });
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Makes a new file at `path`, for the owner only, that holds `bytes`.
    pub(crate) fn create_with(&mut self, path: &[u8], bytes: &[u8]) -> io::Result<File> {
        let mut file = self.create(path, 0o600)?;
        append(&mut file, bytes)?;
        Ok(file)
    }

    /// Returns when everything that was written to this file system, by any process, is on its
    /// disk.
    pub(crate) fn sync_file_system(&self) -> io::Result<()> {
        calls::sync_file_system(&self.directory)
    }

    /// Makes a directory for the owner only; an existing one stays.
    pub(crate) fn make_directory(&mut self, path: &[u8]) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o700);
        match self.in_parent(path, |parent, last| {
            calls::make_directory(parent, last, mode)
        }) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Makes a symbolic link, in place of an existing file or link.
    pub(crate) fn make_link(&mut self, path: &[u8], target: &[u8]) -> io::Result<()> {
        self.in_parent(path, |parent, last| {
            match calls::make_link(parent, last, name(target)) {
                Err(Errno::EXIST) => {
                    calls::unlink(parent, last, AtFlags::empty())?;
                    calls::make_link(parent, last, name(target))
                }
                other => other,
            }
        })
    }

    /// The metadata of what is at `path`, links not followed; `None` if there is nothing.
    pub(crate) fn stat(&mut self, path: &[u8]) -> io::Result<Option<Stat>> {
        let found = self.in_parent(path, |parent, last| {
            rustix::fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW)
        });
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Why nothing can be moved to `path`, or why what is there cannot be replaced, as far as that
    /// can be known before. If its directory `is_opened` before the move, its mode is no reason.
    pub(crate) fn obstacle(
        &mut self,
        path: &[u8],
        is_opened: bool,
    ) -> io::Result<Option<&'static str>> {
        let found = self.in_parent(path, |parent, last| {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            match rustix::fs::accessat(parent, ".", access, AtFlags::EACCESS) {
                Err(Errno::ACCESS) if is_opened => {}
                Err(Errno::ACCESS) => return Ok(Some("its directory cannot be written to")),
                // A kernel before 5.8 cannot say, and some containers forbid the question.
                Err(Errno::NOSYS) => {}
                Err(Errno::PERM) if !is_immutable(parent) => {}
                Err(Errno::ROFS) => return Ok(Some("its file system cannot be written to")),
                other => other?,
            }
            let above = rustix::fs::fstat(parent)?;
            let mask = StatxFlags::BASIC_STATS;
            let there = match rustix::fs::statx(parent, last, AtFlags::SYMLINK_NOFOLLOW, mask) {
                Ok(there) => there,
                Err(Errno::NOENT | Errno::NOSYS) => return Ok(None),
                Err(error) => return Err(error),
            };
            let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
            if there.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
                return Ok(Some("another file system is mounted there"));
            }
            if there.stx_attributes.intersects(fixed) {
                return Ok(Some("what is there is marked as not to be changed"));
            }
            let own = rustix::process::geteuid().as_raw();
            let is_kept = own != 0 && above.st_mode & 0o1000 != 0;
            let is_others = there.stx_uid != own && above.st_uid != own;
            let problem = "another user's file is there, in a directory that keeps it his";
            Ok((is_kept && is_others).then_some(problem))
        });
        match found {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::XDEV) => {
                Ok(Some("another file system is mounted above it"))
            }
            other => other,
        }
    }

    /// The target of the symbolic link at `path`.
    pub(crate) fn link_target(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.in_parent(path, |parent, last| {
            Ok(rustix::fs::readlinkat(parent, last, Vec::new())?.into_bytes())
        })
    }

    /// The names in this directory.
    pub(crate) fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Tells `each` what is in this directory, links not followed, until it says no. What goes
    /// meanwhile is left out.
    pub(crate) fn each_entry(&self, mut each: impl FnMut(&[u8], &Stat) -> bool) -> io::Result<()> {
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let last = entry.file_name().to_bytes();
            if last == b"." || last == b".." {
                continue;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(stat) = rustix::fs::statat(&self.directory, name(last), flags) else {
                continue;
            };
            if !each(last, &stat) {
                break;
            }
        }
        Ok(())
    }

    /// Removes the entry `last` of this directory, and everything below it, if it exists.
    pub(crate) fn remove(&self, last: &[u8]) -> io::Result<()> {
        let removed = calls::unlink(self.directory.as_fd(), name(last), AtFlags::empty());
        match removed {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // The errors of unlink for a directory: of Linux, and of POSIX.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let below = self.directory(last)?;
        for name in below.names()? {
            below.remove(&name)?;
        }
        calls::unlink(self.directory.as_fd(), name(last), AtFlags::REMOVEDIR)?;
        Ok(())
    }

    /// The bytes that the entry `last` of this directory, and everything below it, take on the
    /// disk.
    pub(crate) fn size(&self, last: &[u8]) -> io::Result<u64> {
        let stat = rustix::fs::statat(&self.directory, name(last), AtFlags::SYMLINK_NOFOLLOW)?;
        // `st_blocks` counts blocks of 512 bytes, whatever the file system's block size is.
        let own = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(own);
        }
        let below = self.directory(last)?;
        let names = below.names()?.into_iter();
        let sizes: io::Result<u64> = names.map(|name| below.size(&name)).sum();
        Ok(own + sizes?)
    }

    /// How many files, directories and links the entry `last` of this directory is, with everything
    /// below it.
    pub(crate) fn count(&self, last: &[u8]) -> io::Result<u64> {
        let stat = rustix::fs::statat(&self.directory, name(last), AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(1);
        }
        let below = self.directory(last)?;
        let names = below.names()?.into_iter();
        let counts: io::Result<u64> = names.map(|name| below.count(&name)).sum();
        Ok(1 + counts?)
    }

    /// Moves the file `last` of this directory into the directory `to`, as `there`. Replaces an
    /// existing file.
    pub(crate) fn rename_to(&self, last: &[u8], to: &Self, there: &[u8]) -> io::Result<()> {
        let (from, to) = (self.directory.as_fd(), to.directory.as_fd());
        let flags = RenameFlags::empty();
        Ok(calls::rename(from, name(last), to, name(there), flags)?)
    }

    /// Moves `path` of this directory to the same path of `to`, in one step. Replaces what is
    /// there, unless `fresh`.
    pub(crate) fn move_to(&mut self, to: &mut Self, path: &[u8], fresh: bool) -> io::Result<()> {
        let flags = match fresh {
            true => RenameFlags::NOREPLACE,
            false => RenameFlags::empty(),
        };
        self.in_parent(path, |from, last| {
            to.in_parent(path, |to, _| {
                match calls::rename(from, last, to, last, flags) {
                    // Some file systems do not know the flag.
                    Err(Errno::INVAL) if fresh => {
                        calls::rename(from, last, to, last, RenameFlags::empty())
                    }
                    other => other,
                }
            })
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })
    }

    /// Sets permissions and modification time of the file or directory at `path`, which must have
    /// this `identity`.
    ///
    /// # Errors
    /// Those of the system; also if this user may not read it and `/proc` is not mounted.
    pub(crate) fn set_metadata(
        &mut self,
        path: &[u8],
        mode: u16,
        modified: Timestamp,
        identity: FileIdentity,
    ) -> io::Result<()> {
        let (mode, times) = (Mode::from_raw_mode(mode.into()), timestamps(modified));
        match self.open_itself(path, OFlags::RDONLY | OFlags::NONBLOCK, identity) {
            Ok(opened) => {
                rustix::fs::fchmod(&opened, mode)?;
                rustix::fs::futimens(&opened, &times)?;
            }
            // Its owner may change what he may not read. A descriptor that stands for a place only
            // takes no changes; the name that the system has for it leads to the same file.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let opened = self.open_itself(path, OFlags::PATH, identity)?;
                let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
                rustix::fs::chmod(&itself, mode)?;
                rustix::fs::utimensat(CWD, &itself, &times, AtFlags::empty())?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Opens the file or directory at `path`, which must have this `identity`.
    fn open_itself(
        &mut self,
        path: &[u8],
        flags: OFlags,
        identity: FileIdentity,
    ) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = self.in_parent(path, |parent, last| {
            rustix::fs::openat(parent, last, flags, Mode::empty())
        })?;
        match FileIdentity::of(&rustix::fs::fstat(&opened)?) == identity {
            true => Ok(opened),
            false => Err(io::Error::other("something else has taken its place")),
        }
    }

    /// Sets the modification time of the link at `path`, not of what it points to.
    pub(crate) fn set_link_modified(&mut self, path: &[u8], modified: Timestamp) -> io::Result<()> {
        let times = timestamps(modified);
        self.in_parent(path, |parent, last| {
            rustix::fs::utimensat(parent, last, &times, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    fn open_at(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let opened = calls::open(&self.directory, name(path), flags, Mode::empty(), RESOLVE)?;
        Ok(opened)
    }

    /// Calls `act` with the parent directory of `path` and the last name of `path`.
    fn in_parent<T>(
        &mut self,
        path: &[u8],
        act: impl FnOnce(BorrowedFd<'_>, &Path) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let Some(above) = parent(path) else {
            return Ok(act(self.directory.as_fd(), name(path))?);
        };
        let last = name(&path[above.len() + 1..]);
        if let Some((known, directory)) = &self.last
            && known == above
        {
            return Ok(act(directory.as_fd(), last)?);
        }
        let directory = self.open_at(above, DIRECTORY)?;
        let done = act(directory.as_fd(), last)?;
        self.last = Some((above.to_vec(), directory));
        Ok(done)
    }

    /// Forgets the parent that was used last: directories are about to move.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

/// Whether nothing can be put into this directory, whatever its mode; false if nobody can say.
fn is_immutable(directory: BorrowedFd<'_>) -> bool {
    let asked = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    asked.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::IMMUTABLE))
}

/// `opened` as a file, if only this user can have made it: a regular file of this user with one
/// name.
fn own_file(opened: OwnedFd) -> io::Result<File> {
    let stat = rustix::fs::fstat(&opened)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_nlink != 1 {
        let problem = "it is not a file of this user alone";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(opened.into())
}

/// The times to set: `modified` as modification time, now as access time.
pub(crate) fn timestamps(modified: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        },
        last_modification: Timespec {
            tv_sec: modified.seconds,
            tv_nsec: modified.nanoseconds.into(),
        },
    }
}

fn name(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn links_are_never_followed() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("outside")).unwrap();
        fs::create_dir_all(scratch.path("root/in")).unwrap();
        symlink(scratch.path("outside"), scratch.path("root/out")).unwrap();
        fs::write(scratch.path("outside/f"), "secret").unwrap();
        symlink(scratch.path("outside/f"), scratch.path("root/in/f")).unwrap();

        let mut root = Root::open(&scratch.path("root")).unwrap();
        assert!(root.write(b"out/new").is_err());
        assert!(root.write(b"in/f").is_err());
        assert!(root.read(b"in/f").is_err());
        assert!(root.read(b"../outside/f").is_err());
        assert!(root.make_directory(b"out/d").is_err());
        assert!(root.make_link(b"out/l", b"x").is_err());
        root.make_link(b"in/f", b"x").unwrap();
        assert_eq!(fs::read(scratch.path("outside/f")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(scratch.path("outside")).unwrap().count(), 1);
    }
    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn metadata_is_set_of_what_was_meant_and_of_nothing_that_took_its_place() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("root/d")).unwrap();
        fs::write(scratch.path("victim"), "secret").unwrap();
        fs::set_permissions(scratch.path("victim"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut root = Root::open(&scratch.path("root")).unwrap();
        let identity = FileIdentity::of(&root.stat(b"d").unwrap().unwrap());
        let modified = Timestamp {
            seconds: 1,
            nanoseconds: 0,
        };
        root.set_metadata(b"d", 0o711, modified, identity).unwrap();
        assert_eq!(mode(&scratch.path("root/d")), 0o711);

        fs::rename(scratch.path("root/d"), scratch.path("moved")).unwrap();
        symlink(scratch.path("victim"), scratch.path("root/d")).unwrap();
        assert!(root.set_metadata(b"d", 0o755, modified, identity).is_err());
        fs::remove_file(scratch.path("root/d")).unwrap();
        fs::create_dir(scratch.path("root/d")).unwrap();
        assert!(root.set_metadata(b"d", 0o755, modified, identity).is_err());
        assert_eq!(mode(&scratch.path("victim")), 0o600);
        assert_eq!(mode(&scratch.path("moved")), 0o711);
    }

    #[test]
    fn a_file_with_a_second_name_is_not_written() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("root")).unwrap();
        fs::write(scratch.path("victim"), "secret").unwrap();
        fs::hard_link(scratch.path("victim"), scratch.path("root/f")).unwrap();
        let mut root = Root::open(&scratch.path("root")).unwrap();
        assert!(root.write(b"f").is_err());
        root.create_with(b"f", b"new").unwrap();
        assert_eq!(fs::read(scratch.path("victim")).unwrap(), b"secret");
        assert_eq!(fs::read(scratch.path("root/f")).unwrap(), b"new");
    }

    #[test]
    fn a_tree_is_removed_without_following_its_links() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("root/t/a/b")).unwrap();
        fs::create_dir_all(scratch.path("outside")).unwrap();
        fs::write(scratch.path("outside/f"), "kept").unwrap();
        symlink(scratch.path("outside"), scratch.path("root/t/a/link")).unwrap();
        fs::write(scratch.path("root/t/a/b/f"), "").unwrap();
        let root = Root::open(&scratch.path("root")).unwrap();
        root.remove(b"t").unwrap();
        root.remove(b"t").unwrap();
        assert!(root.names().unwrap().is_empty());
        assert_eq!(fs::read(scratch.path("outside/f")).unwrap(), b"kept");
    }
}
