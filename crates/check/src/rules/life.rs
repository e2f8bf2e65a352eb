//! A history tells one life: it begins with the start, and nothing follows the end.
//!
//! Every process that starts is a new member (an incarnation is never used twice), so a second
//! start of the same member is as wrong as a delivery after its crash. This is what makes the other
//! rules meaningful.

use super::At;
use crate::ledger::Step;
use crate::outcome::Ending;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "life"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let life = at.life();
        let is_first = life.lines == 0;
        match (step, is_first) {
            (Step::Start, false) => {
                at.report(found, || "the member starts a second time".to_owned());
            }
            (Step::Start, true) | (_, false) => {}
            (_, true) => at.report(found, || {
                "the history does not begin with the member's start".to_owned()
            }),
        }
        if let Some(end) = life.ended {
            at.report(found, || {
                let end = match end {
                    Ending::Left => "left",
                    _ => "crashed",
                };
                format!("the history goes on after the member {end}")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, reject};

    #[test]
    fn a_history_begins_with_the_start() {
        accept("a start; a regular 1a a");
        reject("life", "- a regular 1a a");
    }

    #[test]
    fn a_member_starts_once() {
        reject("life", "a start; a regular 1a a; a start");
    }

    #[test]
    fn nothing_follows_the_end() {
        accept("a regular 1a a; a submit a1; a deliver a1 1a:1; a leave");
        reject(
            "life",
            "a regular 1a a; a submit a1; a crash; a deliver a1 1a:1",
        );
        reject("life", "a regular 1a a; a leave; a crash");
    }
}
