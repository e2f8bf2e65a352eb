//! Reads the content that is sent: the stream of files by ranges, cut into chunks with their
//! hashes.
//!
//! Files are opened one at a time. After each read a file's fingerprint is compared with that in
//! the manifest: a file that has changed ends the transfer, instead of arriving as a mixture of two
//! versions.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use bytes::Bytes;

use crate::about::{Content, HASH, Layout};
use crate::compare::{BLOCK, blocks};
use crate::manifest::{ContentId, Kind, Limits, Manifest, Scan, fingerprint};

/// Why the content cannot be read any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file has changed since the transfer began.
    #[error("{} changed while it was sent: nothing of this transfer is put in place", .path.display())]
    Changed {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file, or the pipe, cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The files of a transfer, to be read in any order.
#[derive(Debug)]
pub(crate) struct Files {
    scan: Scan,
    layout: Layout,
    encoded: Bytes,
    places: FilePlaces,
    open: Option<(usize, File)>,
}

impl Files {
    pub(crate) fn new(scan: Scan) -> Self {
        let encoded = scan.manifest.encode();
        let layout = Layout {
            // Manifests are far below 4 GiB: receivers take 128 MiB.
            manifest: u32::try_from(encoded.len()).unwrap_or(u32::MAX),
            content: scan.manifest.content_len(),
            chunk: Layout::CHUNK,
        };
        Self {
            layout,
            places: FilePlaces::new(&scan.manifest),
            encoded,
            scan,
            open: None,
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The same in chunks of `chunk` bytes.
    #[cfg(test)]
    pub(crate) fn in_chunks(mut self, chunk: u32) -> Self {
        self.layout.chunk = chunk;
        self
    }

    /// What the announcement says.
    pub(crate) fn content(&self) -> Content {
        Content::Files {
            id: content_id(&self.encoded),
            layout: self.layout,
            entries: u32::try_from(self.scan.manifest.entries().len()).unwrap_or(u32::MAX),
        }
    }

    /// The encoded manifest.
    pub(crate) fn manifest(&self) -> &Bytes {
        &self.encoded
    }

    /// Reads a chunk, and appends its hash.
    pub(crate) fn read_chunk(&mut self, index: u64) -> Result<Bytes, ReadError> {
        let content = self.layout.content_of(index);
        let len = (content.end - content.start) as usize;
        let mut chunk = vec![0; len + HASH as usize];
        let mut filled = 0;
        while filled < len {
            let at = content.start + filled as u64;
            let place = self.places.find(at);
            let part = (place.left as usize).min(len - filled);
            self.read_file(place, &mut chunk[filled..filled + part])?;
            filled += part;
        }
        let hash = blake3::hash(&chunk[..len]);
        chunk[len..].copy_from_slice(hash.as_bytes());
        Ok(chunk.into())
    }

    /// Whether receivers take the hashes of all blocks: if there are more, nothing is compared.
    pub(crate) fn is_comparable(&self) -> bool {
        self.hashes_len() <= Limits::default().manifest_max as u64
    }

    fn hashes_len(&self) -> u64 {
        blocks(&self.scan.manifest) * HASH
    }

    /// The hash of each block of each file, in the order of the manifest. `None` if `go_on`, which
    /// is called after each block, returns false.
    ///
    /// # Errors
    /// If a file cannot be read, or has changed.
    pub(crate) fn block_hashes(
        &mut self,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let len = self.hashes_len();
        let mut hashes = Vec::with_capacity(len as usize);
        let mut block = vec![0; BLOCK as usize];
        let files: Vec<(usize, u64)> = self.scan.manifest.files().collect();
        for (entry, size) in files {
            let mut offset = 0;
            while offset < size {
                let left = size - offset;
                let place = FilePlace {
                    entry,
                    offset,
                    left,
                };
                let bytes = &mut block[..left.min(BLOCK) as usize];
                self.read_file(place, bytes)?;
                hashes.extend(blake3::hash(bytes).as_bytes());
                offset += bytes.len() as u64;
                if !go_on() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(hashes))
    }

    fn read_file(&mut self, place: FilePlace, into: &mut [u8]) -> Result<(), ReadError> {
        let path = &self.scan.sources[place.entry];
        let failed = |source: io::Error| ReadError::Io {
            path: path.clone(),
            source,
        };
        let changed = || ReadError::Changed { path: path.clone() };
        if self
            .open
            .as_ref()
            .is_none_or(|(open, _)| *open != place.entry)
        {
            self.open = None;
            let file = File::open(path).map_err(failed)?;
            self.open = Some((place.entry, file));
        }
        let (_, file) = self.open.as_ref().expect("it was just opened");
        match file.read_exact_at(into, place.offset) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(changed()),
            Err(error) => return Err(failed(error)),
        }
        let metadata = file.metadata().map_err(failed)?;
        match self.is_unchanged(place.entry, &metadata) {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    fn is_unchanged(&self, entry: usize, metadata: &Metadata) -> bool {
        match self.scan.manifest.entries()[entry].kind {
            Kind::File {
                fingerprint: at_first,
                ..
            } => fingerprint(metadata) == at_first,
            _ => false,
        }
    }
}

/// The identity of the content with the encoded manifest `encoded`.
pub(crate) fn content_id(encoded: &[u8]) -> ContentId {
    ContentId(*blake3::hash(encoded).as_bytes())
}

/// The place of each file in the content.
#[derive(Debug)]
pub(crate) struct FilePlaces {
    /// Entry and first byte of each file that is not empty, ascending.
    starts: Vec<(usize, u64)>,
    end: u64,
}

/// The place of a byte of the content in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FilePlace {
    /// The file's entry in the manifest.
    pub(crate) entry: usize,
    /// The byte's offset in the file.
    pub(crate) offset: u64,
    /// How many bytes the file has from there on.
    pub(crate) left: u64,
}

impl FilePlaces {
    pub(crate) fn new(manifest: &Manifest) -> Self {
        let mut end = 0;
        let starts = manifest
            .files()
            .filter(|(_, size)| *size > 0)
            .map(|(entry, size)| {
                let start = end;
                end += size;
                (entry, start)
            })
            .collect();
        Self { starts, end }
    }

    /// The place of byte `at` of the content, which must not be behind its end.
    pub(crate) fn find(&self, at: u64) -> FilePlace {
        let index = self.starts.partition_point(|(_, start)| *start <= at) - 1;
        let (entry, start) = self.starts[index];
        let end = self
            .starts
            .get(index + 1)
            .map_or(self.end, |(_, next)| *next);
        FilePlace {
            entry,
            offset: at - start,
            left: end - at,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::about::Piece;
    use crate::scratch::Scratch;

    fn files(scratch: &Scratch, contents: &[&[u8]]) -> Files {
        let tree = scratch.path("t");
        fs::create_dir_all(&tree).unwrap();
        for (index, content) in contents.iter().enumerate() {
            fs::write(tree.join(format!("f{index:03}")), content).unwrap();
        }
        Files::new(Scan::of(&[tree]).unwrap())
    }

    #[test]
    fn chunks_run_over_the_ends_of_files_and_carry_their_hash() {
        let scratch = Scratch::new();
        let long = vec![5; Layout::CHUNK as usize];
        let mut files = files(&scratch, &[b"one", b"", b"two", &long, b"end"]);
        let layout = files.layout();
        assert_eq!(layout.chunks(), 2);
        let whole = [&b"onetwo"[..], &long, b"end"].concat();
        for (index, content) in whole.chunks(Layout::CHUNK as usize).enumerate() {
            let chunk = files.read_chunk(index as u64).unwrap();
            let range = layout.range(Piece::Chunk(index as u64));
            assert_eq!(chunk.len() as u64, range.end - range.start);
            let (bytes, hash) = chunk.split_at(content.len());
            assert_eq!(bytes, content);
            assert_eq!(hash, blake3::hash(content).as_bytes());
        }
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let scratch = Scratch::new();
        let mut cut = files(&scratch, &[b"one", b"two"]);
        fs::write(scratch.path("t/f001"), "t").unwrap();
        let error = cut.read_chunk(0).unwrap_err().to_string();
        assert!(
            error.contains("f001") && error.contains("changed"),
            "{error}"
        );

        let mut grown = files(&scratch, &[b"one", b"two"]);
        let mut file = File::options()
            .append(true)
            .open(scratch.path("t/f000"))
            .unwrap();
        file.write_all(b"more").unwrap();
        assert!(matches!(
            grown.read_chunk(0),
            Err(ReadError::Changed { .. })
        ));

        let mut gone = files(&scratch, &[b"one", b"two"]);
        fs::remove_file(scratch.path("t/f000")).unwrap();
        assert!(matches!(gone.read_chunk(0), Err(ReadError::Io { .. })));
    }
}
