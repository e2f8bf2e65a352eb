//! A bucket of bytes that fills at a rate, and is emptied by what is sent. Each copy of a packet
//! that leaves this host counts.

use core::time::Duration;

use groupcast_core::Time;

/// What may be sent now, and what was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// What the slowest receiver says that it takes: bytes a second, and at once.
    bound: Option<(f64, f64)>,
    /// How often each packet leaves this host.
    fan_out: u32,
    /// The most of that in this epoch.
    fan_out_most: u32,
    /// Bytes that may be sent now; below zero after a send that was larger.
    tokens: f64,
    filled: Time,
    /// Bytes sent in this epoch, and the same without copies.
    used: u64,
    used_once: u64,
}

impl Bucket {
    pub(super) fn new(now: Time) -> Self {
        Self {
            bound: None,
            fan_out: 1,
            fan_out_most: 1,
            tokens: 0.0,
            filled: now,
            used: 0,
            used_once: 0,
        }
    }

    /// An empty one for the same receivers and copies.
    pub(super) fn anew(&self, now: Time) -> Self {
        Self {
            fan_out: self.fan_out,
            ..self.with_copies_anew(now)
        }
    }

    /// An empty one for the same receivers; how many copies there are is not known yet.
    pub(super) fn with_copies_anew(&self, now: Time) -> Self {
        Self {
            bound: self.bound,
            ..Self::new(now)
        }
    }

    /// Receivers take so many bytes a second, and so many at once, and no more: `None`, they have
    /// named no limit.
    pub(super) fn bound(&mut self, takes: Option<(u64, u64)>) {
        self.bound = takes.map(|(rate, burst)| (rate as f64, burst as f64));
    }

    /// The rate `own`, within what receivers take: that is what comes to each.
    pub(super) fn bounded(&self, own: Option<f64>) -> Option<f64> {
        let bound = self.bound.map(|(rate, _)| rate * f64::from(self.fan_out));
        match (own, bound) {
            (Some(own), Some(bound)) => Some(own.min(bound)),
            (own, bound) => own.or(bound),
        }
    }

    /// From now on each packet leaves this host so often: at least once.
    pub(super) fn fan_out(&mut self, times: u32) {
        self.fan_out = times.max(1);
    }

    /// How often each packet leaves this host.
    pub(super) fn copies(&self) -> u32 {
        self.fan_out.max(1)
    }

    /// Bytes that leave this host with a packet, at most.
    pub(super) fn leaves(&self, packet: usize) -> usize {
        packet.saturating_mul(self.fan_out.max(self.fan_out_most) as usize)
    }

    /// Fills at `pace` bytes a second; whether something may be sent now.
    pub(super) fn has_any(&mut self, now: Time, pace: f64) -> bool {
        // What was not used in the last milliseconds is lost: a pause is not followed by a burst.
        let burst = (pace * 2e-3).max(3000.0);
        let fan_out = f64::from(self.fan_out);
        let burst = self
            .bound
            .map_or(burst, |(_, most)| burst.min(most * fan_out));
        let filled = (now - self.filled).as_secs_f64() * pace;
        self.tokens = (self.tokens + filled).min(burst);
        self.filled = now;
        self.tokens > 0.0
    }

    /// A packet of so many bytes was sent, to all that it is for; whether there is a rate, or what
    /// receivers take is the only one.
    pub(super) fn spend(&mut self, bytes: usize, has_rate: bool) {
        self.fan_out_most = self.fan_out_most.max(self.fan_out);
        self.used_once += bytes as u64;
        let bytes = bytes as u64 * u64::from(self.fan_out);
        self.used += bytes;
        if has_rate || self.bound.is_some() {
            self.tokens -= bytes as f64;
        }
    }

    /// When something may be sent again, at `pace` bytes a second.
    pub(super) fn due(&self, now: Time, pace: f64) -> Time {
        if self.tokens > 0.0 {
            return now;
        }
        let wait = Duration::try_from_secs_f64((1.0 - self.tokens) / pace);
        now + wait.unwrap_or(Duration::MAX)
    }

    /// Bytes sent in this epoch.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Nothing was sent in this epoch that counts.
    pub(super) fn forget_used(&mut self) {
        (self.used, self.used_once) = (0, 0);
    }

    /// An epoch is over; the bytes that were sent in it, without copies.
    pub(super) fn end_epoch(&mut self) -> u64 {
        let once = self.used_once;
        self.forget_used();
        self.fan_out_most = self.fan_out;
        once
    }
}
