//! Policies of bulk transfers that are there to be compared with the others, in simulator, swarm
//! and laboratory: nothing that users run offers them.
//!
//! - `collectors`: a few receivers collect what the others acknowledge (003 3.3.3).
//! - `cp`: a window and a timer for each receiver, which may not leave before the end; repairs by
//!   unicast unless many miss the same (003 3.1.1, 3.3.1, 3.4).
//!
//! The policies themselves are in [`bulk`](crate::bulk); here is the family by which the swarm
//! draws them and files name them. `docs/compared.md` explains them.

mod family;
#[cfg(test)]
mod tests;

pub use self::family::FAMILY;
