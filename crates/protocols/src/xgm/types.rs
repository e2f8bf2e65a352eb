//! Requests, events, counters and errors of a group management entity.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::MemberId;
use groupcast_core::trace::Observable;

use super::{Account, Subgroups, Violation};

/// The most members of one host: the list of this many fits a datagram.
pub const MEMBERS_MAX: usize = 64;
/// The longest name of a host or of a variable, in bytes.
pub const NAME_MAX: usize = 255;
/// The longest value of a variable, in bytes.
pub const VALUE_MAX: usize = 1_024;
/// The most variables that an entity keeps. Another member's takes the place of one of the member
/// that has set most.
pub const VARIABLES_MAX: usize = 64;

/// The key that tells the members of one host from each other (003 4.5.1: member-id).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub u64);

/// What a census asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CensusRequest {
    /// Asks the hosts with a member in one of these. Default all.
    pub subgroups: Subgroups,
    /// Whether each host tells its name and lists its members. Default no.
    pub list: bool,
    /// The census ends after this time with the answers that have come. Default 3 s.
    pub timeout: Duration,
}

impl Default for CensusRequest {
    fn default() -> Self {
        Self {
            subgroups: Subgroups::ALL,
            list: false,
            timeout: Duration::from_secs(3),
        }
    }
}

/// The result of a census.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    /// The number that [`Xgm::census`](super::Xgm::census) returned.
    pub number: u32,
    /// Hosts that answered.
    pub hosts: usize,
    /// All members of these hosts, also those outside the asked subgroups: a host whose union
    /// matches speaks for all its members.
    pub members: u64,
    /// The union of the subgroups of these members.
    pub subgroups: Subgroups,
    /// Each host, if the list was asked for, in no particular order.
    pub list: Option<Vec<CensusHost>>,
    /// Whether it counted all hosts that answer: no new host came, and it met neither its time-out
    /// nor [`XgmConfig::hosts_max`](super::XgmConfig::hosts_max).
    pub complete: bool,
    /// Polls that were sent.
    pub polls: u32,
    /// How long it took.
    pub took: Duration,
}

/// The answer of one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CensusHost {
    /// The process that answered.
    pub member: MemberId,
    /// The host's name, if the list was asked for.
    pub name: Option<Bytes>,
    /// How many members it has.
    pub members: u16,
    /// The union of their subgroups.
    pub subgroups: Subgroups,
    /// Each member with its subgroups, if the list was asked for.
    pub list: Option<Vec<(Key, Subgroups)>>,
}

/// How a [`Change`] moves members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeVerb {
    /// Each member draws one of the new subgroups.
    Partition,
    /// All members go to the one new subgroup.
    Merge,
}

/// Moves the members that are in one of `from`: they leave all of these, and go to `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Whether the change spreads members or brings them together.
    pub verb: ChangeVerb,
    /// The subgroups whose members are moved.
    pub from: Subgroups,
    /// The subgroups that they go to; for [`ChangeVerb::Merge`] a single one.
    pub to: Subgroups,
}

/// What a variable belongs to, and so which hosts keep it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// The group: every entity keeps it.
    Group,
    /// Subgroups: each host with a member in one of them keeps it.
    Subgroups(Subgroups),
    /// One member: its host keeps it.
    Member(Key),
}

/// What an entity tells its user.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum XgmEvent {
    /// A census is over.
    Census(Census),
    /// Another host or this one has moved a local member to other subgroups.
    Moved {
        /// The member.
        key: Key,
        /// All subgroups that it is in now.
        subgroups: Subgroups,
        /// The host whose manager asked for the move.
        by: MemberId,
    },
    /// A variable was set.
    Set {
        /// What it belongs to.
        scope: Scope,
        /// Its name.
        name: Bytes,
        /// Its value.
        value: Bytes,
        /// The host whose manager set it.
        by: MemberId,
    },
    /// At the source: a member that is not [watched](super::Xgm::watch) says that it is in a
    /// connection.
    Heard {
        /// The connection's number.
        number: u32,
        /// The member.
        member: MemberId,
        /// Its name; empty if it has not said it.
        name: Bytes,
    },
    /// At the source: a member of a connection has gone. Told once for each member.
    Departed {
        /// The connection's number.
        number: u32,
        /// The member.
        member: MemberId,
        /// Its name.
        name: Bytes,
        /// How the source knows.
        how: Departure,
    },
    /// At the source: the required membership of a connection does not hold any more. Told once;
    /// the transport is to release the connection (003 4.3).
    Violated {
        /// The connection's number.
        number: u32,
        /// The part that does not hold, and the members because of whom.
        violation: Violation,
    },
    /// At the source: a checkpoint is settled, and waits for no member any more.
    Checkpoint(Account),
}

