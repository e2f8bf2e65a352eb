//! A transfer of files at a receiver: takes up what an earlier transfer left, writes chunks, and
//! puts everything in place.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

use crate::about::{HASH, Layout, Piece};
use crate::assemble::is_held;
use crate::beneath::Root;
use crate::compare::Found;
use crate::content::content_id;
use crate::in_place::InPlace;
use crate::manifest::{ContentId, Kind, Limits, Manifest};
use crate::moved::Bounds;
use crate::publish::{Instant, OpenedToLook};
use crate::spool::{Claim, Finished, Journal, Spool, TransferFolder};
use crate::stage::StagingTree;

/// Why a transfer cannot go on at a receiver.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The reason, in words.
    pub(crate) reason: String,
    /// Whether its sender has sent something else than it announced: another sender may do better.
    pub(crate) of_sender: bool,
}

impl Fault {
    fn of_sender(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            of_sender: true,
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self {
            reason,
            of_sender: false,
        }
    }
}

/// One transfer of files at a receiver. Its errors are told to the sender's user, too.
#[derive(Debug)]
pub(crate) struct ReceivedFiles {
    claim: Claim,
    folder: TransferFolder,
    id: ContentId,
    layout: Layout,
    limits: Limits,
    /// `Some` as soon as the manifest is there.
    writing: Option<Writing>,
    /// Chunks that came before the manifest.
    early: Vec<(u64, Vec<u8>)>,
    /// The bytes of files that are in place already and need no room, and how many these are.
    spared: u64,
    spared_files: u64,
    /// The encoded list of files, once it is known and unless it is long.
    manifest: Option<Bytes>,
    /// When it began, as the file system says times.
    began: Instant,
}

#[derive(Debug)]
struct Writing {
    stage: StagingTree,
    journal: Journal,
}

impl ReceivedFiles {
    pub(crate) fn new(
        claim: Claim,
        id: ContentId,
        layout: Layout,
        limits: Limits,
    ) -> Result<Self, String> {
        Ok(Self {
            folder: claim.spool().folder(&id).map_err(kept)?,
            claim,
            id,
            layout,
            limits,
            writing: None,
            early: Vec::new(),
            spared: 0,
            spared_files: 0,
            manifest: None,
            began: now(),
        })
    }

    /// The longest manifest that is remembered when its files are in place, in bytes.
    const PLACED_MANIFEST_MAX: usize = 16 << 20;

    /// The spool that they are received in.
    pub(crate) fn spool(&self) -> &Spool {
        self.claim.spool()
    }

    /// The encoded list of files, once, if it is known and not long.
    pub(crate) fn take_manifest(&mut self) -> Option<Bytes> {
        self.manifest.take()
    }

    /// The whole stream, as held ranges: for files that are all in place.
    pub(crate) fn everything(&self) -> Vec<Range<u64>> {
        let whole = 0..self.layout.len();
        vec![whole]
    }

    /// Whether the files that were put in place before are unchanged, as far as their sizes, modes
    /// and times tell.
    pub(crate) fn are_in_place(&self, placed: &InPlace) -> bool {
        placed.is_unchanged(self.claim.spool(), &self.limits)
    }

    /// Takes up what is in the target already, and what an earlier transfer of this content left.
    /// Returns the ranges of the stream that are here. `hashes` are those of the files' blocks.
    pub(crate) fn compare(
        &mut self,
        manifest: &[u8],
        hashes: &[u8],
        stop: &AtomicBool,
    ) -> Result<Vec<Range<u64>>, Fault> {
        if content_id(manifest) != self.id {
            return Err(Fault::of_sender(OTHER_LIST));
        }
        let decoded = self.read_manifest(manifest)?;
        let mut target = self.claim.spool().target().map_err(kept)?;
        let bounds = Bounds::default();
        let opened = OpenedToLook::open(&decoded, &mut target);
        let taken = self.take_up(manifest, &decoded, hashes, &mut target, &bounds, stop);
        opened.close(&mut target);
        taken
    }

