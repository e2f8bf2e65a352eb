//! What a member of a gossip group counts.

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
    /// Messages dropped because the buffer, or the table of senders, was full.
    pub overflows: u64,
    /// Bodies that could not be read.
    pub junk: u64,
    /// Members taken for failed.
    pub failed: u64,
}
