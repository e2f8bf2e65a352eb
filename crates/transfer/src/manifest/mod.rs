//! The manifest: what a transfer of files consists of, entry by entry, and how it is written down.
//!
//! It is the first part of the stream, and its hash is the transfer's identity: two transfers with
//! equal manifests carry the same content, so that a broken one is resumed by the next. For that
//! each file has a *fingerprint*: a hash of what the sender's file system says changes with the
//! content (device, inode, size, modification and change time). Contents have hashes of their own
//! (`layout.rs`); making the list is `scan.rs`, and placing it `stage.rs`.
//!
//! | field | bytes | meaning |
//! |---|---|---|
//! | count | varint | entries |
//! | *each entry:* kind | 1 | 0 directory, 1 file, 2 symbolic link |
//! | shared | varint | bytes of the path that are those of the entry before |
//! | rest | varint, n | the path's other bytes |
//! | mode | 2 | permission bits, 0 to 0o777 |
//! | modified | 8, 4 | seconds since 1970 (signed) and nanoseconds |
//! | *file:* size, fingerprint | varint, 8 | |
//! | *link:* target | varint, n | not interpreted |
//!
//! Paths are bytes, relative, in ascending order without repetition, and each entry's parent is a
//! directory before it. [`Manifest::decode`] refuses everything else: no entry can be placed
//! outside of the receiver's directory, or through a link.

mod scan;

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_core::wire::{DecodeError, Reader, Writer};

pub(crate) use self::scan::fingerprint;
pub use self::scan::{Scan, ScanError, Skipped};

/// The receiver's own folder in its target directory; no entry may be called so.
pub(crate) const SPOOL: &[u8] = b".groupcast";

/// An entry's place in the tree, its metadata, and what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Relative path: components joined by `/`, any bytes but NUL.
    pub path: Vec<u8>,
    /// Permission bits, at most 0o777: who owns a file, set-user-id and the like are not carried.
    pub mode: u16,
    /// When its content last changed.
    pub modified: Timestamp,
    /// What it is.
    pub kind: Kind,
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// Changes when the content does.
        fingerprint: u64,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as it was read.
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
    /// The first 64 bits in hexadecimal: what the receiver's folder for the transfer is called.
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
    /// Bytes of all files together.
    content_len: u64,
}

/// What a receiver takes at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most entries. Default 1,000,000.
    pub entries_max: usize,
    /// The longest encoded manifest, in bytes, and of all transfers at once. Default 128 MiB. It is
    /// in memory while the transfer lasts.
    pub manifest_max: usize,
    /// The most bytes of all paths and targets of links, written out. Default 256 MiB. They are in
    /// memory too.
    pub paths_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries_max: 1_000_000,
            manifest_max: 128 << 20,
            paths_max: 256 << 20,
        }
    }
}

