//! How large a flow's window is, and at which rate it may be used up.

mod bbr;
mod cubic;

use std::time::Duration;

use groupcast_core::Time;

use self::bbr::Bbr;
use self::cubic::Cubic;
use super::Congestion;

/// The window of a flow that begins, in segments (RFC 6928).
const INITIAL: f64 = 10.0;

/// What an acknowledgement says. All in bytes, but times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Time,
    /// Newly delivered.
    pub(super) acked: f64,
    pub(super) flying: f64,
    pub(super) round_trip: Duration,
    /// At which the newest was delivered, a second.
    pub(super) rate: f64,
    /// Delivered in all, and when the newest of what is acknowledged was sent.
    pub(super) delivered: f64,
    pub(super) delivered_then: f64,
    /// Whether the window may grow: no loss is being made good.
    pub(super) grows: bool,
}

/// The window of a flow.
#[derive(Debug)]
pub(super) enum Control {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Control {
    pub(super) fn new(congestion: Congestion, segment: f64) -> Self {
        match congestion {
            Congestion::Reno => Self::Reno(Reno::new(segment)),
            Congestion::Cubic => Self::Cubic(Cubic::new(segment)),
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new(segment))),
        }
    }

    /// Bytes that may be on their way.
    pub(super) fn window(&self) -> f64 {
        match self {
            Self::Reno(reno) => reno.window,
            Self::Cubic(cubic) => cubic.window(),
            Self::Bbr(bbr) => bbr.window(),
        }
    }

    /// Bytes a second, if it is not the window alone.
    pub(super) fn pace(&self) -> Option<f64> {
        match self {
            Self::Reno(_) | Self::Cubic(_) => None,
            Self::Bbr(bbr) => Some(bbr.pace()),
        }
    }

    /// Something has arrived.
    pub(super) fn acknowledged(&mut self, sample: &Sample) {
        match self {
            Self::Reno(reno) if sample.grows => reno.grow(sample.acked),
            Self::Cubic(cubic) if sample.grows => cubic.grow(sample),
            Self::Reno(_) | Self::Cubic(_) => {}
            Self::Bbr(bbr) => bbr.acknowledged(sample),
        }
    }

    /// Something is lost of a window of `flying` bytes that has not fallen for it yet.
    pub(super) fn congested(&mut self, now: Time, flying: f64) {
        match self {
            Self::Reno(reno) => reno.congested(flying),
            Self::Cubic(cubic) => cubic.congested(now),
            Self::Bbr(_) => {}
        }
    }

    /// Nothing has come back of `flying` bytes.
    pub(super) fn timed_out(&mut self, now: Time, flying: f64) {
        match self {
            Self::Reno(reno) => {
                reno.congested(flying);
                reno.window = reno.segment;
            }
            Self::Cubic(cubic) => cubic.timed_out(now),
            Self::Bbr(bbr) => bbr.timed_out(),
        }
    }
}

/// RFC 5681.
#[derive(Debug)]
pub(super) struct Reno {
    segment: f64,
    window: f64,
    /// Below it the window doubles each round trip.
    threshold: f64,
}

impl Reno {
    fn new(segment: f64) -> Self {
        Self {
            segment,
            window: INITIAL * segment,
            threshold: f64::MAX,
        }
    }

    fn grow(&mut self, acked: f64) {
        // A segment for each window, counted in bytes (RFC 3465).
        self.window += match self.window < self.threshold {
            true => acked,
            false => acked * self.segment / self.window,
        };
    }

    fn congested(&mut self, flying: f64) {
        self.threshold = (flying.min(self.window) / 2.0).max(2.0 * self.segment);
        self.window = self.threshold;
    }
}
