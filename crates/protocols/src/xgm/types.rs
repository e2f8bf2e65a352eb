//! What an entity is asked for and what it tells.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::MemberId;
use groupcast_core::trace::Observable;

use super::{Account, Subgroups, Violation};

/// The most members of one host: with all of them a list fits a datagram.
pub const MEMBERS_MAX: usize = 64;
/// The longest name of a host or of a variable, in bytes.
pub const NAME_MAX: usize = 255;
/// The longest value of a variable, in bytes.
pub const VALUE_MAX: usize = 1_024;
/// The most variables that an entity keeps; further names are not taken.
pub const VARIABLES_MAX: usize = 64;

/// Tells the members of one host from each other (003 4.5.1: member-id).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub u64);

/// What a census asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CensusRequest {
    /// Hosts answer whose members are in one of these. Default all.
    pub subgroups: Subgroups,
    /// Whether each host says what it is called, and lists its members. Default not.
    pub list: bool,
    /// After so long it ends with what it has. Default 3 s.
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

/// What a census found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    /// What [`Xgm::census`](super::Xgm::census) returned.
    pub number: u32,
    /// Hosts that answered.
    pub hosts: usize,
    /// Members on these hosts, all of them: a host whose union matches speaks for all it has.
    pub members: u64,
    /// The union of the subgroups of these members.
    pub subgroups: Subgroups,
    /// Each host, if the list was asked for, in no particular order.
    pub list: Option<Vec<CensusHost>>,
    /// Whether it ended because nothing new came, rather than by its time-out or at
    /// [`XgmConfig::hosts_max`](super::XgmConfig::hosts_max).
    pub complete: bool,
    /// Polls that were sent.
    pub polls: u32,
    /// Since it began.
    pub took: Duration,
}

/// What one host said of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CensusHost {
    /// The process that answered.
    pub member: MemberId,
    /// What the host is called, if the list was asked for.
    pub name: Option<Bytes>,
    /// How many members it has.
    pub members: u16,
    /// The union of their subgroups.
    pub subgroups: Subgroups,
    /// Each member's, if the list was asked for.
    pub list: Option<Vec<(Key, Subgroups)>>,
}

/// Which way members are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeVerb {
    /// Each member draws one of the new subgroups.
    Partition,
    /// All members go to the one new subgroup.
    Merge,
}

/// Moves the members that are in one of `from`: they leave these, and are in `to` afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Whether members are spread or brought together.
    pub verb: ChangeVerb,
    /// Whom it concerns.
    pub from: Subgroups,
    /// Where they go; for [`ChangeVerb::Merge`] a single subgroup.
    pub to: Subgroups,
}

/// What a variable belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// The group: every entity keeps it.
    Group,
    /// Hosts whose members are in one of these subgroups keep it.
    Subgroups(Subgroups),
    /// The host that has this member keeps it.
    Member(Key),
}

/// Something that an entity's user should know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum XgmEvent {
    /// A census is over.
    Census(Census),
    /// A local member is in other subgroups now.
    Moved {
        /// The member.
        key: Key,
        /// All that it is in now.
        subgroups: Subgroups,
        /// Whose manager asked for it.
        by: MemberId,
    },
    /// A variable has a value.
    Set {
        /// What it belongs to.
        scope: Scope,
        /// Its name.
        name: Bytes,
        /// Its value.
        value: Bytes,
        /// Whose manager set it.
        by: MemberId,
    },
    /// Source: somebody that is not [watched](super::Xgm::watch) says that it is in a connection.
    Heard {
        /// The connection's number.
        number: u32,
        /// Who.
        member: MemberId,
        /// What it is called, if it has said so.
        name: Bytes,
    },
    /// Source: a member of a connection has gone. Told once for each.
    Departed {
        /// The connection's number.
        number: u32,
        /// Who.
        member: MemberId,
        /// What it is called.
        name: Bytes,
        /// How that is known.
        how: Departure,
    },
    /// Source: the required membership of a connection does not hold any more. Told once; the
    /// transport is to release the connection (003 4.3).
    Violated {
        /// The connection's number.
        number: u32,
        /// What does not hold, and because of whom.
        violation: Violation,
    },
    /// Source: a checkpoint waits for nobody any more.
    Checkpoint(Account),
}

/// From when on a receiver is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchFrom {
    /// Since it has registered.
    Registration,
    /// Since its entity has said a word of the transfer. One that has none, as those of earlier
    /// releases, is not taken for gone because it does not answer.
    FirstWord,
}

/// How a member of a connection has gone without having everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It said that it leaves.
    Left,
    /// Its entity said that its end was closed abnormally.
    Closed,
    /// Its entity does not know the connection any more.
    Lost,
    /// It does not answer any more.
    Silent,
}

/// It stands in no history: nothing is promised to be the same at others.
impl Observable for XgmEvent {}

/// Counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Polls that came.
    pub polls: u64,
    /// Answers that were sent.
    pub answers: u64,
    /// Polls that were not answered because of
    /// [`XgmConfig::answers_max`](super::XgmConfig::answers_max).
    pub unanswered: u64,
    /// Datagrams that are none of ours, or break a rule.
    pub junk: u64,
    /// Answers of hosts that were not asked: a fault at those hosts.
    pub unasked: u64,
    /// Moves of members in a connection that somebody else asked for.
    pub refused: u64,
    /// Asks of the sources of connections that came.
    pub asks: u64,
    /// How often this host said how it stands in a connection, without reports.
    pub standings: u64,
    /// What was said or asked of connections that is repeated, late, or of none that is known.
    pub stale: u64,
}

/// Why a member is not as its user wants it; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// A member is always in a subgroup.
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
    /// Nobody is asked.
    #[error("no subgroup is asked")]
    NoSubgroup,
}

/// Why a connection is not monitored as its source wants it; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// There is one of this number, or as many connections or checkpoints as there may be.
    #[error("there are as many as there may be")]
    Full,
    /// There is no monitor of this number.
    #[error("this connection is not monitored")]
    Unknown,
    /// Nobody may drop in any more.
    #[error("nobody may drop into this connection any more")]
    NoJoins,
}

/// Why a variable or a change is not sent; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// The name is longer than [`NAME_MAX`], or the value than [`VALUE_MAX`].
    #[error("a name has at most {NAME_MAX} bytes, a value {VALUE_MAX}")]
    TooLong,
    /// There are [`VARIABLES_MAX`] others.
    #[error("there are {VARIABLES_MAX} variables already")]
    TooMany,
    /// It would be for nobody.
    #[error("it is for no subgroup")]
    NoSubgroup,
    /// What was asked for before still waits to be sent.
    #[error("too many datagrams wait to be sent")]
    Full,
}
