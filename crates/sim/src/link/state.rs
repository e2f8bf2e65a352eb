//! One direction of a link at work.
//!
//! A packet waits until those before it have left, leaves at the link's bandwidth and arrives after
//! its delay. All of it follows at once from when the link will be free, so a hop costs the agenda
//! one event. Time must not go back from call to call; a changed [`LinkSpec`] holds for the packets
//! after it.

use std::time::Duration;

use groupcast_core::{Rng, Time};

use super::queue::{Backlog, SwitchBuffer};
use super::spec::{LinkSpec, nanos_on_wire};

/// What became of a packet that was to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// It does not arrive.
    Dropped(Drop),
    /// The packet arrives.
    Through {
        /// The arrival of the packet itself.
        first: Arrival,
        /// The copy of it that the link made, if it did.
        second: Option<Arrival>,
    },
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// Too much waited before the link.
    Queue,
    /// The switch that it was to leave had no memory for it.
    Buffer,
    /// Lost on the way.
    Loss,
}

/// A copy at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When its last bit is there.
    pub at: Time,
    /// The bit of the IP packet, headers included, that is flipped, if any.
    pub flipped: Option<u32>,
}

/// What one direction of a link did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// Packets sent, with those that were then lost and the copies that the link made.
    pub packets: u64,
    /// Bytes of them on the wire, framing included.
    pub bytes: u64,
    /// Packets that found too much waiting, or no memory in the switch.
    pub dropped_queue: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Copies of which a bit was flipped.
    pub corrupted: u64,
    /// How long it was sending.
    pub busy: Duration,
    /// The most bytes that waited, framing included.
    pub queue_bytes_high: u64,
    /// The most packets that waited.
    pub queue_packets_high: u32,
}

/// The state of one direction of a link.
#[derive(Clone, Default, Debug)]
pub struct LinkState {
    /// When the last bit of all that was accepted will have left.
    free_at: Time,
    backlog: Backlog,
    /// Whether a link of [`Loss::GilbertElliott`](super::Loss::GilbertElliott) is in a bad spell.
    is_bad: bool,
    packets: u64,
    bytes: u64,
    busy_nanos: u64,
    dropped: u64,
    lost: u64,
    duplicated: u64,
    corrupted: u64,
}

impl LinkState {
    /// An idle link.
    pub fn new() -> Self {
        Self::default()
    }

    /// An IP packet of `ip_bytes`, headers included, is to pass.
    #[inline]
    pub fn pass(&mut self, now: Time, ip_bytes: u32, spec: &LinkSpec, rng: &mut Rng) -> Passage {
        if !self.has_room(now, ip_bytes, spec) {
            return self.refuse(Drop::Queue);
        }
        self.send(now, ip_bytes, spec, rng)
    }

    /// The same out of a switch whose ports share `buffer`.
    pub fn pass_buffered(
        &mut self,
        now: Time,
        ip_bytes: u32,
        spec: &LinkSpec,
        buffer: &mut SwitchBuffer,
        rng: &mut Rng,
    ) -> Passage {
        if !self.has_room(now, ip_bytes, spec) {
            return self.refuse(Drop::Queue);
        }
        let leaves_at = self.begins_at(spec).max(now) + spec.serialisation(ip_bytes);
        if !buffer.admit(now, u64::from(ip_bytes), leaves_at) {
            return self.refuse(Drop::Buffer);
        }
        self.send(now, ip_bytes, spec, rng)
    }

    /// The same for a host that waits for room before its own link and drops nothing: also when
    /// there is room again, until when the host is stopped.
    ///
    /// The packet is queued at once, which changes nothing: it leaves after those before it,
    /// whenever it came.
    pub fn pass_patiently(
        &mut self,
        now: Time,
        ip_bytes: u32,
        spec: &LinkSpec,
        rng: &mut Rng,
    ) -> (Passage, Time) {
        self.backlog.settle(now);
        let passage = self.send(now, ip_bytes, spec, rng);
        (passage, self.backlog.room_at(now, &spec.queue))
    }

