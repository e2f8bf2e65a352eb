//! The staging tree of a transfer: chunks are written into its files.
//!
//! It lies in the receiver's folder (`spool.rs`), on the same file system as the target, with the
//! names that its entries will have. Nothing is visible in the target before everything is
//! verified; then `publish.rs` puts it in place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use groupcast_core::text::printable;
use rustix::fs::Mode;

use crate::about::Layout;
use crate::beneath::{Root, timestamps, write_at};
use crate::compare::Stamp;
use crate::content::{FilePlace, FilePlaces};
use crate::manifest::{Entry, Kind, Manifest};
use crate::publish::{Plan, Publication};

/// Why an entry cannot be put in place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PlaceError {
    /// The file system refuses.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The path of the entry.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another kind of file is in the place of an entry.
    #[error("{path} is {there} here and {comes} in the transfer: move it away")]
    Conflict {
        /// The path of the entry.
        path: String,
        /// The kind of what is there.
        there: &'static str,
        /// The kind of the entry.
        comes: &'static str,
    },
    /// A move would fail.
    #[error("{path} cannot be put in place: {problem}")]
    Blocked {
        /// The path of the entry.
        path: String,
        /// What stops it.
        problem: &'static str,
    },
}

/// The staging tree of one transfer.
#[derive(Debug)]
pub(crate) struct StagingTree {
    manifest: Manifest,
    layout: Layout,
    places: FilePlaces,
    tree: Root,
    /// The file that was written last.
    open: Option<(usize, File)>,
    /// Which entries have their mode and time already.
    has_metadata: Vec<bool>,
    /// Files that were in the target already and stay there.
    kept: BTreeMap<usize, Stamp>,
}

impl StagingTree {
    /// A staging tree in the empty or half-filled directory `tree`; makes the transfer's
    /// directories in it.
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
            kept: BTreeMap::new(),
        })
    }

    /// These files, by their entries, are in the target already and stay there: their bytes are not
    /// written.
    pub(crate) fn keep(&mut self, kept: BTreeMap<usize, Stamp>) {
        self.kept = kept;
    }

    /// Writes the bytes of chunk `index`, hash not included.
    pub(crate) fn write_chunk(&mut self, index: u64, bytes: &[u8]) -> Result<(), PlaceError> {
        self.write(self.layout.content_of(index).start, bytes)
    }

    /// Writes the bytes of the content from `at` on.
    pub(crate) fn write(&mut self, mut at: u64, bytes: &[u8]) -> Result<(), PlaceError> {
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

    /// Ends reading back. Its files are open for reading only.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Everything is written and verified: makes the entries that no chunk touches (empty files,
    /// links), and plans the moves into `target`. Moves nothing.
    ///
    /// # Errors
    /// If something is in the way.
    pub(crate) fn prepare(&mut self, target: &mut Root) -> Result<Plan, PlaceError> {
        self.open = None;
        for (index, entry) in self.manifest.entries().iter().enumerate() {
            match &entry.kind {
                Kind::File { size: 0, .. } if !self.kept.contains_key(&index) => {
                    let made = self.tree.write(&entry.path);
                    made.map_err(failed("make", entry))?;
                }
                Kind::Link { target } => self
                    .tree
                    .make_link(&entry.path, target)
                    .map_err(failed("make the link", entry))?,
                Kind::File { .. } | Kind::Directory => {}
            }
        }
        self.publication().plan(target)
    }

    /// Removes what an earlier attempt has written of the files that stay in the target: a receiver
    /// that finishes this one later moves all that it finds in the tree.
    pub(crate) fn remove_kept(&mut self) -> Result<(), PlaceError> {
        for index in self.kept.keys() {
            let entry = &self.manifest.entries()[*index];
            let removed = self.tree.remove_file(&entry.path);
            removed.map_err(failed("remove the parts of", entry))?;
        }
        Ok(())
    }

    /// The files that stay in the target and only get their mode and time by `plan`.
    pub(crate) fn amended(&self, plan: &Plan) -> Vec<(usize, Stamp)> {
        let kept = |entry| Some((entry, *self.kept.get(&entry)?));
        plan.amended().filter_map(kept).collect()
    }

    /// The paths of `entries`, for people.
    pub(crate) fn paths(&self, entries: impl Iterator<Item = usize>) -> Vec<String> {
        let all = self.manifest.entries();
        entries.map(|entry| printable(&all[entry].path)).collect()
    }

    /// Moves everything into `target` by `plan`.
    pub(crate) fn publish(&mut self, plan: Plan, target: &mut Root) -> Result<(), PlaceError> {
        self.publication().carry_out(plan, target)
    }

    fn publication(&mut self) -> Publication<'_> {
        let (tree, has_metadata) = (&mut self.tree, &self.has_metadata);
        Publication::of_whole(&self.manifest, tree, has_metadata, &self.kept)
    }

    fn write_file(&mut self, place: FilePlace, bytes: &[u8]) -> Result<(), PlaceError> {
        if self.kept.contains_key(&place.entry) {
            return Ok(());
        }
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
        write_at(file, bytes, place.offset).map_err(failed("write", entry))?;
        // A file that lies in one chunk gets its mode and time while it is open; but not if its
        // owner could not read it after that, when the transfer is resumed.
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

pub(crate) fn failed(what: &'static str, entry: &Entry) -> impl FnOnce(io::Error) -> PlaceError {
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
        let mut target = Root::open(&scratch.path(to)).unwrap();
        let plan = stage.prepare(&mut target)?;
        stage.publish(plan, &mut target)
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
