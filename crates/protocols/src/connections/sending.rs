//! A connection at its sender: what was said on it, who has it, and when it is closed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::{BufMut as _, Bytes, BytesMut};
use groupcast_core::{MemberId, Rng, Time};

use super::ConnectionsConfig;
use crate::bulk::{
    Bulk, DeliverTo, Notice, Opening, Outcome, Policy, RateControl, Transfer, TransferId,
};
use crate::xgm::Subgroups;

/// Bytes of what the sender says of a connection: the number of its first message (8), and whether
/// nobody answers (1).
pub(super) const ABOUT_LEN: usize = 8 + 1;
/// Bytes of the number of a message in a reply.
const NUMBER_LEN: u64 = 8;

/// A message's number, those that have it, and those that have not or may not.
pub(super) type Account = (u64, Vec<MemberId>, Vec<MemberId>);

/// A connection that this member sends on.
#[derive(Debug)]
pub(super) struct Outgoing {
    id: TransferId,
    opening: Opening,
    /// Whether the sender learns who has each message before the end.
    knows_each: bool,
    wants_replies: bool,
    /// The number of its first message among all of the member's.
    base: u64,
    /// How many messages were said, how many all have, and how many were accounted for.
    said: u64,
    all_have: u64,
    accounted: u64,
    /// When it is closed unless more is said; `None` before the start.
    closes: Option<Time>,
    is_closed: bool,
    is_over: bool,
    messages_max: u64,
    /// Receivers that are not settled; those that have everything from a message of the connection
    /// on; the others.
    present: BTreeSet<MemberId>,
    complete: Vec<(MemberId, u64)>,
    failed: BTreeSet<MemberId>,
    replies: BTreeMap<MemberId, Replied>,
    false_replies: u64,
}

/// What a receiver has replied: the numbers of the messages that it was given.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Replied {
    /// Bytes of numbers, and those of the last number that has not come whole.
    bytes: u64,
    number: u64,
}

impl Replied {
    /// Takes in bytes; how many numbers in them are not the next one, from `base` on.
    pub(super) fn take(&mut self, base: u64, bytes: &[u8]) -> u64 {
        let mut wrong = 0;
        for byte in bytes {
            self.number = self.number << 8 | u64::from(*byte);
            self.bytes += 1;
            if self.bytes.is_multiple_of(NUMBER_LEN) {
                let expected = base + self.bytes / NUMBER_LEN - 1;
                wrong += u64::from(self.number != expected);
            }
        }
        wrong
    }
}

impl Outgoing {
    /// Opens a connection whose first message has the number `base`, in one of the ways that the
    /// settings allow.
    pub(super) fn open(
        now: Time,
        base: u64,
        bulk: &mut Bulk,
        config: &ConnectionsConfig,
        rng: &mut Rng,
    ) -> Option<Self> {
        let policy = config.bulk.policy;
        let is_xtp = matches!(policy, Policy::Xtp(_));
        let is_fixed = matches!(config.bulk.rate, RateControl::Fixed { .. });
        let (one, other) = (rng.chance(0.5), rng.chance(0.5));
        let opening = if config.unanswered && is_fixed && one {
            Opening::Unanswered
        } else if config.joinable && is_xtp && !config.strict && other {
            Opening::AtAnyTime
        } else {
            Opening::AtStart
        };
        let answers = opening != Opening::Unanswered;
        let wants_replies = config.replies && answers && matches!(policy, Policy::Multidriver(_));
        let mut about = BytesMut::with_capacity(ABOUT_LEN);
        about.put_u64(base);
        about.put_u8(u8::from(!answers));
        let transfer = Transfer {
            about: about.freeze(),
            length: None,
            rewindable: false,
            receivers: config.receivers.clone(),
            subgroups: Subgroups::ALL,
            confirm: false,
            deliver_to: DeliverTo::AtOnce,
            strict: config.strict && answers,
            replies: wants_replies,
        };
        let id = bulk.open(now, transfer, opening).ok()?;
        Some(Self {
            id,
            opening,
            knows_each: answers && !is_xtp,
            wants_replies,
            base,
            said: 0,
            all_have: 0,
            accounted: 0,
            closes: None,
            is_closed: false,
            is_over: false,
            messages_max: config.messages_max,
            present: BTreeSet::new(),
            complete: Vec::new(),
            failed: BTreeSet::new(),
            replies: BTreeMap::new(),
            false_replies: 0,
        })
    }

