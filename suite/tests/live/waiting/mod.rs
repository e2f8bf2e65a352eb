//! Tests that wait nearly all their time: for somebody to be missed, to come back, to be told.
//! Four of them beside each other leave the processors free for half the time.

mod bimodal;
mod bus_book;
mod census;
mod chaos;
mod cut;
mod embedded;
mod files;
mod guests;
mod hostile;
mod kill;
mod moves;
mod orders;
mod pause;
mod relay;
mod rings;
mod snooping;
mod start_order;
