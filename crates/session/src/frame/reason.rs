//! Why a daemon refuses, rejects or disconnects: codes for programs, beside the texts for people.

/// Why a daemon does not take a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// A reason that this side does not know; the text says it.
    Other = 0,
    /// The client does not speak this protocol.
    Protocol = 1,
    /// There is no version that both sides speak.
    Version = 2,
    /// The client's name is not allowed.
    Name = 3,
    /// Another client of the daemon has the name.
    NameInUse = 4,
    /// The daemon has its most clients.
    TooManyClients = 5,
    /// The daemon is stopping.
    Stopping = 6,
    /// The client did not say hello in time.
    TooLate = 7,
    /// The client does not have the token that the daemon asks for.
    Token = 8,
}

/// Why a daemon ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Disconnect {
    /// A reason that this side does not know; the text says it.
    Other = 0,
    /// The client said bye, and all it sent is accepted.
    Bye = 1,
    /// The client broke the protocol.
    Protocol = 2,
    /// The client took its messages too slowly.
    TooSlow = 3,
    /// The daemon is stopping or has left its group.
    Stopping = 4,
    /// The daemon has reached a limit of memory or time for clients.
    Overload = 5,
}

/// Why a daemon does not carry out a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reject {
    /// A reason that this side does not know; the text says it.
    Other = 0,
    /// A name is not allowed.
    Name = 1,
    /// The message is longer than any may be.
    TooLarge = 2,
    /// The group or its order does not support the request.
    Unsupported = 3,
    /// The client, or all clients of the daemon, have their most groups, patterns or waiting joins.
    TooManyGroups = 4,
    /// The daemon is stopping.
    Stopping = 5,
    /// The message needs a majority, and the daemons that can reach each other are none. Unlike the
    /// other codes, it may come when the message was on its way already.
    Minority = 6,
    /// The daemon's access rules do not allow it.
    Forbidden = 7,
    /// A pattern is no regular expression, or too large.
    Pattern = 8,
    /// The client wants to take back a pattern that it has not.
    NotAccepted = 9,
    /// Another client has the handler or the lock.
    Taken = 10,
    /// The client wants to give back a role that it has not.
    NotHeld = 11,
    /// The client is not in the group.
    NotMember = 12,
    /// The client has, and waits for, its most roles.
    TooManyRoles = 13,
    /// There is no room for another guest, or for another request of this one.
    TooManyGuests = 14,
}

macro_rules! codes {
    ($type:ident: $($variant:ident),+) => {
        impl $type {
            /// The reason of a code; [`Other`](Self::Other) for an unknown one.
            pub(super) fn from_code(code: u8) -> Self {
                [$(Self::$variant),+]
                    .into_iter()
                    .find(|known| *known as u8 == code)
                    .unwrap_or(Self::Other)
            }
        }
    };
}
codes!(Refusal: Protocol, Version, Name, NameInUse, TooManyClients, Stopping, TooLate, Token);
codes!(Disconnect: Bye, Protocol, TooSlow, Stopping, Overload);
codes!(
    Reject: Name,
    TooLarge,
    Unsupported,
    TooManyGroups,
    Stopping,
    Minority,
    Forbidden,
    Pattern,
    NotAccepted,
    Taken,
    NotHeld,
    NotMember,
    TooManyRoles,
    TooManyGuests
);
