//! What a protocol promises about whole histories, in one word.
//!
//! A [`Service`](crate::Service) is the promise of one message; a contract is what all histories of
//! a group keep together, and so what the checker holds them against.

/// Which promises histories are held against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Contract {
    /// One total order in configurations, after Extended Virtual Synchrony: the ring.
    #[default]
    Ordered,
    /// The same, but `reliable` and `fifo` messages are delivered as soon as their own promise
    /// allows, without a place: RMP.
    OrderedEarly,
    /// One order among members that stay together: those that are cut off from each other may
    /// deliver a message in two orders, or twice, in two configurations. Members that move together
    /// deliver the same, and each member delivers its own messages once: RMP with `order = heard`.
    OrderedTogether,
    /// No configurations. A sender learns which receivers have each of its messages: bulk.
    Accounted,
    /// No order across senders; what a member misses it reports: FIFO with gaps (gossip), reliable
    /// as long as some member can answer (SRM), either of the two, connection by connection, and
    /// with accounts (connections of bulk).
    Gapped,
    /// Nothing is invented or changed. Messages may be lost, repeated and out of order.
    Unreliable,
}

impl Contract {
    /// Whether members install configurations, and members that can reach each other come to be in
    /// the same one.
    pub const fn has_configurations(self) -> bool {
        matches!(
            self,
            Self::Ordered | Self::OrderedEarly | Self::OrderedTogether
        )
    }
}
