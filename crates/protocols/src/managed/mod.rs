//! Bulk transfers with group management beside them (003 4.3: each host has an entity with an
//! interface to the transport).
//!
//! [`Glue`] joins an endpoint to an entity, wherever they run: on sockets, where each has its own
//! channel, and in [`ManagedMessages`], which holds both and gives them one channel, for the
//! simulator, the swarm and the checker. There the first byte of a body says whose it is: 0 the
//! endpoint's, 1 the entity's. The account of a message waits for the message's last checkpoint
//! (`accounts`), so that histories show what group management says, and the checker judges it.
//!
//! # Guarantees
//! Those of [`bulk`](crate::bulk) and of [`xgm`](crate::xgm). A monitored transfer ends when its
//! membership does not hold any more, and a receiver that the source's entity does not hear any
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
