//! Own messages: what a member keeps of them by itself, whatever order others deliver them in.
//!
//! - It delivers each once, except an unreliable one.
//! - Who leaves has delivered every ordered message of its own; so has who is alive when the run
//!   ends in quiescence. A message that it reported as lost it does not owe.
//!
//! EVS 1.4 and 3, as far as they are about one member.

use groupcast_core::Service;

use super::self_delivery::owed;
use super::{At, End};
use crate::ledger::Step;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "own"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        match *step {
            Step::Deliver {
                message, service, ..
            } => {
                let own = at.ledger.message(message).sender == at.observer;
                if own && service != Service::Unreliable && at.life().has(message) {
                    at.report(found, || {
                        let message = at.ledger.call_placed(message);
                        format!("delivers its own {message} again")
                    });
                }
            }
            Step::Leave => {
                for message in owed(at.ledger, at.life()) {
                    at.report(found, || {
                        let message = at.ledger.call_placed(message);
                        format!("leaves without having delivered its own {message}")
                    });
                }
            }
            _ => {}
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (observer, life) in end.ledger.observers() {
            if !end.is_settled(life) {
                continue;
            }
            for message in owed(end.ledger, life) {
                end.report(found, observer, || {
                    let message = end.ledger.call_placed(message);
                    format!("never delivers its own {message}, though it is alive")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Contract;

    use crate::story::Story;

    const RULE: &str = "own";

    fn story(text: &str) -> Story {
        Story::of(text).complete().under(Contract::OrderedTogether)
    }

    #[test]
    fn a_member_delivers_its_own_messages_once() {
        let sent = "a regular 1a a; a submit a1";
        story(&format!("{sent}; a deliver a1 1a:1")).accept();
        story(sent).reject(RULE);
        story(&format!("{sent}; a deliver a1 1a:1; a deliver a1 1a:2")).reject(RULE);
        Story::of(&format!("{sent}; a leave"))
            .under(Contract::OrderedTogether)
            .reject(RULE);
    }

    #[test]
    fn who_is_cut_off_may_deliver_in_another_order_what_another_one_sends_again() {
        story(
            "a,b regular 1a ab; a submit a1; b deliver a1 1a:1; b transitional 1a b; b regular 2b b;
            a transitional 1a a; a regular 2a a; a transitional 2a a; b transitional 2b b;
            a,b regular 3a ab; a,b deliver a1 3a:9; a,b transitional 3a ab; a,b regular 4a ab",
        )
        .accept();
    }
}