/// Why a manifest is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is cut off or has a value that none has.
    #[error("the list of files is damaged: {0}")]
    Decode(#[from] DecodeError),
    /// Too many entries, or too long.
    #[error("the list of files is too long ({what} {value}, at most {max})")]
    TooLong {
        /// What of it.
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
    /// The most bytes of paths for each encoded byte: what paths of 800 bytes on average need.
    const EXPANSION_MAX: usize = 32;

    /// The manifest of `entries`, sorted.
    ///
    /// # Errors
    /// If an entry cannot be part of one, or has no parent.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self, ManifestError> {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let mut manifest = Self::default();
        for entry in entries {
            manifest.push(entry)?;
        }
        Ok(manifest)
    }

    /// The entries.
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

    /// Bytes of all files together.
    pub fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.varint(self.entries.len() as u64);
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            let shared = shared_prefix(before, &entry.path);
            let rest = &entry.path[shared..];
            out.u8(match entry.kind {
                Kind::Directory => 0,
                Kind::File { .. } => 1,
                Kind::Link { .. } => 2,
            });
            out.varint(shared as u64)
                .varint(rest.len() as u64)
                .put(rest)
                .u16(entry.mode)
                .u64(entry.modified.seconds.cast_unsigned())
                .u32(entry.modified.nanoseconds);
            match &entry.kind {
                Kind::Directory => {}
                Kind::File { size, fingerprint } => {
                    out.varint(*size).u64(*fingerprint);
                }
                Kind::Link { target } => {
                    out.varint(target.len() as u64).put(target);
                }
            }
            before = &entry.path;
        }
        bytes.into()
    }

    /// Reads a manifest that came from elsewhere.
    ///
    /// # Errors
    /// With what is wrong. Memory is bounded by a multiple of the bytes present, and by `limits`.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, ManifestError> {
        let too_long = |what, value, max| ManifestError::TooLong { what, value, max };
        if bytes.len() > limits.manifest_max {
            return Err(too_long("bytes", bytes.len(), limits.manifest_max));
        }
        let mut reader = Reader::new(bytes);
        let count = usize::try_from(reader.varint("count")?).unwrap_or(usize::MAX);
        if count > limits.entries_max {
            return Err(too_long("entries", count, limits.entries_max));
        }
        // Paths are written down by what they share with the one before. So few bytes could stand
        // for very many.
        let paths_max = limits.paths_max.min(Self::EXPANSION_MAX * bytes.len());
        let mut manifest = Self::default();
        let (mut before, mut paths) = (Vec::new(), 0);
        for _ in 0..count {
            let entry = decode_entry(&mut reader, &before)?;
            paths += entry.path.len();
            if paths > paths_max {
                return Err(too_long("bytes of paths", paths, paths_max));
            }
            before.clone_from(&entry.path);
            manifest.push(entry)?;
        }
        reader.finish()?;
        Ok(manifest)
    }

    /// Appends an entry if it may follow those before.
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

    /// What speaks against `entry` as the next one.
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

    /// Whether one more file of `size` bytes is more than any file system holds. The bound leaves
    /// room for the hashes.
    fn size_overflows(&self, size: u64) -> bool {
        const CONTENT_MAX: u64 = 1 << 60;
        size > CONTENT_MAX - self.content_len.min(CONTENT_MAX)
    }
}

/// The path of the directory that an entry lies in, if it is not the root.
pub(crate) fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter()
        .rposition(|byte| *byte == b'/')
        .map(|at| &path[..at])
}

/// What speaks against `path` as the place of an entry, whatever it is.
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

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn decode_entry(reader: &mut Reader<'_>, before: &[u8]) -> Result<Entry, ManifestError> {
    let kind = reader.u8("kind")?;
    let shared = reader.varint("shared")?;
    let prefix = usize::try_from(shared)
        .ok()
        .and_then(|shared| before.get(..shared))
        .ok_or_else(|| reader.invalid("shared", shared))?;
    let rest = bytes_of(reader, "rest")?;
    let path = [prefix, rest].concat();
    let mode = reader.u16("mode")?;
    let modified = Timestamp {
        seconds: reader.u64("seconds")?.cast_signed(),
        nanoseconds: reader.u32("nanoseconds")?,
    };
    let kind = match kind {
        0 => Kind::Directory,
        1 => Kind::File {
            size: reader.varint("size")?,
            fingerprint: reader.u64("fingerprint")?,
        },
        2 => Kind::Link {
            target: bytes_of(reader, "target")?.to_vec(),
        },
        other => return Err(reader.invalid("kind", other.into()).into()),
    };
    Ok(Entry {
        path,
        mode,
        modified,
        kind,
    })
}

