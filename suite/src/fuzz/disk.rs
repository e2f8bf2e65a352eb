//! The disk of a daemon of the target [`groups`](super::groups), for messages that wait for slow
//! clients: files in memory, and whatever may go wrong with them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use groupcast_session::ClientId;
use groupcast_session::groups::{SpillDone, SpillPlace, SpillWork};

/// What a disk does with its work.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum DiskState {
    /// It does the work at once.
    #[default]
    Fast,
    /// It does nothing for now.
    Stuck,
    /// It is full, or broken.
    Broken,
    /// It gives back less than was written.
    Short,
}

/// The files of one daemon.
pub(super) struct FuzzDisk {
    pub(super) state: DiskState,
    /// The longest that a file may become.
    file_max: usize,
    files: BTreeMap<ClientId, Vec<u8>>,
    /// The work that it has not done yet.
    asked: VecDeque<SpillWork>,
    /// How many pieces were written, and read.
    pub(super) counts: [usize; 2],
}

impl FuzzDisk {
    /// A disk for files of at most `file_max` bytes.
    pub(super) fn new(file_max: usize) -> Self {
        Self {
            state: DiskState::default(),
            file_max,
            files: BTreeMap::new(),
            asked: VecDeque::new(),
            counts: [0; 2],
        }
    }

    /// Takes work, to be done after what was asked before.
    pub(super) fn ask(&mut self, work: SpillWork) {
        self.asked.push_back(work);
    }

    /// Does the next work, unless the disk is stuck, until something is to be told to a client.
    pub(super) fn poll_done(&mut self) -> Option<(ClientId, SpillDone)> {
        if self.state == DiskState::Stuck {
            return None;
        }
        while let Some(work) = self.asked.pop_front() {
            if let Some(done) = self.carry_out(work) {
                return Some(done);
            }
        }
        None
    }

    /// How many clients have a file.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    fn carry_out(&mut self, work: SpillWork) -> Option<(ClientId, SpillDone)> {
        let broken = (self.state == DiskState::Broken).then(|| SpillDone::Failed("full".into()));
        match work {
            SpillWork::Write {
                client,
                place,
                bytes,
            } => {
                let done = broken.unwrap_or_else(|| {
                    self.write(client, place, &bytes.concat());
                    SpillDone::Written
                });
                Some((client, done))
            }
            SpillWork::Read { client, place, len } => {
                let done = broken.unwrap_or_else(|| SpillDone::Read(self.read(client, place, len)));
                Some((client, done))
            }
            SpillWork::Forget { client } => {
                self.files.remove(&client);
                None
            }
        }
    }

    fn write(&mut self, client: ClientId, place: SpillPlace, mut bytes: &[u8]) {
        self.counts[0] += 1;
        let file = self.files.entry(client).or_default();
        for (offset, len) in place.parts(bytes.len()) {
            let (first, rest) = bytes.split_at(len);
            let offset = offset as usize;
            assert!(offset + len <= self.file_max, "the file grows too long");
            file.resize(file.len().max(offset + len), 0);
            file[offset..][..len].copy_from_slice(first);
            bytes = rest;
        }
    }

    fn read(&mut self, client: ClientId, place: SpillPlace, len: usize) -> Bytes {
        self.counts[1] += 1;
        let file = self.files.get(&client).map_or(&[][..], Vec::as_slice);
        let mut bytes = Vec::new();
        for (offset, len) in place.parts(len) {
            let part = file.get(offset as usize..).and_then(|it| it.get(..len));
            bytes.extend_from_slice(part.expect("what is read was written"));
        }
        if self.state == DiskState::Short {
            bytes.pop();
        }
        bytes.into()
    }
}
