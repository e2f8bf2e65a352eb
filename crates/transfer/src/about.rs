//! The announcement of a transfer, and the layout of its content in the stream.
//!
//! Announcement ([`About`], at most 1 KiB, in the bulk protocol's `about`):
//!
//! | field | bytes | meaning |
//! |---|---|---|
//! | version | 1 | 1 |
//! | kind | 1 | 0 files, 1 stream, 2 a request to a group, 3 a list of files (`list.rs`), 4 a connection for messages |
//! | host | varint, n | the sender's name |
//! | label | varint, n | what is sent, for people (not of a request or a connection) |
//! | *files:* content id | 32 | hash of the manifest |
//! | manifest, content, chunk, entries | 4, 8, 4, 4 | lengths in bytes; number of entries |
//! | *a list:* the same, and hashed | 1 | 1 if hashes follow the manifest, else 0 |
//!
//! A stream of files is the manifest, then the content of all files one after the other, cut into
//! chunks of equal size; each chunk is followed by its BLAKE3 hash (32 bytes). Chunks do not end
//! where files end, so that many small files have few hashes. `frames.rs` has the layout of a
//! pipe's stream. The stream of a list is the manifest and, if it is hashed, the BLAKE3 hash of
//! each 256 KiB of each file, from the file's start.

use std::ops::Range;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use crate::manifest::{ContentId, Limits};

/// The bytes of the hash behind each chunk.
pub(crate) const HASH: u64 = 32;

/// The kinds of announcements.
mod kind {
    pub(super) const FILES: u8 = 0;
    pub(super) const PIPE: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
    pub(super) const LIST: u8 = 3;
    pub(super) const CONNECTION: u8 = 4;
}

/// The announcement of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// The sender's name, for people.
    pub(crate) host: String,
    /// A name for the content, for people.
    pub(crate) label: String,
    /// The kind of content, and its layout.
    pub(crate) content: Content,
}

/// The kind of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Files and directories.
    Files {
        /// The identity of the content.
        id: ContentId,
        /// The layout of their stream.
        layout: Layout,
        /// How many entries the manifest has.
        entries: u32,
    },
    /// A pipe of unknown length.
    Pipe,
    /// The list of files that are about to be sent.
    List {
        /// The identity of the content.
        id: ContentId,
        /// The layout of the stream in which the files will come.
        layout: Layout,
        /// How many entries the manifest has.
        entries: u32,
        /// Whether hashes follow the manifest.
        hashed: bool,
    },
}

impl About {
    /// The only version so far.
    const VERSION: u8 = 1;
    /// The longest host name or label, in bytes.
    const TEXT_MAX: usize = 255;

    /// The identity of the content; a pipe has none.
    pub(crate) fn content_id(&self) -> Option<ContentId> {
        match self.content {
            Content::Files { id, .. } | Content::List { id, .. } => Some(id),
            Content::Pipe => None,
        }
    }

    /// Encodes it. Texts that are too long are cut off.
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        let kind = match self.content {
            Content::Files { .. } => kind::FILES,
            Content::Pipe => kind::PIPE,
            Content::List { .. } => kind::LIST,
        };
        out.u8(Self::VERSION).u8(kind);
        for text in [&self.host, &self.label] {
            let text = &text[..text.floor_char_boundary(Self::TEXT_MAX)];
            out.varint(text.len() as u64).put(text.as_bytes());
        }
        if let Content::Files {
            id,
            layout,
            entries,
        }
        | Content::List {
            id,
            layout,
            entries,
            ..
        } = &self.content
        {
            out.put(&id.0)
                .u32(layout.manifest)
                .u64(layout.content)
                .u32(layout.chunk)
                .u32(*entries);
        }
        if let Content::List { hashed, .. } = &self.content {
            out.u8(u8::from(*hashed));
        }
        bytes.into()
    }

    /// Decodes the announcement of a stream of `length` bytes.
    ///
    /// # Errors
    /// If it is malformed, or exceeds `limits`.
    pub(crate) fn decode(
        bytes: &[u8],
        length: Option<u64>,
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8("version")?;
        if version != Self::VERSION {
            return Err(reader.invalid("version", version.into()));
        }
        let kind = reader.u8("kind")?;
        let host = text(&mut reader, "host")?;
        let label = text(&mut reader, "label")?;
        let content = match kind {
            kind::FILES => files(&mut reader, length, limits)?,
            kind::PIPE => Content::Pipe,
            kind::LIST => list(&mut reader, length, limits)?,
            other => return Err(reader.invalid("kind", other.into())),
        };
        reader.finish()?;
        Ok(Self {
            host,
            label,
            content,
        })
    }
}