    pub(super) fn id(&self) -> TransferId {
        self.id
    }

    /// When it is to be closed, if it is not yet.
    pub(super) fn closes(&self) -> Option<Time> {
        self.closes.filter(|_| !self.is_closed)
    }

    /// Every receiver is settled.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// It has ended before anything could be said.
    pub(super) fn nobody_came(&self) -> bool {
        self.is_over && self.said == 0 && !self.is_closed
    }

    /// Replies that do not say what their receiver was given.
    pub(super) fn false_replies(&self) -> u64 {
        self.false_replies
    }

    /// Says a message, if there is room for it; whether there was.
    pub(super) fn say(
        &mut self,
        now: Time,
        payload: &Bytes,
        bulk: &mut Bulk,
        config: &ConnectionsConfig,
    ) -> bool {
        if self.is_closed || self.said >= self.messages_max {
            return false;
        }
        let Ok(number) = bulk.offer_message(now, self.id, payload.clone()) else {
            return false;
        };
        debug_assert_eq!(number, self.said + 1, "they are counted from 1 on");
        self.said = number;
        self.closes = Some(now + config.linger);
        true
    }

    /// Closes it if it is time; whether it did. `is_idle`: nothing waits to be said.
    pub(super) fn close(
        &mut self,
        now: Time,
        is_idle: bool,
        leaves: bool,
        bulk: &mut Bulk,
    ) -> bool {
        let Some(closes) = self.closes.filter(|_| !self.is_closed) else {
            return false;
        };
        let is_time = self.said >= self.messages_max || is_idle && (leaves || closes <= now);
        if is_time {
            self.is_closed = true;
            bulk.finish(now, self.id);
        }
        is_time
    }

    /// Takes in a notice of the endpoint.
    pub(super) fn hear(
        &mut self,
        now: Time,
        notice: &Notice,
        bulk: &mut Bulk,
        config: &ConnectionsConfig,
    ) {
        match notice {
            Notice::Registered { id, receiver, .. } if *id == self.id => {
                // A former life of a receiver is not settled when another takes its place.
                let node = receiver.node;
                let former = self.present.extract_if(.., |other| other.node == node);
                self.failed.extend(former);
                self.present.insert(*receiver);
            }
            Notice::Started { id, .. } if *id == self.id => {
                self.closes = Some(now + config.linger);
            }
            Notice::AllHave { id, number } if *id == self.id && self.knows_each => {
                self.all_have = *number;
            }
            Notice::Reply {
                id,
                receiver,
                bytes,
                ..
            } if *id == self.id => {
                bulk.reply_consumed(now, *id, bytes.len() as u64);
                let replied = self.replies.entry(*receiver).or_default();
                self.false_replies += replied.take(self.base, bytes);
            }
            Notice::Settled {
                id,
                receiver,
                outcome,
                ..
            } if *id == self.id => self.settle(*receiver, outcome),
            Notice::Sent { id } if *id == self.id => self.is_over = true,
            _ => {}
        }
    }

    fn settle(&mut self, receiver: MemberId, outcome: &Outcome) {
        self.present.remove(&receiver);
        let from = match outcome {
            Outcome::Complete => 1,
            Outcome::Joined { number } => *number,
            _ => {
                self.failed.insert(receiver);
                return;
            }
        };
        self.complete.push((receiver, from));
        let replied = self.replies.get(&receiver).copied().unwrap_or_default();
        if self.wants_replies && replied.bytes != NUMBER_LEN * self.said {
            self.false_replies += 1;
        }
    }

    /// The next account of a message that can be given.
    pub(super) fn next_account(&mut self) -> Option<Account> {
        let known = match self.is_over {
            true => self.said,
            false => self.all_have,
        };
        if self.accounted >= known {
            return None;
        }
        self.accounted += 1;
        let number = self.accounted;
        let (mut complete, mut failed): (Vec<MemberId>, Vec<MemberId>) = (
            self.present.iter().copied().collect(),
            self.failed.iter().copied().collect(),
        );
        for (receiver, from) in &self.complete {
            match *from <= number {
                true => complete.push(*receiver),
                false => failed.push(*receiver),
            }
        }
        if self.opening == Opening::Unanswered {
            debug_assert!(complete.is_empty(), "nobody answers");
        }
        Some((self.base + number - 1, complete, failed))
    }
}
