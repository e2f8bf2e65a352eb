//! The groupcast daemon as a library: configuration, listeners, signals and logging around one
//! protocol thread.
//!
//! Thin on purpose: the ring and gossip are in `protocols`, process groups and the client protocol
//! in `session`, sockets between daemons in `net`. This crate reads configurations, owns the client
//! sockets, and carries bytes and events between those crates.
//!
//! ```no_run
//! use groupcast_daemon::config::{Config, Options};
//! use groupcast_daemon::{Daemon, log_to_stderr};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = log_to_stderr()?;
//! let options = Options {
//!     key: Some("/etc/groupcast/cluster.key".into()),
//!     ..Options::default()
//! };
//! let daemon = Daemon::start(Config::build(None, options)?)?;
//! let stop = daemon.stop_handle();
//! // From another thread, `stop.stop()` makes it leave its group and return.
//! # drop(stop);
//! let ran = daemon.run();
//! // A thread writes the log: what was logged last waits for it.
//! log.flush();
//! ran?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod backlog;
mod beforehand;
mod bimodal;
mod bus;
mod client_calls;
mod clients;
pub mod config;
mod daemon;
mod error;
mod hearing;
mod history;
mod instance;
mod keys;
mod label;
mod latest;
mod line_limit;
mod linger;
mod listen;
mod log;
mod metrics;
mod names;
mod narrate;
mod others;
mod pace;
mod partings;
mod rekey;
mod rests;
mod rings;
mod rounds;
mod spill;
mod start;
mod status;
mod stop;
mod stream;
mod trace;
#[cfg(test)]
mod turn_time;
mod turns;
mod warnings;

pub use config::{Config, DaemonConfigError};
pub use daemon::Daemon;
pub use error::DaemonError;
pub use log::{LOG_VARIABLE, Log, LogError, log_to, log_to_stderr};
pub use stop::StopHandle;
