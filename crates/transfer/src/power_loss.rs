//! Tests that whenever the power fails, a transfer in place is whole, and a transfer that was
//! reported complete is there.
//!
//! Goal: after a crash at any moment the target holds all of a transfer or nothing of it, and all
//! of it if it was told complete. Method: the calls that change the disk are recorded while a
//! transfer is put in place for real; a model of the disk replays them up to each moment and loses
//! what was not synchronised; a receiver is started on what is left. Senders end in whole
//! transfers, too, and receivers and hosts again and again. What a model loses: any writes and any
//! names since the last synchronisation, each on its own, but a rename takes place or does not.

mod kept;
mod streams;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, read_link};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use groupcast_core::Rng;

use crate::about::Piece;
use crate::content::{Files, content_id};
use crate::manifest::{Limits, Scan};
use crate::received::ReceivedFiles;
use crate::scratch::Scratch;
use crate::slow_disk;
use crate::spool::{Claim, Spool};

/// A change of the disk, by absolute paths.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A file is made, unless it is there.
    File(PathBuf),
    Directory(PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    /// A file's content or a directory's names are on the disk.
    Sync(PathBuf),
    /// Everything in the file system that this lies in is on the disk.
    SyncAll(PathBuf),
    /// A transfer was told complete.
    Told,
}

thread_local! {
    static RECORD: RefCell<Option<Vec<Change>>> = const { RefCell::new(None) };
}

/// A change was made: keeps account of it, if this thread records, and takes as long as its disk.
pub(crate) fn note(change: impl FnOnce() -> Change) {
    if !RECORD.with_borrow(Option::is_some) && !slow_disk::is_any() {
        return;
    }
    let change = change();
    slow_disk::wait(&change);
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.push(change);
        }
    });
}

/// Where what is open lies at the moment.
pub(crate) fn path_of(opened: impl AsFd) -> PathBuf {
    let number = opened.as_fd().as_raw_fd();
    read_link(format!("/proc/self/fd/{number}")).unwrap()
}

