//! Digests, byte by byte: what a member holds and misses of each sender, as runs of numbers. The
//! layout is in `wire`.

use alloc::vec::Vec;

use groupcast_core::MemberId;
use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::NUMBER_MAX;

/// The most runs in a list.
const RUNS_MAX: usize = 255;

/// Consecutive numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Run {
    pub(in super::super) first: u64,
    pub(in super::super) last: u64,
    /// Those that the gossiper has repaired, highest first.
    pub(in super::super) flagged: Vec<u64>,
}

/// What a gossiper holds of one sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Holding {
    pub(in super::super) origin: MemberId,
    /// Highest first.
    pub(in super::super) runs: Vec<Run>,
    /// What the gossiper misses, highest first.
    pub(in super::super) gaps: Vec<Run>,
}

/// Reads a digest, to the end of the body.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Holding>, DecodeError> {
    let mut digest = Vec::new();
    while reader.remaining() > 0 {
        let origin = reader.member("origin")?;
        let flags = reader.u8("flags")?;
        digest.push(Holding {
            origin,
            runs: runs(reader, flags & 1 != 0)?,
            gaps: if flags & 2 != 0 {
                runs(reader, false)?
            } else {
                Vec::new()
            },
        });
    }
    Ok(digest)
}

/// Writes a digest.
pub(super) fn write(writer: &mut Writer<'_>, digest: &[Holding]) {
    for holding in digest {
        let flagged = holding.runs.iter().any(|run| !run.flagged.is_empty());
        let gaps = !holding.gaps.is_empty();
        writer.member(holding.origin);
        writer.u8(u8::from(flagged) | u8::from(gaps) << 1);
        write_runs(writer, &holding.runs, flagged);
        if gaps {
            write_runs(writer, &holding.gaps, false);
        }
    }
}

fn runs(reader: &mut Reader<'_>, bits: bool) -> Result<Vec<Run>, DecodeError> {
    let count = reader.u8("runs")?;
    let mut runs = Vec::with_capacity(usize::from(count).min(reader.remaining() / 2));
    let mut before = None;
    for _ in 0..count {
        let distance = reader.varint("run")?;
        let last = match before {
            None => distance,
            Some(before) => u64::checked_sub(before, distance).unwrap_or(0),
        };
        let more = reader.varint("length")?;
        // Numbers begin at 1, and runs do not touch: a distance of 1 would go on with the run
        // before.
        if last > NUMBER_MAX || last <= more || (before.is_some() && distance < 2) {
            return Err(reader.invalid("run", distance));
        }
        let first = last - more;
        let mut flagged = Vec::new();
        if bits {
            for byte in 0..more / 8 + 1 {
                let set = reader.u8("repaired")?;
                for bit in (0..8).filter(|bit| set >> bit & 1 == 1) {
                    let below = byte * 8 + bit;
                    if below > more {
                        return Err(reader.invalid("repaired", u64::from(set)));
                    }
                    flagged.push(last - below);
                }
            }
        }
        runs.push(Run {
            first,
            last,
            flagged,
        });
        before = Some(first);
    }
    Ok(runs)
}

fn write_runs(writer: &mut Writer<'_>, runs: &[Run], bits: bool) {
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    writer.u8(runs.len() as u8);
    let mut before = None;
    for run in runs {
        let more = run.last - run.first;
        writer.varint(before.map_or(run.last, |before| before - run.last));
        writer.varint(more);
        before = Some(run.first);
        if bits {
            let mut set = alloc::vec![0u8; (more / 8 + 1) as usize];
            for number in &run.flagged {
                let below = run.last - number;
                set[(below / 8) as usize] |= 1 << (below % 8);
            }
            writer.put(&set);
        }
    }
}

impl Run {
    /// Leaves out the lowest numbers as far as `budget` bytes make it necessary. Returns how many
    /// bytes it takes, at most; `None` if not even one number fits.
    pub(in super::super) fn shorten(&mut self, budget: usize, bits: bool) -> Option<usize> {
        let more = self.last - self.first;
        let numbers = varint_len(self.last) + varint_len(more);
        let room = budget.checked_sub(numbers)?;
        if !bits {
            return Some(numbers);
        }
        let more = more.min((room as u64 * 8).checked_sub(1)?);
        self.first = self.last - more;
        self.flagged.retain(|number| *number >= self.first);
        Some(numbers + (more / 8 + 1) as usize)
    }
}

fn varint_len(value: u64) -> usize {
    (64 - value.leading_zeros()).div_ceil(7).max(1) as usize
}

/// Bytes of a sender in a digest, without its runs.
pub(in super::super) const HOLDING_LEN: usize = 16 + 1 + 1 + 1;

/// The most runs of a sender in a digest.
pub(in super::super) const HOLDING_RUNS_MAX: usize = RUNS_MAX;
