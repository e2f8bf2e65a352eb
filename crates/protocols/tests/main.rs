//! The protocols in the simulator: scenarios of the ring, and protocols that report what they miss;
//! and what ordered ones do about another process with their name,
//! and for a majority.

mod closed_ways;
mod gapped;
mod insider;
mod majority;
mod names;
mod queue;
mod ring;
mod rmp;
