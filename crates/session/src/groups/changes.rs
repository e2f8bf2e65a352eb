//! Changes of groups on their way in the order: few at a time, and then none for a while, so that
//! those who make many wait for them, and not those who publish.
//!
//! Changes go in batches. When all of one have come back and are carried out, this daemon's
//! changes rest for a multiple of the time that this took. So changes take a share of the time,
//! however fast or busy the daemons are and however many clients make them; and whoever changes
//! groups now and then does not notice it, for a small batch rests little.

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::Time;

use super::ClientId;

/// A batch has room for another change while those in it cause fewer views than this. A change
/// shows every member of its group a view: in a large group one is as dear as hundreds in a small
/// one.
const VIEWS_MAX: usize = 256;

/// The most changes of a batch: where the groups are empty, each has its own cost.
const CHANGES_MAX: usize = 16;

/// After a full batch, changes rest so many times as long as it took: they have a fifth of the
/// time.
const REST: u32 = 4;

/// The longest rest: where the way is long, it costs no processor.
const REST_MAX: Duration = Duration::from_millis(50);

/// The changes of this daemon that have not come back, and the clients that wait for them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The order's numbers of those on their way, in ascending order.
    on_their_way: VecDeque<u64>,
    /// The batch that they are of, until all of it are carried out.
    batch: Option<Batch>,
    /// No batch begins before.
    rest_until: Option<Time>,
    /// The last turn's time.
    now: Time,
    /// Clients whose next request is a change that has to wait.
    held_back: VecDeque<ClientId>,
}

#[derive(Debug)]
struct Batch {
    began: Time,
    /// How many are in it, wherever they are by now.
    changes: usize,
    /// The views that they cause.
    views: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX || self.views >= VIEWS_MAX
    }

    /// How long none may follow, if it ends at `now`.
    fn rest(&self, now: Time) -> Duration {
        let share = |part: usize, whole: usize| part.min(whole) as f64 / whole as f64;
        let full = share(self.changes, CHANGES_MAX).max(share(self.views, VIEWS_MAX));
        (now - self.began)
            .mul_f64(full * f64::from(REST))
            .min(REST_MAX)
    }
}

impl Changes {
    /// A turn begins at `now`: what came back before it is carried out.
    pub(super) fn begin_turn(&mut self, now: Time) {
        self.now = now;
        self.rest_until.take_if(|until| *until <= now);
        if self.on_their_way.is_empty()
            && let Some(batch) = self.batch.take()
        {
            self.rest_until = Some(now + batch.rest(now)).filter(|until| *until > now);
        }
    }

    /// When to begin a turn, if somebody waits for the end of a rest.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.rest_until.filter(|_| !self.held_back.is_empty())
    }

    /// Whether another change may go on its way at once.
    pub(super) fn have_room(&self) -> bool {
        self.held_back.is_empty() && self.may_go()
    }

    /// The client's change has to wait, behind those that wait already.
    pub(super) fn hold_back(&mut self, client: ClientId) {
        self.held_back.push_back(client);
    }

    /// The client that has waited longest, if its change may go on its way now.
    pub(super) fn next_held_back(&mut self) -> Option<ClientId> {
        match self.may_go() {
            true => self.held_back.pop_front(),
            false => None,
        }
    }

    /// The order took a change as its message `number`.
    pub(super) fn handed_over(&mut self, number: u64, views: usize) {
        self.on_their_way.push_back(number);
        let batch = self.batch.get_or_insert(Batch {
            began: self.now,
            changes: 0,
            views: 0,
        });
        batch.changes += 1;
        batch.views += views;
    }

    /// The order's messages up to `number` have come back.
    pub(super) fn came_back(&mut self, number: u64) {
        while self.on_their_way.pop_front_if(|at| *at <= number).is_some() {}
    }

    /// Whether clients wait with a change.
    pub(super) fn are_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Takes those clients away, who waited longest first.
    pub(super) fn take_held_back(&mut self) -> VecDeque<ClientId> {
        std::mem::take(&mut self.held_back)
    }

    /// The client has no change any more that waits.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.held_back.retain(|other| *other != client);
    }

    /// Whether changes have not come back.
    pub(super) fn are_on_their_way(&self) -> bool {
        !self.on_their_way.is_empty()
    }

    fn may_go(&self) -> bool {
        self.rest_until.is_none() && self.batch.as_ref().is_none_or(|batch| !batch.is_full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes as many changes at `now` as may go; how many.
    fn go(changes: &mut Changes, now: Time, views: usize) -> usize {
        changes.begin_turn(now);
        let mut count = 0;
        while changes.may_go() {
            count += 1;
            changes.handed_over(now.as_nanos() + count as u64, views);
        }
        count
    }

    fn come_back(changes: &mut Changes) {
        changes.came_back(u64::MAX);
    }

    #[test]
    fn changes_have_a_fifth_of_the_time_however_long_they_take() {
        for micros in [100, 1_000, 10_000] {
            let took = Duration::from_micros(micros);
            let mut changes = Changes::default();
            changes.hold_back(ClientId(1));
            let (mut now, mut busy) = (Time::ZERO, Duration::ZERO);
            for _ in 0..10 {
                assert_eq!(go(&mut changes, now, 1), CHANGES_MAX);
                assert_eq!(changes.poll_timeout(), None, "nothing to wait for but them");
                come_back(&mut changes);
                now += took;
                busy += took;
                assert_eq!(go(&mut changes, now, 1), 0, "they rest");
                now = changes.poll_timeout().expect("somebody waits");
            }
            assert_eq!((now - Time::ZERO), busy * (1 + REST));
        }
    }

    #[test]
    fn one_change_rests_little_and_a_long_way_not_for_long() {
        let mut changes = Changes::default();
        changes.begin_turn(Time::ZERO);
        changes.handed_over(1, 1);
        come_back(&mut changes);
        let now = Time::ZERO + Duration::from_millis(16);
        changes.hold_back(ClientId(1));
        changes.begin_turn(now);
        assert_eq!(changes.next_held_back(), None);
        assert_eq!(changes.poll_timeout(), Some(now + Duration::from_millis(4)));
        let now = now + Duration::from_millis(4);
        changes.begin_turn(now);
        assert_eq!(changes.next_held_back(), Some(ClientId(1)));

        assert_eq!(go(&mut changes, now, VIEWS_MAX), 1, "one in a large group");
        come_back(&mut changes);
        let now = now + Duration::from_secs(1);
        assert_eq!(go(&mut changes, now, 1), 0);
        assert!(go(&mut changes, now + REST_MAX, 1) > 0);
    }

    #[test]
    fn what_is_on_its_way_keeps_a_full_batch_from_growing() {
        let mut changes = Changes::default();
        assert_eq!(go(&mut changes, Time::ZERO, 1), CHANGES_MAX);
        changes.came_back(CHANGES_MAX as u64 - 1);
        assert_eq!(go(&mut changes, Time::ZERO, 1), 0);
        come_back(&mut changes);
        // It took no time at all.
        assert_eq!(go(&mut changes, Time::ZERO, 1), CHANGES_MAX);
    }
}
