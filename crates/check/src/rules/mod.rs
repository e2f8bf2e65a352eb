//! The rules: one promise a file, with the promise in words, its source, and histories that break
//! it.
//!
//! A rule holds no facts. At each [`Step`] it sees the ledger as it was before the step; at the
//! end, the whole ledger and how the run ended. It reports what it finds and never stops another
//! rule from looking. "EVS n.m" cites the specifications of Moser, Amir, Melliar-Smith and Agarwal,
//! "Extended Virtual Synchrony" (1994), section 2.

mod accounts;
mod agreed;
mod causality;
mod configurations;
mod early;
mod fifo;
mod gaps;
mod group_views;
mod held;
mod integrity;
mod life;
mod liveness;
mod own;
mod placed;
mod refused;
mod requests;
mod resilience;
mod roles;
mod safe;
mod self_delivery;
mod virtual_synchrony;

use groupcast_core::Contract;

use crate::ledger::{Ledger, MemberIx, MemberLife, Step};
use crate::outcome::{Ending, Outcome};
use crate::violation::{Violation, Violations};

/// The rules of messages in a total order, in the order in which they look.
static ORDERED: &[&dyn Rule] = &[
    &life::Rule,
    &configurations::Rule,
    &integrity::Rule { twice: false },
    &placed::Rule,
    &early::Rule,
    &agreed::Rule,
    &fifo::Rule,
    &causality::Rule,
    &virtual_synchrony::Rule { twice: false },
    &self_delivery::Rule,
    &resilience::Rule,
    &safe::Rule,
    &refused::Rule,
    &held::Rule,
    &accounts::Rule,
    &group_views::Rule,
    &requests::Rule,
    &roles::Rule,
    &liveness::Rule,
];

/// The same where some messages are delivered before they are ordered.
static ORDERED_EARLY: &[&dyn Rule] = &[
    &life::Rule,
    &configurations::Rule,
    &integrity::Rule { twice: false },
    &early::Rule,
    &agreed::Rule,
    &fifo::Rule,
    &causality::Rule,
    &virtual_synchrony::Rule { twice: false },
    &self_delivery::Rule,
    &resilience::Rule,
    &safe::Rule,
    &refused::Rule,
    &held::Rule,
    &accounts::Rule,
    &group_views::Rule,
    &requests::Rule,
    &roles::Rule,
    &liveness::Rule,
];

/// The rules of an order that only members keep that stay together.
static ORDERED_TOGETHER: &[&dyn Rule] = &[
    &life::Rule,
    &configurations::Rule,
    &integrity::Rule { twice: true },
    &own::Rule,
    &virtual_synchrony::Rule { twice: true },
    &liveness::Rule,
];

/// The rules of messages outside of one, of which a member reports those that it lost. A sender
/// that accounts for its messages tells the truth.
static GAPPED: &[&dyn Rule] = &[
    &life::Rule,
    &integrity::Rule { twice: false },
    &gaps::Rule,
    &accounts::Rule,
];

/// The rules of messages that are promised nothing. A sender that accounts for them tells the
/// truth.
static UNRELIABLE: &[&dyn Rule] = &[
    &life::Rule,
    &integrity::Rule { twice: false },
    &held::Rule,
    &accounts::Rule,
];

/// The rules by which histories under `contract` are judged.
pub(crate) fn rules_of(contract: Contract) -> &'static [&'static dyn Rule] {
    match contract {
        // Without configurations, the rules about them have nothing to look at.
        Contract::Ordered | Contract::Accounted => ORDERED,
        Contract::OrderedEarly => ORDERED_EARLY,
        Contract::OrderedTogether => ORDERED_TOGETHER,
        Contract::Gapped => GAPPED,
        Contract::Unreliable => UNRELIABLE,
    }
}

/// A rule of the checker: one promise that histories must keep.
pub(crate) trait Rule: Sync {
    /// The file's name.
    fn name(&self) -> &'static str;

    /// The observer saw `step`, which is not entered in the ledger yet.
    fn step(&self, _at: &At<'_>, _step: &Step<'_>, _found: &mut Violations) {}

    /// All histories are read.
    fn finish(&self, _end: &End<'_>, _found: &mut Violations) {}
}

/// Where a step is seen.
pub(crate) struct At<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) observer: MemberIx,
    rule: &'static str,
}

impl<'a> At<'a> {
    pub(crate) fn new(rule: &dyn Rule, ledger: &'a Ledger, observer: MemberIx) -> Self {
        Self {
            ledger,
            observer,
            rule: rule.name(),
        }
    }

    /// The observer's life before the step.
    pub(crate) fn life(&self) -> &'a MemberLife {
        self.ledger.life(self.observer)
    }

    pub(crate) fn report(&self, found: &mut Violations, text: impl FnOnce() -> String) {
        found.push(|| Violation {
            rule: self.rule,
            observer: self.life().id,
            name: self.life().name.clone(),
            line: Some(self.life().lines + 1),
            text: text(),
        });
    }
}

/// The end of a run.
pub(crate) struct End<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) outcome: &'a Outcome,
    rule: &'static str,
}

impl<'a> End<'a> {
    pub(crate) fn new(rule: &dyn Rule, ledger: &'a Ledger, outcome: &'a Outcome) -> Self {
        Self {
            ledger,
            outcome,
            rule: rule.name(),
        }
    }

    /// How the history of `life` ended.
    pub(crate) fn ending(&self, life: &MemberLife) -> Ending {
        let told = self.outcome.endings.get(&life.id).copied();
        life.ended.or(told).unwrap_or(Ending::Unknown)
    }

    /// Whether the member must have delivered all that it ever will: it is alive and the run ended
    /// in quiescence.
    pub(crate) fn is_settled(&self, life: &MemberLife) -> bool {
        self.outcome.complete && self.ending(life) == Ending::Alive
    }

    pub(crate) fn report(
        &self,
        found: &mut Violations,
        observer: MemberIx,
        text: impl FnOnce() -> String,
    ) {
        let life = self.ledger.life(observer);
        found.push(|| Violation {
            rule: self.rule,
            observer: life.id,
            name: life.name.clone(),
            line: None,
            text: text(),
        });
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Contract;

    use crate::story::Story;

    #[test]
    fn where_nothing_is_promised_messages_may_be_lost_and_repeated_but_not_made_up() {
        let under = |story: &str| Story::of(story).complete().under(Contract::Unreliable);
        let sent = "a submit a1 unreliable; a submit a2 unreliable; a deliver a1 -";
        under(&format!(
            "{sent}; b deliver a2 -; b deliver a2 -; b deliver a1 -"
        ))
        .accept();
        under(&format!("{sent}; b deliver a3 -")).reject("integrity");
        under(&format!("{sent}; b leave; b deliver a1 -")).reject("life");
        let told = "a submit a1 reliable; b deliver a1 -; c start; a deliver a1 -";
        under(&format!("{told}; a account a1 b -")).accept();
        under(&format!("{told}; a account a1 bc -")).reject("accounts");
    }

    #[test]
    fn a_contract_without_configurations_still_counts_messages() {
        let under = |story: &str| {
            let story = Story::of(story).complete().without_configurations();
            story.under(Contract::Accounted)
        };
        under("a submit a1 fifo; a,b deliver a1 -").accept();
        under("a submit a1 fifo; a,b deliver a1 -; b deliver a1 -").reject("integrity");
    }
}
