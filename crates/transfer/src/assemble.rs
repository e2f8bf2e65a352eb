//! Assembles whole pieces of a stream of files from bytes in any order.
//!
//! Memory is taken for bytes that have come, never for announced ones: a sender that sends one byte
//! of each of a million chunks makes a receiver keep a million bytes, not a million chunks.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::about::{Layout, Piece};

/// The pieces that have come in part. The protocol's credit bounds their bytes: it delivers each
/// byte once, and takes no more packets when too many bytes are not consumed. The manifest has a
/// limit of its own.
#[derive(Debug)]
pub(crate) struct Assembler {
    layout: Layout,
    /// Parts of the stream that were held before, in order.
    held: Vec<Range<u64>>,
    open: BTreeMap<Piece, OpenPiece>,
    /// Buffers of pieces that were written, to be used again: fresh memory costs a page fault every
    /// 4 KiB.
    spare: Vec<Vec<u8>>,
}

/// A piece that is not whole.
#[derive(Debug)]
struct OpenPiece {
    /// Its bytes up to the first gap.
    whole: Vec<u8>,
    /// Bytes behind gaps, by their offset in the piece.
    behind: BTreeMap<usize, Vec<u8>>,
}

impl OpenPiece {
    /// A piece without bytes, in the memory of `spare`.
    fn new(mut spare: Vec<u8>) -> Self {
        spare.clear();
        Self {
            whole: spare,
            behind: BTreeMap::new(),
        }
    }

    /// The bytes from `at` on have come, none of them before.
    fn add(&mut self, at: usize, bytes: &[u8]) {
        if at == self.whole.len() {
            self.whole.extend_from_slice(bytes);
            while let Some(part) = self.behind.remove(&self.whole.len()) {
                self.whole.extend_from_slice(&part);
            }
            return;
        }
        if let Some((start, part)) = self.behind.range_mut(..at).next_back()
            && start + part.len() == at
        {
            part.extend_from_slice(bytes);
        } else {
            self.behind.insert(at, bytes.to_vec());
        }
    }
}

impl Assembler {
    /// The most spare buffers that are kept.
    const SPARE_MAX: usize = 8;

    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            held: Vec::new(),
            open: BTreeMap::new(),
            spare: Vec::new(),
        }
    }

    /// These parts of the stream were held before: bytes of them that come in a packet with others
    /// are skipped.
    pub(crate) fn hold(&mut self, held: &[Range<u64>]) {
        self.held = held.to_vec();
        self.held.sort_by_key(|range| range.start);
    }

    /// Takes back the buffer of a piece that is done with.
    pub(crate) fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < Self::SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// Bytes of the stream from `offset` on have come. Gives pieces that are whole now to `each`.
    /// Returns how many of the bytes count as consumed already: those that were held before, and
    /// those of the manifest, which may be longer than the protocol's credit.
    pub(crate) fn add(
        &mut self,
        mut offset: u64,
        mut bytes: &[u8],
        mut each: impl FnMut(Piece, Vec<u8>),
    ) -> u64 {
        let mut consumed = 0;
        while !bytes.is_empty() && offset < self.layout.len() {
            let piece = self.layout.piece_at(offset);
            let range = self.layout.range(piece);
            let at = (offset - range.start) as usize;
            let len = (range.end - range.start) as usize;
            let part;
            (part, bytes) = bytes.split_at(bytes.len().min(len - at));
            offset += part.len() as u64;
            if is_held(&self.held, &range) {
                consumed += part.len() as u64;
                continue;
            }
            if piece == Piece::Manifest {
                consumed += part.len() as u64;
            }
            let spare = &mut self.spare;
            let open = self.open.entry(piece);
            let open = open.or_insert_with(|| OpenPiece::new(spare.pop().unwrap_or_default()));
            open.add(at, part);
            if open.whole.len() >= len
                && let Some(open) = self.open.remove(&piece)
            {
                each(piece, open.whole);
            }
        }
        consumed
    }
}

/// Whether one of the ranges `held`, which are in order and apart, has all of `range`. Costs a
/// binary search.
pub(crate) fn is_held(held: &[Range<u64>], range: &Range<u64>) -> bool {
    let after = held.partition_point(|held| held.end < range.end);
    let held = held.get(after);
    held.is_some_and(|held| held.start <= range.start)
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
            let mut consumed = 0;
            for offset in &offsets {
                let end = (offset + 1000).min(stream.len());
                let mut done = Vec::new();
                let bytes = &stream[*offset..end];
                consumed += assembler.add(*offset as u64, bytes, |piece, bytes| {
                    done.push((piece, bytes));
                });
                for (piece, bytes) in done {
                    pieces.insert(piece, bytes.clone());
                    assembler.recycle(bytes);
                }
            }
            let whole: Vec<u8> = pieces.into_values().flatten().collect();
            assert!(whole == stream);
            assert_eq!(consumed, 10, "the manifest's");
            assert!(assembler.open.is_empty());
        }
    }

    #[test]
    fn memory_is_taken_for_what_has_come_only() {
        let layout = Layout {
            manifest: 100_000_000,
            content: 1 << 40,
            chunk: *Layout::CHUNKS.end(),
        };
        let mut assembler = Assembler::new(layout);
        let mut each = |_, _| panic!("nothing is whole");
        assembler.add(50_000_000, &[1; 256], &mut each);
        for index in 0..1000 {
            let start = layout.range(Piece::Chunk(index)).start;
            for at in [1000, 0, 100_000, 100_256] {
                assembler.add(start + at, &[1; 256], &mut each);
            }
        }
        let parts = |open: &OpenPiece| {
            let behind: usize = open.behind.values().map(Vec::capacity).sum();
            open.whole.capacity() + behind
        };
        let memory: usize = assembler.open.values().map(parts).sum();
        assert!(memory <= 2 * 256 * 4001, "{memory}");
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
        let consumed = assembler.add(start, &bytes, |piece, _| whole.push(piece));
        assert_eq!((consumed, whole), (150, vec![Piece::Chunk(1)]));
        assert!(assembler.open.is_empty());
    }
}
