//! The ledger's records and the indices by which they refer to each other, and an observation in
//! their terms ([`Step`]).

use std::collections::BTreeMap;

use groupcast_core::{ConfigId, ConfigurationKind, MemberId, MessageId, OrderPlace, Service};

use super::{GroupIx, RoleName, ViewIx};

/// An index into one of the ledger's tables.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name(u32);

        impl $name {
            pub(crate) fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("2^32 records do not fit into memory"))
            }

            pub(crate) fn get(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use index;

index!(
    /// A member: it has a history, or sent a message that is in one.
    MemberIx
);
index!(
    /// A regular configuration.
    ConfigIx
);
index!(
    /// A message.
    MessageIx
);
index!(
    /// A list of members.
    SetIx
);

/// A place in the total order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub(crate) seq: u64,
    pub(crate) config: ConfigIx,
}

/// What is known about a message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: MessageId,
    pub(crate) sender: MemberIx,
    pub(crate) submission: Option<Submission>,
    /// Its first delivery anywhere.
    pub(crate) sighting: Option<Sighting>,
    /// Who delivered it first in a regular configuration.
    pub(crate) regular_at: Option<MemberIx>,
}

/// How a message was submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    pub(crate) service: Service,
    pub(crate) digest: u64,
    /// The last ordered message that its sender had delivered: all that it had seen stands there or
    /// before.
    pub(crate) after: Option<Spot>,
    /// The last regular configuration that its sender had closed, by installing its transitional
    /// one.
    pub(crate) closed: Option<ConfigIx>,
}

/// How a message was delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub(crate) by: MemberIx,
    pub(crate) service: Service,
    pub(crate) digest: u64,
    pub(crate) spot: Option<Spot>,
}

/// What the sender of a message reported of its delivery.
#[derive(Debug)]
pub(crate) struct Account {
    /// The sender, who reports it.
    pub(crate) by: MemberIx,
    /// Who has all of it.
    pub(crate) complete: Box<[MemberId]>,
    /// Who does not, or may not.
    pub(crate) failed: Box<[MemberId]>,
}

/// What is known about a regular configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) id: ConfigId,
    /// Its members and who installed it first; `None` as long as nobody has.
    pub(crate) installed: Option<(SetIx, MemberIx)>,
    /// What is delivered anywhere with a place in it, by `seq`.
    pub(crate) order: BTreeMap<u64, MessageIx>,
}

/// Two consecutive regular configurations of a member, through a transitional one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    /// The members of the transitional configuration.
    pub(crate) set: SetIx,
    /// Who made it first.
    pub(crate) by: MemberIx,
    /// Which of that one's stays it ended.
    pub(crate) stay: usize,
}

/// An observation in terms of the ledger, not yet entered.
#[derive(Clone, Debug)]
pub(crate) enum Step<'a> {
    Start,
    Submit {
        message: MessageIx,
        id: MessageId,
        service: Service,
        digest: u64,
    },
    Deliver {
        message: MessageIx,
        service: Service,
        digest: u64,
        spot: Option<Spot>,
    },
    Install {
        kind: ConfigurationKind,
        config: ConfigIx,
        set: SetIx,
    },
    Enrolled {
        message: MessageIx,
    },
    Held {
        message: MessageIx,
    },
    AllHold {
        message: MessageIx,
        holders: &'a [MemberId],
    },
    Account {
        message: MessageIx,
        complete: &'a [MemberId],
        failed: &'a [MemberId],
    },
    GroupView {
        group: GroupIx,
        view: Option<ViewIx>,
        name: &'a str,
        members: &'a [String],
    },
    /// Of `sender`, all numbers from `first` to `last`.
    Gap {
        sender: MemberIx,
        first: u64,
        last: u64,
    },
    Asked {
        request: &'a str,
        client: &'a str,
    },
    Replied {
        request: &'a str,
        client: &'a str,
        handler: Option<u16>,
    },
    Granted {
        role: RoleName,
        client: &'a str,
        place: OrderPlace,
    },
    Freed {
        role: RoleName,
        client: &'a str,
        place: OrderPlace,
    },
    Leave,
    Crash,
}
