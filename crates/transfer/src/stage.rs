//! Placing what is received: chunks into files of a staging tree, and the whole tree into the
//! target when it is complete.
//!
//! The staging tree lies in the receiver's folder (`spool.rs`) on the same file system as the
//! target, with the names that its entries will have. Nothing is visible in the target before
//! everything is verified. Then whatever is not there yet is moved in one step, a whole tree if it
//! is new; files that are there are replaced, each in one step; directories that are there stay and
//! get what is new.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use groupcast_core::text::printable;
use rustix::fs::{FileType, Mode};

use crate::about::Layout;
use crate::beneath::{FileIdentity, Root, timestamps};
use crate::content::{FilePlace, FilePlaces};
use crate::manifest::{Entry, Kind, Manifest, parent};

/// Why something cannot be placed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PlaceError {
    /// The file system refuses.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which entry.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else is where an entry belongs.
    #[error("{path} is {there} here and {comes} in the transfer: move it away")]
    Conflict {
        /// The path of the entry.
        path: String,
        /// What is there.
        there: &'static str,
        /// What the transfer has for the place.
        comes: &'static str,
    },
}

/// The staging tree of one transfer.
#[derive(Debug)]
pub(crate) struct StagingTree {
    manifest: Manifest,
    layout: Layout,
    places: FilePlaces,
    tree: Root,
    /// The file written last.
    open: Option<(usize, File)>,
    /// Which entries have their mode and time already.
    has_metadata: Vec<bool>,
}

impl StagingTree {
    /// A stage in the empty or half-filled directory `tree`; makes the transfer's directories in
    /// it.
    pub(crate) fn new(
        manifest: Manifest,
        layout: Layout,
        mut tree: Root,
    ) -> Result<Self, PlaceError> {
        for entry in manifest.entries() {
            if entry.kind == Kind::Directory {
                tree.make_directory(&entry.path)
                    .map_err(failed("make the directory", entry))?;
            }
        }
        Ok(Self {
            places: FilePlaces::new(&manifest),
            has_metadata: vec![false; manifest.entries().len()],
            manifest,
            layout,
            tree,
            open: None,
        })
    }

