//! Gaps: a member delivers a message or says that it will not, never both, never either twice.
//!
//! - A message is delivered once at most, and not after it was reported; it is reported once at
//!   most, and not after it was delivered.
//! - FIFO: each sender's messages come in the order of their numbers, and what is missing between
//!   two was reported before the second. Where a member's share of a sender's messages begins is
//!   its own affair, for it may have come late: but not if it is known to have heard of the sender
//!   before.
//! - Nobody reports its own messages. A member that leaves, or is alive when the run ends in
//!   quiescence, has delivered all of them.
//! - Who is alive when the run ends in quiescence has no hole between the messages that it
//!   accounted for, and has accounted for every message that it was expected to.
//!
//! Unreliable messages stand outside, and so do messages with a place in a total order. 004 3.6
//! (FIFO delivery, gap up-calls).

use groupcast_core::Service;

use super::{At, End};
use crate::ledger::{Ledger, MemberIx, MemberLife, Step, Stream};
use crate::outcome::HeardBefore;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "gaps"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        match *step {
            Step::Deliver {
                message,
                service,
                spot: None,
                ..
            } if service != Service::Unreliable => {
                let record = at.ledger.message(message);
                let Some(stream) = at.life().stream(record.sender) else {
                    return;
                };
                check_delivery(at, stream, record.sender, record.id.number, service, found);
            }
            Step::Gap {
                sender,
                first,
                last,
            } => check_gap(at, sender, first, last, found),
            Step::Leave => {
                if let Some(number) = owed(at.ledger, at.life(), at.observer) {
                    at.report(found, || {
                        format!("leaves without having delivered its own message {number}")
                    });
                }
            }
            _ => {}
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        let ledger = end.ledger;
        for (observer, life) in ledger.observers() {
            if !end.is_settled(life) {
                continue;
            }
            if let Some(number) = owed(ledger, life, observer) {
                end.report(found, observer, || {
                    format!("never delivers its own message {number}, though it is alive")
                });
            }
            for (sender, stream) in life.streams() {
                check_holes(end, observer, sender, stream, found);
            }
        }
        for known in &end.outcome.heard_before {
            check_beginning(end, known, found);
        }
        for expected in &end.outcome.together {
            for member in expected.members.iter().filter_map(|id| ledger.find(*id)) {
                for id in &expected.messages {
                    let sender = ledger.find(id.sender);
                    let stream = sender.and_then(|sender| ledger.life(member).stream(sender));
                    if !stream.is_some_and(|stream| stream.accounts_for(id.number)) {
                        end.report(found, member, || {
                            let sender = ledger.call_id(id.sender);
                            format!(
                                "neither delivers nor reports message {} of {sender}, as expected",
                                id.number
                            )
                        });
                    }
                }
            }
        }
    }
}

fn check_delivery(
    at: &At<'_>,
    stream: &Stream,
    sender: MemberIx,
    number: u64,
    service: Service,
    found: &mut Violations,
) {
    let call = || format!("message {number} of {}", at.ledger.call_member(sender));
    if stream.delivered.has(number) {
        at.report(found, || format!("delivers {} again", call()));
    } else if stream.reported.has(number) {
        at.report(found, || {
            format!("delivers {}, which it reported as lost", call())
        });
    }
    if !service.is_fifo() {
        return;
    }
    if number <= stream.fifo {
        at.report(found, || {
            format!("delivers {} after its message {}", call(), stream.fifo)
        });
    }
    let exempt = |number| is_unreliable(at.ledger, sender, number);
    if let Some(hole) = stream.hole(number, exempt) {
        at.report(found, || {
            format!(
                "delivers {} and has neither delivered nor reported its message {hole}",
                call()
            )
        });
    }
}

fn check_gap(at: &At<'_>, sender: MemberIx, first: u64, last: u64, found: &mut Violations) {
    let call = || {
        let sender = at.ledger.call_member(sender);
        format!("messages {first} to {last} of {sender} as lost")
    };
    if first > last {
        at.report(found, || format!("reports {}: none at all", call()));
        return;
    }
    if sender == at.observer {
        at.report(found, || format!("reports {}: its own", call()));
    }
    let Some(stream) = at.life().stream(sender) else {
        return;
    };
    if let Some(again) = stream.reported.any(first, last) {
        at.report(found, || {
            format!("reports {}, of which {again} was reported before", call())
        });
    }
    if let Some(delivered) = stream.delivered.any(first, last) {
        at.report(found, || {
            format!("reports {}, of which it delivered {delivered}", call())
        });
    }
}

fn check_holes(
    end: &End<'_>,
    observer: MemberIx,
    sender: MemberIx,
    stream: &Stream,
    found: &mut Violations,
) {
    let ledger = end.ledger;
    let Some(last) = stream.last() else { return };
    let exempt = |number| is_unreliable(ledger, sender, number);
    if let Some(number) = stream.hole(last, exempt) {
        end.report(found, observer, || {
            let sender = ledger.call_member(sender);
            format!(
                "neither delivers nor reports message {number} of {sender}, but later ones, though it is alive"
            )
        });
    }
}

fn check_beginning(end: &End<'_>, known: &HeardBefore, found: &mut Violations) {
    let ledger = end.ledger;
    let (Some(observer), Some(sender)) = (ledger.find(known.observer), ledger.find(known.sender))
    else {
        return;
    };
    // What only the dead knew of, nobody can report.
    if ![observer, sender]
        .iter()
        .all(|it| end.is_settled(ledger.life(*it)))
    {
        return;
    }
    let sent = ledger.life(sender).numbers.range(known.since..);
    let mut promised = sent.filter(|(number, message)| {
        ledger.message(**message).submission.is_some() && !is_unreliable(ledger, sender, **number)
    });
    let Some((number, _)) = promised.next() else {
        return;
    };
    let stream = ledger.life(observer).stream(sender);
    if !stream.is_some_and(|stream| stream.accounts_for(*number)) {
        end.report(found, observer, || {
            let sender = ledger.call_member(sender);
            format!(
                "neither delivers nor reports message {number} of {sender}, though it had heard of it before"
            )
        });
    }
}