    /// When the link will have taken all that was accepted.
    pub(crate) fn taken_by(&self, spec: &LinkSpec) -> Time {
        self.begins_at(spec)
    }

    /// When all that was accepted will have left.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Bytes (framing included) and packets that wait; what is being sent does not.
    pub fn waiting(&mut self, now: Time) -> (u64, u32) {
        self.backlog.settle(now);
        self.backlog.len()
    }

    /// What it did so far.
    pub fn counters(&self) -> LinkCounters {
        let (queue_bytes_high, queue_packets_high) = self.backlog.high_water();
        LinkCounters {
            packets: self.packets,
            bytes: self.bytes,
            dropped_queue: self.dropped,
            lost: self.lost,
            duplicated: self.duplicated,
            corrupted: self.corrupted,
            busy: Duration::from_nanos(self.busy_nanos),
            queue_bytes_high,
            queue_packets_high,
        }
    }

    fn has_room(&mut self, now: Time, ip_bytes: u32, spec: &LinkSpec) -> bool {
        self.backlog.settle(now);
        self.begins_at(spec) <= now
            || self
                .backlog
                .has_room(spec.wire_bytes(ip_bytes), &spec.queue)
    }

    fn refuse(&mut self, why: Drop) -> Passage {
        self.dropped += 1;
        Passage::Dropped(why)
    }

    /// Sends a packet for which there is room.
    fn send(&mut self, now: Time, ip_bytes: u32, spec: &LinkSpec, rng: &mut Rng) -> Passage {
        let bytes = spec.wire_bytes(ip_bytes);
        let begins_at = self.begins_at(spec);
        if begins_at > now {
            self.backlog.push(begins_at, bytes);
        }
        let left = self.occupy(now, bytes, spec);
        if spec.is_plain() {
            let first = Arrival {
                at: left + spec.delay,
                flipped: None,
            };
            return Passage::Through {
                first,
                second: None,
            };
        }
        self.risk(left, ip_bytes, spec, rng)
    }

    /// Takes the link for `bytes` as soon as it is free; returns when the last bit has left.
    fn occupy(&mut self, now: Time, bytes: u64, spec: &LinkSpec) -> Time {
        let nanos = nanos_on_wire(bytes, spec.bandwidth);
        self.packets += 1;
        self.bytes += bytes;
        self.busy_nanos += nanos;
        let begins = self.free_at.max(now).as_nanos();
        self.free_at = Time::from_nanos(begins.saturating_add(nanos));
        self.begins_at(spec).max(now)
    }

    /// When the link takes the next packet: a token bucket does so ahead of when a wire would be
    /// free, by its depth.
    fn begins_at(&self, spec: &LinkSpec) -> Time {
        match spec.burst {
            0 => self.free_at,
            burst => {
                let ahead = nanos_on_wire(burst, spec.bandwidth);
                Time::from_nanos(self.free_at.as_nanos().saturating_sub(ahead))
            }
        }
    }

    /// Draws what happens to a packet that has `left`: loss, delay, damage, a copy.
    #[inline(never)]
    fn risk(&mut self, left: Time, ip_bytes: u32, spec: &LinkSpec, rng: &mut Rng) -> Passage {
        if spec.loss.takes(&mut self.is_bad, rng) {
            self.lost += 1;
            return Passage::Dropped(Drop::Loss);
        }
        let first = self.arrive(left, ip_bytes, spec, rng);
        let second = rng.chance(spec.duplication).then(|| {
            self.duplicated += 1;
            let left = self.occupy(left, spec.wire_bytes(ip_bytes), spec);
            self.arrive(left, ip_bytes, spec, rng)
        });
        Passage::Through { first, second }
    }

    fn arrive(&mut self, left: Time, ip_bytes: u32, spec: &LinkSpec, rng: &mut Rng) -> Arrival {
        let mut at = left + spec.delay;
        if !spec.jitter.is_zero() {
            at += rng.duration(Duration::ZERO, spec.jitter);
        }
        let flipped = rng.chance(spec.corruption).then(|| {
            self.corrupted += 1;
            rng.below(8 * u64::from(ip_bytes)) as u32
        });
        Arrival { at, flipped }
    }
}