    /// The same in `target`, into whose directories one can look.
    fn take_up(
        &mut self,
        manifest: &[u8],
        decoded: &Manifest,
        hashes: &[u8],
        target: &mut Root,
        bounds: &Bounds,
        stop: &AtomicBool,
    ) -> Result<Vec<Range<u64>>, Fault> {
        let mut found = Found::look(decoded, hashes, target, bounds, stop);
        let files = decoded.files();
        let is_kept = |(entry, _): &(usize, u64)| found.kept.contains_key(entry);
        self.spared = files.filter(is_kept).map(|(_, size)| size).sum();
        self.spared_files = found.kept.len() as u64;
        let mut held = self.resume(stop)?;
        if self.writing.is_none() {
            self.begin(manifest)?;
            held = vec![self.layout.range(Piece::Manifest)];
        }
        let Some(Writing { stage, journal }) = &mut self.writing else {
            return Ok(held);
        };
        let resumed = held.clone();
        for index in 0..self.layout.chunks() {
            // The journal may name chunks that are not held any more: none gets a second record.
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let range = self.layout.range(Piece::Chunk(index));
            if is_held(&resumed, &range) {
                continue;
            }
            let Some(copies) = found.chunk(&self.layout.content_of(index), target) else {
                continue;
            };
            let mut bytes = Vec::new();
            for (at, part) in copies {
                self.claim.make_way(part.len() as u64).map_err(kept)?;
                let written = stage.write(at, &part);
                written.map_err(|error| error.to_string())?;
                self.claim.written(part.len() as u64);
                bytes.extend(part);
            }
            // A chunk that lies in kept files in part is not in the journal: a later comparison
            // finds it again.
            let content = self.layout.content_of(index);
            if bytes.len() as u64 == content.end - content.start {
                let hash = blake3::hash(&bytes);
                journal.append(index, &hash).map_err(kept)?;
            }
            held.push(range);
        }
        stage.keep(found.kept);
        held.sort_by_key(|range| range.start);
        let mut joined = Vec::new();
        for range in held {
            extend(&mut joined, range);
        }
        Ok(joined)
    }

    /// Takes up what an earlier transfer of this content left. Returns the ranges of the stream
    /// that are here: after `stop` only those that were checked before. The rest stays, too.
    pub(crate) fn resume(&mut self, stop: &AtomicBool) -> Result<Vec<Range<u64>>, String> {
        if self.layout.chunks() > Journal::CHUNKS_MAX {
            return Err("the content has more chunks than can be kept account of".into());
        }
        let manifest = self.folder.manifest(&self.id, self.layout.manifest);
        let Some(manifest) = manifest.map_err(kept)? else {
            self.reserve(self.layout.content)?;
            return Ok(Vec::new());
        };
        let read = self.read_manifest(&manifest);
        let manifest = read.map_err(|fault| fault.reason)?;
        let needed = self.room_for(&manifest)?;
        let said = self.folder.journal(&self.layout).map_err(kept)?;
        let tree = self.folder.tree().map_err(kept)?;
        let mut stage =
            StagingTree::new(manifest, self.layout, tree).map_err(|error| error.to_string())?;
        let mut there = BTreeMap::new();
        let mut held = vec![self.layout.range(Piece::Manifest)];
        let mut bytes = 0;
        for (index, hash) in said {
            // What is not checked any more is not held, and stays in the journal: the next attempt
            // checks it.
            let is_stopped = stop.load(Ordering::Relaxed);
            if is_stopped || stage.hash_chunk(index) == Some(hash) {
                let content = self.layout.content_of(index);
                bytes += content.end - content.start;
                there.insert(index, hash);
                if !is_stopped {
                    extend(&mut held, self.layout.range(Piece::Chunk(index)));
                }
            }
        }
        stage.close();
        self.reserve(needed.saturating_sub(bytes))?;
        let durable = self.claim.spool().is_durable();
        let journal = self.folder.open_journal(&there, durable).map_err(kept)?;
        self.writing = Some(Writing { stage, journal });
        Ok(held)
    }

