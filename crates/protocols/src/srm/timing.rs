//! How long requests and repairs wait: the timer parameters, fixed, by the size of the group, or
//! adapted (004 5.4).
//!
//! A request waits for a random time in [C1·d, (C1 + C2)·d], where d is the distance to the source;
//! a repair for one in [D1·d, (D1 + D2)·d], where d is the distance to the member that asked. The
//! adaptive rules and their constants are those of Floyd et al., *A reliable multicast framework*
//! (1997), as ns-2 has them (`srm-adaptive.tcl`).

use alloc::format;
use core::time::Duration;

use groupcast_core::Rng;

use super::config::ConfigError;

/// How the parameters of timers are found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Timing {
    /// As given.
    Fixed(Parameters),
    /// C1 = C2 = 2, D1 = D2 = log10 G: what 004 ch. 6 uses.
    LogGroup,
    /// C1 = D1 = 0, C2 = D2 = √G: what 004 6.3 uses on stars, where all are equally far.
    SqrtGroup,
    /// Adapted to the duplicates and the delays that there were.
    Adaptive,
}

/// Parameters of timers, in distances.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameters {
    /// The least that a request waits.
    pub c1: f64,
    /// How much more it may wait.
    pub c2: f64,
    /// The least that a repair waits.
    pub d1: f64,
    /// How much more it may wait.
    pub d2: f64,
}

impl Parameters {
    /// ns-2's own defaults.
    pub const NS2: Self = Self {
        c1: 2.0,
        c2: 2.0,
        d1: 1.0,
        d2: 1.0,
    };
}

impl Timing {
    /// What a request's interval is multiplied with when it is backed off.
    pub(super) fn backoff(self) -> u32 {
        match self {
            Self::Adaptive => 3,
            _ => 2,
        }
    }

    pub(super) fn validate(self) -> Result<(), ConfigError> {
        let Self::Fixed(Parameters { c1, c2, d1, d2 }) = self else {
            return Ok(());
        };
        let in_range = |value: &f64| (0.0..=10_000.0).contains(value);
        if [c1, c2, d1, d2].iter().all(in_range) && c1 + c2 > 0.0 {
            return Ok(());
        }
        Err(ConfigError::new(
            "timing",
            format!("C1 = {c1}, C2 = {c2}, D1 = {d1}, D2 = {d2}"),
            "parameters from 0 to 10000, and C1 + C2 above 0",
        ))
    }
}

/// The parameters of now, and what adapts them.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    timing: Timing,
    request: Adapted,
    /// From the first repair on, when the size of the group is known.
    repair: Option<Adapted>,
}

/// One pair of parameters, (C1, C2) or (D1, D2), with the averages that move it.
#[derive(Clone, Copy, Debug)]
struct Adapted {
    low: f64,
    width: f64,
    /// Duplicates a loss, averaged.
    duplicates: f64,
    /// Wait until the first request or repair in round trips, averaged.
    delay: f64,
    /// Own ones that were answered by a duplicate of somebody much farther away, averaged: am I the
    /// closest?
    closest: f64,
    samples: u64,
}

/// Bounds of a pair.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low_max: f64,
    width_max: f64,
}

impl Adapted {
    const TARGET: f64 = 1.0;
    const MARGIN: f64 = 0.1;
    const WEIGHT: f64 = 0.25;
    const LOW_MIN: f64 = 0.5;
    const WIDTH_MIN: f64 = 1.0;

    fn new(low: f64, width: f64) -> Self {
        Self {
            low,
            width,
            duplicates: 0.0,
            delay: 0.0,
            closest: 0.0,
            samples: 0,
        }
    }

    fn sample(&mut self, duplicates: u32, delay: f64) {
        let weight = if self.samples == 0 { 1.0 } else { Self::WEIGHT };
        self.samples += 1;
        self.duplicates += (f64::from(duplicates) - self.duplicates) * weight;
        self.delay += (delay - self.delay) * weight;
    }

    /// A timer is about to be set.
    fn adapt(&mut self, bounds: Bounds) {
        if self.samples > 0 {
            if self.duplicates >= Self::TARGET {
                self.low += 0.1;
                self.width += 0.5;
            } else if self.duplicates < Self::TARGET - Self::MARGIN {
                if self.delay > Self::TARGET {
                    self.width -= 0.1;
                }
                if self.duplicates < 0.25 {
                    self.low -= 0.05;
                }
            } else {
                self.low += 0.05;
            }
        }
        self.keep_within(bounds);
    }

    /// An own request or repair goes out.
    fn sending(&mut self, bounds: Bounds) {
        self.low -= 0.1;
        if self.closest > 0.5 {
            self.width -= 0.1;
        }
        self.keep_within(bounds);
    }

    fn keep_within(&mut self, bounds: Bounds) {
        self.low = self
            .low
            .clamp(Self::LOW_MIN, bounds.low_max.max(Self::LOW_MIN));
        let width_max = bounds.width_max.max(Self::WIDTH_MIN);
        self.width = self.width.clamp(Self::WIDTH_MIN, width_max);
    }
}

fn request_bounds(group: u32) -> Bounds {
    Bounds {
        low_max: 2.0,
        width_max: f64::from(group),
    }
}

fn repair_bounds(group: u32) -> Bounds {
    Bounds {
        low_max: log10(group),
        width_max: f64::from(group),
    }
}

fn log10(group: u32) -> f64 {
    libm::log10(f64::from(group.max(1)))
}