/// The announcement of something of which only the sender's name is said. Hosts that wait for
/// another kind pass over it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AboutHost<const KIND: u8> {
    /// The sender's name, for people.
    pub(crate) host: String,
}

/// The announcement of a request to a group.
pub(crate) type AboutRequest = AboutHost<{ kind::REQUEST }>;

/// The announcement of a connection for messages.
pub(crate) type AboutConnection = AboutHost<{ kind::CONNECTION }>;

impl<const KIND: u8> AboutHost<KIND> {
    /// Whether `bytes` announce this kind.
    pub(crate) fn is_announced(bytes: &[u8]) -> bool {
        bytes.starts_with(&[About::VERSION, KIND])
    }

    /// Encodes it. A name that is too long is cut off.
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        let host = &self.host[..self.host.floor_char_boundary(About::TEXT_MAX)];
        Writer::new(&mut bytes)
            .u8(About::VERSION)
            .u8(KIND)
            .varint(host.len() as u64)
            .put(host.as_bytes());
        bytes.into()
    }

    /// Decodes an announcement of this kind.
    ///
    /// # Errors
    /// If it is not of this kind.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8("version")?;
        let kind = reader.u8("kind")?;
        if (version, kind) != (About::VERSION, KIND) {
            return Err(reader.invalid("kind", kind.into()));
        }
        let host = text(&mut reader, "host")?;
        reader.finish()?;
        Ok(Self { host })
    }
}

impl AboutRequest {
    /// The stream of a request: its bytes, and one more that ends it. Members begin to work when
    /// that last byte is delivered, so holding it back holds back any request, even an empty one.
    pub(crate) fn stream(request: &[u8]) -> Bytes {
        [request, &[0]].concat().into()
    }

    /// The length of the stream of a request of `len` bytes.
    pub(crate) fn stream_len(len: usize) -> u64 {
        len as u64 + 1
    }

    /// The request in a whole stream.
    pub(crate) fn request_of(mut stream: Vec<u8>) -> Bytes {
        stream.pop();
        stream.into()
    }
}

/// Reads the rest of the announcement of files, whose stream has `length` bytes.
fn files(
    reader: &mut Reader<'_>,
    length: Option<u64>,
    limits: &Limits,
) -> Result<Content, DecodeError> {
    let (id, layout, entries) = described(reader, limits)?;
    if layout.checked_len() != length || length.is_none() {
        return Err(reader.invalid("content", layout.content));
    }
    Ok(Content::Files {
        id,
        layout,
        entries,
    })
}

/// Reads the rest of the announcement of a list, whose stream has `length` bytes.
fn list(
    reader: &mut Reader<'_>,
    length: Option<u64>,
    limits: &Limits,
) -> Result<Content, DecodeError> {
    let (id, layout, entries) = described(reader, limits)?;
    let hashed = reader.u8("hashed")?;
    let hashes = length.and_then(|length| length.checked_sub(layout.manifest.into()));
    let is_length = match hashed {
        0 => hashes == Some(0),
        1 => hashes.is_some_and(|hashes| hashes <= limits.manifest_max as u64),
        other => return Err(reader.invalid("hashed", other.into())),
    };
    // The layout is that of the files to come.
    if !is_length || layout.checked_len().is_none() {
        return Err(reader.invalid("length", length.unwrap_or_default()));
    }
    Ok(Content::List {
        id,
        layout,
        entries,
        hashed: hashed == 1,
    })
}

