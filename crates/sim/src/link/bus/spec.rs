//! What a shared Ethernet is like.

use std::time::Duration;

use crate::link::QueueLimit;
use crate::link::spec::{ETHERNET_PAYLOAD_MIN, SpecError};

/// What a shared Ethernet is like. The default is the 10 Mb/s Ethernet of the standard at a tenth
/// of its longest cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusSpec {
    /// Bits per second. Default 10 Mbit/s.
    pub bandwidth: u64,
    /// From end to end; every two stations are taken to be this far apart. Default 2.5 µs: one
    /// segment of 500 m. The standard's largest network has about 25 µs.
    pub propagation: Duration,
    /// The unit of the back-off. Default 51.2 µs, the time of 64 bytes.
    pub slot: Duration,
    /// What a station waits between frames. Default 9.6 µs.
    pub gap: Duration,
    /// Bits before a frame; a station that hears a collision during them completes them. Default
    /// 64.
    pub preamble: u32,
    /// Bits that a station sends after it has heard a collision, so that all hear it. Default 32.
    pub jam: u32,
    /// Collisions after which a frame is given up. Default 16.
    pub attempts_max: u32,
    /// Collisions after which the back-off does not double any more. Default 10: up to 1,023 slots.
    pub doublings_max: u32,
    /// Bytes of a frame beyond the IP packet, without preamble and gap: header and check sequence.
    /// Default 18.
    pub overhead: u32,
    /// The smallest IP packet that a frame carries; a smaller one is padded to it. Default 46.
    pub payload_min: u32,
    /// What may wait at each station, the frame that it tries to send included. Default 64 packets.
    pub queue: QueueLimit,
}

impl Default for BusSpec {
    fn default() -> Self {
        Self {
            bandwidth: 10_000_000,
            propagation: Duration::from_nanos(2_500),
            slot: Duration::from_nanos(51_200),
            gap: Duration::from_nanos(9_600),
            preamble: 64,
            jam: 32,
            attempts_max: 16,
            doublings_max: 10,
            overhead: 18,
            payload_min: ETHERNET_PAYLOAD_MIN,
            queue: QueueLimit::packets(64),
        }
    }
}

impl BusSpec {
    /// How long a station sends a frame with an IP packet of `ip_bytes` in it, preamble included.
    pub fn frame_time(&self, ip_bytes: u32) -> Duration {
        self.time_on_cable(self.frame_bytes(ip_bytes))
    }

    /// Bytes of the frame that carries an IP packet of `ip_bytes`, without preamble.
    pub fn frame_bytes(&self, ip_bytes: u32) -> u32 {
        ip_bytes.max(self.payload_min).saturating_add(self.overhead)
    }

    /// Whether a bus can be like this.
    ///
    /// # Errors
    /// It has no bandwidth or no attempts, or it is so long that collisions pass unheard.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.bandwidth == 0 {
            return Err(SpecError::NoBandwidth);
        }
        if self.attempts_max == 0 {
            return Err(SpecError::Zero {
                field: "attempts_max",
            });
        }
        // The other may begin as late as it hears this one, and a third of a gap later if it has
        // waited for the gap.
        let most = self.frame_time(0).saturating_sub(self.gap / 3) / 2;
        if self.propagation > most {
            return Err(SpecError::BusTooLong {
                propagation: self.propagation,
                most,
            });
        }
        Ok(())
    }

    pub(super) fn time_on_cable(&self, frame_bytes: u32) -> Duration {
        self.bits(u64::from(self.preamble) + u64::from(frame_bytes) * 8)
    }

    pub(super) fn bits(&self, bits: u64) -> Duration {
        let nanos = bits.saturating_mul(1_000_000_000);
        Duration::from_nanos(nanos.div_ceil(self.bandwidth.max(1)))
    }
}
