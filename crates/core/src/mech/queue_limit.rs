//! How much may wait in a send queue, if that follows what is taken out of it.
//!
//! What waits in a queue is late by as long as the queue takes to be sent. It has to hold what is
//! taken at a time, and as much again, because it is filled when half of it is free; anything more
//! makes messages late and nothing faster. Where what is taken depends on the network and on other
//! processes, no fixed number is right: the limit is measured, as by Linux's byte queue limits (T.
//! Herbert, `lib/dynamic_queue_limits.c`).
//!
//! - It is twice the most that was taken at a time, and grows at once.
//! - It grows where it was what kept the queue from having more: all that waited was taken, after a
//!   message had been refused for want of room.
//! - It shrinks, by an eighth of what is too much, when that has not happened for
//!   `PERIOD` times.

/// The least limit, in bytes, unless the most is less: for a sender that begins, and for bursts.
const LEAST: usize = 8 << 10;

/// How many times something is taken before the limit may shrink.
const PERIOD: u32 = 16;

/// The limit of a queue in bytes, fixed or measured.
///
/// ```
/// use groupcast_core::mech::queue_limit::QueueLimit;
///
/// let mut limit = QueueLimit::measured(1 << 20);
/// assert_eq!(limit.bytes(), 8 << 10);
/// limit.taken(100_000, false);
/// assert_eq!(limit.bytes(), 200_000);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueueLimit {
    now: usize,
    least: usize,
    most: usize,
    /// The most that was taken at a time in this period, and how many times something was.
    taken_most: usize,
    times: u32,
}

impl QueueLimit {
    /// Always `bytes`.
    pub fn fixed(bytes: usize) -> Self {
        Self {
            now: bytes,
            least: bytes,
            most: bytes,
            taken_most: 0,
            times: 0,
        }
    }

    /// At most `most` bytes, and no more than are needed.
    pub fn measured(most: usize) -> Self {
        let least = most.min(LEAST);
        Self {
            now: least,
            least,
            ..Self::fixed(most)
        }
    }

    /// How many bytes may wait now.
    pub fn bytes(&self) -> usize {
        self.now
    }

    /// This many bytes were taken at a time. `starved`: nothing is left of them, and more was
    /// refused for want of room.
    pub fn taken(&mut self, bytes: usize, starved: bool) {
        if bytes == 0 {
            return;
        }
        self.taken_most = self.taken_most.max(bytes);
        let needed = self.needed();
        if starved || needed > self.now {
            let more = if starved { self.now + bytes } else { 0 };
            self.now = needed.max(more).min(self.most);
            self.begin_period(bytes);
            return;
        }
        self.times += 1;
        if self.times >= PERIOD {
            self.now -= (self.now - needed).div_ceil(8);
            self.begin_period(bytes);
        }
    }

    /// What is enough for the most that was taken.
    fn needed(&self) -> usize {
        self.taken_most
            .saturating_mul(2)
            .clamp(self.least, self.most)
    }

    fn begin_period(&mut self, bytes: usize) {
        (self.taken_most, self.times) = (bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 1 << 20;

    #[test]
    fn a_fixed_one_stays() {
        let mut limit = QueueLimit::fixed(1_000);
        for taken in [10, 5_000, 1_000, 1] {
            limit.taken(taken, true);
            limit.taken(taken, false);
            assert_eq!(limit.bytes(), 1_000);
        }
    }

    #[test]
    fn it_grows_at_once_and_shrinks_slowly() {
        let mut limit = QueueLimit::measured(MOST);
        limit.taken(500_000, false);
        assert_eq!(limit.bytes(), 1_000_000);
        for _ in 0..2 * PERIOD {
            limit.taken(20_000, false);
        }
        assert!((800_000..1_000_000).contains(&limit.bytes()));
        for _ in 0..200 * PERIOD {
            limit.taken(20_000, false);
        }
        assert_eq!(limit.bytes(), 40_000);
        for _ in 0..200 * PERIOD {
            limit.taken(200, false);
        }
        assert_eq!(limit.bytes(), LEAST);
    }

    #[test]
    fn large_takes_now_and_then_keep_it() {
        let mut limit = QueueLimit::measured(MOST);
        for time in 0..1_000 {
            let taken = if time % PERIOD == 0 { 200_000 } else { 100 };
            limit.taken(taken, false);
            assert_eq!(limit.bytes(), 400_000);
        }
    }

    /// Messages of which the queue has room for one at first: with the next one refused, the last
    /// visit for each takes less than it could.
    #[test]
    fn it_grows_where_it_starves_the_sender() {
        let (message, visit) = (300_000, 70_000);
        let mut limit = QueueLimit::measured(MOST);
        let (mut queued, mut starved) = (0, 0);
        for _ in 0..1_000 {
            while queued == 0 || queued + message <= limit.bytes() {
                queued += message;
            }
            let taken = queued.min(visit);
            queued -= taken;
            starved += usize::from(queued == 0);
            limit.taken(taken, queued == 0);
        }
        assert!(starved <= 1_000 / PERIOD as usize, "{starved} times");
    }

    proptest! {
        #[test]
        fn it_is_within_its_bounds(takes in prop::collection::vec((0usize..2 << 20, any::<bool>()), 0..200), most in 0usize..2 << 20) {
            let mut limit = QueueLimit::measured(most);
            for (taken, starved) in takes {
                limit.taken(taken, starved);
                prop_assert!(limit.bytes() >= most.min(2 * taken));
                prop_assert!((most.min(LEAST)..=most).contains(&limit.bytes()));
            }
        }
    }
}
