//! Content of files that lies in the target under other names: of files that were moved, renamed or
//! copied, also if they were changed a little then.
//!
//! A walk over the target finds *candidates* for what is missing: a file as long as one that is
//! missing, or called as one. Of each candidate that shows something of what is missing at its
//! start, in its middle or at its end, all blocks are hashed, and looked up among the hashes of the
//! blocks that are missing.
//!
//! All of it is bounded: names that are looked at, candidates, and bytes that are read, which are
//! at most twice those that are missing, and some. What is not found in that is sent.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;

use crate::about::HASH;
use crate::beneath::Root;
use crate::compare::{BLOCK, Stamp, stamp_of};
use crate::manifest::{SPOOL, last_name};

/// A path of this many bytes, and less, counts for one name.
const PATH_OF_ONE: usize = 64;

/// How much of a target is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Names in the target, at most. One with a long path counts for several
    /// ([`PATH_OF_ONE`]): those of directories and candidates are kept.
    pub(crate) names: usize,
    /// Files that may have something, at most.
    pub(crate) candidates: usize,
    /// Bytes that are read, beside twice as many as are missing.
    pub(crate) bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            names: 1 << 20,
            candidates: 1 << 18,
            bytes: 64 << 20,
        }
    }
}

/// The files whose content is looked for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Digests of last names with sizes. That one stands for two files costs a look.
    named: BTreeSet<u64>,
    /// Digests of last names, and sizes, of those that are worth a look by one of the two: a small
    /// one costs little if it is sent again, and many have the same size.
    large_names: BTreeSet<u64>,
    large_sizes: BTreeSet<u64>,
}

impl Wanted {
    /// The content of the file at `path`, which is `size` long, is looked for.
    pub(crate) fn insert(&mut self, path: &[u8], size: u64) {
        if size == 0 {
            return;
        }
        let name = last_name(path);
        self.named.insert(digest((name, size)));
        if size >= BLOCK {
            self.large_names.insert(digest(name));
            self.large_sizes.insert(size);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// How likely a file of the target has some of it, the likeliest first; `None`: it is not worth
    /// a look.
    fn rank(&self, path: &[u8], size: u64) -> Option<Rank> {
        let name = last_name(path);
        if self.named.contains(&digest((name, size))) {
            Some(Rank::NameAndSize)
        } else if self.large_sizes.contains(&size) {
            Some(Rank::Size)
        } else {
            let is_named = size >= BLOCK && self.large_names.contains(&digest(name));
            is_named.then_some(Rank::Name)
        }
    }

    /// Whether some of it may be in `target`.
    pub(crate) fn may_be_in(&self, target: &Root, stop: &AtomicBool) -> bool {
        let mut any = false;
        walk(target, Bounds::default().names, stop, |path, size| {
            any = self.rank(path, size).is_some();
            !any
        });
        any
    }

    /// Files of `target` that may have some of it, the likeliest first.
    fn candidates(&self, target: &Root, bounds: &Bounds, stop: &AtomicBool) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        walk(target, bounds.names, stop, |path, size| {
            if let Some(rank) = self.rank(path, size) {
                let path = path.to_vec();
                candidates.push(Candidate { rank, path, size });
            }
            candidates.len() < bounds.candidates
        });
        candidates.sort();
        candidates
    }
}

/// Why a file of the target may have what is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    NameAndSize,
    Size,
    Name,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    rank: Rank,
    path: Vec<u8>,
    size: u64,
}

/// Tells `each` path and size of every file below `target`, until it has seen `names_max` names or
/// `each` says no. Links are not followed, nor is another file system entered.
fn walk(
    target: &Root,
    names_max: usize,
    stop: &AtomicBool,
    mut each: impl FnMut(&[u8], u64) -> bool,
) {
    let mut names = 0;
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let directory = match path.is_empty() {
            true => None,
            false => match target.directory(&path) {
                Ok(directory) => Some(directory),
                // Gone, forbidden, or another file system: what is there is not here.
                Err(_) => continue,
            },
        };
        let mut goes_on = true;
        let walked = directory
            .as_ref()
            .unwrap_or(target)
            .each_entry(|name, stat| {
                names += (path.len() + 1 + name.len()).div_ceil(PATH_OF_ONE);
                goes_on = names <= names_max && !stop.load(Ordering::Relaxed);
                if !goes_on || path.is_empty() && name == SPOOL {
                    return goes_on;
                }
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(name);
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => open.push(below),
                    FileType::RegularFile => {
                        goes_on = each(&below, u64::try_from(stat.st_size).unwrap_or(0));
                    }
                    _ => {}
                }
                goes_on
            });
        if let Err(error) = walked {
            tracing::debug!(%error, "a directory of the target cannot be read");
        }
        if !goes_on {
            return;
        }
    }
}

