//! Resilience: what was delivered outlives the failures that its service names.
//!
//! - A `k-resilient:K` message that anybody delivers in a regular configuration is delivered, there
//!   or in the transitional configuration that closes it, by every member of that configuration
//!   whose transitional one lacks at most K of its members.
//! - A `majority` message likewise where fewer than half are missing.
//!
//! Failures are what a member sees of them: those who crashed, those who left and those in another
//! part of the network are missing to it alike. A member that "crashes" is free, as in the rule
//! `safe`.
//!
//! 000 ch. 1, 2 and 8 (K-resilient atomicity, majority resilience).

use groupcast_core::{MemberId, Service};

use super::End;
use super::safe::held;
use crate::ledger::{Config, ConfigIx, Ledger, MemberIx, MessageIx};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "resilience"
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        for (ix, config) in end.ledger.configs() {
            if let Some((set, _)) = config.installed {
                let members = end.ledger.set(set);
                check(end, ix, config, members, found);
            }
        }
    }
}

fn check(
    end: &End<'_>,
    ix: ConfigIx,
    config: &Config,
    members: &[MemberId],
    found: &mut Violations,
) {
    let ledger = end.ledger;
    let resilient = |message: &MessageIx| service(ledger, *message);
    let promised: Vec<(MessageIx, Service, MemberIx)> = config
        .order
        .values()
        .filter_map(|message| {
            let by = ledger.message(*message).regular_at?;
            Some((*message, resilient(message)?, by))
        })
        .collect();
    if promised.is_empty() {
        return;
    }
    for member in held(end, ix, members) {
        let Some(missing) = missing(ledger, member, ix, members.len()) else {
            continue;
        };
        for (message, service, by) in promised.iter().copied() {
            if outlives(service, missing, members.len()) && !ledger.life(member).has(message) {
                end.report(found, member, || {
                    let (message, by) = (ledger.call_placed(message), ledger.call_member(by));
                    let of = members.len();
                    format!("never delivers the {service} {message}, which {by} delivered, though it lacks only {missing} of {of} members")
                });
            }
        }
    }
}

/// Whether a delivered message of `service` is promised to a part that lacks `missing` of
/// `members`.
fn outlives(service: Service, missing: usize, members: usize) -> bool {
    match service {
        Service::KResilient(k) => missing <= usize::from(k),
        Service::Majority => 2 * missing < members,
        _ => false,
    }
}

/// How many of the `members` of `config` were missing to `member` when it closed that; `None` if it
/// never was in it.
fn missing(ledger: &Ledger, member: MemberIx, config: ConfigIx, members: usize) -> Option<usize> {
    let stays = &ledger.life(member).stays;
    let stay = stays.iter().find(|stay| stay.config == config)?;
    let left = stay.transitional.map(|it| ledger.set(it.set).len());
    Some(members.saturating_sub(left.unwrap_or(members)))
}

fn service(ledger: &Ledger, message: MessageIx) -> Option<Service> {
    let service = ledger.message(message).sighting?.service;
    matches!(service, Service::KResilient(_) | Service::Majority).then_some(service)
}

#[cfg(test)]
mod tests {
    use crate::story::{accept, accept_complete, reject, reject_complete};

    const RULE: &str = "resilience";

    /// Five members, of which a delivers its own message of `service`.
    fn five(service: &str) -> String {
        format!("a,b,c,d,e regular 1a abcde; a submit a1 {service}; a deliver a1 1a:1; a crash")
    }

    #[test]
    fn k_failures_are_outlived_and_one_more_need_not_be() {
        let four = "b,c,d,e transitional 1a bcde; b,c,d,e regular 2b bcde";
        let three = "b crash; c,d,e transitional 1a cde; c,d,e regular 2c cde";
        accept(&format!("{}; {four}", five("k-resilient:0")));
        reject(RULE, &format!("{}; {four}", five("k-resilient:1")));
        accept(&format!("{}; {three}", five("k-resilient:1")));
        reject(RULE, &format!("{}; {three}", five("k-resilient:2")));
        let delivered = "b crash; c,d,e transitional 1a cde; c,d,e deliver a1 1a:1;
            c,d,e regular 2c cde";
        accept(&format!("{}; {delivered}", five("k-resilient:2")));
    }

    #[test]
    fn parts_of_the_network_are_counted_each_for_itself() {
        let parts = "b,c,d transitional 1a bcd; b,c,d deliver a1 1a:1; b,c,d regular 2b bcd;
            e transitional 1a e; e regular 2e e";
        accept(&format!("{}; {parts}", five("k-resilient:2")));
        reject(RULE, &format!("{}; {parts}", five("k-resilient:4")));
    }

    #[test]
    fn a_majority_outlives_the_loss_of_fewer_than_half() {
        let three = "b crash; c,d,e transitional 1a cde";
        let (without, with) = ("c,d,e regular 2c cde", "c,d,e deliver a1 1a:1");
        reject(RULE, &format!("{}; {three}; {without}", five("majority")));
        accept(&format!("{}; {three}; {with}; {without}", five("majority")));
        let two = "b,c crash; d,e transitional 1a de; d,e regular 2d de";
        accept(&format!("{}; {two}", five("majority")));
        let half = "a,b,c,d regular 1a abcd; a submit a1 majority; a deliver a1 1a:1; a,b crash;
            c,d transitional 1a cd; c,d regular 2c cd";
        accept(half);
    }

    #[test]
    fn who_stays_in_the_configuration_lacks_nobody() {
        let story = "a,b regular 1a ab; a submit a1 k-resilient:0; a deliver a1 1a:1";
        accept(story);
        reject_complete(RULE, story);
        accept_complete(&format!("{story}; b deliver a1 1a:1"));
        accept_complete(&format!("{story}; b crash"));
    }

    #[test]
    fn what_is_delivered_in_a_transitional_configuration_binds_nobody_else() {
        accept(
            "a,b,c regular 1a abc; a submit a1 majority; a,c transitional 1a ac; a deliver a1 1a:1;
            c deliver a1 1a:1; a,c regular 2a ac; b transitional 1a b; b regular 2b b",
        );
    }
}
