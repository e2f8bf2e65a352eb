//! The verdict on the histories of a world: broken promises, and whether all is done that must be.

use std::collections::BTreeMap;

use groupcast_check::{Checker, Ending, Outcome, Together};
use groupcast_core::trace::Observation;
use groupcast_core::{Contract, MessageId};

use super::world::{World, member};

/// Judges histories, each once.
pub(super) struct Judge {
    contract: Contract,
    /// Whether all is done, by the fingerprint of the histories.
    judged: BTreeMap<u64, bool>,
}

impl Judge {
    pub(super) fn new(contract: Contract) -> Self {
        Self {
            contract,
            judged: BTreeMap::new(),
        }
    }

    /// How many different histories were judged.
    pub(super) fn judged(&self) -> u64 {
        self.judged.len() as u64
    }

    /// Whether those who live are together, and have delivered all that they must.
    ///
    /// # Errors
    /// The promises that are broken already, however the world goes on.
    pub(super) fn is_done<P>(&mut self, world: &World<P>) -> Result<bool, Vec<String>> {
        let key = world.histories();
        if let Some(done) = self.judged.get(&key) {
            return Ok(*done);
        }
        let checker = self.read(world);
        let broken = checker.finish(&Outcome::default());
        if !broken.is_empty() {
            return Err(broken.iter().map(ToString::to_string).collect());
        }
        let done = checker.finish(&end(world)).is_empty();
        self.judged.insert(key, done);
        Ok(done)
    }

    /// What is missing, of a world that should have come to its end.
    pub(super) fn missing<P>(&self, world: &World<P>) -> Vec<String> {
        let missing = self.read(world).finish(&end(world));
        missing.iter().map(ToString::to_string).collect()
    }

    fn read<P>(&self, world: &World<P>) -> Checker {
        let mut checker = Checker::new().under(self.contract);
        for (site, it) in world.sites.iter().enumerate() {
            checker.set_name(member(site), &site.to_string());
            for seen in &it.history.log {
                checker.observe(member(site), seen);
            }
        }
        checker
    }
}

/// What must be true of a world that has come to its end.
fn end<P>(world: &World<P>) -> Outcome {
    let sites = world.sites.iter().enumerate();
    let alive = sites.filter(|(_, site)| site.alive);
    let mut together = Together::default();
    let mut outcome = Outcome {
        complete: true,
        ..Outcome::default()
    };
    for (site, it) in alive {
        together.members.insert(member(site));
        outcome.endings.insert(member(site), Ending::Alive);
        let submitted = it.history.log.iter().filter_map(submitted);
        together.messages.extend(submitted);
    }
    outcome.together.push(together);
    outcome
}

fn submitted(seen: &Observation) -> Option<MessageId> {
    match seen {
        Observation::Submit { id, .. } => Some(*id),
        _ => None,
    }
}
