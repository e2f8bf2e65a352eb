//! The manifest: the entries of a transfer of files.
//!
//! It is the first part of the stream, and its hash is the transfer's identity: two transfers with
//! equal manifests carry the same content, so that a broken one is resumed by the next. For that
//! each file has a *fingerprint*: a hash of the metadata that change with its content at the sender
//! (device, inode, size, modification and change time). The content has hashes of its own
//! (`about.rs`). `scan.rs` makes a manifest, `wire.rs` has its bytes, and `stage.rs` and
//! `publish.rs` put it in place.
//!
//! Paths are bytes, relative, in ascending order without repetition, and each entry's parent is a
//! directory before it. [`Manifest::decode`] refuses everything else: no entry can be placed
//! outside of the receiver's directory, or through a link.

mod exclude;
mod scan;
mod wire;

use groupcast_core::text::printable;
use groupcast_core::wire::DecodeError;

pub use self::exclude::{Exclude, PatternError};
pub(crate) use self::scan::fingerprint;
pub use self::scan::{Scan, ScanError, Skipped};

/// The receiver's own folder in its target directory; no entry may have this name.
pub(crate) const SPOOL: &[u8] = b".groupcast";

/// An entry's place in the tree, its metadata, and what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Relative path: components joined by `/`, any bytes but NUL.
    pub path: Vec<u8>,
    /// Permission bits, at most 0o777: owners, set-user-id and the like are not carried.
    pub mode: u16,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Its length in bytes.
        size: u64,
        /// The hash of its metadata, which changes with the content.
        fingerprint: u64,
    },
    /// A symbolic link.
    Link {
        /// Its target, as it was read.
        target: Vec<u8>,
    },
}

/// A point in time, as file systems keep it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanoseconds: u32,
}

/// The identity of a transfer's content: the hash of its manifest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ContentId(pub [u8; 32]);

impl ContentId {
    /// The first 64 bits in hexadecimal: the name of the receiver's folder for the transfer.
    pub fn short(&self) -> String {
        self.0[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The entries of a transfer, in ascending order of their paths.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Manifest {
    entries: Vec<Entry>,
    /// The bytes of all files together.
    content_len: u64,
}

/// The limits of manifests that a receiver takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most entries: files, directories and links. Default 1,100,000: a million files, and
    /// their directories. Receivers of earlier releases take 1,000,000.
    pub entries_max: usize,
    /// The most bytes of an encoded manifest, and of the manifests of all transfers at once.
    /// Default 128 MiB. They are in memory while the transfer lasts.
    pub manifest_max: usize,
    /// The most bytes of all paths, written out. Default 256 MiB. They are in memory, too.
    pub paths_max: usize,
    /// The most bytes that the paths of all transfers at once may have, by the lengths of their
    /// manifests. Default 512 MiB.
    pub paths_of_all_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries_max: 1_100_000,
            manifest_max: 128 << 20,
            paths_max: 256 << 20,
            paths_of_all_max: 512 << 20,
        }
    }
}

impl Limits {
    /// The most bytes of paths for each encoded byte: what paths of 800 bytes on average need.
    const EXPANSION_MAX: usize = 32;

    /// The most bytes of paths, written out, that a manifest of `len` bytes may have. A path is
    /// written as what differs from the one before it, so few bytes could stand for very many.
    pub(crate) fn paths_of(&self, len: usize) -> usize {
        self.paths_max.min(Self::EXPANSION_MAX.saturating_mul(len))
    }
}

