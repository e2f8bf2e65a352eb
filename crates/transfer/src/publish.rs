//! Putting in place: the whole staging tree into the target.
//!
//! Whatever is not there yet is moved in one step, a whole tree if it is new; files that are there
//! are replaced, each in one step; directories that are there stay and get what is new. What would
//! stop a move half way is looked for before the first one: [`Publication::plan`].
//!
//! The receiver says in its folder that it has begun (`spool/folder.rs`). One that dies in the
//! middle is finished when the next one starts: what is still in the staging tree is moved then, so
//! the same plan is made of what is left.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::text::printable;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::beneath::{FileIdentity, Root};
use crate::compare::Stamp;
use crate::manifest::{Entry, Kind, Manifest, parent};
use crate::stage::{PlaceError, failed};

/// The entries of a manifest that are, or were, in a staging tree.
#[derive(Debug)]
pub(crate) struct Publication<'a> {
    manifest: &'a Manifest,
    tree: &'a mut Root,
    /// Which entries have their mode and time already; fewer than there are entries if nobody
    /// knows.
    has_metadata: &'a [bool],
    /// Files that are in the target already.
    kept: Option<&'a BTreeMap<usize, Stamp>>,
    /// Whether some of it may have been moved before.
    remains: bool,
}

/// How everything comes into the target.
#[derive(Debug)]
pub(crate) struct Plan {
    moves: Vec<Move>,
    /// Each directory's entry, and which directory it will be; and files that are there already,
    /// with another mode or time.
    directories: Vec<(usize, FileIdentity)>,
}

#[derive(Debug)]
struct Move {
    entry: usize,
    /// Nothing is there yet.
    fresh: bool,
}

impl<'a> Publication<'a> {
    /// Of `tree`, which holds all entries of `manifest` but those that are `kept` in the target.
    pub(crate) fn of_whole(
        manifest: &'a Manifest,
        tree: &'a mut Root,
        has_metadata: &'a [bool],
        kept: &'a BTreeMap<usize, Stamp>,
    ) -> Self {
        Self {
            manifest,
            tree,
            has_metadata,
            kept: Some(kept),
            remains: false,
        }
    }

    /// Of what a receiver that died has left in `tree`.
    pub(crate) fn of_remains(manifest: &'a Manifest, tree: &'a mut Root) -> Self {
        Self {
            manifest,
            tree,
            has_metadata: &[],
            kept: None,
            remains: true,
        }
    }

    /// What has to be moved so that everything is in `target`: as few moves as possible.
    ///
    /// # Errors
    /// If something else is in the way, or a move would fail for a reason that can be seen.
    pub(crate) fn plan(&mut self, target: &mut Root) -> Result<Plan, PlaceError> {
        let mut moves = Vec::new();
        let mut directories = Vec::new();
        // What moves with the directory that it lies in needs no move of its own.
        let mut carried: BTreeSet<&[u8]> = BTreeSet::new();
        // What lies in a directory that was moved, and is gone since, is not looked for.
        let mut gone: BTreeSet<&[u8]> = BTreeSet::new();
        for (index, entry) in self.manifest.entries().iter().enumerate() {
            let path = &entry.path[..];
            let is_directory = entry.kind == Kind::Directory;
            let above = parent(path);
            if above.is_some_and(|above| gone.contains(above)) {
                if is_directory {
                    gone.insert(path);
                }
                continue;
            }
            let is_carried = above.is_some_and(|above| carried.contains(above));
            let staged = match self.remains || is_directory {
                true => self.tree.stat(path).map_err(failed("look at", entry))?,
                false => None,
            };
            let there = match is_carried {
                true => None,
                false => look(target, entry)?,
            };
            if let Some(stamp) = self.kept.and_then(|kept| kept.get(&index)) {
                let stat = still_there(entry, stamp, there.as_ref())?;
                directories.extend(stat.map(|stat| (index, FileIdentity::of(stat))));
                continue;
            }
            if self.remains && staged.is_none() {
                // It was moved, or went with its directory.
                match there.filter(|_| is_directory).filter(is_a_directory) {
                    Some(stat) => directories.push((index, FileIdentity::of(&stat))),
                    None if is_directory => _ = gone.insert(path),
                    None => {}
                }
                continue;
            }
            if is_directory {
                let stays = there.filter(is_a_directory);
                if let Some(stat) = &stays {
                    own(entry, stat)?;
                }
                let stat = stays.or(staged);
                directories.extend(stat.map(|stat| (index, FileIdentity::of(&stat))));
                if stays.is_some() {
                    continue;
                }
                carried.insert(path);
            }
            if is_carried {
                continue;
            }
            if let Some(there) = there {
                replaceable(entry, &there)?;
            }
            if let Some(problem) = target
                .obstacle(path)
                .map_err(failed("look at the place of", entry))?
            {
                return Err(blocked(entry, problem));
            }
            moves.push(Move {
                entry: index,
                fresh: there.is_none(),
            });
        }
        Ok(Plan { moves, directories })
    }

