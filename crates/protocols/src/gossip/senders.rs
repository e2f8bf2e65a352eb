//! Which senders a member follows, and where its part of each one's messages begins.
//!
//! The table of streams is bounded. A sender's stream that holds and misses nothing gives way to
//! another's, the one that was quiet for the longest first, and leaves a bookmark: it goes on where
//! it was, whoever speaks of it. No stream begins behind what was delivered of it before: once a
//! bookmark was dropped, a sender of which nothing is known [proves](super::proofs) first where it
//! is.

use groupcast_core::MemberId;

use super::Gossip;
use super::stream::Stream;

/// How a member came across the messages of a sender that it does not follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Met {
    /// By a message on its first way.
    New { number: u64 },
    /// By the sender's own word: it had sent this many messages when this member heard of it, and
    /// this many by now.
    Described { before: u64, sent: u64 },
    /// By a repair or another's digest: these messages exist, and may have been here before.
    Hearsay { lowest: u64, highest: u64 },
}

impl Met {
    fn highest(self) -> u64 {
        match self {
            Self::New { number } => number,
            Self::Described { sent, .. } => sent,
            Self::Hearsay { highest, .. } => highest,
        }
    }
}

impl Gossip {
    /// Bookmarks for every stream of the table: with the default settings 4,096, some 400 kB.
    pub(super) const BOOKMARKS: usize = 16;

    /// Begins to follow a sender, if it has something to follow, there is room in the table, and it
    /// is known where to begin.
    pub(super) fn follow(&mut self, sender: MemberId, met: Met) -> Option<()> {
        let done = self.bookmarks.get(sender);
        if done.is_some_and(|done| met.highest() <= done) {
            return None;
        }
        let stream = match done {
            Some(done) => Stream::from(done, self.config.window_max),
            None if self.must_prove(sender) => {
                // What others hold is no sign that the sender lives.
                if !matches!(met, Met::Hearsay { .. }) {
                    self.ask_for_proof(sender);
                }
                return None;
            }
            None => self.begin(sender, met),
        };
        if self.streams.len() >= self.config.senders_max && self.forget_one().is_none() {
            // What comes from here on is asked for when there is room. Of what others hold it is
            // the newest: they need not have it any more when there is.
            if done.is_none() {
                let begin = match met {
                    Met::Hearsay { highest, .. } => highest.saturating_sub(1),
                    _ => stream.first() - 1,
                };
                self.bookmarks.set(sender, begin);
            }
            return None;
        }
        self.bookmarks.take(sender);
        self.streams.insert(sender, stream);
        Some(())
    }

    /// Where the stream of a sender without a bookmark begins.
    fn begin(&self, sender: MemberId, met: Met) -> Stream {
        let window = self.config.window_max;
        let round = self.round.number;
        let (first, before) = match met {
            Met::Described { before, .. } => return Stream::from(before, window),
            Met::New { number } => (number, number - 1),
            Met::Hearsay { lowest, highest } => (lowest, highest),
        };
        let may_be_old = self.bookmarks.dropped();
        match self.view.sent_before(sender) {
            Some(before) if before < first || may_be_old => Stream::from(before, window),
            described => {
                let before = described.unwrap_or(before);
                Stream::met_at(first, before, round, window)
            }
        }
    }

    /// Makes room in the table; `None` if every stream holds or misses something.
    fn forget_one(&mut self) -> Option<()> {
        let others = self.streams.iter().filter(|(it, _)| **it != self.local);
        let idle = others.filter(|(_, stream)| stream.is_idle());
        let quietest = idle.min_by_key(|(_, stream)| stream.moved());
        let sender = quietest.map(|(sender, _)| *sender)?;
        let stream = self.streams.remove(&sender)?;
        // Of what others alone have said nothing was told, and it may be wrong.
        if !stream.is_hearsay() {
            let done = stream.first() - 1;
            self.bookmarks.set(sender, done);
            self.view.accounted(sender, done);
        }
        Some(())
    }
}
