//! Self-delivery: a member that does not crash delivers what it submitted.
//!
//! - A member that leaves has delivered every ordered message of its own before.
//! - A member that is alive when the run ends in quiescence has delivered every one.
//! - In any run: what somebody delivers of it in a configuration, it has delivered itself before it
//!   goes on to a later configuration.
//!
//! A message that it reported as lost it does not owe: the rule `refused` tells which those may be.
//!
//! EVS 3 (self-delivery).

use groupcast_core::Service;

use super::{At, End};
use crate::ledger::{Ledger, MemberLife, MessageIx, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "self_delivery"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        if let Step::Leave = step {
            for message in owed(at.ledger, at.life()) {
                at.report(found, || {
                    let message = at.ledger.call_placed(message);
                    format!("leaves without having delivered its own {message}")
                });
            }
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        let ledger = end.ledger;
        for (observer, life) in ledger.observers() {
            let is_settled = end.is_settled(life);
            for message in owed(ledger, life) {
                if is_settled {
                    end.report(found, observer, || {
                        let message = ledger.call_placed(message);
                        format!("never delivers its own {message}, though it is alive")
                    });
                    continue;
                }
                let sighting = ledger.message(message).sighting;
                let Some((spot, by)) = sighting.and_then(|first| Some((first.spot?, first.by)))
                else {
                    continue;
                };
                if ledger.is_past(observer, spot.config) {
                    end.report(found, observer, || {
                        let (message, by) = (ledger.call_placed(message), ledger.call_member(by));
                        format!("goes on without having delivered its own {message}, which {by} delivered")
                    });
                }
            }
        }
    }
}

/// The ordered messages that the member submitted, or that others deliver of it, and did not
/// deliver.
pub(super) fn owed(ledger: &Ledger, life: &MemberLife) -> impl Iterator<Item = MessageIx> {
    life.numbers.values().copied().filter(|message| {
        let record = ledger.message(*message);
        let submitted = record.submission.map(|submission| submission.service);
        let service = submitted.or(record.sighting.map(|sighting| sighting.service));
        service.is_some_and(|service| service != Service::Unreliable)
            && !life.has(*message)
            && !life.has_reported(record.sender, record.id.number)
    })
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, accept_complete, reject, reject_complete};

    const RULE: &str = "self_delivery";

    #[test]
    fn who_leaves_has_delivered_its_own() {
        accept("a regular 1a a; a submit a1; a submit a2 unreliable; a deliver a1 1a:1; a leave");
        reject(RULE, "a regular 1a a; a submit a1; a leave");
    }

    #[test]
    fn who_is_alive_at_a_quiet_end_has_delivered_its_own() {
        let story = "a regular 1a a; a submit a1";
        accept(story);
        accept_complete(&format!("{story}; a crash"));
        accept_complete(&format!("{story}; a deliver a1 1a:1"));
        reject_complete(RULE, story);
    }

    #[test]
    fn who_goes_on_has_delivered_what_others_deliver_of_it() {
        let story = "a,b regular 1a ab; a submit a1; b deliver a1 1a:1";
        accept(story);
        accept(&format!(
            "{story}; a transitional 1a a; a deliver a1 1a:1; a regular 2a a"
        ));
        reject(
            RULE,
            &format!("{story}; a transitional 1a a; a regular 2a a"),
        );
    }
}
