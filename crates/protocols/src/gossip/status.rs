//! What a member of a gossip group counts and holds, for `status`, logs and measurements.

use groupcast_core::{Instrumented, MemberId, Time};

use super::{Gossip, Stream};

/// Counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GossipCounters {
    /// Requests sent, of whatever kind.
    pub requests: u64,
    /// Repairs sent to one member.
    pub repairs: u64,
    /// Repairs multicast.
    pub multicast_repairs: u64,
    /// Requests refused because their round is over (soft-failure detection).
    pub refused_round: u64,
    /// Requests refused because the round's limit was reached.
    pub refused_limit: u64,
    /// Requests refused because the message was sent there just now (cyclic retransmissions).
    pub refused_cyclic: u64,
    /// Requests for what is not kept here.
    pub refused_absent: u64,
    /// Messages reported as lost.
    pub gaps: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after they had been delivered everywhere or given up here.
    pub late: u64,
    /// Messages dropped because the buffer, or the table of senders, was full, or because another
    /// than their sender passed them on and they were beyond the window, or denied by their sender.
    pub overflows: u64,
    /// Bodies that could not be read.
    pub junk: u64,
    /// Members taken for failed.
    pub failed: u64,
}

/// A snapshot of a member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GossipStatus {
    /// Payload bytes kept for others.
    pub buffered: u64,
    /// Messages kept for others.
    pub messages: u64,
    /// Of those, such as stay until they are stable.
    pub long_term: u64,
    /// The most of these at any time.
    pub long_term_max: u64,
    /// Messages that wait for an earlier one of their sender.
    pub waiting: u64,
    /// Bytes that wait to be sent.
    pub queued: u64,
    /// Datagrams dropped because too many bytes waited.
    pub dropped: u64,
    /// Members that this one knows.
    pub view: u64,
    /// Senders that it has heard of, itself included.
    pub senders: u64,
    /// Counters since the start.
    pub counters: GossipCounters,
}

impl GossipStatus {
    /// The same by name.
    pub fn list(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let counters = &self.counters;
        for (name, value) in [
            ("buffered", self.buffered),
            ("messages", self.messages),
            ("long-term", self.long_term),
            ("long-term max", self.long_term_max),
            ("short-term", self.messages - self.long_term),
            ("waiting", self.waiting),
            ("queued", self.queued),
            ("dropped", self.dropped),
            ("view", self.view),
            ("senders", self.senders),
            ("requests", counters.requests),
            ("repairs", counters.repairs),
            ("multicast repairs", counters.multicast_repairs),
            ("refused round", counters.refused_round),
            ("refused limit", counters.refused_limit),
            ("refused cyclic", counters.refused_cyclic),
            ("refused absent", counters.refused_absent),
            ("gaps", counters.gaps),
            ("duplicates", counters.duplicates),
            ("late", counters.late),
            ("overflows", counters.overflows),
            ("junk", counters.junk),
            ("failed", counters.failed),
        ] {
            each(name, value);
        }
    }
}

impl Gossip {
    /// What the member knows, holds and has counted, as it is now.
    pub fn status(&self) -> GossipStatus {
        let held = &self.held;
        let waiting: usize = self.streams.values().map(Stream::waiting).sum();
        GossipStatus {
            buffered: held.bytes as u64,
            messages: held.messages as u64,
            long_term: held.long_term as u64,
            long_term_max: held.long_term_max as u64,
            waiting: waiting as u64,
            queued: self.outbox.queued() as u64,
            dropped: self.outbox.dropped,
            view: self.view.len() as u64,
            senders: self.streams.len() as u64,
            counters: self.counters,
        }
    }
}

impl Instrumented for Gossip {
    fn introduce(&mut self, _now: Time, peer: MemberId) {
        self.meet(peer);
    }

    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.status().list(each);
    }
}
