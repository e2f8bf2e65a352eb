//! The spool: one receiver a directory, journals, and what other users may have planted there.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::sync::Arc;

use super::*;
use crate::about::Layout;
use crate::content::content_id;
use crate::scratch::Scratch;

const LAYOUT: Layout = Layout {
    manifest: 4,
    content: 100 * 4096,
    chunk: 4096,
};

fn open(path: &Path) -> Result<Spool, SpoolError> {
    Spool::open(path, &Limits::default(), false)
}

#[test]
fn a_directory_belongs_to_one_receiver_and_is_left_clean() {
    let scratch = Scratch::new();
    let spool = open(&scratch.path("out")).unwrap();
    let error = open(&scratch.path("out")).unwrap_err();
    assert!(matches!(error, SpoolError::InUse { .. }), "{error}");
    drop(spool);
    assert!(!scratch.path("out/.groupcast").exists());
    fs::write(scratch.path("file"), "").unwrap();
    assert!(open(&scratch.path("file")).is_err());
}

#[test]
fn a_journal_that_breaks_off_says_what_it_can() {
    let scratch = Scratch::new();
    let spool = open(&scratch.path("out")).unwrap();
    let id = content_id(b"list");
    let mut folder = spool.folder(&id).unwrap();
    assert_eq!(folder.manifest(&id, 4).unwrap(), None);
    assert!(folder.journal(&LAYOUT).unwrap().is_empty());
    folder.begin(b"list").unwrap();
    let list = folder.manifest(&id, 4).unwrap();
    assert_eq!(list.as_deref(), Some(&b"list"[..]));
    let hash = blake3::hash(b"x");
    let mut journal = folder.open_journal(&BTreeMap::new(), false).unwrap();
    for index in [3, 1, 200] {
        journal.append(index, &hash).unwrap();
    }
    let path = scratch
        .path("out/.groupcast")
        .join(id.short())
        .join("journal");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0; 20]);
    fs::write(&path, bytes).unwrap();
    let said: Vec<u64> = folder.journal(&LAYOUT).unwrap().into_keys().collect();
    assert_eq!(said, [1, 3], "200 is no chunk of this content");
    fs::write(
        scratch
            .path("out/.groupcast")
            .join(id.short())
            .join("manifest"),
        "lie",
    )
    .unwrap();
    assert_eq!(folder.manifest(&id, 4).unwrap(), None);
}

#[test]
fn what_broke_off_longest_ago_makes_room() {
    let scratch = Scratch::new();
    let spool = open(&scratch.path("out")).unwrap();
    let ids: Vec<ContentId> = (0..4u8).map(|n| content_id(&[n])).collect();
    for (age, id) in ids.iter().enumerate() {
        let mut folder = spool.folder(id).unwrap();
        folder.begin(b"").unwrap();
        folder.open_journal(&BTreeMap::new(), false).unwrap();
        let journal = folder.open().unwrap().read(b"journal").unwrap();
        let hour = std::time::Duration::from_secs(3600);
        journal
            .set_modified(std::time::UNIX_EPOCH + hour * age as u32)
            .unwrap();
    }
    let stream = scratch.path("out/.groupcast/under-way");
    spool.create_stream("under-way").unwrap();
    let spool = Arc::new(spool);
    let under_way = Claim::new(&spool, ids[0].short().into_bytes());
    spool.trim(2).unwrap();
    assert!(stream.exists());
    let left: Vec<bool> = ids.iter().map(|id| spool.has(id)).collect();
    assert_eq!(left, [true, false, true, true]);
    drop((under_way, spool));
    open(&scratch.path("out")).unwrap();
    assert!(!stream.exists(), "nobody can go on with it");
}
/// A file of this user outside of the directory, and what is in it.
fn victim(scratch: &Scratch) -> PathBuf {
    let victim = scratch.path("victim");
    fs::write(&victim, "secret").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    victim
}

#[test]
fn a_folder_that_others_may_have_made_is_refused() {
    let scratch = Scratch::new();
    let folder = scratch.path("out/.groupcast");
    let refused = || match open(&scratch.path("out")) {
        Err(SpoolError::Untrusted { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    fs::create_dir_all(scratch.path("out")).unwrap();
    fs::create_dir_all(scratch.path("elsewhere")).unwrap();
    symlink(scratch.path("elsewhere"), &folder).unwrap();
    assert_eq!(refused(), "is not a directory");
    fs::remove_file(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(refused(), "can be written to by other users");
    if rustix::process::geteuid().is_root() {
        chown(&folder, Some(12_345), None).unwrap();
        assert_eq!(refused(), "belongs to another user");
        chown(&folder, Some(0), None).unwrap();
    }
    // That of an earlier version can be read by others only: it is closed to them.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let _spool = open(&scratch.path("out")).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_planted_link_is_neither_written_through_nor_read() {
    let scratch = Scratch::new();
    let victim = victim(&scratch);
    let spool = open(&scratch.path("out")).unwrap();
    let id = content_id(b"list");
    let mut folder = spool.folder(&id).unwrap();
    folder.begin(b"list").unwrap();
    let planted = scratch.path("out/.groupcast").join(id.short());
    symlink(&victim, planted.join("journal")).unwrap();
    assert!(folder.journal(&LAYOUT).is_err());
    let mut journal = folder.open_journal(&BTreeMap::new(), false).unwrap();
    journal.append(1, &blake3::hash(b"x")).unwrap();
    fs::remove_file(planted.join("manifest")).unwrap();
    symlink(&victim, planted.join("manifest")).unwrap();
    assert_eq!(folder.manifest(&id, 4).unwrap(), None);
    folder.begin(b"list").unwrap();
    symlink(&victim, scratch.path("out/.groupcast/stream")).unwrap();
    let mut stream = spool.create_stream("stream").unwrap();
    stream.write_all(b"stream").unwrap();
    symlink(&victim, scratch.path("out/name")).unwrap();
    spool.publish_stream("stream", "name").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"secret");
    assert_eq!(fs::read(scratch.path("out/name")).unwrap(), b"stream");
}

#[test]
fn a_target_that_was_moved_away_is_noticed() {
    let scratch = Scratch::new();
    let spool = open(&scratch.path("out")).unwrap();
    assert!(spool.is_in_place().unwrap());
    fs::rename(scratch.path("out"), scratch.path("moved")).unwrap();
    fs::create_dir(scratch.path("out")).unwrap();
    assert!(!spool.is_in_place().unwrap());
}

#[test]
fn directories_that_others_can_write_to_are_known() {
    let scratch = Scratch::new();
    for (mode, shared) in [(0o755, false), (0o777, true), (0o1777, true)] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(scratch.path(""), permissions).unwrap();
        let stat = Root::open(&scratch.path("")).unwrap().own_stat().unwrap();
        assert_eq!(is_shared(&stat), shared, "{mode:o}");
    }
}
