//! Configurations: the shape of a life under Extended Virtual Synchrony.
//!
//! - Regular, transitional, regular, …: between two regular configurations stands the transitional
//!   one that closes the first. Only the very first regular one has none before it.
//! - A list of members ascends and contains the observer. All that install a regular configuration
//!   report the same list.
//! - A transitional configuration bears the id of the regular one that it closes. Its members are
//!   of that one and of the next one, and everybody who makes the same step from one regular
//!   configuration to the next reports the same. A member that is listed and installs the next one
//!   comes from the same old one.
//! - A member never installs a regular configuration twice; the counters of its regular
//!   configurations grow.
//! - A message is delivered in the configuration in which it is ordered, or in the transitional one
//!   that closes it.
//!
//! EVS 2 (configuration changes) and 1.1.

use groupcast_core::{ConfigurationKind, MemberId};

use super::{At, End};
use crate::ledger::{ConfigIx, SetIx, Step, call_kind};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "configurations"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        match *step {
            Step::Deliver {
                message,
                spot: Some(spot),
                ..
            } => {
                let here = at.life().stay().map(|stay| stay.config);
                if here != Some(spot.config) {
                    at.report(found, || {
                        let (ledger, place) = (at.ledger, at.ledger.call_spot(spot));
                        let message = ledger.call_message(message);
                        let moment = ledger.call_moment(at.life().moment());
                        format!("delivers {message}, ordered at {place}, {moment}")
                    });
                }
            }
            Step::Install { kind, config, set } => {
                check_list(at, kind, config, set, found);
                match kind {
                    ConfigurationKind::Regular => check_regular(at, config, set, found),
                    ConfigurationKind::Transitional => check_transitional(at, config, set, found),
                }
            }
            _ => {}
        }
    }

    /// A member that is listed in a transition and installs its new configuration made that
    /// transition.
    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        let ledger = end.ledger;
        for ((from, to), transition) in ledger.transitions() {
            let listed = ledger.set(transition.set).iter();
            for member in listed.filter_map(|id| ledger.find(*id)) {
                let stays = ledger.life(member).stays.windows(2);
                let mut steps = stays.map(|pair| (pair[0].config, pair[1].config));
                let Some((came_from, _)) = steps.find(|(_, next)| *next == to) else {
                    continue;
                };
                if came_from != from {
                    end.report(found, member, || {
                        let (from, to) = (ledger.call_config(from), ledger.call_config(to));
                        let came_from = ledger.call_config(came_from);
                        let by = ledger.call_member(transition.by);
                        format!("comes from {came_from} to {to}, but {by} lists it as coming with it from {from}")
                    });
                }
            }
        }
    }
}

/// What holds of every list of members.
fn check_list(
    at: &At<'_>,
    kind: ConfigurationKind,
    config: ConfigIx,
    set: SetIx,
    found: &mut Violations,
) {
    let (ledger, members) = (at.ledger, at.ledger.set(set));
    let name = || format!("{} {}", call_kind(kind), ledger.call_config(config));
    if !members.is_sorted_by(|a, b| a < b) {
        at.report(found, || {
            let list = ledger.call_set(set);
            format!("the members of {} do not ascend: {list}", name())
        });
    }
    if !members.contains(&at.life().id) {
        at.report(found, || {
            let list = ledger.call_set(set);
            format!("is not a member of its own {}: {list}", name())
        });
    }
}

fn check_regular(at: &At<'_>, config: ConfigIx, set: SetIx, found: &mut Violations) {
    let (ledger, life) = (at.ledger, at.life());
    let name = || ledger.call_config(config);
    if life.stays.iter().any(|stay| stay.config == config) {
        at.report(found, || format!("installs {} a second time", name()));
    } else if ledger.config(config).id.counter <= life.counter && !life.stays.is_empty() {
        at.report(found, || {
            format!("installs {} after counter {}", name(), life.counter)
        });
    }
    if let Some((known, by)) = ledger.config(config).installed
        && known != set
    {
        at.report(found, || {
            let (here, there) = (ledger.call_set(set), ledger.call_set(known));
            let by = ledger.call_member(by);
            format!("{} has members {here} here and {there} at {by}", name())
        });
    }
    let Some(last) = life.stay() else { return };
    let Some(transitional) = last.transitional else {
        at.report(found, || {
            let last = ledger.call_config(last.config);
            format!(
                "installs {} without a transitional one after {last}",
                name()
            )
        });
        return;
    };
    if !is_subset(ledger.set(transitional.set), ledger.set(set)) {
        at.report(found, || {
            let (new, moved) = (ledger.call_set(set), ledger.call_set(transitional.set));
            format!(
                "{} {new} lacks members of the transitional one before it {moved}",
                name()
            )
        });
    }
    if let Some(known) = ledger.transition(last.config, config)
        && known.set != transitional.set
    {
        at.report(found, || {
            let (here, there) = (
                ledger.call_set(transitional.set),
                ledger.call_set(known.set),
            );
            let (by, last) = (
                ledger.call_member(known.by),
                ledger.call_config(last.config),
            );
            format!(
                "moves from {last} to {} with {here}, and {by} with {there}",
                name()
            )
        });
    }
}

