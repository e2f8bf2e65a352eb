//! Causality: what a member had seen when it submitted a message comes before that message,
//! everywhere.
//!
//! - The place of an ordered message is after that of every message its sender had delivered before
//!   submitting it, and not in a configuration that its sender had closed by then. As every member
//!   delivers in ascending order of place (rule `agreed`), nobody sees effect before cause, and
//!   chains over several members are covered link by link.
//! - In one configuration nobody delivers the effect without the cause: who delivers a message
//!   delivered all that its sender had delivered in that configuration before submitting it. Across
//!   configurations the cause may be missing.
//!   A cause that a member reported as lost (the rule `refused`) is not missing without a word.
//!
//! EVS 5 (causal delivery), over all ordered messages: on a ring they all stand in the total order.

use super::{At, End};
use crate::ledger::{ConfigIx, Ledger, MemberIx, MessageIx, Spot, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "causality"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let ledger = at.ledger;
        match *step {
            Step::Submit { message, id, .. } if id.sender == at.life().id => {
                let record = ledger.message(message);
                if let Some(spot) = record.sighting.and_then(|first| first.spot) {
                    check_place(at, message, spot, at.life().last, at.life().closed(), found);
                }
            }
            Step::Deliver {
                message,
                spot: Some(spot),
                ..
            } => {
                let record = ledger.message(message);
                if let (Some(submission), None) = (record.submission, record.sighting) {
                    check_place(
                        at,
                        message,
                        spot,
                        submission.after,
                        submission.closed,
                        found,
                    );
                }
            }
            _ => {}
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (observer, life) in end.ledger.observers() {
            for index in 0..life.stays.len() {
                check_causes(end, observer, index, found);
            }
        }
    }
}

/// The place of a message against what its sender had seen.
fn check_place(
    at: &At<'_>,
    message: MessageIx,
    spot: Spot,
    after: Option<Spot>,
    closed: Option<ConfigIx>,
    found: &mut Violations,
) {
    let ledger = at.ledger;
    if let Some(after) = after.filter(|after| after.seq >= spot.seq) {
        at.report(found, || {
            let (message, here) = (ledger.call_message(message), ledger.call_spot(spot));
            let after = ledger.call_spot(after);
            format!("{message} stands at {here}, but its sender submitted it after {after}")
        });
    }
    let counter = |config: ConfigIx| ledger.config(config).id.counter;
    if let Some(closed) = closed.filter(|closed| counter(*closed) >= counter(spot.config)) {
        at.report(found, || {
            let (message, here) = (ledger.call_message(message), ledger.call_spot(spot));
            let closed = ledger.call_config(closed);
            format!(
                "{message} stands at {here}, but its sender submitted it after the end of {closed}"
            )
        });
    }
}

/// Whether the observer delivered a message in this stay without one of its causes.
fn check_causes(end: &End<'_>, observer: MemberIx, index: usize, found: &mut Violations) {
    let ledger = end.ledger;
    let life = ledger.life(observer);
    let (regular, transitional) = life.delivered_in(index);
    let Some(last) = transitional.last().or(regular.last()) else {
        return;
    };
    let Some(last) = ledger.seq(*last) else {
        return;
    };
    let Some((hole, cause)) = ledger.missed(observer, index, last).next() else {
        return;
    };
    let config = life.stays[index].config;
    let delivered = regular.iter().chain(transitional).copied();
    for effect in delivered.filter(|message| ledger.seq(*message) > Some(hole)) {
        if has_seen(ledger, effect, Spot { seq: hole, config }) {
            end.report(found, observer, || {
                let (effect, cause) = (ledger.call_placed(effect), ledger.call_placed(cause));
                format!("delivers {effect} without {cause}, which its sender had seen")
            });
            return;
        }
    }
}

/// Whether the sender of `effect` had delivered what stands at `spot` when it submitted `effect`.
fn has_seen(ledger: &Ledger, effect: MessageIx, spot: Spot) -> bool {
    let submission = ledger.message(effect).submission;
    let after = submission.and_then(|submission| submission.after);
    after.is_some_and(|after| after.config == spot.config && after.seq >= spot.seq)
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    const CAUSE: &str =
        "a,b,c regular 1a abc; a submit a1; a deliver a1 1a:2; b deliver a1 1a:2; b submit b1";

    #[test]
    fn an_effect_stands_after_its_cause() {
        accept(&format!(
            "{CAUSE}; a,b deliver b1 1a:3; c deliver a1 1a:2; c deliver b1 1a:3"
        ));
        reject(
            "causality",
            &format!("{CAUSE}; c deliver b1 1a:1; c deliver a1 1a:2"),
        );
        // The effect's delivery is read before its submission.
        reject(
            "causality",
            "c regular 1a abc; c deliver b1 1a:1; c deliver a1 1a:2; a,b regular 1a abc; a submit a1;
            b deliver a1 1a:2; b submit b1",
        );
    }

    #[test]
    fn an_effect_is_not_delivered_without_its_cause() {
        let end = "b,c transitional 1a bc; b deliver b1 1a:3; c deliver b1 1a:3";
        accept(&format!("{CAUSE}; c deliver a1 1a:2; {end}"));
        reject("causality", &format!("{CAUSE}; {end}"));
    }

    #[test]
    fn a_message_is_not_ordered_in_a_configuration_that_its_sender_had_closed() {
        reject(
            "causality",
            "a,b regular 1a ab; a transitional 1a a; a submit a1; b deliver a1 1a:1",
        );
        accept(
            "a,b regular 1a ab; a submit a1; a transitional 1a a; b deliver a1 1a:1; a deliver a1 1a:1",
        );
    }
}
