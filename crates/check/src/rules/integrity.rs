//! Integrity: what is delivered was submitted, once, and unchanged.
//!
//! - A member submits messages of its own only, numbered from 1 without a gap.
//! - A delivered message was submitted by its sender, with the same digest and service, wherever
//!   the sender's history tells; the sender submits before it delivers. Of a history whose end is
//!   unknown, the last submissions may be lost.
//! - A message has one digest and one service wherever it is delivered.
//! - Nobody delivers a message twice, except an unreliable one, of which that is not promised.
//!   Where members that were cut off from each other may deliver a message twice, they do so in
//!   two configurations.
//! - An ordered message comes from a member of the configuration in which it is ordered.
//!
//! EVS 1.3 and 1.4 (basic delivery).

use groupcast_core::{MessageId, Service};

use super::{At, End};
use crate::ledger::{Message, MessageIx, Spot, Step};
use crate::outcome::Ending;
use crate::violation::Violations;

pub(crate) struct Rule {
    /// Whether a member may deliver a message in two configurations.
    pub(crate) twice: bool,
}

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "integrity"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        match *step {
            Step::Submit {
                message,
                id,
                service,
                digest,
            } => {
                check_number(at, id, found);
                check_likeness(at, message, service, digest, found);
            }
            Step::Deliver {
                message,
                service,
                digest,
                spot,
            } => {
                check_likeness(at, message, service, digest, found);
                check_repetition(at, message, service, self.twice, found);
                check_origin(at, message, spot, found);
            }
            _ => {}
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (ix, message) in end.ledger.messages().iter().enumerate() {
            let Some(sighting) = message.sighting else {
                continue;
            };
            if message.submission.is_none() && is_invented(end, message) {
                end.report(found, sighting.by, || {
                    let message = end.ledger.call_placed(MessageIx::new(ix));
                    format!("delivers {message}, which its sender never submitted")
                });
            }
        }
    }
}

/// Whether the sender's history would tell of the submission.
fn is_invented(end: &End<'_>, message: &Message) -> bool {
    let sender = end.ledger.life(message.sender);
    let may_be_lost = end.ending(sender) == Ending::Unknown && message.id.number > sender.submitted;
    sender.lines > 0 && !may_be_lost
}

fn check_number(at: &At<'_>, id: MessageId, found: &mut Violations) {
    let life = at.life();
    if id.sender != life.id {
        at.report(found, || {
            format!("submits a message of {}", at.ledger.call_id(id.sender))
        });
    } else if id.number != life.submitted.wrapping_add(1) {
        at.report(found, || {
            let (number, before) = (id.number, life.submitted);
            format!("submits message number {number} after number {before}")
        });
    }
}

/// Compares a submission or delivery with the submission, or else with the first delivery, if they
/// are known.
fn check_likeness(
    at: &At<'_>,
    ix: MessageIx,
    service: Service,
    digest: u64,
    found: &mut Violations,
) {
    let message = at.ledger.message(ix);
    let known = match (&message.submission, &message.sighting) {
        (Some(first), _) => Some((first.service, first.digest, message.sender)),
        (None, Some(first)) => Some((first.service, first.digest, first.by)),
        (None, None) => None,
    };
    let Some((known_service, known_digest, by)) = known else {
        return;
    };
    if service != known_service {
        at.report(found, || {
            let (message, by) = (at.ledger.call_message(ix), at.ledger.call_member(by));
            format!("{message} is {service} here and {known_service} at {by}")
        });
    }
    if digest != known_digest {
        at.report(found, || {
            let (message, by) = (at.ledger.call_message(ix), at.ledger.call_member(by));
            format!("{message} has digest {digest:016x} here and {known_digest:016x} at {by}")
        });
    }
}

fn check_repetition(
    at: &At<'_>,
    ix: MessageIx,
    service: Service,
    twice: bool,
    found: &mut Violations,
) {
    if service == Service::Unreliable || !at.life().has(ix) {
        return;
    }
    if !twice || at.life().has_here(ix) {
        at.report(found, || {
            format!("delivers {} again", at.ledger.call_placed(ix))
        });
    }
}