    /// Writes the bytes of chunk `index`, hash not included.
    pub(crate) fn write_chunk(&mut self, index: u64, bytes: &[u8]) -> Result<(), PlaceError> {
        let mut at = self.layout.content_of(index).start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let place = self.places.find(at);
            let (part, behind) = rest.split_at((place.left as usize).min(rest.len()));
            self.write_file(place, part)?;
            at += part.len() as u64;
            rest = behind;
        }
        Ok(())
    }

    /// Reads chunk `index` back and returns its hash; `None` if it is not there whole.
    pub(crate) fn hash_chunk(&mut self, index: u64) -> Option<blake3::Hash> {
        let content = self.layout.content_of(index);
        let mut bytes = vec![0; (content.end - content.start) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            let place = self.places.find(content.start + filled as u64);
            let part = (place.left as usize).min(bytes.len() - filled);
            if self
                .open
                .as_ref()
                .is_none_or(|(open, _)| *open != place.entry)
            {
                let path = &self.manifest.entries()[place.entry].path;
                self.open = Some((place.entry, self.tree.read(path).ok()?));
            }
            let (_, file) = self.open.as_ref()?;
            file.read_exact_at(&mut bytes[filled..filled + part], place.offset)
                .ok()?;
            filled += part;
        }
        Some(blake3::hash(&bytes))
    }

    /// Ends reading back: the files that it opened cannot be written.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Everything is written and verified: moves it into `target`.
    ///
    /// # Errors
    /// Conflicts are found before anything is moved.
    pub(crate) fn publish(&mut self, target: &mut Root) -> Result<(), PlaceError> {
        self.open = None;
        self.complete()?;
        let Plan { moves, directories } = self.plan(target)?;
        self.tree.forget();
        for Move { entry, fresh } in moves {
            let entry = &self.manifest.entries()[entry];
            self.tree
                .move_to(target, &entry.path, fresh)
                .map_err(failed("put in place", entry))?;
        }
        // Last and deepest first: a directory that cannot be written, or whose time changes with
        // every move. Each must be the one that was moved, or was there before: where another has
        // taken its place, not all is in place.
        target.forget();
        for (entry, identity) in directories.into_iter().rev() {
            let entry = &self.manifest.entries()[entry];
            set_metadata(target, entry, identity)?;
        }
        Ok(())
    }

    /// Makes what no chunk touches, and gives files and links their modes and times.
    fn complete(&mut self) -> Result<(), PlaceError> {
        let Self {
            manifest,
            tree,
            has_metadata,
            ..
        } = self;
        for (entry, done) in manifest.entries().iter().zip(has_metadata) {
            match &entry.kind {
                _ if *done => continue,
                Kind::Directory => continue,
                Kind::File { size: 0, .. } => {
                    tree.write(&entry.path).map_err(failed("make", entry))?;
                }
                Kind::File { .. } => {}
                Kind::Link { target } => tree
                    .make_link(&entry.path, target)
                    .map_err(failed("make the link", entry))?,
            }
            let looked = tree.stat(&entry.path).map_err(failed("look at", entry))?;
            if let Some(stat) = looked {
                set_metadata(tree, entry, FileIdentity::of(&stat))?;
            }
            *done = true;
        }
        Ok(())
    }

    /// What has to be moved so that everything is in `target`: as few moves as possible.
    fn plan(&mut self, target: &mut Root) -> Result<Plan, PlaceError> {
        let mut moves = Vec::new();
        let mut directories = Vec::new();
        // What moves with the directory that it lies in needs no move of its own.
        let mut carried: BTreeSet<&[u8]> = BTreeSet::new();
        for (index, entry) in self.manifest.entries().iter().enumerate() {
            let path = &entry.path[..];
            let is_carried = parent(path).is_some_and(|above| carried.contains(above));
            let there = match is_carried {
                true => None,
                false => target.stat(path).map_err(failed("look at", entry))?,
            };
            let kind = there.map(|stat| FileType::from_raw_mode(stat.st_mode));
            if entry.kind == Kind::Directory {
                let stays = there.filter(|_| kind == Some(FileType::Directory));
                let stat = match stays {
                    Some(stat) => Some(stat),
                    None => self.tree.stat(path).map_err(failed("look at", entry))?,
                };
                directories.extend(stat.map(|stat| (index, FileIdentity::of(&stat))));
            }
            if is_carried {
                if entry.kind == Kind::Directory {
                    carried.insert(path);
                }
                continue;
            }
            let fresh = there.is_none();
            match (kind, &entry.kind) {
                (None, Kind::Directory) => {
                    carried.insert(path);
                }
                (Some(FileType::Directory), Kind::Directory) => continue,
                (Some(there), comes) if is_in_the_way(there, comes) => {
                    return Err(PlaceError::Conflict {
                        path: printable(path),
                        there: in_words(there),
                        comes: match comes {
                            Kind::Directory => "a directory",
                            Kind::File { .. } => "a file",
                            Kind::Link { .. } => "a link",
                        },
                    });
                }
                _ => {}
            }
            moves.push(Move {
                entry: index,
                fresh,
            });
        }
        Ok(Plan { moves, directories })
    }

    fn write_file(&mut self, place: FilePlace, bytes: &[u8]) -> Result<(), PlaceError> {
        let entry = &self.manifest.entries()[place.entry];
        if self
            .open
            .as_ref()
            .is_none_or(|(open, _)| *open != place.entry)
        {
            let file = self.tree.write(&entry.path);
            let file = file.map_err(failed("write", entry))?;
            self.open = Some((place.entry, file));
        }
        let (_, file) = self.open.as_ref().expect("it was just opened");
        file.write_all_at(bytes, place.offset)
            .map_err(failed("write", entry))?;
        // A file of one piece is finished while it is open. One that its owner could not read again
        // after a restart waits.
        let whole = place.offset == 0 && place.left == bytes.len() as u64;
        if whole && entry.mode & 0o600 == 0o600 {
            let mode = Mode::from_raw_mode(entry.mode.into());
            rustix::fs::fchmod(file, mode)
                .and_then(|()| rustix::fs::futimens(file, &timestamps(entry.modified)))
                .map_err(|error| failed("set the mode and time of", entry)(error.into()))?;
            self.has_metadata[place.entry] = true;
        }
        Ok(())
    }
}

/// How everything comes into the target.
struct Plan {
    moves: Vec<Move>,
    /// Each directory's entry, and which directory it will be.
    directories: Vec<(usize, FileIdentity)>,
}

struct Move {
    entry: usize,
    /// Nothing is there yet.
    fresh: bool,
}

/// Gives `entry` of `root`, which must be the one of `identity`, its mode and its time.
fn set_metadata(root: &mut Root, entry: &Entry, identity: FileIdentity) -> Result<(), PlaceError> {
    let (path, modified) = (&entry.path, entry.modified);
    match entry.kind {
        Kind::Link { .. } => root.set_link_modified(path, modified),
        _ => root.set_metadata(path, entry.mode, modified, identity),
    }
    .map_err(failed("set the mode and time of", entry))
}

/// Whether what is there cannot be replaced in one step, or should not be.
fn is_in_the_way(there: FileType, comes: &Kind) -> bool {
    let replaceable = matches!(there, FileType::RegularFile | FileType::Symlink);
    matches!(comes, Kind::Directory) || !replaceable
}

fn in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::RegularFile => "a file",
        FileType::Symlink => "a link",
        _ => "neither a file nor a directory",
    }
}

