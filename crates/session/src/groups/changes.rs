//! Changes of groups on their way in the order. They go in batches with rests between them, so that
//! clients that make many changes wait for them, and publishers do not.
//!
//! When all changes of a batch have come back and are carried out, this daemon submits none for a
//! multiple of the time that the batch took. So changes take a fixed share of the time, however
//! fast or busy the daemons are and however many clients make them. A client that changes groups
//! now and then does not notice this, because a small batch has a short rest.

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::Time;

use super::ClientId;

/// A batch has room for another change while its changes cause fewer views than this. A change
/// shows a view to every member of its group: in a large group one change costs as much as hundreds
/// in a small one.
pub(super) const VIEWS_MAX: usize = 256;

/// The most changes of a batch: a change of an empty group has a cost, too.
const CHANGES_MAX: usize = 16;

/// A full batch is followed by a rest of this many times its own duration: changes have a fifth of
/// the time.
const REST: u32 = 4;

/// The longest rest. A batch that takes longer waits for the network, not for a processor.
const REST_MAX: Duration = Duration::from_millis(50);

/// The changes of this daemon that have not come back, and the clients whose changes wait.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The order's numbers of the changes on their way, ascending.
    on_their_way: VecDeque<u64>,
    /// The batch under way, until all its changes are carried out.
    batch: Option<Batch>,
    /// No batch begins before this time.
    rest_until: Option<Time>,
    /// The last turn's time.
    now: Time,
    /// Clients whose next request is a change that has to wait; the longest wait is first.
    held_back: VecDeque<ClientId>,
}

#[derive(Debug)]
struct Batch {
    began: Time,
    /// How many changes are in it, on their way or back.
    changes: usize,
    /// How many views they cause.
    views: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX || self.views >= VIEWS_MAX
    }

    /// The rest after this batch, if it ends at `now`.
    fn rest(&self, now: Time) -> Duration {
        let share = |part: usize, whole: usize| part.min(whole) as f64 / whole as f64;
        let full = share(self.changes, CHANGES_MAX).max(share(self.views, VIEWS_MAX));
        (now - self.began)
            .mul_f64(full * f64::from(REST))
            .min(REST_MAX)
    }
}

impl Changes {
    /// A turn begins at `now`: the changes that came back before it are carried out.
    pub(super) fn begin_turn(&mut self, now: Time) {
        self.now = now;
        self.rest_until.take_if(|until| *until <= now);
        if self.on_their_way.is_empty()
            && let Some(batch) = self.batch.take()
        {
            self.rest_until = Some(now + batch.rest(now)).filter(|until| *until > now);
        }
    }

    /// The end of the rest, if clients wait for it.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.rest_until.filter(|_| !self.held_back.is_empty())
    }

    /// Whether another change may be submitted at once.
    pub(super) fn have_room(&self) -> bool {
        self.held_back.is_empty() && self.may_go()
    }

    /// The client's change has to wait, behind the changes that wait already.
    pub(super) fn hold_back(&mut self, client: ClientId) {
        self.held_back.push_back(client);
    }

    /// Takes the client that has waited longest, if its change may be submitted now.
    pub(super) fn next_held_back(&mut self) -> Option<ClientId> {
        match self.may_go() {
            true => self.held_back.pop_front(),
            false => None,
        }
    }

    /// The order took a change, which causes `views` views, as its message `number`.
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

    /// Takes all clients that wait, the longest wait first.
    pub(super) fn take_held_back(&mut self) -> VecDeque<ClientId> {
        std::mem::take(&mut self.held_back)
    }

    /// No change of the client waits any more.
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
