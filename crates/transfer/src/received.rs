//! Files on their way in: what an earlier transfer left, what arrives, and the moment when all of
//! it is put in place.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;

use crate::about::{HASH, Layout, Piece};
use crate::beneath::Root;
use crate::content::content_id;
use crate::manifest::{ContentId, Entry, Kind, Limits, Manifest};
use crate::spool::{Claim, Journal, TransferFolder};
use crate::stage::StagingTree;

/// One transfer of files at a receiver. Errors are told to the sender's user, too.
#[derive(Debug)]
pub(crate) struct ReceivedFiles {
    claim: Claim,
    folder: TransferFolder,
    id: ContentId,
    layout: Layout,
    limits: Limits,
    /// As soon as the manifest is there.
    writing: Option<Writing>,
    /// Chunks that came before the manifest.
    early: Vec<(u64, Vec<u8>)>,
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
        })
    }

    /// The whole stream: what is held where all files are in place.
    pub(crate) fn everything(&self) -> Vec<Range<u64>> {
        let whole = 0..self.layout.len();
        vec![whole]
    }

    /// Whether the files of `manifest`, put in place before, are still as they were then, by size
    /// and time.
    pub(crate) fn are_in_place(&self, manifest: &[u8]) -> bool {
        let manifest = Manifest::decode(manifest, &self.limits);
        let (Ok(manifest), Ok(mut target)) = (manifest, self.claim.spool().target()) else {
            return false;
        };
        let mut entries = manifest.entries().iter();
        entries.all(|entry| is_in_place(&mut target, entry))
            && self.claim.spool().is_in_place().unwrap_or(false)
    }

    /// Takes up what an earlier transfer of this content left: the ranges of the stream that are
    /// here.
    pub(crate) fn resume(&mut self, stop: &AtomicBool) -> Result<Vec<Range<u64>>, String> {
        if self.layout.chunks() > Journal::CHUNKS_MAX {
            return Err("the content has more chunks than can be kept account of".into());
        }
        let Some(manifest) = self.folder.manifest(&self.id, self.layout.manifest) else {
            self.reserve(0)?;
            return Ok(Vec::new());
        };
        let manifest = self.read_manifest(&manifest)?;
        let said = self.folder.journal(&self.layout).map_err(kept)?;
        let tree = self.folder.tree().map_err(kept)?;
        let mut stage =
            StagingTree::new(manifest, self.layout, tree).map_err(|error| error.to_string())?;
        let mut there = BTreeMap::new();
        let mut held = vec![self.layout.range(Piece::Manifest)];
        let mut bytes = 0;
        for (index, hash) in said {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if stage.hash_chunk(index) == Some(hash) {
                let content = self.layout.content_of(index);
                bytes += content.end - content.start;
                extend(&mut held, self.layout.range(Piece::Chunk(index)));
                there.insert(index, hash);
            }
        }
        stage.close();
        self.reserve(bytes)?;
        let journal = self.folder.open_journal(&there).map_err(kept)?;
        self.writing = Some(Writing { stage, journal });
        Ok(held)
    }

    /// The manifest arrived: what came before it is written. How many bytes that was.
    pub(crate) fn begin(&mut self, bytes: &[u8]) -> Result<u64, String> {
        if content_id(bytes) != self.id {
            return Err("the list of files is not the one that was announced".into());
        }
        let manifest = self.read_manifest(bytes)?;
        self.folder.begin(bytes).map_err(kept)?;
        let tree = self.folder.tree().map_err(kept)?;
        let stage =
            StagingTree::new(manifest, self.layout, tree).map_err(|error| error.to_string())?;
        let journal = self.folder.open_journal(&BTreeMap::new()).map_err(kept)?;
        self.writing = Some(Writing { stage, journal });
        let mut written = 0;
        for (index, chunk) in std::mem::take(&mut self.early) {
            written += self
                .write(index, chunk)?
                .map_or(0, |chunk| chunk.len() as u64);
        }
        Ok(written)
    }

    /// A chunk arrived, its hash included. It is given back when it is done with; before the
    /// manifest is here, it is kept.
    pub(crate) fn write(&mut self, index: u64, chunk: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let Some(writing) = &mut self.writing else {
            self.early.push((index, chunk));
            return Ok(None);
        };
        let (bytes, hash) = chunk.split_at(chunk.len().saturating_sub(HASH as usize));
        let found = blake3::hash(bytes);
        if found.as_bytes()[..] != *hash {
            return Err(format!(
                "chunk {index} does not have the hash that came with it"
            ));
        }
        writing
            .stage
            .write_chunk(index, bytes)
            .map_err(|error| error.to_string())?;
        writing.journal.append(index, &found).map_err(kept)?;
        self.claim.written(bytes.len() as u64);
        Ok(Some(chunk))
    }

    /// Everything has arrived: puts it in place, and leaves nothing behind.
    pub(crate) fn publish(&mut self) -> Result<(), String> {
        let Some(Writing { mut stage, journal }) = self.writing.take() else {
            return Err("the list of files is missing".into());
        };
        drop(journal);
        let spool = self.claim.spool();
        let mut target = spool.target().map_err(kept)?;
        stage
            .publish(&mut target)
            .map_err(|error| error.to_string())?;
        if !spool.is_in_place().map_err(kept)? {
            let path = spool.path().display();
            return Err(format!("{path} was moved away while files were put there"));
        }
        self.folder.remove().map_err(kept)
    }

    /// Removes what has arrived.
    pub(crate) fn discard(&mut self) -> Result<(), String> {
        self.writing = None;
        self.folder.remove().map_err(kept)
    }

    fn read_manifest(&self, bytes: &[u8]) -> Result<Manifest, String> {
        let manifest = Manifest::decode(bytes, &self.limits).map_err(|error| error.to_string())?;
        match manifest.content_len() == self.layout.content {
            true => Ok(manifest),
            false => Err("the list of files does not have the announced length".into()),
        }
    }

    /// Has room kept for what is not `there` yet.
    fn reserve(&self, there: u64) -> Result<(), String> {
        let need = self.layout.content - there;
        let reserved = self.claim.reserve(need);
        reserved.map_err(|error| error.to_string())
    }
}