/// A block of a file of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    /// Which of the [`Sources`].
    pub(crate) file: u32,
    /// Which block of it.
    pub(crate) block: u32,
}

/// Files of the target that have something of what is missing.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Vec<(Vec<u8>, Stamp)>,
    /// The one read last.
    open: Option<(u32, File)>,
}

impl Sources {
    /// One more, as it was when it was read.
    pub(crate) fn add(&mut self, path: &[u8], stamp: Stamp) -> Option<u32> {
        let number = u32::try_from(self.files.len()).ok()?;
        self.files.push((path.to_vec(), stamp));
        Some(number)
    }

    /// Reads from the start of a block, or `skip` behind it; false if it is not what it was.
    pub(crate) fn read(
        &mut self,
        target: &Root,
        source: Source,
        skip: u64,
        into: &mut [u8],
    ) -> bool {
        let Some((path, stamp)) = self.files.get(source.file as usize) else {
            return false;
        };
        if self
            .open
            .as_ref()
            .is_none_or(|(open, _)| *open != source.file)
        {
            self.open = None;
            let Ok(file) = target.read(path) else {
                return false;
            };
            self.open = Some((source.file, file));
        }
        let Some((_, file)) = &self.open else {
            return false;
        };
        let at = u64::from(source.block) * BLOCK + skip;
        // What was equal is so as long as the file was not touched.
        file.read_exact_at(into, at).is_ok() && stamp_of(file).ok() == Some(*stamp)
    }
}

/// Blocks that are missing, by their hashes.
#[derive(Debug)]
pub(crate) struct Missing<'a> {
    /// The hashes of all blocks, missing or not.
    hashes: &'a [u8],
    /// The beginning of each hash that is missing, and the number of its block, in order.
    sorted: Vec<(u64, u32)>,
    /// Where each is found, by the number of its block.
    found: &'a mut [Option<Source>],
}

impl<'a> Missing<'a> {
    /// Of the blocks that have these `hashes` those of these `numbers` are missing.
    pub(crate) fn new(
        hashes: &'a [u8],
        numbers: &[usize],
        found: &'a mut [Option<Source>],
    ) -> Self {
        let numbered = |number: &usize| {
            let start = number * HASH as usize;
            let hash = hashes.get(start..start + HASH as usize)?;
            Some((beginning(hash), u32::try_from(*number).ok()?))
        };
        let mut sorted: Vec<(u64, u32)> = numbers.iter().filter_map(numbered).collect();
        sorted.sort_unstable();
        Self {
            hashes,
            sorted,
            found,
        }
    }

