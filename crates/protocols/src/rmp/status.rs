//! What a member tells of itself: counters and a snapshot, for `status`, logs and metrics.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::status::{Figure, GroupStatus, Hearing};
use groupcast_core::{ConfigId, Instrumented, MemberId, Time};

use super::order::Order;
use super::{Rmp, State};

/// What a member has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct RmpCounters {
    /// New packets multicast.
    pub packets_sent: u64,
    /// Packets multicast again, because they had no position in time.
    pub packets_again: u64,
    /// ACKs, those without packets included.
    pub acks_sent: u64,
    /// ACKs without packets.
    pub acks_null: u64,
    /// ACKs multicast again, because nobody took the token in time.
    pub acks_again: u64,
    /// Marks multicast alone.
    pub settles_sent: u64,
    /// Lists made, which let a member in or out.
    pub lists_sent: u64,
    /// Requests for what was missing.
    pub nacks_sent: u64,
    /// Requests that were dropped, because their sender was answered enough.
    pub nacks_refused: u64,
    /// ACKs and packets sent again because a member asked.
    pub answers_sent: u64,
    /// New packets received.
    pub packets_received: u64,
    /// Packets received again.
    pub packets_duplicate: u64,
    /// Packets and ACKs too far ahead to keep.
    pub packets_beyond: u64,
    /// Unreliable messages dropped here because too many waited.
    pub unordered_dropped: u64,
    /// Passes of the token that took more than a quarter of `silence_max`, copies included: the
    /// time-outs do not fit the network, or the hosts.
    pub passes_slow: u64,
    /// Regular configurations installed.
    pub configurations: u64,
    /// Changes of state.
    pub transitions: u64,
    /// Polls and proposals that ended because others went along with another.
    pub polls_aborted: u64,
    /// Polls that were stale, or did not fit the state.
    pub polls_stale: u64,
    /// Announcements and polls of strangers for whom there was no room.
    pub strangers_refused: u64,
    /// Datagrams of another configuration, or that do not fit the state.
    pub foreign: u64,
    /// Datagrams that did not decode, or contradict the order.
    pub malformed: u64,
}

/// A snapshot of a member.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RmpStatus {
    /// `polling`, `standby`, `recovering`, `joining`, `operational` or `left`.
    pub state: &'static str,
    /// The configuration that the user is in.
    pub configuration: Option<ConfigId>,
    /// Its members.
    pub members: Vec<MemberId>,
    /// MaxN, of which a majority must hold what is delivered as `majority`.
    pub max_n: Option<usize>,
    /// The most bytes of a datagram body in this configuration.
    pub body_max: usize,
    /// The member whose way carries no more, if this member's own way does.
    pub narrowest: Option<MemberId>,
    /// The last position up to which everything is held.
    pub held: u64,
    /// All members are ready for every position up to here.
    pub safe: u64,
    /// The last position that was given out, as far as is known here.
    pub high: u64,
    /// Payload bytes that wait for the window.
    pub queued: usize,
    /// Packets that may be without an ACK now.
    pub window: u32,
    /// Smoothed round trip of packets, or of token passes before there is one; zero before either.
    pub trip: Duration,
    /// Smoothed time from an ACK to the sign that the token was taken, copies included: where round
    /// trips are longer than the longest timer, nothing else measures them.
    pub pass: Duration,
    /// Counters since the start.
    pub counters: RmpCounters,
}

impl Rmp {
    /// A snapshot.
    pub fn status(&self) -> RmpStatus {
        let order = self.state.installed();
        let mut counters = self.counters;
        counters.malformed += order.map_or(0, Order::malformed);
        RmpStatus {
            state: self.state.name(),
            configuration: self.configuration(),
            members: order.map(|order| order.members.clone()).unwrap_or_default(),
            max_n: order.map(|order| order.max_n),
            body_max: order.map_or(self.config.body_max, |order| order.body_max),
            narrowest: order.and_then(|order| order.narrowest(self.config.body_max)),
            held: order.map_or(0, |order| order.held.0),
            safe: order.map_or(0, |order| order.safe().0),
            high: order.map_or(0, |order| order.top.last.0),
            queued: self.queue.bytes(),
            window: self.flow.window(),
            trip: self.timing.trip(),
            pass: self.passes.mean(),
            counters,
        }
    }

    /// Those in quarantine; and the members whose announcements do not come, although the
    /// configuration lasts: what they send comes by others.
    pub(super) fn heard_and_left_out(&self, now: Time) -> Hearing {
        let unheard = match &self.state {
            State::Operational(operational) => {
                let (since, members) = (self.works_since, &operational.order.members);
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
        let status = self.status();
        let counters = &status.counters;
        GroupStatus {
            state: status.state,
            configuration: status.configuration,
            members: status.members,
            max_n: status.max_n,
            body_max: status.body_max,
            narrowest: status.narrowest,
            round: status.pass,
            rounds_slow: counters.passes_slow,
            round_max: self.config.silence_max,
            figures: [
                ("held", Figure::Number(status.held)),
                ("safe", Figure::Number(status.safe)),
                ("high", Figure::Number(status.high)),
                ("queued", Figure::Number(status.queued as u64)),
                ("body_max", Figure::Number(status.body_max as u64)),
                ("window", Figure::Number(status.window.into())),
                ("trip", Figure::Time(status.trip)),
                ("pass", Figure::Time(status.pass)),
            ]
            .to_vec(),
            counters: counters.list().to_vec(),
        }
    }
}

impl RmpCounters {
    /// By name.
    fn list(&self) -> [(&'static str, u64); 22] {
        [
            ("packets_sent", self.packets_sent),
            ("packets_again", self.packets_again),
            ("acks_sent", self.acks_sent),
            ("acks_null", self.acks_null),
            ("acks_again", self.acks_again),
            ("settles_sent", self.settles_sent),
            ("lists_sent", self.lists_sent),
            ("nacks_sent", self.nacks_sent),
            ("nacks_refused", self.nacks_refused),
            ("answers_sent", self.answers_sent),
            ("packets_received", self.packets_received),
            ("packets_duplicate", self.packets_duplicate),
            ("packets_beyond", self.packets_beyond),
            ("unordered_dropped", self.unordered_dropped),
            ("passes_slow", self.passes_slow),
            ("configurations", self.configurations),
            ("transitions", self.transitions),
            ("polls_aborted", self.polls_aborted),
            ("polls_stale", self.polls_stale),
            ("strangers_refused", self.strangers_refused),
            ("foreign", self.foreign),
            ("malformed", self.malformed),
        ]
    }
}

impl Instrumented for Rmp {
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let status = self.status();
        let counters = &status.counters;
        each("queued", status.queued as u64);
        each("buffered", status.high.saturating_sub(status.safe));
        each("window", u64::from(status.window));
        each("halvings", self.flow.halvings);
        each("acks", counters.acks_sent);
        each("null acks", counters.acks_null);
        each("settles", counters.settles_sent);
        each("nacks", counters.nacks_sent);
        each(
            "retransmissions",
            counters.packets_again + counters.answers_sent,
        );
        each("token retransmissions", counters.acks_again);
        each("duplicates", counters.packets_duplicate);
        each("configurations", counters.configurations);
    }
}
