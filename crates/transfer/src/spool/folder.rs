//! What is kept of one transfer in the receiver's folder: the manifest, the journal of chunks that
//! were written, the staging tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};

use crate::about::{HASH, Layout};
use crate::beneath::Root;
use crate::content::content_id;
use crate::manifest::ContentId;

/// What is kept of one transfer.
#[derive(Debug)]
pub(crate) struct TransferFolder {
    pub(super) spool: Root,
    pub(super) name: Vec<u8>,
}

impl TransferFolder {
    pub(super) fn open(&self) -> io::Result<Root> {
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

    /// Removes all that is kept of the transfer.
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
