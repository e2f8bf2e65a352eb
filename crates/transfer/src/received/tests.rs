//! Transfers that break off, are resumed, are refused, and share a disk.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use groupcast_core::text::printable;

use super::*;
use crate::content::Files;
use crate::manifest::{Entry, Scan, Timestamp};
use crate::scratch::{Scratch, as_a_plain_user};
use crate::slow_disk::Slow;
use crate::spool::{Reserved, Spool, SpoolError};

fn open(path: &Path) -> Result<Spool, SpoolError> {
    Spool::open(path, &Limits::default(), false)
}

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
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
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
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", u64::from(Layout::CHUNK) + 1).unwrap();

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
    assert!(second.are_in_place(&InPlace::now(files.manifest().clone())));
    drop(second);
    for name in ["t/large", "t/small"] {
        let arrived = fs::read(scratch.path("out").join(name)).unwrap();
        assert!(arrived == fs::read(scratch.path(name)).unwrap());
    }
    assert!(!scratch.path("out/.groupcast").exists(), "nothing is left");
    fs::write(scratch.path("out/t/small"), "changed").unwrap();
    assert!(!receiver(&scratch, &files).are_in_place(&InPlace::now(files.manifest().clone())));
}

/// Whoever may write to the directory above could have a transfer called complete that is not where
/// the user looks for it.
#[test]
fn a_directory_that_is_moved_away_before_its_files_are_in_place_is_not_complete() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    let mut received = receiver(&scratch, &files);
    received.begin(files.manifest()).unwrap();
    for index in 0..6 {
        give(&mut received, &mut files, index);
    }
    fs::rename(scratch.path("out"), scratch.path("elsewhere")).unwrap();
    fs::create_dir(scratch.path("out")).unwrap();
    let error = received.publish().unwrap_err();
    assert!(error.contains("out was moved away"), "{error}");
    assert!(!scratch.path("out/t").exists());
}

/// Neither size nor time tells of such changes.
#[test]
fn a_file_with_other_content_or_another_mode_is_no_longer_in_place() {
    let changes: [fn(&Path); 2] = [
        |small| fs::write(small, "other").unwrap(),
        |small| fs::set_permissions(small, fs::Permissions::from_mode(0o600)).unwrap(),
    ];
    for change in changes {
        let scratch = Scratch::new();
        let mut files = sent(&scratch);
        let mut received = receiver(&scratch, &files);
        let held = received.resume(&AtomicBool::new(false));
        assert_eq!(held, Ok(Vec::new()));
        received.begin(files.manifest()).unwrap();
        for index in 0..6 {
            give(&mut received, &mut files, index);
        }
        received.publish().unwrap();
        let placed = InPlace::now(files.manifest().clone());
        assert!(received.are_in_place(&placed));
        // The system's clock for files is coarser than its others.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let small = scratch.path("out/t/small");
        let modified = fs::metadata(&small).unwrap().modified().unwrap();
        change(&small);
        let file = fs::File::open(&small).unwrap();
        file.set_modified(modified).unwrap();
        assert!(!received.are_in_place(&placed));
    }
}

#[test]
fn what_is_kept_stays_if_the_receiver_stops_while_it_checks_it() {
    let (stopped, never) = (AtomicBool::new(true), AtomicBool::new(false));
    for compares in [false, true] {
        let scratch = Scratch::new();
        let mut files = sent(&scratch);
        {
            let mut first = receiver(&scratch, &files);
            first.begin(files.manifest()).unwrap();
            for index in 0..4 {
                give(&mut first, &mut files, index);
            }
        }
        let mut second = receiver(&scratch, &files);
        let checked = match compares {
            true => {
                let hashes = files.block_hashes(&mut || true).unwrap().unwrap();
                second.compare(files.manifest(), &hashes, &stopped)
            }
            false => second.resume(&stopped).map_err(Fault::from),
        };
        let list = files.layout().range(Piece::Manifest);
        assert_eq!(
            checked,
            Ok(vec![list]),
            "nothing is told that is not checked"
        );
        drop(second);
        let held = receiver(&scratch, &files).resume(&never).unwrap();
        let kept = 0..files.layout().range(Piece::Chunk(3)).end;
        assert_eq!(held, std::slice::from_ref(&kept), "compares: {compares}");
    }
}

