//! Others on the link that keep a queue full until something is lost, as TCP does.
//!
//! They are taken to be there when a queue is no shorter for a rate that falls, and are forgotten
//! when the queue goes, or after a while. Beside them only loss counts, and a queue that is full.
//! What is sent at an even rate finds room in a full queue where bursts do not: all losses can be
//! theirs. So a queue that is as long as it ever was, and has ceased to grow though nobody has
//! fallen, counts like a loss; but if it is as long after the rate has fallen, it is not full, and
//! the rate is restored. One that was longer before is not full either: TCP grows slowly near the
//! window at which it lost (CUBIC).
//!
//! Not all that fill a queue do so for good: BBR begins like that, and then sends what goes
//! through. So they are forgotten, too, when the queue is twice as long as when they appeared,
//! unless it is so long that it takes seconds to see whether it becomes shorter.

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
    /// The queue when they appeared, if it is known.
    appeared_at: Option<Duration>,
    /// The longest mean round trip of an epoch, of late, and that of the last epoch since they are
    /// there.
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
    /// And for so many, if they only seem to fill a queue.
    const EPOCHS_TO_FILL: u32 = 16;
    /// After a loss to the others the queue falls by a third: they send as windows open. If it
    /// falls below this part of what it was, they are transfers that take each other for rivals.
    const PEAK: u32 = 4;
    /// They are gone after so many epochs without a queue: theirs comes and goes, too.
    const QUIET: u32 = 8;
    /// They are forgotten if the queue is so many times as long as when they appeared, and no
    /// longer than this.
    const DOUBLED: u32 = 2;
    const TESTED_MAX: Duration = Duration::from_millis(50);
    /// This part of the longest round trip is forgotten in an epoch: CUBIC grows slowly near it for
    /// ten seconds and more.
    const LONGEST_FADES: u32 = 1 << 18;
    /// A queue has ceased to grow if it is longer than in the epoch before by less than this part.
    const GROWN: u32 = 64;

    pub(super) fn are_there(&self) -> bool {
        self.epochs > 0
    }

    /// A queue was no shorter though the rate fell; how long it was, if that is known.
    pub(super) fn appear(&mut self, queue: Option<Duration>) {
        *self = Self {
            epochs: Self::EPOCHS,
            quiet: self.quiet,
            appeared_at: queue,
            // What was long in this host once need not be so again.
            longest: queue.map_or(Duration::ZERO, |_| self.longest),
            ..Self::default()
        };
    }

    /// A queue has become much longer though the rate fell. Who fills it for good, as TCP does at
    /// its start, loses something soon; who does not, like BBR, is not taken for a rival for long.
    pub(super) fn appear_to_fill(&mut self, queue: Option<Duration>) {
        self.appear(queue);
        self.epochs = Self::EPOCHS_TO_FILL;
    }

    /// An epoch is over that has shown a queue of this length, and whether that stayed all through
    /// it.
    pub(super) fn note(&mut self, stays: bool, queue: Duration) {
        self.quiet = if stays { 0 } else { self.quiet + 1 };
        let has_doubled = stays
            && queue < Self::TESTED_MAX
            && self
                .appeared_at
                .is_some_and(|it| queue > it * Self::DOUBLED);
        self.epochs = match self.quiet {
            0..Self::QUIET if queue >= self.peak / Self::PEAK && !has_doubled => {
                self.epochs.saturating_sub(1)
            }
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
        self.longest -= self.longest / Self::LONGEST_FADES;
        if !self.are_there() {
            self.longest = self.longest.max(round_trip);
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
        rivals.appear(Some(of(10_000)));
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
        rivals.appear(Some(of(10_000)));
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
    fn one_that_was_longer_before_they_appeared_is_not_full() {
        let mut rivals = Rivals::default();
        assert_eq!(rivals.fill(1e6, of(40_000)), None);
        rivals.appear(Some(of(10_000)));
        for _ in 0..10 {
            assert_eq!(rivals.fill(1e6, of(30_000)), None);
        }
        // Until that is long ago.
        let fills = (0..1 << 18).any(|_| rivals.fill(1e6, of(30_000)).is_some());
        assert!(fills);
    }

    #[test]
    fn what_was_long_before_says_nothing_of_this_hosts_own_queue() {
        let mut rivals = Rivals::default();
        assert_eq!(rivals.fill(1e6, of(40_000)), None);
        rivals.appear(None);
        let fills = (0..3).any(|_| rivals.fill(1e6, of(30_000)) == Some(Full::Falls));
        assert!(fills);
    }

    #[test]
    fn they_are_looked_into_again_when_the_queue_has_doubled_unless_it_is_long() {
        let mut rivals = grown();
        rivals.note(true, of(19_000));
        assert!(rivals.are_there());
        rivals.note(true, of(21_000));
        assert!(!rivals.are_there());
        rivals.appear(Some(of(21_000)));
        rivals.note(true, of(100_000));
        assert!(rivals.are_there());
    }

    #[test]
    fn who_seems_to_fill_a_queue_and_loses_nothing_is_soon_forgotten() {
        let after = |is_lost: bool| {
            let mut rivals = Rivals::default();
            rivals.appear_to_fill(Some(of(100_000)));
            if is_lost {
                rivals.note_loss(of(100_000));
            }
            for _ in 0..16 {
                rivals.note(true, of(100_000));
            }
            rivals.are_there()
        };
        assert_eq!([false, true].map(after), [false, true]);
    }

    #[test]
    fn without_rivals_no_queue_is_full() {
        let mut rivals = Rivals::default();
        for _ in 0..10 {
            assert_eq!(rivals.fill(1e6, of(20_000)), None);
        }
    }
}
