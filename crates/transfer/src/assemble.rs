//! From bytes in any order to whole pieces of a stream of files.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::about::{Layout, Piece};

/// The pieces of which a part has arrived. Their number is bounded by the window of the protocol, which gives each byte
/// once and stops when too much is not consumed.
#[derive(Debug)]
pub(crate) struct Assembler {
    layout: Layout,
    /// Parts of the stream that were here before, in order.
    held: Vec<Range<u64>>,
    open: BTreeMap<Piece, Open>,
    /// Memory of pieces that were written, to be filled again: fresh memory costs a page fault every 4 KiB.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    filled: usize,
}

impl Assembler {
    /// Spare pieces that are kept.
    const SPARE_MAX: usize = 8;

    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            held: Vec::new(),
            open: BTreeMap::new(),
            spare: Vec::new(),
        }
    }

    /// These parts of the stream were here before: bytes of theirs that come because they share a packet with others are of
    /// no use.
    pub(crate) fn hold(&mut self, held: &[Range<u64>]) {
        self.held = held.to_vec();
        self.held.sort_by_key(|range| range.start);
    }

    fn is_held(&self, piece: &Range<u64>) -> bool {
        let after = self.held.partition_point(|held| held.end < piece.end);
        let held = self.held.get(after);
        held.is_some_and(|held| held.start <= piece.start)
    }

    /// The memory of a piece that is done with.
    pub(crate) fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < Self::SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// Bytes of the stream from `offset` on arrived; pieces that are whole now are given to `each`. How many of the
    /// bytes are of no use, as they were here before.
    pub(crate) fn add(
        &mut self,
        mut offset: u64,
        mut bytes: &[u8],
        mut each: impl FnMut(Piece, Vec<u8>),
    ) -> u64 {
        let mut superfluous = 0;
        while !bytes.is_empty() && offset < self.layout.len() {
            let piece = self.layout.piece_at(offset);
            let range = self.layout.range(piece);
            let at = (offset - range.start) as usize;
            let len = (range.end - range.start) as usize;
            let part;
            (part, bytes) = bytes.split_at(bytes.len().min(len - at));
            if self.is_held(&range) {
                superfluous += part.len() as u64;
                offset += part.len() as u64;
                continue;
            }
            let spare = &mut self.spare;
            let open = self.open.entry(piece).or_insert_with(|| {
                // What is in it is overwritten: a piece is whole when each of its bytes has come.
                let mut bytes = spare.pop().unwrap_or_default();
                bytes.resize(len, 0);
                Open { bytes, filled: 0 }
            });
            open.bytes[at..at + part.len()].copy_from_slice(part);
            open.filled += part.len();
            offset += part.len() as u64;
            if open.filled >= len
                && let Some(open) = self.open.remove(&piece)
            {
                each(piece, open.bytes);
            }
        }
        superfluous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_in_whatever_order_their_bytes_come() {
        let layout = Layout {
            manifest: 10,
            content: 4096 * 2 + 5,
            chunk: 4096,
        };
        let stream: Vec<u8> = (0..layout.len()).map(|at| (at % 251) as u8).collect();
        let mut offsets: Vec<usize> = (0..stream.len()).step_by(1000).collect();
        for _ in 0..offsets.len() {
            offsets.rotate_left(1);
            let mut assembler = Assembler::new(layout);
            let mut pieces = BTreeMap::new();
            for offset in &offsets {
                let end = (offset + 1000).min(stream.len());
                let mut done = Vec::new();
                assembler.add(*offset as u64, &stream[*offset..end], |piece, bytes| {
                    done.push((piece, bytes));
                });
                for (piece, bytes) in done {
                    pieces.insert(piece, bytes.clone());
                    assembler.recycle(bytes);
                }
            }
            let whole: Vec<u8> = pieces.into_values().flatten().collect();
            assert!(whole == stream);
            assert!(assembler.open.is_empty());
        }
    }

    #[test]
    fn of_pieces_that_were_here_before_nothing_is_kept() {
        let layout = Layout {
            manifest: 10,
            content: 4096 * 3,
            chunk: 4096,
        };
        let mut assembler = Assembler::new(layout);
        let [first, second, third] = [0, 1, 2].map(|index| layout.range(Piece::Chunk(index)));
        assembler.hold(&[third.clone(), 0..first.end]);
        let mut whole = Vec::new();
        let start = second.start - 100;
        let bytes = vec![1; (third.start + 50 - start) as usize];
        let superfluous = assembler.add(start, &bytes, |piece, _| whole.push(piece));
        assert_eq!((superfluous, whole), (150, vec![Piece::Chunk(1)]));
        assert!(assembler.open.is_empty());
    }
}