#[test]
fn what_is_kept_stays_if_its_list_of_files_cannot_be_read() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        let mut files = sent(&scratch);
        let mut first = receiver(&scratch, &files);
        first.begin(files.manifest()).unwrap();
        give(&mut first, &mut files, 0);
        drop(first);
        let list = scratch
            .path("out/.groupcast")
            .join(content_id(files.manifest()).short())
            .join("manifest");
        let mode = |mode| fs::set_permissions(&list, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o000);
        let never = AtomicBool::new(false);
        let error = receiver(&scratch, &files).resume(&never).unwrap_err();
        assert!(error.contains("cannot keep what arrives"), "{error}");
        mode(0o600);
        let held = receiver(&scratch, &files).resume(&never).unwrap();
        let kept = 0..files.layout().range(Piece::Chunk(0)).end;
        assert_eq!(held, [kept]);
    });
}

#[test]
fn what_is_half_in_place_is_finished_as_soon_as_nothing_stops_it() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    die_before_the_first_move(&scratch, &mut files);
    fs::create_dir_all(scratch.path("out/t/large")).unwrap();
    let second = receiver(&scratch, &files);
    let error = second.finish_publishing().unwrap_err();
    assert!(
        error.contains("half in place") && error.contains("t/large"),
        "{error}"
    );
    fs::remove_dir(scratch.path("out/t/large")).unwrap();
    assert_eq!(second.finish_publishing(), Ok(true));
    assert!(second.are_in_place(&InPlace::now(files.manifest().clone())));
    assert_eq!(second.finish_publishing(), Ok(false));
    drop(second);
    assert!(!scratch.path("out/.groupcast").exists(), "nothing is left");
}

/// Receives `files` whole, and dies when it has marked that it begins to put them in place.
fn die_before_the_first_move(scratch: &Scratch, files: &mut Files) {
    let mut received = receiver(scratch, files);
    received.begin(files.manifest()).unwrap();
    for index in 0..files.layout().chunks() {
        give(&mut received, files, index);
    }
    received.folder.begin_publishing(false, &[]).unwrap();
}

#[test]
fn what_is_half_in_place_stays_until_its_list_of_files_can_be_read() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    die_before_the_first_move(&scratch, &mut files);
    let folder = scratch
        .path("out/.groupcast")
        .join(content_id(files.manifest()).short());
    let stays = |limits: &Limits| {
        drop(Spool::open(&scratch.path("out"), limits, false).unwrap());
        assert!(folder.join("publishing").exists() && folder.join("tree/t/large").exists());
        assert!(!scratch.path("out/t").exists());
    };
    let list = folder.join("manifest");
    for limits in [
        Limits {
            manifest_max: files.manifest().len() - 1,
            ..Limits::default()
        },
        Limits {
            entries_max: 1,
            ..Limits::default()
        },
    ] {
        stays(&limits);
    }
    fs::rename(&list, scratch.path("list")).unwrap();
    fs::create_dir(&list).unwrap();
    stays(&Limits::default());
    fs::remove_dir(&list).unwrap();
    fs::rename(scratch.path("list"), &list).unwrap();
    let tree = folder.join("tree");
    fs::rename(&tree, scratch.path("tree")).unwrap();
    fs::write(&tree, "").unwrap();
    drop(open(&scratch.path("out")).unwrap());
    assert!(folder.join("publishing").exists());
    fs::remove_file(&tree).unwrap();
    fs::rename(scratch.path("tree"), &tree).unwrap();
    assert!(receiver(&scratch, &files).are_in_place(&InPlace::now(files.manifest().clone())));
    assert!(!scratch.path("out/.groupcast").exists(), "nothing is left");
}

