//! Paths below a directory, and never outside of it: no link is followed, no `..`, whatever somebody puts there meanwhile.
//!
//! Every call goes through a descriptor of the directory; the kernel resolves the rest beneath it (openat2).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps,
};
use rustix::io::Errno;

use crate::manifest::{Timestamp, parent};

/// A directory, by descriptor.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    /// The parent used last: entries of one directory come one after the other.
    last: Option<(Vec<u8>, OwnedFd)>,
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl Root {
    /// The existing directory at `path`; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Self {
            directory,
            last: None,
        })
    }

    /// Opens the file at `path` to read.
    pub(crate) fn read(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(self.open_at(path, flags)?.into())
    }

    /// Opens the file at `path` to write, and makes it if it is not there, for the owner only.
    pub(crate) fn write(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let file = rustix::fs::openat2(&self.directory, name(path), flags, mode, RESOLVE)?;
        Ok(file.into())
    }

    /// Makes a directory for the owner only; one that is there stays.
    pub(crate) fn make_directory(&mut self, path: &[u8]) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o700);
        match self.in_parent(path, |parent, last| rustix::fs::mkdirat(parent, last, mode)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Makes a symbolic link; one that is there is replaced.
    pub(crate) fn make_link(&mut self, path: &[u8], target: &[u8]) -> io::Result<()> {
        self.in_parent(path, |parent, last| {
            match rustix::fs::symlinkat(name(target), parent, last) {
                Err(Errno::EXIST) => {
                    rustix::fs::unlinkat(parent, last, AtFlags::empty())?;
                    rustix::fs::symlinkat(name(target), parent, last)
                }
                other => other,
            }
        })
    }

    /// What is at `path`, links not followed; `None` if there is nothing.
    pub(crate) fn kind(&mut self, path: &[u8]) -> io::Result<Option<FileType>> {
        let found = self.in_parent(path, |parent, last| {
            rustix::fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW)
        });
        match found {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves `path` of this directory to the same path of `to`, in one step. What is there is replaced, unless `fresh`.
    pub(crate) fn move_to(&mut self, to: &mut Self, path: &[u8], fresh: bool) -> io::Result<()> {
        let flags = match fresh {
            true => RenameFlags::NOREPLACE,
            false => RenameFlags::empty(),
        };
        self.in_parent(path, |from, last| {
            to.in_parent(path, |to, _| {
                match rustix::fs::renameat_with(from, last, to, last, flags) {
                    // Some file systems do not know the flag.
                    Err(Errno::INVAL) if fresh => rustix::fs::renameat(from, last, to, last),
                    other => other,
                }
            })
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })
    }

    /// Sets the permissions of the file or directory at `path`.
    pub(crate) fn set_mode(&mut self, path: &[u8], mode: u16) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode.into());
        self.in_parent(path, |parent, last| {
            rustix::fs::chmodat(parent, last, mode, AtFlags::empty())
        })
    }

    /// Sets when the entry at `path` was modified, a link itself and not what it points to.
    pub(crate) fn set_modified(&mut self, path: &[u8], modified: Timestamp) -> io::Result<()> {
        let times = timestamps(modified);
        self.in_parent(path, |parent, last| {
            rustix::fs::utimensat(parent, last, &times, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    fn open_at(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let opened =
            rustix::fs::openat2(&self.directory, name(path), flags, Mode::empty(), RESOLVE)?;
        Ok(opened)
    }

    /// Calls `act` with the directory that `path` lies in and the last name of `path`.
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

    /// Forgets the parent used last: directories are about to move.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

/// `modified` as modification time; the time of access is now.
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
    use std::os::unix::fs::symlink;

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
}
