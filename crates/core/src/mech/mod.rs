//! Mechanisms that several protocols share. They know no protocol and no datagram format.
//!
//! - [`window`]: what was received of a numbered sequence: gaps, the all-received-up-to mark, the retransmission store.
//! - [`packing`]: messages into packet bodies and back: small ones together, large ones in pieces.
//! - [`timers`]: a table of timers keyed by an enum.
//! - [`estimate`]: a smoothed duration and its deviation.

pub mod estimate;
pub mod packing;
pub mod timers;
pub mod window;
