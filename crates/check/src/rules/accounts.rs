//! Accounts: a sender that tells what became of a message at its receivers tells the truth, once.
//!
//! - A member accounts for messages of its own that it submitted, each once, in the order of their
//!   numbers and without a gap. Nobody is in an account twice, nor its sender.
//! - A member that is complete in an account has delivered the message (that the bytes are those
//!   that were submitted is integrity).
//! - Nobody is left out: a member that learned (`enrolled`) that the sender counts it as a receiver
//!   is in the account.
//!
//! A receiver that delivered a message may be in its account as failed, where its last word was
//! lost; or not at all, where it was never told that the sender heard of it: what is multicast can
//! be had by listening.

use std::collections::BTreeSet;

use groupcast_core::MemberId;

use super::{At, End};
use crate::ledger::{Account, MessageIx, Step};
use crate::outcome::Ending;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "accounts"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let Step::Account {
            message,
            complete,
            failed,
        } = *step
        else {
            return;
        };
        check_turn(at, message, found);
        let mut seen = BTreeSet::from([at.life().id]);
        for receiver in complete.iter().chain(failed) {
            if !seen.insert(*receiver) {
                at.report(found, || {
                    let message = at.ledger.call_message(message);
                    let receiver = at.ledger.call_id(*receiver);
                    format!("accounts for {receiver} twice, or for itself, in {message}")
                });
            }
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (message, account) in end.ledger.accounts() {
            for receiver in &account.complete {
                check_complete(end, message, account, *receiver, found);
            }
            let named: BTreeSet<&MemberId> =
                account.complete.iter().chain(&account.failed).collect();
            for receiver in end.ledger.enrolled(message) {
                if !named.contains(&receiver) {
                    end.report(found, account.by, || {
                        let message = end.ledger.call_message(message);
                        let receiver = end.ledger.call_id(receiver);
                        format!("leaves {receiver}, which it told that it is a receiver, out of its account of {message}")
                    });
                }
            }
        }
    }
}

/// An account comes once, by the sender, after the one before.
fn check_turn(at: &At<'_>, message: MessageIx, found: &mut Violations) {
    let record = at.ledger.message(message);
    if record.sender != at.observer || record.submission.is_none() {
        at.report(found, || {
            let message = at.ledger.call_message(message);
            format!("accounts for {message}, which it has not submitted")
        });
    } else if record.id.number != at.life().accounted + 1 {
        at.report(found, || {
            let (number, before) = (record.id.number, at.life().accounted);
            format!("accounts for its message {number} after its message {before}")
        });
    }
}

fn check_complete(
    end: &End<'_>,
    message: MessageIx,
    account: &Account,
    receiver: MemberId,
    found: &mut Violations,
) {
    let ledger = end.ledger;
    let Some(life) = ledger.find(receiver).map(|member| ledger.life(member)) else {
        return;
    };
    // Of a history that may have lost its end, or was never read, nothing is known.
    if life.lines == 0 || end.ending(life) == Ending::Unknown || life.has(message) {
        return;
    }
    end.report(found, account.by, || {
        let (message, receiver) = (ledger.call_message(message), ledger.call_id(receiver));
        format!("says that {receiver} has {message}, which it never delivered")
    });
}

#[cfg(test)]
mod tests {
    use crate::story::{Story, accept, reject, reject_complete};

    const RULE: &str = "accounts";
    const SENT: &str = "a submit a1 fifo; b deliver a1 -; c start";

    #[test]
    fn who_has_it_may_be_complete_or_failed_or_unheard_of() {
        let judged = |story: String| Story::of(&story).complete().without_configurations();
        judged(format!("{SENT}; a account a1 b -; a deliver a1 -")).accept();
        judged(format!("{SENT}; a account a1 - bc; a deliver a1 -")).accept();
        judged(format!("{SENT}; a account a1 - -; a deliver a1 -")).accept();
    }

    #[test]
    fn who_is_complete_has_it() {
        reject_complete(RULE, &format!("{SENT}; a account a1 bc -"));
        reject(RULE, &format!("{SENT}; c crash; a account a1 bc -"));
        accept(&format!("{SENT}; a account a1 bcd -"));
    }

    #[test]
    fn nobody_is_left_out_who_was_told_that_it_is_a_receiver() {
        let enrolled = format!("{SENT}; c enrolled a1");
        accept(&format!("{enrolled}; a account a1 b c"));
        accept(&format!(
            "{enrolled}; b enrolled a1; c enrolled a1; a account a1 b c"
        ));
        // Its sender died before it could account for anybody.
        accept(&format!("{enrolled}; a crash"));
        reject(RULE, &format!("{enrolled}; a account a1 b -"));
        reject(RULE, &format!("{enrolled}; c crash; a account a1 b -"));
        reject(RULE, &format!("{SENT}; a account a1 b -; c enrolled a1"));
    }

    #[test]
    fn accounts_come_once_and_in_order() {
        let two = "a submit a1 fifo; a submit a2 fifo";
        accept(&format!("{two}; a account a1 - b; a account a2 - b"));
        reject(RULE, &format!("{two}; a account a1 - b; a account a1 - b"));
        reject(RULE, &format!("{two}; a account a2 - b"));
        reject(RULE, "a submit a1 fifo; b account a1 - -");
        reject(RULE, "a start; a account a1 - -");
    }

    #[test]
    fn nobody_is_there_twice() {
        reject(RULE, &format!("{SENT}; a account a1 b b"));
        reject(RULE, &format!("{SENT}; a account a1 b a"));
    }
}
