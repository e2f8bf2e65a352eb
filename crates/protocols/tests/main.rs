//! The protocols in the simulator: scenarios of the ring, and protocols that report what they miss;
//! and what ordered ones do about another process with their name.

mod gapped;
mod names;
mod ring;
mod rmp;
