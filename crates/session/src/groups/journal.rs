//! The reports of an engine to its daemon: counters, facts for the log, lines of the history.

use std::collections::VecDeque;

use groupcast_core::trace::Observation;

use super::{Carrier, Counters, Fact};

/// The most facts that wait for the log; beyond it the oldest are lost and counted.
const FACTS_MAX: usize = 1_024;

/// Counters, and reports that wait for the daemon to fetch them.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) counters: Counters,
    facts: VecDeque<Fact>,
    observations: VecDeque<(Carrier, Observation)>,
}

impl Journal {
    pub(super) fn fact(&mut self, fact: Fact) {
        if self.facts.len() >= FACTS_MAX {
            self.facts.pop_front();
            self.counters.facts_lost += 1;
        }
        self.facts.push_back(fact);
    }

    pub(super) fn observe(&mut self, carrier: Carrier, observation: Observation) {
        self.observations.push_back((carrier, observation));
    }

    pub(super) fn poll_fact(&mut self) -> Option<Fact> {
        self.facts.pop_front()
    }

    pub(super) fn poll_observation(&mut self) -> Option<(Carrier, Observation)> {
        self.observations.pop_front()
    }
}
