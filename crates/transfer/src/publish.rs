//! Puts a transfer in place: moves the whole staging tree into the target.
//!
//! A file or a whole tree that is new in the target is moved in one step. Existing files are
//! replaced, each in one step; existing directories stay and get the new entries.
//! [`Publication::plan`] looks for everything that would stop a move before the first move is made.
//!
//! The receiver marks in its folder that it has begun (`spool/folder.rs`). If it dies in the
//! middle, the next receiver finishes: it moves what is still in the staging tree, by the same plan
//! made for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use groupcast_core::text::printable;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::beneath::{FileIdentity, Root};
use crate::compare::{Stamp, StampDigest};
use crate::in_place::{has_mode, has_time};
use crate::manifest::{Entry, Kind, Manifest, Timestamp, parent};
use crate::stage::{PlaceError, failed};

/// The entries of a manifest that are, or were, in a staging tree.
#[derive(Debug)]
pub(crate) struct Publication<'a> {
    manifest: &'a Manifest,
    tree: &'a mut Root,
    /// Which entries have their mode and time already; shorter than the entries if that is unknown.
    has_metadata: &'a [bool],
    /// Files that were in the target already.
    kept: Option<&'a BTreeMap<usize, Stamp>>,
    /// If some entries may have been moved before: the files that were in the target already and
    /// only get their mode and time.
    remains: Option<&'a BTreeMap<usize, StampDigest>>,
}

/// The moves that bring everything into the target.
#[derive(Default, Debug)]
pub(crate) struct Plan {
    moves: Vec<Move>,
    /// Entries whose mode and time are set after the moves, and the identity that each must have
    /// then: directories, and files that were there already with another mode or time.
    amended: Vec<(usize, FileIdentity)>,
    /// Directories of a tree that may not be written to here: they are opened for the moves.
    opened: BTreeMap<usize, FileIdentity>,
    /// Directories that were opened for the plan already.
    unlocked: Vec<Unlocked>,
    /// Entries in whose place something is, and when that was put there or changed last.
    replaced: Vec<(usize, Instant)>,
}

/// A time as the file system says it: seconds and nanoseconds since 1970.
pub(crate) type Instant = (i64, u64);

/// A directory of a tree that may not be looked into here: it was opened, because nobody could say
/// else what is in it.
#[derive(Debug)]
struct Unlocked {
    path: Vec<u8>,
    identity: FileIdentity,
    mode: u16,
    modified: Timestamp,
}

#[derive(Debug)]
struct Move {
    entry: usize,
    /// Whether nothing is there yet.
    fresh: bool,
}

impl Plan {
    /// The entries whose mode and time are set after the moves.
    pub(crate) fn amended(&self) -> impl Iterator<Item = usize> {
        self.amended.iter().map(|(entry, _)| *entry)
    }

    /// The entries in whose place something is that was put there, or changed, after `began`.
    pub(crate) fn replaced_since(&self, began: Instant) -> impl Iterator<Item = usize> {
        let later = self.replaced.iter().filter(move |(_, at)| *at > began);
        later.map(|(entry, _)| *entry)
    }

    /// The plan is not carried out: closes the directories that were opened for it, the deepest
    /// first.
    pub(crate) fn give_up(self, target: &mut Root) {
        lock(self.unlocked, target);
    }

    /// The entry `index`, which is or will be as `stat` says, gets its mode and time at the end.
    fn amend(&mut self, index: usize, stat: Option<&Stat>) {
        let identity = stat.map(FileIdentity::of);
        self.amended.extend(identity.map(|it| (index, it)));
    }
}

/// A plan that is being made, entry by entry, and what is known of directories so far.
#[derive(Default)]
struct Planning<'a> {
    plan: Plan,
    /// New directories: what lies in one moves with it.
    carried: BTreeSet<&'a [u8]>,
    /// Directories that were moved before, and have been removed since or cannot be looked into:
    /// what lay in one is not looked for.
    gone: BTreeSet<&'a [u8]>,
    /// Directories that stay and cannot be written to.
    closed: BTreeMap<&'a [u8], (usize, FileIdentity)>,
}

