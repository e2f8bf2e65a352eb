//! The stream of a pipe. A frame is a length (4 bytes), as many bytes, and a hash (32 bytes); a
//! frame of length 0 ends the stream.
//!
//! Each hash is BLAKE3 of the hash before it (32 zeros at first) and the frame's bytes. So the last
//! hash covers the whole stream: the bytes that reach the reader are verified, and so is the end.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::about::HASH;

/// The most bytes of a frame.
pub(crate) const FRAME_MAX: usize = 64 << 10;

/// Cuts the bytes of a pipe into frames.
#[derive(Debug)]
pub(crate) struct Framer {
    chain: Chain,
}

impl Framer {
    pub(crate) fn new() -> Self {
        Self {
            chain: Chain::new(),
        }
    }

    /// The frame of `bytes`, at most [`FRAME_MAX`]; without bytes, the frame that ends the stream.
    pub(crate) fn frame(&mut self, bytes: &[u8]) -> Bytes {
        let mut frame = BytesMut::with_capacity(4 + bytes.len() + HASH as usize);
        frame.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        frame.extend_from_slice(bytes);
        frame.extend_from_slice(self.chain.next(bytes).as_bytes());
        frame.freeze()
    }
}

/// Takes frames apart.
#[derive(Debug)]
pub(crate) struct Deframer {
    chain: Chain,
    unread: BytesMut,
    ended: bool,
}

/// An error in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the stream holds a frame of {0} bytes, which none has")]
    TooLong(usize),
    #[error("a part of the stream does not have the hash that came with it")]
    Hash,
    #[error("the stream goes on behind its end")]
    Behind,
}

impl Deframer {
    pub(crate) fn new() -> Self {
        Self {
            chain: Chain::new(),
            unread: BytesMut::new(),
            ended: false,
        }
    }

    /// The next bytes of the stream have come. Gives the content of complete and verified frames to
    /// `each`.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), FrameError> {
        self.unread.extend_from_slice(bytes);
        while let Some((len, _)) = self.unread.split_first_chunk::<4>() {
            let len = u32::from_be_bytes(*len) as usize;
            if self.ended {
                return Err(FrameError::Behind);
            }
            if len > FRAME_MAX {
                return Err(FrameError::TooLong(len));
            }
            if self.unread.len() < 4 + len + HASH as usize {
                return Ok(());
            }
            self.unread.advance(4);
            let content = self.unread.split_to(len);
            let hash = self.unread.split_to(HASH as usize);
            if self.chain.next(&content).as_bytes()[..] != hash[..] {
                return Err(FrameError::Hash);
            }
            match len {
                0 => self.ended = true,
                _ => each(&content),
            }
        }
        match self.ended && !self.unread.is_empty() {
            true => Err(FrameError::Behind),
            false => Ok(()),
        }
    }

    /// Whether the end of the stream has come.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended
    }
}

#[derive(Debug)]
struct Chain(blake3::Hash);

impl Chain {
    fn new() -> Self {
        Self([0; HASH as usize].into())
    }

    fn next(&mut self, bytes: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.0.as_bytes()).update(bytes);
        self.0 = hasher.finalize();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of `stream`, given `step` bytes at a time, and whether it ended.
    fn read(stream: &[u8], step: usize) -> Result<(Vec<u8>, bool), FrameError> {
        let mut deframer = Deframer::new();
        let mut out = Vec::new();
        for part in stream.chunks(step) {
            deframer.push(part, |bytes| out.extend_from_slice(bytes))?;
        }
        Ok((out, deframer.is_complete()))
    }

    fn stream(parts: &[&[u8]]) -> Vec<u8> {
        let mut framer = Framer::new();
        parts.iter().flat_map(|part| framer.frame(part)).collect()
    }

    #[test]
    fn a_stream_comes_out_as_it_went_in_and_its_end_is_known() {
        let long = [7; FRAME_MAX];
        let whole = stream(&[b"one", &long, b"two", b""]);
        let content = [&b"one"[..], &long, b"two"].concat();
        for step in [1, 7, 1400, whole.len()] {
            assert_eq!(read(&whole, step), Ok((content.clone(), true)));
        }
        let (part, ended) = read(&whole[..whole.len() - 1], 1400).unwrap();
        assert!(part == content && !ended);
    }

    #[test]
    fn nothing_that_was_damaged_left_out_or_added_comes_out() {
        let whole = stream(&[b"one", b"two", b""]);
        let frame = whole.len() - 39 - 36;
        let mut damaged = whole.clone();
        damaged[5] ^= 1;
        let without = whole[frame..].to_vec();
        let added = [&whole[..], b"x"].concat();
        let huge = [0xff; 8].to_vec();
        for (stream, error) in [
            (damaged, FrameError::Hash),
            (without, FrameError::Hash),
            (added, FrameError::Behind),
            (huge, FrameError::TooLong(0xffff_ffff)),
        ] {
            assert_eq!(read(&stream, 1400), Err(error));
        }
    }
}
