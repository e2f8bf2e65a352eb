//! What an observer at one member sees: submissions, deliveries, configurations, accounts, the end
//! of a life.
//!
//! These are the histories that the checker judges, whether from the simulator or from a live
//! daemon. They carry no times and no internals. Payloads appear as a digest.

use alloc::vec::Vec;
use core::convert::Infallible;

use crate::event::{Account, Configuration, ConfigurationKind, Delivery, Event, Gap, OrderPlace};
use crate::id::{ConfigId, FNV_BASIS, MemberId, MessageId, fnv1a, fnv1a_after};
use crate::service::Service;
use crate::transmit::SocketClass;

/// What a datagram is for, whatever its protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Carries messages for the first time.
    Data,
    /// Keeps the protocol going: tokens, acknowledgements, digests, joins.
    Control,
    /// Asks for messages that were missed.
    Request,
    /// Carries messages again.
    Repair,
}

/// What a datagram is, said by its protocol's own reader of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Inspected {
    /// The protocol's own word for it: `token`, `data`, `join`.
    pub kind: &'static str,
    /// What it is for.
    pub role: Role,
}

/// Reads a datagram's body (a protocol's own bytes, in clear) for measurements: what it is, and the
/// payload of every message that is whole in it. Any bytes are legal; what does not decode is
/// `junk`.
pub type Inspect = fn(SocketClass, &[u8], &mut dyn FnMut(&[u8])) -> Inspected;

/// One line of a member's history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// The member began its life. Always the first line.
    Start,
    /// The member accepted a message from its user.
    Submit {
        /// The id of the message.
        id: MessageId,
        /// What it was promised.
        service: Service,
        /// Of its payload.
        digest: u64,
    },
    /// The member delivered a message.
    Deliver {
        /// The id of the message.
        id: MessageId,
        /// What it was promised.
        service: Service,
        /// Where in the order; `None` for an unreliable one, for one that is delivered before it
        /// is ordered, and of a protocol without configurations.
        place: Option<OrderPlace>,
        /// Of its payload.
        digest: u64,
    },
    /// The member reported messages as lost to it.
    Gap(Gap),
    /// The member installed a configuration.
    Configuration {
        /// Regular or transitional.
        kind: ConfigurationKind,
        /// Of a transitional one, the id of the regular configuration that it closes.
        id: ConfigId,
        /// In ascending order.
        members: Vec<MemberId>,
    },
    /// The member learned that it is one of the receivers that a message's sender will account for.
    Enrolled {
        /// The id of the message.
        id: MessageId,
    },
    /// The member holds all of a message that it may deliver only when all of its receivers hold
    /// it.
    Held {
        /// The id of the message.
        id: MessageId,
    },
    /// The member told the receivers of such a message of its own that they all hold it.
    AllHold {
        /// The id of the message.
        id: MessageId,
        /// The receivers.
        holders: Vec<MemberId>,
    },
    /// The member learned what became of a message of its own at every receiver.
    Account {
        /// The id of the message.
        id: MessageId,
        /// Who has all of it.
        complete: Vec<MemberId>,
        /// Who does not, or may not.
        failed: Vec<MemberId>,
    },
    /// The member's user saw a new view of a process group, at this place of its history.
    GroupView {
        /// The group's name.
        group: alloc::string::String,
        /// The view's identifier, equal wherever the view is the same.
        view: alloc::string::String,
        /// Names of the members, in the view's order.
        members: Vec<alloc::string::String>,
    },
    /// A client of the member was given a request to a process group.
    Asked {
        /// The request's name, equal wherever the request is the same.
        request: alloc::string::String,
        /// The group's name.
        group: alloc::string::String,
        /// The client's name.
        client: alloc::string::String,
    },
    /// A client of the member answered a request.
    Replied {
        /// The request's name.
        request: alloc::string::String,
        /// The client's name.
        client: alloc::string::String,
        /// The handler that the request asked for, if it asked for one.
        handler: Option<u16>,
    },
    /// At this place of the order a client, of whatever member, has a role in a process group.
    Granted {
        /// The group's name.
        group: alloc::string::String,
        /// What the role is called.
        role: alloc::string::String,
        /// The client's name.
        client: alloc::string::String,
        /// Where in the order.
        place: OrderPlace,
    },
    /// From this place of the order on it has the role no more.
    Freed {
        /// The group's name.
        group: alloc::string::String,
        /// What the role is called.
        role: alloc::string::String,
        /// The client's name.
        client: alloc::string::String,
        /// Where in the order.
        place: OrderPlace,
    },
    /// The member left gracefully. Nothing follows.
    Leave,
    /// The member's life ended without a word. Nothing follows.
    Crash,
}

impl Observation {
    /// What an observer sees of `event`; `None` if nothing.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Deliver(Delivery {
                id,
                service,
                place,
                payload,
            }) => Some(Self::Deliver {
                id: *id,
                service: *service,
                place: *place,
                digest: digest(payload),
            }),
            Event::Configuration(Configuration {
                kind, id, members, ..
            }) => Some(Self::Configuration {
                kind: *kind,
                id: *id,
                members: members.clone(),
            }),
            Event::Enrolled { id } => Some(Self::Enrolled { id: *id }),
            Event::Held { id } => Some(Self::Held { id: *id }),
            Event::AllHold { id, holders } => Some(Self::AllHold {
                id: *id,
                holders: holders.clone(),
            }),
            Event::Account(Account {
                id,
                complete,
                failed,
            }) => Some(Self::Account {
                id: *id,
                complete: complete.clone(),
                failed: failed.clone(),
            }),
            Event::Gap(gap) => Some(Self::Gap(*gap)),
            Event::Left => Some(Self::Leave),
            Event::Stable { .. }
            | Event::Writable
            | Event::NameInUse { .. }
            | Event::NameContested { .. } => None,
        }
    }
}

/// What a protocol tells its user, as an observer of the member sees it.
pub trait Observable {
    /// The line of the member's history; none by default.
    fn observation(&self) -> Option<Observation> {
        None
    }
}

impl Observable for Event {
    fn observation(&self) -> Option<Observation> {
        Observation::of(self)
    }
}

/// Of a protocol that tells its user nothing.
impl Observable for Infallible {}

/// Digest of a payload in a history: FNV-1a, 64 bits. It takes about a nanosecond a byte.
pub fn digest(payload: &[u8]) -> u64 {
    fnv1a(payload)
}

/// The same in parts, for payloads that are too long to be digested at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(FNV_BASIS)
    }
}

impl Digest {
    /// The next bytes of the payload.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = fnv1a_after(self.0, bytes);
    }

    /// The digest of all bytes so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// A change of a protocol's state machine: what happened inside, for logs and coverage, never for
/// the checker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Transition {
    /// The state before.
    pub from: &'static str,
    /// The state after; the same as before when the state was entered anew.
    pub to: &'static str,
    /// What caused it.
    pub cause: &'static str,
    /// The member from which the cause came, or that it concerns, where one is known.
    pub about: Option<MemberId>,
}

impl Transition {
    /// One that concerns no member that is known.
    pub fn new(from: &'static str, to: &'static str, cause: &'static str) -> Self {
        Self {
            from,
            to,
            cause,
            about: None,
        }
    }
}

/// Watches one member.
pub trait Observer {
    /// `observer` saw `observation`, after all that it saw before.
    fn observe(&mut self, observer: MemberId, observation: &Observation);
}
