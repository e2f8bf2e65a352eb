//! XGM: multicast group management beside a transport (003 4.3, 4.5).
//!
//! One entity a host knows the host's members and speaks for them. A member is a node and a key; it
//! is in one or more of 64 subgroups, at first in one at random. Entities answer each other's
//! polls, move members between subgroups and keep variables. They know nothing of each other
//! otherwise: who is in the group is asked when somebody wants to know.
//!
//! ```text
//!   asker                                   hosts
//!     │ poll, nobody asked        ──────▶    all     asker and hosts admit each other
//!     │ poll, slice 1             ──────▶    those in the slice whose union matches
//!     │        ◀── answer, answer ────────           each at a random time within the spread
//!     │ poll, slice 2             ──────▶
//!     │  …
//!     │ poll, slice 1, heard …    ──────▶    those in the slice that were not heard
//! ```
//!
//! # Parts
//! `wire` has the layout of the datagrams, `subgroups` the vectors, `members` what one host has,
//! `census` the asker's side, `variables` the state that is kept, `config` the settings. Of
//! connections (003 4.5.2), `connection` has the end of a member, `monitor` the source's side,
//! `membership` who is required, `checkpoint` the accounts, `watch` what a source asks for. For the
//! swarm, `noise` has what a hostile member says, and `planted` the bugs that it has to find.
//!
//! # Timers
//! The asker: the next poll, and the end of the census. A host: the answers that wait for their
//! random time. The source of a connection: when all are asked, and when it looks who is silent.
//!
//! # Guarantees
//! A census counts a host once, by its last answer. It is a snapshot of who answered, not an agreed
//! view: members come and go meanwhile. Changes and variables have the reliability of a datagram
//! (003 4.5.1): who misses one does not have it. A member always has a subgroup. A connected
//! member's vector changes only at the word of the manager at its connection's source.
//! A host gives at most [`XgmConfig::answers_max`] answers a second, whoever asks, and in a
//! connection as many to its source. Of a checkpoint, what a member said it has it had, and who
//! said that it has it not, and left, had it not.
//!
//! # Deviations
//! - 003 polls a large group subgroup by subgroup. That fails where an application has put all
//!   members into one. Here hosts are asked by a hash of what they are, and the asked subgroups are
//!   a filter beside it.
//! - Polls name who was heard, so that a repeated poll is answered only by those that were missed.
//! - 003 puts the marker of a checkpoint into XTP's tagged data. Here it rides in the asks of the
//!   source's entity, so that it works beside every policy. `docs/monitor.md` has the rest of what
//!   003 4.5.2 leaves open.

mod census;
mod checkpoint;
mod config;
mod connection;
mod entity;
mod family;
mod inspect;
mod members;
mod membership;
mod monitor;
mod noise;
mod planted;
mod subgroups;
#[cfg(test)]
mod tests;
mod types;
mod variables;
mod watch;
mod wire;

pub use self::checkpoint::{Account, Accounted, Holding};
pub use self::config::XgmConfig;
pub use self::connection::{ConnectionId, Standing};
pub use self::entity::Xgm;
pub use self::family::FAMILY;
pub use self::inspect::inspect;
pub use self::membership::{Membership, Rule, Violation};
pub use self::planted::Planted;
pub use self::subgroups::{ParseSubgroupsError, Subgroups};
pub use self::types::{
    Census, CensusError, CensusHost, CensusRequest, Change, ChangeVerb, Counters, Departure, Key,
    MEMBERS_MAX, MemberError, MonitorError, NAME_MAX, Scope, VALUE_MAX, VARIABLES_MAX,
    VariableError, WatchFrom, XgmEvent,
};
