//! Endpoints on the loopback interface: real sockets, several members in one thread, a tiny protocol.
//!
//! One behaviour a file. Every test takes random addresses of its own and is bounded in time.
#![allow(
    clippy::unwrap_used,
    reason = "a test may panic; the lint's exception for tests does not reach their helpers"
)]

mod bed;

mod delivery;
mod hostile;
mod life;
mod priority;
mod timing;
