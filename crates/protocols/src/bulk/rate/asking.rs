//! When a sender asks all its receivers for reports: in turn, by the number of packets, and, if it
//! yields, by the time, too.

use core::time::Duration;

use groupcast_core::Time;

/// A packet whose turn it is to ask all receivers for reports.
#[derive(Clone, Copy, Debug)]
pub(in crate::bulk) struct Turn {
    pub(in crate::bulk) receivers: usize,
    /// Packets from one turn to the next.
    pub(in crate::bulk) every: u64,
    /// So many packets may be sent that not all have, and this is the one of them with this number,
    /// from 1.
    pub(in crate::bulk) room: u64,
    pub(in crate::bulk) at: u64,
    pub(in crate::bulk) round_trip: Duration,
}

/// When all receivers were asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// The last time, and how many packets were sent since.
    asked: Time,
    sent_since: u64,
    /// How often they are asked because of the time.
    every: Duration,
}

impl Asking {
    /// If it yields it asks all receivers for reports so often, and no more often than this for
    /// each receiver.
    const EVERY: Duration = Duration::from_millis(4);
    const EVERY_EACH: Duration = Duration::from_micros(250);
    /// The reports of many receivers are no more than one in this time.
    const HEAR_EACH: Duration = Duration::from_micros(50);

    /// They were asked at `asked`.
    pub(super) fn new(asked: Time) -> Self {
        Self {
            asked,
            sent_since: 0,
            every: Self::EVERY,
        }
    }

    /// The same, and nothing else is known.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.asked)
    }

    /// How often receivers are asked because of the time.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// A packet was sent.
    pub(super) fn note_sent(&mut self) {
        self.sent_since += 1;
    }

    /// All receivers are asked.
    pub(super) fn note_asked(&mut self, now: Time) {
        self.asked = now;
        self.sent_since = 0;
    }

    /// Whether it is time to ask so many receivers; then they are taken to be asked.
    pub(super) fn is_time(&mut self, now: Time, receivers: usize, yields: bool) -> bool {
        let each = Self::EVERY_EACH * u32::try_from(receivers).unwrap_or(u32::MAX);
        self.every = Self::EVERY.max(each);
        if !yields || now < self.asked + self.every {
            return false;
        }
        self.note_asked(now);
        true
    }

    /// Whether a turn may be left out, since another one is early enough.
    pub(super) fn may_pass_over(&self, now: Time, turn: &Turn) -> bool {
        let each = Self::HEAR_EACH * u32::try_from(turn.receivers).unwrap_or(u32::MAX);
        let is_last = turn.at + turn.every > turn.room && now >= self.asked + turn.round_trip;
        let may_wait = self.sent_since + 2 * turn.every <= turn.room && !is_last;
        now < self.asked + each && may_wait
    }
}
