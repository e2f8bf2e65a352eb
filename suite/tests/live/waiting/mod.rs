//! Tests that wait nearly all their time: for somebody to be missed, to come back, to be told.
//! Three of them beside each other leave the processors free for half the time.

mod bus_book;
mod chaos;
mod cut;
mod hostile;
mod kill;
mod pause;
mod relay;
mod rings;
mod snooping;