fn failed(what: &'static str, entry: &Entry) -> impl FnOnce(io::Error) -> PlaceError {
    let path = printable(&entry.path);
    move |source| PlaceError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;
    use crate::content::Files;
    use crate::manifest::{Limits, Scan};
    use crate::scratch::Scratch;

    /// Sends the tree `from` of the scratch directory into its directory `to`, chunk by chunk.
    fn place(scratch: &Scratch, from: &str, to: &str) -> Result<(), PlaceError> {
        let mut files = Files::new(Scan::of(&[scratch.path(from)]).unwrap());
        let layout = files.layout();
        let tree = scratch.path("stage");
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(scratch.path(to)).unwrap();
        let manifest = Manifest::decode(files.manifest(), &Limits::default()).unwrap();
        let mut stage = StagingTree::new(manifest, layout, Root::open(&tree).unwrap())?;
        for index in (0..layout.chunks()).rev() {
            let chunk = files.read_chunk(index).unwrap();
            let (bytes, hash) = chunk.split_at(chunk.len() - 32);
            stage.write_chunk(index, bytes)?;
            stage.close();
            assert_eq!(stage.hash_chunk(index).unwrap().as_bytes(), hash);
            stage.close();
        }
        stage.publish(&mut Root::open(&scratch.path(to)).unwrap())
    }

    fn assert_same(a: &Path, b: &Path) {
        let (one, other) = (
            fs::symlink_metadata(a).unwrap(),
            fs::symlink_metadata(b).unwrap(),
        );
        assert_eq!(one.mtime_nsec(), other.mtime_nsec(), "{}", b.display());
        assert_eq!(one.mtime(), other.mtime(), "{}", b.display());
        assert_eq!(one.mode(), other.mode(), "{}", b.display());
        if one.is_dir() {
            let names = |path: &Path| {
                let entries = fs::read_dir(path).unwrap();
                let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
                names.sort();
                names
            };
            assert_eq!(names(a), names(b));
            for name in names(a) {
                assert_same(&a.join(&name), &b.join(&name));
            }
        } else if one.is_symlink() {
            assert_eq!(fs::read_link(a).unwrap(), fs::read_link(b).unwrap());
        } else {
            assert!(
                fs::read(a).unwrap() == fs::read(b).unwrap(),
                "{}",
                b.display()
            );
        }
    }

    /// A tree with everything that a tree can have.
    fn tree(scratch: &Scratch) {
        let tree = scratch.path("t");
        for directory in ["a", "a-b", "a/x", "a/x/y", "none"] {
            fs::create_dir_all(tree.join(directory)).unwrap();
        }
        for (name, len) in [
            ("a/empty", 0),
            ("a/x/y/small", 5),
            ("a-b/f", 1000),
            ("large", 3 * Layout::CHUNK as usize + 77),
            ("read-only", 10),
        ] {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
            fs::write(tree.join(name), bytes).unwrap();
        }
        symlink("../nowhere", tree.join("a/link")).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("read-only", 0o444);
        mode("a/x/y/small", 0o751);
        mode("a/x", 0o555);
        let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123);
        let file = File::open(tree.join("large")).unwrap();
        file.set_modified(old).unwrap();
    }

    #[test]
    fn a_tree_arrives_as_it_was_whether_it_is_new_or_there_already() {
        let scratch = Scratch::new();
        tree(&scratch);
        place(&scratch, "t", "out").unwrap();
        assert_same(&scratch.path("t"), &scratch.path("out/t"));

        // Again, into a tree that has lost some of it and changed the rest.
        fs::remove_dir_all(scratch.path("out/t/a-b")).unwrap();
        fs::remove_file(scratch.path("out/t/a/link")).unwrap();
        fs::write(scratch.path("out/t/a/link"), "a file now").unwrap();
        fs::write(scratch.path("out/t/large"), "short").unwrap();
        place(&scratch, "t", "out").unwrap();
        assert_same(&scratch.path("t"), &scratch.path("out/t"));
    }

    #[test]
    fn what_is_in_the_way_stops_everything_before_anything_is_moved() {
        let scratch = Scratch::new();
        tree(&scratch);
        fs::create_dir_all(scratch.path("out/t/large")).unwrap();
        let error = place(&scratch, "t", "out").unwrap_err().to_string();
        assert_eq!(
            error,
            "t/large is a directory here and a file in the transfer: move it away"
        );
        assert_eq!(fs::read_dir(scratch.path("out/t")).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_the_target_is_not_followed() {
        let scratch = Scratch::new();
        tree(&scratch);
        fs::create_dir_all(scratch.path("elsewhere")).unwrap();
        fs::create_dir_all(scratch.path("out")).unwrap();
        symlink(scratch.path("elsewhere"), scratch.path("out/t")).unwrap();
        let error = place(&scratch, "t", "out").unwrap_err().to_string();
        assert!(
            error.contains("t is a link here and a directory"),
            "{error}"
        );
        assert_eq!(fs::read_dir(scratch.path("elsewhere")).unwrap().count(), 0);
    }
}