/// When the watch over a receiver begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchFrom {
    /// When it registers.
    Registration,
    /// When its entity has said its first word of the transfer. So a receiver without an entity, as
    /// in earlier releases, is not taken for gone because it does not answer.
    FirstWord,
}

/// How a member of a connection has gone without having everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// The member said that it leaves.
    Left,
    /// Its entity said that its end was closed abnormally.
    Closed,
    /// Its entity does not know the connection any more.
    Lost,
    /// The member does not answer any more.
    Silent,
}

/// These events stand in no history: hosts need not agree on them.
impl Observable for XgmEvent {}

/// Counters of an entity since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Polls that came.
    pub polls: u64,
    /// Answers that were sent.
    pub answers: u64,
    /// Polls and asks left without an answer because of
    /// [`XgmConfig::answers_max`](super::XgmConfig::answers_max).
    pub unanswered: u64,
    /// Datagrams that are not XGM's, or break a rule of its layout.
    pub junk: u64,
    /// Answers of hosts that were not asked: a fault at those hosts.
    pub unasked: u64,
    /// Moves refused because the member is in a connection of another source.
    pub refused: u64,
    /// Asks that came from sources of connections.
    pub asks: u64,
    /// How often this host told a source how a member stands, without reports.
    pub standings: u64,
    /// Words and asks about connections that were repeated, late, or about a connection that this
    /// host does not know.
    pub stale: u64,
}

/// Why a request about a local member failed; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The member would be in no subgroup.
    #[error("a member must be in at least one subgroup")]
    NoSubgroup,
    /// The host has a member with this key.
    #[error("this key is taken")]
    Taken,
    /// The host has as many members as it may.
    #[error("a host has at most {MEMBERS_MAX} members")]
    TooMany,
    /// The host has no member with this key.
    #[error("there is no member with this key")]
    Unknown,
}

/// Why a census does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CensusError {
    /// One is under way.
    #[error("a census is under way")]
    Busy,
    /// The request asks no subgroup.
    #[error("no subgroup is asked")]
    NoSubgroup,
}

/// Why a request about a monitored connection failed; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The connection of this number is monitored already.
    #[error("this connection is monitored already")]
    Monitored,
    /// As many connections are monitored as may be, and none of them is over.
    #[error("as many connections are monitored as may be")]
    TooManyConnections,
    /// As many checkpoints of the connection are open as may be.
    #[error("as many checkpoints of this connection are open as may be")]
    TooManyCheckpoints,
    /// There is no monitor of this number.
    #[error("this connection is not monitored")]
    Unknown,
    /// No member may drop in any more.
    #[error("nobody may drop into this connection any more")]
    NoJoins,
    /// As many members of the connection are watched as may be.
    #[error("as many members of this connection are watched as may be")]
    TooManyMembers,
}

/// Why a variable or a change was not sent; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// The name is longer than [`NAME_MAX`], or the value than [`VALUE_MAX`].
    #[error("a name has at most {NAME_MAX} bytes, a value {VALUE_MAX}")]
    TooLong,
    /// There are [`VARIABLES_MAX`] other variables already.
    #[error("there are {VARIABLES_MAX} variables already")]
    TooMany,
    /// It concerns no subgroup.
    #[error("it is for no subgroup")]
    NoSubgroup,
    /// Too many earlier datagrams still wait to be sent.
    #[error("too many datagrams wait to be sent")]
    Full,
}
