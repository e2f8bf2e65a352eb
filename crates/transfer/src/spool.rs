//! The receiver's own folder in its target directory: what has arrived of transfers that are not
//! complete.
//!
//! ```text
//! DIR/.groupcast/                 locked by the receiver that uses it
//!     0123456789abcdef/           one transfer, called by the first bytes of its content id
//!         manifest                as it was received
//!         journal                 36 bytes for each chunk that was verified and written: number (4), hash (32)
//!         tree/                   the staging tree
//! ```
//!
//! A transfer that breaks off leaves its folder; the next one of the same content begins with what
//! the journal says and the tree confirms, byte for byte. The journal is not synchronised with the
//! disk: what a crash of the machine loses fails its hash and is sent again. A complete transfer
//! leaves nothing.
//!
//! The target may be a directory that other users write to. So the folder is this user's alone
//! (0700, checked), it and all in it are reached by descriptors, no link is followed, and files are
//! new or verified to be this user's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, Stat, flock};

use crate::about::{HASH, Layout};
use crate::beneath::{FileIdentity, Root};
use crate::content::content_id;
use crate::manifest::{ContentId, SPOOL};

/// Why there is no folder to receive into.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The file system refuses.
    #[error("cannot write to {}: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
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
}

impl Spool {
    /// The target directory at `path`, made if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError::Io {
            path: path.into(),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
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
        };
        spool.remove_streams().map_err(failed)?;
        Ok(spool)
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

    /// Bytes that the file system has left for this user.
    pub(crate) fn free(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.folder.descriptor())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
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
        self.folder
            .rename_to(name.as_bytes(), &self.target, there.as_bytes())
    }

    /// The stream called `name` broke off.
    pub(crate) fn discard_stream(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name.as_bytes())
    }

    /// Removes the folders of the transfers that broke off longest ago, all but `keep` of those not
    /// `in_use`.
    pub(crate) fn trim(&self, keep: usize, in_use: &[ContentId]) -> io::Result<()> {
        let in_use: Vec<Vec<u8>> = in_use.iter().map(|id| id.short().into_bytes()).collect();
        let mut folders = Vec::new();
        for name in self.folder.names()? {
            // A stream that is under way is a file.
            let Ok(mut folder) = self.folder.directory(&name) else {
                continue;
            };
            if !in_use.contains(&name) {
                let journal = folder.stat(b"journal").ok().flatten();
                let age = journal.map(|stat| (stat.st_mtime, stat.st_mtime_nsec));
                folders.push((age, name));
            }
        }
        folders.sort();
        let surplus = folders.len().saturating_sub(keep);
        for (_, name) in &folders[..surplus] {
            self.folder.remove(name)?;
        }
        Ok(())
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

/// What is kept of one transfer.
#[derive(Debug)]
pub(crate) struct TransferFolder {
    spool: Root,
    name: Vec<u8>,
}

impl TransferFolder {
    fn open(&self) -> io::Result<Root> {
        self.spool.directory(&self.name)
    }

    /// The manifest, if it was received whole and is that of `id`.
    pub(crate) fn manifest(&self, id: &ContentId, len: u32) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = self.open().ok()?.read(b"manifest").ok()?;
        file.take(u64::from(len) + 1).read_to_end(&mut bytes).ok()?;
        (content_id(&bytes) == *id).then_some(bytes)
    }

    /// Begins anew with `manifest`.
    pub(crate) fn begin(&mut self, manifest: &[u8]) -> io::Result<()> {
        self.remove()?;
        self.spool.make_directory(&self.name)?;
        let mut folder = self.open()?;
        folder.make_directory(b"tree")?;
        folder.create_with(b"manifest", manifest)
    }

    /// The staging tree.
    pub(crate) fn tree(&self) -> io::Result<Root> {
        let mut folder = self.open()?;
        folder.make_directory(b"tree")?;
        folder.directory(b"tree")
    }

    /// What the journal says: the hashes of the chunks that were written. A torn last record is
    /// none.
    pub(crate) fn journal(&self, layout: &Layout) -> io::Result<BTreeMap<u64, blake3::Hash>> {
        let mut bytes = Vec::new();
        match self.open().and_then(|folder| folder.read(b"journal")) {
            Ok(file) => {
                // Each chunk is written once; a journal that is longer is none of ours.
                let max = layout.chunks().saturating_mul(Journal::RECORD as u64);
                file.take(max).read_to_end(&mut bytes)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(bytes
            .chunks_exact(Journal::RECORD)
            .filter_map(|record| {
                let (index, hash) = record.split_at(4);
                let index = u32::from_be_bytes(index.try_into().ok()?).into();
                let hash: [u8; HASH as usize] = hash.try_into().ok()?;
                (index < layout.chunks()).then_some((index, hash.into()))
            })
            .collect())
    }

    /// Begins the journal anew with `records`.
    pub(crate) fn open_journal(
        &self,
        records: &BTreeMap<u64, blake3::Hash>,
    ) -> io::Result<Journal> {
        let mut journal = Journal {
            file: self.open()?.create(b"journal", 0o600)?,
        };
        for (index, hash) in records {
            journal.append(*index, hash)?;
        }
        Ok(journal)
    }

    /// Removes everything.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.spool.remove(&self.name)
    }
}

/// Which chunks are written, for a receiver that resumes the transfer later.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

impl Journal {
    /// Bytes of a record.
    const RECORD: usize = 4 + HASH as usize;
    /// The most chunks whose numbers a record holds.
    pub(crate) const CHUNKS_MAX: u64 = 1 << 32;

    /// Chunk `index` with this hash is written.
    pub(crate) fn append(&mut self, index: u64, hash: &blake3::Hash) -> io::Result<()> {
        let mut record = [0; Self::RECORD];
        let number = u32::try_from(index).map_err(|_| io::ErrorKind::FileTooLarge)?;
        record[..4].copy_from_slice(&number.to_be_bytes());
        record[4..].copy_from_slice(hash.as_bytes());
        self.file.write_all(&record)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use super::*;
    use crate::scratch::Scratch;

    const LAYOUT: Layout = Layout {
        manifest: 4,
        content: 100 * 4096,
        chunk: 4096,
    };

    #[test]
    fn a_directory_belongs_to_one_receiver_and_is_left_clean() {
        let scratch = Scratch::new();
        let spool = Spool::open(&scratch.path("out")).unwrap();
        let error = Spool::open(&scratch.path("out")).unwrap_err();
        assert!(matches!(error, SpoolError::InUse { .. }), "{error}");
        drop(spool);
        assert!(!scratch.path("out/.groupcast").exists());
        fs::write(scratch.path("file"), "").unwrap();
        assert!(Spool::open(&scratch.path("file")).is_err());
    }

    #[test]
    fn a_journal_that_breaks_off_says_what_it_can() {
        let scratch = Scratch::new();
        let spool = Spool::open(&scratch.path("out")).unwrap();
        let id = content_id(b"list");
        let mut folder = spool.folder(&id).unwrap();
        assert_eq!(folder.manifest(&id, 4), None);
        assert!(folder.journal(&LAYOUT).unwrap().is_empty());
        folder.begin(b"list").unwrap();
        assert_eq!(folder.manifest(&id, 4).as_deref(), Some(&b"list"[..]));
        let hash = blake3::hash(b"x");
        let mut journal = folder.open_journal(&BTreeMap::new()).unwrap();
        for index in [3, 1, 200] {
            journal.append(index, &hash).unwrap();
        }
        let path = scratch
            .path("out/.groupcast")
            .join(id.short())
            .join("journal");
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend([0; 20]);
        fs::write(&path, bytes).unwrap();
        let said: Vec<u64> = folder.journal(&LAYOUT).unwrap().into_keys().collect();
        assert_eq!(said, [1, 3], "200 is no chunk of this content");
        fs::write(
            scratch
                .path("out/.groupcast")
                .join(id.short())
                .join("manifest"),
            "lie",
        )
        .unwrap();
        assert_eq!(folder.manifest(&id, 4), None);
    }

    #[test]
    fn what_broke_off_longest_ago_makes_room() {
        let scratch = Scratch::new();
        let spool = Spool::open(&scratch.path("out")).unwrap();
        let ids: Vec<ContentId> = (0..4u8).map(|n| content_id(&[n])).collect();
        for (age, id) in ids.iter().enumerate() {
            let mut folder = spool.folder(id).unwrap();
            folder.begin(b"").unwrap();
            folder.open_journal(&BTreeMap::new()).unwrap();
            let journal = folder.open().unwrap().read(b"journal").unwrap();
            let hour = std::time::Duration::from_secs(3600);
            journal
                .set_modified(std::time::UNIX_EPOCH + hour * age as u32)
                .unwrap();
        }
        let stream = scratch.path("out/.groupcast/under-way");
        spool.create_stream("under-way").unwrap();
        spool.trim(2, &ids[..1]).unwrap();
        assert!(stream.exists());
        let left: Vec<bool> = ids.iter().map(|id| spool.has(id)).collect();
        assert_eq!(left, [true, false, true, true]);
        drop(spool);
        Spool::open(&scratch.path("out")).unwrap();
        assert!(!stream.exists(), "nobody can go on with it");
    }
    /// A file of this user outside of the directory, and what is in it.
    fn victim(scratch: &Scratch) -> PathBuf {
        let victim = scratch.path("victim");
        fs::write(&victim, "secret").unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
        victim
    }

    #[test]
    fn a_folder_that_others_may_have_made_is_refused() {
        let scratch = Scratch::new();
        let folder = scratch.path("out/.groupcast");
        let refused = || match Spool::open(&scratch.path("out")) {
            Err(SpoolError::Untrusted { problem, .. }) => problem,
            other => panic!("{other:?}"),
        };
        fs::create_dir_all(scratch.path("out")).unwrap();
        fs::create_dir_all(scratch.path("elsewhere")).unwrap();
        symlink(scratch.path("elsewhere"), &folder).unwrap();
        assert_eq!(refused(), "is not a directory");
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(refused(), "can be written to by other users");
        if rustix::process::geteuid().is_root() {
            chown(&folder, Some(12_345), None).unwrap();
            assert_eq!(refused(), "belongs to another user");
            chown(&folder, Some(0), None).unwrap();
        }
        // That of an earlier version can be read by others only: it is closed to them.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let _spool = Spool::open(&scratch.path("out")).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_planted_link_is_neither_written_through_nor_read() {
        let scratch = Scratch::new();
        let victim = victim(&scratch);
        let spool = Spool::open(&scratch.path("out")).unwrap();
        let id = content_id(b"list");
        let mut folder = spool.folder(&id).unwrap();
        folder.begin(b"list").unwrap();
        let planted = scratch.path("out/.groupcast").join(id.short());
        symlink(&victim, planted.join("journal")).unwrap();
        assert!(folder.journal(&LAYOUT).is_err());
        let mut journal = folder.open_journal(&BTreeMap::new()).unwrap();
        journal.append(1, &blake3::hash(b"x")).unwrap();
        fs::remove_file(planted.join("manifest")).unwrap();
        symlink(&victim, planted.join("manifest")).unwrap();
        assert_eq!(folder.manifest(&id, 4), None);
        folder.begin(b"list").unwrap();
        symlink(&victim, scratch.path("out/.groupcast/stream")).unwrap();
        let mut stream = spool.create_stream("stream").unwrap();
        stream.write_all(b"stream").unwrap();
        symlink(&victim, scratch.path("out/name")).unwrap();
        spool.publish_stream("stream", "name").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"secret");
        assert_eq!(fs::read(scratch.path("out/name")).unwrap(), b"stream");
    }

    #[test]
    fn a_target_that_was_moved_away_is_noticed() {
        let scratch = Scratch::new();
        let spool = Spool::open(&scratch.path("out")).unwrap();
        assert!(spool.is_in_place().unwrap());
        fs::rename(scratch.path("out"), scratch.path("moved")).unwrap();
        fs::create_dir(scratch.path("out")).unwrap();
        assert!(!spool.is_in_place().unwrap());
    }

    #[test]
    fn directories_that_others_can_write_to_are_known() {
        let scratch = Scratch::new();
        for (mode, shared) in [(0o755, false), (0o777, true), (0o1777, true)] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(scratch.path(""), permissions).unwrap();
            let stat = Root::open(&scratch.path("")).unwrap().own_stat().unwrap();
            assert_eq!(is_shared(&stat), shared, "{mode:o}");
        }
    }
}
