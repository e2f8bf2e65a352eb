//! The disk on which messages wait for clients that are slow: a file for each, in the directory
//! that `spill_dir` names.
//!
//! A thread of its own does what the engine asks for, one piece after the other: a disk may take as
//! long as it likes, and a token may not. It has no more to do than a piece for each client that is
//! slow. The files have no names, so they are gone with the daemon, however that ends.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_session::groups::{SpillDone, SpillPlace, SpillWork};
use groupcast_session::{ClientId, Engine};
use mio::{Interest, Registry, Token};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::DaemonError;
use crate::stop::{drain, pair};

/// The most pieces that are taken back in one turn of the loop. What they hold goes on to sockets,
/// which has a bound of its own.
const DONE_A_TURN: usize = 16;

/// The disk, from the loop's side.
#[derive(Debug)]
pub(crate) struct SpillDisk {
    work: Sender<SpillWork>,
    done: Receiver<(ClientId, SpillDone)>,
    /// Readable when something is done.
    wake: mio::net::UnixStream,
    /// More may be done than a turn takes.
    more: bool,
}

impl SpillDisk {
    /// The disk in the directory at `path`. The thread has the priority of the one that calls this.
    pub(crate) fn open(path: &Path) -> Result<Self, DaemonError> {
        // What is wrong with the directory is said now, and not to the first slow client.
        let directory = can_hold_files(path)?;
        let failed = |source| failed(path, source);
        let (work, to_do) = channel();
        let (tell, done) = sync_channel(DONE_A_TURN);
        let (waker, wake) = pair().map_err(failed)?;
        let disk = Disk {
            directory,
            files: BTreeMap::new(),
        };
        let thread = thread::Builder::new().name("spill".into());
        thread
            .spawn(move || disk.serve(&to_do, &tell, &waker))
            .map_err(failed)?;
        Ok(Self {
            work,
            done,
            wake,
            more: false,
        })
    }

    /// The loop wakes with `token` when something is done.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.wake, token, Interest::READABLE)
    }

    /// Takes back what is done, within the bound of a turn, and asks for what is next.
    pub(crate) fn tend(&mut self, now: Time, engine: &mut Engine) {
        // Before the look at what is done: what is done after it wakes the loop again.
        drain(&mut self.wake);
        self.more = true;
        for _ in 0..DONE_A_TURN {
            let Ok((client, done)) = self.done.try_recv() else {
                self.more = false;
                break;
            };
            engine.spilled(now, client, done);
        }
        while let Some(work) = engine.poll_spill(now) {
            let client = match &work {
                SpillWork::Write { client, .. }
                | SpillWork::Read { client, .. }
                | SpillWork::Forget { client } => *client,
            };
            if self.work.send(work).is_err() {
                let why = "the thread that writes it has ended".to_owned();
                engine.spilled(now, client, SpillDone::Failed(why));
            }
        }
    }

    /// Whether [`tend`](Self::tend) has something to do at once: what sockets have taken since may
    /// make room for more from the disk.
    pub(crate) fn is_due(&self, engine: &Engine) -> bool {
        self.more || engine.has_spill_work()
    }
}

/// The disk, from its thread's side.
struct Disk {
    directory: OwnedFd,
    files: BTreeMap<ClientId, File>,
}

impl Disk {
    /// Does what the engine asks for until the loop has ended.
    fn serve(
        mut self,
        to_do: &Receiver<SpillWork>,
        tell: &SyncSender<(ClientId, SpillDone)>,
        waker: &UnixStream,
    ) {
        while let Ok(work) = to_do.recv() {
            let (client, done) = match work {
                SpillWork::Forget { client } => {
                    self.files.remove(&client);
                    continue;
                }
                SpillWork::Write {
                    client,
                    place,
                    bytes,
                } => {
                    let written = self.write(client, place, &bytes);
                    (client, written.map(|()| SpillDone::Written))
                }
                SpillWork::Read { client, place, len } => {
                    let read = self.read(client, place, len);
                    (client, read.map(SpillDone::Read))
                }
            };
            let done = done.unwrap_or_else(|error| SpillDone::Failed(error.to_string()));
            if tell.send((client, done)).is_err() {
                return;
            }
            // A full pipe wakes the loop, too.
            let _ = (&*waker).write(&[0]);
        }
    }

    fn write(
        &mut self,
        client: ClientId,
        mut place: SpillPlace,
        bytes: &[Bytes],
    ) -> io::Result<()> {
        let file = match self.files.entry(client) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(nameless(&self.directory)?),
        };
        for mut piece in bytes.iter().map(|bytes| &bytes[..]) {
            for (offset, len) in place.parts(piece.len()) {
                let (now, rest) = piece.split_at(len);
                file.write_all_at(now, offset)?;
                piece = rest;
                place = place.after(len);
            }
        }
        Ok(())
    }

    fn read(&self, client: ClientId, place: SpillPlace, len: usize) -> io::Result<Bytes> {
        let file = self.files.get(&client);
        let file = file.ok_or_else(|| io::Error::other("the client has no file"))?;
        let mut bytes = vec![0; len];
        let mut left = &mut bytes[..];
        for (offset, len) in place.parts(len) {
            let (now, rest) = left.split_at_mut(len);
            file.read_exact_at(now, offset)?;
            left = rest;
        }
        Ok(bytes.into())
    }
}

/// Opens the directory at `path`, once a file without a name could be made in it.
pub(crate) fn can_hold_files(path: &Path) -> Result<OwnedFd, DaemonError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty());
    let directory = directory.map_err(|error| failed(path, error.into()))?;
    nameless(&directory).map_err(|error| failed(path, error))?;
    Ok(directory)
}

fn failed(path: &Path, source: io::Error) -> DaemonError {
    DaemonError::Spill {
        path: path.to_owned(),
        source,
    }
}

/// A file in `directory` that nobody else can open.
fn nameless(directory: &OwnedFd) -> io::Result<File> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(file.into()),
        // Not every file system has files without a name.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let name = format!(".groupcast-spill-{}", std::process::id());
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = rustix::fs::openat(directory, &name, flags, mode)?;
            rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
            Ok(file.into())
        }
        Err(error) => Err(error.into()),
    }
}
