//! Mechanisms that several protocols share. They know no protocol and no datagram format.
//!
//! - [`window`]: what was received of a numbered sequence: gaps, the all-received-up-to mark, the
//!   retransmission store.
//! - [`absences`]: members that come and go.
//! - [`allowance`]: how often something may be done.
//! - [`seq`], [`indices`]: places in one order; members of one configuration and sets of them.
//! - [`delivery`]: delivery in one order, up to a horizon for each service.
//! - [`marks`]: up to where each member holds an order, and the horizons that follow from it.
//! - [`closing`]: how members that move on together finish their old configuration (EVS).
//! - [`claims`]: what a member declares and no other can check, and how far it is believed.
//! - [`peers`]: what is remembered of others from configuration to configuration: evidence,
//!   quarantine.
//! - [`delays`]: members with whom something is not done for a time, longer if it is needed again
//!   soon.
//! - [`room`]: whether members fit into one configuration.
//! - [`probes`]: whether the way to a member that was given up works again.
//! - [`namesakes`]: which of two processes of one name gives way, and to what proof.
//! - [`leave`]: the steps of a graceful leave.
//! - [`bookmarks`]: where streams go on that a member no longer follows.
//! - [`participation`]: a member, leaving, left; and the transitions of a state machine, kept for
//!   who asks.
//! - [`send_queue`]: what a user may submit, and when it is refused: numbering and back-pressure.
//! - [`queue_limit`]: how much may wait to be sent, as measured by what is taken at a time.
//! - [`timers`]: a table of timers keyed by an enum.
//! - [`turns`]: when members announce their configuration, one after the other.
//! - [`estimate`]: a smoothed duration and its deviation.

pub mod absences;
pub mod allowance;
pub mod bookmarks;
pub mod claims;
pub mod closing;
pub mod delays;
pub mod delivery;
pub mod estimate;
pub mod indices;
pub mod leave;
pub mod marks;
pub mod namesakes;
pub mod participation;
pub mod peers;
pub mod probes;
pub mod queue_limit;
pub mod room;
pub mod send_queue;
pub mod seq;
pub mod timers;
pub mod turns;
pub mod window;
