//! Why own transfers were cancelled, for receivers that have not heard of it.
//!
//! The last word goes to all, twice, and may be lost, or be overtaken by the answer to a report
//! that was on its way.

use alloc::collections::VecDeque;
use alloc::string::String;

use super::wire::Finish;

/// The reasons of the last transfers that were cancelled here.
#[derive(Debug, Default)]
pub(super) struct Farewells(VecDeque<(u32, String)>);

impl Farewells {
    /// Reasons that are kept.
    const KEPT: usize = 64;

    /// Transfer `number` ends, and why.
    pub(super) fn note(&mut self, number: u32, reason: &str) {
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back((number, reason.into()));
    }

    /// What a receiver of a transfer that is over is told.
    pub(super) fn of(&self, number: u32) -> Finish {
        let cancelled = self.0.iter().find(|(it, _)| *it == number);
        cancelled.map_or(Finish::Done(None), |(_, reason)| {
            Finish::Cancelled(reason.clone())
        })
    }
}
