//! Makes a manifest from paths: walks directories, and reads metadata. Of contents it reads one
//! byte of files that claim to be empty, and asks of the others whether they may be read.

use std::ffi::OsStr;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::wire::{BYTES, PATHS};
use super::{Entry, Exclude, Kind, Limits, Manifest, ManifestError, Timestamp};

/// A manifest, and the paths of its entries on this host.
#[derive(Debug)]
pub struct Scan {
    /// The manifest of the entries that are sent.
    pub manifest: Manifest,
    /// The path of each entry on this host.
    pub sources: Vec<PathBuf>,
    /// Files in the trees that cannot be sent.
    pub skipped: Vec<Skipped>,
    /// How many entries a pattern left out, without those below them.
    pub excluded: usize,
}

/// An entry that is neither a file, a directory nor a symbolic link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Its path.
    pub path: PathBuf,
    /// Its kind: a socket, a pipe or a device.
    pub what: &'static str,
}

/// Why the paths cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// An entry cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The path of the entry.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path without a name for the receivers, such as `/`.
    #[error("{} has no name that receivers could give it: name what is in it", .path.display())]
    Nameless {
        /// The path.
        path: PathBuf,
    },
    /// Two paths end in the same name.
    #[error("{} and {} would both be called `{name}` at the receivers", .one.display(), .other.display())]
    SameName {
        /// The name.
        name: String,
        /// One of them.
        one: PathBuf,
        /// The path of the other entry.
        other: PathBuf,
    },
    /// A path leads to a file that cannot be sent.
    #[error("{} is {what}: only files, directories and symbolic links can be sent", .path.display())]
    Special {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file has content, and no size that says how much.
    #[error(
        "{} says that it is empty, and is not, as files in /proc: nobody knows how much there is of it; send what can be \
         read of it as a pipe (`cat FILE | groupcast send -`), or leave it out (--exclude)",
        .path.display()
    )]
    Sizeless {
        /// The path.
        path: PathBuf,
    },
    /// There is more than receivers take in one transfer.
    #[error(
        "there are more than {max} files, directories and links: receivers take no longer list; send a part of them at a time"
    )]
    TooMany {
        /// How many they take.
        max: usize,
    },
    /// The list of files is longer than receivers take.
    #[error(
        "the list of files would have more than {max} {what}: receivers take no longer list; send a part of it at a time"
    )]
    TooLong {
        /// What there is too much of: bytes, or bytes of paths.
        what: &'static str,
        /// How much they take.
        max: usize,
    },
    /// The list is no manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl Scan {
    /// Everything at and below `paths`. Each path gets its last name at the receivers. A path that
    /// is a symbolic link stands for its target; links below it are sent as links.
    ///
    /// # Errors
    /// If anything cannot be read, or two paths have the same last name.
    pub fn of(paths: &[PathBuf]) -> Result<Self, ScanError> {
        Self::without(paths, &Exclude::default())
    }

    /// The same, without the entries that `exclude` leaves out, which are not read.
    ///
    /// # Errors
    /// If anything else cannot be read, two paths have the same last name, or there are more
    /// entries, or longer ones, than receivers take ([`Limits`]).
    pub fn without(paths: &[PathBuf], exclude: &Exclude) -> Result<Self, ScanError> {
        Self::within(&Limits::default(), paths, exclude)
    }

    /// Whether a file at `file`, if there is one, would be among those that
    /// [`without`](Self::without) finds.
    pub fn takes(paths: &[PathBuf], exclude: &Exclude, file: &Path) -> bool {
        let Some(place) = place_of(file) else {
            return false;
        };
        paths.iter().any(|path| {
            let Ok(mut entry) = name_of(path) else {
                return false;
            };
            // A link that is named stands for its target, and is replaced itself.
            if place_of(path).as_ref() == Some(&place) {
                return !exclude.matches(&entry, false);
            }
            let whole = path.canonicalize().ok();
            let below = whole.and_then(|whole| place.strip_prefix(whole).ok().map(Path::to_owned));
            let Some(below) = below else {
                return false;
            };
            let mut is_out = false;
            for name in &below {
                is_out |= exclude.matches(&entry, true);
                entry.push(b'/');
                entry.extend_from_slice(name.as_bytes());
            }
            !is_out && !exclude.matches(&entry, false)
        })
    }

    fn within(limits: &Limits, paths: &[PathBuf], exclude: &Exclude) -> Result<Self, ScanError> {
        let mut walk = Walk {
            limits,
            paths: 0,
            targets: 0,
            found: Vec::new(),
            open: Vec::new(),
            skipped: Vec::new(),
            exclude,
            excluded: 0,
        };
        let mut names: Vec<(Vec<u8>, &PathBuf)> = Vec::new();
        for path in paths {
            let name = name_of(path)?;
            if let Some((_, one)) = names.iter().find(|(other, _)| *other == name) {
                return Err(ScanError::SameName {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    one: (*one).clone(),
                    other: path.clone(),
                });
            }
            let metadata = fs::metadata(path).map_err(failed(path))?;
            if let Some(what) = special(&metadata) {
                let path = path.clone();
                return Err(ScanError::Special { path, what });
            }
            walk.add(name.clone(), path.clone(), &metadata)?;
            names.push((name, path));
        }
        walk.finish()
    }
}

