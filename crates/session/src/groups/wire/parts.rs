//! A daemon's state in parts, if it is longer than a message may be.

use std::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::ConfigId;
use groupcast_core::wire::{DecodeError, Reader, Writer};

pub(super) const STATE_PART: u8 = 18;

/// The longest state that daemons take of each other, in as many parts as it needs. The default
/// limits of a daemon keep its state below half of that; a daemon that exceeds it disconnects
/// clients.
pub(in crate::groups) const STATE_MAX: usize = 256 << 20;

/// The most bytes before those of the state: kind, config, index, and the flag of the last part.
const HEAD_MAX: usize = 1 + 24 + 10 + 1;

/// One part of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::groups) struct StatePart<'a> {
    /// The configuration for whose exchange the state is.
    pub(in crate::groups) config: ConfigId,
    /// 0, 1, …
    index: u64,
    is_last: bool,
    bytes: &'a [u8],
}

impl<'a> StatePart<'a> {
    /// Cuts the envelope of a state into envelopes of at most `max` bytes. `None` if `max` leaves
    /// no room for bytes of the state.
    pub(in crate::groups) fn split(
        config: ConfigId,
        state: &[u8],
        max: usize,
    ) -> Option<VecDeque<Bytes>> {
        let room = max.checked_sub(HEAD_MAX).filter(|room| *room > 0)?;
        let count = state.len().div_ceil(room);
        let parts = state.chunks(room).enumerate().map(|(index, bytes)| {
            let part = StatePart {
                config,
                index: index as u64,
                is_last: index + 1 == count,
                bytes,
            };
            let mut envelope = Vec::with_capacity(HEAD_MAX + bytes.len());
            part.encode(&mut envelope);
            Bytes::from(envelope)
        });
        Some(parts.collect())
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let writer = &mut Writer::new(bytes);
        writer.u8(STATE_PART).config(self.config).varint(self.index);
        writer.u8(u8::from(self.is_last)).put(self.bytes);
    }

    /// Reads a part behind its kind.
    pub(super) fn take(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            config: reader.config("config")?,
            index: reader.varint("part")?,
            is_last: match reader.u8("last")? {
                flag @ (0 | 1) => flag == 1,
                other => return Err(reader.invalid("last", u64::from(other))),
            },
            bytes: reader.rest(),
        })
    }
}

/// The parts of one daemon's state that have come.
#[derive(Debug, Default)]
pub(in crate::groups) struct StateParts {
    bytes: Vec<u8>,
    next: u64,
}

impl StateParts {
    /// Takes the next part, and returns the envelope of the state if it was the last. A part out of
    /// turn, or beyond [`STATE_MAX`], is skipped, and so are all that follow.
    pub(in crate::groups) fn take(&mut self, part: &StatePart<'_>) -> Option<Vec<u8>> {
        let fits = self.bytes.len() + part.bytes.len() <= STATE_MAX;
        if part.index != self.next || !fits {
            return None;
        }
        self.next += 1;
        self.bytes.extend_from_slice(part.bytes);
        part.is_last.then(|| std::mem::take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, MemberId, NodeId};

    use super::super::Envelope;
    use super::*;

    fn config() -> ConfigId {
        ConfigId {
            counter: 1,
            representative: MemberId {
                node: NodeId(2),
                incarnation: Incarnation(3),
            },
        }
    }

    fn gather(parts: &mut StateParts, envelope: &[u8]) -> Option<Vec<u8>> {
        assert!(!Envelope::is_data(envelope));
        let Ok(Some(Envelope::StatePart(part))) = Envelope::decode(envelope) else {
            panic!("not a part");
        };
        assert_eq!(part.config, config());
        parts.take(&part)
    }

    #[test]
    fn golden_bytes() {
        let parts = StatePart::split(config(), &[9; 3], HEAD_MAX + 2).unwrap();
        #[rustfmt::skip]
        let head = [18,  0, 0, 0, 0, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(parts[0], [&head[..], &[0, 0, 9, 9]].concat());
        assert_eq!(parts[1], [&head[..], &[1, 1, 9]].concat());
        assert_eq!(parts.len(), 2);
    }

    #[test]
    fn parts_give_the_whole_again_and_none_exceeds_the_limit() {
        let state: Vec<u8> = (0..2_000u32).map(|number| number as u8).collect();
        for max in [HEAD_MAX + 1, 100, 1_000, HEAD_MAX + state.len(), 1 << 20] {
            let envelopes = StatePart::split(config(), &state, max).unwrap();
            let mut parts = StateParts::default();
            for (index, envelope) in envelopes.iter().enumerate() {
                assert!(envelope.len() <= max);
                let whole = gather(&mut parts, envelope);
                let is_last = index + 1 == envelopes.len();
                assert_eq!(whole, is_last.then(|| state.clone()));
            }
        }
        assert_eq!(StatePart::split(config(), &state, HEAD_MAX), None);
    }

    #[test]
    fn parts_out_of_turn_and_beyond_the_limit_are_passed_over() {
        let state = [1; 100];
        let envelopes = StatePart::split(config(), &state, 60).unwrap();
        let mut parts = StateParts::default();
        assert_eq!(gather(&mut parts, &envelopes[0]), None);
        assert_eq!(gather(&mut parts, &envelopes[0]), None);
        assert_eq!(parts.bytes.len(), 24);
        assert_eq!(gather(&mut parts, envelopes.back().unwrap()), None);
        let mut endless = StateParts::default();
        let piece = vec![0; STATE_MAX / 4];
        for index in 0..10 {
            let part = StatePart {
                config: config(),
                index,
                is_last: index == 9,
                bytes: &piece,
            };
            assert_eq!(endless.take(&part), None);
            assert!(endless.bytes.len() <= STATE_MAX);
        }
    }
}