/// A length and as many bytes; none is longer than a path.
fn bytes_of<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], DecodeError> {
    let len = reader.varint(field)?;
    match usize::try_from(len) {
        Ok(len) if len <= Manifest::PATH_MAX => reader.take(field, len),
        _ => Err(reader.invalid(field, len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], kind: Kind) -> Entry {
        Entry {
            path: path.to_vec(),
            mode: 0o755,
            modified: Timestamp {
                seconds: -3,
                nanoseconds: 7,
            },
            kind,
        }
    }

    fn file(path: &[u8], size: u64) -> Entry {
        let fingerprint = 9;
        entry(path, Kind::File { size, fingerprint })
    }

    fn directory(path: &[u8]) -> Entry {
        entry(path, Kind::Directory)
    }

    fn link(path: &[u8], target: &[u8]) -> Entry {
        let target = target.to_vec();
        entry(path, Kind::Link { target })
    }

    /// The bytes of a manifest that holds what none may hold.
    fn forged(entries: Vec<Entry>) -> Bytes {
        Manifest {
            entries,
            content_len: 0,
        }
        .encode()
    }

    #[test]
    fn what_is_written_is_read_whatever_the_names() {
        let manifest = Manifest::new(vec![
            file(b"a/\xff\n\"'", 1 << 40),
            directory(b"a"),
            link(b"a/l", b"/etc/passwd"),
            file(b"a-b", 0),
            file(&[b'x'; 255], 3),
        ])
        .unwrap();
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes, &Limits::default()), Ok(manifest));
        for len in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..len], &Limits::default()).is_err());
        }
    }

    #[test]
    fn nothing_is_placed_outside_or_through_a_link() {
        let long = [b'x'; 256];
        let deep = [b"d/".repeat(600), b"f".to_vec()].concat();
        for (entries, problem) in [
            (vec![file(b"../x", 1)], "leads elsewhere"),
            (vec![file(b"a/../../x", 1)], "leads elsewhere"),
            (vec![file(b"/etc/passwd", 1)], "empty name"),
            (vec![file(b"", 1)], "empty name"),
            (vec![directory(b"a"), file(b"a//b", 1)], "empty name"),
            (vec![file(b"a\0b", 1)], "NUL"),
            (vec![file(&long, 1)], "255"),
            (vec![file(&deep, 1)], "512"),
            (vec![link(b"a", b"/etc"), file(b"a/passwd", 1)], "parent"),
            (vec![file(b"a", 1), file(b"a/b", 1)], "parent"),
            (vec![file(b"nowhere/b", 1)], "parent"),
            (vec![file(b"a", 1), file(b"a", 1)], "twice"),
            (vec![file(b"b", 1), file(b"a", 1)], "out of order"),
            (vec![link(b"a", b"")], "target"),
            (vec![link(b"a", b"x\0")], "NUL"),
            (vec![directory(SPOOL)], "keep for themselves"),
            (vec![file(b"a", u64::MAX)], "size"),
            (vec![file(b"a", 1 << 60), file(b"b", 1)], "size"),
        ] {
            let error = Manifest::decode(&forged(entries), &Limits::default()).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        let mut set_user = file(b"a", 1);
        set_user.mode = 0o4755;
        let error = Manifest::decode(&forged(vec![set_user]), &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("mode"), "{error}");
    }

    #[test]
    fn a_few_bytes_do_not_become_a_long_list() {
        // A directory deep down, and very many short names in it.
        let mut entries = Vec::new();
        let mut path = Vec::new();
        for _ in 0..15 {
            path.extend_from_slice(&[b'd'; 245]);
            entries.push(directory(&path));
            path.push(b'/');
        }
        for index in 0..60_000 {
            let name = format!("{index:05}");
            entries.push(file(&[&path[..], name.as_bytes()].concat(), 0));
        }
        let bytes = Manifest::new(entries).unwrap().encode();
        assert!(bytes.len() < 2 << 20);
        let error = Manifest::decode(&bytes, &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("bytes of paths"), "{error}");
        let shallow = (0..60_000).map(|index| file(format!("{index:05}").as_bytes(), 0));
        let bytes = Manifest::new(shallow.collect()).unwrap().encode();
        assert!(Manifest::decode(&bytes, &Limits::default()).is_ok());
        let limits = Limits {
            paths_max: 59_999 * 5,
            ..Limits::default()
        };
        assert!(Manifest::decode(&bytes, &limits).is_err());
    }

    #[test]
    fn the_limits_hold_before_anything_is_allocated() {
        let limits = Limits {
            entries_max: 2,
            manifest_max: 64,
            paths_max: 64,
        };
        let many = forged(vec![file(b"a", 1), file(b"b", 1), file(b"c", 1)]);
        assert!(matches!(
            Manifest::decode(&many[..60], &limits),
            Err(ManifestError::TooLong {
                what: "entries",
                ..
            })
        ));
        assert!(matches!(
            Manifest::decode(&[0; 65], &limits),
            Err(ManifestError::TooLong { what: "bytes", .. })
        ));
        let lies = [0xff, 0xff, 0x03];
        assert!(Manifest::decode(&lies, &Limits::default()).is_err());
    }
}