fn recorded(act: impl FnOnce()) -> Vec<Change> {
    RECORD.set(Some(Vec::new()));
    act();
    RECORD.take().unwrap()
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Node {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

/// Names and what they stand for; each node has a number for ever.
#[derive(Clone, Default, Debug)]
struct Model {
    nodes: Vec<Node>,
    names: BTreeMap<PathBuf, usize>,
}

/// A change, by numbers of nodes.
#[derive(Clone, Debug)]
enum Step {
    /// A node gets a name, in the directory that is the last node.
    Name(PathBuf, usize, Option<usize>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    Write(usize, u64, Vec<u8>),
}

impl Model {
    /// What lies in the directory `path`.
    fn of(path: &Path) -> Self {
        let mut model = Self::default();
        let mut open = vec![path.to_owned()];
        while let Some(path) = open.pop() {
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let node = if kind.is_dir() {
                let below = fs::read_dir(&path).unwrap();
                open.extend(below.map(|entry| entry.unwrap().path()));
                Node::Directory
            } else if kind.is_symlink() {
                Node::Link(read_link(&path).unwrap())
            } else {
                Node::File(fs::read(&path).unwrap())
            };
            model.names.insert(path, model.nodes.len());
            model.nodes.push(node);
        }
        model
    }

    /// The step that `change` is here, if it changes anything.
    fn step(&mut self, change: &Change) -> Option<Step> {
        let (path, node) = match change {
            Change::File(path) if self.names.contains_key(path) => return None,
            Change::File(path) => (path, Node::File(Vec::new())),
            Change::Directory(path) => (path, Node::Directory),
            Change::Link(path, to) => (path, Node::Link(to.clone())),
            Change::Remove(path) => return Some(Step::Remove(path.clone())),
            Change::Rename(from, to) => return Some(Step::Rename(from.clone(), to.clone())),
            Change::Write(path, at, bytes) => {
                return Some(Step::Write(self.names[path], *at, bytes.clone()));
            }
            Change::Sync(_) | Change::SyncAll(_) | Change::Told => return None,
        };
        self.nodes.push(node);
        let above = self.above(path);
        Some(Step::Name(path.clone(), self.nodes.len() - 1, above))
    }

    /// The directory that `path` is in.
    fn above(&self, path: &Path) -> Option<usize> {
        path.parent()
            .and_then(|above| self.names.get(above).copied())
    }

    fn is_directory(&self, path: &Path) -> bool {
        let node = self.names.get(path).map(|node| &self.nodes[*node]);
        node == Some(&Node::Directory)
    }

    /// Applies `step`, as far as the names that it needs are there.
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Name(path, node, above) => {
                // Another directory of the same name may be there, if its removal is lost: it gets
                // nothing of the new one, and the new one nothing of it.
                if above.is_some() && self.above(path) == *above {
                    self.names.retain(|name, _| !name.starts_with(path));
                    self.names.insert(path.clone(), *node);
                }
            }
            Step::Remove(path) => {
                self.names.retain(|name, _| !name.starts_with(path));
            }
            Step::Rename(from, to) => {
                let there = to.parent().is_some_and(|above| self.is_directory(above));
                if !there || !self.names.contains_key(from) {
                    return;
                }
                self.names.retain(|name, _| !name.starts_with(to));
                let all = std::mem::take(&mut self.names).into_iter();
                let moved = all.map(|(name, node)| match name.strip_prefix(from) {
                    Ok(rest) if rest.as_os_str().is_empty() => (to.clone(), node),
                    Ok(rest) => (to.join(rest), node),
                    Err(_) => (name, node),
                });
                self.names = moved.collect();
            }
            Step::Write(node, at, bytes) => {
                if let Node::File(content) = &mut self.nodes[*node] {
                    let end = *at as usize + bytes.len();
                    content.resize(content.len().max(end), 0);
                    content[*at as usize..end].copy_from_slice(bytes);
                }
            }
        }
    }

    /// Whether `step` is on the disk for sure after `path` was synchronised: writes to a file, and
    /// names in a directory.
    fn is_kept(&self, step: &Step, path: &Path) -> bool {
        let in_it = |name: &Path| name.parent() == Some(path);
        match step {
            Step::Write(node, ..) => self.names.get(path) == Some(node),
            Step::Name(name, ..) | Step::Remove(name) => in_it(name),
            Step::Rename(from, to) => in_it(from) || in_it(to),
        }
    }

    /// What `before` is once the power fails after `changes`: `lost` says of each that is not on
    /// the disk for sure whether it is lost.
    fn after(before: &Self, changes: &[Change], mut lost: impl FnMut() -> bool) -> Self {
        let mut live = before.clone();
        let mut steps: Vec<(Step, bool)> = Vec::new();
        for change in changes {
            match change {
                Change::SyncAll(_) => steps.iter_mut().for_each(|(_, kept)| *kept = true),
                Change::Sync(path) => {
                    for (step, kept) in &mut steps {
                        *kept |= live.is_kept(step, path);
                    }
                }
                _ => {}
            }
            if let Some(step) = live.step(change) {
                live.apply(&step);
                steps.push((step, false));
            }
        }
        let mut left = Self {
            nodes: live.nodes,
            names: before.names.clone(),
        };
        for (index, node) in left.nodes.iter_mut().enumerate() {
            if let Node::File(content) = node {
                *content = match before.nodes.get(index) {
                    Some(Node::File(content)) => content.clone(),
                    _ => Vec::new(),
                };
            }
        }
        for (step, kept) in &steps {
            if *kept || !lost() {
                left.apply(step);
            }
        }
        left
    }

    /// Makes the directory at `path` what the model is.
    fn restore(&self, path: &Path) {
        fs::remove_dir_all(path).unwrap();
        for (name, node) in &self.names {
            match &self.nodes[*node] {
                Node::Directory => fs::create_dir(name).unwrap(),
                Node::File(content) => fs::write(name, content).unwrap(),
                Node::Link(to) => symlink(to, name).unwrap(),
            }
        }
        // The folder of a receiver is its user's alone.
        let folder = path.join(".groupcast");
        if folder.exists() {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(folder, mode).unwrap();
        }
    }

    /// What people see: names below `path` and contents, without the receiver's own folder.
    fn seen(&self, path: &Path) -> BTreeMap<PathBuf, Node> {
        let folder = path.join(".groupcast");
        let names = self.names.iter();
        names
            .filter(|(name, _)| !name.starts_with(&folder))
            .map(|(name, node)| (name.clone(), self.nodes[*node].clone()))
            .collect()
    }
}

/// A transfer with all that one can have: new trees, files to be replaced, directories that stay.
fn files(scratch: &Scratch) -> Files {
    for (name, content) in [
        ("t/new/deep/a", "new a"),
        ("t/new/b", "new b"),
        ("t/old/replaced", "a new text"),
        ("t/old/empty", ""),
        ("t/old/sub/c", "new c"),
        ("u", "new u"),
    ] {
        let path = scratch.path("from").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    symlink("b", scratch.path("from/t/old/link")).unwrap();
    fs::create_dir_all(scratch.path("out/t/old")).unwrap();
    for (name, content) in [
        ("t/old/replaced", "an old text"),
        ("t/old/stays", "old"),
        ("u", "old u"),
    ] {
        fs::write(scratch.path("out").join(name), content).unwrap();
    }
    let paths = ["t", "u"].map(|name| scratch.path("from").join(name));
    Files::new(Scan::of(&paths).unwrap())
}

/// Receives `files` into `out` of the scratch directory; what changed on the disk.
fn receive(scratch: &Scratch, files: &mut Files, durable: bool) -> Vec<Change> {
    recorded(|| {
        let spool = Spool::open(&scratch.path("out"), &Limits::default(), durable).unwrap();
        let spool = Arc::new(spool);
        let id = content_id(files.manifest());
        let claim = Claim::new(&spool, id.short().into_bytes());
        let limits = Limits::default();
        let mut received = ReceivedFiles::new(claim, id, files.layout(), limits).unwrap();
        received.resume(&AtomicBool::new(false)).unwrap();
        received.begin(files.manifest()).unwrap();
        for index in 0..files.layout().chunks() {
            let chunk = files.read_chunk(index).unwrap();
            received.write(index, chunk.to_vec()).unwrap();
        }
        received.publish().unwrap();
        note(|| Change::Told);
    })
}

/// Crashes at every moment of a transfer, `seeds` times each, and starts a receiver after each: how
/// often nothing was in place then, and how often everything.
fn crash(durable: bool, seeds: u64, loses: impl Fn(&mut Rng) -> bool) -> (usize, usize) {
    let scratch = Scratch::new();
    let mut files = files(&scratch);
    let out = scratch.path("out");
    let before = Model::of(&out);
    let changes = receive(&scratch, &mut files, durable);
    crash_at_every_moment(&out, &before, &changes, (durable, seeds), loses)
}

/// The same for the `changes` that a transfer made in `out`, which was as `before` at first.
fn crash_at_every_moment(
    out: &Path,
    before: &Model,
    changes: &[Change],
    (durable, seeds): (bool, u64),
    loses: impl Fn(&mut Rng) -> bool,
) -> (usize, usize) {
    let (old, new) = (before.seen(out), Model::of(out).seen(out));
    let told = changes.iter().position(|it| matches!(it, Change::Told));
    let told = told.expect("it was complete");
    let (mut nothing, mut everything) = (0, 0);
    for moment in 0..=changes.len() {
        for seed in 0..seeds {
            let mut rng = Rng::new(seed * 1000 + moment as u64);
            let left = Model::after(before, &changes[..moment], || loses(&mut rng));
            left.restore(out);
            // The receiver that is started may die too, half way through.
            let again = recorded(|| drop(Spool::open(out, &Limits::default(), durable).unwrap()));
            if !again.is_empty() {
                let cut = rng.below(again.len() as u64) as usize;
                Model::after(&left, &again[..cut], || loses(&mut rng)).restore(out);
                drop(Spool::open(out, &Limits::default(), false).unwrap());
            }
            let found = Model::of(out).seen(out);
            if found == new {
                everything += 1;
            } else {
                nothing += 1;
                assert!(found == old, "moment {moment}, seed {seed}: {found:#?}");
                assert!(
                    moment <= told,
                    "it was told complete: moment {moment}, seed {seed}"
                );
            }
        }
    }
    (nothing, everything)
}

#[test]
fn after_a_power_loss_everything_is_in_place_or_nothing_and_what_was_told_is_there() {
    let (nothing, everything) = crash(true, 5, |rng| rng.below(2) == 0);
    assert!(nothing > 30 && everything > 30, "{nothing} {everything}");
    let (nothing, everything) = crash(true, 1, |_| true);
    assert!(nothing > 10 && everything > 3, "{nothing} {everything}");
}

#[test]
fn after_a_kill_everything_is_in_place_or_nothing_though_nothing_was_synchronised() {
    let (nothing, everything) = crash(false, 1, |_| false);
    assert!(nothing > 10 && everything > 3, "{nothing} {everything}");
}

#[test]
fn the_model_loses_what_is_not_synchronised() {
    let found = std::panic::catch_unwind(|| crash(false, 5, |rng| rng.below(2) == 0));
    assert!(found.is_err(), "without synchronisation something is lost");
}

/// How a round of a transfer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    /// The receiver is killed.
    Kill,
    /// Its host loses power, and any of what was not synchronised.
    PowerLoss,
    /// All goes well.
    Well,
}

/// Sends what the receiver lacks until the sender dies, if it does; whether it was told that all is
/// in place. The chunks come in any order, and the list of files at any time.
fn attempt(scratch: &Scratch, spool: &Arc<Spool>, rng: &mut Rng, dies: bool) -> bool {
    let paths = ["t", "u"].map(|name| scratch.path("from").join(name));
    let mut files = Files::new(Scan::of(&paths).unwrap()).in_chunks(4096);
    let layout = files.layout();
    let id = content_id(files.manifest());
    let claim = Claim::new(spool, id.short().into_bytes());
    let mut received = ReceivedFiles::new(claim, id, layout, Limits::default()).unwrap();
    let held = received.resume(&AtomicBool::new(false)).unwrap();
    let has = |piece: Piece| {
        let range = layout.range(piece);
        held.iter()
            .any(|it| it.start <= range.start && range.end <= it.end)
    };
    let chunks = (0..layout.chunks()).map(Piece::Chunk);
    let all = chunks.chain([Piece::Manifest]);
    let mut missing: Vec<Piece> = all.filter(|piece| !has(*piece)).collect();
    for last in (1..missing.len()).rev() {
        missing.swap(last, rng.below(last as u64 + 1) as usize);
    }
    if dies {
        missing.truncate(rng.below(missing.len() as u64 + 1) as usize);
    }
    for piece in missing {
        match piece {
            Piece::Manifest => {
                received.begin(files.manifest()).unwrap();
            }
            Piece::Chunk(index) => {
                let chunk = files.read_chunk(index).unwrap();
                received.write(index, chunk.to_vec()).unwrap();
            }
        }
    }
    if !dies {
        received.publish().unwrap();
        note(|| Change::Told);
    }
    !dies
}

/// Rounds of a transfer that ends in all ways, until it was told complete and has then survived
/// three more ends; how many rounds that took. It ends with losses of `power`, too, if so.
fn survive(seed: u64, durable: bool, power: bool) -> u32 {
    let scratch = Scratch::new();
    drop(files(&scratch));
    let noise: Vec<u8> = (0..30_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(scratch.path("from/t/new/large"), noise).unwrap();
    let out = scratch.path("out");
    let mut rng = Rng::new(seed);
    let old = Model::of(&out).seen(&out);
    let mut new = None;
    let (mut told, mut survived, mut rounds) = (false, 0, 0);
    while survived < 3 {
        rounds += 1;
        assert!(rounds < 200, "seed {seed}: it never ends");
        let ends = match rng.below(5) {
            0 | 1 => Ends::Kill,
            2 | 3 if power => Ends::PowerLoss,
            2 | 3 => Ends::Kill,
            _ => Ends::Well,
        };
        let before = Model::of(&out);
        let mut found = None;
        let changes = recorded(|| {
            let spool = Spool::open(&out, &Limits::default(), durable).unwrap();
            found = Some(Model::of(&out).seen(&out));
            let spool = Arc::new(spool);
            // The same receiver may see several senders die.
            loop {
                let dies = rng.chance(0.5);
                if attempt(&scratch, &spool, &mut rng, dies) {
                    break;
                }
            }
        });
        let found = found.expect("it was opened");
        let is_new = new.as_ref() == Some(&found);
        assert!(
            is_new || found == old && !told,
            "seed {seed}, round {rounds}: {found:#?}"
        );
        new.get_or_insert_with(|| Model::of(&out).seen(&out));
        survived += u32::from(told);
        // Now and then right at the end: few moments are after the word that all is in place.
        let moment = match ends {
            Ends::Kill | Ends::PowerLoss if rng.below(3) > 0 => {
                rng.below(changes.len() as u64 + 1) as usize
            }
            _ => changes.len(),
        };
        told |= changes[..moment]
            .iter()
            .any(|it| matches!(it, Change::Told));
        let loses_all = rng.below(4) == 0;
        let left = Model::after(&before, &changes[..moment], || {
            ends == Ends::PowerLoss && (loses_all || rng.below(2) == 0)
        });
        left.restore(&out);
    }
    rounds
}

#[test]
fn transfers_survive_the_ends_of_senders_and_receivers() {
    let rounds: u32 = (0..40).map(|seed| survive(seed, true, seed % 4 != 0)).sum();
    assert!(rounds > 40 * 4, "{rounds}");
}

#[test]
#[ignore = "takes a minute: 1,000 seeds"]
fn transfers_survive_a_thousand_seeds_of_ends() {
    for seed in 1_000..2_000 {
        // Without synchronisation only kills are survived.
        let synchronises = seed % 4 != 0;
        survive(seed, synchronises, synchronises);
    }
}

#[test]
fn what_is_told_before_it_is_on_the_disk_is_found_missing() {
    let is_found = |seed| std::panic::catch_unwind(|| survive(seed, false, true)).is_err();
    assert!((0..20).any(is_found), "a crash loses what was told");
}
