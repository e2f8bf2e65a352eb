//! The bucket algorithm of XTP (003 3.3.3): what a sender that knows no receiver makes of answers.
//!
//! Every request opens a bucket. An answer says by its echo, the stamp of the request, which one it
//! belongs to; a bucket keeps the minimum of what receivers have, of their room, and of the rate
//! and burst that they take, what any of them misses, and the longest round trip. When a bucket has
//! lived for the wait interval it is acted on, the oldest first.
//!
//! Ours: an empty bucket releases nothing; and a packet is released only when `agree` buckets in a
//! row, not counting empty ones, say that it has come.

use alloc::collections::VecDeque;
use core::time::Duration;

use groupcast_core::Time;

use super::super::config::Xtp;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::ranges::RangeSet;
use super::super::wire::ReceiverReport;
use super::peer::{Peer, Takes};

/// The answers to one request.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The request's stamp, which answers echo.
    pub(super) stamp: Stamp,
    /// When it is acted on.
    pub(super) due: Time,
    /// One past the highest packet that was sent before.
    pub(super) top: PacketNumber,
    /// How many answers it has.
    pub(super) answers: u64,
    /// All that answered have the packets below, and have room below the limit.
    pub(super) next: PacketNumber,
    pub(super) limit: PacketNumber,
    /// All that answered take this.
    pub(super) takes: Option<Takes>,
    /// What any of them misses.
    pub(super) missing: RangeSet<PacketNumber>,
    /// The longest round trip of an answer.
    pub(super) round_trip: Duration,
}

/// The buckets of a pass.
#[derive(Debug)]
pub(super) struct Buckets {
    rule: Xtp,
    /// Those that are not acted on, oldest first.
    open: VecDeque<Bucket>,
    /// What the last `agree` buckets said that were not empty: next, limit, and what is taken.
    said: VecDeque<(PacketNumber, PacketNumber, Option<Takes>)>,
    /// The room that receivers named when they registered.
    first_limit: PacketNumber,
    /// Everybody has the packets below, by the buckets' word.
    released: PacketNumber,
    /// How often in a row the sender has asked and nobody has answered.
    empty: u32,
    /// The last stamp when it was found so.
    empty_until: Stamp,
}

/// What a bucket that is acted on says.
#[derive(Debug)]
pub(super) enum Acted {
    /// It has answers, and whether they say the same as all that count towards a release.
    Answered(Bucket, bool),
    /// Nobody has answered it; how often in a row the sender has asked in vain.
    Empty(u32),
}

impl Buckets {
    /// `released` and `first_limit` are what receivers have said when they registered.
    pub(super) fn new(rule: Xtp, released: PacketNumber, first_limit: PacketNumber) -> Self {
        Self {
            rule,
            open: VecDeque::new(),
            said: VecDeque::new(),
            first_limit,
            released,
            empty: 0,
            empty_until: Stamp::default(),
        }
    }

    /// The rules that they follow.
    pub(super) fn rule(&self) -> &Xtp {
        &self.rule
    }

    /// Whether another request can be made.
    pub(super) fn has_room(&self) -> bool {
        self.open.len() < self.rule.buckets as usize
    }

    /// A request leaves.
    pub(super) fn open(&mut self, stamp: Stamp, due: Time, top: PacketNumber) {
        self.open.push_back(Bucket {
            stamp,
            due,
            top,
            answers: 0,
            next: PacketNumber::MAX,
            limit: PacketNumber::MAX,
            takes: None,
            missing: RangeSet::default(),
            round_trip: Duration::ZERO,
        });
    }

    /// When the oldest is to be acted on: at the latest when a newer one is due, which may have
    /// been opened with a shorter wait.
    pub(super) fn due(&self) -> Option<Time> {
        self.open.iter().map(|bucket| bucket.due).min()
    }

    /// Takes in an answer, `round_trip` after its request; false if its bucket is not open.
    pub(super) fn answer(&mut self, report: &ReceiverReport, round_trip: Duration) -> bool {
        // Exactly the request that it answers: what was true of an older one is not of this one.
        let mut open = self.open.iter_mut();
        let Some(bucket) = open.find(|bucket| bucket.stamp == report.seen) else {
            return false;
        };
        bucket.answers += 1;
        // A receiver that begins later misses nothing before its place, and some of that may not be
        // sent yet.
        bucket.next = bucket.next.min(report.next).min(bucket.top);
        bucket.limit = bucket.limit.min(report.limit);
        bucket.takes = Peer::take_both(bucket.takes, report.tag.and_then(Peer::limits));
        bucket.round_trip = bucket.round_trip.max(round_trip);
        // What was not sent before the request, or has been released, is nothing to repeat.
        let (least, top) = (self.released, bucket.top);
        for gap in &report.missing {
            bucket
                .missing
                .insert(gap.start.max(least)..gap.end.min(top));
        }
        true
    }

    /// Acts on the oldest, if it is due, while `last` is the last stamp given.
    pub(super) fn act(&mut self, now: Time, last: Stamp) -> Option<Acted> {
        self.due().filter(|due| *due <= now)?;
        let bucket = self.open.pop_front()?;
        if bucket.answers == 0 {
            #[cfg(any(test, feature = "planted-bugs"))]
            if self.rule.planted == Some(super::super::config::PlantedInBuckets::EmptyReleases) {
                self.released = self.released.max(bucket.top);
            }
            // Requests that were on their way when the first of them was found unanswered tell
            // nothing more.
            if bucket.stamp > self.empty_until {
                self.empty += 1;
                self.empty_until = last;
            }
            return Some(Acted::Empty(self.empty));
        }
        self.empty = 0;
        let word = (bucket.next, bucket.limit, bucket.takes);
        let full = self.said.len() == self.rule.agree as usize;
        let is_stale = full && self.said.iter().all(|said| *said == word);
        if self.said.len() == self.rule.agree as usize {
            self.said.pop_front();
        }
        self.said.push_back(word);
        if self.said.len() == self.rule.agree as usize {
            let agreed = self.said.iter().map(|(next, ..)| *next).min();
            self.released = self.released.max(agreed.unwrap_or_default());
        }
        Some(Acted::Answered(bucket, is_stale))
    }

    /// Everybody has the packets below, by the buckets' word.
    pub(super) fn released(&self) -> PacketNumber {
        self.released
    }

    /// Everybody has room below this packet, by the word of all buckets that count towards a
    /// release: one that an answer is missing from may name too much. What receivers said when they
    /// registered counts until there are as many.
    pub(super) fn room(&self) -> PacketNumber {
        let said = self.said.iter().map(|(_, limit, _)| *limit);
        let is_early = self.said.len() < self.rule.agree as usize;
        let first = is_early.then_some(self.first_limit);
        said.chain(first).min().unwrap_or(self.first_limit)
    }

    /// What everybody takes, by the word of all buckets that count towards a release: one whose
    /// answer is lost names no limit.
    pub(super) fn takes(&self) -> Option<Takes> {
        let said = self.said.iter().map(|(.., takes)| *takes);
        said.reduce(Peer::take_both).flatten()
    }

    /// Whether requests are on their way.
    pub(super) fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }
}
