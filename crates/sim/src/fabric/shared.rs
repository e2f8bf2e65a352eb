//! The media on which stations wait for each other: a shared Ethernet, a token ring.

use groupcast_core::Time;

use crate::link::bus::{Bus, BusCounters, BusStep, Delivered};
use crate::link::token_ring::{RingStep, TokenRing};

/// A medium that many stations share.
pub(super) enum SharedMedium<F> {
    Bus(Bus<F>),
    TokenRing(TokenRing<F>),
}

/// Something that it has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SharedStep {
    Bus(BusStep),
    TokenRing(RingStep),
}

impl<F> SharedMedium<F> {
    /// A station is to send a frame with an IP packet of this many bytes.
    pub(super) fn enqueue(&mut self, now: Time, station: usize, ip_bytes: u32, frame: F) {
        match self {
            Self::Bus(bus) => bus.enqueue(now, station, ip_bytes, frame),
            Self::TokenRing(ring) => ring.enqueue(now, station, ip_bytes, frame),
        };
    }

    /// A step is due.
    pub(super) fn handle(&mut self, now: Time, step: SharedStep) -> Option<Delivered<F>> {
        match (self, step) {
            (Self::Bus(bus), SharedStep::Bus(step)) => bus.handle(now, step),
            (Self::TokenRing(ring), SharedStep::TokenRing(step)) => ring.handle(now, step),
            _ => {
                debug_assert!(false, "steps go to the medium that they came from");
                None
            }
        }
    }

    /// A step to come, and when.
    pub(super) fn poll(&mut self) -> Option<(Time, SharedStep)> {
        match self {
            Self::Bus(bus) => bus.poll().map(|(at, step)| (at, SharedStep::Bus(step))),
            Self::TokenRing(ring) => ring
                .poll()
                .map(|(at, step)| (at, SharedStep::TokenRing(step))),
        }
    }

    /// What it did so far.
    pub(super) fn counters(&self) -> BusCounters {
        match self {
            Self::Bus(bus) => bus.counters(),
            Self::TokenRing(ring) => ring.counters(),
        }
    }
}
