//! The rate of the next epoch, from what the last one has shown: less after congestion, for a queue
//! that stays, and where this host takes no more; else more.

use core::time::Duration;

use super::ended::Ended;
use super::path::{Congestion, Found};
use super::regrowth::Regrowth;
use super::rivals::Full;
use super::{Draining, Rate, Trial};

impl Rate {
    /// The rate after an epoch that was judged; `silent`: somebody was not heard for long, or may
    /// be far.
    pub(super) fn next(&mut self, ended: &Ended, found: &Found, silent: bool) -> f64 {
        let Ended { rate, achieved, .. } = *ended;
        let limiting = &found.limiting;
        let (shortest, queue) = match ended.is_own {
            true => (ended.own, ended.own),
            false => (limiting.shortest, limiting.queue),
        };
        let mut stays = limiting.stays || ended.is_own;
        if !found.is_missed {
            stays |= self.draining.is_some_and(|it| it.lingers(queue));
            self.rivals.note(stays, queue);
        }
        let full = self.rivals.fill(rate, limiting.round_trip);
        self.overflowed *= Self::OVERFLOWED_FADES;
        let next = if let Some(congestion) = found.congestion {
            let through = rate.min(achieved) * (1.0 - congestion.excess);
            self.congested(rate, &congestion, queue)
                .max(self.least_beside_overflow(rate, through, &congestion))
        } else if let Some(share) = ended.own_share.filter(|_| ended.is_own) {
            self.share_own_queue(ended, share)
        } else if let Some(full) = full.filter(|_| stays) {
            match full {
                Full::Falls => self.congested(rate, &Congestion::FULL, queue),
                Full::Restored(before) => before.max(rate),
            }
        } else if stays && !self.rivals.are_there() {
            self.drain(rate, achieved, shortest, (!ended.is_own).then_some(queue))
        } else if stays && self.is_held_back(ended) {
            self.held_back(achieved, queue)
        } else if silent || found.suspect || found.is_missed {
            rate
        } else {
            self.draining = None;
            self.grown(ended, limiting.round_trip)
        };
        self.note_fall(ended, found, full, next);
        self.calm = match next < rate || stays {
            true => 0,
            false => self.calm + 1,
        };
        next
    }

    /// Notes what the rate comes back to, if it fell to `next` beside others.
    fn note_fall(&mut self, ended: &Ended, found: &Found, full: Option<Full>, next: f64) {
        let rate = ended.rate;
        let round_trip = found.limiting.round_trip;
        let is_fall = found.congestion.is_some() || full == Some(Full::Falls);
        if next < rate && is_fall {
            let rates = [rate, next];
            let before = self.regrowth;
            let it = Regrowth::after_fall(before, rates, ended.packet, round_trip, ended.at);
            self.regrowth = Some(it);
        } else if !self.rivals.are_there() && self.draining.is_none() {
            self.regrowth = None;
        }
    }

    /// Whether this host took less than it was given, and may have a queue of its own.
    fn is_held_back(&self, ended: &Ended) -> bool {
        let may_be_own = ended.is_own || !self.host_queue.is_told();
        may_be_own && !ended.is_idle && ended.achieved < Self::HELD_BACK * ended.pace
    }

    /// The rate while packets wait in this host's own queue beside those of others: nothing is lost
    /// there, and TCP keeps what it has of it, so `share` is where it goes.
    fn share_own_queue(&mut self, ended: &Ended, share: f64) -> f64 {
        let Ended { rate, achieved, .. } = *ended;
        self.draining = None;
        self.starting = false;
        self.settling = true;
        let through = rate.min(achieved);
        if self.gives_way {
            through * Self::DECREASE_GIVING_WAY
        } else if rate > share {
            (through * Self::DECREASE).max(share)
        } else if ended.used_up {
            share.min(rate * Self::OWN_GROWTH)
        } else {
            rate
        }
    }

    /// The rate after more was lost than the link loses by itself.
    fn congested(&mut self, rate: f64, it: &Congestion, queue: Duration) -> f64 {
        if !it.queued {
            self.trial = Some(Trial {
                rate,
                starting: self.starting,
            });
        }
        self.rivals.note_loss(queue);
        self.starting = false;
        self.settling = true;
        let decrease = match it.queued {
            true if self.gives_way => Self::DECREASE_GIVING_WAY,
            true if self.yields => Self::DECREASE_YIELDING,
            _ => Self::DECREASE,
        };
        let is_long = it.queued && queue >= Self::LEFT_QUEUE;
        let least = if self.yields && is_long {
            Self::LEFT
        } else {
            0.0
        };
        let left = (1.0 - it.excess).max(least);
        let part = decrease.min(left);
        // A loss does not say who keeps a queue of the network.
        self.draining = self.draining.filter(|it| it.queue.is_some());
        if let Some(draining) = &mut self.draining {
            draining.rate *= part;
            draining.starting = false;
        }
        rate * part
    }

