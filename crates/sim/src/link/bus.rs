//! A shared Ethernet: one cable, many stations, carrier sense and collisions (IEEE 802.3 CSMA/CD).

use std::time::Duration;

use super::queue::QueueLimit;
use super::spec::{ETHERNET_PAYLOAD_MIN, SpecError, nanos_on_wire};

/// What a shared Ethernet is like. The default is the 10 Mb/s Ethernet of the standard at a tenth of its longest cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusSpec {
    /// Bits per second. Default 10 Mbit/s.
    pub bandwidth: u64,
    /// From end to end; every two stations are taken to be this far apart. Default 2.5 µs: one segment of 500 m. The
    /// standard's largest network has about 25 µs.
    pub propagation: Duration,
    /// The unit of the back-off. Default 51.2 µs, the time of 64 bytes.
    pub slot: Duration,
    /// What a station waits between frames. Default 9.6 µs.
    pub gap: Duration,
    /// Bits before a frame; a station that hears a collision during them completes them. Default 64.
    pub preamble: u32,
    /// Bits that a station sends after it has heard a collision, so that all hear it. Default 32.
    pub jam: u32,
    /// Collisions after which a frame is given up. Default 16.
    pub attempts_max: u32,
    /// Collisions after which the back-off does not double any more. Default 10: up to 1,023 slots.
    pub doublings_max: u32,
    /// Bytes of a frame beyond the IP packet, without preamble and gap: header and check sequence. Default 18.
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
        let frame = u64::from(ip_bytes.max(self.payload_min)) + u64::from(self.overhead);
        self.bits(u64::from(self.preamble) + frame * 8)
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
        let most = self.frame_time(0) / 2;
        if self.propagation > most {
            return Err(SpecError::BusTooLong {
                propagation: self.propagation,
                most,
            });
        }
        Ok(())
    }

    fn bits(&self, bits: u64) -> Duration {
        Duration::from_nanos(nanos_on_wire(bits.div_ceil(8), self.bandwidth))
    }
}