#[test]
fn what_is_half_in_place_with_a_damaged_list_of_files_stays_until_it_is_sent_again() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    die_before_the_first_move(&scratch, &mut files);
    let folder = scratch
        .path("out/.groupcast")
        .join(content_id(files.manifest()).short());
    fs::write(folder.join("manifest"), "damaged").unwrap();
    let mut again = receiver(&scratch, &files);
    assert!(folder.join("tree/t/large").exists(), "it stays");
    assert_eq!(again.finish_publishing(), Ok(false));
    assert_eq!(again.resume(&AtomicBool::new(false)), Ok(Vec::new()));
    again.begin(files.manifest()).unwrap();
    for index in 0..files.layout().chunks() {
        give(&mut again, &mut files, index);
    }
    again.publish().unwrap();
    assert!(again.are_in_place(&InPlace::now(files.manifest().clone())));
}

#[test]
fn what_died_while_it_was_removed_is_removed() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    die_before_the_first_move(&scratch, &mut files);
    let folder = scratch
        .path("out/.groupcast")
        .join(content_id(files.manifest()).short());
    // Everything was moved, and the list of files is what was removed first.
    fs::rename(folder.join("tree/t"), scratch.path("out/t")).unwrap();
    fs::remove_file(folder.join("manifest")).unwrap();
    drop(open(&scratch.path("out")).unwrap());
    assert!(!scratch.path("out/.groupcast").exists(), "nothing is left");
    assert!(scratch.path("out/t/large").exists());
}

/// A tree with files and a directory that their owner may not read, from someone who may.
fn unreadable_tree() -> Manifest {
    let entry = |path: &str, mode, kind| Entry {
        path: path.into(),
        mode,
        modified: Timestamp {
            seconds: 1_000_000_000,
            nanoseconds: 7,
        },
        kind,
    };
    let file = |size| Kind::File {
        size,
        fingerprint: 0,
    };
    let entries = vec![
        entry("t", 0o755, Kind::Directory),
        entry("t/closed", 0o000, Kind::Directory),
        entry("t/closed/in", 0o300, Kind::Directory),
        entry("t/closed/in/f", 0o644, file(3)),
        entry("t/secret", 0o000, file(4)),
        entry("t/write-only", 0o200, file(5)),
    ];
    Manifest::new(entries).unwrap()
}

/// A receiver that has all of the tree above.
fn with_an_unreadable_tree(scratch: &Scratch) -> ReceivedFiles {
    let manifest = unreadable_tree();
    let encoded = manifest.encode();
    let layout = Layout {
        manifest: encoded.len() as u32,
        content: manifest.content_len(),
        chunk: Layout::CHUNK,
    };
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
    let id = content_id(&encoded);
    let claim = Claim::new(&spool, id.short().into_bytes());
    let mut received = ReceivedFiles::new(claim, id, layout, Limits::default()).unwrap();
    received.begin(&encoded).unwrap();
    let content = b"abcdefghijkl";
    let hash = blake3::hash(content);
    let chunk = [&content[..], hash.as_bytes()].concat();
    received.write(0, chunk).unwrap();
    received
}

