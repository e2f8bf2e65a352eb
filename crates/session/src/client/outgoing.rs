//! Bytes that wait to be sent to the daemon.

use crate::frame::{ClientFrame, MAGIC};

/// Frames in their order; the first bytes may have been sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// How many of them the stream has taken.
    sent: usize,
    /// Something else than messages is among them.
    urgent: bool,
}

impl Outgoing {
    /// What each stream begins with.
    pub(super) fn new() -> Self {
        Self {
            bytes: MAGIC.to_vec(),
            sent: 0,
            urgent: false,
        }
    }

    /// Appends a frame that the daemon should not wait for.
    pub(super) fn put(&mut self, frame: &ClientFrame) {
        frame.encode(&mut self.bytes);
        self.urgent = true;
    }

    /// Where a message, which may wait until there are more, is appended.
    pub(super) fn gather(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was not sent.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The stream took `len` bytes of it.
    pub(super) fn transmitted(&mut self, len: usize) {
        self.sent += len;
        assert!(
            self.sent <= self.bytes.len(),
            "more bytes were sent than there were"
        );
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            self.urgent = false;
        }
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }
}
