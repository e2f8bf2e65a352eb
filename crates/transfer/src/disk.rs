//! The disk's thread of a transfer at a receiver: it verifies, writes and puts in place, so that a
//! slow disk delays no time-out of the protocol.
//!
//! Each transfer has one thread. It ends when its [`Disk`] is retired or dropped, after it has done
//! all jobs. [`Job`]s go in, [`Done`]s come out in the same order, and the waker tells that there
//! are some.
//!
//! No call of the network's thread into this module touches the disk. If the same content is sent
//! anew, the new thread waits for the end of the former one.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use groupcast_core::text::printable;
use mio::Waker;

use crate::about::{HASH, Layout};
use crate::arrival::ArrivalCommand;
use crate::compare::{blocks, may_hold};
use crate::frames::Deframer;
use crate::in_place::InPlace;
use crate::manifest::{ContentId, Limits, Manifest};
use crate::publish::OpenedToLook;
use crate::received::{Fault, ReceivedFiles, now, replaced_meanwhile};
use crate::spool::{Claim, Home, Reserved, Spool};

/// A job for a disk's thread.
#[derive(Debug)]
pub(crate) enum Job {
    /// The manifest arrived.
    Manifest(Vec<u8>),
    /// A chunk arrived, its hash included.
    Chunk(u64, Vec<u8>),
    /// The next bytes of a pipe arrived.
    Pipe(Bytes),
    /// A list of files has arrived: compare the target with it.
    Compare,
    /// Everything has arrived: report when all of it is written and verified, and keep it aside.
    Verify,
    /// Everything has arrived: put it in place.
    Publish,
    /// The content is not wanted any more: remove it.
    Discard,
}

/// A result of a disk's thread.
#[derive(Debug)]
pub(crate) enum Done {
    /// The thread is ready, and holds these ranges of the stream from an earlier transfer.
    Prepared(Vec<Range<u64>>),
    /// This many bytes are done with.
    Consumed(u64),
    /// This chunk is written.
    Written(Vec<u8>),
    /// The target was compared with a list.
    Compared {
        /// Whether some of the files may be here.
        is_here: bool,
        /// The ranges that are held of the stream of these files. The thread goes on with that
        /// transfer.
        held: Option<Vec<Range<u64>>>,
    },
    /// Everything is verified and kept aside.
    Verified,
    /// Everything is in place: files with their encoded list, unless it is long or was not read.
    Published(Option<Bytes>),
    /// The thread cannot go on.
    Failed {
        /// Why.
        reason: String,
        /// Whether the bytes that have arrived are kept for the next attempt.
        kept: bool,
        /// Whether its sender has sent something else than it announced.
        of_sender: bool,
    },
}

/// The content that is received, and its target.
#[derive(Debug)]
pub(crate) enum Target {
    /// Files into a directory.
    Files(Expected),
    /// A list of files, and then, if it is hashed, those files.
    List { expected: Expected, hashed: bool },
    /// A pipe into a file of this name in a directory; its bytes are kept in the spool under the
    /// name `temporary` until then.
    PipeToFile {
        home: Arc<Home>,
        temporary: String,
        name: String,
    },
    /// A pipe to the standard output.
    PipeToStdout,
}

/// Files that are expected.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) home: Arc<Home>,
    /// The most transfers that broke off and are kept, this one included.
    pub(crate) partials_max: usize,
    /// The threads of former transfers of the same content.
    pub(crate) former: Former,
    pub(crate) id: ContentId,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
    /// The same content, if this process has put it in place before, and its command has not
    /// failed.
    pub(crate) placed: Option<InPlace>,
}

/// Threads of former transfers of the same content. The thread that has them does not end before
/// them, whatever it does: so waiting for it is waiting for all, and no two threads write to one
/// folder.
#[derive(Debug, Default)]
pub(crate) struct Former(Vec<JoinHandle<()>>);

impl Former {
    /// Waits for their end.
    fn wait(&mut self) {
        for thread in self.0.drain(..) {
            // A thread reports its error before it ends.
            let _ = thread.join();
        }
    }
}

impl FromIterator<JoinHandle<()>> for Former {
    fn from_iter<T: IntoIterator<Item = JoinHandle<()>>>(threads: T) -> Self {
        Self(threads.into_iter().collect())
    }
}

