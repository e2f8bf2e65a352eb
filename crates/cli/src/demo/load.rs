//! The messages of the demo's members: of random sizes and services, from the seed of the run.

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::{Rng, Service};

/// An endless supply of messages of one member.
#[derive(Debug)]
pub(crate) struct Messages {
    rng: Rng,
}

impl Messages {
    /// Most messages have at most this many bytes, so that several share a datagram.
    const SHORT_MAX: u64 = 1_200;
    /// The others have at most this many, so that each needs several datagrams.
    const LONG_MAX: u64 = 24_000;

    /// The supply of messages that follows from `rng`.
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng }
    }

    /// The next message, with its service.
    pub(crate) fn next(&mut self) -> (Service, Bytes) {
        let service = self.service();
        let len = match self.rng.chance(0.02) {
            true => self.rng.range(Self::SHORT_MAX..Self::LONG_MAX),
            false => self.rng.range(1..Self::SHORT_MAX),
        };
        (service, self.payload(len as usize))
    }

    /// A random service: agreed in most cases.
    fn service(&mut self) -> Service {
        match self.rng.below(10) {
            0 => Service::Fifo,
            1 => Service::Causal,
            2 | 3 => Service::Safe,
            _ => Service::Agreed,
        }
    }

    fn payload(&mut self, len: usize) -> Bytes {
        let mut payload = BytesMut::with_capacity(len + 7);
        while payload.len() < len {
            payload.put_u64(self.rng.next_u64());
        }
        payload.truncate(len);
        payload.freeze()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_decides_sizes_services_and_bytes() {
        let take = |seed| {
            let mut messages = Messages::new(Rng::new(seed));
            std::iter::repeat_with(move || messages.next()).take(200)
        };
        assert!(take(1).eq(take(1)));
        assert!(!take(1).eq(take(2)));
        let services: BTreeSet<u8> = take(1).map(|(service, _)| service.code()).collect();
        assert_eq!(services.len(), 4, "{services:?}");
        assert!(take(1).any(|(_, payload)| payload.len() > 1_500));
    }
}
