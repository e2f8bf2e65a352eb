//! The channel of each protocol in a node's datagrams: the one table of their numbers.
//!
//! | channel | whose |
//! |--:|---|
//! | 0 | the node's own: admission ([`Channel::NODE`]) |
//! | 1 | the ring; in the simulator and in measurements, the only protocol of a node, whichever it is ([`Channel::SOLE`]) |
//! | 2 | bimodal groups; bulk transfers |

use groupcast_core::node::Channel;

/// The ring.
pub const RING: Channel = Channel(1);
/// The bimodal groups of a daemon, all on one channel: every body begins with eight bytes that name its group.
pub const BIMODAL: Channel = Channel(2);
/// Bulk transfers.
pub const BULK: Channel = Channel(2);