impl Former {
    /// The threads, for somebody else to wait for.
    pub(crate) fn into_threads(mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Former {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Expected {
    /// Opens the files, once no other thread writes to their folder.
    fn open(&mut self) -> Result<ReceivedFiles, String> {
        // What they have written is taken over.
        self.former.wait();
        // The claim keeps what is here of this content, whatever is removed to make room.
        let spool = self.home.spool().map_err(|error| error.to_string())?;
        let claim = Claim::new(&spool, self.id.short().into_bytes());
        // This one may break off, too.
        if let Err(error) = spool.trim(self.partials_max.saturating_sub(1)) {
            spool.warn(format!("cannot remove what an old transfer left: {error}"));
        }
        ReceivedFiles::new(claim, self.id, self.layout, self.limits)
    }
}

impl Target {
    /// The threads that it was to wait for.
    fn into_former(self) -> Former {
        match self {
            Self::Files(expected) | Self::List { expected, .. } => expected.former,
            Self::PipeToFile { .. } | Self::PipeToStdout => Former::default(),
        }
    }
}

/// Why a disk's thread was not started.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) error: io::Error,
    /// The threads that it was to wait for: the next one has to.
    pub(crate) former: Former,
}

/// A disk's thread, as the network's thread sees it.
#[derive(Debug)]
pub(crate) struct Disk {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    /// Starts the thread. It runs `command` when everything is in place.
    pub(crate) fn open(
        target: Target,
        command: Option<ArrivalCommand>,
        waker: Arc<Waker>,
    ) -> Result<Self, NotStarted> {
        Self::open_on(thread::Builder::new(), target, command, waker)
    }

    fn open_on(
        thread: thread::Builder,
        target: Target,
        command: Option<ArrivalCommand>,
        waker: Arc<Waker>,
    ) -> Result<Self, NotStarted> {
        let (jobs, given) = mpsc::channel();
        let (results, done) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let waits_for_reader = matches!(target, Target::PipeToStdout);
        let worker = Worker {
            given,
            teller: Teller { results, waker },
            command,
            stop: Arc::clone(&stop),
        };
        // The target follows when there is a thread for it: without one it would be dropped here,
        // and that waits for other threads.
        let (begin, begun) = mpsc::channel();
        let run = move || {
            if let Ok(target) = begun.recv() {
                worker.run(target);
            }
        };
        let thread = match thread.name("disk".into()).spawn(run) {
            Ok(thread) => thread,
            Err(error) => {
                let former = target.into_former();
                return Err(NotStarted { error, former });
            }
        };
        // The thread waits for it.
        let _ = begin.send(target);
        Ok(Self {
            jobs: Some(jobs),
            done,
            stop,
            // The reader of the standard output may never read on, so this thread is not waited
            // for.
            thread: (!waits_for_reader).then_some(thread),
        })
    }

    /// Gives the thread a job. The protocol bounds the jobs that wait: it stops when bytes are not
    /// consumed.
    pub(crate) fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended has reported its failure.
            let _ = jobs.send(job);
        }
    }

    /// Gives no more jobs. The thread ends when its jobs are done; returns it, to be waited for.
    pub(crate) fn retire(mut self) -> Option<JoinHandle<()>> {
        self.close()
    }

    /// The same, for results that are still to be polled. Returns the thread once.
    pub(crate) fn close(&mut self) -> Option<JoinHandle<()>> {
        self.jobs = None;
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()
    }

    /// The next result.
    pub(crate) fn poll(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(thread) = self.close() {
            // A thread reports its error before it ends.
            let _ = thread.join();
        }
    }
}

/// Gives results to the network's thread, and wakes it.
struct Teller {
    results: Sender<Done>,
    waker: Arc<Waker>,
}

impl Teller {
    fn tell(&self, done: Done) {
        // If nobody listens any more, the transfer was given up.
        let _ = self.results.send(done);
        let _ = self.waker.wake();
    }
}

/// What runs on a disk's thread.
struct Worker {
    given: Receiver<Job>,
    teller: Teller,
    command: Option<ArrivalCommand>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(self, target: Target) {
        let result = match target {
            Target::Files(expected) => {
                let (home, id) = (Arc::clone(&expected.home), expected.id);
                let received = self.files(expected);
                received.map_err(|fault| (fault, home.current().has(&id)))
            }
            Target::List { expected, hashed } => {
                let (home, id) = (Arc::clone(&expected.home), expected.id);
                let received = self.list(expected, hashed);
                received.map_err(|fault| (fault, home.current().has(&id)))
            }
            Target::PipeToFile {
                home,
                temporary,
                name,
            } => {
                let received = self.pipe_to_file(&home, &temporary, &name);
                received.map_err(|reason| (reason.into(), false))
            }
            Target::PipeToStdout => {
                let received = self.pipe_to_stdout();
                received.map_err(|reason| (reason.into(), false))
            }
        };
        if let Err((fault, kept)) = result {
            let Fault { reason, of_sender } = fault;
            self.teller.tell(Done::Failed {
                reason,
                kept,
                of_sender,
            });
        }
    }

