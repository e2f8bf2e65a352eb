//! Rows in closed form, or on a model without a network.
//!
//! - [`Hash`]: 004 7.2–7.3, is H fair, and how often do all bufferers of a message miss it?

mod hash;
mod loss;

pub use hash::Hash;
