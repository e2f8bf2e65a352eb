//! The client protocol, both directions: any stream, cut anywhere.
//!
//! Whatever comes: no panic, no more memory than has arrived; and a frame that was understood is
//! written and understood again as the same.

use groupcast_session::frame::{
    ClientFrame, DaemonFrame, FrameDecoder, FrameError, MAGIC, RawFrame,
};

/// Larger than most inputs: the limit itself is met by length fields.
const FRAME_MAX: usize = 4096;

/// Reads `data` as a stream: the first byte chooses the direction, whether the stream begins as it
/// should, and how many bytes arrive at a time.
pub fn frames(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let again: fn(RawFrame) -> Result<Option<Vec<u8>>, FrameError> =
        if how & 1 == 0 { client } else { daemon };
    let mut stream = Vec::new();
    if how & 2 == 0 {
        stream.extend_from_slice(&MAGIC);
    }
    stream.extend_from_slice(rest);
    let piece = 1 + usize::from(how >> 2) * 8;
    // A daemon ends a connection at the first malformed frame, and so does this function.
    let _ = read(&stream, piece, &mut |raw| {
        if let Some(written) = again(raw)? {
            let mut twice = Vec::new();
            let stream = [&MAGIC[..], &written].concat();
            read(&stream, stream.len(), &mut |raw| {
                twice.extend(again(raw)?);
                Ok(())
            })
            .expect("what was written can be read");
            assert_eq!(twice, [written], "one frame, and the same");
        }
        Ok(())
    });
}

fn client(raw: RawFrame) -> Result<Option<Vec<u8>>, FrameError> {
    Ok(ClientFrame::decode(raw)?.map(|frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    }))
}

fn daemon(raw: RawFrame) -> Result<Option<Vec<u8>>, FrameError> {
    Ok(DaemonFrame::decode(raw)?.map(|frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    }))
}

/// Hands every frame of `stream` to `take`, as it would arrive in pieces of `piece` bytes.
fn read(
    stream: &[u8],
    piece: usize,
    take: &mut dyn FnMut(RawFrame) -> Result<(), FrameError>,
) -> Result<(), FrameError> {
    let mut decoder = FrameDecoder::new(FRAME_MAX);
    let mut left = stream;
    while !left.is_empty() {
        let space = decoder.space();
        assert!(!space.is_empty(), "there is always room for more");
        let len = piece.min(left.len()).min(space.len());
        let (arrived, rest) = left.split_at(len);
        space[..len].copy_from_slice(arrived);
        left = rest;
        decoder.filled(len);
        while let Some(raw) = decoder.next_frame()? {
            take(raw)?;
        }
        assert!(decoder.buffered() <= stream.len() - left.len());
    }
    Ok(())
}
