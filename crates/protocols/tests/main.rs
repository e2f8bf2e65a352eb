//! The protocols in the simulator: scenarios of the ring, and protocols that report what they miss.

mod gapped;
mod ring;
mod rmp;
