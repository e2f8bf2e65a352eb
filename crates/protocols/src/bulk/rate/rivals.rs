//! Others on the link that keep a queue full until something is lost, as TCP does.
//!
//! They are taken to be there when a queue is no shorter for a rate that falls, and are forgotten
//! when the queue goes, or after a while. Beside them only loss counts, and a queue that is full.
//! What is sent at an even rate finds room in a full queue where bursts do not: all losses can be
//! theirs. So a queue that is as long as it ever was, and has ceased to grow though nobody has
//! fallen, counts like a loss; but if it is as long after the rate has fallen, it is not full, and
//! the rate is restored.

use core::time::Duration;

/// Whether there are others that keep a queue full, and what is known of that queue.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rivals {
    /// For so many epochs they are taken to be there.
    epochs: u32,
    /// The queue when something was last lost to them.
    peak: Duration,
    /// Epochs in a row without a queue.
    quiet: u32,
    /// The longest mean round trip of an epoch since they are there, and that of the last epoch.
    longest: Duration,
    last: Duration,
    /// The rate before it fell for a full queue, and whether it did so in vain.
    fell_from: Option<f64>,
    in_vain: bool,
}

/// What becomes of the rate beside a queue that has ceased to grow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Full {
    /// It falls as after a loss.
    Falls,
    /// It is what it was before it fell.
    Restored(f64),
}

impl Rivals {
    /// For so many epochs without congestion it is believed that they are there.
    const EPOCHS: u32 = 128;
    /// After a loss to the others the queue falls by a third: they send as windows open. If it
    /// falls below this part of what it was, they are transfers that take each other for rivals.
    const PEAK: u32 = 4;
    /// They are gone after so many epochs without a queue: theirs comes and goes, too.
    const QUIET: u32 = 8;
    /// A queue has ceased to grow if it is longer than in the epoch before by less than this part.
    const GROWN: u32 = 64;

    pub(super) fn are_there(&self) -> bool {
        self.epochs > 0
    }

    /// A queue was no shorter though the rate fell, and nothing was lost.
    pub(super) fn appear(&mut self) {
        *self = Self {
            epochs: Self::EPOCHS,
            quiet: self.quiet,
            ..Self::default()
        };
    }

    /// An epoch is over that has shown a queue of this length, and whether that stayed all through
    /// it.
    pub(super) fn note(&mut self, stays: bool, queue: Duration) {
        self.quiet = if stays { 0 } else { self.quiet + 1 };
        self.epochs = match self.quiet {
            0..Self::QUIET if queue >= self.peak / Self::PEAK => self.epochs.saturating_sub(1),
            _ => 0,
        };
    }

    /// Something is lost to them, or would be to a sender of bursts, at a queue of this length.
    pub(super) fn note_loss(&mut self, queue: Duration) {
        if self.are_there() {
            self.epochs = Self::EPOCHS;
            self.peak = queue;
        }
    }

    /// The queue is this host's own, and no more than this of it.
    pub(super) fn note_own(&mut self, queue: Duration) {
        self.peak = queue;
    }

    /// What becomes of `rate`, if the mean `round_trip` of this epoch and of the one before show
    /// that the queue is full.
    pub(super) fn fill(&mut self, rate: f64, round_trip: Duration) -> Option<Full> {
        if !self.are_there() {
            return None;
        }
        let is_longest = |it: Duration| it + it / Self::GROWN >= self.longest;
        let stays = is_longest(round_trip);
        let is_full =
            stays && is_longest(self.last) && round_trip <= self.last + self.last / Self::GROWN;
        self.longest = self.longest.max(round_trip);
        self.last = round_trip;
        if let Some(before) = self.fell_from.take() {
            self.in_vain = stays;
            return stays.then_some(Full::Restored(before));
        }
        if !is_full || self.in_vain {
            return None;
        }
        self.fell_from = Some(rate);
        Some(Full::Falls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Others are there, and the queue has grown to 20 ms.
    fn grown() -> Rivals {
        let mut rivals = Rivals::default();
        rivals.appear();
        for tenths in [120, 140, 160, 180, 200] {
            assert_eq!(rivals.fill(1e6, of(tenths * 100)), None);
        }
        rivals
    }

    #[test]
    fn a_queue_that_has_ceased_to_grow_is_full() {
        let mut rivals = grown();
        assert_eq!(rivals.fill(1e6, of(20_100)), Some(Full::Falls));
        // It is shorter, and grows again.
        for micros in [14_000, 16_000, 18_000, 20_000] {
            assert_eq!(rivals.fill(1e6, of(micros)), None, "{micros}");
        }
        assert_eq!(rivals.fill(1e6, of(20_050)), Some(Full::Falls));
    }

    #[test]
    fn a_queue_that_is_as_long_after_the_rate_fell_is_not_full() {
        let mut rivals = grown();
        assert_eq!(rivals.fill(1e6, of(20_100)), Some(Full::Falls));
        assert_eq!(rivals.fill(0.7e6, of(20_000)), Some(Full::Restored(1e6)));
        for _ in 0..10 {
            assert_eq!(rivals.fill(1e6, of(20_100)), None);
        }
        rivals.appear();
        assert_eq!(rivals.fill(1e6, of(20_000)), None);
        assert_eq!(rivals.fill(1e6, of(20_100)), Some(Full::Falls));
    }

    #[test]
    fn one_that_stays_below_what_it_was_is_not_full() {
        let mut rivals = grown();
        for _ in 0..10 {
            assert_eq!(rivals.fill(1e6, of(15_000)), None);
        }
    }

    #[test]
    fn without_rivals_no_queue_is_full() {
        let mut rivals = Rivals::default();
        for _ in 0..10 {
            assert_eq!(rivals.fill(1e6, of(20_000)), None);
        }
    }
}
