//! Rows in closed form, or on a model without a network.
//!
//! - [`IntraSite`], [`InterSite`]: 000 Tables 4 and 5, what multicast saves.
//! - [`GossipReach`]: 004 Fig. 3.3, how many processes deliver.
//! - [`struct@Hash`]: 004 7.2–7.3, is H fair, and how often do all bufferers of a message miss it?

mod costs;
mod fairness;
mod gossip;
mod hash;
pub(super) mod loss;
mod reach;
mod site;

pub use costs::{InterSite, IntraSite};
pub use gossip::GossipReach;
pub use hash::Hash;