/// Whether `entry` is in `target` as it was put there, by size and time.
fn is_in_place(target: &mut Root, entry: &Entry) -> bool {
    let Ok(Some(there)) = target.stat(&entry.path) else {
        return false;
    };
    let kind = FileType::from_raw_mode(there.st_mode);
    match &entry.kind {
        Kind::Directory => kind == FileType::Directory,
        Kind::File { size, .. } => {
            kind == FileType::RegularFile
                && u64::try_from(there.st_size) == Ok(*size)
                && there.st_mtime == entry.modified.seconds
                && there.st_mtime_nsec == u64::from(entry.modified.nanoseconds)
        }
        Kind::Link { target: to } => target
            .link_target(&entry.path)
            .is_ok_and(|found| found == *to),
    }
}

/// Appends `range`, as one with the last if it follows it.
fn extend(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

fn kept(error: io::Error) -> String {
    format!("cannot keep what arrives: {error}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::content::Files;
    use crate::manifest::Scan;
    use crate::scratch::Scratch;
    use crate::spool::{Reserved, Spool};

    fn sent(scratch: &Scratch) -> Files {
        fs::create_dir_all(scratch.path("t")).unwrap();
        let bytes: Vec<u8> = (0..5 * Layout::CHUNK as usize + 9)
            .map(|at| (at % 253) as u8)
            .collect();
        fs::write(scratch.path("t/large"), bytes).unwrap();
        fs::write(scratch.path("t/small"), "small").unwrap();
        Files::new(Scan::of(&[scratch.path("t")]).unwrap())
    }

    fn receiver(scratch: &Scratch, files: &Files) -> ReceivedFiles {
        let spool = Arc::new(Spool::open(&scratch.path("out")).unwrap());
        claimed(&spool, files)
    }

    fn claimed(spool: &Arc<Spool>, files: &Files) -> ReceivedFiles {
        let id = content_id(files.manifest());
        let claim = Claim::new(spool, id.short().into_bytes());
        ReceivedFiles::new(claim, id, files.layout(), Limits::default()).unwrap()
    }

    fn give(received: &mut ReceivedFiles, files: &mut Files, index: u64) {
        let chunk = files.read_chunk(index).unwrap();
        received.write(index, chunk.to_vec()).unwrap();
    }

    #[test]
    fn a_broken_transfer_is_resumed_with_what_is_there_and_unchanged() {
        let scratch = Scratch::new();
        let mut files = sent(&scratch);
        let layout = files.layout();
        let stop = AtomicBool::new(false);
        {
            let mut first = receiver(&scratch, &files);
            assert_eq!(first.resume(&stop), Ok(Vec::new()));
            give(&mut first, &mut files, 2);
            assert_eq!(
                first.begin(files.manifest()),
                Ok(u64::from(Layout::CHUNK) + HASH)
            );
            for index in [0, 1, 4] {
                give(&mut first, &mut files, index);
            }
        }
        // What is kept of chunk 1 is damaged.
        let id = content_id(files.manifest());
        let staged = scratch
            .path("out/.groupcast")
            .join(id.short())
            .join("tree/t/large");
        let file = fs::File::options().write(true).open(staged).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", u64::from(Layout::CHUNK) + 1)
            .unwrap();

        let mut second = receiver(&scratch, &files);
        let range = |index| layout.range(Piece::Chunk(index));
        let held = second.resume(&stop).unwrap();
        assert_eq!(
            held,
            [0..range(0).end, range(2), range(4)],
            "all but the damaged one and those that never came"
        );
        for index in [1, 3, 5] {
            give(&mut second, &mut files, index);
        }
        second.publish().unwrap();
        assert!(second.are_in_place(files.manifest()));
        drop(second);
        for name in ["t/large", "t/small"] {
            let arrived = fs::read(scratch.path("out").join(name)).unwrap();
            assert!(arrived == fs::read(scratch.path(name)).unwrap());
        }
        assert!(!scratch.path("out/.groupcast").exists(), "nothing is left");
        fs::write(scratch.path("out/t/small"), "changed").unwrap();
        assert!(!receiver(&scratch, &files).are_in_place(files.manifest()));
    }

    #[test]
    fn what_is_not_what_was_announced_is_never_written() {
        let scratch = Scratch::new();
        let mut files = sent(&scratch);
        let mut received = receiver(&scratch, &files);
        assert!(received.begin(b"another").is_err());
        received.begin(files.manifest()).unwrap();
        let mut chunk = files.read_chunk(0).unwrap().to_vec();
        chunk[7] ^= 1;
        let error = received.write(0, chunk).unwrap_err();
        assert!(error.contains("hash"), "{error}");
        assert!(received.write(1, Vec::new()).is_err());
        received.discard().unwrap();
        drop(received);
        assert_eq!(fs::read_dir(scratch.path("out")).unwrap().count(), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_sent() {
        let scratch = Scratch::new();
        let files = sent(&scratch);
        let mut received = receiver(&scratch, &files);
        received.layout.content = 1 << 60;
        received.layout.chunk = Layout::CHUNK;
        let error = received.reserve(0).unwrap_err();
        assert!(error.contains("disk full"), "{error}");
    }

    /// Files of some 2 MiB, other ones for each `name`.
    fn large(scratch: &Scratch, name: &str) -> Files {
        let bytes = blake3::hash(name.as_bytes())
            .as_bytes()
            .repeat(SIZE as usize / 32);
        fs::write(scratch.path(name), bytes).unwrap();
        Files::new(Scan::of(&[scratch.path(name)]).unwrap())
    }

    const SIZE: u64 = 8 * Layout::CHUNK as u64;

    /// Begins to receive `files`, and breaks off half way.
    fn receive_half(spool: &Arc<Spool>, files: &mut Files) {
        let mut received = claimed(spool, files);
        received.resume(&AtomicBool::new(false)).unwrap();
        received.begin(files.manifest()).unwrap();
        for index in 0..4 {
            give(&mut received, files, index);
        }
    }

    #[test]
    fn two_transfers_do_not_count_on_the_same_room() {
        let scratch = Scratch::new();
        let (mut first, second) = (large(&scratch, "first"), large(&scratch, "second"));
        let spool = Arc::new(Spool::open(&scratch.path("out")).unwrap());
        spool.pretend_disk(SIZE * 3 / 2);
        let stop = AtomicBool::new(false);
        let mut one = claimed(&spool, &first);
        one.resume(&stop).unwrap();
        one.begin(first.manifest()).unwrap();
        let refused = claimed(&spool, &second).resume(&stop).unwrap_err();
        assert!(refused.contains("promised to other"), "{refused}");
        // What has been written is not counted twice.
        for index in 0..8 {
            give(&mut one, &mut first, index);
        }
        spool.pretend_disk(SIZE * 5 / 2);
        claimed(&spool, &second).resume(&stop).unwrap();
    }

    #[test]
    fn what_broke_off_makes_room_if_that_is_enough() {
        let scratch = Scratch::new();
        let (mut first, second) = (large(&scratch, "first"), large(&scratch, "second"));
        let spool = Arc::new(Spool::open(&scratch.path("out")).unwrap());
        spool.pretend_disk(SIZE * 5 / 4);
        receive_half(&spool, &mut first);
        let stop = AtomicBool::new(false);
        let kept = || spool.has(&content_id(first.manifest()));
        let mut too_large = claimed(&spool, &second);
        too_large.layout.content = SIZE * 2;
        assert!(too_large.resume(&stop).unwrap_err().contains("disk full"));
        assert!(kept(), "removing it would not have helped");
        drop(too_large);
        claimed(&spool, &second).resume(&stop).unwrap();
        assert!(!kept());
    }

    #[test]
    fn a_retry_after_the_disk_was_full_goes_on_with_what_is_there() {
        let scratch = Scratch::new();
        let (mut first, mut second) = (large(&scratch, "first"), large(&scratch, "second"));
        let spool = Arc::new(Spool::open(&scratch.path("out")).unwrap());
        receive_half(&spool, &mut first);
        receive_half(&spool, &mut second);
        // Both broke off because the disk was full, and it still is.
        spool.pretend_disk(SIZE * 6 / 5);
        let mut again = claimed(&spool, &first);
        let held = again.resume(&AtomicBool::new(false)).unwrap();
        let held: u64 = held.iter().map(|range| range.end - range.start).sum();
        assert!(held >= SIZE / 2, "{held}");
        for index in 4..8 {
            give(&mut again, &mut first, index);
        }
        again.publish().unwrap();
    }

    #[test]
    fn a_stream_takes_room_that_nobody_was_promised() {
        use std::io::Write as _;

        let scratch = Scratch::new();
        let files = large(&scratch, "files");
        let spool = Arc::new(Spool::open(&scratch.path("out")).unwrap());
        spool.pretend_disk(SIZE * 2);
        let received = claimed(&spool, &files);
        received.reserve(0).unwrap();
        let file = spool.create_stream("stream").unwrap();
        let mut stream = Reserved::new(file, Claim::new(&spool, b"stream".to_vec()));
        let bytes = vec![7; SIZE as usize / 4];
        let written = (0..8).take_while(|_| stream.write_all(&bytes).is_ok());
        assert_eq!(written.count(), 4);
    }
}
