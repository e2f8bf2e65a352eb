//! Reads on a thread of its own, ahead of the protocol, so that a slow disk or a silent pipe delays
//! no time-out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use bytes::Bytes;
use mio::Waker;

use crate::about::{Layout, Piece};
use crate::content::{Files, ReadError};
use crate::frames::{FRAME_MAX, Framer};

/// The supply of a source at a place of its stream.
#[derive(Debug)]
pub(crate) enum Supply {
    /// These bytes.
    Bytes(Bytes),
    /// Nothing yet: the waker tells when to ask again.
    Wait,
    /// The stream ends there.
    End,
}

/// Files, read chunk by chunk.
#[derive(Debug)]
pub(crate) struct FileSource {
    layout: Layout,
    manifest: Bytes,
    requests: Sender<u64>,
    answers: Receiver<(u64, Result<Bytes, ReadError>)>,
    /// Chunks that the thread was asked for and has not read yet.
    asked: BTreeSet<u64>,
    ready: BTreeMap<u64, Bytes>,
}

impl FileSource {
    /// How many chunks are read ahead: 4 MiB.
    const AHEAD: u64 = 16;

    pub(crate) fn new(mut files: Files, waker: Arc<Waker>) -> io::Result<Self> {
        let (requests, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let (layout, manifest) = (files.layout(), files.manifest().clone());
        let read = move || {
            while let Ok(index) = asked.recv() {
                let chunk = files.read_chunk(index);
                let failed = chunk.is_err();
                if answer.send((index, chunk)).is_err() || failed {
                    let _ = waker.wake();
                    return;
                }
                let _ = waker.wake();
            }
        };
        thread::Builder::new().name("read".into()).spawn(read)?;
        Ok(Self {
            layout,
            manifest,
            requests,
            answers,
            asked: BTreeSet::new(),
            ready: BTreeMap::new(),
        })
    }

    /// The bytes of the stream from `offset` on.
    pub(crate) fn supply(&mut self, offset: u64) -> Result<Supply, ReadError> {
        let piece = self.layout.piece_at(offset);
        let start = (offset - self.layout.range(piece).start) as usize;
        match piece {
            Piece::Manifest => Ok(Supply::Bytes(self.manifest.slice(start..))),
            Piece::Chunk(index) if index >= self.layout.chunks() => Ok(Supply::End),
            Piece::Chunk(index) => {
                self.take_answers()?;
                self.ask(index);
                Ok(match self.ready.get(&index) {
                    Some(chunk) => Supply::Bytes(chunk.slice(start..)),
                    None => Supply::Wait,
                })
            }
        }
    }

    fn take_answers(&mut self) -> Result<(), ReadError> {
        while let Ok((index, chunk)) = self.answers.try_recv() {
            self.asked.remove(&index);
            self.ready.insert(index, chunk?);
        }
        Ok(())
    }

    /// Asks for the chunks from `index` on, and forgets all others.
    fn ask(&mut self, index: u64) {
        let wanted = index..(index + Self::AHEAD).min(self.layout.chunks());
        self.ready.retain(|ready, _| wanted.contains(ready));
        for index in wanted {
            let known = self.ready.contains_key(&index) || self.asked.contains(&index);
            // The thread ends only after an error, which ends the transfer.
            if !known && self.requests.send(index).is_ok() {
                self.asked.insert(index);
            }
        }
    }
}

/// A pipe, read as its bytes come.
#[derive(Debug)]
pub(crate) struct PipeSource {
    frames: Receiver<Result<Bytes, ReadError>>,
    /// The rest of the frame that is being sent.
    current: Bytes,
}

impl PipeSource {
    /// How many frames are read ahead.
    const AHEAD: usize = 16;

    pub(crate) fn new(mut pipe: Box<dyn Read + Send>, waker: Arc<Waker>) -> io::Result<Self> {
        let (send, frames) = mpsc::sync_channel(Self::AHEAD);
        let read = move || {
            let mut framer = Framer::new();
            let mut bytes = vec![0; FRAME_MAX];
            loop {
                let frame = match pipe.read(&mut bytes) {
                    Ok(len) => Ok((len, framer.frame(&bytes[..len]))),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(source) => Err(ReadError::Io {
                        path: "the standard input".into(),
                        source,
                    }),
                };
                let last = !matches!(frame, Ok((1.., _)));
                let sent = send.send(frame.map(|(_, frame)| frame));
                let _ = waker.wake();
                if last || sent.is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("read".into()).spawn(read)?;
        Ok(Self {
            frames,
            current: Bytes::new(),
        })
    }

    /// Takes the next bytes, at most `max`.
    pub(crate) fn supply(&mut self, max: u64) -> Result<Supply, ReadError> {
        if self.current.is_empty() {
            self.current = match self.frames.try_recv() {
                Ok(frame) => frame?,
                Err(TryRecvError::Empty) => return Ok(Supply::Wait),
                Err(TryRecvError::Disconnected) => return Ok(Supply::End),
            };
        }
        let len = usize::try_from(max).unwrap_or(usize::MAX);
        Ok(Supply::Bytes(
            self.current.split_to(len.min(self.current.len())),
        ))
    }
}