/// Whether `sender` is known to have submitted the message without a promise.
fn is_unreliable(ledger: &Ledger, sender: MemberIx, number: u64) -> bool {
    let message = ledger.life(sender).numbers.get(&number);
    let submission = message.and_then(|message| ledger.message(*message).submission);
    submission.is_some_and(|submission| submission.service == Service::Unreliable)
}

/// The first of its own messages that the member submitted, not as unreliable, and did not deliver.
fn owed(ledger: &Ledger, life: &MemberLife, observer: MemberIx) -> Option<u64> {
    let stream = life.stream(observer);
    let undelivered = life.numbers.iter().find(|(number, message)| {
        let submission = ledger.message(**message).submission;
        let is_owed =
            submission.is_some_and(|submission| submission.service != Service::Unreliable);
        is_owed && !stream.is_some_and(|stream| stream.delivered.has(**number))
    });
    undelivered.map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use crate::story::Story;

    const RULE: &str = "gaps";

    /// `a` submits four messages and delivers them itself; then what is told of `b`.
    fn told(b: &str) -> Story {
        let numbers = 1..5;
        let own = numbers.map(|n| format!("a submit a{n} fifo; a deliver a{n} -"));
        let own: Vec<String> = own.collect();
        Story::of(&format!("b start; {}{b}", own.join("; "))).gapped()
    }

    #[test]
    fn in_order_with_gaps_reported_before_what_follows_them() {
        told("; b deliver a1 -; b deliver a2 -; b deliver a3 -; b deliver a4 -").accept();
        told("; b deliver a1 -; b gap a 2 3; b deliver a4 -").accept();
        told("; b deliver a3 -; b deliver a4 -").accept();
        told("; b deliver a1 -; b deliver a3 -").reject(RULE);
        told("; b deliver a2 -; b deliver a1 -").reject(RULE);
        told("; b deliver a1 -; b deliver a4 -; b gap a 2 3").reject(RULE);
    }

    #[test]
    fn delivered_or_reported_and_only_once() {
        told("; b deliver a1 -; b deliver a1 -").reject(RULE);
        told("; b deliver a1 -; b gap a 1 1").reject(RULE);
        told("; b deliver a1 -; b gap a 2 2; b deliver a2 -").reject(RULE);
        told("; b deliver a1 -; b gap a 2 3; b gap a 3 4").reject(RULE);
        told("; b deliver a1 -; b gap a 3 2").reject(RULE);
    }

    #[test]
    fn without_an_order_messages_come_as_they_like_but_not_twice() {
        let start =
            "b start; a submit a1 reliable; a deliver a1 -; a submit a2 reliable; a deliver a2 -";
        let story = |b: &str| Story::of(&format!("{start}; {b}")).gapped();
        story("b deliver a2 -; b deliver a1 -").complete().accept();
        story("b deliver a2 -; b gap a 1 1").complete().accept();
        story("b deliver a2 -; b deliver a2 -").reject(RULE);
    }

    #[test]
    fn at_the_end_of_a_quiet_run_there_is_no_hole_and_own_messages_are_delivered() {
        let start = "b start; a submit a1 reliable; a deliver a1 -; a submit a2 unreliable; a submit a3 reliable; \
                     a deliver a3 -; a submit a4 reliable; a deliver a4 -";
        let story = |b: &str| Story::of(&format!("{start}; {b}")).gapped();
        story("b deliver a1 -; b deliver a4 -").accept();
        story("b deliver a1 -; b deliver a4 -")
            .complete()
            .reject(RULE);
        story("b deliver a1 -; b deliver a3 -; b deliver a4 -")
            .complete()
            .accept();
        Story::of("a submit a1 fifo")
            .gapped()
            .complete()
            .reject(RULE);
        Story::of("a submit a1 fifo; a leave").gapped().reject(RULE);
        Story::of("a submit a1 fifo; a crash")
            .gapped()
            .complete()
            .accept();
        Story::of("a submit a1 fifo; a gap a 1 1")
            .gapped()
            .reject(RULE);
    }

    #[test]
    fn expected_messages_are_delivered_or_reported() {
        told("; b deliver a4 -").together("ab", &["a4"]).accept();
        told("; b gap a 4 4").together("ab", &["a4"]).accept();
        told("; b deliver a3 -")
            .together("ab", &["a4"])
            .reject(RULE);
    }

    #[test]
    fn a_lost_beginning_is_found_where_the_observer_had_heard_of_the_sender() {
        let late = || told("; b deliver a3 -; b deliver a4 -").complete();
        late().accept();
        late().heard_before("b", "a1").reject(RULE);
        late().heard_before("b", "a3").accept();
        told("; b gap a 1 2; b deliver a3 -; b deliver a4 -")
            .complete()
            .heard_before("b", "a1")
            .accept();
        told("").complete().heard_before("b", "a2").reject(RULE);
        told("").heard_before("b", "a2").accept();
        told("; a crash")
            .complete()
            .heard_before("b", "a2")
            .accept();
    }

    #[test]
    fn what_is_invented_or_changed_is_found_here_too() {
        told("; b deliver a5 -").complete().reject("integrity");
        told("; b deliver a1 - digest=9").reject("integrity");
    }
}
