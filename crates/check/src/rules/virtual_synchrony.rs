//! Virtual synchrony: members that move together delivered the same.
//!
//! Members that install the same two consecutive regular configurations, through the same
//! transitional one, delivered the same ordered messages in the first, split the same way into
//! those of the regular and those of the transitional configuration. It is judged as soon as the
//! second of them arrives.
//!
//! Where members that were cut off from each other may deliver a message twice, one that the other
//! had delivered in an earlier configuration does not count.
//!
//! EVS 4 (failure atomicity), with the split that safe delivery (7) needs.

use groupcast_core::ConfigurationKind;

use super::At;
use crate::ledger::{ConfigIx, Ledger, MessageIx, Step, Transition};
use crate::violation::Violations;

pub(crate) struct Rule {
    /// Whether a member may deliver a message in two configurations.
    pub(crate) twice: bool,
}

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "virtual_synchrony"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let Step::Install {
            kind: ConfigurationKind::Regular,
            config,
            ..
        } = *step
        else {
            return;
        };
        let life = at.life();
        let Some(stay) = life.stay() else { return };
        let (Some(transitional), Some(first)) =
            (stay.transitional, at.ledger.transition(stay.config, config))
        else {
            return;
        };
        if transitional.set == first.set {
            check_same(at, stay.config, first, self.twice, found);
        }
    }
}

fn check_same(
    at: &At<'_>,
    config: ConfigIx,
    first: &Transition,
    twice: bool,
    found: &mut Violations,
) {
    let ledger = at.ledger;
    let (me, other) = (at.life(), ledger.life(first.by));
    let stay = me.stays.len() - 1;
    let mine = me.delivered_in(stay);
    let theirs = other.delivered_in(first.stay);
    for (kind, mine, theirs) in [
        ("regular", mine.0, theirs.0),
        ("transitional", mine.1, theirs.1),
    ] {
        let is_same = || {
            let mine = mine.iter().filter(|it| !other.had_before(first.stay, **it));
            let theirs = theirs.iter().filter(|it| !me.had_before(stay, **it));
            mine.eq(theirs)
        };
        if mine != theirs && !(twice && is_same()) {
            at.report(found, || {
                let (config, by) = (ledger.call_config(config), ledger.call_member(first.by));
                let difference = first_difference(ledger, mine, theirs);
                format!(
                    "moved on from {config} together with {by}, but in its {kind} part {difference}"
                )
            });
        }
    }
}

fn first_difference(ledger: &Ledger, mine: &[MessageIx], theirs: &[MessageIx]) -> String {
    let same = mine.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let call = |list: &[MessageIx]| match list.get(same) {
        Some(message) => ledger.call_placed(*message),
        None => "nothing more".to_owned(),
    };
    let (mine, theirs) = (call(mine), call(theirs));
    format!("delivered {mine} where the other delivered {theirs}, after {same} alike")
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    const RULE: &str = "virtual_synchrony";
    const TWO: &str =
        "a,b regular 1a ab; a submit a1; b submit b1; a deliver a1 1a:1; a deliver b1 1a:2";

    #[test]
    fn who_moves_together_delivered_the_same() {
        let end = "a,b transitional 1a ab; a,b regular 2a ab";
        accept(&format!(
            "{TWO}; b deliver a1 1a:1; b deliver b1 1a:2; {end}"
        ));
        reject(RULE, &format!("{TWO}; b deliver a1 1a:1; {end}"));
    }

    #[test]
    fn the_split_between_regular_and_transitional_is_the_same() {
        reject(
            RULE,
            &format!(
                "{TWO}; a,b transitional 1a ab; b deliver a1 1a:1; b deliver b1 1a:2; a,b regular 2a ab"
            ),
        );
    }

    #[test]
    fn who_moves_apart_may_differ() {
        accept(
            "a,b,c regular 1a abc; c submit c1; c deliver c1 1a:1; a deliver c1 1a:1; c crash;
            a transitional 1a a; a regular 2a a; b transitional 1a b; b regular 2b b;
            a transitional 2a a; b transitional 2b b; a,b regular 3a ab",
        );
    }
}
