//! Handlers and locks of process groups: in one configuration a role has one holder at a time, and
//! all members see the same holders at the same places (000 ch. 8, Fig. 7; ch. 11;
//! `docs/guests.md`).
//!
//! Every configuration begins with the holders of its own, and its transitional parts go apart, so
//! parts of a network may have one each. Places do not order what a member sees: what came while
//! states were exchanged is carried out after the exchange.

use super::At;
use crate::ledger::{RoleName, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "roles"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let guests = at.ledger.guests();
        let name = |(group, role): &RoleName| format!("{role} of group {group}");
        match step {
            Step::Granted {
                role,
                client,
                place,
            } => {
                if let Some(holder) = guests.holder(at.observer, role, place.config) {
                    at.report(found, || {
                        format!("{client} gets {}, which {holder} has", name(role))
                    });
                }
                let turn = guests.turn_at(role, *place);
                let granted = turn.and_then(|turn| turn.granted.as_ref());
                if let Some((other, by)) = granted.filter(|(other, _)| other != client) {
                    let by = at.ledger.call_member(*by);
                    at.report(found, || {
                        let (name, seq) = (name(role), place.seq);
                        format!("{client} gets {name} at {seq}, and {other} does at {by}")
                    });
                }
            }
            Step::Freed {
                role,
                client,
                place,
            } => {
                let holder = guests.holder(at.observer, role, place.config);
                if holder != Some(client) {
                    at.report(found, || {
                        let holder = holder.unwrap_or("nobody");
                        format!("{client} frees {}, which {holder} has", name(role))
                    });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    const RULE: &str = "roles";

    #[test]
    fn a_role_has_one_holder_at_a_time() {
        let granted = "a regular 1a a; a granted chat lock1 x@a 1a:1";
        accept(&format!(
            "{granted}; a freed chat lock1 x@a 1a:2; a granted chat lock1 y@a 1a:2"
        ));
        accept(&format!(
            "{granted}; a granted chat lock2 y@a 1a:2; a granted talk lock1 y@a 1a:2"
        ));
        reject(RULE, &format!("{granted}; a granted chat lock1 y@a 1a:2"));
        reject(RULE, &format!("{granted}; a freed chat lock1 y@a 1a:2"));
    }

    #[test]
    fn all_see_the_same_holder_at_a_place() {
        let both = "a,b regular 1a ab";
        accept(&format!("{both}; a,b granted chat lock1 x@a 1a:1"));
        reject(
            RULE,
            &format!("{both}; a granted chat lock1 x@a 1a:1; b granted chat lock1 y@b 1a:1"),
        );
    }

    #[test]
    fn parts_have_holders_of_their_own() {
        let apart = "a,b regular 1a ab; a,b granted chat lock1 x@a 1a:1; a transitional 1a a; \
                     b transitional 1a b; a regular 2a a; b regular 2b b";
        accept(&format!(
            "{apart}; a granted chat lock1 x@a 2a:5; b granted chat lock1 y@b 2b:4"
        ));
    }
}