/// Reads what the announcements of files and of a list have in common: identity, layout, and number
/// of entries.
fn described(
    reader: &mut Reader<'_>,
    limits: &Limits,
) -> Result<(ContentId, Layout, u32), DecodeError> {
    let mut id = ContentId([0; 32]);
    id.0.copy_from_slice(reader.take("content id", 32)?);
    let manifest = reader.u32("manifest")?;
    if manifest as usize > limits.manifest_max {
        return Err(reader.invalid("manifest", manifest.into()));
    }
    let content = reader.u64("content")?;
    let chunk = reader.u32("chunk")?;
    if !Layout::CHUNKS.contains(&chunk) {
        return Err(reader.invalid("chunk", chunk.into()));
    }
    let layout = Layout {
        manifest,
        content,
        chunk,
    };
    let entries = reader.u32("entries")?;
    if entries as usize > limits.entries_max {
        return Err(reader.invalid("entries", entries.into()));
    }
    Ok((id, layout, entries))
}

fn text(reader: &mut Reader<'_>, field: &'static str) -> Result<String, DecodeError> {
    let len = reader.varint(field)?;
    match usize::try_from(len) {
        Ok(len) if len <= About::TEXT_MAX => {
            Ok(String::from_utf8_lossy(reader.take(field, len)?).into_owned())
        }
        _ => Err(reader.invalid(field, len)),
    }
}

/// The layout of a stream of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Bytes of the manifest.
    pub(crate) manifest: u32,
    /// Bytes of all files.
    pub(crate) content: u64,
    /// Bytes of a chunk; the last may be shorter.
    pub(crate) chunk: u32,
}

/// A part of the stream that is verified and written as one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Piece {
    /// The manifest.
    Manifest,
    /// The chunk of this number, with its hash.
    Chunk(u64),
}

