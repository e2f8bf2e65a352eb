//! XGM: multicast group management beside a transport (003 4.3, 4.5).
//!
//! Each host has one entity, which knows the host's members and speaks for them. A member is a node
//! and a key; it is in one or more of 64 subgroups, at first in one at random. Entities answer each
//! other's polls, move members between subgroups and keep variables. They keep no list of the
//! group: a census asks when a user wants to know who is in it.
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
//! `wire` has the layout of the datagrams, `subgroups` the vectors, `members` the members of one
//! host, `census` the asker's side, `variables` the variables that a host keeps, `config` the
//! settings. For connections (003 4.5.2), `connection` has the member's side, `monitor` the
//! source's side, `membership` the required membership, `checkpoint` the accounts, and `watch` the
//! methods for a source. For the swarm, `noise` has what a hostile member says, and `planted` the
//! bugs that the swarm has to find.
//!
//! # Timers
//! The asker: the next poll, and the end of the census. A host: the answers that wait for their
//! random time. The source of a connection: the next ask to all members, and the next look for
//! silent ones.
//!
//! # Guarantees
//! A census counts a host once, by its last answer. It is a snapshot of the hosts that answered,
//! not an agreed view: members come and go meanwhile. Changes and variables have the reliability of
//! a datagram (003 4.5.1): a host that misses one does not get it later. A member is always in a
//! subgroup. Only the manager at the source of its connection changes a connected member's vector.
//! A host gives at most [`XgmConfig::answers_max`] answers a second, whoever asks, as many more to
//! askers that have had none for a second, and as many to the source of each connection. A
//! checkpoint's account is true: a member that is said to have the stream up to the place had it,
//! and a member that is said to have left without it did not.
//!
//! # Deviations
//! - 003 polls a large group subgroup by subgroup. That fails where an application has put all
//!   members into one. Here a hash of its incarnation decides when a host is asked, and the asked
//!   subgroups are a filter beside it.
//! - Polls name the hosts that have answered, so that only the others answer a repeated poll.
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
pub(crate) use self::family::UNASKED;
pub use self::inspect::inspect;
pub use self::membership::{Membership, Rule, Violation};
pub use self::planted::Planted;
pub use self::subgroups::{ParseSubgroupsError, Subgroups};
pub use self::types::{
    Census, CensusError, CensusHost, CensusRequest, Change, ChangeVerb, Counters, Departure, Key,
    MEMBERS_MAX, MemberError, MonitorError, NAME_MAX, Scope, VALUE_MAX, VARIABLES_MAX,
    VariableError, WatchFrom, XgmEvent,
};
