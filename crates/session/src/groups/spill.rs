//! What waits on a disk for a client that takes its messages too slowly: the middle of its output.
//!
//! ```text
//! order ─▶ fresh ─▶ disk ─▶ waiting ─▶ ready ─▶ socket
//!          memory           memory     memory
//! ```
//!
//! From [`stop_publishers_at`](super::EngineConfig::stop_publishers_at) on, what comes for the
//! client is gathered behind what waits in memory, written in pieces of [`PIECE`], and read back
//! when little is left before it. The disk is the caller's: it is asked for one piece a client at a
//! time, and what is on its way there counts as the client's memory. Frames tell their own lengths,
//! so nothing is kept in memory for those that are on the disk.
//!
//! The client's file is used in a circle, so that it grows no longer than what waits at most.

use std::collections::VecDeque;

use bytes::Bytes;

use super::ClientId;
use super::blocking::WaitingFrame;
use super::chain::{Block, COPY_MAX, Chain, Payload};
use crate::frame::FRAME_MAX;

/// Bytes that are written or read at a time.
const PIECE: usize = 256 * 1024;
/// Bytes before each frame that tell how many follow.
const LENGTH: usize = 4;

/// What the caller's disk is asked to do, by
/// [`Engine::poll_spill`](super::Engine::poll_spill). Each client has a file; what is done with one
/// is done in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpillWork {
    /// To write, and to say so by [`Engine::spilled`](super::Engine::spilled).
    Write {
        /// Whose file; it is made if there is none.
        client: ClientId,
        /// Where in it.
        place: SpillPlace,
        /// One behind the other.
        bytes: Vec<Bytes>,
    },
    /// To read, and to say what, the same way.
    Read {
        /// Whose file.
        client: ClientId,
        /// Where in it.
        place: SpillPlace,
        /// How many bytes.
        len: usize,
    },
    /// To forget the client's file. That is not answered.
    Forget {
        /// Whose file.
        client: ClientId,
    },
}

/// What has become of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpillDone {
    /// All is written.
    Written,
    /// These bytes were read: as many as were asked for.
    Read(Bytes),
    /// The disk is full or broken, as this says.
    Failed(String),
}

/// A place in a file that is used in a circle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpillPlace {
    at: u64,
    size: u64,
}

impl SpillPlace {
    /// Where in the file the next `len` bytes are: offsets with lengths, of which the second may be
    /// 0.
    pub fn parts(self, len: usize) -> [(u64, usize); 2] {
        let at = self.at % self.size;
        let first = (self.size - at).min(len as u64) as usize;
        [(at, first), (0, len - first)]
    }

    /// The place `len` bytes behind this one.
    pub fn after(self, len: usize) -> Self {
        Self {
            at: self.at + len as u64,
            ..self
        }
    }
}

/// What waits for one client on the disk, and behind that.
#[derive(Debug)]
pub(super) struct Spill {
    /// The file's size.
    size: u64,
    /// With less in memory before it than this, something is read.
    low: usize,
    /// What is on the disk, or on its way there: from here, in bytes since the beginning.
    from: u64,
    /// The same: up to here.
    to: u64,
    /// What was not written yet.
    fresh: Chain,
    /// Each frame of it.
    frames: VecDeque<WaitingFrame>,
    /// Bytes of the first of them that are on the disk.
    cut: usize,
    /// A frame that was read in part: its length, and how much of it is left.
    returning: Option<(usize, usize)>,
    busy: Option<Busy>,
}

#[derive(Clone, Copy, Debug)]
enum Busy {
    Writing { memory: usize },
    Reading { len: usize },
}

/// What a spill wants next.
#[derive(Debug)]
pub(super) enum Step {
    Write(SpillPlace, Vec<Bytes>),
    Read(SpillPlace, usize),
    /// All that is left is in memory.
    End(Chain, VecDeque<WaitingFrame>),
}

impl Spill {
    /// A file of `size` bytes, for a client that has `low` bytes or more in memory before it.
    pub(super) fn new(size: u64, low: usize) -> Self {
        Self {
            size: size.max(PIECE as u64),
            low,
            from: 0,
            to: 0,
            fresh: Chain::default(),
            frames: VecDeque::new(),
            cut: 0,
            returning: None,
            busy: None,
        }
    }

