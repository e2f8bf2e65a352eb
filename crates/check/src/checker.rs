//! The judge itself: resolves each observation against the ledger, lets every rule see it, then
//! enters it.

use groupcast_core::trace::{Observation, Observer};
use groupcast_core::{Contract, MemberId};

use crate::ledger::Ledger;
use crate::outcome::Outcome;
use crate::rules::{At, End, rules_of};
use crate::violation::{Violation, Violations};

/// How many violations a checker keeps by default.
pub(crate) const LIMIT: usize = 100;

/// Judges the histories of one run.
///
/// Observations of different members come in any interleaving; those of one member in the order in
/// which it saw them. An observation costs a few look-ups; a message is kept as one record for the
/// whole run (about 150 bytes), a delivery of an ordered message as four bytes and a bit.
#[derive(Debug)]
pub struct Checker {
    ledger: Ledger,
    found: Violations,
    contract: Contract,
}

/// What a checker has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Members that have a history.
    pub observers: u64,
    /// Distinct messages that were submitted or delivered anywhere.
    pub messages: u64,
    /// Deliveries, over all observers.
    pub deliveries: u64,
    /// Distinct regular configurations that anybody installed.
    pub configurations: u64,
}

impl Checker {
    /// A checker that keeps the first 100 violations.
    pub fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    /// A checker that keeps the first `limit` violations.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            ledger: Ledger::default(),
            found: Violations::new(limit),
            contract: Contract::default(),
        }
    }

    /// Holds the histories against `contract` instead of [`Contract::Ordered`]. Before the first
    /// observation.
    pub fn under(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// Calls `member` by `name` in the texts of violations found from now on.
    pub fn set_name(&mut self, member: MemberId, name: &str) {
        self.ledger.set_name(member, name);
    }

    /// What orders the messages of `member` delivers some before they are ordered, whatever the
    /// contract says: histories of several orders are judged together.
    pub fn expect_early(&mut self, member: MemberId) {
        self.ledger.expect_early(member);
    }

    /// `observer` saw `observation`, after all that it saw before.
    pub fn observe(&mut self, observer: MemberId, observation: &Observation) {
        let observer = self.ledger.member_ix(observer);
        let step = self.ledger.resolve(observation);
        for rule in rules_of(self.contract) {
            let at = At::new(*rule, &self.ledger, observer);
            rule.step(&at, &step, &mut self.found);
        }
        self.ledger.enter(observer, &step);
    }

    /// What is already certain, however the run goes on.
    pub fn violations_so_far(&self) -> &[Violation] {
        self.found.as_slice()
    }

    /// The verdict on a run that ended in `outcome`: every violation, the first ones first. The run
    /// may go on after.
    pub fn finish(&self, outcome: &Outcome) -> Vec<Violation> {
        let mut found = self.found.clone();
        for rule in rules_of(self.contract) {
            if found.is_full() {
                break;
            }
            let end = End::new(*rule, &self.ledger, outcome);
            rule.finish(&end, &mut found);
        }
        found.into_vec()
    }

    /// The facts that it has read.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How much was seen.
    pub fn statistics(&self) -> Statistics {
        let ledger = &self.ledger;
        let installed = ledger
            .configs()
            .filter(|(_, config)| config.installed.is_some());
        Statistics {
            observers: ledger.observers().count() as u64,
            messages: ledger.messages().len() as u64,
            deliveries: ledger.deliveries(),
            configurations: installed.count() as u64,
        }
    }
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Checker {
    fn observe(&mut self, observer: MemberId, observation: &Observation) {
        Self::observe(self, observer, observation);
    }
}
