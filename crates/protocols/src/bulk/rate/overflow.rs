//! Whether what a receiver loses is lost to a queue that is too short to show.
//!
//! A queue of a few packets adds less to a round trip than chance does, and TCP beside it fills at
//! once what is left: the same share is lost at every rate, as on a link with a loss of its own.
//! But a queue that loses a packet is full then. So who comes behind a lost packet has waited
//! longer than others have, where a queue has lost it, and as long as others, where chance has
//! (Cen, Cosman and Voelker 2003, who tell losses apart by one-way delays). A receiver asks for
//! what it misses when it gets a packet from behind it: its requests say how long those waited.
//!
//! A queue that overflows at some length is never much longer than that. If packets have waited
//! longer of late, it is another queue, which shows.

use core::time::Duration;

/// What is known of a queue that overflows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Overflow {
    /// How long packets waited that came behind a lost one, and all others.
    behind_lost: Waits,
    others: Waits,
    /// The longest that any waited of late, in seconds.
    longest: f64,
    /// How long the queue is when it overflows, and for how many epochs that is believed.
    length: Duration,
    epochs: u32,
}

/// How long packets waited, of late: sums that fade, in seconds.
#[derive(Clone, Copy, Default, Debug)]
struct Waits {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Waits {
    /// What is left of a sum after an epoch.
    const FADES: f64 = 0.9;

    fn sample(&mut self, wait: f64) {
        self.count += 1.0;
        self.sum += wait;
        self.squares += wait * wait;
    }

    fn fade(&mut self) {
        self.count *= Self::FADES;
        self.sum *= Self::FADES;
        self.squares *= Self::FADES;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// The variance of the mean.
    fn variance(&self) -> f64 {
        let mean = self.mean();
        (self.squares / self.count - mean * mean).max(0.0) / self.count
    }
}

impl Overflow {
    /// This many waits of each kind are enough to compare them.
    const WAITS_MIN: f64 = 4.0;
    /// A queue is there if packets behind a lost one waited so long, and so much longer than
    /// others: more than a host's timers and interrupts add.
    const WAIT_MIN: Duration = Duration::from_micros(200);
    const LONGER_MIN: Duration = Duration::from_micros(100);
    /// And longer by this many standard deviations.
    const DEVIATIONS: f64 = 4.0;
    /// It is short if it is no longer than this many times what shows, and no packet waited longer
    /// than this many times its length.
    const SHORT: u32 = 2;
    const LONGEST: f64 = 1.5;
    /// What is left of the longest wait after an epoch.
    const LONGEST_FADES: f64 = 0.995;
    /// For this many epochs after the last loss to it the queue is taken to be there.
    const EPOCHS: u32 = 128;

    /// A packet waited so long, and was the first to come `behind_lost` ones.
    pub(super) fn sample(&mut self, wait: Duration, behind_lost: bool) {
        let wait = wait.as_secs_f64();
        self.longest = self.longest.max(wait);
        match behind_lost {
            true => self.behind_lost.sample(wait),
            false => self.others.sample(wait),
        }
    }

    /// Whether what is lost is not the path's own.
    pub(super) fn is_known(&self) -> bool {
        self.epochs > 0
    }

    /// An epoch is over in which packets waited so long on average, on a path where a queue shows
    /// that is as long as `shows`. Whether a queue too short for that overflowed, if a packet was
    /// lost.
    pub(super) fn end_epoch(&mut self, waited: Duration, shows: Duration) -> bool {
        self.epochs = self.epochs.saturating_sub(1);
        let found = self.find(shows);
        if let Some(length) = found {
            self.length = length;
            self.epochs = Self::EPOCHS;
        } else if self.longest > Self::LONGEST * self.length.as_secs_f64() {
            // Another queue is there now.
            self.epochs = 0;
        }
        self.behind_lost.fade();
        self.others.fade();
        self.longest *= Self::LONGEST_FADES;
        // The queue is at least half full on average.
        found.is_some() || self.is_known() && waited > self.length / 2
    }

    /// A packet was lost to the queue.
    pub(super) fn note_loss(&mut self) {
        if self.is_known() {
            self.epochs = Self::EPOCHS;
        }
    }

