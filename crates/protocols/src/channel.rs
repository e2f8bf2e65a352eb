//! The channel of each protocol in a node's datagrams: the one table of their numbers.
//!
//! | channel | whose |
//! |--:|---|
//! | 0 | the node's own: admission ([`Channel::NODE`]) |
//! | 1 | the ring; in the simulator and in measurements, the only protocol of a node, whichever it is ([`Channel::SOLE`]) |
//! | 2 | bimodal groups |
//! | 3 | bulk transfers |
//! | 4 | RMP |
//! | 5 | group management beside bulk transfers |
//! | 6 | further rings of a daemon |
//! | 7 | the accounts of relays, beside bulk transfers |
//!
//! A number that was given is not given again: a node drops what comes on a channel that is not
//! open at it, and says so in its log, so that releases that give a number to different protocols
//! do not take each other's bodies for their own.

use groupcast_core::node::Channel;

/// The ring.
pub const RING: Channel = Channel(Number::Ring as u8);
/// The bimodal groups of a daemon, all on one channel: every body begins with eight bytes that name
/// its group.
pub const BIMODAL: Channel = Channel(Number::Bimodal as u8);
/// Bulk transfers.
pub const BULK: Channel = Channel(Number::Bulk as u8);
/// RMP.
pub const RMP: Channel = Channel(Number::Rmp as u8);
/// Group management beside bulk transfers.
pub const XGM: Channel = Channel(Number::Xgm as u8);

/// Further rings of daemons, each with sockets of its own: every body begins with eight bytes that
/// name its ring, so that rings can share an address.
pub const RINGS: Channel = Channel(Number::Rings as u8);

/// The accounts of relays, beside bulk transfers.
pub const RELAY: Channel = Channel(Number::Relay as u8);

/// The numbers: as an enum, so that the compiler refuses one that is given twice.
#[repr(u8)]
enum Number {
    Ring = 1,
    Bimodal = 2,
    Bulk = 3,
    Rmp = 4,
    Xgm = 5,
    Rings = 6,
    Relay = 7,
}
