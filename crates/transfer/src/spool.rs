//! The receiver's own folder in its target directory: what has arrived of transfers that are not complete.
//!
//! ```text
//! DIR/.groupcast/                 locked by the receiver that uses it
//!     0123456789abcdef/           one transfer, called by the first bytes of its content id
//!         manifest                as it was received
//!         journal                 36 bytes for each chunk that was verified and written: number (4), hash (32)
//!         tree/                   the staging tree
//! ```
//!
//! A transfer that breaks off leaves its folder; the next one of the same content begins with what the journal says and
//! the tree confirms, byte for byte. The journal is not synchronised with the disk: what a crash of the machine loses
//! fails its hash and is sent again. A complete transfer leaves nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::about::{HASH, Layout};
use crate::beneath::Root;
use crate::content::content_id;
use crate::manifest::ContentId;

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
}

/// A target directory with its folder, of one receiver alone.
#[derive(Debug)]
pub(crate) struct Spool {
    target: PathBuf,
    folder: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl Spool {
    /// The target directory `target`, made if it is not there.
    pub(crate) fn open(target: &Path) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError::Io {
            path: target.into(),
            source,
        };
        let folder = target.join(".groupcast");
        fs::create_dir_all(&folder).map_err(failed)?;
        if !fs::symlink_metadata(&folder).map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let lock = File::open(&folder).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            match error.kind() {
                io::ErrorKind::WouldBlock => SpoolError::InUse {
                    path: target.into(),
                },
                _ => failed(error.into()),
            }
        })?;
        remove_streams(&folder).map_err(failed)?;
        Ok(Self {
            target: target.into(),
            folder,
            _lock: lock,
        })
    }

    /// The target directory, to put things in place.
    pub(crate) fn target(&self) -> io::Result<Root> {
        Root::open(&self.target)
    }

    /// Where the target directory is.
    pub(crate) fn path(&self) -> &Path {
        &self.target
    }

    /// Bytes that the file system has left for this user.
    pub(crate) fn free(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// The folder of the transfer `id`, which may not be there.
    pub(crate) fn folder(&self, id: &ContentId) -> Folder {
        Folder {
            path: self.folder.join(id.short()),
        }
    }

    /// Where a stream called `name` is kept until it is complete. One that breaks off is of no use.
    pub(crate) fn stream(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes the folders of the transfers that broke off longest ago, all but `keep` of those not `in_use`.
    pub(crate) fn trim(&self, keep: usize, in_use: &[ContentId]) -> io::Result<()> {
        let in_use: Vec<PathBuf> = in_use.iter().map(|id| self.folder(id).path).collect();
        let mut folders = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let path = entry.path();
            // A stream that is under way is a file.
            if entry.file_type()?.is_dir() && !in_use.contains(&path) {
                let journal = fs::metadata(path.join("journal"));
                folders.push((journal.and_then(|journal| journal.modified()).ok(), path));
            }
        }
        folders.sort();
        let surplus = folders.len().saturating_sub(keep);
        for (_, path) in &folders[..surplus] {
            fs::remove_dir_all(path)?;
        }
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // It stays if a transfer that can be resumed is in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes what a receiver that was killed left of streams: they cannot be resumed.
fn remove_streams(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// What is kept of one transfer.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The manifest, if it was received whole and is that of `id`.
    pub(crate) fn manifest(&self, id: &ContentId, len: u32) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.path.join("manifest")).ok()?;
        file.take(u64::from(len) + 1).read_to_end(&mut bytes).ok()?;
        (content_id(&bytes) == *id).then_some(bytes)
    }

    /// Begins anew with `manifest`.
    pub(crate) fn begin(&self, manifest: &[u8]) -> io::Result<()> {
        self.remove()?;
        fs::create_dir_all(self.path.join("tree"))?;
        fs::write(self.path.join("manifest"), manifest)
    }

    /// Whether anything is kept.
    pub(crate) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// The staging tree.
    pub(crate) fn tree(&self) -> io::Result<Root> {
        let path = self.path.join("tree");
        fs::create_dir_all(&path)?;
        Root::open(&path)
    }

    /// What the journal says: the hashes of the chunks that were written. A torn last record is none.
    pub(crate) fn journal(&self, layout: &Layout) -> io::Result<BTreeMap<u64, blake3::Hash>> {
        let mut bytes = Vec::new();
        match File::open(self.path.join("journal")) {
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
            file: File::create(self.path.join("journal"))?,
        };
        for (index, hash) in records {
            journal.append(*index, hash)?;
        }
        Ok(journal)
    }

    /// Removes everything.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Which chunks are written, for a later life of the receiver.
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
        let folder = spool.folder(&id);
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
            let folder = spool.folder(id);
            folder.begin(b"").unwrap();
            folder.open_journal(&BTreeMap::new()).unwrap();
            let journal = File::open(folder.path.join("journal")).unwrap();
            let hour = std::time::Duration::from_secs(3600);
            journal
                .set_modified(std::time::UNIX_EPOCH + hour * age as u32)
                .unwrap();
        }
        let stream = spool.stream("under-way");
        fs::write(&stream, "").unwrap();
        spool.trim(2, &ids[..1]).unwrap();
        assert!(stream.exists());
        let left: Vec<bool> = ids
            .iter()
            .map(|id| spool.folder(id).path.exists())
            .collect();
        assert_eq!(left, [true, false, true, true]);
        drop(spool);
        Spool::open(&scratch.path("out")).unwrap();
        assert!(!stream.exists(), "nobody can go on with it");
    }
}