    /// How long the queue is that loses packets, if one does that is too short to show.
    fn find(&self, shows: Duration) -> Option<Duration> {
        let (behind, others) = (&self.behind_lost, &self.others);
        if behind.count < Self::WAITS_MIN || others.count < Self::WAITS_MIN {
            return None;
        }
        let length = behind.mean();
        let by_chance = Self::DEVIATIONS * libm::sqrt(behind.variance() + others.variance());
        let longer = length - others.mean();
        let is_queue = length > Self::WAIT_MIN.as_secs_f64()
            && longer > by_chance.max(Self::LONGER_MIN.as_secs_f64());
        let is_short =
            length < (shows * Self::SHORT).as_secs_f64() && self.longest < length * Self::LONGEST;
        (is_queue && is_short).then(|| Duration::from_secs_f64(length))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use groupcast_core::Rng;

    use super::*;

    /// A queue shows that is as long as this.
    const SHOWS: Duration = Duration::from_micros(700);

    fn of(micros: f64) -> Duration {
        Duration::from_secs_f64(micros * 1e-6)
    }

    /// In how many of 400 epochs of two reports each, of which one in two is behind a loss, a queue
    /// is found, where those wait `behind` and others `other` microseconds.
    fn found(mut behind: impl FnMut() -> f64, mut other: impl FnMut() -> f64) -> usize {
        let mut overflow = Overflow::default();
        let mut epoch = |index: u32| {
            overflow.sample(of(other()), false);
            if index.is_multiple_of(2) {
                overflow.sample(of(behind()), true);
            }
            overflow.end_epoch(Duration::ZERO, SHOWS)
        };
        (0..400).filter(|index| epoch(*index)).count()
    }

    #[test]
    fn what_is_lost_while_the_queue_is_full_is_lost_to_it() {
        let mut rng = Rng::new(1);
        let mut below = |limit: u64| rng.below(limit) as f64;
        // TCP fills the queue, and is gone for a while.
        let waits: Vec<f64> = (0..400).map(|_| below(500)).collect();
        let mut waits = waits.into_iter();
        assert!(found(|| 480.0 + below(60), || waits.next().unwrap_or(0.0)) > 350);
    }

    #[test]
    fn what_is_lost_by_chance_is_lost_to_no_queue_however_waits_differ() {
        for seed in 0..50 {
            let even = |seed| {
                let mut rng = Rng::new(seed);
                move || rng.below(1000) as f64
            };
            let with_few_long_ones = |seed| {
                let mut rng = Rng::new(seed);
                move || -300.0 * (rng.below(1_000_000) as f64 * 1e-6 + 1e-9).ln()
            };
            let times = found(even(seed), even(seed + 1000));
            assert!(times < 2, "even, seed {seed}: {times}");
            let times = found(with_few_long_ones(seed), with_few_long_ones(seed + 1000));
            assert!(times < 2, "with few long ones, seed {seed}: {times}");
        }
    }

    #[test]
    fn a_queue_that_was_longer_overflows_at_no_such_length() {
        let mut count = 0;
        let other = || {
            count += 1;
            if count % 20 == 0 { 900.0 } else { 100.0 }
        };
        assert!(found(|| 500.0, other) < 20);
        assert!(found(|| 500.0, || 100.0) > 350);
        // It shows by itself.
        assert_eq!(found(|| 1500.0, || 100.0), 0);
    }

    /// A queue that has overflowed at a wait of 500 microseconds.
    fn overflowed() -> Overflow {
        let mut overflow = Overflow::default();
        for _ in 0..10 {
            overflow.sample(of(500.0), true);
            overflow.sample(of(100.0), false);
        }
        assert!(overflow.end_epoch(Duration::ZERO, SHOWS));
        overflow
    }

    #[test]
    fn a_longer_queue_is_another_one() {
        let mut overflow = overflowed();
        overflow.sample(of(5000.0), false);
        assert!(!overflow.end_epoch(of(5000.0), SHOWS));
        assert!(!overflow.is_known());
    }

    #[test]
    fn a_queue_that_has_overflowed_is_there_while_packets_wait_and_is_forgotten() {
        let mut overflow = overflowed();
        // No more is lost.
        let mut epochs = (0..1000).map(|_| {
            overflow.sample(of(100.0), false);
            (overflow.end_epoch(of(300.0), SHOWS), overflow.is_known())
        });
        assert_eq!(epochs.nth(50), Some((true, true)));
        assert_eq!(epochs.nth(500), Some((false, false)));
    }
}
