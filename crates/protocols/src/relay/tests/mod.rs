//! Behaviour of relays over small networks of two and three groups.

mod account;
mod ends;
mod many;
mod net;
mod passing;
mod swarm;
