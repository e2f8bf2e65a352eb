//! Behaviour of bulk transfers: over the simulated network, a message a transfer, and over a small
//! network of endpoints where transfers are more than messages.

mod endpoints;
mod many;
mod messages;
mod names;
mod net;
mod parity;
mod resume;
mod transitions;
mod xtp;