    /// The manifest has come: writes the chunks that came before it. Returns how many bytes that
    /// were.
    pub(crate) fn begin(&mut self, bytes: &[u8]) -> Result<u64, Fault> {
        if content_id(bytes) != self.id {
            return Err(Fault::of_sender(OTHER_LIST));
        }
        let manifest = self.read_manifest(bytes)?;
        self.reserve(self.room_for(&manifest)?)?;
        // Its folder, the list of files, the journal, and the staging tree.
        let need = (manifest.entries().len() as u64 + 4).saturating_sub(self.spared_files);
        let places = self.claim.make_places(need);
        places.map_err(|error| error.to_string())?;
        self.folder.begin(bytes).map_err(kept)?;
        let tree = self.folder.tree().map_err(kept)?;
        let stage =
            StagingTree::new(manifest, self.layout, tree).map_err(|error| error.to_string())?;
        let none = BTreeMap::new();
        let journal = self.folder.open_journal(&none, false).map_err(kept)?;
        self.writing = Some(Writing { stage, journal });
        let mut written = 0;
        for (index, chunk) in std::mem::take(&mut self.early) {
            written += self
                .write(index, chunk)?
                .map_or(0, |chunk| chunk.len() as u64);
        }
        Ok(written)
    }

    /// A chunk has come, its hash included. Writes it and gives its buffer back; before the
    /// manifest is here, keeps it.
    pub(crate) fn write(&mut self, index: u64, chunk: Vec<u8>) -> Result<Option<Vec<u8>>, Fault> {
        let Some(writing) = &mut self.writing else {
            self.early.push((index, chunk));
            return Ok(None);
        };
        let (bytes, hash) = chunk.split_at(chunk.len().saturating_sub(HASH as usize));
        let found = blake3::hash(bytes);
        if found.as_bytes()[..] != *hash {
            let reason = format!("chunk {index} does not have the hash that came with it");
            return Err(Fault::of_sender(reason));
        }
        self.claim.make_way(bytes.len() as u64).map_err(kept)?;
        writing
            .stage
            .write_chunk(index, bytes)
            .map_err(|error| error.to_string())?;
        writing.journal.append(index, &found).map_err(kept)?;
        self.claim.written(bytes.len() as u64);
        Ok(Some(chunk))
    }

    /// Finishes a publication that an earlier receiver had begun; returns whether everything is in
    /// place thereby. It is not if the list of files of that publication is damaged: the transfer
    /// begins anew.
    pub(crate) fn finish_publishing(&self) -> Result<bool, String> {
        if !self.folder.is_publishing().map_err(kept)? {
            return Ok(false);
        }
        let spool = self.claim.spool();
        let mut target = spool.target().map_err(kept)?;
        let durable = spool.is_durable();
        let _turn = spool.placing();
        let finished = self
            .folder
            .finish_publishing(&mut target, &self.limits, durable);
        match finished {
            Ok(finished) => Ok(finished == Finished::Moved),
            Err(problem) => Err(format!(
                "an earlier transfer is half in place, and the rest cannot be: {problem}"
            )),
        }
    }

    /// Everything has come: checks that it can be put in place later, and synchronises it with the
    /// disk if that is wanted.
    pub(crate) fn verify(&mut self) -> Result<(), String> {
        let writing = self.writing.as_mut().ok_or(NO_LIST)?;
        let spool = self.claim.spool();
        let mut target = spool.target().map_err(kept)?;
        let planned = writing.stage.prepare(&mut target);
        let planned = planned.map_err(|error| error.to_string())?;
        planned.give_up(&mut target);
        match spool.is_durable() {
            true => self.folder.sync().map_err(not_synced),
            false => Ok(()),
        }
    }