/// Checks that the tree above is in place, and lets it be removed.
fn unreadable_tree_is_in_place(scratch: &Scratch) {
    assert!(!scratch.path("out/.groupcast").exists(), "it is complete");
    for entry in unreadable_tree().entries() {
        let path = scratch.path("out").join(printable(&entry.path));
        let there = fs::symlink_metadata(&path).unwrap();
        assert_eq!(there.mode() & 0o777, u32::from(entry.mode), "{path:?}");
        assert_eq!(there.mtime(), entry.modified.seconds, "{path:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn files_that_their_owner_may_not_read_are_put_in_place_after_an_interruption() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        {
            let mut received = with_an_unreadable_tree(&scratch);
            let mut target = received.claim.spool().target().unwrap();
            let stage = &mut received.writing.as_mut().unwrap().stage;
            let plan = stage.prepare(&mut target).unwrap();
            received.folder.begin_publishing(false, &[]).unwrap();
            // The first move fails, after modes and times are set.
            fs::create_dir_all(scratch.path("out/t/closed")).unwrap();
            stage.publish(plan, &mut target).unwrap_err();
        }
        fs::remove_dir_all(scratch.path("out/t")).unwrap();
        drop(open(&scratch.path("out")).unwrap());
        unreadable_tree_is_in_place(&scratch);
    });
}

#[test]
fn a_tree_that_its_owner_may_not_read_is_complete_after_an_interruption_at_the_end() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        {
            let mut received = with_an_unreadable_tree(&scratch);
            let mut target = received.claim.spool().target().unwrap();
            let stage = &mut received.writing.as_mut().unwrap().stage;
            let plan = stage.prepare(&mut target).unwrap();
            received.folder.begin_publishing(false, &[]).unwrap();
            stage.publish(plan, &mut target).unwrap();
        }
        drop(open(&scratch.path("out")).unwrap());
        unreadable_tree_is_in_place(&scratch);
    });
}

#[test]
fn a_tree_that_its_owner_may_not_look_into_is_put_in_place_again() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        let mode = |path: &str, to| {
            fs::set_permissions(scratch.path(path), fs::Permissions::from_mode(to)).unwrap();
        };
        let closed_at = || {
            let closed = fs::metadata(scratch.path("out/t/closed")).unwrap();
            (closed.mode() & 0o777, closed.mtime())
        };
        with_an_unreadable_tree(&scratch).publish().unwrap();
        let mut again = with_an_unreadable_tree(&scratch);
        // It is opened to be looked into, and closed if nothing is put in place yet.
        again.verify().unwrap();
        assert_eq!(closed_at(), (0, 1_000_000_000));
        again.publish().unwrap();
        drop(again);
        // Or if something is in the way.
        mode("out/t/closed", 0o700);
        mode("out/t/closed/in", 0o700);
        fs::remove_file(scratch.path("out/t/closed/in/f")).unwrap();
        fs::create_dir(scratch.path("out/t/closed/in/f")).unwrap();
        mode("out/t/closed/in", 0o300);
        mode("out/t/closed", 0o000);
        let mut blocked = with_an_unreadable_tree(&scratch);
        let error = blocked.publish().unwrap_err();
        assert!(error.contains("is a directory here"), "{error}");
        assert_eq!(closed_at().0, 0);
        drop(blocked);
        mode("out/t/closed", 0o700);
        fs::remove_dir(scratch.path("out/t/closed/in/f")).unwrap();
        // What somebody has closed here and the tree does not gets the mode of the tree.
        mode("out/t", 0o600);
        with_an_unreadable_tree(&scratch).publish().unwrap();
        unreadable_tree_is_in_place(&scratch);
    });
}

/// What a receiver finds of `files` in its target.
fn compared(received: &mut ReceivedFiles, files: &mut Files) -> Vec<Range<u64>> {
    let hashes = files.block_hashes(&mut || true).unwrap().unwrap();
    let manifest = files.manifest().clone();
    let never = AtomicBool::new(false);
    received.compare(&manifest, &hashes, &never).unwrap()
}

