//! The receiver's side of a transfer on a thread of its own: it verifies, writes and puts in place,
//! so that a slow disk holds up no time-out.
//!
//! A thread a transfer; it ends when it is dropped, after what it was given is written. [`Job`]s go
//! in, [`Done`]s come out in the same order, and the waker says that there are some.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use groupcast_core::text::printable;
use mio::Waker;

use crate::about::Layout;
use crate::frames::Deframer;
use crate::manifest::{ContentId, Limits};
use crate::received::ReceivedFiles;
use crate::spool::{Claim, Reserved};

/// What a disk is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// The manifest arrived.
    Manifest(Vec<u8>),
    /// A chunk arrived, its hash included.
    Chunk(u64, Vec<u8>),
    /// The next bytes of a pipe arrived.
    Pipe(Bytes),
    /// Everything has arrived.
    Publish,
    /// The content is not wanted any more: nothing of it is kept.
    Discard,
}

/// What a disk has done.
#[derive(Debug)]
pub(crate) enum Done {
    /// It is ready, and holds these ranges of the stream from an earlier transfer.
    Prepared(Vec<Range<u64>>),
    /// So many bytes that it was given are done with.
    Consumed(u64),
    /// This chunk is written.
    Written(Vec<u8>),
    /// Everything is in place.
    Published,
    /// It cannot go on: why. Nothing was put in place.
    Failed(String),
}

/// What is received, and where to.
#[derive(Debug)]
pub(crate) enum Target {
    /// Files into a directory.
    Files {
        claim: Claim,
        id: ContentId,
        layout: Layout,
        limits: Limits,
        /// The manifest of the same content, if this process has put it in place before.
        placed: Option<Bytes>,
    },
    /// A pipe into a file of this name in a directory; its bytes are kept in the spool under the
    /// name `temporary` until then.
    PipeToFile {
        claim: Claim,
        temporary: String,
        name: String,
    },
    /// A pipe to the standard output.
    PipeToStdout,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Disk {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    pub(crate) fn open(target: Target, waker: Arc<Waker>) -> io::Result<Self> {
        let (jobs, given) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let waits_for_reader = matches!(target, Target::PipeToStdout);
        let worker = Worker {
            given,
            tell: Teller { tell, waker },
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .name("disk".into())
            .spawn(move || worker.run(target))?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            stop,
            // The reader of the standard output may never read on: that is not waited for.
            thread: (!waits_for_reader).then_some(thread),
        })
    }

    /// Asks for something. What is under way is bounded by the protocol: it stops when bytes are
    /// not consumed.
    pub(crate) fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended has said that it failed.
            let _ = jobs.send(job);
        }
    }

    /// What was done since the last call.
    pub(crate) fn poll(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.jobs = None;
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has said what was wrong before it ended.
            let _ = thread.join();
        }
    }
}

struct Teller {
    tell: Sender<Done>,
    waker: Arc<Waker>,
}

impl Teller {
    fn tell(&self, done: Done) {
        // If nothing listens any more, the transfer was given up.
        let _ = self.tell.send(done);
        let _ = self.waker.wake();
    }
}

struct Worker {
    given: Receiver<Job>,
    tell: Teller,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(self, target: Target) {
        let result = match target {
            Target::Files {
                claim,
                id,
                layout,
                limits,
                placed,
            } => ReceivedFiles::new(claim, id, layout, limits)
                .and_then(|files| self.receive_files(files, placed)),
            Target::PipeToFile {
                claim,
                temporary,
                name,
            } => self.pipe_to_file(claim, &temporary, &name),
            Target::PipeToStdout => self.pipe_to_stdout(),
        };
        if let Err(reason) = result {
            self.tell.tell(Done::Failed(reason));
        }
    }

    fn receive_files(&self, mut files: ReceivedFiles, placed: Option<Bytes>) -> Result<(), String> {
        if placed.is_some_and(|manifest| files.are_in_place(&manifest)) {
            self.tell.tell(Done::Prepared(files.everything()));
            if let Ok(Job::Publish) = self.given.recv() {
                self.tell.tell(Done::Published);
            }
            return Ok(());
        }
        let held = files.resume(&self.stop)?;
        self.tell.tell(Done::Prepared(held));
        while let Ok(job) = self.given.recv() {
            match job {
                Job::Manifest(bytes) => {
                    // The manifest's own bytes were consumed as they came.
                    let written = files.begin(&bytes)?;
                    self.tell.tell(Done::Consumed(written));
                }
                Job::Chunk(index, bytes) => {
                    if let Some(chunk) = files.write(index, bytes)? {
                        self.tell.tell(Done::Written(chunk));
                    }
                }
                Job::Publish => {
                    files.publish()?;
                    self.tell.tell(Done::Published);
                }
                Job::Discard => files.discard()?,
                Job::Pipe(_) => {}
            }
        }
        Ok(())
    }

    /// Receives a pipe into `temporary` of the spool, and has it take its place when it is
    /// complete.
    fn pipe_to_file(&self, claim: Claim, temporary: &str, name: &str) -> Result<(), String> {
        let spool = Arc::clone(claim.spool());
        let path = spool.path().join(name);
        let path = printable(path.as_os_str().as_encoded_bytes());
        let failed = |error: io::Error| format!("cannot write {path}: {error}");
        let file = spool.create_stream(temporary).map_err(failed)?;
        let complete = match self.pipe(&mut Reserved::new(file, claim)) {
            Ok(true) => spool
                .publish_stream(temporary, name)
                .map_err(failed)
                .map(|()| true),
            other => other,
        };
        match complete {
            Ok(true) => self.tell.tell(Done::Published),
            // What is not complete is of no use: a pipe cannot be resumed.
            Ok(false) | Err(_) => spool.discard_stream(temporary).map_err(failed)?,
        }
        complete.map(|_| ())
    }

    fn pipe_to_stdout(&self) -> Result<(), String> {
        if self.pipe(&mut io::stdout())? {
            self.tell.tell(Done::Published);
        }
        Ok(())
    }

    /// Writes what comes to `out`; whether all of it came.
    fn pipe(&self, out: &mut dyn Write) -> Result<bool, String> {
        let failed = |error: io::Error| format!("cannot write the stream: {error}");
        self.tell.tell(Done::Prepared(Vec::new()));
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
                    self.tell.tell(Done::Consumed(bytes.len() as u64));
                }
                Job::Publish if deframer.is_complete() => return Ok(true),
                Job::Publish => return Err("the stream has no end".into()),
                _ => {}
            }
        }
        Ok(false)
    }
}
