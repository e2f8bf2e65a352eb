//! Manifests: what is written is read again, and a forged one is refused.

use bytes::Bytes;

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
    for index in 0..10_000 {
        let name = format!("{index:05}");
        entries.push(file(&[&path[..], name.as_bytes()].concat(), 0));
    }
    let bytes = Manifest::new(entries).unwrap().encode();
    assert!(bytes.len() < 1 << 19);
    let error = Manifest::decode(&bytes, &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("bytes of paths"), "{error}");
    let shallow = (0..10_000).map(|index| file(format!("{index:05}").as_bytes(), 0));
    let bytes = Manifest::new(shallow.collect()).unwrap().encode();
    assert!(Manifest::decode(&bytes, &Limits::default()).is_ok());
    let limits = Limits {
        paths_max: 9_999 * 5,
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
        ..Limits::default()
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
