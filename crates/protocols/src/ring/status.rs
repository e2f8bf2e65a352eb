//! What a ring tells of itself: counters and a snapshot, for `status`, logs and metrics.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::status::{Figure, GroupStatus, Hearing};
use groupcast_core::{ConfigId, Instrumented, MemberId, Time};

use super::packet_size::PacketSize;
use super::{Ring, State};

/// What a ring has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct RingCounters {
    /// Visits of the token.
    pub visits: u64,
    /// New packets multicast.
    pub packets_sent: u64,
    /// Packets multicast again, because a member asked.
    pub retransmissions: u64,
    /// New packets received.
    pub packets_received: u64,
    /// Packets received again.
    pub packets_duplicate: u64,
    /// Packets too far ahead to keep.
    pub packets_beyond: u64,
    /// Unreliable messages dropped here because too many waited.
    pub unordered_dropped: u64,
    /// Tokens sent again.
    pub token_retransmissions: u64,
    /// Tokens received again.
    pub token_duplicates: u64,
    /// Times that the token was taken for lost.
    pub token_losses: u64,
    /// Rotations that took more than a third of `token_loss_max`: the time-outs do not fit the
    /// network, or the hosts.
    pub rotations_slow: u64,
    /// Regular configurations installed.
    pub configurations: u64,
    /// Changes of state.
    pub transitions: u64,
    /// Members excluded because they could not receive.
    pub deaf_excluded: u64,
    /// Joins that were stale, or repeated without need.
    pub joins_stale: u64,
    /// Announcements and joins of strangers for whom there was no room.
    pub strangers_refused: u64,
    /// Datagrams of another ring, or that do not fit the state.
    pub foreign: u64,
    /// Datagrams that did not decode, or contradict the ring.
    pub malformed: u64,
}

pub(super) type Counters = RingCounters;

/// A snapshot of a ring.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RingStatus {
    /// `gather`, `commit`, `recovery`, `operational` or `left`.
    pub state: &'static str,
    /// The configuration that the user is in.
    pub configuration: Option<ConfigId>,
    /// The members of that configuration.
    pub members: Vec<MemberId>,
    /// MaxN, of which a majority must hold what is delivered as `majority`.
    pub max_n: Option<usize>,
    /// The most bytes of a datagram body in this ring: what the ways of all its members carry.
    pub body_max: usize,
    /// The member whose way carries no more, if this member's own way does.
    pub narrowest: Option<MemberId>,
    /// The last sequence number received without a gap.
    pub aru: u64,
    /// All members hold all up to here.
    pub safe: u64,
    /// The highest sequence number received.
    pub high: u64,
    /// Packets that are kept because a member may still ask for them.
    pub held: u64,
    /// Payload bytes that wait for the token.
    pub queued: usize,
    /// Packets a visit may initiate now.
    pub personal_window: u32,
    /// Smoothed duration of a rotation under traffic.
    pub rotation: Duration,
    /// The token-loss time-out of now.
    pub token_loss: Duration,
    /// Counters since the start.
    pub counters: RingCounters,
}

impl Ring {
    /// What the member knows and has counted, as it is now.
    pub fn status(&self) -> RingStatus {
        let ring = self.state.installed();
        let size = ring.map_or(PacketSize::own(&self.config), |ring| ring.packet_size);
        let mut counters = self.counters;
        counters.rotations_slow = self.flow.slow();
        counters.malformed += ring.map_or(0, |ring| ring.streams.malformed);
        RingStatus {
            state: self.state.name(),
            configuration: self.configuration(),
            members: ring.map(|ring| ring.members.clone()).unwrap_or_default(),
            max_n: ring.map(|ring| ring.max_n),
            body_max: size.body_max,
            narrowest: size.narrowest,
            aru: ring.map_or(0, |ring| ring.window.aru().0),
            safe: ring.map_or(0, |ring| ring.safe.0),
            high: ring.map_or(0, |ring| ring.window.high().0),
            held: ring.map_or(0, |ring| ring.window.span()),
            queued: self.queue.bytes(),
            personal_window: self.flow.personal(),
            rotation: self.flow.rotation().mean(),
            token_loss: self.token_loss(),
            counters,
        }
    }
}

impl RingStatus {
    /// The same in the form of all protocols.
    fn into_group_status(self) -> GroupStatus {
        let figures = [
            ("aru", Figure::Number(self.aru)),
            ("safe", Figure::Number(self.safe)),
            ("high", Figure::Number(self.high)),
            ("queued", Figure::Number(self.queued as u64)),
            ("body_max", Figure::Number(self.body_max as u64)),
            (
                "personal_window",
                Figure::Number(self.personal_window.into()),
            ),
            ("rotation", Figure::Time(self.rotation)),
            ("token_loss", Figure::Time(self.token_loss)),
        ];
        GroupStatus {
            state: self.state,
            configuration: self.configuration,
            members: self.members,
            max_n: self.max_n,
            body_max: self.body_max,
            narrowest: self.narrowest,
            round: self.rotation,
            rounds_slow: self.counters.rotations_slow,
            round_max: self.token_loss,
            figures: figures.to_vec(),
            counters: self.counters.list().to_vec(),
        }
    }
}

impl RingCounters {
    /// By name.
    fn list(&self) -> [(&'static str, u64); 18] {
        [
            ("visits", self.visits),
            ("packets_sent", self.packets_sent),
            ("retransmissions", self.retransmissions),
            ("packets_received", self.packets_received),
            ("packets_duplicate", self.packets_duplicate),
            ("packets_beyond", self.packets_beyond),
            ("unordered_dropped", self.unordered_dropped),
            ("token_retransmissions", self.token_retransmissions),
            ("token_duplicates", self.token_duplicates),
            ("token_losses", self.token_losses),
            ("rotations_slow", self.rotations_slow),
            ("configurations", self.configurations),
            ("transitions", self.transitions),
            ("deaf_excluded", self.deaf_excluded),
            ("joins_stale", self.joins_stale),
            ("strangers_refused", self.strangers_refused),
            ("foreign", self.foreign),
            ("malformed", self.malformed),
        ]
    }
}

impl Ring {
    /// Those in quarantine; and the members of the ring whose announcements do not come, although
    /// the ring lasts: what they send comes by others.
    pub(super) fn heard_and_left_out(&self, now: Time) -> Hearing {
        let unheard = match &self.state {
            State::Operational(operational) => {
                let (since, members) = (operational.since, &operational.ordering.members);
                let interval = self.config.announce_interval;
                self.peers
                    .unheard(now, self.local, members, since, interval)
            }
            _ => Vec::new(),
        };
        let installed = self.state.installed();
        let members = installed.map_or(&[][..], |it| &it.members);
        Hearing {
            left_out: self.peers.left_out(now, &self.probes),
            unheard,
            no_room: self.refused.lately(now, members),
        }
    }

    /// A snapshot in the form of all protocols.
    pub(super) fn group_status(&self) -> GroupStatus {
        self.status().into_group_status()
    }
}

impl Instrumented for Ring {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let status = self.status();
        let counters = &status.counters;
        each("queued", status.queued as u64);
        each("buffered", status.held);
        each("window", u64::from(status.personal_window));
        each("visits", counters.visits);
        each("retransmissions", counters.retransmissions);
        each("token retransmissions", counters.token_retransmissions);
        each("duplicates", counters.packets_duplicate);
        each("configurations", counters.configurations);
        each("token losses", counters.token_losses);
    }
}
