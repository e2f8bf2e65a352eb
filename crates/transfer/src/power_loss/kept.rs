//! Tests that no crash costs what is here already: files in the target, and parts of a transfer
//! that broke off.
//!
//! Goal and method are those of the module above; a transfer is taken up where another one ended.

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