impl Layout {
    /// The chunk sizes that a receiver takes, in bytes.
    pub(crate) const CHUNKS: std::ops::RangeInclusive<u32> = 4 << 10..=4 << 20;
    /// A sender's chunk size, in bytes: large enough that hashing runs at full speed and a write is
    /// worth its call, small enough that little is lost when a transfer breaks.
    pub(crate) const CHUNK: u32 = 256 << 10;

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.content.div_ceil(u64::from(self.chunk))
    }

    /// The length of the whole stream.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.manifest) + self.content + self.chunks() * HASH
    }

    /// The same for an unchecked layout; `None` on overflow.
    fn checked_len(&self) -> Option<u64> {
        let hashes = self.chunks().checked_mul(HASH)?;
        u64::from(self.manifest)
            .checked_add(self.content)?
            .checked_add(hashes)
    }

    /// The bytes of the content that chunk `index` holds.
    pub(crate) fn content_of(&self, index: u64) -> Range<u64> {
        let start = index * u64::from(self.chunk);
        start..(start + u64::from(self.chunk)).min(self.content)
    }

    /// The bytes of the stream that `piece` is.
    pub(crate) fn range(&self, piece: Piece) -> Range<u64> {
        let manifest = u64::from(self.manifest);
        match piece {
            Piece::Manifest => 0..manifest,
            Piece::Chunk(index) => {
                let content = self.content_of(index);
                let start = manifest + content.start + index * HASH;
                start..start + (content.end - content.start) + HASH
            }
        }
    }

    /// The piece that the byte at `offset` of the stream belongs to.
    pub(crate) fn piece_at(&self, offset: u64) -> Piece {
        match offset.checked_sub(u64::from(self.manifest)) {
            None => Piece::Manifest,
            Some(behind) => Piece::Chunk(behind / (u64::from(self.chunk) + HASH)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(manifest: u32, content: u64) -> Layout {
        Layout {
            manifest,
            content,
            chunk: 4096,
        }
    }

    #[test]
    fn the_pieces_are_the_stream_without_gaps() {
        for content in [0, 1, 4095, 4096, 4097, 3 * 4096 + 17] {
            let layout = layout(77, content);
            let mut end = layout.range(Piece::Manifest).end;
            for index in 0..layout.chunks() {
                let range = layout.range(Piece::Chunk(index));
                assert_eq!(range.start, end);
                for offset in [range.start, range.end - 1] {
                    assert_eq!(layout.piece_at(offset), Piece::Chunk(index));
                }
                end = range.end;
            }
            assert_eq!(end, layout.len());
            assert_eq!(layout.piece_at(76), Piece::Manifest);
        }
    }

    #[test]
    fn a_request_is_told_from_what_is_for_receivers_of_files() {
        let request = AboutRequest {
            host: "häuser".repeat(60),
        };
        let bytes = request.encode();
        let read = AboutRequest::decode(&bytes).unwrap();
        assert!(request.host.starts_with(&read.host) && read.host.len() > 250);
        assert!(AboutRequest::is_announced(&bytes));
        assert!(About::decode(&bytes, Some(1), &Limits::default()).is_err());
        let pipe = About {
            host: "a".into(),
            label: "b".into(),
            content: Content::Pipe,
        };
        assert!(!AboutRequest::is_announced(&pipe.encode()));
        let connection = AboutConnection { host: "a".into() };
        assert!(!AboutRequest::is_announced(&connection.encode()));
        assert!(AboutConnection::is_announced(&connection.encode()));
        assert_eq!(
            AboutConnection::decode(&connection.encode()).unwrap(),
            connection
        );
        assert!(AboutConnection::decode(&bytes).is_err());
        assert!(AboutRequest::decode(&pipe.encode()).is_err());
    }

    #[test]
    fn an_announcement_is_read_as_it_was_written_and_nonsense_is_refused() {
        let limits = Limits::default();
        let about = About {
            host: "häuser".repeat(60),
            label: "image.raw".into(),
            content: Content::Files {
                id: ContentId([7; 32]),
                layout: layout(9, 10_000),
                entries: 3,
            },
        };
        let bytes = about.encode();
        assert!(bytes.len() <= 1024);
        let length = Some(layout(9, 10_000).len());
        let read = About::decode(&bytes, length, &limits).unwrap();
        assert_eq!(
            (read.label, read.content),
            (about.label.clone(), about.content)
        );
        assert!(about.host.starts_with(&read.host));
        assert!(About::decode(&bytes, Some(10_000), &limits).is_err());
        assert!(About::decode(&bytes, None, &limits).is_err());
        for len in 0..bytes.len() {
            assert!(About::decode(&bytes[..len], length, &limits).is_err());
        }
        for (hashed, len, is_one) in [(false, 9, true), (false, 10, false), (true, 9 + 96, true)] {
            let Content::Files {
                id,
                layout,
                entries,
            } = about.content
            else {
                unreachable!()
            };
            let content = Content::List {
                id,
                layout,
                entries,
                hashed,
            };
            let list = About {
                content,
                ..about.clone()
            };
            let read = About::decode(&list.encode(), Some(len), &limits);
            assert_eq!(read.is_ok_and(|read| read.content == content), is_one);
        }
        let absurd = About {
            content: Content::Files {
                id: ContentId([7; 32]),
                layout: layout(9, u64::MAX),
                entries: 3,
            },
            ..about
        };
        assert!(About::decode(&absurd.encode(), None, &limits).is_err());
    }

    #[test]
    fn a_request_has_an_end_that_can_be_held_back() {
        for request in [&b""[..], b"what?"] {
            let stream = AboutRequest::stream(request);
            assert_eq!(stream.len() as u64, AboutRequest::stream_len(request.len()));
            assert!(stream.len() > request.len());
            assert_eq!(AboutRequest::request_of(stream.to_vec()), request);
        }
        assert!(AboutRequest::request_of(Vec::new()).is_empty());
    }
}