/// What there is of an entry.
struct Found {
    /// In the staging tree, of a directory; of every entry if some may have been moved before.
    staged: Option<Stat>,
    /// At its place in the target.
    there: Option<Stat>,
    /// It was in the staging tree, and is there no longer.
    was_moved: bool,
}

impl<'a> Planning<'a> {
    /// Adds the directory `entry`; returns whether it is in the target already and stays.
    fn add_directory(
        &mut self,
        index: usize,
        entry: &'a Entry,
        found: &Found,
        target: &mut Root,
    ) -> Result<bool, PlaceError> {
        let stays = found.there.filter(is_a_directory);
        if let Some(stat) = &stays {
            own(entry, stat)?;
            if is_closed(stat, LOOK) {
                self.plan.unlocked.push(unlock(target, entry, stat)?);
            } else if is_closed(stat, WRITE) {
                self.closed
                    .insert(&entry.path, (index, FileIdentity::of(stat)));
            }
        }
        self.plan.amend(index, stays.or(found.staged).as_ref());
        if stays.is_none() {
            self.carried.insert(&entry.path);
        }
        Ok(stays.is_some())
    }

    /// Adds a move of `entry` to its place in `target`, where `there` is now.
    fn add_move(
        &mut self,
        index: usize,
        entry: &Entry,
        there: Option<Stat>,
        target: &mut Root,
    ) -> Result<(), PlaceError> {
        if let Some(there) = &there {
            replaceable(entry, there)?;
        }
        let above = parent(&entry.path);
        let closed = above.and_then(|above| self.closed.get(above)).copied();
        let obstacle = target.obstacle(&entry.path, closed.is_some());
        if let Some(problem) = obstacle.map_err(failed("look at the place of", entry))? {
            return Err(blocked(entry, problem));
        }
        self.plan.opened.extend(closed);
        let at = there.map(|stat| (stat.st_ctime, stat.st_ctime_nsec));
        self.plan.replaced.extend(at.map(|at| (index, at)));
        self.plan.moves.push(Move {
            entry: index,
            fresh: there.is_none(),
        });
        Ok(())
    }
}

