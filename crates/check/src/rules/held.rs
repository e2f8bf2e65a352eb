//! Held messages: what may be delivered only when all hold it is not delivered before (003 5.3.3,
//! deliver-to).
//!
//! - The sender of such a message tells its receivers that they all hold it (`all_hold`) for a
//!   message of its own that it submitted.
//! - Each of those that it names has said that it holds it (`held`).
//!
//! Histories of several members have no common clock, so a receiver that comes to hold it after it
//! was named is not found; one that never does, because it or the sender dies before, is.

use groupcast_core::MemberId;

use super::{At, End};
use crate::ledger::{MemberIx, MessageIx, Step};
use crate::outcome::Ending;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "held"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let Step::AllHold { message, .. } = *step else {
            return;
        };
        let record = at.ledger.message(message);
        if record.sender != at.observer || record.submission.is_none() {
            at.report(found, || {
                let message = at.ledger.call_message(message);
                format!("says that all hold {message}, which it has not submitted")
            });
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (message, by, holders) in end.ledger.all_hold() {
            for holder in holders {
                check_holder(end, (message, by), *holder, found);
            }
        }
    }
}

fn check_holder(
    end: &End<'_>,
    (message, by): (MessageIx, MemberIx),
    holder: MemberId,
    found: &mut Violations,
) {
    let ledger = end.ledger;
    let Some(member) = ledger.find(holder) else {
        return;
    };
    let life = ledger.life(member);
    // Of a history that may have lost its end, or was never read, nothing is known.
    let is_unknown = life.lines == 0 || end.ending(life) == Ending::Unknown;
    if is_unknown || ledger.has_held(message, member) {
        return;
    }
    end.report(found, by, || {
        let (message, holder) = (ledger.call_message(message), ledger.call_id(holder));
        format!("tells all that {holder} holds {message}, which it never did")
    });
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject, reject_complete};

    const RULE: &str = "held";
    const SENT: &str = "a submit a1 fifo; b held a1; c start";

    #[test]
    fn all_that_are_named_hold_it() {
        accept(&format!("{SENT}; a all_hold a1 b; b deliver a1 -"));
        accept(&format!("{SENT}; a all_hold a1 bd"));
        reject_complete(RULE, &format!("{SENT}; a all_hold a1 bc; b deliver a1 -"));
        reject(RULE, &format!("{SENT}; c crash; a all_hold a1 bc"));
        // One that comes to hold it later: no clock tells.
        accept(&format!("{SENT}; a all_hold a1 bc; c held a1"));
    }

    #[test]
    fn the_sender_says_so_of_its_own() {
        reject(RULE, "a submit a1 fifo; b held a1; b all_hold a1 b");
        reject(RULE, "a start; b held a1; a all_hold a1 b");
    }
}