    /// Everything has come: puts it in place and removes the folder. It is synchronised with the
    /// disk, if that is wanted.
    pub(crate) fn publish(&mut self) -> Result<(), String> {
        let Writing { mut stage, journal } = self.writing.take().ok_or(NO_LIST)?;
        drop(journal);
        let spool = self.claim.spool();
        let durable = spool.is_durable();
        let turn = spool.placing();
        let mut target = spool.target().map_err(kept)?;
        let plan = stage.prepare(&mut target);
        let plan = plan.map_err(|error| error.to_string())?;
        // In this order: the staging tree holds what is to be moved and is on the disk, the mark
        // that it is being moved is there, it is moved.
        let removed = stage.remove_kept();
        removed.map_err(|error| error.to_string())?;
        if durable {
            self.folder.sync().map_err(not_synced)?;
        }
        let amended = stage.amended(&plan);
        let replaced = stage.paths(plan.replaced_since(self.began));
        self.folder
            .begin_publishing(durable, &amended)
            .map_err(kept)?;
        stage.publish(plan, &mut target).map_err(|error| {
            format!("{error}; the next start of the receiver, or the next transfer, goes on")
        })?;
        drop(turn);
        if let Some(warning) = replaced_meanwhile(&replaced) {
            spool.warn(warning);
        }
        if !spool.is_in_place().map_err(kept)? {
            let path = spool.path().display();
            return Err(format!("{path} was moved away while files were put there"));
        }
        if durable {
            self.folder.sync().map_err(not_synced)?;
        }
        // Everything is in place: if the folder stays, the next receiver removes it.
        if let Err(error) = self.folder.remove() {
            spool.warn(format!(
                "cannot remove the folder of a transfer that is complete: {error}"
            ));
        }
        Ok(())
    }

    /// Removes everything that has come.
    pub(crate) fn discard(&mut self) -> Result<(), String> {
        self.writing = None;
        self.folder.remove().map_err(kept)
    }

    fn read_manifest(&mut self, bytes: &[u8]) -> Result<Manifest, Fault> {
        let manifest = Manifest::decode(bytes, &self.limits).map_err(|error| error.to_string())?;
        if manifest.content_len() != self.layout.content {
            let reason = "the list of files does not have the announced length";
            return Err(Fault::of_sender(reason));
        }
        if self.manifest.is_none() && bytes.len() <= Self::PLACED_MANIFEST_MAX {
            self.manifest = Some(Bytes::copy_from_slice(bytes));
        }
        Ok(manifest)
    }

    /// Reserves room for `bytes` more, without the spared ones.
    fn reserve(&self, bytes: u64) -> Result<(), String> {
        let reserved = self.claim.reserve(bytes.saturating_sub(self.spared));
        reserved.map_err(|error| error.to_string())
    }

    /// The room that the files of `manifest` take: each a number of whole blocks, and a block for
    /// each directory and each link.
    fn room_for(&self, manifest: &Manifest) -> Result<u64, String> {
        let block = self.claim.block().map_err(kept)?;
        let entries = manifest.entries().iter();
        let blocks = entries.map(|entry| match entry.kind {
            Kind::File { size, .. } => size.div_ceil(block),
            Kind::Directory | Kind::Link { .. } => 1,
        });
        Ok(blocks.fold(0, u64::saturating_add).saturating_mul(block))
    }
}

/// Appends `range`, joined with the last range if it follows it.
fn extend(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// The error if another list of files has come than that of the announced content.
const OTHER_LIST: &str = "the list of files is not the one that was announced";

/// The error if all chunks have come without the list of files.
const NO_LIST: &str = "the list of files is missing";

/// What is told of `paths` whose former content was newer than the start of a transfer.
pub(crate) fn replaced_meanwhile(paths: &[String]) -> Option<String> {
    let (first, others) = paths.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => " and 1 more".to_owned(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{first}{others}: put there or changed while this transfer was under way, and replaced by it. If another sender \
         sends other content under the same name at once, what is complete last stays"
    ))
}

/// The time, as a file system says it.
pub(crate) fn now() -> Instant {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    (now.as_secs().cast_signed(), now.subsec_nanos().into())
}

fn not_synced(error: io::Error) -> String {
    format!("cannot write it to the disk: {error}")
}

fn kept(error: io::Error) -> String {
    format!("cannot keep what arrives: {error}")
}

#[cfg(test)]
mod tests;