impl<'a> Publication<'a> {
    /// The publication of `tree`, which holds all entries of `manifest` except those that are
    /// `kept` in the target.
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
            remains: None,
        }
    }

    /// The publication of what a receiver that died has left in `tree`: nothing of a file that was
    /// kept in the target is in it. Of those, the `amended` get their mode and time, unless they
    /// have changed.
    pub(crate) fn of_remains(
        manifest: &'a Manifest,
        tree: &'a mut Root,
        amended: &'a BTreeMap<usize, StampDigest>,
    ) -> Self {
        Self {
            manifest,
            tree,
            has_metadata: &[],
            kept: None,
            remains: Some(amended),
        }
    }

    /// The plan that brings everything into `target` in as few moves as possible. Opens directories
    /// of the tree that may not be looked into, until the plan is carried out or given up.
    ///
    /// # Errors
    /// If something is in the way, or a move would fail for a reason that can be seen before.
    pub(crate) fn plan(&mut self, target: &mut Root) -> Result<Plan, PlaceError> {
        let mut planning = Planning::default();
        for index in 0..self.manifest.entries().len() {
            if let Err(error) = self.plan_entry(&mut planning, index, target) {
                planning.plan.give_up(target);
                return Err(error);
            }
        }
        Ok(planning.plan)
    }

    /// Plans the entry `index`; the directory that it is in has been planned before.
    fn plan_entry(
        &mut self,
        planning: &mut Planning<'a>,
        index: usize,
        target: &mut Root,
    ) -> Result<(), PlaceError> {
        let manifest = self.manifest;
        let entry = &manifest.entries()[index];
        let (path, above) = (&entry.path[..], parent(&entry.path));
        if above.is_some_and(|above| planning.gone.contains(above)) {
            if entry.kind == Kind::Directory {
                planning.gone.insert(path);
            }
            return Ok(());
        }
        let is_carried = above.is_some_and(|above| planning.carried.contains(above));
        let found = self.find(entry, is_carried, target)?;
        if let Some(stamp) = self.kept.and_then(|kept| kept.get(&index)) {
            let stat = still_there(entry, stamp, found.there.as_ref())?;
            planning.plan.amend(index, stat);
            return Ok(());
        }
        if found.was_moved {
            self.plan_moved(planning, index, found.there, target);
            return Ok(());
        }
        if entry.kind == Kind::Directory && planning.add_directory(index, entry, &found, target)? {
            return Ok(());
        }
        match is_carried {
            true => Ok(()),
            false => planning.add_move(index, entry, found.there, target),
        }
    }

    /// What there is of `entry` in the staging tree and in `target`. If it `is_carried` by a new
    /// directory, nothing can be in the target.
    fn find(
        &mut self,
        entry: &Entry,
        is_carried: bool,
        target: &mut Root,
    ) -> Result<Found, PlaceError> {
        let is_directory = entry.kind == Kind::Directory;
        let staged = match self.remains.is_some() || is_directory {
            true => self
                .tree
                .stat(&entry.path)
                .map_err(failed("look at", entry))?,
            false => None,
        };
        let was_moved = self.remains.is_some() && staged.is_none();
        let there = match is_carried || was_moved && !is_directory {
            true => None,
            false => match look(target, entry) {
                // The directory above has its mode already, and so has all that is in it.
                Err(PlaceError::Io { source, .. })
                    if was_moved && source.kind() == io::ErrorKind::PermissionDenied =>
                {
                    None
                }
                other => other.map_err(|error| in_closed(entry, error))?,
            },
        };
        Ok(Found {
            staged,
            there,
            was_moved,
        })
    }

    /// Plans an entry that is not in the staging tree any more: it was moved before, by itself or
    /// with its directory, or it was kept.
    fn plan_moved(
        &self,
        planning: &mut Planning<'a>,
        index: usize,
        there: Option<Stat>,
        target: &mut Root,
    ) {
        let manifest = self.manifest;
        let entry = &manifest.entries()[index];
        let amended = self.remains.and_then(|amended| amended.get(&index));
        let kept = amended.and_then(|digest| to_amend(target, entry, digest));
        planning.plan.amended.extend(kept.map(|it| (index, it)));
        match there.filter(is_a_directory) {
            Some(stat) => planning.plan.amend(index, Some(&stat)),
            None if entry.kind == Kind::Directory => _ = planning.gone.insert(&entry.path),
            None => {}
        }
    }

    /// Gives files and links their modes and times, and moves everything into `target`.
    pub(crate) fn carry_out(&mut self, plan: Plan, target: &mut Root) -> Result<(), PlaceError> {
        self.complete()?;
        let entries = self.manifest.entries();
        for (entry, identity) in plan.opened {
            let entry = &entries[entry];
            target
                .set_metadata(&entry.path, entry.mode | OWN, entry.modified, identity)
                .map_err(failed("open the directory", entry))?;
        }
        self.tree.forget();
        for Move { entry, fresh } in plan.moves {
            let entry = &entries[entry];
            self.tree
                .move_to(target, &entry.path, fresh)
                .map_err(failed("put in place", entry))?;
        }
        // Directories come last, the deepest first: a mode may forbid writing, and every move into
        // a directory changes its time. Each must be the directory that was moved, or was there
        // before: if another one has taken its place, not everything is in place.
        target.forget();
        for (entry, identity) in plan.amended.into_iter().rev() {
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

/// The state of the place of `entry` in `target`.
fn look(target: &mut Root, entry: &Entry) -> Result<Option<Stat>, PlaceError> {
    target.stat(&entry.path).map_err(|error| {
        match Errno::from_io_error(&error) == Some(Errno::XDEV) {
            true => blocked(entry, "another file system is mounted above it"),
            false => failed("look at", entry)(error),
        }
    })
}

/// The error of a look at the place of `entry`: clearer if its directory forbids it.
fn in_closed(entry: &Entry, error: PlaceError) -> PlaceError {
    match &error {
        PlaceError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            blocked(entry, "its directory cannot be looked into")
        }
        _ => error,
    }
}

/// Checks that a kept file has not changed since it was compared. Returns its state if its mode or
/// time differs from that of `entry`.
fn still_there<'s>(
    entry: &Entry,
    stamp: &Stamp,
    there: Option<&'s Stat>,
) -> Result<Option<&'s Stat>, PlaceError> {
    let Some(stat) = there.filter(|stat| Stamp::of(stat) == *stamp) else {
        let problem = "it was here already, and has changed since it was compared: send it again";
        return Err(blocked(entry, problem));
    };
    let is_so = has_mode(stat, entry) && has_time(stat, entry);
    Ok((!is_so).then_some(stat))
}

