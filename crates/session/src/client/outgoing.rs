//! Bytes that wait to be sent to the daemon.

use crate::frame::{ClientFrame, MAGIC};

/// Frames in their order; the first bytes may have been sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// How many of them the stream has taken.
    sent: usize,
    /// A frame other than messages is among them.
    urgent: bool,
}

impl Outgoing {
    /// The beginning of a stream: [`MAGIC`].
    pub(super) fn new() -> Self {
        Self {
            bytes: MAGIC.to_vec(),
            sent: 0,
            urgent: false,
        }
    }

    /// Appends a frame that should go at once.
    pub(super) fn put(&mut self, frame: &ClientFrame) {
        frame.encode(&mut self.bytes);
        self.urgent = true;
    }

    /// The buffer to which a message is appended. It may wait until there are more.
    pub(super) fn gather(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes that were not sent.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The stream took `len` bytes of [`rest`](Self::rest).
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
