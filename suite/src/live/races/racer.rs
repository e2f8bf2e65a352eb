//! A local user against a receiver that runs as root: what he does in the directory that they
//! share, again and again, until he is stopped.
//!
//! Nothing here can fail: what does not work this time may work the next.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use groupcast_bench::Process;

use super::super::Outcome;
use super::super::cluster::Cluster;

/// The hidden word with which the soak program starts itself as a racer.
pub(super) const RACER: &str = "racer";
/// Who he is: the user and the group `nobody`.
const NOBODY: u32 = 65_534;
/// What he calls what he has put aside.
const ASIDE: &str = "aside";
/// How long each state of a directory lasts.
const DWELL: Duration = Duration::from_micros(100);

/// What he tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// The receiver's own folder is his. A transfer that broke off there is resumed, and its
    /// journal has become a link to the victim's file.
    Folder,
    /// A directory into which files are moved is now and then a link to the victim's directory.
    Directory,
    /// A directory whose mode is about to be set has become a link to the victim's file.
    Mode,
}

impl Way {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Folder, Self::Directory, Self::Mode];

    /// Its word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Directory => "directory",
            Self::Mode => "mode",
        }
    }
}

/// Starts him, with the program at `program`, which he may run, in the directory `shared`, which he
/// may write to. `names` are the directories that will come below `shared`.
pub(super) fn start(
    cluster: &Cluster,
    program: &Path,
    way: Way,
    shared: &Path,
    victim: &Path,
    names: &[String],
) -> Outcome<Process> {
    let mut command = Command::new(program);
    command
        .args([RACER, way.name()])
        .args([shared, victim])
        .args(names)
        .stdin(Stdio::null())
        .current_dir("/")
        .gid(NOBODY)
        .uid(NOBODY);
    Ok(cluster.bed.launch("racer", command)?)
}

/// He, in his process: says that he is ready, and never ends.
pub(super) fn main(words: &[&str]) -> Outcome {
    let [way, shared, victim, names @ ..] = words else {
        return Err("usage: racer WAY SHARED VICTIM NAME...".into());
    };
    let (shared, victim) = (PathBuf::from(shared), PathBuf::from(victim));
    let directories: Vec<PathBuf> = names.iter().map(|name| shared.join(name)).collect();
    match *way {
        "folder" => {
            let folder = shared.join(".groupcast");
            make(&folder)?;
            println!("ready");
            loop {
                plant(&folder, &victim);
            }
        }
        "directory" | "mode" => {
            for directory in &directories {
                make(directory)?;
            }
            let Some(directory) = directories.first() else {
                return Err("he needs a directory to play with".into());
            };
            println!("ready");
            if *way == Way::Mode.name() {
                return replace_once_full(directory, &victim.join("f0"));
            }
            loop {
                swap(directory, &victim);
            }
        }
        other => Err(format!("no way: {other}").into()),
    }
}

/// A directory that everybody may write to, and those above it.
fn make(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.exists()) {
        make(above)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

/// Puts in the place of each transfer that has begun in `folder` one of his own, which looks the
/// same but for the journal: that is a link to the victim's file.
fn plant(folder: &Path, victim: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let theirs = fs::symlink_metadata(&path).is_ok_and(|it| it.uid() != NOBODY);
        if !theirs || entry.file_name() == ASIDE || !path.join("journal").exists() {
            continue;
        }
        // In the same folder: another user's directory cannot be moved to another.
        let aside = folder.join(ASIDE);
        if fs::rename(&path, &aside).is_ok() {
            let _ = fs::create_dir(&path);
            let _ = fs::copy(aside.join("manifest"), path.join("manifest"));
            let _ = fs::create_dir(path.join("tree"));
            let _ = symlink(victim.join("f0"), path.join("journal"));
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o777));
            println!("planted");
        }
    }
}

/// Puts a link to `target` in the place of `directory` for a while.
fn swap(directory: &Path, target: &Path) {
    let aside = directory.with_extension(ASIDE);
    if fs::rename(directory, &aside).is_ok() {
        let _ = symlink(target, directory);
        dwell();
        let _ = fs::remove_file(directory);
        let _ = fs::rename(&aside, directory);
        dwell();
    }
}

/// Puts a link to `target` in the place of `directory` as soon as files have come into it: what is
/// left to do with the directory is to set its mode.
fn replace_once_full(directory: &Path, target: &Path) -> Outcome {
    let aside = directory.with_extension(ASIDE);
    while !directory.join("f0").exists() {}
    // The others of this directory follow at once, those of the next ones take longer.
    dwell();
    fs::rename(directory, &aside)?;
    symlink(target, directory)?;
    loop {
        std::thread::park();
    }
}

/// Long enough for the receiver to meet what is there, and short enough for it to meet the other
/// soon.
fn dwell() {
    let begun = Instant::now();
    while begun.elapsed() < DWELL {
        std::hint::spin_loop();
    }
}
