//! Liveness: what must be true at the end of a run, as its outcome states it.
//!
//! - Members expected to be together are in one regular configuration, of exactly these members,
//!   and each has delivered the messages that it was expected to.
//! - Without configurations: the members expected to be together have delivered those messages.
//! - In a run that ended in quiescence, every member that is alive is in a regular configuration,
//!   and has delivered all that anybody delivered in that one.
//!
//! EVS 2.3 and 4 for a configuration that lasts.

use super::End;
use crate::ledger::MemberIx;
use crate::outcome::Together;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "liveness"
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for expected in &end.outcome.together {
            check_together(end, expected, found);
        }
        for (observer, life) in end.ledger.observers() {
            if end.is_settled(life) && !end.outcome.without_configurations {
                check_settled(end, observer, found);
            }
        }
    }
}

fn check_together(end: &End<'_>, expected: &Together, found: &mut Violations) {
    let ledger = end.ledger;
    let mut shared = None;
    for id in &expected.members {
        let Some(member) = ledger.find(*id) else {
            // It has no history at all, so no violation can name it as the observer: report at the
            // first one that has.
            let witness = ledger.observers().next().map(|(witness, _)| witness);
            if let Some(witness) = witness {
                end.report(found, witness, || {
                    format!("is expected to be together with {id}, which has no history")
                });
            }
            continue;
        };
        let stay = ledger
            .life(member)
            .stay()
            .filter(|stay| stay.transitional.is_none());
        let config = stay.map(|stay| stay.config);
        let installed = config.and_then(|config| ledger.config(config).installed);
        let is_exact =
            installed.is_some_and(|(set, _)| expected.members.iter().eq(ledger.set(set)));
        let is_asked = !end.outcome.without_configurations;
        if is_asked && (!is_exact || *shared.get_or_insert(config) != config) {
            end.report(found, member, || {
                let members: Vec<_> = expected
                    .members
                    .iter()
                    .map(|id| ledger.call_id(*id))
                    .collect();
                let moment = ledger.call_moment(ledger.life(member).moment());
                let list = installed.map_or_else(String::new, |(set, _)| {
                    format!(" with members {}", ledger.call_set(set))
                });
                format!(
                    "is expected to end together with [{}], but ends {moment}{list}",
                    members.join(", ")
                )
            });
        }
        check_messages(end, member, expected, found);
    }
}

fn check_messages(end: &End<'_>, member: MemberIx, expected: &Together, found: &mut Violations) {
    let ledger = end.ledger;
    for id in &expected.messages {
        let message = ledger.find_message(*id);
        if !message.is_some_and(|message| ledger.life(member).has(message)) {
            end.report(found, member, || {
                let sender = ledger.call_id(id.sender);
                format!(
                    "never delivers the expected message {} of {sender}",
                    id.number
                )
            });
        }
    }
}

fn check_settled(end: &End<'_>, observer: MemberIx, found: &mut Violations) {
    let ledger = end.ledger;
    let life = ledger.life(observer);
    let Some(stay) = life.stay().filter(|stay| stay.transitional.is_none()) else {
        end.report(found, observer, || {
            let moment = ledger.call_moment(life.moment());
            format!("is alive at the end of a quiet run, but in no regular configuration: {moment}")
        });
        return;
    };
    let order = &ledger.config(stay.config).order;
    for missed in order.values().filter(|message| !life.has(**message)) {
        end.report(found, observer, || {
            let missed = ledger.call_placed(*missed);
            format!("is alive and never delivers {missed}, which others delivered")
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{Story, accept_complete, reject_complete};

    const RULE: &str = "liveness";

    #[test]
    fn a_quiet_run_ends_in_a_regular_configuration() {
        accept_complete("a,b regular 1a ab; a submit a1; a,b deliver a1 1a:1");
        reject_complete(RULE, "a,b regular 1a ab; a transitional 1a a");
        reject_complete(RULE, "a start");
    }

    #[test]
    fn what_one_delivers_in_the_last_configuration_all_deliver() {
        reject_complete(RULE, "a,b regular 1a ab; a submit a1; a deliver a1 1a:1");
        accept_complete("a,b regular 1a ab; a submit a1; a deliver a1 1a:1; b crash");
    }

    #[test]
    fn without_configurations_only_messages_are_owed() {
        let both = "a submit a1 fifo; a,b deliver a1 -";
        let story = || Story::of(both).complete().without_configurations();
        story().together("ab", &["a1"]).accept();
        story().together("ab", &["a1", "b1"]).reject(RULE);
        reject_complete(RULE, both);
    }

    #[test]
    fn who_is_expected_to_be_together_is() {
        let healed = "a,b regular 1a ab; a submit a1; a,b deliver a1 1a:1";
        Story::of(healed).together("ab", &["a1"]).accept();
        Story::of(healed).together("ab", &["a1", "b1"]).reject(RULE);
        Story::of(healed).together("abc", &[]).reject(RULE);
        Story::of(healed).together("a", &[]).reject(RULE);
        Story::of("a regular 1a a; b regular 1b b")
            .together("ab", &[])
            .reject(RULE);
        Story::of("a,b regular 1a ab; b transitional 1a b")
            .together("ab", &[])
            .reject(RULE);
    }
}
