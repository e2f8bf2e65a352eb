//! Cuts a byte stream into frames.
//!
//! Bytes are read straight into the decoder's block, and a frame is split off without copying. A
//! block grows by at most as much as has arrived, so a length field alone never allocates, and
//! every byte is moved a bounded number of times. Only a part of a block is zeroed at a time,
//! because the pages of a large block cost most when they are first touched.

use bytes::{Buf as _, BytesMut};
use groupcast_core::wire::DecodeError;

use super::{MAGIC, frame_name};

/// How much is read at once, unless a larger frame is under way.
const READ_BLOCK: usize = 64 * 1024;
/// The most room that is zeroed at a time.
const ROOM_MAX: usize = 256 * 1024;
/// With less room than this a new block is begun.
const READ_MIN: usize = 4 * 1024;
/// The bytes of the length field.
const LEN_BYTES: usize = 4;

/// An error in a peer's stream. Nothing after it can be decoded: the connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The stream does not begin with [`MAGIC`].
    #[error(
        "the peer does not speak the client protocol of groupcast (its first bytes are {found:02x?}): connect to a groupcast daemon, with a groupcast client"
    )]
    Magic {
        /// Its first bytes.
        found: [u8; MAGIC.len()],
    },
    /// A frame is longer than allowed.
    #[error(
        "a frame of {len} bytes exceeds the limit of {max} bytes: send smaller messages, and a hello first"
    )]
    Oversize {
        /// What its length field says.
        len: usize,
        /// The most bytes.
        max: usize,
    },
    /// A frame has no bytes, and so no kind.
    #[error("a frame of no bytes: each begins with its kind")]
    Empty,
    /// A frame of a known kind has a malformed body.
    #[error("a malformed {} frame: {error}", frame_name(*.kind))]
    Malformed {
        /// The code of the frame's kind.
        kind: u8,
        /// What is wrong.
        error: DecodeError,
    },
    /// A frame of a kind that must not come here, such as a second hello.
    #[error("a {} frame where none may be", frame_name(*.kind))]
    Unexpected {
        /// The code of the frame's kind.
        kind: u8,
    },
}

/// A frame whose body is not decoded yet.
#[derive(Debug)]
pub struct RawFrame {
    /// What it is.
    pub kind: u8,
    /// Its body, without length and kind.
    pub body: BytesMut,
}

impl RawFrame {
    /// The bytes of the frame in the stream, which credit counts.
    pub fn stream_len(&self) -> usize {
        super::HEADER_LEN + self.body.len()
    }
}

/// Cuts a byte stream into frames. Read into [`space`](Self::space), say how much with
/// [`filled`](Self::filled), then take frames until there is none.
#[derive(Debug)]
pub struct FrameDecoder {
    /// The first `filled` bytes have arrived; the rest is zeroed room.
    buffer: BytesMut,
    filled: usize,
    greeted: bool,
    frame_max: usize,
    /// Bytes that were copied to a new block because a frame did not fit where it began.
    moved: usize,
}

