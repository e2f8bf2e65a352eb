//! Places: every message but an unreliable one has a place, at a member that has installed a
//! configuration.
//!
//! Protocols without configurations carry `reliable` and `fifo`, without a place. Where messages of
//! these services are delivered before they are ordered, the rule `early` holds instead.

use groupcast_core::Service;

use super::At;
use crate::ledger::Step;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "placed"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        if let Step::Deliver {
            message,
            service: service @ (Service::Reliable | Service::Fifo),
            spot: None,
            ..
        } = *step
            && at.life().stay().is_some()
            && !at.life().is_early
        {
            at.report(found, || {
                let message = at.ledger.call_message(message);
                format!("{message} is {service} and has no place in the order")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Contract;

    use crate::story::{Story, accept, reject};

    #[test]
    fn reliable_messages_have_a_place_in_a_configuration() {
        let story = "a regular 1a a; a submit a1 fifo; a deliver a1";
        accept(&format!("{story} 1a:1"));
        reject("placed", &format!("{story} -"));
        Story::of(&format!("{story} -"))
            .under(Contract::OrderedEarly)
            .accept();
    }

    #[test]
    fn histories_of_several_orders_are_each_judged_by_its_own() {
        use crate::checker::Checker;

        let story = Story::of("a regular 1a a; a submit a1 fifo; a deliver a1 -");
        let mut checker = Checker::new();
        checker.expect_early(story.observations()[0].0);
        for (member, observation) in story.observations() {
            checker.observe(*member, observation);
        }
        assert_eq!(checker.violations_so_far(), []);
    }
}