/// The identity of a file that was kept and still is as it was, if its mode or time differs from
/// that of `entry`.
fn to_amend(target: &mut Root, entry: &Entry, digest: &StampDigest) -> Option<FileIdentity> {
    let stat = target.stat(&entry.path).ok()??;
    let is_it = Stamp::of(&stat).digest() == *digest;
    let is_so = has_mode(&stat, entry) && has_time(&stat, entry);
    (is_it && !is_so).then(|| FileIdentity::of(&stat))
}

/// Checks that mode and time of the directory `there` can be set.
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

/// What the owner of a directory needs to change what is in it.
const OWN: u16 = 0o700;

/// What he needs to look for a name in it, and to change a name.
const LOOK: u32 = 0o500;
const WRITE: u32 = 0o200;

/// Whether the directory `there` of the tree forbids `what` to this user, whose it is. That is no
/// obstacle: it has the mode that the tree had before, or one of somebody here, and gets the one
/// that the tree has now, as it does if root receives it.
fn is_closed(there: &Stat, what: u32) -> bool {
    let user = rustix::process::geteuid();
    !user.is_root() && there.st_uid == user.as_raw() && there.st_mode & what != what
}

/// Directories of a tree that were opened, to look at what is in them.
#[derive(Default, Debug)]
pub(crate) struct OpenedToLook(Vec<Unlocked>);

impl OpenedToLook {
    /// Opens the directories of `manifest` in `target` that are this user's and may not be looked
    /// into. One that cannot be opened stays closed: what is in it is not known, then.
    pub(crate) fn open(manifest: &Manifest, target: &mut Root) -> Self {
        let mut opened = Vec::new();
        let is_directory = |entry: &&Entry| entry.kind == Kind::Directory;
        for entry in manifest.entries().iter().filter(is_directory) {
            let there = target.stat(&entry.path).ok().flatten();
            let closed = there.filter(|it| is_a_directory(it) && is_closed(it, LOOK));
            if let Some(unlocked) = closed.and_then(|it| unlock(target, entry, &it).ok()) {
                opened.push(unlocked);
            }
        }
        if !opened.is_empty() {
            target.forget();
        }
        Self(opened)
    }

    /// Closes them again.
    pub(crate) fn close(self, target: &mut Root) {
        if !self.0.is_empty() {
            lock(self.0, target);
        }
    }
}

/// Closes directories that were opened, the deepest first.
fn lock(opened: Vec<Unlocked>, target: &mut Root) {
    target.forget();
    for it in opened.into_iter().rev() {
        // One that stays open is closed by the next transfer that is complete.
        let _ = target.set_metadata(&it.path, it.mode, it.modified, it.identity);
    }
}

/// Opens the directory `there`, to look into it and to write to it.
fn unlock(target: &mut Root, entry: &Entry, there: &Stat) -> Result<Unlocked, PlaceError> {
    let it = Unlocked {
        path: entry.path.to_vec(),
        identity: FileIdentity::of(there),
        mode: (there.st_mode & 0o7777) as u16,
        modified: Timestamp {
            seconds: there.st_mtime,
            nanoseconds: there.st_mtime_nsec as u32,
        },
    };
    target
        .set_metadata(&it.path, it.mode | OWN, it.modified, it.identity)
        .map_err(failed("open the directory", entry))?;
    Ok(it)
}

/// Checks that the existing entry can be replaced by `entry` in one step.
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

/// Sets mode and time of `entry` in `root`, which must have this identity.
fn set_metadata(root: &mut Root, entry: &Entry, identity: FileIdentity) -> Result<(), PlaceError> {
    let (path, modified) = (&entry.path, entry.modified);
    match entry.kind {
        Kind::Link { .. } => root.set_link_modified(path, modified),
        _ => root.set_metadata(path, entry.mode, modified, identity),
    }
    .map_err(failed("set the mode and time of", entry))
}
