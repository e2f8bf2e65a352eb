//! Safe delivery: a safe message that one member delivers is delivered by all that could have to.
//!
//! - Delivered by anybody in a regular configuration: every member of that configuration delivers
//!   it, there or in the transitional configuration that closes it, unless it crashes.
//! - Delivered by anybody in a transitional configuration: every member of that transitional
//!   configuration does.
//!
//! "Crashes" takes in every member whose history ends, in whatever way, before it goes on to a
//! later configuration: it is held to the promise once it has gone on, or is alive when the run
//! ends in quiescence. A member that leaves is likewise free of what the others deliver after it
//! stopped.
//!
//! EVS 7.1 and 7.2 (safe delivery).

use std::collections::BTreeSet;

use groupcast_core::{MemberId, Service};

use super::End;
use crate::ledger::{Config, ConfigIx, Ledger, MemberIx, MessageIx};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "safe"
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (ix, config) in end.ledger.configs() {
            check_regular(end, ix, config, found);
        }
        // A whole transitional configuration may tell of the same one that failed.
        let mut told = BTreeSet::new();
        for (observer, life) in end.ledger.observers() {
            for index in 0..life.stays.len() {
                check_transitional(end, observer, index, &mut told, found);
            }
        }
    }
}

fn check_regular(end: &End<'_>, ix: ConfigIx, config: &Config, found: &mut Violations) {
    let ledger = end.ledger;
    let Some((set, _)) = config.installed else {
        return;
    };
    for member in held(end, ix, ledger.set(set)) {
        for message in config.order.values().copied() {
            let Some(by) = ledger.message(message).regular_at else {
                continue;
            };
            if is_safe(ledger, message) && !ledger.life(member).has(message) {
                end.report(found, member, || {
                    let (message, by) = (ledger.call_placed(message), ledger.call_member(by));
                    format!("never delivers the safe {message}, which {by} delivered in the regular configuration")
                });
            }
        }
    }
}

fn check_transitional(
    end: &End<'_>,
    observer: MemberIx,
    index: usize,
    told: &mut BTreeSet<(MemberIx, MessageIx)>,
    found: &mut Violations,
) {
    let ledger = end.ledger;
    let life = ledger.life(observer);
    let stay = &life.stays[index];
    let (_, delivered) = life.delivered_in(index);
    let Some(transitional) = stay.transitional.filter(|_| !delivered.is_empty()) else {
        return;
    };
    for member in held(end, stay.config, ledger.set(transitional.set)) {
        for message in delivered.iter().copied() {
            if is_safe(ledger, message)
                && !ledger.life(member).has(message)
                && told.insert((member, message))
            {
                end.report(found, member, || {
                    let (message, by) = (ledger.call_placed(message), ledger.call_member(observer));
                    format!("never delivers the safe {message}, which {by} delivered in a transitional configuration with it")
                });
            }
        }
    }
}

/// Those of `members` that must by now have delivered all that they ever will of `config`.
pub(super) fn held(
    end: &End<'_>,
    config: ConfigIx,
    members: &[MemberId],
) -> impl Iterator<Item = MemberIx> {
    let observed = members.iter().filter_map(|id| end.ledger.find(*id));
    observed.filter(move |member| {
        let life = end.ledger.life(*member);
        life.lines > 0 && (end.ledger.is_past(*member, config) || end.is_settled(life))
    })
}

fn is_safe(ledger: &Ledger, message: MessageIx) -> bool {
    let sighting = ledger.message(message).sighting;
    sighting.is_some_and(|first| first.service == Service::Safe)
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, accept_complete, reject, reject_complete};

    const RULE: &str = "safe";
    const ONE: &str = "a,b,c regular 1a abc; a submit a1 safe; a deliver a1 1a:1";

    #[test]
    fn delivered_in_a_regular_configuration_means_delivered_by_all_of_it() {
        accept(ONE);
        let apart = "b transitional 1a b";
        accept(&format!(
            "{ONE}; {apart}; b deliver a1 1a:1; b regular 2b b"
        ));
        reject(RULE, &format!("{ONE}; {apart}; b regular 2b b"));
        // Also by a member that goes on without ever installing it.
        reject(
            RULE,
            "a regular 1a ab; b regular 0b b; a submit a1 safe; a deliver a1 1a:1; b transitional 0b b; b regular 2b b",
        );
    }

    #[test]
    fn who_crashes_is_free_and_who_is_alive_at_a_quiet_end_is_not() {
        accept_complete(&format!("{ONE}; b,c deliver a1 1a:1"));
        accept_complete(&format!("{ONE}; b,c crash"));
        reject_complete(RULE, &format!("{ONE}; b deliver a1 1a:1"));
    }

    #[test]
    fn delivered_in_a_transitional_configuration_means_delivered_by_all_of_that() {
        let story =
            "a,b,c regular 1a abc; a submit a1 safe; a transitional 1a ab; a deliver a1 1a:1;
            c transitional 1a c; c regular 2c c; b transitional 1a b";
        accept(story);
        accept(&format!("{story}; b deliver a1 1a:1; b regular 3b b"));
        reject(RULE, &format!("{story}; b regular 3b b"));
    }

    #[test]
    fn weaker_services_may_be_missed() {
        let story = "a,b regular 1a ab; a submit a1; a deliver a1 1a:1; b transitional 1a b; b regular 2b b";
        accept(story);
    }
}
