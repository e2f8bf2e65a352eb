//! Agreed order: one total order of all messages, for all members, across partitions and merges.
//!
//! - An ordered message has one place in the order, the same wherever it is delivered; a place has
//!   one message.
//! - Every member delivers in strictly ascending order of place, over its whole life. Together: any
//!   two members that deliver the same two messages deliver them in the same order, whatever
//!   happens in between.
//! - In a regular configuration no message is skipped: a member that delivers a message there has
//!   delivered everything that any member delivers at an earlier place in that configuration.
//! - In a transitional configuration no message of its own members is skipped: a member that
//!   delivers a message there has delivered every earlier one whose sender is a member of that
//!   transitional configuration. Messages of other senders may be missing, because none of its
//!   members may have them.
//! - An unreliable message has no place. Every message of a service from `causal` on has one; of
//!   `reliable` and `fifo` the rules `placed` and `early` tell.
//!
//! EVS 6.1 to 6.3 (totally ordered delivery).

use groupcast_core::Service;

use super::{At, End};
use crate::ledger::{MemberIx, MessageIx, Spot, Step};
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
            // `placed` and `early` say where these need none.
            (None, Service::Reliable | Service::Fifo) => {}
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
        for (observer, life) in end.ledger.observers() {
            for index in 0..life.stays.len() {
                check_regular(end, observer, index, found);
                check_transitional(end, observer, index, found);
            }
        }
    }
}

/// EVS 6.3 in a regular configuration: nothing before the last delivery there is missing.
fn check_regular(end: &End<'_>, observer: MemberIx, index: usize, found: &mut Violations) {
    let ledger = end.ledger;
    let (regular, _) = ledger.life(observer).delivered_in(index);
    let Some(next) = regular.last().copied() else {
        return;
    };
    let Some(seq) = ledger.seq(next) else {
        return;
    };
    if let Some((_, missed)) = ledger.missed(observer, index, seq).next() {
        end.report(found, observer, || {
            let (missed, next) = (ledger.call_placed(missed), ledger.call_placed(next));
            format!("delivers {next} without {missed}, which others delivered")
        });
    }
}

/// EVS 6.3 in a transitional configuration: before the last delivery there no message of one of its
/// members is missing.
fn check_transitional(end: &End<'_>, observer: MemberIx, index: usize, found: &mut Violations) {
    let ledger = end.ledger;
    let life = ledger.life(observer);
    let (regular, delivered) = life.delivered_in(index);
    let (Some(transitional), Some(next)) = (life.stays[index].transitional, delivered.last())
    else {
        return;
    };
    let Some(seq) = ledger.seq(*next) else {
        return;
    };
    // What is missing before the end of the regular part is told there.
    let told = regular.last().and_then(|last| ledger.seq(*last));
    let members = ledger.set(transitional.set);
    let missed = ledger.missed(observer, index, seq).find(|(hole, message)| {
        Some(*hole) > told && members.contains(&ledger.message(*message).id.sender)
    });
    if let Some((_, missed)) = missed {
        end.report(found, observer, || {
            let (missed, next) = (ledger.call_placed(missed), ledger.call_placed(*next));
            format!(
                "delivers {next} without {missed}, whose sender is in the same transitional configuration"
            )
        });
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
        // In a transitional configuration a message of another partition may be missing.
        accept(&format!(
            "{TWO}; a deliver a1 1a:1; b transitional 1a b; b deliver b1 1a:2"
        ));
    }

    #[test]
    fn no_message_of_its_members_is_skipped_in_a_transitional_configuration() {
        // b's message is skipped although b comes along.
        reject(
            "agreed",
            "a,b regular 1a ab; b submit b1; b deliver b1 1a:1; a submit a1; a transitional 1a ab;
            a deliver a1 1a:2; a regular 2a ab; b crash",
        );
        // Delivered in its place; c's message may be missing.
        let story = "a,b,c regular 1a abc; b submit b1; c submit c1; c deliver b1 1a:1; c deliver c1 1a:2;
            a submit a1; a,b transitional 1a ab; b deliver b1 1a:1; b deliver a1 1a:3; a deliver b1 1a:1";
        accept(&format!("{story}; a deliver a1 1a:3; a,b regular 2a ab"));
        // Missing behind the last delivery: a crashed on its way.
        accept(&format!("{story}; a crash"));
        // Delivered in the regular configuration before.
        accept(
            "a,b regular 1a ab; b submit b1; a submit a1; a,b deliver b1 1a:1;
            a,b transitional 1a ab; a,b deliver a1 1a:2; a,b regular 2a ab",
        );
        // b is in another partition: its message may be missing.
        accept(
            "a,b regular 1a ab; b submit b1; b deliver b1 1a:1; a submit a1; a transitional 1a a;
            a deliver a1 1a:2; a regular 2a a",
        );
        // Skipped while a third member's message is delivered.
        reject(
            "agreed",
            "a,b,c regular 1a abc; b submit b1; c submit c1; c deliver b1 1a:1; c deliver c1 1a:2;
            a,b transitional 1a ab; a deliver c1 1a:2",
        );
        // Skipped behind what was delivered in the regular configuration.
        reject(
            "agreed",
            "a,b regular 1a ab; a submit a1; a submit a2; b submit b1; a,b deliver a1 1a:1;
            a,b transitional 1a ab; b deliver b1 1a:2; a,b deliver a2 1a:3",
        );
    }

    #[test]
    fn only_unreliable_messages_have_no_place() {
        reject(
            "agreed",
            "a regular 1a a; a submit a1 causal; a deliver a1 - causal",
        );
        reject(
            "agreed",
            "a regular 1a a; a submit a1 unreliable; a deliver a1 1a:1",
        );
        accept("a regular 1a a; a submit a1 unreliable; a deliver a1 -");
    }
}
