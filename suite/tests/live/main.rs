//! Live tests: the program as its users run it, on hosts of a test bed. One behaviour a file.
//!
//! They are ignored unless asked for. Those of [`waiting`] run beside each other; all others run
//! one at a time, because they measure times or count what a busy machine adds to. `cargo xtask
//! test --only live` runs all, and `cargo test -p groupcast-suite --test live -- --ignored
//! --test-threads=1 transfer` those of one file.

mod bench;
mod copies_rate;
mod forged;
mod idle;
mod rekey;
mod requests;
mod waiting;