#[test]
fn a_file_that_is_here_stays_and_of_a_changed_one_only_the_change_is_missing() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    let layout = files.layout();
    fs::create_dir_all(scratch.path("out/t")).unwrap();
    for name in ["t/large", "t/small"] {
        fs::copy(scratch.path(name), scratch.path("out").join(name)).unwrap();
    }
    let mut whole = receiver(&scratch, &files);
    let all = 0..layout.len();
    assert_eq!(compared(&mut whole, &mut files), std::slice::from_ref(&all));
    let tree = scratch
        .path("out/.groupcast")
        .join(content_id(files.manifest()).short())
        .join("tree/t");
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 0, "nothing is copied");
    whole.publish().unwrap();
    assert!(
        whole.are_in_place(&InPlace::now(files.manifest().clone())),
        "with the times that were sent"
    );
    drop(whole);

    let chunk = u64::from(Layout::CHUNK);
    let large = fs::File::options()
        .write(true)
        .open(scratch.path("out/t/large"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&large, b"x", 2 * chunk).unwrap();
    let mut part = receiver(&scratch, &files);
    let (first, last) = (layout.range(Piece::Chunk(2)), layout.len());
    let missing = first.clone();
    assert_eq!(
        compared(&mut part, &mut files),
        [0..missing.start, missing.end..last]
    );
    give(&mut part, &mut files, 2);
    part.publish().unwrap();
    assert!(part.are_in_place(&InPlace::now(files.manifest().clone())));
    let arrived = fs::read(scratch.path("out/t/large")).unwrap();
    assert!(arrived == fs::read(scratch.path("t/large")).unwrap());
}

#[test]
fn files_that_were_here_get_their_mode_and_time_after_an_interruption_too() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    fs::create_dir_all(scratch.path("out/t")).unwrap();
    for name in ["t/large", "t/small"] {
        let there = scratch.path("out").join(name);
        fs::copy(scratch.path(name), &there).unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o640)).unwrap();
    }
    {
        let mut received = receiver(&scratch, &files);
        compared(&mut received, &mut files);
        let mut target = received.claim.spool().target().unwrap();
        let stage = &mut received.writing.as_mut().unwrap().stage;
        let plan = stage.prepare(&mut target).unwrap();
        stage.remove_kept().unwrap();
        let amended = stage.amended(&plan);
        assert_eq!(amended.len(), 2);
        received.folder.begin_publishing(false, &amended).unwrap();
    }
    // One of them is changed before the receiver is started again: that is nobody's copy any more.
    fs::write(scratch.path("out/t/small"), "other").unwrap();
    drop(open(&scratch.path("out")).unwrap());
    assert!(!scratch.path("out/.groupcast").exists(), "it is complete");
    let stat = |path: &str| fs::metadata(scratch.path(path)).unwrap();
    let (sent, arrived) = (stat("t/large"), stat("out/t/large"));
    assert_eq!(arrived.mode(), sent.mode());
    assert_eq!(arrived.modified().unwrap(), sent.modified().unwrap());
    let small = stat("out/t/small");
    assert_eq!(small.mode() & 0o777, 0o640);
    assert_ne!(
        small.modified().unwrap(),
        stat("t/small").modified().unwrap()
    );
}

#[test]
fn a_tree_that_was_renamed_is_copied_from_where_it_is() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    fs::create_dir_all(scratch.path("out/old/d")).unwrap();
    fs::copy(scratch.path("t/large"), scratch.path("out/old/huge")).unwrap();
    fs::copy(scratch.path("t/small"), scratch.path("out/old/d/small")).unwrap();
    let mut whole = receiver(&scratch, &files);
    let all = 0..files.layout().len();
    assert_eq!(compared(&mut whole, &mut files), [all]);
    whole.publish().unwrap();
    assert!(whole.are_in_place(&InPlace::now(files.manifest().clone())));
    for name in ["large", "small"] {
        let arrived = fs::read(scratch.path("out/t").join(name)).unwrap();
        assert!(arrived == fs::read(scratch.path("t").join(name)).unwrap());
    }
    assert!(scratch.path("out/old/huge").exists(), "nothing is removed");
}

