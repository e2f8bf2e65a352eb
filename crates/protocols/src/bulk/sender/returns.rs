//! The return streams of all receivers (003 5.3.2, X_MRreply): what each has sent, and how far it
//! may go. One budget bounds the bytes that may come and those that have come and are not consumed,
//! of all receivers together, however many they are.
//!
//! A receiver may send a little without asking. It says how much more it has, and those that have
//! more get their credit in turn. A part beyond a gap is not kept: it is sent again (go-back-N).

use alloc::vec::Vec;
use core::ops::Bound;

use bytes::Bytes;
use groupcast_core::MemberId;

use super::super::config::BulkConfig;
use super::super::context::Context;
use super::super::transfer::{Notice, Transfer, Wanted};
use super::super::wire::{Message, Part, Returned};
use super::Sender;

/// What the sender keeps of all return streams together.
#[derive(Debug)]
pub(super) struct Returns {
    /// Bytes that may come, and such as the user is not done with: at most this many.
    budget: u64,
    /// Bytes that each receiver may send without being granted any.
    credit: u64,
    /// Bytes that the user is not done with.
    unconsumed: u64,
    /// Who got credit last.
    turn: Option<MemberId>,
}

/// The return stream of one receiver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct PeerReturn {
    /// The bytes below have come, and the receiver may send those below the limit.
    next: u64,
    limit: u64,
    /// One past the last byte that the receiver has to send, as it says.
    waiting: u64,
    /// What its user has said of the end, once that has come.
    code: Option<u32>,
    /// The count of its last part.
    count: u64,
}

/// What a part has brought.
enum Brought {
    /// The bytes that are new, perhaps none.
    New(Bytes),
    /// Nothing: one before it is missing.
    Gap,
    /// Nothing: it was here before.
    Again,
    /// It is beyond the credit, or cannot be of this stream.
    Refused,
}

impl Returns {
    /// The most bytes that a receiver may send without asking.
    const CREDIT_MAX: u64 = 8 << 10;
    /// The most bytes that a receiver may have granted at a time.
    const GRANT_MAX: u64 = 16 << 10;
    /// Less is not granted, unless a receiver has no more: parts would be small.
    const GRANT_MIN: u64 = 1024;

    /// Those of a transfer that wants them. Half of the budget is for what comes unasked.
    pub(super) fn of(transfer: &Transfer, config: &BulkConfig) -> Option<Self> {
        let receivers = match transfer.receivers {
            Wanted::Between { max, .. } => max,
            _ => config.receivers_max,
        };
        let budget = config.replies_buffer as u64;
        let credit = budget / 2 / (receivers as u64).max(1);
        transfer.replies.then_some(Self {
            budget,
            credit: credit.min(Self::CREDIT_MAX),
            unconsumed: 0,
            turn: None,
        })
    }

    /// Bytes that each receiver may send without being granted any.
    pub(super) fn credit(&self) -> u64 {
        self.credit
    }
}

impl PeerReturn {
    /// Whether all of it has come.
    pub(super) fn has_ended(&self) -> bool {
        self.code.is_some()
    }

    /// Whether anything of it has come.
    pub(super) fn has_begun(&self) -> bool {
        self.count > 0
    }

    /// Bytes that may come.
    fn granted(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Takes a part in.
    fn take(&mut self, part: &Part) -> Brought {
        let reach = part.reach();
        let is_beyond = reach > self.limit || part.waiting < reach;
        let contradicts = part.end.is_some() && (reach < self.next || part.waiting != reach);
        if is_beyond || contradicts {
            return Brought::Refused;
        }
        if self.has_ended() {
            return Brought::Again;
        }
        self.waiting = self.waiting.max(part.waiting);
        self.count = self.count.max(part.count);
        if part.offset > self.next {
            return Brought::Gap;
        }
        let is_news = reach > self.next || part.end.is_some() || part.bytes.is_empty();
        if reach < self.next || !is_news {
            return Brought::Again;
        }
        let known = (self.next - part.offset) as usize;
        self.next = reach;
        self.code = part.end;
        if part.end.is_some() {
            // Nothing more may come.
            self.limit = reach;
        }
        // A slice would keep all of the memory that was received with it.
        Brought::New(Bytes::copy_from_slice(&part.bytes[known..]))
    }

    /// What the receiver is told of it.
    fn returned(&self, gap: bool) -> Returned {
        Returned {
            gap,
            ended: self.has_ended(),
            next: self.next,
            limit: self.limit,
            count: self.count,
        }
    }
}

impl Sender {
    /// What a receiver that registers may send at first.
    pub(super) fn first_return(&self) -> PeerReturn {
        PeerReturn {
            limit: self.returns.as_ref().map_or(0, Returns::credit),
            ..PeerReturn::default()
        }
    }

