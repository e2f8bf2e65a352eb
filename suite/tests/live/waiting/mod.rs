//! Tests that wait for more than half of their time: for somebody to be missed, to come back, to be
//! told, for what was lost to come again. They measure no times, so that four of them run beside
//! each other.

mod bimodal;
mod bus;
mod bus_book;
mod capture;
mod census;
mod chaos;
mod copies;
mod cut;
mod embedded;
mod failover;
mod farewell;
pub(crate) mod file_copies;
mod files;
mod guests;
mod hostile;
mod idle;
mod kill;
mod mesh;
mod moves;
mod mtu;
mod orders;
mod paper;
mod pause;
mod relay;
mod ring_interface;
mod rings;
mod snooping;
mod spill;
mod start_order;
mod transfer;