#[test]
fn a_file_that_changes_after_it_was_compared_is_not_taken_for_what_it_was() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    fs::create_dir_all(scratch.path("out/t")).unwrap();
    fs::copy(scratch.path("t/small"), scratch.path("out/t/small")).unwrap();
    let mut received = receiver(&scratch, &files);
    compared(&mut received, &mut files);
    for index in 0..files.layout().chunks() {
        give(&mut received, &mut files, index);
    }
    fs::write(scratch.path("out/t/small"), "other").unwrap();
    let error = received.publish().unwrap_err();
    assert!(
        error.contains("t/small") && error.contains("send it again"),
        "{error}"
    );
    assert!(!scratch.path("out/t/large").exists(), "nothing was moved");
    assert_eq!(fs::read(scratch.path("out/t/small")).unwrap(), b"other");
    drop(received);
    // The next attempt takes what has come, and asks for the rest.
    let mut again = receiver(&scratch, &files);
    let held = compared(&mut again, &mut files);
    let missing: Vec<u64> = (0..files.layout().chunks())
        .filter(|index| {
            let range = files.layout().range(Piece::Chunk(*index));
            !held
                .iter()
                .any(|it| it.start <= range.start && it.end >= range.end)
        })
        .collect();
    assert_eq!(missing, [5], "the one that the small file is in");
    give(&mut again, &mut files, 5);
    again.publish().unwrap();
    assert!(again.are_in_place(&InPlace::now(files.manifest().clone())));
}

#[test]
fn a_directory_that_cannot_be_written_stops_everything_before_anything_is_moved() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        let mut files = sent(&scratch);
        // It is none of the tree: nobody has sent a mode for it.
        let target = scratch.path("out");
        let mut received = receiver(&scratch, &files);
        received.begin(files.manifest()).unwrap();
        for index in 0..files.layout().chunks() {
            give(&mut received, &mut files, index);
        }
        let mode = fs::Permissions::from_mode;
        fs::set_permissions(&target, mode(0o555)).unwrap();
        let error = received.publish().unwrap_err();
        fs::set_permissions(&target, mode(0o755)).unwrap();
        assert!(error.contains("directory cannot be written to"), "{error}");
        assert!(!target.join("t").exists());
    });
}

#[test]
fn a_tree_that_its_owner_may_not_write_to_is_updated() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        let mode = |path: &str, mode| {
            fs::set_permissions(scratch.path(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        let modes = |root: &str, to| {
            let below = ["t/d", "t"].map(|path| format!("{root}{path}"));
            below.iter().for_each(|path| mode(path, to));
        };
        fs::create_dir_all(scratch.path("t/d")).unwrap();
        for content in ["first", "second"] {
            fs::write(scratch.path("t/d/file"), content).unwrap();
            fs::write(scratch.path("t/d").join(content), "new").unwrap();
            modes("", 0o555);
            let mut files = Files::new(Scan::of(&[scratch.path("t")]).unwrap());
            modes("", 0o755);
            let mut received = receiver(&scratch, &files);
            received.begin(files.manifest()).unwrap();
            give(&mut received, &mut files, 0);
            assert_eq!(received.publish(), Ok(()), "{content}");
            let there = fs::read(scratch.path("out/t/d/file")).unwrap();
            assert_eq!(there, content.as_bytes());
            for path in ["out/t", "out/t/d"] {
                let there = fs::metadata(scratch.path(path)).unwrap();
                assert_eq!(there.mode() & 0o777, 0o555, "{path}");
            }
        }
        assert!(scratch.path("out/t/d/second").exists());
        // Or nothing of it could be removed.
        modes("out/", 0o755);
    });
}

