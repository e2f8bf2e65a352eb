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
    /// Which of them the gossiper has repaired.
    pub(in super::super) repaired: Flags,
}

/// Some of the numbers of a run, a bit each from its last number down: no more bytes than on the
/// wire, however many they are.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in super::super) struct Flags {
    /// The last byte is not 0.
    bits: Vec<u8>,
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
        let flagged = holding.runs.iter().any(|run| !run.repaired.is_empty());
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
        let repaired = match bits {
            true => flags(reader, more)?,
            false => Flags::default(),
        };
        runs.push(Run {
            first,
            last,
            repaired,
        });
        before = Some(first);
    }
    Ok(runs)
}

/// Reads the bits of a run of `more` numbers and one.
fn flags(reader: &mut Reader<'_>, more: u64) -> Result<Flags, DecodeError> {
    let len = usize::try_from(more / 8 + 1).unwrap_or(usize::MAX);
    let bits = reader.take("repaired", len)?;
    let flags = Flags::of(bits);
    match flags.highest() {
        Some(below) if below > more => {
            Err(reader.invalid("repaired", u64::from(bits[bits.len() - 1])))
        }
        _ => Ok(flags),
    }
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
            let mut set = run.repaired.bits.clone();
            set.resize((more / 8 + 1) as usize, 0);
            writer.put(&set);
        }
    }
}

impl Flags {
    fn of(bits: &[u8]) -> Self {
        let used = bits.iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |at| at + 1);
        Self {
            bits: bits[..used].to_vec(),
        }
    }

    /// Marks the number that is `below` under the run's last.
    fn set(&mut self, below: u64) {
        let byte = (below / 8) as usize;
        if self.bits.len() <= byte {
            self.bits.resize(byte + 1, 0);
        }
        self.bits[byte] |= 1 << (below % 8);
    }

    fn get(&self, below: u64) -> bool {
        let byte = usize::try_from(below / 8).ok();
        let byte = byte.and_then(|at| self.bits.get(at));
        byte.is_some_and(|byte| byte >> (below % 8) & 1 == 1)
    }

    /// How far under the run's last number the lowest one is that is marked.
    fn highest(&self) -> Option<u64> {
        let last = self.bits.last()?;
        Some(self.bits.len() as u64 * 8 - 1 - u64::from(last.leading_zeros()))
    }

    /// Marks nothing any more that is further than `more` under the run's last number.
    fn cut(&mut self, more: u64) {
        let kept = usize::try_from(more / 8 + 1).unwrap_or(usize::MAX);
        self.bits.truncate(kept);
        if self.bits.len() == kept {
            self.bits[kept - 1] &= u8::MAX >> (7 - more % 8);
        }
        *self = Self::of(&self.bits);
    }

    /// Whether nothing is marked.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }
}

impl Run {
    /// The numbers `first` to `last`, none of them repaired.
    pub(in super::super) fn of(first: u64, last: u64) -> Self {
        Self {
            first,
            last,
            repaired: Flags::default(),
        }
    }

    /// Its gossiper has repaired `number`, which is in it.
    pub(in super::super) fn set_repaired(&mut self, number: u64) {
        self.repaired.set(self.last - number);
    }

    /// Whether its gossiper has repaired `number`.
    pub(in super::super) fn is_repaired(&self, number: u64) -> bool {
        (self.first..=self.last).contains(&number) && self.repaired.get(self.last - number)
    }

    /// The lowest and the highest number between which all are that its gossiper has repaired.
    pub(in super::super) fn repaired_within(&self) -> Option<(u64, u64)> {
        Some((self.last - self.repaired.highest()?, self.last))
    }

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
        self.repaired.cut(more);
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

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    /// A digest of one run whose flags fill a datagram.
    fn full(more: u64, flags: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body);
        let origin = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        writer.member(origin).u8(1).u8(1);
        writer.varint(1 << 40).varint(more).put(flags);
        body
    }

    #[test]
    fn flags_take_no_more_memory_than_bytes() {
        let body = full(65_000 * 8 - 1, &[0xff; 65_000]);
        let digest = read(&mut Reader::new(&body)).expect("a digest");
        let run = &digest[0].runs[0];
        assert!(run.repaired.bits.capacity() <= body.len());
        assert_eq!(run.repaired_within(), Some((run.first, run.last)));
        assert!((run.first..=run.last).all(|number| run.is_repaired(number)));
        let short = full(u64::MAX >> 24, &[0xff; 65_000]);
        assert!(
            read(&mut Reader::new(&short)).is_err(),
            "bits that are not there"
        );
    }

    #[test]
    fn a_flag_beyond_its_run_is_refused() {
        for more in 0..24 {
            let mut flags = alloc::vec![0u8; more as usize / 8 + 1];
            flags[more as usize / 8] = 1 << (more % 8);
            assert!(read(&mut Reader::new(&full(more, &flags))).is_ok());
            if more % 8 < 7 {
                flags[more as usize / 8] = 2 << (more % 8);
                assert!(read(&mut Reader::new(&full(more, &flags))).is_err());
            }
        }
    }

    #[test]
    fn a_run_that_is_shortened_keeps_the_flags_of_what_is_left() {
        for budget in 5..200 {
            let mut run = Run::of(1, 999);
            for number in (1..=999).filter(|number| number % 3 == 0) {
                run.set_repaired(number);
            }
            assert!(run.shorten(budget, true).expect("room") <= budget);
            let marked = (1..=999).filter(|number| run.is_repaired(*number));
            let expected = (run.first..=999).filter(|number| number % 3 == 0);
            assert!(marked.eq(expected));
            assert!(run.repaired.highest() <= Some(run.last - run.first));
        }
    }
}
