//! Requests for packets, on the token: which this member answers, which it makes, and the member
//! that receives nothing however often it asks.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::{Limits, Ordering};
use crate::ring::numbers::{Run, Seq};
use crate::ring::wire::{RTR_RUNS_MAX, Token};

/// A visit answers as many requests as it may initiate packets, or this many if that is more.
const ANSWERS_MIN: u32 = 4;
/// Most sequence numbers that the runs of one token stand for.
const REQUESTS_MAX: usize = 4096;

impl Ordering {
    /// Takes the requests that can be answered here off the token, at most a window of them.
    ///
    /// A request that was answered at the last visit and is here again is left to the next member:
    /// the way from here to the member that misses the packet may not work.
    pub(super) fn answer_requests(&mut self, token: &mut Token, limits: Limits) -> Vec<Seq> {
        let (mut answered, mut open, mut again) = (Vec::new(), Vec::new(), 0);
        let most = self
            .answers_max
            .min(limits.personal.max(ANSWERS_MIN) as usize);
        for seq in requests(&token.rtr) {
            let repeated = self.answered.binary_search(&seq).is_ok();
            again += usize::from(repeated);
            if repeated || answered.len() >= most || self.window.get(seq).is_none() {
                open.push(seq);
            } else {
                answered.push(seq);
            }
        }
        if !self.answered.is_empty() {
            let lost = again * 2 > self.answered.len();
            self.answers_max = if lost {
                (self.answered.len() / 2).max(1)
            } else {
                most.max(1) * 2
            };
        }
        token.rtr = runs(open.into_iter());
        self.answered.clone_from(&answered);
        answered
    }

    /// Adds what is missing here. Only up to the seq of the round before: what was claimed since
    /// may not have been sent yet (002 III-A.2).
    pub(super) fn make_requests(&self, token: &mut Token) {
        let missing = self
            .window
            .missing(self.requestable.min(token.seq))
            .take(RTR_RUNS_MAX * 64);
        if token.rtr.is_empty() {
            token.rtr = runs(missing);
        } else {
            let mut all: Vec<Seq> = requests(&token.rtr).chain(missing).collect();
            all.sort_unstable();
            all.dedup();
            token.rtr = runs(all.into_iter());
        }
        // What everybody holds needs no answer: a request that crossed its answer.
        let aru = token.aru;
        token.rtr.retain(|run| run.end() > aru.next());
    }

    /// The member that does not receive, if there is one: the token's aru stays where that member
    /// lowered it for longer than `patience`, although the next packet is here, and is
    /// retransmitted (Totem's fail-to-receive).
    pub(in crate::ring) fn cannot_receive(
        &mut self,
        now: Time,
        token: &Token,
        patience: Duration,
    ) -> Option<MemberId> {
        let held_here = token.aru < token.seq && self.window.has(token.aru.next());
        let Some(by) = token.aru_by.filter(|by| *by != self.me && held_here) else {
            self.stuck = None;
            return None;
        };
        match self.stuck {
            Some((index, aru, since)) if index == by && aru == token.aru => {
                (now.since(since) >= patience).then(|| self.members[by.at()])
            }
            _ => {
                self.stuck = Some((by, token.aru, now));
                None
            }
        }
    }
}

fn requests(rtr: &[Run]) -> impl Iterator<Item = Seq> {
    rtr.iter().flat_map(|run| run.iter()).take(REQUESTS_MAX)
}

/// Ascending numbers as runs, the lowest of them if there are too many.
fn runs(seqs: impl Iterator<Item = Seq>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for seq in seqs {
        let full = runs.len() == RTR_RUNS_MAX;
        match runs.last_mut() {
            Some(run) if run.end() == seq && run.count < u16::MAX => run.count += 1,
            _ if full => break,
            _ => runs.push(Run {
                first: seq,
                count: 1,
            }),
        }
    }
    runs
}
