//! Bulk transfers with group management beside them (003 4.3: each host has an entity with an
//! interface to the transport).
//!
//! [`Glue`] joins an endpoint to an entity, wherever they run: on sockets, where each has a channel
//! of its own, and in [`ManagedMessages`], which is both in one value with one channel for the
//! simulator, the swarm and the checker. There every body begins with a byte that says whose it is:
//! 0 the endpoint's, 1 the entity's. Its accounts wait for the last checkpoint of each message
//! (`accounts`), so that histories show what group management says, and the checker judges it.
//!
//! # Guarantees
//! Those of [`bulk`](crate::bulk) and of [`xgm`](crate::xgm). A transfer that is monitored ends
//! when its membership does not hold any more, and a receiver that its entity does not hear of any
//! more is settled, whatever the policy.

mod accounts;
mod family;
mod glue;
mod inspect;
mod messages;
#[cfg(test)]
mod tests;

pub use self::family::FAMILY;
pub use self::glue::Glue;
pub use self::messages::{ManagedConfig, ManagedMessages};
