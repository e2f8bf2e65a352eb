//! The bytes of a manifest.
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

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::{Entry, Kind, Limits, Manifest, ManifestError, Timestamp};

/// The kinds of entries.
const DIRECTORY: u8 = 0;
const FILE: u8 = 1;
const LINK: u8 = 2;

/// What there may be too much of.
const ENTRIES: &str = "entries";
pub(super) const BYTES: &str = "bytes";
pub(super) const PATHS: &str = "bytes of paths";

impl Manifest {
    /// Encodes it as it is on the wire.
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.varint(self.entries.len() as u64);
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            put_entry(&mut out, before, entry);
            before = &entry.path;
        }
        bytes.into()
    }

    /// What receivers with these `limits` refuse about it: which limit, how much there is, and how
    /// much there may be. [`decode`](Self::decode) has the same limits.
    pub(super) fn excess(&self, limits: &Limits) -> Option<ManifestError> {
        let too_long = |what, value, max| Some(ManifestError::TooLong { what, value, max });
        let (entries, bytes) = (self.entries.len(), self.encoded_len());
        let paths: usize = self.entries.iter().map(|entry| entry.path.len()).sum();
        let paths_max = limits.paths_of(bytes);
        if entries > limits.entries_max {
            return too_long(ENTRIES, entries, limits.entries_max);
        }
        if bytes > limits.manifest_max {
            return too_long(BYTES, bytes, limits.manifest_max);
        }
        if paths > paths_max {
            return too_long(PATHS, paths, paths_max);
        }
        None
    }

    /// The length of what [`encode`](Self::encode) returns, in less memory.
    fn encoded_len(&self) -> usize {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).varint(self.entries.len() as u64);
        let mut len = bytes.len();
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            bytes.clear();
            put_entry(&mut Writer::new(&mut bytes), before, entry);
            len += bytes.len();
            before = &entry.path;
        }
        len
    }

    /// Decodes a manifest that came from the network or a disk.
    ///
    /// # Errors
    /// Why it is refused. Memory is bounded by a multiple of the bytes present, and by `limits`.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, ManifestError> {
        let too_long = |what, value, max| ManifestError::TooLong { what, value, max };
        if bytes.len() > limits.manifest_max {
            return Err(too_long(BYTES, bytes.len(), limits.manifest_max));
        }
        let mut reader = Reader::new(bytes);
        let count = usize::try_from(reader.varint("count")?).unwrap_or(usize::MAX);
        if count > limits.entries_max {
            return Err(too_long(ENTRIES, count, limits.entries_max));
        }
        let paths_max = limits.paths_of(bytes.len());
        let mut manifest = Self::default();
        let (mut before, mut paths) = (Vec::new(), 0);
        for _ in 0..count {
            let entry = decode_entry(&mut reader, &before)?;
            paths += entry.path.len();
            if paths > paths_max {
                return Err(too_long(PATHS, paths, paths_max));
            }
            before.clone_from(&entry.path);
            manifest.push(entry)?;
        }
        reader.finish()?;
        Ok(manifest)
    }
}

/// Writes `entry`, whose predecessor has the path `before`.
fn put_entry(out: &mut Writer<'_>, before: &[u8], entry: &Entry) {
    let shared = shared_prefix(before, &entry.path);
    let rest = &entry.path[shared..];
    out.u8(match entry.kind {
        Kind::Directory => DIRECTORY,
        Kind::File { .. } => FILE,
        Kind::Link { .. } => LINK,
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
}

/// How many bytes `a` and `b` have in common at their beginning.
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
        DIRECTORY => Kind::Directory,
        FILE => Kind::File {
            size: reader.varint("size")?,
            fingerprint: reader.u64("fingerprint")?,
        },
        LINK => Kind::Link {
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

/// Reads a length, at most that of a path, and as many bytes.
fn bytes_of<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], DecodeError> {
    let len = reader.varint(field)?;
    match usize::try_from(len) {
        Ok(len) if len <= Manifest::PATH_MAX => reader.take(field, len),
        _ => Err(reader.invalid(field, len)),
    }
}