impl Timers {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing,
            request: Adapted::new(2.0, 2.0),
            repair: None,
        }
    }

    /// The parameters of now in a group of `group`.
    pub(super) fn parameters(&self, group: u32) -> Parameters {
        let log = log10(group);
        match self.timing {
            Timing::Fixed(parameters) => parameters,
            Timing::LogGroup => Parameters {
                c1: 2.0,
                c2: 2.0,
                d1: log,
                d2: log,
            },
            Timing::SqrtGroup => {
                let sqrt = libm::sqrt(f64::from(group.max(1)));
                Parameters {
                    c1: 0.0,
                    c2: sqrt,
                    d1: 0.0,
                    d2: sqrt,
                }
            }
            Timing::Adaptive => {
                let repair = self.repair.unwrap_or_else(|| Adapted::new(log, log));
                Parameters {
                    c1: self.request.low,
                    c2: self.request.width,
                    d1: repair.low,
                    d2: repair.width,
                }
            }
        }
    }

    /// How long a request waits, in all its intervals but for the back-off. `is_new`: for a loss
    /// just found.
    pub(super) fn request(
        &mut self,
        is_new: bool,
        distance: Duration,
        group: u32,
        rng: &mut Rng,
    ) -> Duration {
        if is_new {
            self.request.adapt(request_bounds(group));
        }
        let Parameters { c1, c2, .. } = self.parameters(group);
        distance.mul_f64(c1 + c2 * rng.unit())
    }

    /// How long a repair waits.
    pub(super) fn repair(&mut self, distance: Duration, group: u32, rng: &mut Rng) -> Duration {
        if self.timing == Timing::Adaptive {
            self.repair_pair(group).adapt(repair_bounds(group));
        }
        let Parameters { d1, d2, .. } = self.parameters(group);
        distance.mul_f64(d1 + d2 * rng.unit())
    }

    fn repair_pair(&mut self, group: u32) -> &mut Adapted {
        let log = log10(group);
        self.repair.get_or_insert_with(|| Adapted::new(log, log))
    }

    pub(super) fn sending_request(&mut self, group: u32) {
        self.request.sending(request_bounds(group));
    }

    pub(super) fn sending_repair(&mut self, group: u32) {
        self.repair_pair(group).sending(repair_bounds(group));
    }

    /// A loss is over, for which this many requests beyond the first were seen, the first after
    /// `wait`.
    pub(super) fn request_over(&mut self, duplicates: u32, wait: Duration, distance: Duration) {
        self.request.sample(duplicates, round_trips(wait, distance));
    }

    /// The same of repairs.
    pub(super) fn repair_over(
        &mut self,
        duplicates: u32,
        wait: Duration,
        distance: Duration,
        group: u32,
    ) {
        let pair = self.repair_pair(group);
        pair.sample(duplicates, round_trips(wait, distance));
    }

    /// After an own request somebody who says to be at `theirs` from the source requested too.
    pub(super) fn compare_request(&mut self, own: Duration, theirs: Duration) {
        compare(&mut self.request, own, theirs);
    }

    /// After an own repair somebody who says to be at `theirs` from the requestor repaired too.
    pub(super) fn compare_repair(&mut self, own: Duration, theirs: Duration, group: u32) {
        compare(self.repair_pair(group), own, theirs);
    }
}

fn round_trips(wait: Duration, distance: Duration) -> f64 {
    wait.as_secs_f64() / (2.0 * distance.as_secs_f64()).max(1e-9)
}

/// ns-2's test of who is the closest: the other one is more than half as far again.
fn compare(pair: &mut Adapted, own: Duration, theirs: Duration) {
    let is_closest = f64::from(u8::from(theirs > own.mul_f64(1.5)));
    pair.closest += (is_closest - pair.closest) * Adapted::WEIGHT;
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: Duration = Duration::from_millis(10);

    #[test]
    fn timers_are_drawn_from_the_papers_intervals() {
        let mut rng = Rng::new(1);
        let mut timers = Timers::new(Timing::LogGroup);
        for _ in 0..1000 {
            let request = timers.request(true, D, 100, &mut rng);
            assert!((D * 2..=D * 4).contains(&request), "{request:?}");
            let repair = timers.repair(D, 100, &mut rng);
            assert!((D * 2..=D * 4).contains(&repair), "{repair:?}");
        }
        let parameters = Timers::new(Timing::SqrtGroup).parameters(81);
        let Parameters { c1, c2, d1, d2 } = parameters;
        assert_eq!([c1, c2, d1, d2], [0.0, 9.0, 0.0, 9.0]);
    }

    #[test]
    fn duplicates_spread_requests_and_delay_alone_draws_them_together() {
        let mut rng = Rng::new(1);
        let mut timers = Timers::new(Timing::Adaptive);
        for _ in 0..200 {
            timers.request_over(3, D, D);
            timers.request(true, D, 50, &mut rng);
        }
        let spread = timers.parameters(50);
        assert_eq!([spread.c1, spread.c2], [2.0, 50.0]);
        for _ in 0..1000 {
            timers.request_over(0, D * 30, D);
            timers.request(true, D, 50, &mut rng);
        }
        let drawn = timers.parameters(50);
        assert_eq!([drawn.c1, drawn.c2], [0.5, 1.0]);
    }

    #[test]
    fn who_repairs_first_and_is_closest_repairs_sooner() {
        let mut timers = Timers::new(Timing::Adaptive);
        let mut rng = Rng::new(1);
        timers.repair(D, 1000, &mut rng);
        let before = timers.parameters(1000);
        for _ in 0..10 {
            timers.sending_repair(1000);
            timers.compare_repair(D, D * 2, 1000);
        }
        let after = timers.parameters(1000);
        assert!(after.d1 < before.d1 && after.d2 < before.d2, "{after:?}");
        for _ in 0..100 {
            timers.repair_over(5, D, D, 1000);
            timers.repair(D, 1000, &mut rng);
        }
        assert_eq!(timers.parameters(1000).d1, 3.0);
    }
}
