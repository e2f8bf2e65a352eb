//! The reports of an engine to its daemon: counters, facts for the log, lines of the history.

use std::collections::VecDeque;

use groupcast_core::trace::Observation;

use super::{Carrier, Counters, Fact};

/// The most facts that wait for the log; beyond it the oldest are lost and counted.
const FACTS_MAX: usize = 1_024;

/// Counters, and reports that wait for the daemon to fetch them.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) counters: Counters,
    facts: VecDeque<Fact>,
    observations: VecDeque<(Carrier, Observation)>,
    /// Somebody takes lines of the history.
    is_observed: bool,
}

impl Default for Journal {
    /// Nothing was reported, and somebody takes lines of the history.
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            facts: VecDeque::new(),
            observations: VecDeque::new(),
            is_observed: true,
        }
    }
}

impl Journal {
    /// Whether somebody takes lines of the history.
    pub(super) fn set_observed(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    /// Whether a line of the history is to be made.
    pub(super) fn is_observed(&self) -> bool {
        self.is_observed
    }

    pub(super) fn fact(&mut self, fact: Fact) {
        if self.facts.len() >= FACTS_MAX {
            self.facts.pop_front();
            self.counters.facts_lost += 1;
        }
        self.facts.push_back(fact);
    }

    pub(super) fn observe(&mut self, carrier: Carrier, observation: Observation) {
        if self.is_observed() {
            self.observations.push_back((carrier, observation));
        }
    }

    pub(super) fn poll_fact(&mut self) -> Option<Fact> {
        self.facts.pop_front()
    }

    pub(super) fn poll_observation(&mut self) -> Option<(Carrier, Observation)> {
        self.observations.pop_front()
    }
}
