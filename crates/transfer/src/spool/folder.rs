//! The folder of one transfer in the receiver's folder: the manifest, the journal of written
//! chunks, the staging tree, and the mark that it is being put in place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use rustix::io::Errno;

use crate::about::{HASH, Layout};
use crate::beneath::{Root, append, sync};
use crate::compare::{Stamp, StampDigest};
use crate::content::content_id;
use crate::manifest::{ContentId, Limits, Manifest};
use crate::publish::Publication;

/// The mark that the staging tree is being put in place.
pub(super) const PUBLISHING: &[u8] = b"publishing";

const MANIFEST: &[u8] = b"manifest";
/// The staging tree.
const TREE: &[u8] = b"tree";
pub(super) const JOURNAL: &[u8] = b"journal";
/// The journal that is begun anew, until it is in the place of the former one.
const NEW_JOURNAL: &[u8] = b"journal.new";

/// The folder of one transfer, which may not exist.
#[derive(Debug)]
pub(crate) struct TransferFolder {
    pub(super) spool: Root,
    pub(super) name: Vec<u8>,
}

impl TransferFolder {
    pub(super) fn open(&self) -> io::Result<Root> {
        self.spool.directory(&self.name)
    }

    /// The manifest, if it was received whole and is the one of `id`; `None` if the transfer has to
    /// begin anew.
    ///
    /// # Errors
    /// If it cannot be read: it may be there.
    pub(crate) fn manifest(&self, id: &ContentId, len: u32) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let file = match self.open().and_then(|folder| folder.read(MANIFEST)) {
            Ok(file) => file,
            Err(error) if is_none_of_ours(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        file.take(u64::from(len) + 1).read_to_end(&mut bytes)?;
        Ok((content_id(&bytes) == *id).then_some(bytes))
    }

    /// Begins anew with `manifest`.
    pub(crate) fn begin(&mut self, manifest: &[u8]) -> io::Result<()> {
        self.remove()?;
        self.spool.make_directory(&self.name)?;
        let mut folder = self.open()?;
        folder.make_directory(TREE)?;
        folder.create_with(MANIFEST, manifest)?;
        Ok(())
    }

    /// The staging tree.
    pub(crate) fn tree(&self) -> io::Result<Root> {
        let mut folder = self.open()?;
        folder.make_directory(TREE)?;
        folder.directory(TREE)
    }

    /// Reads the journal: the hashes of the written chunks. A torn last record is ignored.
    pub(crate) fn journal(&self, layout: &Layout) -> io::Result<BTreeMap<u64, blake3::Hash>> {
        let mut bytes = Vec::new();
        match self.open().and_then(|folder| folder.read(JOURNAL)) {
            Ok(file) => {
                // Each chunk has at most one record, so a longer journal is cut off.
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

    /// Begins the journal anew with `records`. A crash leaves either the former one or all of them;
    /// with `durable` a crash of the machine does, too.
    pub(crate) fn open_journal(
        &self,
        records: &BTreeMap<u64, blake3::Hash>,
        durable: bool,
    ) -> io::Result<Journal> {
        let mut folder = self.open()?;
        let journal = match Journal::create(&mut folder, NEW_JOURNAL, records) {
            Err(error) if is_full(&error) => {
                // There is no room for both.
                folder.remove(NEW_JOURNAL)?;
                return Journal::create(&mut folder, JOURNAL, records);
            }
            other => other?,
        };
        if durable && !records.is_empty() {
            sync(&journal.file)?;
        }
        folder.rename_to(NEW_JOURNAL, &folder, JOURNAL)?;
        Ok(journal)
    }

    /// Returns when everything that was written to the file system is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.spool.sync_file_system()
    }

    /// Makes the mark that the staging tree is being put in place: a receiver that finds it
    /// finishes. In it are the files, by their entries, that were in the target already and only
    /// get their mode and time. With `durable` the mark is on the disk before this returns.
    pub(crate) fn begin_publishing(
        &self,
        durable: bool,
        amended: &[(usize, Stamp)],
    ) -> io::Result<()> {
        let mut records = Vec::with_capacity(amended.len() * AMENDED);
        for (entry, stamp) in amended {
            records.extend((*entry as u64).to_be_bytes());
            records.extend(stamp.digest());
        }
        let mut folder = self.open()?;
        let mark = folder.create_with(PUBLISHING, &records)?;
        if durable {
            sync(mark)?;
            sync(folder.descriptor())?;
        }
        Ok(())
    }

    /// Whether the mark is there: a receiver began to put it in place and did not finish.
    pub(crate) fn is_publishing(&self) -> io::Result<bool> {
        match self.open().and_then(|mut folder| folder.stat(PUBLISHING)) {
            Ok(mark) => Ok(mark.is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves the rest of a publication that was interrupted into `target`, and removes the folder.
    /// If the list of files is damaged, all stays where it is.
    ///
    /// # Errors
    /// Why the rest cannot be moved, for people; it stays where it is.
    pub(crate) fn finish_publishing(
        &self,
        target: &mut Root,
        limits: &Limits,
        durable: bool,
    ) -> Result<Finished, String> {
        let unreadable = |error: io::Error| format!("cannot read what is left: {error}");
        let folder = self.open().map_err(unreadable)?;
        let finished = match self.own_manifest(&folder, limits)? {
            Listed::Files(manifest) => {
                let amended = amended(&folder, &manifest).map_err(unreadable)?;
                match folder.directory(TREE) {
                    Ok(tree) => put_in_place(&manifest, tree, &amended, target, durable)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(unreadable(error)),
                }
                Finished::Moved
            }
            Listed::Nothing => Finished::WasInPlace,
            Listed::Damaged => return Ok(Finished::Damaged),
        };
        let removed = self.remove().map(|()| finished);
        removed.map_err(|error| format!("cannot remove what is left: {error}"))
    }

    /// What the folder's list of files is.
    fn own_manifest(&self, folder: &Root, limits: &Limits) -> Result<Listed, String> {
        let unreadable = |error: io::Error| format!("cannot read the list of files: {error}");
        let file = match folder.read(MANIFEST) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listed::Nothing),
            Err(error) => return Err(unreadable(error)),
        };
        // One byte more than is taken tells a list that is too long from one that is damaged.
        let max = u64::try_from(limits.manifest_max).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let read = file.take(max.saturating_add(1)).read_to_end(&mut bytes);
        let is_too_long = read.map_err(unreadable)? > limits.manifest_max;
        if !is_too_long && content_id(&bytes).short().as_bytes() != self.name {
            return Ok(Listed::Damaged);
        }
        let manifest = Manifest::decode(&bytes, limits).map_err(|error| error.to_string())?;
        Ok(Listed::Files(manifest))
    }

    /// Removes the folder.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.spool.remove(&self.name)
    }
}

/// Whether an error of opening a file says that this user's receiver has none there: there is
/// nothing, or a link, or what is no file of this user alone.
fn is_none_of_ours(error: &io::Error) -> bool {
    let is_absent = error.kind() == io::ErrorKind::NotFound;
    is_absent || matches!(Errno::from_io_error(error), None | Some(Errno::LOOP))
}

/// What became of a publication that was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finished {
    /// The rest is in place now.
    Moved,
    /// Everything was in place, and the folder is removed: a receiver died while it removed it.
    WasInPlace,
    /// The list of files is not what was received, so nobody can tell what is to be moved. A disk
    /// that was not synchronised before a crash leaves such a list.
    Damaged,
}

/// The list of files in the folder of a publication that was interrupted.
enum Listed {
    Files(Manifest),
    /// It was removed with the rest of the folder, which came after all moves.
    Nothing,
    /// It is not the one that the folder is named after.
    Damaged,
}

/// The length of the record of a file that only gets its mode and time: entry (8), hash (32).
const AMENDED: usize = 8 + HASH as usize;

/// The files that only get their mode and time, by the mark in `folder`. A torn last record is
/// ignored.
fn amended(folder: &Root, manifest: &Manifest) -> io::Result<BTreeMap<usize, StampDigest>> {
    let max = manifest.entries().len() * AMENDED;
    let mut bytes = Vec::new();
    let mark = folder.read(PUBLISHING)?;
    mark.take(max as u64).read_to_end(&mut bytes)?;
    let records = bytes.chunks_exact(AMENDED).filter_map(|record| {
        let (entry, digest) = record.split_at(8);
        let entry = u64::from_be_bytes(entry.try_into().ok()?);
        Some((usize::try_from(entry).ok()?, digest.try_into().ok()?))
    });
    Ok(records.collect())
}

/// Moves what is left in `tree` of the files of `manifest` into `target`.
fn put_in_place(
    manifest: &Manifest,
    mut tree: Root,
    amended: &BTreeMap<usize, StampDigest>,
    target: &mut Root,
    durable: bool,
) -> Result<(), String> {
    let mut publication = Publication::of_remains(manifest, &mut tree, amended);
    let plan = publication.plan(target);
    let plan = plan.map_err(|error| error.to_string())?;
    let moved = publication.carry_out(plan, target);
    moved.map_err(|error| error.to_string())?;
    match durable {
        true => {
            let synced = target.sync_file_system();
            synced.map_err(|error| format!("cannot write it to the disk: {error}"))
        }
        false => Ok(()),
    }
}

/// Whether the disk, or what this user may have of it, is full.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// The list of written chunks, for a receiver that resumes the transfer.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

impl Journal {
    /// The length of a record.
    const RECORD: usize = 4 + HASH as usize;
    /// The most chunks: a record has 4 bytes for the number.
    pub(crate) const CHUNKS_MAX: u64 = 1 << 32;

    fn create(
        folder: &mut Root,
        name: &[u8],
        records: &BTreeMap<u64, blake3::Hash>,
    ) -> io::Result<Self> {
        let mut journal = Self {
            file: folder.create(name, 0o600)?,
        };
        for (index, hash) in records {
            journal.append(*index, hash)?;
        }
        Ok(journal)
    }

    /// Notes that chunk `index`, with this hash, is written.
    pub(crate) fn append(&mut self, index: u64, hash: &blake3::Hash) -> io::Result<()> {
        let mut record = [0; Self::RECORD];
        let number = u32::try_from(index).map_err(|_| io::ErrorKind::FileTooLarge)?;
        record[..4].copy_from_slice(&number.to_be_bytes());
        record[4..].copy_from_slice(hash.as_bytes());
        append(&mut self.file, &record)
    }
}
