//! What a protocol tells its user: deliveries, configurations, accounts.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::id::{ConfigId, MemberId, MessageId};
use crate::service::Service;

/// Something that happened, in the order in which it happened at this member.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message is delivered.
    Deliver(Delivery),
    /// A configuration is installed.
    Configuration(Configuration),
    /// The sender of a message counts this member among its receivers: it will account for it. Only
    /// protocols that account for their receivers tell it; maybe more than once a message.
    Enrolled {
        /// The id of the message.
        id: MessageId,
    },
    /// All of a message is here, which may be delivered only when all of its receivers hold it.
    /// Only of messages that are sent so.
    Held {
        /// The id of the message.
        id: MessageId,
    },
    /// All receivers of such a message of this member's own hold it, and are told that they may
    /// deliver it.
    AllHold {
        /// The id of the message.
        id: MessageId,
        /// The receivers.
        holders: Vec<MemberId>,
    },
    /// It is settled what became of a message of this member's own at every receiver.
    Account(Account),
    /// Messages are lost to this member for good. Only protocols that promise to say so, not to
    /// prevent it, have gaps.
    Gap(Gap),
    /// The sender's messages up to this number are stable: nearly certainly all members that will
    /// ever have them have them, and this one has let go of them. Only if the protocol's settings
    /// ask for it.
    Stable {
        /// The member that sent the messages.
        sender: MemberId,
        /// The number of the last.
        number: u64,
    },
    /// There is room again after a `submit` was refused for want of it.
    Writable,
    /// Another process with this member's name is alive, has run for longer, and has proved it.
    /// This one has just begun: it has stopped taking part, and should end.
    NameInUse {
        /// The other one, who stays.
        holder: MemberId,
    },
    /// Another process with this member's name is alive, and neither gives way: both have run for
    /// long, or are in configurations with others. Groups of the two stay apart. Said once a minute
    /// at most, and on a key holder's mere word.
    NameContested {
        /// The other one.
        other: MemberId,
    },
    /// A `leave` is complete: nothing more will be delivered or sent.
    Left,
}

/// A delivered message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The id of the message.
    pub id: MessageId,
    /// What it was promised.
    pub service: Service,
    /// Where it stands in the total order; `None` for an unreliable message, and for one that is
    /// delivered before it is ordered.
    pub place: Option<OrderPlace>,
    /// The bytes that were submitted.
    pub payload: Bytes,
}

/// Consecutive messages of one sender that are not delivered here, now or later (004 3.6: gap
/// up-call).
///
/// A member reports a message once, and delivers none that it reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The member that sent the messages.
    pub sender: MemberId,
    /// The number of the first.
    pub first: u64,
    /// The number of the last: at least `first`.
    pub last: u64,
}

/// A place in the total order, equal at every member that delivers the message there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OrderPlace {
    /// The regular configuration in which the message was ordered, also when it is delivered in a
    /// transitional one.
    pub config: ConfigId,
    /// (Sequence number of the packet in which the message ends << 16) | its index among those that
    /// end there. Strictly increasing at every member, across configurations too.
    pub seq: u64,
}

impl OrderPlace {
    /// The place of the message numbered `index`, from 0 on, of those that end at `seq` in the
    /// order of `config`.
    pub const fn new(config: ConfigId, seq: u64, index: u64) -> Self {
        let index = if index < 0xffff { index } else { 0xffff };
        Self {
            config,
            seq: (seq << 16) | index,
        }
    }
}

/// Whether a configuration is the regular one or the transitional one between two regular ones
/// (EVS).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConfigurationKind {
    /// New messages are ordered in it.
    Regular,
    /// The members of the old regular configuration that move on together finish the old one's
    /// messages in it.
    Transitional,
}

/// An installed configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Regular or transitional.
    pub kind: ConfigurationKind,
    /// The regular configuration's id; of a transitional one, the id of the regular configuration
    /// that it closes.
    pub id: ConfigId,
    /// Its members, in ascending order.
    pub members: Vec<MemberId>,
    /// Of those absent since the configuration before: who said good-bye (the others crashed or are
    /// cut off).
    pub left: Vec<MemberId>,
}

/// What became of a message at every receiver that took part ([`Event::Enrolled`]) or was required.
/// Only protocols that account for their receivers tell it (bulk), at the sender, once a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The id of the message.
    pub id: MessageId,
    /// Who has all of it.
    pub complete: Vec<MemberId>,
    /// Who does not, or vanished before it said so. One that never came has the incarnation 0.
    pub failed: Vec<MemberId>,
}