struct Walk<'a> {
    /// What receivers take.
    limits: &'a Limits,
    /// The bytes of all paths so far, and of all targets of links.
    paths: usize,
    targets: usize,
    exclude: &'a Exclude,
    excluded: usize,
    found: Vec<(Entry, PathBuf)>,
    /// Directories whose content is still to be read.
    open: Vec<(Vec<u8>, PathBuf)>,
    skipped: Vec<Skipped>,
}

impl Walk<'_> {
    /// Adds the entry at `source`, and everything below it.
    fn add(
        &mut self,
        path: Vec<u8>,
        source: PathBuf,
        metadata: &Metadata,
    ) -> Result<(), ScanError> {
        self.entry(path, source, metadata)?;
        while let Some((path, source)) = self.open.pop() {
            for child in fs::read_dir(&source).map_err(failed(&source))? {
                let child = child.map_err(failed(&source))?;
                let below = child.path();
                let metadata = fs::symlink_metadata(&below).map_err(failed(&below))?;
                let path = [&path, &b"/"[..], child.file_name().as_bytes()].concat();
                self.entry(path, below, &metadata)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        path: Vec<u8>,
        source: PathBuf,
        metadata: &Metadata,
    ) -> Result<(), ScanError> {
        if self.exclude.matches(&path, metadata.is_dir()) {
            self.excluded += 1;
            return Ok(());
        }
        if let Some(what) = special(metadata) {
            self.skipped.push(Skipped { path: source, what });
            return Ok(());
        }
        let kind = if metadata.is_dir() {
            self.open.push((path.clone(), source.clone()));
            Kind::Directory
        } else if metadata.is_symlink() {
            let target = fs::read_link(&source).map_err(failed(&source))?;
            Kind::Link {
                target: target.into_os_string().into_vec(),
            }
        } else {
            check_readable(&source, metadata)?;
            Kind::File {
                size: metadata.len(),
                fingerprint: fingerprint(metadata),
            }
        };
        self.count(&path, &kind)?;
        let entry = Entry {
            path,
            mode: (metadata.mode() & 0o777) as u16,
            modified: Timestamp {
                seconds: metadata.mtime(),
                nanoseconds: metadata.mtime_nsec() as u32,
            },
            kind,
        };
        self.found.push((entry, source));
        Ok(())
    }

    /// Counts one more entry, while receivers take it: what is in memory is bounded, whatever there
    /// is to list.
    fn count(&mut self, path: &[u8], kind: &Kind) -> Result<(), ScanError> {
        let Limits {
            entries_max,
            manifest_max,
            paths_max,
            ..
        } = *self.limits;
        if self.found.len() == entries_max {
            return Err(ScanError::TooMany { max: entries_max });
        }
        self.paths += path.len();
        if self.paths > paths_max {
            let (what, max) = (PATHS, paths_max);
            return Err(ScanError::TooLong { what, max });
        }
        if let Kind::Link { target } = kind {
            self.targets += target.len();
        }
        // The list has each target whole, and more.
        if self.targets > manifest_max {
            let (what, max) = (BYTES, manifest_max);
            return Err(ScanError::TooLong { what, max });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Scan, ScanError> {
        self.found.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        let (entries, sources) = self.found.into_iter().unzip();
        let manifest = Manifest::new(entries)?;
        if let Some(ManifestError::TooLong { what, max, .. }) = manifest.excess(self.limits) {
            return Err(ScanError::TooLong { what, max });
        }
        Ok(Scan {
            manifest,
            sources,
            skipped: self.skipped,
            excluded: self.excluded,
        })
    }
}

/// Where the name `path` is, whole: its directory without symbolic links, and the last name, which
/// may be that of one.
fn place_of(path: &Path) -> Option<PathBuf> {
    let directory = match path.parent()? {
        here if here.as_os_str().is_empty() => Path::new("."),
        directory => directory,
    };
    Some(directory.canonicalize().ok()?.join(path.file_name()?))
}

/// Checks before anybody waits for it that the file at `source` can be read, and that it is as long
/// as it says.
fn check_readable(source: &Path, metadata: &Metadata) -> Result<(), ScanError> {
    match rustix::fs::accessat(CWD, source, Access::READ_OK, AtFlags::EACCESS) {
        // A kernel before 5.8 cannot say, and some containers forbid the question.
        Ok(()) | Err(Errno::NOSYS | Errno::PERM) => {}
        Err(error) => return Err(failed(source)(error.into())),
    }
    if metadata.len() > 0 {
        return Ok(());
    }
    // What has nothing to read just now, and would wait for it, is not empty either.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open(source);
    let mut file = opened.map_err(failed(source))?;
    match file.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(ScanError::Sizeless {
            path: source.into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ScanError::Sizeless {
            path: source.into(),
        }),
        Err(error) => Err(failed(source)(error)),
    }
}

/// A hash of the metadata that change with a file's content.
pub(crate) fn fingerprint(metadata: &Metadata) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for field in [
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.ctime().cast_unsigned(),
        metadata.ctime_nsec().cast_unsigned(),
    ] {
        hasher.update(&field.to_be_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_be_bytes(first)
}

/// The name that `path` has at the receivers.
fn name_of(path: &Path) -> Result<Vec<u8>, ScanError> {
    let name = |path: &Path| path.file_name().map(|name| name.as_bytes().to_vec());
    if let Some(name) = name(path) {
        return Ok(name);
    }
    // `.` and `..` have a name, too.
    let whole = fs::canonicalize(path).map_err(failed(path))?;
    name(&whole).ok_or_else(|| ScanError::Nameless { path: path.into() })
}

/// The kind of a file that cannot be sent; `None` if it can.
fn special(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_dir() || kind.is_symlink() {
        None
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else {
        Some("a device")
    }
}

fn failed(path: impl AsRef<OsStr>) -> impl FnOnce(io::Error) -> ScanError {
    let path = PathBuf::from(path.as_ref());
    move |source| ScanError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_tree_is_listed_with_its_links_and_without_what_is_no_file() {
        let scratch = Scratch::new();
        let tree = scratch.path("tree");
        fs::create_dir_all(tree.join("empty")).unwrap();
        fs::write(tree.join("b\n"), "bytes").unwrap();
        symlink("/nowhere", tree.join("link")).unwrap();
        symlink(&tree, scratch.path("alias")).unwrap();
        let _socket = UnixListener::bind(tree.join("socket")).unwrap();

        let scan = Scan::of(&[scratch.path("alias")]).unwrap();
        let paths: Vec<&[u8]> = scan
            .manifest
            .entries()
            .iter()
            .map(|e| &e.path[..])
            .collect();
        assert_eq!(
            paths,
            [&b"alias"[..], b"alias/b\n", b"alias/empty", b"alias/link"]
        );
        assert_eq!(scan.manifest.content_len(), 5);
        assert_eq!(scan.skipped.len(), 1);
        assert_eq!(scan.skipped[0].what, "a socket");
        let error = Scan::of(&[tree.join("socket")]).unwrap_err().to_string();
        assert!(error.contains("a socket"), "{error}");
    }

    #[test]
    fn what_is_excluded_is_not_even_read() {
        let scratch = Scratch::new();
        for directory in ["t/keep", "t/cache/below"] {
            fs::create_dir_all(scratch.path(directory)).unwrap();
        }
        for file in ["t/keep/a", "t/keep/a.o", "t/cache/b", "t/b.o"] {
            fs::write(scratch.path(file), "x").unwrap();
        }
        let exclude = Exclude::new(["*.o", "cache/"]).unwrap();
        let scan = Scan::without(&[scratch.path("t")], &exclude).unwrap();
        let entries = scan.manifest.entries().iter();
        let paths: Vec<&[u8]> = entries.map(|entry| &entry.path[..]).collect();
        assert_eq!(paths, [&b"t"[..], b"t/keep", b"t/keep/a"]);
        assert_eq!(scan.excluded, 3);
        let all = Exclude::new(["t"]).unwrap();
        let nothing = Scan::without(&[scratch.path("t")], &all).unwrap();
        assert!(nothing.manifest.entries().is_empty());
    }

    #[test]
    fn a_fingerprint_changes_with_the_content_even_if_the_size_and_the_time_do_not() {
        let scratch = Scratch::new();
        let path = scratch.path("f");
        fs::write(&path, "one").unwrap();
        let before = fs::metadata(&path).unwrap();
        // File systems may keep times as coarse as a clock tick.
        std::thread::sleep(std::time::Duration::from_millis(12));
        fs::write(&path, "two").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        assert_ne!(fingerprint(&before), fingerprint(&after));
    }

    #[test]
    fn a_file_that_is_not_empty_and_says_so_is_refused_before_anything_is_sent() {
        let refused = Scan::of(&["/proc/self/status".into()]).unwrap_err();
        assert!(matches!(refused, ScanError::Sizeless { .. }), "{refused}");
        let scratch = Scratch::new();
        fs::write(scratch.path("empty"), "").unwrap();
        let scan = Scan::of(&[scratch.path("empty")]).unwrap();
        assert_eq!(scan.manifest.entries().len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_before_anything_is_sent() {
        use std::os::unix::fs::PermissionsExt as _;

        use crate::scratch::as_a_plain_user;

        as_a_plain_user(|| {
            let scratch = Scratch::new();
            fs::create_dir_all(scratch.path("t")).unwrap();
            for name in ["t/one", "t/two"] {
                fs::write(scratch.path(name), "bytes").unwrap();
            }
            let closed = fs::Permissions::from_mode(0o200);
            fs::set_permissions(scratch.path("t/two"), closed).unwrap();
            let refused = Scan::of(&[scratch.path("t")]).unwrap_err().to_string();
            assert!(refused.contains("cannot read"), "{refused}");
            assert!(refused.contains("t/two"), "{refused}");
            // What is left out is not read.
            let exclude = Exclude::new(["two"]).unwrap();
            assert!(Scan::without(&[scratch.path("t")], &exclude).is_ok());
        });
    }

    #[test]
    fn paths_are_refused_by_name() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("a/x")).unwrap();
        fs::create_dir_all(scratch.path("b/x")).unwrap();
        let same = Scan::of(&[scratch.path("a/x"), scratch.path("b/x")]).unwrap_err();
        assert!(same.to_string().contains("both be called `x`"), "{same}");
        let root = Scan::of(&["/".into()]).unwrap_err();
        assert!(root.to_string().contains("no name"), "{root}");
        let missing = Scan::of(&[scratch.path("none")]).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
        let dot = Scan::of(&[scratch.path("a/x/..")]).unwrap();
        assert_eq!(dot.manifest.entries()[0].path, b"a");
    }

    #[test]
    fn more_entries_than_receivers_take_are_refused_before_anything_is_sent() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("a/x")).unwrap();
        fs::write(scratch.path("a/y"), "one").unwrap();
        let of = |entries_max| {
            let limits = Limits {
                entries_max,
                ..Limits::default()
            };
            Scan::within(&limits, &[scratch.path("a")], &Exclude::default())
        };
        assert_eq!(of(3).unwrap().manifest.entries().len(), 3);
        let error = of(2).unwrap_err().to_string();
        assert!(error.contains("more than 2 files"), "{error}");
    }

    #[test]
    fn a_list_that_no_receiver_takes_is_refused_before_anything_is_sent() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("a/directory")).unwrap();
        fs::write(scratch.path("a/directory/file"), "one").unwrap();
        symlink("x".repeat(900), scratch.path("a/link")).unwrap();
        let of = |limits: &Limits| {
            let scanned = Scan::within(limits, &[scratch.path("a")], &Exclude::default());
            scanned.map(|scan| scan.manifest)
        };
        let manifest = of(&Limits::default()).unwrap();
        let bytes = manifest.encode().len();
        let paths = "aa/directorya/directory/filea/link".len();
        let exact = Limits {
            entries_max: 4,
            manifest_max: bytes,
            paths_max: paths,
            ..Limits::default()
        };
        assert_eq!(of(&exact).unwrap(), manifest);
        assert_eq!(
            Manifest::decode(&manifest.encode(), &exact).unwrap(),
            manifest
        );
        let fewer_bytes = |manifest_max| {
            let limits = Limits {
                manifest_max,
                ..exact
            };
            let by_receiver = Manifest::decode(&manifest.encode(), &limits);
            assert!(by_receiver.is_err(), "receivers have the same limits");
            of(&limits).unwrap_err().to_string()
        };
        // The second one ends the walk already.
        for manifest_max in [bytes - 1, 899] {
            let refused = fewer_bytes(manifest_max);
            let says = format!("more than {manifest_max} bytes: ");
            assert!(refused.contains(&says), "{refused}");
        }
        let fewer_paths = Limits {
            paths_max: paths - 1,
            ..exact
        };
        let refused = of(&fewer_paths).unwrap_err().to_string();
        let says = format!("more than {} bytes of paths: ", paths - 1);
        assert!(refused.contains(&says), "{refused}");
        assert!(Manifest::decode(&manifest.encode(), &fewer_paths).is_err());
    }

    #[test]
    fn paths_that_are_very_long_and_nearly_alike_are_refused_as_receivers_do() {
        let entry = |path: String| Entry {
            path: path.into_bytes(),
            mode: 0o755,
            modified: Timestamp {
                seconds: 0,
                nanoseconds: 0,
            },
            kind: Kind::Directory,
        };
        let mut above = "d".repeat(255);
        let mut entries = vec![entry(above.clone())];
        for _ in 0..14 {
            above = format!("{above}/{}", "d".repeat(255));
            entries.push(entry(above.clone()));
        }
        entries.extend((0..400).map(|number| entry(format!("{above}/{number}"))));
        let manifest = Manifest::new(entries).unwrap();
        let limits = Limits::default();
        let refused = Manifest::decode(&manifest.encode(), &limits).unwrap_err();
        assert!(
            matches!(refused, ManifestError::TooLong { .. }),
            "{refused}"
        );
        let excess = manifest.excess(&limits).unwrap().to_string();
        assert!(excess.contains("bytes of paths"), "{excess}");
    }
}
