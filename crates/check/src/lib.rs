//! The judge: histories in, violations out.
//!
//! A history is what an observer at one member saw
//! ([`trace::Observation`](groupcast_core::trace::Observation)): submissions, deliveries,
//! configurations, group views, the end of its life. The judge holds the histories of a run against
//! the promises of the services and of Extended Virtual Synchrony (Moser, Amir, Melliar-Smith and
//! Agarwal, 1994), one rule a file under `rules`. It sees no internals of any protocol, so one
//! judge serves the simulator and live daemons alike; live histories come as files of NDJSON
//! ([`ndjson`], `docs/history.md`).
//!
//! The [`Checker`] is fed one observation at a time and says at once what it can; what needs all
//! histories it says in [`Checker::finish`]. [`check_files`] judges files, and says what they leave
//! open. To produce histories, and to say which members were alive at the end, is left to the
//! callers.
//!
//! ```
//! use groupcast_check::{Checker, Outcome};
//! use groupcast_core::trace::Observation;
//! use groupcast_core::{ConfigId, ConfigurationKind, Incarnation, MemberId, NodeId};
//!
//! let a = MemberId { node: NodeId::from_name("a"), incarnation: Incarnation(7) };
//! let mut checker = Checker::new();
//! checker.observe(a, &Observation::Start);
//! checker.observe(a, &Observation::Configuration {
//!     kind: ConfigurationKind::Regular,
//!     id: ConfigId { counter: 1, representative: a },
//!     members: vec![a],
//! });
//! assert!(checker.finish(&Outcome::default()).is_empty());
//! ```
#![forbid(unsafe_code)]

mod checker;
mod coverage;
mod files;
mod ledger;
pub mod ndjson;
mod outcome;
mod report;
mod rules;
pub mod shape;
#[cfg(test)]
mod story;
mod violation;

pub use checker::{Checker, Statistics};
pub use coverage::Unjudged;
pub use files::check_files;
pub use groupcast_core::Contract;
pub use ndjson::{HistoryError, HistoryWriter};
pub use outcome::{Ending, HeardBefore, Outcome, Together};
pub use report::CheckReport;
pub use violation::Violation;
