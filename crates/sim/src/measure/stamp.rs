//! The head of a measured payload: which host sent it, its number, and when it was handed over.
//!
//! A payload that carries a stamp can be recognised wherever it is seen, inside a datagram too,
//! before the protocol has ordered it. A shorter one is known by its
//! [`MessageId`](groupcast_core::MessageId) alone, at its delivery.
//!
//! | byte | meaning |
//! |---|---|
//! | 0..4 | magic |
//! | 4..8 | host |
//! | 8..12 | number |
//! | 12..20 | nanoseconds since the start of the world |
//!
//! All big-endian.

use bytes::Bytes;
use groupcast_core::Time;

/// Not the beginning of any text or of a small number.
const MAGIC: [u8; 4] = [0xb7, b'g', b'c', 0x1a];

/// The beginning of a measured payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The host that sent it.
    pub host: u32,
    /// How many messages that host had submitted before, counted over all its processes.
    pub number: u32,
    /// When it was handed over, in the world's time.
    pub at: Time,
}

impl Stamp {
    /// Its length in bytes: the shortest payload that carries one.
    pub const LEN: usize = 20;

    /// The stamp at the head of `payload`, if there is one.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let head: &[u8; Self::LEN] = payload.first_chunk()?;
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..4] != MAGIC {
            return None;
        }
        Some(Self {
            host: word(4),
            number: word(8),
            at: Time::from_nanos(u64::from(word(12)) << 32 | u64::from(word(16))),
        })
    }

    /// A payload of `len` bytes that begins with the stamp; one of zeros if it is too short for
    /// that.
    pub fn payload(self, len: usize) -> Bytes {
        let mut payload = vec![0; len];
        if let Some(head) = payload.first_chunk_mut::<{ Self::LEN }>() {
            head[..4].copy_from_slice(&MAGIC);
            head[4..8].copy_from_slice(&self.host.to_be_bytes());
            head[8..12].copy_from_slice(&self.number.to_be_bytes());
            head[12..].copy_from_slice(&self.at.as_nanos().to_be_bytes());
        }
        payload.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        host: 3,
        number: 70_000,
        at: Time::from_nanos(0x0123_4567_89ab_cdef),
    };

    #[test]
    fn a_stamp_comes_back_from_every_payload_that_holds_it() {
        for len in [Stamp::LEN, Stamp::LEN + 1, 1_350] {
            let payload = STAMP.payload(len);
            assert_eq!(payload.len(), len);
            assert_eq!(Stamp::read(&payload), Some(STAMP));
        }
    }

    #[test]
    fn what_is_short_or_somebody_elses_has_no_stamp() {
        assert_eq!(Stamp::read(&STAMP.payload(Stamp::LEN - 1)), None);
        assert_eq!(Stamp::read(&[0; 64]), None);
        let mut payload = STAMP.payload(32).to_vec();
        payload[3] ^= 1;
        assert_eq!(Stamp::read(&payload), None);
    }
}
