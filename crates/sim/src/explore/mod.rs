//! Every schedule of a small group: the same engines as everywhere, in all orders in which
//! datagrams can arrive, timers expire and messages be submitted, with a few losses, late datagrams
//! and crashes.
//!
//! The swarm draws schedules; [`explore`] visits all of them, within the bounds that
//! [`ExploreConfig`] states. It begins with a formed group that is calm. A path ends when all
//! messages are delivered at all members that live, these are together and calm, and time has
//! passed a few times since; every path must come to such an end. The histories are judged at every
//! step.
//!
//! # Time
//! Between two steps of time the network is infinitely fast: all that was sent arrives, in any
//! order, and timers that are due expire in between, in any order. Time passes when nothing is on
//! its way any more, to the next timer of the group. What the bounds allow may be on its way still:
//! each such copy of a datagram is then *lost*, or *late*, which means that it stays on its way.
//!
//! # States
//! Two worlds are one state if all that decides their future is equal: engines (they say how they
//! compare, by `Hash`), copies on their way, time, what is still to be submitted and to go wrong,
//! and the histories so far. States are told apart by fingerprints of 64 bits.
//!
//! # Reductions
//! None of them leaves out an end or a broken promise:
//! - **Loss**: a lost copy has no effect, and one that arrives late has none until then. So it is
//!   enough to decide which copies are lost when time passes.
//! - **Crash**: a crash has no effect on others but that nothing more comes. So it is enough to let
//!   a member crash when time passes, while what is on its way to it never arrives.
//! - **Commuting steps**: arrivals, expiries and submissions at different members commute. Of the
//!   orders of two such steps one is followed (sleep sets, Godefroid 1996). All states are reached.
//! - **Histories** are judged once, however many states have them.

mod act;
mod fingerprint;
mod form;
mod judge;
mod search;
#[cfg(test)]
mod tests;
mod world;

use std::hash::Hash;
use std::time::Duration;

use groupcast_core::trace::Inspect;
use groupcast_core::{Contract, Family, MemberId, Ordered, Rng, Service, Time};

use self::form::form;
use self::search::Search;

/// What is explored, and how far.
#[derive(Clone, Debug)]
pub struct ExploreConfig {
    /// How many members there are, 2 to 8.
    pub members: usize,
    /// The messages: by which member, from 0 on, and with which service. Those of one member are
    /// submitted in this order, at any time.
    pub messages: Vec<(usize, Service)>,
    /// How long the formed group is left alone before: it decides who has the token.
    pub idle: Duration,
    /// How many copies of datagrams may be lost; a multicast is a copy for each receiver.
    pub losses: u8,
    /// How many copies may be late; one that stays on its way while time passes twice counts twice.
    pub late: u8,
    /// How many members may crash. One is left.
    pub crashes: u8,
    /// Time may pass up to a timer that is due this much later than the first: as if hosts were
    /// slow.
    pub skew: Duration,
    /// How many times time passes when all is done, before a path ends.
    pub rest: u8,
    /// Every path must come to its end in this time.
    pub within: Duration,
    /// Whether of two orders of steps that commute only one is followed.
    pub reduce: bool,
    /// What the histories are held against.
    pub contract: Contract,
    /// Names datagrams.
    pub inspect: Inspect,
}

impl ExploreConfig {
    /// Three members of `family`, of which two submit a message each, in calm.
    pub fn of(family: &Family) -> Self {
        Self {
            members: 3,
            messages: vec![(0, family.service), (1, family.service)],
            idle: Duration::from_millis(300),
            losses: 0,
            late: 0,
            crashes: 0,
            skew: Duration::ZERO,
            rest: 4,
            within: Duration::from_secs(3),
            reduce: true,
            contract: family.contract,
            inspect: family.inspect,
        }
    }
}

/// What was explored.
#[derive(Clone, Default, Debug)]
pub struct ExploreReport {
    /// States that were reached.
    pub states: u64,
    /// Steps that were taken.
    pub steps: u64,
    /// How many times a path came to its end.
    pub ends: u64,
    /// Different histories, of all members together, that were judged.
    pub histories: u64,
    /// The most steps of a path.
    pub depth: u64,
    /// The most time that passed on a path.
    pub time: Duration,
    /// All was explored: the caller did not stop it, and nothing was found.
    pub complete: bool,
    /// What is wrong, if something is.
    pub found: Option<Found>,
}

/// A path that breaks a promise.
#[derive(Clone, Debug)]
pub struct Found {
    /// What is broken.
    pub violations: Vec<String>,
    /// The steps to it.
    pub steps: Vec<String>,
}

/// Explores the group that `make` makes members of, until all is explored, something is found, or
/// `goes_on`, which is asked every few thousand steps, says no. Memory: about 60 bytes a state.
///
/// # Panics
/// If the members do not come together by themselves.
pub fn explore<P: Ordered + Clone + Hash>(
    config: &ExploreConfig,
    make: impl Fn(MemberId, Rng, Time) -> P,
    goes_on: &mut dyn FnMut(&ExploreReport) -> bool,
) -> ExploreReport {
    let root = form(config, make);
    Search::new(config, &root).run(root, goes_on)
}
