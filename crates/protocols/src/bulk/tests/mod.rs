//! Behaviour of bulk transfers: over the simulated network, a message a transfer, and over a small
//! network of endpoints where transfers are more than messages.

mod attendance;
mod collectors;
mod connection;
mod copies;
mod cp;
mod disks;
mod endpoints;
mod fabric;
mod far;
mod few;
mod files;
mod full_link;
mod joining;
mod later;
mod lists;
mod many;
mod marks;
mod messages;
mod multidriver;
mod names;
mod net;
mod parity;
mod port;
mod rate;
mod replies;
mod resuming;
mod served;
mod slots;
mod starts;
mod strict;
mod talk;
mod transitions;
mod tree;
mod unanswered;
mod xtp;
