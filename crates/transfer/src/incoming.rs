//! One transfer at a receiver: its state, and the way of its bytes from the network to its disk.
//!
//! `receive.rs` tells the protocol and the user.

use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;
use groupcast_core::Time;

use crate::about::{Content, Piece};
use crate::assemble::Assembler;
use crate::disk::{Disk, Job};
use crate::manifest::ContentId;
use crate::receive::Described;

/// A transfer that is being received.
pub(crate) struct Incoming {
    pub(crate) described: Described,
    pub(crate) content: Content,
    assembler: Option<Assembler>,
    pub(crate) disk: Disk,
    /// The list of files that are in place already.
    pub(crate) manifest: Option<Bytes>,
    /// Whether the disk has reported bytes that are kept for the next attempt.
    pub(crate) is_kept: bool,
    pub(crate) since: Instant,
    pub(crate) held: u64,
    pub(crate) received: u64,
    pub(crate) shown: Time,
    /// When bytes have come last, or been written.
    pub(crate) moved: Time,
    pub(crate) state: State,
    /// When its sender was first told that it is complete.
    pub(crate) concluded: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The disk looks at what is here already.
    Preparing,
    /// Bytes arrive.
    Receiving,
    /// Everything is here, and the disk puts it in place: only the disk says how it ends.
    Publishing,
    /// It has ended here; its sender does not know yet.
    Concluded,
}

impl Incoming {
    pub(crate) fn new(described: Described, content: Content, disk: Disk, now: Time) -> Self {
        Self {
            assembler: match content {
                Content::Files { layout, .. } => Some(Assembler::new(layout)),
                Content::Pipe | Content::List { .. } => None,
            },
            described,
            content,
            disk,
            manifest: None,
            is_kept: false,
            since: Instant::now(),
            held: 0,
            received: 0,
            shown: now,
            moved: now,
            state: State::Preparing,
            concluded: None,
        }
    }

    pub(crate) fn content_id(&self) -> Option<ContentId> {
        match self.content {
            Content::Files { id, .. } => Some(id),
            Content::Pipe | Content::List { .. } => None,
        }
    }

    /// The length of its manifest.
    pub(crate) fn manifest_len(&self) -> usize {
        match self.content {
            Content::Files { layout, .. } => layout.manifest as usize,
            Content::Pipe | Content::List { .. } => 0,
        }
    }

    /// The disk has found these parts of the stream.
    pub(crate) fn prepared(&mut self, held: &[Range<u64>]) {
        self.state = State::Receiving;
        self.held = held.iter().map(|range| range.end - range.start).sum();
        self.is_kept = self.held > 0;
        if let Some(assembler) = &mut self.assembler {
            assembler.hold(held);
        }
    }

    /// Bytes have come: passes whole pieces to the disk. Returns how many of the bytes are consumed
    /// with that.
    pub(crate) fn take(&mut self, offset: u64, bytes: Bytes) -> u64 {
        self.received += bytes.len() as u64;
        let Some(assembler) = &mut self.assembler else {
            self.disk.ask(Job::Pipe(bytes));
            return 0;
        };
        let disk = &self.disk;
        assembler.add(offset, &bytes, |piece, bytes| match piece {
            Piece::Manifest => disk.ask(Job::Manifest(bytes)),
            Piece::Chunk(index) => disk.ask(Job::Chunk(index, bytes)),
        })
    }

    /// A chunk is written: takes its buffer back.
    pub(crate) fn recycle(&mut self, chunk: Vec<u8>) {
        if let Some(assembler) = &mut self.assembler {
            assembler.recycle(chunk);
        }
    }
}