    /// The file's size.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A frame comes behind all others.
    pub(super) fn push(&mut self, head: &[u8], payload: Payload<'_>) {
        let len = head.len() + payload.len();
        self.frames.push_back(WaitingFrame::new(len, false));
        self.fresh
            .append(head, payload, payload.copy_max().min(COPY_MAX));
    }

    /// What to do next; `before` bytes and `frames_before` whole frames wait before it in memory.
    pub(super) fn next_step(&mut self, before: usize, frames_before: usize) -> Option<Step> {
        if self.busy.is_some() {
            return None;
        }
        // A long frame may be in memory in part, with nothing else to send: the rest has to come.
        let is_cut = self.returning.is_some() && frames_before == 0;
        let is_hungry = before < self.low || is_cut;
        if is_hungry && self.on_disk() > 0 {
            let len = self.on_disk().min(PIECE as u64) as usize;
            self.busy = Some(Busy::Reading { len });
            return Some(Step::Read(self.place(self.from), len));
        }
        if is_hungry && self.cut == 0 {
            let fresh = std::mem::take(&mut self.fresh);
            return Some(Step::End(fresh, std::mem::take(&mut self.frames)));
        }
        if self.fresh.bytes >= PIECE || is_hungry {
            return self.write();
        }
        None
    }

    fn write(&mut self) -> Option<Step> {
        let (mut len, mut cut, mut whole) = (0, self.cut, 0);
        for frame in &self.frames {
            let left = frame.len() - cut;
            if len + left > PIECE {
                // Only the first is written in part, and the length before it in one piece.
                if len == 0 {
                    len = PIECE;
                    cut += PIECE;
                }
                break;
            }
            (len, cut, whole) = (len + left, 0, whole + 1);
        }
        if len == 0 || self.on_disk() + len as u64 > self.size {
            return None;
        }
        self.frames.drain(..whole);
        self.cut = cut;
        let (mut bytes, mut memory) = (Vec::new(), 0);
        self.fresh.take(len, |block| {
            memory += block.memory;
            bytes.push(block.bytes);
        });
        let place = self.place(self.to);
        self.to += len as u64;
        self.busy = Some(Busy::Writing { memory });
        Some(Step::Write(place, bytes))
    }

    /// What was asked for last is written.
    pub(super) fn written(&mut self) {
        self.busy = None;
    }

    /// What was asked for last was read: moves it to where `waiting` ends, and its whole frames to
    /// `frames`. False if it is not what was written.
    pub(super) fn returned(
        &mut self,
        mut bytes: Bytes,
        waiting: &mut Chain,
        frames: &mut VecDeque<WaitingFrame>,
    ) -> bool {
        let Some(Busy::Reading { len }) = self.busy.take() else {
            return false;
        };
        if bytes.len() != len {
            return false;
        }
        let mut at = 0;
        loop {
            let (len, left) = match self.returning.take() {
                Some(frame) => frame,
                None => {
                    let Some(length) = bytes[at..].first_chunk::<LENGTH>() else {
                        break;
                    };
                    let len = LENGTH + u32::from_be_bytes(*length) as usize;
                    if len > FRAME_MAX {
                        return false;
                    }
                    (len, len)
                }
            };
            let have = left.min(bytes.len() - at);
            at += have;
            if have < left {
                self.returning = Some((len, left - have));
                break;
            }
            frames.push_back(WaitingFrame::new(len, false));
        }
        // Of a length that was cut in two nothing is taken: it is read again with what follows.
        bytes.truncate(at);
        self.from += at as u64;
        let memory = bytes.len();
        if memory > 0 {
            waiting.push(Block { bytes, memory });
        }
        memory > 0
    }

    /// Bytes on the disk, or on their way there.
    pub(super) fn on_disk(&self) -> u64 {
        self.to - self.from
    }

    /// Bytes that wait behind what is in the rest of the output.
    pub(super) fn bytes(&self) -> usize {
        self.on_disk() as usize + self.fresh.bytes
    }

    /// Bytes of them that are in memory, and wait to be written.
    pub(super) fn fresh(&self) -> usize {
        self.fresh.bytes
    }

    /// Memory that it takes.
    pub(super) fn memory(&self) -> usize {
        let busy = match self.busy {
            Some(Busy::Writing { memory }) => memory,
            Some(Busy::Reading { len }) => len,
            None => 0,
        };
        self.fresh.memory + self.frames.len() * size_of::<WaitingFrame>() + busy
    }

    fn place(&self, at: u64) -> SpillPlace {
        let size = self.size;
        SpillPlace { at, size }
    }
}