/// Why a manifest is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is cut off or has an invalid value.
    #[error("the list of files is damaged: {0}")]
    Decode(#[from] DecodeError),
    /// Too many entries, or too long.
    #[error("the list of files is too long ({what} {value}, at most {max})")]
    TooLong {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        value: usize,
        /// How much there may be.
        max: usize,
    },
    /// An entry that must not be there.
    #[error("the list of files holds `{path}`, {problem}")]
    Entry {
        /// The path, as far as it can be shown.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Manifest {
    /// The longest path, in bytes: what the system calls take.
    pub const PATH_MAX: usize = 4095;
    /// The longest name of a file, in bytes.
    pub const NAME_MAX: usize = 255;
    /// The deepest path, in components.
    pub const DEPTH_MAX: usize = 512;

    /// The manifest of `entries`, sorted.
    ///
    /// # Errors
    /// If an entry is invalid, or its parent is missing.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self, ManifestError> {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let mut manifest = Self::default();
        for entry in entries {
            manifest.push(entry)?;
        }
        Ok(manifest)
    }

    /// The entries, in ascending order of their paths.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The index and the size of every file, in the order of the content.
    pub fn files(&self) -> impl Iterator<Item = (usize, u64)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| match entry.kind {
                Kind::File { size, .. } => Some((index, size)),
                _ => None,
            })
    }

    /// The bytes of all files together.
    pub fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Appends an entry, if it may follow the entries before it.
    fn push(&mut self, entry: Entry) -> Result<(), ManifestError> {
        if let Some(problem) = self.problem(&entry) {
            return Err(ManifestError::Entry {
                path: printable(&entry.path),
                problem,
            });
        }
        if let Kind::File { size, .. } = entry.kind {
            self.content_len += size;
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Why `entry` cannot be the next one.
    fn problem(&self, entry: &Entry) -> Option<&'static str> {
        if let Some(problem) = path_problem(&entry.path) {
            return Some(problem);
        }
        if self
            .entries
            .last()
            .is_some_and(|last| last.path >= entry.path)
        {
            return Some("which is there twice or out of order");
        }
        if let Some(parent) = parent(&entry.path) {
            let at = self
                .entries
                .binary_search_by(|other| other.path[..].cmp(parent));
            if !at.is_ok_and(|at| self.entries[at].kind == Kind::Directory) {
                return Some("whose parent is no directory of the list");
            }
        }
        match &entry.kind {
            Kind::File { size, .. } if self.size_overflows(*size) => {
                Some("whose size cannot be true")
            }
            Kind::Link { target } if target.is_empty() || target.len() > Self::PATH_MAX => {
                Some("a link without a possible target")
            }
            Kind::Link { target } if target.contains(&0) => Some("a link with a NUL in its target"),
            _ if entry.mode > 0o777 => Some("whose mode is no permission"),
            _ if entry.modified.nanoseconds >= 1_000_000_000 => Some("whose time is none"),
            _ => None,
        }
    }

    /// Whether the content would be larger than any file system with one more file of `size` bytes.
    /// The bound leaves room for the hashes.
    fn size_overflows(&self, size: u64) -> bool {
        const CONTENT_MAX: u64 = 1 << 60;
        size > CONTENT_MAX - self.content_len.min(CONTENT_MAX)
    }
}

/// The path of the parent directory of an entry; `None` if that is the root.
pub(crate) fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter()
        .rposition(|byte| *byte == b'/')
        .map(|at| &path[..at])
}

/// What the entry at `path` is called in its directory.
pub(crate) fn last_name(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => &path[at + 1..],
        None => path,
    }
}

/// Why `path` cannot be the path of an entry, of any kind.
fn path_problem(path: &[u8]) -> Option<&'static str> {
    if path.len() > Manifest::PATH_MAX {
        return Some("a path longer than 4095 bytes");
    }
    let mut components = path.split(|byte| *byte == b'/');
    if components.clone().count() > Manifest::DEPTH_MAX {
        return Some("a path deeper than 512 directories");
    }
    if components.clone().next() == Some(SPOOL) {
        return Some("a name that receivers keep for themselves");
    }
    components.find_map(|name| match name {
        b"" => Some("a path with an empty name"),
        b"." | b".." => Some("a path that leads elsewhere"),
        name if name.contains(&0) => Some("a name with a NUL"),
        name if name.len() > Manifest::NAME_MAX => Some("a name longer than 255 bytes"),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
