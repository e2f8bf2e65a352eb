//! Requests to process groups: no client is given one twice, and none answers one twice; of a
//! request that asks for a handler there is one answer at most (000 ch. 11; `docs/guests.md`).
//!
//! Whatever happens in between: the guest may have connected again, the network may have split and
//! merged.

use super::At;
use crate::ledger::Step;
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        let guests = at.ledger.guests();
        match *step {
            Step::Asked {
                request, client, ..
            } if guests.was_asked(request, at.observer, client) => {
                at.report(found, || {
                    format!("{client} is given request {request} again")
                });
            }
            Step::Replied {
                request,
                client,
                handler,
            } => {
                if !guests.was_asked(request, at.observer, client) {
                    at.report(found, || {
                        format!("{client} answers request {request}, which it was not given")
                    });
                }
                let mut others = guests.repliers(request);
                let twice = others.find(|(member, other)| {
                    handler.is_some() || (*member, *other) == (at.observer, client)
                });
                if let Some((member, other)) = twice {
                    let by = at.ledger.call_member(member);
                    at.report(found, || {
                        format!("{client} answers request {request}, as {other} did at {by}")
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

    const RULE: &str = "requests";

    #[test]
    fn a_request_is_given_to_a_client_once() {
        let asked = "a,b regular 1a ab; a asked g:1 chat x@a; b asked g:1 chat y@b";
        accept(asked);
        accept(&format!(
            "{asked}; a asked g:2 chat x@a; a asked g:1 chat z@a"
        ));
        reject(RULE, &format!("{asked}; a asked g:1 chat x@a"));
        let moved = "a,b transitional 1a a; a regular 2a a";
        reject(RULE, &format!("{asked}; {moved}; a asked g:1 chat x@a"));
    }

    #[test]
    fn who_was_not_asked_or_has_answered_answers_no_more() {
        let asked = "a regular 1a a; a asked g:1 chat x@a; a replied g:1 x@a -";
        accept(asked);
        reject(RULE, &format!("{asked}; a replied g:1 x@a -"));
        reject(RULE, "a regular 1a a; a replied g:1 x@a -");
    }

    #[test]
    fn one_process_answers_what_asks_for_a_handler() {
        let asked = "a,b regular 1a ab; a asked g:1 chat x@a; b asked g:1 chat y@b";
        accept(&format!(
            "{asked}; a replied g:1 x@a -; b replied g:1 y@b -"
        ));
        accept(&format!("{asked}; a replied g:1 x@a 3"));
        reject(
            RULE,
            &format!("{asked}; a replied g:1 x@a 3; b replied g:1 y@b 3"),
        );
    }
}