    /// Gives files and links their modes and times, and moves everything into `target`.
    pub(crate) fn carry_out(&mut self, plan: Plan, target: &mut Root) -> Result<(), PlaceError> {
        self.complete()?;
        let entries = self.manifest.entries();
        self.tree.forget();
        for Move { entry, fresh } in plan.moves {
            let entry = &entries[entry];
            self.tree
                .move_to(target, &entry.path, fresh)
                .map_err(failed("put in place", entry))?;
        }
        // Last and deepest first: a directory that cannot be written, or whose time changes with
        // every move. Each must be the one that was moved, or was there before: where another has
        // taken its place, not all is in place.
        target.forget();
        for (entry, identity) in plan.directories.into_iter().rev() {
            set_metadata(target, &entries[entry], identity)?;
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<(), PlaceError> {
        for (index, entry) in self.manifest.entries().iter().enumerate() {
            let is_done = self.has_metadata.get(index).copied().unwrap_or(false);
            if is_done || entry.kind == Kind::Directory {
                continue;
            }
            let staged = self.tree.stat(&entry.path);
            if let Some(stat) = staged.map_err(failed("look at", entry))? {
                set_metadata(self.tree, entry, FileIdentity::of(&stat))?;
            }
        }
        Ok(())
    }
}

/// What is in `target` where `entry` belongs.
fn look(target: &mut Root, entry: &Entry) -> Result<Option<Stat>, PlaceError> {
    target.stat(&entry.path).map_err(|error| {
        match Errno::from_io_error(&error) == Some(Errno::XDEV) {
            true => blocked(entry, "another file system is mounted above it"),
            false => failed("look at", entry)(error),
        }
    })
}

/// A file that is kept must be what it was when it was compared. What is there, if it has another
/// mode or time than `entry`.
fn still_there<'s>(
    entry: &Entry,
    stamp: &Stamp,
    there: Option<&'s Stat>,
) -> Result<Option<&'s Stat>, PlaceError> {
    let Some(stat) = there.filter(|stat| Stamp::of(stat) == *stamp) else {
        let problem = "it was here already, and has changed since it was compared: send it again";
        return Err(blocked(entry, problem));
    };
    let (mode, modified) = (entry.mode, entry.modified);
    let is_so = stat.st_mode & 0o777 == u32::from(mode)
        && stat.st_mtime == modified.seconds
        && stat.st_mtime_nsec == u64::from(modified.nanoseconds);
    Ok((!is_so).then_some(stat))
}

/// Whether the directory `there` gets the mode and the time of `entry`.
fn own(entry: &Entry, there: &Stat) -> Result<(), PlaceError> {
    let user = rustix::process::geteuid().as_raw();
    match user == 0 || there.st_uid == user {
        true => Ok(()),
        false => Err(blocked(
            entry,
            "the directory belongs to another user: its mode and time cannot be set",
        )),
    }
}

/// Whether what is there can, and should, be replaced in one step.
fn replaceable(entry: &Entry, there: &Stat) -> Result<(), PlaceError> {
    let kind = FileType::from_raw_mode(there.st_mode);
    let comes = match &entry.kind {
        Kind::File { .. } | Kind::Link { .. }
            if matches!(kind, FileType::RegularFile | FileType::Symlink) =>
        {
            return Ok(());
        }
        Kind::Directory => "a directory",
        Kind::File { .. } => "a file",
        Kind::Link { .. } => "a link",
    };
    Err(PlaceError::Conflict {
        path: printable(&entry.path),
        there: match kind {
            FileType::Directory => "a directory",
            FileType::RegularFile => "a file",
            FileType::Symlink => "a link",
            _ => "neither a file nor a directory",
        },
        comes,
    })
}

fn is_a_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn blocked(entry: &Entry, problem: &'static str) -> PlaceError {
    PlaceError::Blocked {
        path: printable(&entry.path),
        problem,
    }
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
