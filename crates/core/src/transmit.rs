//! Outgoing datagrams: where they go, and the caller's buffer that they are written into.

use alloc::vec::Vec;

use crate::id::MemberId;

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// All of the group, whichever way reaches each: one multicast, or a unicast copy a peer where
    /// there is none.
    Group,
    /// This member alone.
    Member(MemberId),
}

/// Which socket receives a datagram. The two are read by priority (002 III-C).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SocketClass {
    /// Data: high volume.
    Data,
    /// Control: the token, and every other message that regulates.
    Control,
}

/// What a protocol says of the segments that it just wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where they go.
    pub destination: Destination,
    /// Which socket receives them.
    pub class: SocketClass,
}

/// The caller's buffer: one or more segments (datagrams) of equal size, only the last may be
/// shorter, to one destination. Room is kept around each body for the prefix and the seal, so that
/// nothing is copied again.
#[derive(Debug)]
pub struct TransmitBuf {
    bytes: Vec<u8>,
    segments: usize,
    /// Of the first one, with its room.
    segment_size: usize,
    /// What every body begins with.
    label: Vec<u8>,
    headroom: usize,
    tailroom: usize,
    segments_max: usize,
}

impl TransmitBuf {
    /// The most bytes that one send takes: the largest UDP payload over IPv4.
    pub const BYTES_MAX: usize = 65_507;

    /// A buffer of at most `segments_max` segments, each with `headroom` bytes before and
    /// `tailroom` bytes after its body.
    pub fn new(segments_max: usize, headroom: usize, tailroom: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(Self::BYTES_MAX),
            segments: 0,
            segment_size: 0,
            label: Vec::new(),
            headroom,
            tailroom,
            segments_max: segments_max.max(1),
        }
    }

    /// From now on every body begins with `label`, which costs its length: for a host that carries
    /// several instances on one channel, and adds the label so that they need not. It stays until
    /// another is set; none at the beginning.
    pub fn set_label(&mut self, label: &[u8]) {
        self.label.clear();
        self.label.extend_from_slice(label);
    }

    /// Forgets all segments; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.segments = 0;
        self.segment_size = 0;
    }

    /// Whether a segment with a body of `len` bytes can be appended: the first always can.
    pub fn accepts(&self, len: usize) -> bool {
        let framed = self.headroom + self.label.len() + len + self.tailroom;
        match self.segments {
            0 => true,
            count => {
                count < self.segments_max
                    && self.bytes.len() + framed <= Self::BYTES_MAX
                    && framed <= self.segment_size()
                    // All before the last are equal, so the last one of now must be of full size.
                    && self.bytes.len() == count * self.segment_size()
            }
        }
    }

    /// Appends a segment whose body is `parts`, one after the other. One copy of each byte.
    ///
    /// # Panics
    /// If [`accepts`](Self::accepts) says no, or the segment exceeds
    /// [`BYTES_MAX`](Self::BYTES_MAX): the caller's bug.
    pub fn push(&mut self, parts: &[&[u8]]) {
        let len = parts.iter().map(|part| part.len()).sum();
        assert!(
            self.accepts(len),
            "a segment of {len} bytes does not fit after {} segments",
            self.segments
        );
        self.bytes.resize(self.bytes.len() + self.headroom, 0);
        self.bytes.extend_from_slice(&self.label);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(self.bytes.len() + self.tailroom, 0);
        assert!(
            self.bytes.len() <= Self::BYTES_MAX,
            "a datagram of {} bytes exceeds UDP's limit",
            self.bytes.len()
        );
        if self.segments == 0 {
            self.segment_size = self.bytes.len();
        }
        self.segments += 1;
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// The size of every segment but perhaps the last, room included; 0 if there is none.
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// All segments, back to back, as they go to the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Each segment, room included, to be filled in.
    pub fn segments_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let size = self.segment_size().max(1);
        self.bytes.chunks_mut(size)
    }

    /// The bytes of each segment, in the order of sending.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.segment_size().max(1))
    }

    /// Bytes kept before each body.
    pub fn headroom(&self) -> usize {
        self.headroom
    }

    /// Bytes kept after each body.
    pub fn tailroom(&self) -> usize {
        self.tailroom
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_of_equal_size_and_only_the_last_is_shorter() {
        let mut buf = TransmitBuf::new(8, 2, 1);
        buf.push(&[b"abc", b"de"]);
        assert!(buf.accepts(5) && buf.accepts(1) && !buf.accepts(6));
        buf.push(&[b"xyz"]);
        assert!(!buf.accepts(1), "nothing follows a short segment");
        assert_eq!(buf.segments(), 2);
        let lens: Vec<usize> = buf.iter().map(<[u8]>::len).collect();
        assert_eq!(lens, [8, 6]);
    }

    #[test]
    fn a_label_stands_before_every_body_until_it_is_taken_off() {
        let mut buf = TransmitBuf::new(8, 2, 1);
        buf.set_label(b"ab");
        buf.push(&[b"xyz"]);
        assert!(buf.accepts(3) && !buf.accepts(4));
        buf.push(&[b"uvw"]);
        assert_eq!(buf.as_bytes(), b"\0\0abxyz\0\0\0abuvw\0");
        buf.clear();
        buf.set_label(&[]);
        buf.push(&[b"xyz"]);
        assert_eq!(buf.as_bytes(), b"\0\0xyz\0");
    }

    #[test]
    fn the_number_of_segments_and_of_bytes_is_bounded() {
        let mut buf = TransmitBuf::new(2, 0, 0);
        buf.push(&[b"a"]);
        buf.push(&[b"b"]);
        assert!(!buf.accepts(1));
        let mut large = TransmitBuf::new(8, 0, 0);
        large.push(&[&[0; 40_000]]);
        assert!(!large.accepts(40_000));
    }
}
