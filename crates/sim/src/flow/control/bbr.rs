//! BBR, first version (Cardwell et al., 2016, and draft-cardwell-iccrg-bbr-congestion-control-00):
//! paced at the highest rate that went through of late, with twice what that and the shortest round
//! trip come to on its way at most.

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::Time;

use super::{INITIAL, Sample};

/// 2 / ln 2: doubles what is delivered each round trip.
const HIGH_GAIN: f64 = 2.885;
/// One phase probes for more, the next drains what that has queued.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// For this many round trips a rate is remembered, and for this long a round trip.
const RATE_ROUNDS: u64 = 10;
const ROUND_TRIP_FOR: Duration = Duration::from_secs(10);
/// How long little is sent, to see a round trip without a queue.
const PROBE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    /// Which phase of the cycle, and since when.
    Cruise(usize, Time),
    /// Until when little is sent.
    Probe(Option<Time>),
}

#[derive(Debug)]
pub(in crate::flow) struct Bbr {
    segment: f64,
    mode: Mode,
    /// Rates that went through, falling, by round.
    rates: VecDeque<(u64, f64)>,
    round: u64,
    /// The round ends when what is sent now has been delivered.
    round_ends: f64,
    /// The shortest round trip, and when it was seen.
    round_trip: Option<(Duration, Time)>,
    /// The highest rate of the startup, and for how many rounds it has not grown.
    full: (f64, u32),
    filled: bool,
    /// Until then nothing but what is sent again goes out fast.
    restarted: bool,
}

impl Bbr {
    pub(super) fn new(segment: f64) -> Self {
        Self {
            segment,
            mode: Mode::Startup,
            rates: VecDeque::new(),
            round: 0,
            round_ends: 0.0,
            round_trip: None,
            full: (0.0, 0),
            filled: false,
            restarted: false,
        }
    }

    fn rate(&self) -> Option<f64> {
        self.rates.front().map(|(_, rate)| *rate)
    }

    /// What the highest rate and the shortest round trip come to.
    fn product(&self) -> Option<f64> {
        let (round_trip, _) = self.round_trip?;
        Some(self.rate()? * round_trip.as_secs_f64())
    }

    pub(super) fn window(&self) -> f64 {
        let least = 4.0 * self.segment;
        let Some(product) = self.product() else {
            return INITIAL * self.segment;
        };
        match self.mode {
            _ if self.restarted => least,
            Mode::Probe(_) => least,
            Mode::Startup | Mode::Drain => (HIGH_GAIN * product).max(INITIAL * self.segment),
            Mode::Cruise(..) => (2.0 * product).max(least),
        }
    }

    pub(super) fn pace(&self) -> f64 {
        let gain = match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::Cruise(phase, _) => CYCLE[phase],
            Mode::Probe(_) => 1.0,
        };
        // Before anything is known: as if a round trip were a millisecond.
        let rate = self.rate().unwrap_or(INITIAL * self.segment * 1e3);
        (gain * rate).max(self.segment)
    }

    pub(super) fn timed_out(&mut self) {
        self.restarted = true;
    }

    pub(super) fn acknowledged(&mut self, sample: &Sample) {
        self.restarted = false;
        let new_round = sample.delivered_then >= self.round_ends;
        if new_round {
            self.round_ends = sample.delivered;
            self.round += 1;
        }
        self.note_rate(sample.rate);
        let expired = self.note_round_trip(sample);
        if new_round && !self.filled {
            self.look_whether_full();
        }
        self.move_on(sample, expired);
    }

    fn note_rate(&mut self, rate: f64) {
        while self.rates.back().is_some_and(|(_, other)| *other <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.round, rate));
        let oldest = self.round.saturating_sub(RATE_ROUNDS);
        while self.rates.front().is_some_and(|(round, _)| *round < oldest) {
            self.rates.pop_front();
        }
    }

    /// Whether the shortest round trip was too old to be believed any more.
    fn note_round_trip(&mut self, sample: &Sample) -> bool {
        let expired = self
            .round_trip
            .is_some_and(|(_, seen)| sample.now - seen > ROUND_TRIP_FOR);
        let shorter = self
            .round_trip
            .is_none_or(|(shortest, _)| sample.round_trip <= shortest);
        if shorter || expired {
            self.round_trip = Some((sample.round_trip, sample.now));
        }
        expired && !shorter
    }

    fn look_whether_full(&mut self) {
        let rate = self.rate().unwrap_or(0.0);
        self.full = match self.full {
            (most, _) if rate >= 1.25 * most => (rate, 0),
            (most, rounds) => (most, rounds + 1),
        };
        self.filled = self.full.1 >= 3;
    }

    fn move_on(&mut self, sample: &Sample, expired: bool) {
        let product = self.product().unwrap_or(f64::MAX);
        let shortest = self.round_trip.map_or(Duration::ZERO, |(it, _)| it);
        let now = sample.now;
        let cruise = |filled: bool| match filled {
            // A flow that begins to cruise does not begin by draining (phase 1).
            true => Mode::Cruise(2, now),
            false => Mode::Startup,
        };
        self.mode = match self.mode {
            Mode::Probe(None) if sample.flying <= 4.0 * self.segment => {
                Mode::Probe(Some(now + PROBE.max(shortest)))
            }
            Mode::Probe(Some(until)) if now >= until => {
                if let Some((_, seen)) = &mut self.round_trip {
                    *seen = now;
                }
                cruise(self.filled)
            }
            Mode::Probe(until) => Mode::Probe(until),
            _ if expired => Mode::Probe(None),
            Mode::Startup if self.filled => Mode::Drain,
            Mode::Drain if sample.flying <= product => cruise(true),
            Mode::Cruise(phase, since) => {
                let lasted = now - since > shortest;
                let over = match phase {
                    0 => lasted && sample.flying >= 1.25 * product || now - since > 2 * shortest,
                    1 => lasted || sample.flying <= product,
                    _ => lasted,
                };
                match over {
                    true => Mode::Cruise((phase + 1) % CYCLE.len(), now),
                    false => Mode::Cruise(phase, since),
                }
            }
            mode => mode,
        };
    }
}
