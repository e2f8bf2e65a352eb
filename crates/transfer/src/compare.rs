//! What a receiver holds already of files that are about to be sent: its target is compared with
//! the sender's hashes.
//!
//! A file that is there whole is *kept*: it stays where it is, and is looked at once more before
//! the transfer is complete. Of a file that is there in part, what is equal is copied to the
//! staging tree. A chunk of the stream is held if all of it is of one or the other. Equal means the
//! same bytes by their hash; sizes and times only say what is not worth a look, or has changed
//! since it was looked at.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Stat};

use crate::about::{HASH, Layout};
use crate::beneath::{FileIdentity, Root};
use crate::content::FilePlaces;
use crate::manifest::Manifest;

/// What changes with a file's content, as far as the file system says.
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
}

/// Whether a file of `manifest` may be in `target`: one of its name.
pub(crate) fn may_hold(manifest: &Manifest, target: &mut Root) -> bool {
    manifest.files().any(|(index, size)| {
        let there = target.stat(&manifest.entries()[index].path);
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        size > 0 && matches!(there, Ok(Some(stat)) if is_file(&stat) && stat.st_size > 0)
    })
}

/// What is in the target of the files of a manifest.
#[derive(Debug)]
pub(crate) struct Found {
    /// The files that are there whole, by their entries.
    pub(crate) kept: BTreeMap<usize, Stamp>,
    /// Of others: which blocks are there.
    parts: BTreeMap<usize, Part>,
    places: FilePlaces,
}

#[derive(Debug)]
struct Part {
    file: File,
    stamp: Stamp,
    blocks: Vec<bool>,
}

impl Part {
    fn covers(&self, range: &Range<u64>) -> bool {
        let (first, last) = (range.start / BLOCK, (range.end - 1) / BLOCK);
        (first..=last).all(|block| self.blocks.get(block as usize) == Some(&true))
    }
}

/// Bytes that have a hash of their own, from the start of each file.
pub(crate) const BLOCK: u64 = Layout::CHUNK as u64;

/// How many blocks the files of `manifest` have.
pub(crate) fn blocks(manifest: &Manifest) -> u64 {
    manifest.files().map(|(_, size)| size.div_ceil(BLOCK)).sum()
}

impl Found {
    /// Reads what is in `target` of `manifest`, whose blocks have these `hashes`.
    pub(crate) fn look(
        manifest: &Manifest,
        hashes: &[u8],
        target: &mut Root,
        stop: &AtomicBool,
    ) -> Self {
        let mut found = Self {
            kept: BTreeMap::new(),
            parts: BTreeMap::new(),
            places: FilePlaces::new(manifest),
        };
        let mut rest = hashes;
        let mut block = vec![0; BLOCK as usize];
        for (entry, size) in manifest.files() {
            let blocks = (size.div_ceil(BLOCK) * HASH) as usize;
            let of_file;
            (of_file, rest) = rest.split_at(blocks.min(rest.len()));
            if stop.load(Ordering::Relaxed) {
                break;
            }
            // One that cannot be read here is one that is not here.
            let Some((file, stamp)) = open(target, &manifest.entries()[entry].path) else {
                continue;
            };
            let mut equal = Vec::with_capacity(of_file.len() / HASH as usize);
            for (index, hash) in of_file.chunks_exact(HASH as usize).enumerate() {
                let start = index as u64 * BLOCK;
                let bytes = &mut block[..(size - start).min(BLOCK) as usize];
                let is_read = file.read_exact_at(bytes, start).is_ok();
                equal.push(is_read && blake3::hash(bytes).as_bytes()[..] == *hash);
            }
            let is_whole = stamp.size == size.cast_signed() && equal.iter().all(|it| *it);
            if stamp_of(&file).ok() != Some(stamp) {
                continue;
            }
            if is_whole {
                found.kept.insert(entry, stamp);
            } else if equal.contains(&true) && found.parts.len() < Self::PARTS_MAX {
                let blocks = equal;
                let part = Part {
                    file,
                    stamp,
                    blocks,
                };
                found.parts.insert(entry, part);
            }
        }
        found
    }

    /// Files of which a part may be held: each is open until it is copied.
    const PARTS_MAX: usize = 128;

    /// The bytes of the chunk that is `content` of the content, if they are here: `None` if a part
    /// is missing, no bytes if all of it lies in files that are kept.
    pub(crate) fn chunk(&self, content: &Range<u64>) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut copies = Vec::new();
        let mut at = content.start;
        while at < content.end {
            let place = self.places.find(at);
            let len = place.left.min(content.end - at);
            if !self.kept.contains_key(&place.entry) {
                let part = self.parts.get(&place.entry)?;
                let range = place.offset..place.offset + len;
                if !part.covers(&range) {
                    return None;
                }
                let mut bytes = vec![0; len as usize];
                part.file.read_exact_at(&mut bytes, range.start).ok()?;
                // What was equal is so as long as the file was not touched.
                if stamp_of(&part.file).ok()? != part.stamp {
                    return None;
                }
                copies.push((at, bytes));
            }
            at += len;
        }
        Some(copies)
    }
}

/// The file at `path`, if it is one of this user alone.
fn open(target: &mut Root, path: &[u8]) -> Option<(File, Stamp)> {
    let file = target.read(path).ok()?;
    let stamp = stamp_of(&file).ok()?;
    Some((file, stamp))
}

fn stamp_of(file: &File) -> io::Result<Stamp> {
    Ok(Stamp::of(&rustix::fs::fstat(file)?))
}