impl FrameDecoder {
    /// A decoder at the beginning of a stream, which must begin with [`MAGIC`]; kind and body of a
    /// frame have at most `frame_max` bytes.
    pub fn new(frame_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            filled: 0,
            greeted: false,
            frame_max,
            moved: 0,
        }
    }

    /// Sets the most bytes of kind and body of a frame.
    pub fn set_frame_max(&mut self, frame_max: usize) {
        self.frame_max = frame_max;
    }

    /// The buffer for the next read; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let room = self.buffer.len() - self.filled;
        if room < READ_MIN && room < self.missing() {
            self.buffer.truncate(self.filled);
            let mut free = self.buffer.capacity() - self.filled;
            if free < READ_MIN && free < self.missing() {
                free = self.missing().min(self.filled).max(READ_BLOCK);
                self.buffer.reserve(free);
                self.moved += self.filled;
            }
            self.buffer.resize(self.filled + free.min(ROOM_MAX), 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// `len` bytes were read into the beginning of [`space`](Self::space).
    ///
    /// # Panics
    /// If `len` is more than there was room for.
    pub fn filled(&mut self, len: usize) {
        assert!(
            len <= self.buffer.len() - self.filled,
            "more bytes than there was room for"
        );
        self.filled += len;
    }

    /// The next whole frame; `None` until more bytes come.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, FrameError> {
        if !self.greet()? {
            return Ok(None);
        }
        let Some(len) = self.frame_len() else {
            return Ok(None);
        };
        if len == 0 {
            return Err(FrameError::Empty);
        }
        if len > self.frame_max {
            return Err(FrameError::Oversize {
                len,
                max: self.frame_max,
            });
        }
        if self.filled < LEN_BYTES + len {
            return Ok(None);
        }
        let mut body = self.buffer.split_to(LEN_BYTES + len);
        self.filled -= LEN_BYTES + len;
        let kind = body[LEN_BYTES];
        body.advance(LEN_BYTES + 1);
        Ok(Some(RawFrame { kind, body }))
    }

    /// Bytes that have arrived and are not a whole frame yet.
    pub fn buffered(&self) -> usize {
        self.filled
    }

    /// How many bytes were copied to larger blocks since the last call. This work is not in a count
    /// of the bytes that were read.
    pub fn take_moved(&mut self) -> usize {
        std::mem::take(&mut self.moved)
    }

    /// Takes the magic off the front; returns whether it has come.
    fn greet(&mut self) -> Result<bool, FrameError> {
        if self.greeted {
            return Ok(true);
        }
        let have = self.filled.min(MAGIC.len());
        if self.buffer[..have] != MAGIC[..have] {
            let mut found = [0; MAGIC.len()];
            found[..have].copy_from_slice(&self.buffer[..have]);
            return Err(FrameError::Magic { found });
        }
        if have < MAGIC.len() {
            return Ok(false);
        }
        self.buffer.advance(MAGIC.len());
        self.filled -= MAGIC.len();
        self.greeted = true;
        Ok(true)
    }

    /// The length of the frame at the front, if its length field has come.
    fn frame_len(&self) -> Option<usize> {
        let field = self.buffer[..self.filled].first_chunk::<LEN_BYTES>()?;
        Some(u32::from_be_bytes(*field) as usize)
    }

    /// How many bytes the frame at the front lacks, or, before its length is known, how many to
    /// read; at least 1.
    fn missing(&self) -> usize {
        let whole = match self.frame_len() {
            Some(len) if self.greeted => LEN_BYTES + len.min(self.frame_max),
            _ => READ_BLOCK,
        };
        whole.saturating_sub(self.filled).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (kind, body) in frames {
            bytes.extend((body.len() as u32 + 1).to_be_bytes());
            bytes.push(*kind);
            bytes.extend(body);
        }
        bytes
    }

    fn feed(decoder: &mut FrameDecoder, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = decoder.space();
            let len = space.len().min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            decoder.filled(len);
            bytes = &bytes[len..];
        }
    }

    #[test]
    fn a_long_frame_is_made_room_for_in_parts() {
        const LEN: usize = 8 << 20;
        let mut decoder = FrameDecoder::new(LEN);
        let mut bytes = MAGIC.to_vec();
        bytes.extend((LEN as u32).to_be_bytes());
        bytes.resize(MAGIC.len() + LEN_BYTES + LEN, 7);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let space = decoder.space();
            assert!(space.len() <= ROOM_MAX + READ_MIN, "{}", space.len());
            let len = space.len().min(rest.len());
            space[..len].copy_from_slice(&rest[..len]);
            decoder.filled(len);
            rest = &rest[len..];
        }
        let frame = decoder.next_frame().unwrap().unwrap();
        assert_eq!((frame.kind, frame.body.len()), (7, LEN - 1));
        let moved = decoder.take_moved();
        assert!(
            (LEN / 2..2 * LEN).contains(&moved),
            "{moved} bytes were moved"
        );
        assert_eq!(decoder.take_moved(), 0);
    }

    proptest! {
        #[test]
        fn frames_come_back_however_the_stream_is_cut(
            frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            cuts in prop::collection::vec(1usize..200, 1..50),
        ) {
            let bytes = stream(&frames);
            let mut decoder = FrameDecoder::new(1000);
            let mut got = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                feed(&mut decoder, piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    got.push((frame.kind, frame.body.to_vec()));
                }
                rest = after;
            }
            prop_assert_eq!(got, frames);
            prop_assert_eq!(decoder.buffered(), 0);
        }

        #[test]
        fn any_bytes_never_panic(bytes: Vec<u8>) {
            let mut decoder = FrameDecoder::new(100);
            feed(&mut decoder, &MAGIC);
            feed(&mut decoder, &bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }

    #[test]
    fn a_length_alone_allocates_one_block() {
        let mut decoder = FrameDecoder::new(64 << 20);
        feed(&mut decoder, &MAGIC);
        feed(&mut decoder, &(64u32 << 20).to_be_bytes());
        assert!(matches!(decoder.next_frame(), Ok(None)));
        assert!(decoder.space().len() <= READ_BLOCK);
    }

    #[test]
    fn a_large_frame_grows_in_proportion_to_what_arrived() {
        let body = vec![7u8; 5 << 20];
        let mut decoder = FrameDecoder::new(64 << 20);
        let bytes = stream(&[(9, body.clone())]);
        let (mut blocks, mut capacity) = (0, 0);
        let mut rest = &bytes[..];
        let frame = loop {
            if let Some(frame) = decoder.next_frame().unwrap() {
                break frame;
            }
            let space = decoder.space();
            let len = space.len().min(rest.len());
            space[..len].copy_from_slice(&rest[..len]);
            decoder.filled(len);
            blocks += u32::from(decoder.buffer.capacity() > capacity);
            capacity = decoder.buffer.capacity();
            assert!(capacity <= 2 * decoder.filled + 2 * READ_BLOCK);
            rest = &rest[len..];
        };
        assert_eq!(&frame.body[..], &body[..]);
        assert!(blocks < 20, "{blocks} blocks for 5 MiB");
    }

    #[test]
    fn an_oversize_frame_and_an_empty_one_are_refused() {
        let mut decoder = FrameDecoder::new(10);
        feed(&mut decoder, &stream(&[(1, vec![0; 10])]));
        assert_eq!(
            decoder.next_frame().unwrap_err(),
            FrameError::Oversize { len: 11, max: 10 }
        );
        let mut decoder = FrameDecoder::new(10);
        feed(&mut decoder, &MAGIC);
        feed(&mut decoder, &[0; 4]);
        assert_eq!(decoder.next_frame().unwrap_err(), FrameError::Empty);
    }

    #[test]
    fn another_protocol_is_told_at_its_first_byte() {
        let mut decoder = FrameDecoder::new(10);
        feed(&mut decoder, b"G");
        assert_eq!(
            decoder.next_frame().unwrap_err(),
            FrameError::Magic {
                found: [b'G', 0, 0, 0]
            }
        );
    }
}