    /// The least that `rate` falls to for congestion while so many bytes a second go `through`: not
    /// above 0, unless all that is lost is lost to queues too short to show.
    fn least_beside_overflow(&mut self, rate: f64, through: f64, congestion: &Congestion) -> f64 {
        if !congestion.to_overflow || self.gives_way {
            return 0.0;
        }
        self.overflowed = self.overflowed.max(through);
        rate.min(self.overflowed * Self::OVERFLOWED)
    }

    /// The rate while there is a queue and nothing is lost: below what went through, until the
    /// queue is gone; what it was before, if others keep it full. `queue` is how long it is, if it
    /// is not this host's own.
    fn drain(
        &mut self,
        rate: f64,
        achieved: f64,
        shortest: Duration,
        queue: Option<Duration>,
    ) -> f64 {
        let through = rate.min(achieved);
        let was_starting = core::mem::take(&mut self.starting);
        let through = match was_starting {
            true => through * Self::DECREASE_AFTER_START,
            false => through,
        };
        self.settling = true;
        if self.gives_way {
            return through * Self::DECREASE_GIVING_WAY;
        }
        let mut draining = self.draining.take().unwrap_or(Draining {
            rate: through,
            shortest: Duration::MAX,
            vain: 0,
            queue,
            starting: was_starting,
        });
        let shrinks = draining.vain > 0 && shortest < draining.shortest - draining.shortest / 8;
        draining.shortest = shortest;
        if shrinks {
            self.draining = Some(draining);
            return rate;
        }
        let is_kept = draining.vain == Self::VAIN_MAX;
        if is_kept || draining.grows(shortest) {
            match is_kept {
                true => self.rivals.appear(queue),
                false => self.rivals.appear_to_fill(queue),
            }
            // Beside others TCP doubles its window until something is lost.
            self.starting = draining.starting;
            return draining.rate;
        }
        draining.vain += 1;
        self.draining = Some(draining);
        through * Self::DECREASE
    }

    /// The rate while others are taken to keep a queue full, but this host takes less than it is
    /// given: the queue is that of the host, which loses nothing, and other transfers are the
    /// others. The rate falls until packets wait in it no more.
    fn held_back(&mut self, achieved: f64, queue: Duration) -> f64 {
        self.rivals.note_own(queue);
        if !self.host_queue.is_told() {
            self.own = Self::OWN;
        }
        self.starting = false;
        self.settling = true;
        achieved * Self::DECREASE_YIELDING
    }

    /// The rate after an epoch without congestion.
    fn grown(&self, ended: &Ended, round_trip: Duration) -> f64 {
        let Ended {
            rate,
            length,
            packet,
            ..
        } = *ended;
        if !ended.used_up {
            return rate;
        }
        if self.yields && (self.starting || rate < self.regains) {
            // What many receivers say comes later.
            let doubled = rate * (1.0 + (length / self.asking.every().as_secs_f64()).min(1.0));
            return match self.starting {
                true => doubled,
                false => doubled.min(self.regains),
            };
        }
        if self.starting {
            return rate * 2.0;
        }
        let increase = match self.yields {
            true => Self::INCREASE_YIELDING,
            false => Self::INCREASE,
        };
        let step = |round_trip: f64| increase * packet as f64 / (round_trip * round_trip) * length;
        if self.yields {
            let round_trip = round_trip.max(Self::YIELDING_ROUND_TRIP_MIN);
            // The longer nothing is in the way, the faster.
            let part = Self::YIELDING_GROWTH * f64::from(1 + self.calm);
            let step = step(round_trip.as_secs_f64()) + rate * part;
            let most = (rate * Self::YIELDING_GROWTH_MAX)
                .max(Self::YIELDING_PACKETS_MAX * packet as f64 / length.max(1e-3));
            let grown = rate + step.min(most);
            let regrowth = self.regrowth.filter(|_| self.rivals.are_there());
            regrowth.map_or(grown, |it| grown.max(it.grown(rate, ended.at)))
        } else {
            rate + step(round_trip.as_secs_f64().max(1e-5)).min(rate * 0.1)
        }
    }
}
