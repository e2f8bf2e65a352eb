//! Why a node drops datagrams, and what it counts.

use crate::wire::{ClusterTag, PrefixError};

/// Why a datagram was dropped. All of them change counters only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// Not a groupcast datagram of this version.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// Of a cluster with another key.
    #[error("of another cluster (tag {:08x}, ours is {:08x})", .theirs.0, .ours.0)]
    Cluster {
        /// The tag of the datagram's cluster.
        theirs: ClusterTag,
        /// The tag of this node's cluster.
        ours: ClusterTag,
    },
    /// Sealed under the cluster's key of before, which was changed.
    #[error("sealed under the key that was changed")]
    OldKey,
    /// Sent by this very process.
    #[error("sent by this process")]
    Own,
    /// Sealed as this very process, with a number that it has not used: another process has its
    /// identity, because a machine was copied or set back while it ran.
    #[error("of another process with this one's identity")]
    Twin,
    /// Forged, damaged, meant for another member or for an earlier incarnation of this node, or
    /// sealed with another key that happens to have the same tag.
    #[error("forged, damaged, or meant for another member")]
    Forged,
    /// Taken before, or too old to tell.
    #[error("a replay")]
    Replayed,
    /// Its sender has not proved yet that it is alive; it was challenged.
    #[error("of a sender that is not admitted yet")]
    Unadmitted,
    /// Of an unknown sender, and more of those came than are examined in a second.
    #[error("of an unknown sender, more of which came than are examined in a second")]
    Unexamined,
    /// Too short for a seal and a channel: anybody could have sent it.
    #[error("too short")]
    TooShort,
    /// For a channel that is not open here, or without a body.
    #[error("for a channel that is not open here")]
    Channel,
    /// Of a peer without multicast, which would have to get a copy of each multicast, and as many
    /// as may get copies do already.
    #[error("of a peer without multicast, beyond those that may get copies")]
    TooManyCopies,
}

/// What a node has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NodeCounters {
    /// Datagrams handed to an instance.
    pub accepted: u64,
    /// Segments that were sealed to be sent.
    pub sealed: u64,
    /// Datagrams that do not begin with groupcast's prefix, or are too short for it or a seal.
    pub malformed: u64,
    /// Datagrams of another version of the wire format.
    pub other_version: u64,
    /// Datagrams of another cluster, which has another key.
    pub other_cluster: u64,
    /// Datagrams under the cluster's key of before, which was changed.
    pub old_key: u64,
    /// Own datagrams that the network brought back.
    pub own: u64,
    /// Datagrams of another process with this one's identity: a copied machine.
    pub twin: u64,
    /// Forged, damaged, or meant for another member or for an earlier incarnation of this node.
    pub forged: u64,
    /// Datagrams that were received before, or are too old to tell.
    pub replayed: u64,
    /// Datagrams of senders that are not admitted yet.
    pub unadmitted: u64,
    /// Datagrams of unknown senders, dropped unopened because too many of them came.
    pub unexamined: u64,
    /// Datagrams for a channel that is not open here, or without a body.
    pub unknown_channel: u64,
    /// Transmits to a member whose address is not known.
    pub unroutable: u64,
    /// Peers admitted so far, those that have made room for others since included.
    pub admitted: u64,
    /// Times that a peer without multicast was not admitted, because as many as may get copies
    /// ([`copies_max`](super::AdmissionConfig::copies_max)) did already.
    pub copies_refused: u64,
}

impl NodeCounters {
    /// A datagram was dropped.
    pub(super) fn count(&mut self, rejected: &Rejected) {
        let counter = match rejected {
            Rejected::Prefix(PrefixError::Version(_)) => &mut self.other_version,
            Rejected::Prefix(_) | Rejected::TooShort => &mut self.malformed,
            Rejected::Cluster { .. } => &mut self.other_cluster,
            Rejected::OldKey => &mut self.old_key,
            Rejected::Own => &mut self.own,
            Rejected::Twin => &mut self.twin,
            Rejected::Forged => &mut self.forged,
            Rejected::Replayed => &mut self.replayed,
            Rejected::Unadmitted => &mut self.unadmitted,
            Rejected::Unexamined => &mut self.unexamined,
            Rejected::Channel => &mut self.unknown_channel,
            Rejected::TooManyCopies => &mut self.copies_refused,
        };
        *counter += 1;
    }
}