/// The sender has opened its tree since it was here: the mode here is the one that it had before.
#[test]
fn a_tree_that_its_sender_has_opened_is_updated_and_what_is_here_is_found() {
    as_a_plain_user(|| {
        let scratch = Scratch::new();
        let close = |to| {
            let mode = fs::Permissions::from_mode(to);
            fs::set_permissions(scratch.path("out/t/d"), mode).unwrap();
        };
        let mode = || fs::metadata(scratch.path("out/t/d")).unwrap().mode() & 0o777;
        fs::create_dir_all(scratch.path("t/d")).unwrap();
        fs::set_permissions(scratch.path("t/d"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(scratch.path("t/d/file"), "content").unwrap();
        let files = || Files::new(Scan::of(&[scratch.path("t")]).unwrap());
        let mut first = files();
        let mut received = receiver(&scratch, &first);
        received.begin(first.manifest()).unwrap();
        give(&mut received, &mut first, 0);
        received.publish().unwrap();
        drop(received);
        for to in [0o555, 0o300, 0o000] {
            close(to);
            let mut same = files();
            let mut received = receiver(&scratch, &same);
            let held = compared(&mut received, &mut same);
            let whole = 0..same.layout().len();
            assert_eq!(held, [whole], "{to:o}: it is sent again");
            assert_eq!(mode(), to, "nothing is in place yet");
            received.publish().unwrap();
            assert_eq!(mode(), 0o755);
        }
        close(0o555);
        fs::write(scratch.path("t/d/file"), "another").unwrap();
        let mut changed = files();
        let mut received = receiver(&scratch, &changed);
        received.begin(changed.manifest()).unwrap();
        give(&mut received, &mut changed, 0);
        assert_eq!(received.publish(), Ok(()));
        assert_eq!(mode(), 0o755);
        let there = fs::read_to_string(scratch.path("out/t/d/file")).unwrap();
        assert_eq!(there, "another");
    });
}

#[test]
fn two_contents_that_bring_one_new_name_at_once_are_both_put_in_place() {
    let scratch = Scratch::new();
    let spool = Arc::new(Spool::open(&scratch.path("out"), &Limits::default(), true).unwrap());
    // So slow that both look at the target before either moves anything, if nothing stops them.
    let _slow = Slow::new(scratch.path("out"), 150, u64::MAX >> 8);
    let both = ["one", "two"].map(|content| {
        fs::create_dir_all(scratch.path(content)).unwrap();
        fs::write(scratch.path(content).join("name"), content).unwrap();
        let scan = Scan::of(&[scratch.path(content).join("name")]).unwrap();
        let mut files = Files::new(scan);
        let mut received = claimed(&spool, &files);
        received.begin(files.manifest()).unwrap();
        give(&mut received, &mut files, 0);
        received
    });
    std::thread::scope(|scope| {
        let both = both.map(|mut received| scope.spawn(move || received.publish()));
        for published in both {
            assert_eq!(published.join().unwrap(), Ok(()));
        }
    });
    let there = fs::read_to_string(scratch.path("out/name")).unwrap();
    assert!(["one", "two"].contains(&&*there), "{there}");
}

#[test]
fn what_is_not_what_was_announced_is_never_written() {
    let scratch = Scratch::new();
    let mut files = sent(&scratch);
    let mut received = receiver(&scratch, &files);
    assert!(received.begin(b"another").unwrap_err().of_sender);
    received.begin(files.manifest()).unwrap();
    let mut chunk = files.read_chunk(0).unwrap().to_vec();
    chunk[7] ^= 1;
    let error = received.write(0, chunk).unwrap_err();
    assert!(error.reason.contains("hash"), "{error:?}");
    assert!(error.of_sender);
    assert!(received.write(1, Vec::new()).is_err());
    received.discard().unwrap();
    drop(received);
    assert_eq!(fs::read_dir(scratch.path("out")).unwrap().count(), 0);
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_sent() {
    let scratch = Scratch::new();
    let files = sent(&scratch);
    let received = receiver(&scratch, &files);
    let error = received.reserve(1 << 60).unwrap_err();
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
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
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
    let (path, limits, warnings) = (scratch.path("out"), Limits::default(), Arc::default());
    let spool = Spool::open_and_warn(&path, &limits, false, Arc::clone(&warnings));
    let spool = Arc::new(spool.unwrap());
    spool.pretend_disk(SIZE * 5 / 4);
    receive_half(&spool, &mut first);
    let stop = AtomicBool::new(false);
    let kept = || spool.has(&content_id(first.manifest()));
    let mut too_large = claimed(&spool, &second);
    too_large.layout.content = SIZE * 2;
    assert!(too_large.resume(&stop).unwrap_err().contains("disk full"));
    assert!(kept(), "removing it would not have helped");
    drop(too_large);
    let mut second_files = second;
    let mut taken = claimed(&spool, &second_files);
    taken.resume(&stop).unwrap();
    taken.begin(second_files.manifest()).unwrap();
    // What was announced may never come: only what does makes what is kept go.
    assert!(kept(), "nothing has come yet");
    for index in 0..8 {
        // Three quarters of its size are free.
        assert_eq!(kept(), index < 6, "before chunk {index}");
        give(&mut taken, &mut second_files, index);
    }
    assert!(!kept());
    let warning = warnings.take().expect("the user hears of it");
    assert!(warning.contains("another one needs the room"), "{warning}");
    assert_eq!(warnings.take(), None);
    taken.publish().unwrap();
}

#[test]
fn small_files_take_whole_blocks_of_the_disk() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("many")).unwrap();
    for number in 0..100 {
        fs::write(scratch.path(&format!("many/{number}")), "x").unwrap();
    }
    let files = Files::new(Scan::of(&[scratch.path("many")]).unwrap());
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
    // Room for their bytes, and not for the blocks that they take.
    spool.pretend_disk(10_000);
    let mut received = claimed(&spool, &files);
    received.resume(&AtomicBool::new(false)).unwrap();
    let error = received.begin(files.manifest()).unwrap_err();
    assert!(error.reason.contains("disk full"), "{error:?}");
    assert!(!error.of_sender);
}

#[test]
fn what_broke_off_leaves_its_place_to_other_files() {
    let scratch = Scratch::new();
    let many = |name: &str, files| {
        fs::create_dir_all(scratch.path(name)).unwrap();
        for number in 0..files {
            fs::write(scratch.path(&format!("{name}/{number}")), name).unwrap();
        }
        Files::new(Scan::of(&[scratch.path(name)]).unwrap())
    };
    let (mut first, mut second) = (many("first", 20), many("second", 20));
    let larger = many("larger", 30);
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
    // Each takes 5 more than it has files: for their directory, and for what is kept beside them.
    spool.pretend_places(30);
    let mut broken = claimed(&spool, &first);
    broken.begin(first.manifest()).unwrap();
    give(&mut broken, &mut first, 0);
    drop(broken);
    let id = content_id(first.manifest());
    let error = claimed(&spool, &larger).begin(larger.manifest());
    let error = error.unwrap_err().reason;
    assert!(error.contains("35 are to be made"), "{error}");
    assert!(spool.has(&id), "removing it would not have helped");
    let mut taken = claimed(&spool, &second);
    taken.begin(second.manifest()).unwrap();
    assert!(!spool.has(&id));
    give(&mut taken, &mut second, 0);
    taken.publish().unwrap();
}

#[test]
fn a_retry_after_the_disk_was_full_goes_on_with_what_is_there() {
    let scratch = Scratch::new();
    let (mut first, mut second) = (large(&scratch, "first"), large(&scratch, "second"));
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
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
    let spool = Arc::new(open(&scratch.path("out")).unwrap());
    spool.pretend_disk(SIZE * 2);
    let received = claimed(&spool, &files);
    received.reserve(SIZE).unwrap();
    let file = spool.create_stream("stream").unwrap();
    let mut stream = Reserved::new(file, Claim::new(&spool, b"stream".to_vec()));
    let bytes = vec![7; SIZE as usize / 4];
    let written = (0..8).take_while(|_| stream.write_all(&bytes).is_ok());
    assert_eq!(written.count(), 4);
}
