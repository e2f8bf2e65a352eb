//! Roles, endings of requests, and the effects for clients.

use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::OrderPlace;

use crate::frame::Reject;

/// The roles that a member may have in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// It answers requests. Any number of members may have this role.
    Answering,
    /// It answers the requests that ask for this handler. One member has it at a time.
    Handler(u16),
    /// A lock, whose meaning the members agree on. One member has it at a time.
    Lock(u16),
}

impl Role {
    /// Whether one member has it at a time.
    pub const fn is_exclusive(self) -> bool {
        !matches!(self, Self::Answering)
    }

    /// Its kind and number, as frames and messages have them.
    pub(crate) const fn code(self) -> (u8, u16) {
        match self {
            Self::Answering => (0, 0),
            Self::Handler(number) => (1, number),
            Self::Lock(number) => (2, number),
        }
    }

    pub(crate) const fn from_code(kind: u8, number: u16) -> Option<Self> {
        match (kind, number) {
            (0, 0) => Some(Self::Answering),
            (1, _) => Some(Self::Handler(number)),
            (2, _) => Some(Self::Lock(number)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answering => f.write_str("answering"),
            Self::Handler(number) => write!(f, "handler {number}"),
            Self::Lock(number) => write!(f, "lock {number}"),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Ending {
    /// As many answered as were wanted.
    Complete = 0,
    /// Some have answered, or none, and no member is left that could answer.
    Short = 1,
    /// Its time was up. Members may have carried it out.
    TimedOut = 2,
    /// No member of the group answers requests, or none has the handler.
    Nobody = 3,
    /// It was carried out before, and its answers are not kept any more.
    Repeated = 4,
    /// It may have been carried out before; no daemon here knows.
    Unknown = 5,
    /// It was not carried out: the table of guests is full, too many requests are open, the guest
    /// may not send to the group, the group is bimodal or its name is none, the request is too
    /// long, or what orders the messages did not take it. The text says which.
    Refused = 6,
}

impl Ending {
    /// The ending of a code; [`Unknown`](Self::Unknown) for an unknown one.
    pub(crate) fn from_code(code: u8) -> Self {
        let all = [
            Self::Complete,
            Self::Short,
            Self::TimedOut,
            Self::Nobody,
            Self::Repeated,
            Self::Refused,
        ];
        let known = all.into_iter().find(|known| *known as u8 == code);
        known.unwrap_or(Self::Unknown)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Complete => "as many as were wanted",
            Self::Short => "no member is left that could answer",
            Self::TimedOut => "its time was up",
            Self::Nobody => "nobody answers requests there",
            Self::Repeated => "it was carried out before, and its answers are not kept",
            Self::Unknown => "it may have been carried out",
            Self::Refused => "it was refused",
        })
    }
}

/// The state of a role that a client asked for, has, or gives back.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RoleState {
    /// The client has it from here on.
    Held,
    /// The client waits in the queue.
    Waits {
        /// The private name of the client that has it.
        holder: String,
    },
    /// The client had the role or waited for it, and has given it back.
    Released,
    /// The client had the role, and another client has it now: parts of the network have merged.
    Lost {
        /// The private name of the client that has it; empty if none has, because this client or
        /// its daemon had more roles than allowed.
        holder: String,
    },
    /// The claim or release was refused.
    Refused {
        /// The private name of the client that has the role; empty if none has.
        holder: String,
        /// The reason, for programs.
        code: Reject,
        /// Why, in words.
        text: String,
    },
}

/// A notice about a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoleNotice {
    /// The client's number for its claim or release.
    pub token: u64,
    /// The group's name.
    pub group: String,
    /// The role.
    pub role: Role,
    /// The state of the role for this client.
    pub state: RoleState,
}

/// An effect for a client of this host. All are in the order of the group's messages, except
/// endings by time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A member is asked.
    Asked {
        /// The client.
        client: u64,
        /// The place of the request in the order.
        place: OrderPlace,
        /// The handler that the request asks for.
        handler: Option<u16>,
        /// The private name of the client that asks.
        guest: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The request's bytes.
        payload: Bytes,
    },
    /// A guest's request has come to its place in the order.
    Taken {
        /// The client.
        client: u64,
        /// The number of the request.
        number: u64,
        /// How many members are asked.
        asked: u32,
    },
    /// A guest gets an answer.
    Answer {
        /// The client.
        client: u64,
        /// The number of the request.
        number: u64,
        /// The private name of the member that answers.
        from: Arc<str>,
        /// The answer's bytes.
        payload: Bytes,
    },
    /// A guest's request has ended.
    Ended {
        /// The client.
        client: u64,
        /// The number of the request.
        number: u64,
        /// How.
        ending: Ending,
        /// How many answered.
        answers: u32,
        /// Why, in words, if there is something to say.
        why: &'static str,
    },
    /// A client gets a notice about a role.
    Role {
        /// The client.
        client: u64,
        /// The notice.
        notice: RoleNotice,
    },
}
