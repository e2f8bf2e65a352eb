//! FIFO: each sender's ordered messages come in the order in which it submitted them, and without
//! holes.
//!
//! - Everywhere a message with a higher number stands later in the total order.
//! - In one configuration (with the transitional one that closes it), what a member delivers of a
//!   sender is the beginning of what anybody delivers of that sender there: it may miss the end,
//!   never the middle.
//!
//! Across configurations gaps are legal: what a component missed is never replayed. Without
//! configurations they are legal everywhere: a receiver that fails for one message gets the next.
//! Unreliable messages stand outside. In EVS it follows from causal delivery (5), as a sender
//! precedes itself.

use super::{At, End};
use crate::ledger::{MemberIx, MemberLife, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "fifo"
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
        // Whatever has a place is in order; of what has none, that which is promised it.
        if spot.is_none() && !service.is_fifo() {
            return;
        }
        let record = at.ledger.message(message);
        let heard = at.life().heard(record.sender);
        if record.id.number < heard {
            at.report(found, || {
                let message = at.ledger.call_message(message);
                format!("delivers {message} after its message {heard}")
            });
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (observer, life) in end.ledger.observers() {
            check_numbers(end, life, found);
            for index in 0..life.stays.len() {
                check_holes(end, observer, index, found);
            }
        }
    }
}

/// The order of a sender's messages, over all histories.
fn check_numbers(end: &End<'_>, sender: &MemberLife, found: &mut Violations) {
    let ledger = end.ledger;
    let mut before = None;
    for message in sender.numbers.values().copied() {
        let Some(seq) = ledger.seq(message) else {
            continue;
        };
        if let Some((last, earlier)) = before
            && seq <= last
            && let Some(sighting) = ledger.message(message).sighting
        {
            end.report(found, sighting.by, || {
                let (late, early) = (ledger.call_placed(message), ledger.call_placed(earlier));
                format!("{late} does not stand after {early}")
            });
        }
        before = Some((seq, message));
    }
}

fn check_holes(end: &End<'_>, observer: MemberIx, index: usize, found: &mut Violations) {
    let ledger = end.ledger;
    let (regular, transitional) = ledger.life(observer).delivered_in(index);
    let Some(last) = transitional.last().or(regular.last()) else {
        return;
    };
    let Some(last) = ledger.seq(*last) else {
        return;
    };
    for (seq, missed) in ledger.missed(observer, index, last) {
        let sender = ledger.message(missed).sender;
        let mut delivered = regular.iter().chain(transitional).copied();
        let next = delivered.find(|message| {
            ledger.message(*message).sender == sender && ledger.seq(*message) > Some(seq)
        });
        if let Some(next) = next {
            end.report(found, observer, || {
                let (missed, next) = (ledger.call_placed(missed), ledger.call_placed(next));
                format!("delivers {next} without {missed}, which others delivered")
            });
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    #[test]
    fn numbers_come_in_order() {
        let two = "a,b regular 1a ab; a submit a1; a submit a2";
        accept(&format!("{two}; a,b deliver a1 1a:1; a,b deliver a2 1a:2"));
        reject(
            "fifo",
            &format!("{two}; a,b deliver a2 1a:1; a,b deliver a1 1a:2"),
        );
    }

    #[test]
    fn order_holds_between_observers_that_miss_the_other_message() {
        reject(
            "fifo",
            "a,b,c regular 1a abc; a submit a1; a submit a2; b deliver a2 1a:1; c deliver a1 1a:2",
        );
    }

    #[test]
    fn a_hole_in_a_transitional_configuration_ends_its_sender() {
        let story =
            "a,b,c,d regular 1a abcd; c submit c1; c submit c2; d submit d1; d deliver d1 1a:1;
            c deliver d1 1a:1; c deliver c1 1a:2; c deliver c2 1a:3;
            a,b deliver d1 1a:1; a,b transitional 1a ab";
        accept(story);
        reject(
            "fifo",
            &format!("{story}; a,b deliver c2 1a:3; a,b regular 2a ab"),
        );
        accept(&format!("{story}; a,b deliver c1 1a:2; a,b regular 2a ab"));
    }

    #[test]
    fn without_configurations_numbers_come_in_order_too() {
        let two = "a submit a1 fifo; a submit a2 fifo; a submit a3 fifo; b deliver a2 -";
        accept(&format!("{two}; b deliver a3 -"));
        reject("fifo", &format!("{two}; b deliver a1 -"));
        accept("a submit a1 reliable; a submit a2 reliable; b deliver a2 -; b deliver a1 -");
    }

    #[test]
    fn gaps_are_legal_across_configurations() {
        accept(
            "a,b regular 1a ab; a submit a1; a submit a2; a deliver a1 1a:1; a transitional 1a a; a regular 2a a;
            a deliver a2 2a:2; a submit a3; b transitional 1a b; b regular 3b b; a transitional 2a a; b transitional 3b b;
            a,b regular 4a ab; a,b deliver a3 4a:3",
        );
    }
}