    /// Receives files; those that are all in place already, or half in place, are not written
    /// again.
    fn files(&self, mut expected: Expected) -> Result<(), Fault> {
        let mut files = expected.open()?;
        let placed = expected.placed;
        let is_finished = files.finish_publishing()?;
        if is_finished || placed.is_some_and(|placed| files.are_in_place(&placed)) {
            self.teller.tell(Done::Prepared(files.everything()));
            return Ok(self.leave_in_place(files.spool(), is_finished)?);
        }
        let held = files.resume(&self.stop)?;
        self.teller.tell(Done::Prepared(held));
        self.receive_files(files)
    }

    /// Receives a list of files, compares the target with it, and, if the list is hashed, goes on
    /// with the files.
    fn list(&self, mut expected: Expected, hashed: bool) -> Result<(), Fault> {
        self.teller.tell(Done::Prepared(Vec::new()));
        let mut stream = Vec::new();
        loop {
            match self.given.recv() {
                Ok(Job::Pipe(bytes)) => {
                    stream.extend_from_slice(&bytes);
                    self.teller.tell(Done::Consumed(bytes.len() as u64));
                }
                Ok(Job::Compare) => break,
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        }
        let wrong = || "the list is not what was announced".to_owned();
        let len = expected.layout.manifest as usize;
        let (manifest, hashes) = stream.split_at_checked(len).ok_or_else(wrong)?;
        let decoded = Manifest::decode(manifest, &expected.limits);
        let decoded = decoded.map_err(|error| error.to_string())?;
        if !hashed {
            let placed = expected.placed.as_ref();
            let limits = &expected.limits;
            let spool = expected.home.spool().map_err(|error| error.to_string())?;
            // Files that this process has put in place before count as held without a look at their
            // content.
            let is_known = placed.is_some_and(|placed| placed.is_unchanged(&spool, limits));
            let target = spool.target();
            let mut target = target.map_err(|error| error.to_string())?;
            let opened = OpenedToLook::open(&decoded, &mut target);
            let is_here = !is_known && may_hold(&decoded, &mut target, &self.stop);
            opened.close(&mut target);
            self.teller.tell(Done::Compared {
                is_here,
                held: None,
            });
            return Ok(());
        }
        if hashes.len() as u64 != blocks(&decoded) * HASH {
            return Err(wrong().into());
        }
        drop(decoded);
        let mut files = expected.open()?;
        let is_finished = files.finish_publishing()?;
        let held = match is_finished {
            true => files.everything(),
            false => files.compare(manifest, hashes, &self.stop)?,
        };
        drop(stream);
        self.teller.tell(Done::Compared {
            is_here: true,
            held: Some(held),
        });
        if is_finished {
            return Ok(self.leave_in_place(files.spool(), true)?);
        }
        self.receive_files(files)
    }

    /// Everything is in place already: answers the jobs, and runs the command if it has only just
    /// come there, and does nothing else.
    fn leave_in_place(&self, spool: &Spool, has_come: bool) -> Result<(), String> {
        while let Ok(job) = self.given.recv() {
            match job {
                Job::Verify => self.teller.tell(Done::Verified),
                Job::Publish => {
                    if has_come {
                        self.arrived(spool)?;
                    }
                    self.teller.tell(Done::Published(None));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Does the jobs of files that come, until there are no more.
    fn receive_files(&self, mut files: ReceivedFiles) -> Result<(), Fault> {
        while let Ok(job) = self.given.recv() {
            match job {
                Job::Manifest(bytes) => {
                    // The manifest's own bytes counted as consumed when they came.
                    let written = files.begin(&bytes)?;
                    self.teller.tell(Done::Consumed(written));
                }
                Job::Chunk(index, bytes) => {
                    if let Some(chunk) = files.write(index, bytes)? {
                        self.teller.tell(Done::Written(chunk));
                    }
                }
                // A chunk with a wrong hash has ended this loop.
                Job::Verify => {
                    files.verify()?;
                    self.teller.tell(Done::Verified);
                }
                Job::Publish => {
                    files.publish()?;
                    self.arrived(files.spool())?;
                    self.teller.tell(Done::Published(files.take_manifest()));
                }
                Job::Discard => files.discard()?,
                Job::Pipe(_) | Job::Compare => {}
            }
        }
        Ok(())
    }

    /// Receives a pipe into the file `temporary` of the spool, and moves it into place as `name`
    /// when it is complete.
    fn pipe_to_file(&self, home: &Home, temporary: &str, name: &str) -> Result<(), String> {
        let spool = home.spool().map_err(|error| error.to_string())?;
        let claim = Claim::new(&spool, temporary.as_bytes().to_vec());
        let path = spool.path().join(name);
        let path = printable(path.as_os_str().as_encoded_bytes());
        let failed = |error: io::Error| format!("cannot write {path}: {error}");
        let places = claim.make_places(1);
        places.map_err(|error| error.to_string())?;
        let file = spool.create_stream(temporary).map_err(failed)?;
        let began = now();
        let complete = match self.pipe(&mut Reserved::new(file, claim)) {
            Ok(true) => spool
                .publish_stream(temporary, name)
                .map_err(failed)
                .map(|replaced| {
                    if replaced.is_some_and(|at| at > began)
                        && let Some(warning) = replaced_meanwhile(&[printable(name.as_bytes())])
                    {
                        spool.warn(warning);
                    }
                    true
                }),
            other => other,
        };
        match complete {
            Ok(true) => {
                self.arrived(&spool)?;
                self.teller.tell(Done::Published(None));
            }
            // A pipe cannot be resumed, so an incomplete one is removed.
            Ok(false) | Err(_) => spool.discard_stream(temporary).map_err(failed)?,
        }
        complete.map(|_| ())
    }

    /// Everything is in place in the target of `spool`: runs the command there.
    fn arrived(&self, spool: &Spool) -> Result<(), String> {
        match &self.command {
            Some(command) => command.run(spool),
            None => Ok(()),
        }
    }

    fn pipe_to_stdout(&self) -> Result<(), String> {
        if self.pipe(&mut io::stdout())? {
            self.teller.tell(Done::Published(None));
        }
        Ok(())
    }

    /// Writes the pipe's bytes to `out`; returns whether all of them came.
    fn pipe(&self, out: &mut dyn Write) -> Result<bool, String> {
        let failed = |error: io::Error| format!("cannot write the stream: {error}");
        self.teller.tell(Done::Prepared(Vec::new()));
        let mut deframer = Deframer::new();
        while let Ok(job) = self.given.recv() {
            match job {
                Job::Pipe(bytes) => {
                    let mut written = Ok(());
                    let read = deframer.push(&bytes, |content| {
                        if written.is_ok() {
                            written = out.write_all(content);
                        }
                    });
                    written.and_then(|()| out.flush()).map_err(failed)?;
                    read.map_err(|error| error.to_string())?;
                    self.teller.tell(Done::Consumed(bytes.len() as u64));
                }
                Job::Publish if deframer.is_complete() => return Ok(true),
                Job::Publish => return Err("the stream has no end".into()),
                _ => {}
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mio::{Poll, Token};

    use super::*;
    use crate::content::Files;
    use crate::manifest::Scan;
    use crate::scratch::Scratch;
    use crate::spool::Home;

    #[test]
    fn a_thread_that_cannot_be_started_makes_nobody_wait_for_the_former_one() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("file"), "bytes").unwrap();
        let files = Files::new(Scan::of(&[scratch.path("file")]).unwrap());
        let (end, works) = mpsc::channel::<()>();
        let former = thread::spawn(move || assert!(works.recv().is_err()));
        let limits = Limits::default();
        let home = Home::open(&scratch.path("out"), &limits, false).unwrap();
        let target = Target::Files(Expected {
            home: Arc::new(home),
            partials_max: 1,
            former: [former].into_iter().collect(),
            id: crate::content::content_id(files.manifest()),
            layout: files.layout(),
            limits,
            placed: None,
        });
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        // More than there is of addresses.
        let thread = thread::Builder::new().stack_size(1 << 55);
        let begun = Instant::now();
        // Ends the former thread in time, if this one waits for it.
        let ending = thread::spawn(move || {
            thread::sleep(Duration::from_secs(5));
            drop(end);
        });
        let refused = Disk::open_on(thread, target, None, waker).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(4));
        let left = refused.former.into_threads();
        assert_eq!(left.len(), 1, "the next one waits for it");
        assert!(!left[0].is_finished());
        ending.join().unwrap();
    }
}
