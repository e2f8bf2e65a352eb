//! What a link is like, and what is wrong with a description that no link can have.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::loss::Loss;
use super::queue::QueueLimit;

/// Bytes that an Ethernet frame takes on the wire beyond the IP packet in it: preamble 8, header
/// and check sequence 18, gap between frames 12.
pub const ETHERNET_OVERHEAD: u32 = 38;

/// The smallest IP packet that an Ethernet frame carries: a smaller one is padded.
pub const ETHERNET_PAYLOAD_MIN: u32 = 46;

const BIT_NANOS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// One direction of a link. The presets are its defaults; change what differs with the `with_…`
/// methods or by struct update.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkSpec {
    /// Bits per second; 0 is infinite: nothing ever waits.
    pub bandwidth: u64,
    /// Bytes that may leave at once after the link has been idle for as long as they take: the
    /// depth of a token bucket, as test beds emulate a bandwidth with it. 0, a real wire: one after
    /// the other.
    pub burst: u64,
    /// Propagation from end to end, after the last bit has left.
    pub delay: Duration,
    /// What may wait before the link. What is being sent does not count.
    pub queue: QueueLimit,
    /// How packets are lost on the way; a lost packet has taken its time on the link.
    pub loss: Loss,
    /// The most by which a packet is late at random, evenly between zero and this; a late packet
    /// does not hold up those behind it, so jitter above the gap between packets reorders them.
    pub jitter: Duration,
    /// Probability that a packet that was not lost is sent a second time, right behind the first.
    pub duplication: f64,
    /// Probability that a bit of a copy is flipped.
    pub corruption: f64,
    /// Bytes that a frame takes on the wire beyond the IP packet.
    pub overhead: u32,
    /// The smallest IP packet that a frame carries; a smaller one is padded to it.
    pub payload_min: u32,
}

impl LinkSpec {
    /// An Ethernet of `bandwidth` bits a second, its framing included, with 512 KiB before it (the
    /// port of a switch).
    pub const fn ethernet(bandwidth: u64, delay: Duration) -> Self {
        Self {
            queue: QueueLimit::bytes(512 << 10),
            overhead: ETHERNET_OVERHEAD,
            payload_min: ETHERNET_PAYLOAD_MIN,
            ..Self::ideal(bandwidth, delay)
        }
    }

    /// A link without framing, loss or limit, as the networks of simulation papers have them.
    ///
    /// For the drop-tail queue of ns-2 add [`QueueLimit::packets`]`(50)`. Without a limit what
    /// waits takes 16 bytes of memory a packet.
    pub const fn ideal(bandwidth: u64, delay: Duration) -> Self {
        Self {
            bandwidth,
            burst: 0,
            delay,
            queue: QueueLimit::NONE,
            loss: Loss::None,
            jitter: Duration::ZERO,
            duplication: 0.0,
            corruption: 0.0,
            overhead: 0,
            payload_min: 0,
        }
    }

    /// The same as a token bucket that holds this many bytes emulates it.
    pub const fn with_burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// The same with another limit of what may wait.
    pub const fn with_queue(self, queue: QueueLimit) -> Self {
        Self { queue, ..self }
    }

    /// The same with another loss.
    pub const fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// The same with another jitter.
    pub const fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// Bytes that an IP packet takes on the wire, padding and framing included.
    pub fn wire_bytes(&self, ip_bytes: u32) -> u64 {
        u64::from(ip_bytes.max(self.payload_min)) + u64::from(self.overhead)
    }

    /// How long the last bit of an IP packet is behind the first when they leave, rounded up to a
    /// nanosecond.
    pub fn serialisation(&self, ip_bytes: u32) -> Duration {
        Duration::from_nanos(nanos_on_wire(self.wire_bytes(ip_bytes), self.bandwidth))
    }

    /// Whether nothing goes wrong on it but a full queue: no randomness is drawn then.
    pub fn is_plain(&self) -> bool {
        self.loss == Loss::None
            && self.jitter.is_zero()
            && self.duplication <= 0.0
            && self.corruption <= 0.0
    }

    /// Whether a link can be like this.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self) -> Result<(), SpecError> {
        self.loss.check()?;
        check_probability("duplication", self.duplication)?;
        check_probability("corruption", self.corruption)
    }
}

/// Nanoseconds that `bytes` take at `bandwidth` bits a second, rounded up.
pub(super) fn nanos_on_wire(bytes: u64, bandwidth: u64) -> u64 {
    match bandwidth {
        0 => 0,
        _ => bytes.saturating_mul(BIT_NANOS_PER_BYTE).div_ceil(bandwidth),
    }
}

/// That `value` of `field` is between 0 and 1.
pub(super) fn check_probability(field: &'static str, value: f64) -> Result<(), SpecError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(SpecError::NotAProbability { field, value })
    }
}

/// Why no link or bus can be as described.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum SpecError {
    /// A probability is not between 0 and 1.
    NotAProbability {
        /// The name of the field.
        field: &'static str,
        /// What it was.
        value: f64,
    },
    /// A shared Ethernet and a token ring must have a bandwidth above zero.
    NoBandwidth,
    /// A bus is longer than the smallest frame: a sender would be done before it hears of a
    /// collision.
    BusTooLong {
        /// Its propagation, end to end.
        propagation: Duration,
        /// The longest that it may be.
        most: Duration,
    },
    /// A count of a bus must be above zero.
    Zero {
        /// The name of the field.
        field: &'static str,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAProbability { field, value } => write!(
                f,
                "{field} is {value}, but a probability is between 0 and 1"
            ),
            Self::NoBandwidth => write!(
                f,
                "a shared medium needs a bandwidth above 0, in bits per second"
            ),
            Self::BusTooLong { propagation, most } => write!(
                f,
                "a propagation of {propagation:?} is too long for this bus: its smallest frame must last until a \
                 collision at the far end is heard, so {most:?} is the most"
            ),
            Self::Zero { field } => write!(f, "{field} of a shared bus must be above 0"),
        }
    }
}

impl Error for SpecError {}
