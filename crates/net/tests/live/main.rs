//! Endpoints on real sockets: several members in one thread, a tiny protocol.
//!
//! One behaviour a file. Every test takes random addresses of its own and is bounded in time. All
//! use the loopback interface but those of `wire`, which need root and are run by `cargo test -p
//! groupcast-net -- --ignored`.
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
mod wire;
