//! Live tests: the program as its users run it, on hosts of a test bed. One behaviour a file.
//!
//! They are ignored unless asked for, and run one at a time, because they measure times: `cargo
//! xtask test --only live`, or `cargo test -p groupcast-suite --test live -- --ignored
//! --test-threads=1 cut` for those of one file.

mod bench;
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
mod files;
mod forged;
mod guests;
mod hostile;
mod idle;
mod kill;
mod mesh;
mod mtu;
mod orders;
mod pause;
mod rekey;
mod relay;
mod requests;
mod rings;
mod spill;
mod start_order;
mod transfer;