fn check_transitional(at: &At<'_>, config: ConfigIx, set: SetIx, found: &mut Violations) {
    let (ledger, life) = (at.ledger, at.life());
    let name = || format!("transitional {}", ledger.call_config(config));
    let Some(stay) = life.stay() else {
        at.report(found, || {
            format!("installs {} before any regular one", name())
        });
        return;
    };
    if stay.transitional.is_some() {
        at.report(found, || {
            format!("installs {} in a transitional one", name())
        });
    }
    if stay.config != config {
        at.report(found, || {
            let stay = ledger.call_config(stay.config);
            format!("installs {} in {stay}", name())
        });
    }
    if let Some((old, _)) = ledger.config(stay.config).installed
        && !is_subset(ledger.set(set), ledger.set(old))
    {
        at.report(found, || {
            let (moved, old) = (ledger.call_set(set), ledger.call_set(old));
            format!(
                "{} {moved} has members that the regular one has not {old}",
                name()
            )
        });
    }
}

fn is_subset(some: &[MemberId], all: &[MemberId]) -> bool {
    some.iter().all(|member| all.contains(member))
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    const RULE: &str = "configurations";

    #[test]
    fn regular_and_transitional_alternate() {
        accept("a,b regular 1a ab; a transitional 1a a; a regular 2a a; a transitional 2a a");
        reject(RULE, "a regular 1a a; a regular 2a a");
        reject(RULE, "a transitional 1a a; a regular 2a a");
        reject(
            RULE,
            "a,b regular 1a ab; a transitional 1a ab; a transitional 1a a",
        );
    }

    #[test]
    fn lists_ascend_and_contain_the_observer() {
        reject(RULE, "a regular 1a ba");
        reject(RULE, "a regular 1a aa");
        reject(RULE, "a regular 1b b");
        reject(RULE, "a,b regular 1a ab; a transitional 1a b");
    }

    #[test]
    fn members_of_a_configuration_agree_on_its_list() {
        reject(RULE, "a regular 1a ab; b regular 1a abc");
    }

    #[test]
    fn a_transitional_configuration_closes_the_regular_one() {
        reject(RULE, "a regular 1a a; a transitional 9z a");
        reject(RULE, "a regular 1a a; a transitional 1a ab");
        reject(
            RULE,
            "a,b regular 1a ab; a transitional 1a ab; a regular 2a a",
        );
    }

    #[test]
    fn who_moves_together_agrees_who_does() {
        let story = "a,b,c regular 1a abc; a,b,c transitional 1a abc; a,b,c regular 2a abc";
        accept(story);
        reject(
            RULE,
            &story.replace(
                "a,b,c transitional 1a abc",
                "a,b transitional 1a ab; c transitional 1a c",
            ),
        );
        // b is said to come along, but comes from elsewhere.
        reject(
            RULE,
            "a regular 1a ab; b regular 1b b; a transitional 1a ab; b transitional 1b b; a,b regular 2a ab",
        );
    }

    #[test]
    fn ids_are_new_and_counters_grow() {
        let story = "a regular 4a a; a transitional 4a a";
        accept(&format!("{story}; a regular 5a a"));
        reject(RULE, &format!("{story}; a regular 4a a"));
        reject(RULE, &format!("{story}; a regular 4z a"));
        reject(RULE, &format!("{story}; a regular 3a a"));
    }

    #[test]
    fn messages_come_in_their_configuration() {
        let story = "a regular 1a a; a submit a1";
        accept(&format!(
            "{story}; a transitional 1a a; a deliver a1 1a:1; a regular 2a a"
        ));
        reject(
            RULE,
            &format!("{story}; a transitional 1a a; a regular 2a a; a deliver a1 1a:1"),
        );
        reject(RULE, "a submit a1; a deliver a1 1a:1; a regular 1a a");
    }
}
