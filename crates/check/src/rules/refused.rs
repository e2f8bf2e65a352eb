//! Refused messages: what a part without a majority may not deliver, its members report as lost.
//!
//! - Only `majority` messages are reported as lost in a total order, each once, and none that was
//!   delivered before or is delivered later.
//!
//! 000 ch. 2 (majority resilience): a minority does not go on with them.

use groupcast_core::Service;

use super::{At, End};
use crate::ledger::{MemberIx, Message, MessageIx, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "refused"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        match *step {
            Step::Deliver { message, .. } => {
                let record = at.ledger.message(message);
                if at.life().has_reported(record.sender, record.id.number) {
                    at.report(found, || {
                        let message = at.ledger.call_message(message);
                        format!("delivers {message}, which it reported as lost")
                    });
                }
            }
            Step::Gap {
                sender,
                first,
                last,
            } => check_gap(at, sender, first, last, found),
            _ => {}
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (ix, message) in end.ledger.messages().iter().enumerate() {
            let service = service(message);
            if service.is_none_or(|service| service == Service::Majority) {
                continue;
            }
            let (sender, number) = (message.sender, message.id.number);
            let by = end.ledger.observers();
            let mut by = by.filter(|(_, life)| life.has_reported(sender, number));
            if let Some((by, _)) = by.next() {
                end.report(found, by, || {
                    let message = end.ledger.call_message(MessageIx::new(ix));
                    format!("reports {message} as lost, which no majority has to hold")
                });
            }
        }
    }
}

fn service(message: &Message) -> Option<Service> {
    let submitted = message.submission.map(|submission| submission.service);
    submitted.or(message.sighting.map(|sighting| sighting.service))
}

fn check_gap(at: &At<'_>, sender: MemberIx, first: u64, last: u64, found: &mut Violations) {
    let numbers = &at.ledger.life(sender).numbers;
    let stream = at.life().stream(sender);
    let call = |number| format!("message {number} of {}", at.ledger.call_member(sender));
    if first > last {
        at.report(found, || format!("reports {first} to {last}: none at all"));
        return;
    }
    if let Some(number) = stream.and_then(|stream| stream.reported.any(first, last)) {
        at.report(found, || format!("reports {} as lost again", call(number)));
    }
    let mut known = numbers.range(first..=last);
    if let Some((number, _)) = known.find(|(_, message)| at.life().has(**message)) {
        at.report(found, || {
            format!("reports {} as lost, which it delivered", call(*number))
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, accept_complete, reject, reject_complete};

    const RULE: &str = "refused";
    const SPLIT: &str = "a,b,c regular 1a abc; a submit a1 majority; a submit a2; b submit b1;
        b deliver a1 1a:1; b deliver a2 1a:2; b deliver b1 1a:3; a transitional 1a a";

    #[test]
    fn a_minority_reports_majority_messages_and_goes_on() {
        accept(&format!(
            "{SPLIT}; a gap a 1 1; a deliver a2 1a:2; a regular 2a a"
        ));
        accept_complete("a regular 1a a; a submit a1 majority; a gap a 1 1");
        reject(
            "self_delivery",
            &format!("{SPLIT}; a deliver a2 1a:2; a regular 2a a"),
        );
        reject_complete("self_delivery", "a regular 1a a; a submit a1 majority");
    }

    #[test]
    fn what_is_reported_is_not_delivered_and_only_once() {
        reject(RULE, &format!("{SPLIT}; a gap a 1 1; a deliver a1 1a:1"));
        reject(
            RULE,
            "a regular 1a a; a submit a1 majority; a deliver a1 1a:1; a gap a 1 1",
        );
        reject(RULE, &format!("{SPLIT}; a gap a 1 1; a gap a 1 1"));
        reject(RULE, &format!("{SPLIT}; a gap a 1 0"));
    }

    #[test]
    fn no_other_message_is_reported() {
        reject(RULE, &format!("{SPLIT}; a gap a 2 2"));
        reject(RULE, "a regular 1a a; a submit a1 safe; a gap a 1 1");
    }

    #[test]
    fn the_effect_of_a_refused_message_may_follow_the_report() {
        let story = SPLIT.replace("b submit b1;", "");
        let story = story.replace("b deliver a2 1a:2;", "b deliver a2 1a:2; b submit b1;");
        let end = "a deliver a2 1a:2; a deliver b1 1a:3";
        accept(&format!("{story}; a gap a 1 1; {end}"));
        reject("agreed", &format!("{story}; {end}"));
    }
}
