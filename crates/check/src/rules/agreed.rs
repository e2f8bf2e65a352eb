//! Agreed order: one total order of all messages, for all members, across partitions and merges.
//!
//! - An ordered message has one place, the same wherever it is delivered; a place has one message.
//! - Every member delivers in strictly ascending order of place, over its whole life. Together: any two members that
//!   deliver the same two messages deliver them in the same order, whatever they went through in between.
//! - In a regular configuration nobody skips: who delivers a message there has delivered everything that anybody
//!   delivers with an earlier place in that configuration. (In a transitional configuration messages may be missing
//!   that no member of it has.)
//! - An unreliable message has no place; every other one has, at a member that has installed a configuration. Protocols
//!   without configurations (bulk) carry `reliable` and `fifo`, without a place.
//!
//! EVS 6 (totally ordered delivery); DESIGN section 15, "Place in the order".

use groupcast_core::Service;

use super::{At, End};
use crate::ledger::{MessageIx, Spot, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "agreed"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let Step::Deliver {
            message,
            service,
            spot,
            ..
        } = *step
        else {
            return;
        };
        match (spot, service) {
            (Some(_), Service::Unreliable) => at.report(found, || {
                let message = at.ledger.call_message(message);
                format!("{message} is unreliable and has a place in the order")
            }),
            (None, Service::Unreliable) => {}
            (None, Service::Reliable | Service::Fifo) if at.life().stay().is_none() => {}
            (None, _) => at.report(found, || {
                let message = at.ledger.call_message(message);
                format!("{message} is {service} and has no place in the order")
            }),
            (Some(spot), _) => {
                check_place(at, message, spot, found);
                check_ascent(at, message, spot, found);
            }
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        let ledger = end.ledger;
        for (observer, life) in ledger.observers() {
            for index in 0..life.stays.len() {
                let (regular, _) = life.delivered_in(index);
                let Some(next) = regular.last().copied() else {
                    continue;
                };
                let Some(seq) = ledger.seq(next) else {
                    continue;
                };
                if let Some((_, missed)) = ledger.missed(observer, index, seq).next() {
                    end.report(found, observer, || {
                        let (missed, next) = (ledger.call_placed(missed), ledger.call_placed(next));
                        format!("delivers {next} without {missed}, which others delivered")
                    });
                }
            }
        }
    }
}

/// One place a message, one message a place.
fn check_place(at: &At<'_>, message: MessageIx, spot: Spot, found: &mut Violations) {
    let ledger = at.ledger;
    let first = ledger.message(message).sighting;
    let elsewhere = first.and_then(|first| Some((first.spot?, first.by)));
    if let Some((elsewhere, by)) = elsewhere {
        if elsewhere != spot {
            at.report(found, || {
                let (here, there) = (ledger.call_spot(spot), ledger.call_spot(elsewhere));
                let (message, by) = (ledger.call_message(message), ledger.call_member(by));
                format!("{message} stands at {here} here and at {there} at {by}")
            });
        }
        return;
    }
    if let Some(other) = ledger.config(spot.config).order.get(&spot.seq) {
        at.report(found, || {
            let (message, other) = (ledger.call_message(message), ledger.call_message(*other));
            let spot = ledger.call_spot(spot);
            format!("{message} stands at {spot} here and {other} stands there elsewhere")
        });
    }
}

fn check_ascent(at: &At<'_>, message: MessageIx, spot: Spot, found: &mut Violations) {
    if let Some(last) = at.life().last.filter(|last| last.seq >= spot.seq) {
        at.report(found, || {
            let message = at.ledger.call_message(message);
            let (here, last) = (at.ledger.call_spot(spot), at.ledger.call_spot(last));
            format!("delivers {message} at {here} after {last}")
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    const TWO: &str = "a,b regular 1a ab; a submit a1; b submit b1";

    #[test]
    fn two_members_agree_on_the_order() {
        accept(&format!("{TWO}; a,b deliver a1 1a:1; a,b deliver b1 1a:2"));
        reject(
            "agreed",
            &format!(
                "{TWO}; a deliver a1 1a:1; a deliver b1 1a:2; b deliver b1 1a:2; b deliver a1 1a:1"
            ),
        );
    }

    #[test]
    fn a_message_has_one_place_and_a_place_one_message() {
        reject(
            "agreed",
            &format!("{TWO}; a deliver a1 1a:1; b deliver a1 1a:2"),
        );
        reject(
            "agreed",
            &format!("{TWO}; a deliver a1 1a:1; b deliver b1 1a:1"),
        );
    }

    #[test]
    fn order_ascends_across_configurations() {
        let story = "a regular 1a a; a submit a1; a submit a2; a deliver a1 1a:5; a transitional 1a a; a regular 2a a";
        accept(&format!("{story}; a deliver a2 2a:6"));
        reject("agreed", &format!("{story}; a deliver a2 2a:5"));
    }

    #[test]
    fn nobody_skips_in_a_regular_configuration() {
        reject(
            "agreed",
            &format!("{TWO}; a deliver a1 1a:1; a deliver b1 1a:2; b deliver b1 1a:2"),
        );
        // In a transitional configuration what none of its members has may be missing.
        accept(&format!(
            "{TWO}; a deliver a1 1a:1; b transitional 1a b; b deliver b1 1a:2"
        ));
    }

    #[test]
    fn only_unreliable_messages_have_no_place() {
        reject(
            "agreed",
            "a regular 1a a; a submit a1 reliable; a deliver a1 - reliable",
        );
        reject(
            "agreed",
            "a regular 1a a; a submit a1 unreliable; a deliver a1 1a:1",
        );
        accept("a regular 1a a; a submit a1 unreliable; a deliver a1 -");
    }
}
