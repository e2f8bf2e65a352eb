//! How a protocol that carries the messages of a group is doing, in one form for all: for `status`,
//! logs and metrics, which name no protocol.

use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{ConfigId, MemberId};

/// A snapshot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupStatus {
    /// The state of the protocol's state machine; empty if it has none.
    pub state: &'static str,
    /// The configuration that the user is in.
    pub configuration: Option<ConfigId>,
    /// Its members.
    pub members: Vec<MemberId>,
    /// The most bytes of a datagram body: what the ways of all members carry. 0 if they agree on
    /// none.
    pub body_max: usize,
    /// The member whose way carries no more, if this member's own way does.
    pub narrowest: Option<MemberId>,
    /// The mean time in which all members are heard of; zero if that is not measured.
    pub round: Duration,
    /// How often that took so long that a member may be taken for lost: the time-outs do not fit
    /// the network, or the hosts.
    pub rounds_slow: u64,
    /// What the protocol holds and how it is set now, by its own names.
    pub figures: Vec<(&'static str, Figure)>,
    /// What it has counted since its start, by its own names.
    pub counters: Vec<(&'static str, u64)>,
}

/// A figure of a [`GroupStatus`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// A number: of messages, of bytes, in an order.
    Number(u64),
    /// A time.
    Time(Duration),
}