fn check_origin(at: &At<'_>, ix: MessageIx, spot: Option<Spot>, found: &mut Violations) {
    let message = at.ledger.message(ix);
    if message.sender == at.observer && message.submission.is_none() {
        at.report(found, || {
            let message = at.ledger.call_message(ix);
            format!("delivers its own {message} without having submitted it")
        });
    }
    // Where else it is delivered it stands at the same place, so once is enough.
    let Some(spot) = spot.filter(|_| message.sighting.is_none()) else {
        return;
    };
    if let Some((set, _)) = at.ledger.config(spot.config).installed
        && !at.ledger.set(set).contains(&message.id.sender)
    {
        at.report(found, || {
            let (message, spot) = (at.ledger.call_message(ix), at.ledger.call_spot(spot));
            format!("delivers {message} at {spot}, of which its sender is no member")
        });
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Contract;

    use crate::story::{Story, accept, accept_complete, reject, reject_complete};

    #[test]
    fn what_is_delivered_was_submitted() {
        accept("a,b regular 1a ab; a submit a1 agreed; a,b deliver a1 1a:1");
        reject_complete("integrity", "a,b regular 1a ab; b deliver a1 1a:1");
        reject(
            "integrity",
            "a,b regular 1a ab; a submit a1; a crash; b deliver a1 1a:1; b deliver a2 1a:2",
        );
    }

    #[test]
    fn the_last_submissions_of_a_torn_history_may_be_lost() {
        accept("a,b regular 1a ab; a submit a1; a,b deliver a1 1a:1; b deliver a2 1a:2");
        accept("b regular 1a ab; b deliver a1 1a:1");
    }

    #[test]
    fn a_sender_submits_before_it_delivers() {
        reject(
            "integrity",
            "a regular 1a a; a deliver a1 1a:1; a submit a1",
        );
    }

    #[test]
    fn a_message_stays_what_it_is() {
        let story = "a,b regular 1a ab; a submit a1 safe digest=5";
        accept(&format!("{story}; a,b deliver a1 1a:1"));
        reject("integrity", &format!("{story}; b deliver a1 1a:1 digest=6"));
        reject("integrity", &format!("{story}; b deliver a1 1a:1 agreed"));
        // Also as far as nobody knows the submission, or not yet.
        reject(
            "integrity",
            "b deliver x1 - digest=5; c deliver x1 - digest=6",
        );
        reject(
            "integrity",
            "b deliver a1 - digest=5; a submit a1 unreliable digest=6",
        );
    }

    #[test]
    fn a_message_is_delivered_once_unless_it_is_unreliable() {
        let ordered = "a regular 1a a; a submit a1; a deliver a1 1a:1";
        reject("integrity", &format!("{ordered}; a deliver a1 1a:1"));
        reject("integrity", &format!("{ordered}; a deliver a1 1a:2"));
        accept("a,b regular 1a ab; a submit a1 unreliable; b deliver a1 -; b deliver a1 -");
    }

    #[test]
    fn who_was_cut_off_may_deliver_a_message_again_in_another_configuration_and_nothing_else() {
        let judged = |text: &str| Story::of(text).complete().under(Contract::OrderedTogether);
        let cut = "a,b regular 1a ab; a submit a1; b deliver a1 1a:1; b transitional 1a b;
            b regular 2b b; a transitional 1a a; a regular 2a a; a transitional 2a a;
            b transitional 2b b; a,b regular 3a ab; a,b deliver a1 3a:9";
        judged(cut).accept();
        for wrong in [
            "b deliver a1 3a:10",
            "b transitional 3a b; b deliver a1 3a:10",
        ] {
            judged(&format!("{cut}; {wrong}")).reject("integrity");
        }
        let sent = "a,b regular 1a ab; a submit a1 digest=5; a,b deliver a1 1a:1";
        judged(sent).accept();
        for wrong in ["b deliver a2 1a:2", "a deliver a2 1a:2"] {
            judged(&format!("{sent}; {wrong}")).reject("integrity");
        }
        judged("a,b regular 1a ab; a submit a1 digest=5; b deliver a1 1a:1 digest=6")
            .reject("integrity");
        let early = "a,b regular 1a ab; a submit a1 fifo; a,b deliver a1 -";
        judged(early).accept();
        judged(&format!("{early}; b deliver a1 -")).reject("integrity");
    }

    #[test]
    fn numbers_grow_from_one() {
        accept_complete("a regular 1a a; a submit a1 unreliable; a submit a2 unreliable");
        reject("integrity", "a submit a2");
        reject("integrity", "a submit a1; a submit a3");
        reject("integrity", "a submit b1");
    }

    #[test]
    fn a_sender_is_a_member() {
        reject("integrity", "a regular 1a ab; a deliver c1 1a:1");
    }
}
