//! CUBIC (RFC 9438), without HyStart.

use groupcast_core::Time;

use super::{INITIAL, Sample};

/// Section 4.1: how steep the curve is, in segments over cubed seconds.
const STEEPNESS: f64 = 0.4;
/// What is left of the window after a loss.
const DECREASE: f64 = 0.7;
/// Section 4.3: segments a round trip that give what Reno has with this decrease.
const FRIENDLY: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);

/// The window of a flow, in segments.
#[derive(Debug)]
pub(in crate::flow) struct Cubic {
    segment: f64,
    window: f64,
    threshold: f64,
    /// The window before it last fell, and where the curve is flat.
    before: f64,
    flat: f64,
    /// The curve since the last loss.
    curve: Option<Curve>,
}

#[derive(Clone, Copy, Debug)]
struct Curve {
    began: Time,
    /// When it is flat, in seconds after it began.
    flat_after: f64,
    /// The window that Reno would have.
    friendly: f64,
}

impl Cubic {
    pub(super) fn new(segment: f64) -> Self {
        Self {
            segment,
            window: INITIAL,
            threshold: f64::MAX,
            before: 0.0,
            flat: 0.0,
            curve: None,
        }
    }

    pub(super) fn window(&self) -> f64 {
        self.window * self.segment
    }

    pub(super) fn grow(&mut self, sample: &Sample) {
        let acked = sample.acked / self.segment;
        if self.window < self.threshold {
            self.window += acked;
            return;
        }
        let mut curve = self.curve.unwrap_or_else(|| {
            self.flat = self.flat.max(self.window);
            Curve {
                began: sample.now,
                flat_after: ((self.flat - self.window) / STEEPNESS).cbrt(),
                friendly: self.window,
            }
        });
        let step = if curve.friendly < self.before {
            FRIENDLY
        } else {
            1.0
        };
        curve.friendly += step * acked / self.window;
        let after = (sample.now - curve.began + sample.round_trip).as_secs_f64();
        let target = self.flat + STEEPNESS * (after - curve.flat_after).powi(3);
        let target = target.clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window * acked;
        self.window = self.window.max(curve.friendly);
        self.curve = Some(curve);
    }

    pub(super) fn congested(&mut self, _: Time) {
        // Section 4.7: a flow whose window falls twice in a row leaves room for new ones.
        self.flat = match self.window < self.flat {
            true => self.window * (1.0 + DECREASE) / 2.0,
            false => self.window,
        };
        self.before = self.window;
        self.window = (self.window * DECREASE).max(2.0);
        self.threshold = self.window;
        self.curve = None;
    }

    pub(super) fn timed_out(&mut self, now: Time) {
        self.congested(now);
        self.window = 1.0;
    }
}