    /// Takes in a part of a return stream, acknowledges it, and gives credit.
    pub(super) fn take_part(&mut self, context: &mut Context<'_>, from: MemberId, part: &Part) {
        let id = self.id;
        let Some((peer, returns)) = self.peers.get_mut(&from).zip(self.returns.as_mut()) else {
            context.counters.parts_refused += 1;
            return;
        };
        let brought = peer.returned.take(part);
        let gap = matches!(brought, Brought::Gap);
        match brought {
            Brought::New(bytes) => {
                context.counters.parts_received += 1;
                returns.unconsumed += bytes.len() as u64;
                let PeerReturn { next, code, .. } = peer.returned;
                let offset = next - bytes.len() as u64;
                if !bytes.is_empty() {
                    context.notify(Notice::Reply {
                        id,
                        receiver: from,
                        offset,
                        bytes,
                    });
                }
                if let Some(code) = code {
                    context.notify(Notice::ReplyEnded {
                        id,
                        receiver: from,
                        code,
                        length: next,
                    });
                }
            }
            Brought::Gap | Brought::Again => context.counters.parts_unused += 1,
            Brought::Refused => {
                context.counters.parts_refused += 1;
                return;
            }
        }
        let told = self.grant(context, Some((from, gap)));
        if !told {
            self.tell_returned(context, from, gap);
        }
    }

    /// A settled receiver that is complete repeats a part: its acknowledgement was lost.
    pub(super) fn acknowledge_settled(
        &self,
        context: &mut Context<'_>,
        from: MemberId,
        part: &Part,
    ) {
        let returned = Returned {
            gap: false,
            ended: part.end.is_some(),
            next: part.reach(),
            limit: part.reach(),
            count: part.count,
        };
        let message = Message::Returned(returned);
        context.outbox.unicast(from, self.id.number, &message);
    }

    fn tell_returned(&self, context: &mut Context<'_>, receiver: MemberId, gap: bool) {
        if let Some(peer) = self.peers.get(&receiver) {
            let message = Message::Returned(peer.returned.returned(gap));
            context.outbox.unicast(receiver, self.id.number, &message);
        }
    }

    /// The user is done with `bytes` of replies: others may come.
    pub(in crate::bulk) fn reply_consumed(&mut self, context: &mut Context<'_>, bytes: u64) {
        if let Some(returns) = &mut self.returns {
            returns.unconsumed = returns.unconsumed.saturating_sub(bytes);
            self.grant(context, None);
        }
    }

    /// Gives what is left of the budget to those that have more to send, in turn, and tells them.
    /// `heard`, of which a part has come (after a gap or not), is told with its acknowledgement:
    /// whether it was.
    pub(super) fn grant(
        &mut self,
        context: &mut Context<'_>,
        heard: Option<(MemberId, bool)>,
    ) -> bool {
        let Some(returns) = &mut self.returns else {
            return false;
        };
        let granted: u64 = self
            .peers
            .values()
            .map(|peer| peer.returned.granted())
            .sum();
        let used = granted.saturating_add(returns.unconsumed);
        let mut free = returns.budget.saturating_sub(used);
        let after = returns.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.peers.range((after, Bound::Unbounded));
        let first = match returns.turn {
            Some(turn) => self.peers.range(..=turn),
            None => self.peers.range(..),
        };
        let first = first.filter(|_| returns.turn.is_some());
        let wants = |peer: &PeerReturn| peer.waiting.saturating_sub(peer.limit);
        let in_turn = later
            .chain(first)
            .map(|(member, peer)| (*member, peer.returned));
        let in_turn = in_turn.filter(|(_, peer)| wants(peer) > 0);
        let mut grants: Vec<(MemberId, u64)> = Vec::new();
        for (member, peer) in in_turn {
            let most = Returns::GRANT_MAX.saturating_sub(peer.granted());
            let more = wants(&peer).min(most).min(free);
            if more >= wants(&peer).min(Returns::GRANT_MIN) && more > 0 {
                free -= more;
                grants.push((member, more));
            }
        }
        if let Some((last, _)) = grants.last() {
            returns.turn = Some(*last);
        }
        let mut is_told = false;
        for (member, more) in grants {
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.returned.limit += more;
            }
            let own = heard.filter(|(from, _)| *from == member);
            is_told |= own.is_some();
            self.tell_returned(context, member, own.is_some_and(|(_, gap)| gap));
        }
        is_told
    }
}
