//! How a protocol that carries the messages of a group is doing, in one form for all: for `status`,
//! logs and metrics, which name no protocol.

use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{ConfigId, MemberId};
use crate::mech::marks::majority;
use crate::time::Time;

/// A snapshot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupStatus {
    /// The state of the protocol's state machine; empty if it has none.
    pub state: &'static str,
    /// The configuration that the user is in.
    pub configuration: Option<ConfigId>,
    /// Its members.
    pub members: Vec<MemberId>,
    /// MaxN: more than half of so many members must hold what is delivered as `majority`. `None`
    /// without a configuration, and where there is no such service.
    pub max_n: Option<usize>,
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
    /// The time-out of now after which a member is taken for lost; zero if that is not measured.
    pub round_max: Duration,
    /// What the protocol holds and how it is set now, by its own names.
    pub figures: Vec<(&'static str, Figure)>,
    /// What it has counted since its start, by its own names.
    pub counters: Vec<(&'static str, u64)>,
}

/// Who is left out, and from whom nothing comes, as far as one member knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hearing {
    /// Those that this member has in quarantine now.
    pub left_out: Vec<LeftOut>,
    /// Members of the configuration from which nothing has come straight to this one for long,
    /// though the configuration lasts: what they send comes by others.
    pub unheard: Vec<MemberId>,
    /// Strangers that this member hears, and that are not let in because all together would be
    /// more than may be in one configuration. They stay apart for as long as that is so.
    pub no_room: Vec<MemberId>,
}

/// A member in quarantine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Who.
    pub member: MemberId,
    /// Why, as far as is known here.
    pub why: GivenUp,
    /// When its quarantine began.
    pub since: Time,
    /// When it ends, if nothing ends it before.
    pub until: Time,
    /// When anything was last heard of it in its quarantine.
    pub heard: Option<Time>,
    /// Whether it answers the probes of this member; `None` if this member sends it none.
    pub answers: Option<bool>,
}

/// Why a member was given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GivenUp {
    /// This member heard nothing of it while a configuration formed, or did not agree with it.
    Silent,
    /// The token of a forming configuration did not reach it.
    MissesToken,
    /// It did not get a packet of the configuration, which was sent to it again and again.
    MissesPackets {
        /// The length of the datagram's body.
        bytes: usize,
    },
    /// It said what cannot be.
    Unbelievable,
    /// It has given this member up before.
    GaveUsUp,
    /// Another member, its witness, says so; this one saw nothing wrong.
    Word(MemberId),
    /// Others have given it up.
    Others,
}

impl GroupStatus {
    /// Whether the members are a majority, so that messages of the service `majority` are taken;
    /// `None` as for MaxN.
    pub fn has_majority(&self) -> Option<bool> {
        let needed = majority(self.max_n?);
        Some(self.members.len() >= needed)
    }
}

/// A figure of a [`GroupStatus`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// A number: of messages, of bytes, in an order.
    Number(u64),
    /// A time.
    Time(Duration),
}