    /// Looks in files of `target` that may have some of the `wanted`, of which `bytes` are missing;
    /// returns how many bytes it has read.
    pub(crate) fn look(
        &mut self,
        wanted: &Wanted,
        bytes: u64,
        target: &Root,
        bounds: &Bounds,
        sources: &mut Sources,
        stop: &AtomicBool,
    ) -> u64 {
        let most = bytes.saturating_mul(2).saturating_add(bounds.bytes);
        let mut budget = most;
        let mut block = vec![0; BLOCK as usize];
        for candidate in wanted.candidates(target, bounds, stop) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let Ok(file) = target.read(&candidate.path) else {
                continue;
            };
            let Ok(stamp) = stamp_of(&file) else {
                continue;
            };
            let mut look = Look {
                file: &file,
                size: candidate.size,
                budget: &mut budget,
                block: &mut block,
            };
            let matches = self.matches(&mut look, stop);
            if matches.is_empty() || stamp_of(&file).ok() != Some(stamp) {
                continue;
            }
            let Some(file) = sources.add(&candidate.path, stamp) else {
                break;
            };
            for (hash, block) in matches {
                self.place(&hash, Source { file, block });
            }
        }
        most - budget
    }

    /// The blocks of a file that are missing, with their hashes; none if none of a few is.
    fn matches(&self, look: &mut Look<'_>, stop: &AtomicBool) -> Vec<([u8; HASH as usize], u32)> {
        let blocks = u32::try_from(look.size.div_ceil(BLOCK)).unwrap_or(u32::MAX);
        let few = BTreeSet::from([0, blocks / 2, blocks.saturating_sub(1)]);
        let few: Vec<_> = few
            .into_iter()
            .filter_map(|number| Some((look.hash(number)?, number)))
            .collect();
        let is_wanted = |hash: &[u8; HASH as usize]| self.first_open(hash).is_some();
        if !few.iter().any(|(hash, _)| is_wanted(hash)) {
            return Vec::new();
        }
        let mut matches = Vec::new();
        for number in 0..blocks {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let known = few.iter().find(|(_, of)| *of == number);
            let hash = match known {
                Some((hash, _)) => Some(*hash),
                None => look.hash(number),
            };
            let Some(hash) = hash else {
                break;
            };
            if is_wanted(&hash) {
                matches.push((hash, number));
            }
        }
        matches
    }

    /// Numbers of the blocks that have this hash, as far as they were missing.
    fn of_hash<'b>(&'b self, hash: &'b [u8]) -> impl Iterator<Item = u32> + 'b {
        let beginning = beginning(hash);
        let first = self.sorted.partition_point(|(it, _)| *it < beginning);
        let alike = self.sorted[first..].iter();
        let alike = alike.take_while(move |(it, _)| *it == beginning);
        let len = HASH as usize;
        let whole = move |number: &u32| {
            let start = *number as usize * len;
            self.hashes.get(start..start + len) == Some(hash)
        };
        alike.map(|(_, number)| *number).filter(whole)
    }

    /// The first block of this hash, if it is missing still: all of a hash are found at once.
    fn first_open(&self, hash: &[u8]) -> Option<u32> {
        let first = self.of_hash(hash).next()?;
        self.found[first as usize].is_none().then_some(first)
    }

    /// All that have this hash are at `source`.
    fn place(&mut self, hash: &[u8], source: Source) {
        if self.first_open(hash).is_none() {
            return;
        }
        let all: Vec<u32> = self.of_hash(hash).collect();
        for number in all {
            self.found[number as usize] = Some(source);
        }
    }
}

/// A file that is read as far as the budget lets.
struct Look<'a> {
    file: &'a File,
    size: u64,
    budget: &'a mut u64,
    block: &'a mut [u8],
}

impl Look<'_> {
    /// The hash of block `number`.
    fn hash(&mut self, number: u32) -> Option<[u8; HASH as usize]> {
        let start = u64::from(number) * BLOCK;
        let len = self.size.saturating_sub(start).min(BLOCK);
        let bytes = &mut self.block[..len as usize];
        if len == 0 || len > *self.budget || self.file.read_exact_at(bytes, start).is_err() {
            return None;
        }
        *self.budget -= len;
        Some(*blake3::hash(bytes).as_bytes())
    }
}

fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn beginning(hash: &[u8]) -> u64 {
    hash.first_chunk()
        .map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::scratch::Scratch;

    /// Bytes like no others of another `seed`.
    fn noise(seed: u8, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[seed]);
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    fn hashes(bytes: &[u8]) -> Vec<u8> {
        let blocks = bytes.chunks(BLOCK as usize);
        blocks.flat_map(|it| *blake3::hash(it).as_bytes()).collect()
    }

    /// Looks in the target `t` for a file `file` that holds `bytes`; where each block is, and how
    /// many bytes were read.
    fn looked(scratch: &Scratch, bytes: &[u8], bounds: Bounds) -> (Vec<Option<Source>>, u64) {
        let hashes = hashes(bytes);
        let mut wanted = Wanted::default();
        wanted.insert(b"d/file", bytes.len() as u64);
        let target = Root::open(&scratch.path("t")).unwrap();
        let mut found = vec![None; hashes.len() / HASH as usize];
        let numbers: Vec<usize> = (0..found.len()).collect();
        let mut missing = Missing::new(&hashes, &numbers, &mut found);
        let mut sources = Sources::default();
        let never = AtomicBool::new(false);
        let len = bytes.len() as u64;
        let read = missing.look(&wanted, len, &target, &bounds, &mut sources, &never);
        for (source, number) in found.iter().zip(0..) {
            let start = number * BLOCK as usize;
            let block = &bytes[start..bytes.len().min(start + BLOCK as usize)];
            let mut there = vec![0; block.len()];
            if let Some(source) = source {
                assert!(sources.read(&target, *source, 0, &mut there));
                assert!(there == block, "block {number}");
            }
        }
        (found, read)
    }

    fn count(found: &[Option<Source>]) -> usize {
        found.iter().flatten().count()
    }

    #[test]
    fn what_was_renamed_and_changed_or_became_longer_is_found() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("t/a/b")).unwrap();
        let bytes = noise(1, 6 * BLOCK + 9);
        let mut changed = bytes.clone();
        changed[4 * BLOCK as usize] ^= 1;
        fs::write(scratch.path("t/a/b/other"), changed).unwrap();
        let (found, _) = looked(&scratch, &bytes, Bounds::default());
        assert_eq!((count(&found), found[4]), (6, None));
        // As a log that was moved before it grew.
        fs::write(scratch.path("t/a/file"), &bytes[..5 * BLOCK as usize]).unwrap();
        let (found, _) = looked(&scratch, &bytes, Bounds::default());
        assert_eq!(count(&found), 7);
    }

    #[test]
    fn a_target_is_read_no_further_than_the_bounds_let() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("t/many")).unwrap();
        let bytes = noise(1, 4 * BLOCK);
        for seed in 2..40 {
            let path = scratch.path("t/many").join(seed.to_string());
            fs::write(path, noise(seed, 4 * BLOCK)).unwrap();
        }
        let bounds = Bounds {
            bytes: 0,
            ..Bounds::default()
        };
        let (found, read) = looked(&scratch, &bytes, bounds);
        assert_eq!(count(&found), 0);
        assert!(read <= 8 * BLOCK, "twice as much as is missing: {read}");
        let few = Bounds {
            candidates: 2,
            ..Bounds::default()
        };
        let (_, read) = looked(&scratch, &bytes, few);
        assert_eq!(read, 2 * 3 * BLOCK, "three blocks of each");
        fs::write(scratch.path("t/many/40"), &bytes).unwrap();
        let none = Bounds {
            names: 1,
            ..Bounds::default()
        };
        assert_eq!(looked(&scratch, &bytes, none).1, 0);
        let (found, _) = looked(&scratch, &bytes, Bounds::default());
        assert_eq!(count(&found), 4);
    }

    #[test]
    fn names_with_long_paths_count_for_several() {
        let never = AtomicBool::new(false);
        for (len, expected) in [(20, 100), (250, 49)] {
            let scratch = Scratch::new();
            let directory = scratch.path("t").join("d".repeat(len));
            fs::create_dir_all(&directory).unwrap();
            for number in 10..110 {
                fs::write(directory.join(number.to_string()), "x").unwrap();
            }
            let target = Root::open(&scratch.path("t")).unwrap();
            let mut files = 0;
            walk(&target, 200, &never, |_, _| {
                files += 1;
                true
            });
            assert_eq!(files, expected, "below a name of {len} bytes");
        }
    }

    #[test]
    fn links_are_not_followed_and_what_receivers_keep_is_not_looked_at() {
        let scratch = Scratch::new();
        let bytes = noise(1, 2 * BLOCK);
        for place in ["outside", "t/.groupcast/x"] {
            fs::create_dir_all(scratch.path(place)).unwrap();
            fs::write(scratch.path(place).join("file"), &bytes).unwrap();
        }
        symlink(scratch.path("outside"), scratch.path("t/link")).unwrap();
        symlink(scratch.path("outside/file"), scratch.path("t/file")).unwrap();
        assert_eq!(looked(&scratch, &bytes, Bounds::default()).1, 0);
        fs::rename(scratch.path("outside"), scratch.path("t/inside")).unwrap();
        let (found, _) = looked(&scratch, &bytes, Bounds::default());
        assert_eq!(count(&found), 2);
    }

    #[test]
    fn blocks_that_are_alike_are_found_at_once() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("t")).unwrap();
        let bytes = vec![0; 64 * BLOCK as usize];
        fs::write(scratch.path("t/zeros"), &bytes).unwrap();
        let (found, read) = looked(&scratch, &bytes, Bounds::default());
        assert_eq!((count(&found), read), (64, 64 * BLOCK));
        let one = Source { file: 0, block: 0 };
        assert!(found.iter().all(|it| *it == Some(one)));
    }

    #[test]
    fn a_small_file_of_another_name_is_not_worth_a_look() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("t/d")).unwrap();
        fs::write(scratch.path("t/d/other"), "other").unwrap();
        let mut wanted = Wanted::default();
        wanted.insert(b"a/file", 5);
        wanted.insert(b"a/empty", 0);
        let target = Root::open(&scratch.path("t")).unwrap();
        let never = AtomicBool::new(false);
        assert!(!wanted.may_be_in(&target, &never));
        fs::write(scratch.path("t/d/file"), "other").unwrap();
        assert!(wanted.may_be_in(&target, &never));
    }
}
