//! Finds what a receiver holds already of files that are about to be sent: compares its target with
//! the sender's hashes.
//!
//! A file that is there whole is *kept*: it stays where it is, and is looked at once more before
//! the transfer is complete. Of a file that is there in part, or under another name (`moved.rs`),
//! what is equal is copied to the staging tree. A chunk of the stream is held if all of it is of
//! one or the other. Equal means the same bytes by their hash; sizes and times only say what is not
//! worth a look, or has changed since it was looked at.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Stat};

use crate::about::{HASH, Layout};
use crate::beneath::{FileIdentity, Root};
use crate::content::{FilePlace, FilePlaces};
use crate::manifest::Manifest;
use crate::moved::{Bounds, Missing, Source, Sources, Wanted};

/// The metadata of a file that change with its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    identity: FileIdentity,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            identity: FileIdentity::of(stat),
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// A hash of it, for the disk. The number of the device is not in it: it may be another one
    /// after the machine has started anew.
    pub(crate) fn digest(&self) -> StampDigest {
        let mut hasher = blake3::Hasher::new();
        for field in [
            self.identity.inode(),
            self.size.cast_unsigned(),
            self.modified.0.cast_unsigned(),
            self.modified.1,
            self.changed.0.cast_unsigned(),
            self.changed.1,
        ] {
            hasher.update(&field.to_be_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// The hash of a [`Stamp`].
pub(crate) type StampDigest = [u8; HASH as usize];

/// Whether something of the files of `manifest` may be in `target`: a file of a name of theirs, or
/// one that may have been moved.
pub(crate) fn may_hold(manifest: &Manifest, target: &mut Root, stop: &AtomicBool) -> bool {
    let mut wanted = Wanted::default();
    for (index, size) in manifest.files() {
        let path = &manifest.entries()[index].path;
        let there = target.stat(path);
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if size > 0 && matches!(there, Ok(Some(stat)) if is_file(&stat) && stat.st_size > 0) {
            return true;
        }
        wanted.insert(path, size);
    }
    !wanted.is_empty() && wanted.may_be_in(target, stop)
}

/// The files of a manifest that are in the target.
#[derive(Debug)]
pub(crate) struct Found {
    /// The files that are there whole, by their entries.
    pub(crate) kept: BTreeMap<usize, Stamp>,
    /// Of the others: the number of the first block of each.
    firsts: BTreeMap<usize, usize>,
    /// Where each block of them is, by its number in the manifest.
    blocks: Vec<Option<Source>>,
    sources: Sources,
    places: FilePlaces,
}

/// The size of a block: each block of a file, from its start, has a hash.
pub(crate) const BLOCK: u64 = Layout::CHUNK as u64;

/// How many blocks the files of `manifest` have.
pub(crate) fn blocks(manifest: &Manifest) -> u64 {
    manifest.files().map(|(_, size)| size.div_ceil(BLOCK)).sum()
}

impl Found {
    /// Reads what is in `target` of `manifest`, whose blocks have these `hashes`: in the files of
    /// its names, and then in others that may have been moved, as far as `bounds` let.
    pub(crate) fn look(
        manifest: &Manifest,
        hashes: &[u8],
        target: &mut Root,
        bounds: &Bounds,
        stop: &AtomicBool,
    ) -> Self {
        let mut found = Self {
            kept: BTreeMap::new(),
            firsts: BTreeMap::new(),
            blocks: Vec::with_capacity(hashes.len() / HASH as usize),
            sources: Sources::default(),
            places: FilePlaces::new(manifest),
        };
        let mut rest = hashes;
        let mut block = vec![0; BLOCK as usize];
        let (mut wanted, mut missing, mut bytes) = (Wanted::default(), Vec::new(), 0);
        for (entry, size) in manifest.files() {
            let blocks = (size.div_ceil(BLOCK) * HASH) as usize;
            let of_file;
            (of_file, rest) = rest.split_at(blocks.min(rest.len()));
            let path = &manifest.entries()[entry].path;
            let first = found.blocks.len();
            let is_whole = found.look_at(entry, (path, size), of_file, target, &mut block, stop);
            let end = first + of_file.len() / HASH as usize;
            found.blocks.resize(end, None);
            if is_whole {
                continue;
            }
            found.firsts.insert(entry, first);
            let before = missing.len();
            missing.extend((first..end).filter(|block| found.blocks[*block].is_none()));
            if missing.len() > before {
                wanted.insert(path, size);
                bytes += ((missing.len() - before) as u64 * BLOCK).min(size);
            }
        }
        if !wanted.is_empty() && !stop.load(Ordering::Relaxed) {
            let mut search = Missing::new(hashes, &missing, &mut found.blocks);
            search.look(&wanted, bytes, target, bounds, &mut found.sources, stop);
        }
        found
    }

    /// Compares the file of `entry`, of this path and size, with the hashes of its blocks; whether
    /// it is there whole. What is not compared before `stop` counts as missing.
    fn look_at(
        &mut self,
        entry: usize,
        (path, size): (&[u8], u64),
        hashes: &[u8],
        target: &Root,
        block: &mut [u8],
        stop: &AtomicBool,
    ) -> bool {
        // A file that cannot be read counts as missing.
        let Some((file, stamp)) = open(target, path) else {
            return false;
        };
        let mut equal = Vec::with_capacity(hashes.len() / HASH as usize);
        for (index, hash) in hashes.chunks_exact(HASH as usize).enumerate() {
            // A file may have very many, and nobody waits for them any more.
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let start = index as u64 * BLOCK;
            let bytes = &mut block[..(size - start).min(BLOCK) as usize];
            let is_read = file.read_exact_at(bytes, start).is_ok();
            equal.push(is_read && blake3::hash(bytes).as_bytes()[..] == *hash);
        }
        let is_whole = stamp.size == size.cast_signed() && equal.iter().all(|it| *it);
        if stamp_of(&file).ok() != Some(stamp) {
            return false;
        }
        if is_whole {
            self.kept.insert(entry, stamp);
        } else if equal.contains(&true)
            && let Some(file) = self.sources.add(path, stamp)
        {
            let source =
                |(is_equal, block): (bool, u32)| is_equal.then_some(Source { file, block });
            self.blocks.extend(equal.into_iter().zip(0..).map(source));
        }
        is_whole
    }

    /// The bytes of the chunk that is the range `content`, each with its place: without those in
    /// kept files. `None` if a part of the chunk is missing.
    pub(crate) fn chunk(
        &mut self,
        content: &Range<u64>,
        target: &Root,
    ) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut copies = Vec::new();
        let mut at = content.start;
        while at < content.end {
            let place = self.places.find(at);
            let len = place.left.min(content.end - at);
            if !self.kept.contains_key(&place.entry) {
                copies.push((at, self.copy(place, len, target)?));
            }
            at += len;
        }
        Some(copies)
    }

    /// `len` bytes of a file, from `place` on, if all of them are here.
    fn copy(&mut self, place: FilePlace, len: u64, target: &Root) -> Option<Vec<u8>> {
        let first = *self.firsts.get(&place.entry)?;
        let end = place.offset + len;
        let of_range = (place.offset / BLOCK) as usize..end.div_ceil(BLOCK) as usize;
        let blocks = self
            .blocks
            .get(first + of_range.start..first + of_range.end)?;
        let blocks: Vec<Source> = blocks.iter().copied().collect::<Option<_>>()?;
        let mut bytes = vec![0; len as usize];
        let (mut at, mut rest) = (place.offset, &mut bytes[..]);
        for source in blocks {
            let skip = at % BLOCK;
            let part;
            (part, rest) = rest.split_at_mut((BLOCK - skip).min(end - at) as usize);
            if !self.sources.read(target, source, skip, part) {
                return None;
            }
            at += part.len() as u64;
        }
        Some(bytes)
    }
}

/// Opens the file at `path`, if it is one of this user alone.
fn open(target: &Root, path: &[u8]) -> Option<(File, Stamp)> {
    let file = target.read(path).ok()?;
    let stamp = stamp_of(&file).ok()?;
    Some((file, stamp))
}

pub(crate) fn stamp_of(file: &File) -> io::Result<Stamp> {
    Ok(Stamp::of(&rustix::fs::fstat(file)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::content::Files;
    use crate::manifest::{Limits, Scan};
    use crate::scratch::Scratch;

    /// A file may be so long that to compare it takes hours.
    #[test]
    fn once_it_is_stopped_no_more_of_a_file_is_compared() {
        let scratch = Scratch::new();
        fs::write(scratch.path("f"), vec![1; 3 * BLOCK as usize]).unwrap();
        let mut files = Files::new(Scan::of(&[scratch.path("f")]).unwrap());
        let hashes = files.block_hashes(&mut || true).unwrap().unwrap();
        let manifest = Manifest::decode(files.manifest(), &Limits::default()).unwrap();
        let target = Root::open(&scratch.path(".")).unwrap();
        let (entry, size) = manifest.files().next().unwrap();
        for stopped in [false, true] {
            let mut found = Found {
                kept: BTreeMap::new(),
                firsts: BTreeMap::new(),
                blocks: Vec::new(),
                sources: Sources::default(),
                places: FilePlaces::new(&manifest),
            };
            let (stop, mut block) = (AtomicBool::new(stopped), vec![0; BLOCK as usize]);
            let of = (&b"f"[..], size);
            let is_whole = found.look_at(entry, of, &hashes, &target, &mut block, &stop);
            assert_eq!(is_whole, !stopped);
            assert_eq!(found.kept.len(), usize::from(!stopped));
        }
    }
}
