//! Mechanisms that several protocols share. They know no protocol and no datagram format.
//!
//! - [`window`]: what was received of a numbered sequence: gaps, the all-received-up-to mark, the
//!   retransmission store.
//! - [`bookmarks`]: where streams go on that a member no longer follows.
//! - [`participation`]: a member, leaving, left; and the transitions of a state machine, kept for
//!   who asks.
//! - [`send_queue`]: what a user may submit, and when it is refused: numbering and back-pressure.
//! - [`timers`]: a table of timers keyed by an enum.
//! - [`estimate`]: a smoothed duration and its deviation.

pub mod bookmarks;
pub mod estimate;
pub mod participation;
pub mod send_queue;
pub mod timers;
pub mod window;
