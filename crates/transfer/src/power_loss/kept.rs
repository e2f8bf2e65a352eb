//! Tests that no crash costs what is here already: files in the target, and parts of a transfer
//! that broke off.
//!
//! Goal and method are those of the module above; a transfer is taken up where another one ended.

use std::ops::Range;

use super::*;

/// Makes a file of several chunks at the sender; the transfer with it, in small chunks.
fn with_a_large_file(scratch: &Scratch) -> Files {
    drop(files(scratch));
    let noise: Vec<u8> = (0..30_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(scratch.path("from").join(LARGE), noise).unwrap();
    let paths = ["t", "u"].map(|name| scratch.path("from").join(name));
    Files::new(Scan::of(&paths).unwrap()).in_chunks(4096)
}

const LARGE: &str = "t/old/large";

/// Takes up the transfer of `files` in `spool`.
fn expected(spool: Spool, files: &Files) -> ReceivedFiles {
    let id = content_id(files.manifest());
    let claim = Claim::new(&Arc::new(spool), id.short().into_bytes());
    ReceivedFiles::new(claim, id, files.layout(), Limits::default()).unwrap()
}

/// Receives the list of `files` and these chunks, and breaks off.
fn begin(spool: Spool, files: &mut Files, chunks: impl Iterator<Item = u64>) {
    let mut received = expected(spool, files);
    received.begin(files.manifest()).unwrap();
    for index in chunks {
        let chunk = files.read_chunk(index).unwrap();
        received.write(index, chunk.to_vec()).unwrap();
    }
}

#[test]
fn a_file_that_stays_is_whole_after_every_crash() {
    for (durable, loses_half) in [(true, true), (false, false)] {
        let scratch = Scratch::new();
        let mut files = with_a_large_file(&scratch);
        let out = scratch.path("out");
        let open = || Spool::open(&out, &Limits::default(), durable).unwrap();
        // Of the large file one chunk has come; then the whole of it by other means.
        begin(open(), &mut files, 3..4);
        fs::copy(scratch.path("from").join(LARGE), out.join(LARGE)).unwrap();
        let before = Model::of(&out);
        let layout = files.layout();
        let hashes = files.block_hashes(&mut || true).unwrap().unwrap();
        let changes = recorded(|| {
            let mut received = expected(open(), &files);
            let never = AtomicBool::new(false);
            let held = received.compare(files.manifest(), &hashes, &never).unwrap();
            for index in 0..layout.chunks() {
                let range = layout.range(Piece::Chunk(index));
                let is_in = |it: &Range<u64>| it.start <= range.start && range.end <= it.end;
                if !held.iter().any(is_in) {
                    let chunk = files.read_chunk(index).unwrap();
                    received.write(index, chunk.to_vec()).unwrap();
                }
            }
            received.publish().unwrap();
            note(|| Change::Told);
        });
        let loses = |rng: &mut Rng| loses_half && rng.below(2) == 0;
        let (nothing, everything) =
            crash_at_every_moment(&out, &before, &changes, (durable, 3), loses);
        assert!(nothing > 10 && everything > 10, "{nothing} {everything}");
    }
}

#[test]
fn what_is_kept_of_a_transfer_survives_a_crash_while_it_is_taken_up() {
    let scratch = Scratch::new();
    let mut files = with_a_large_file(&scratch);
    let out = scratch.path("out");
    let open = || Spool::open(&out, &Limits::default(), true).unwrap();
    begin(open(), &mut files, 0..6);
    let before = Model::of(&out);
    let never = AtomicBool::new(false);
    let mut held = Vec::new();
    let changes = recorded(|| held = expected(open(), &files).resume(&never).unwrap());
    let end = files.layout().range(Piece::Chunk(5)).end;
    assert_eq!(held, std::slice::from_ref(&(0..end)));
    for moment in 0..=changes.len() {
        for seed in 0..4 {
            let mut rng = Rng::new(seed * 1000 + moment as u64);
            let left = Model::after(&before, &changes[..moment], || match seed {
                0 => false,
                1 => true,
                _ => rng.below(2) == 0,
            });
            left.restore(&out);
            let again = expected(open(), &files).resume(&never);
            assert_eq!(again.as_ref(), Ok(&held), "moment {moment}, seed {seed}");
        }
    }
}
