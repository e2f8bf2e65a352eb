//! Histories for tests, told in short sentences.
//!
//! `;` separates sentences; several members may do the same thing: `a,b regular 1a ab`. A member is
//! a letter; `1a` is the configuration with counter 1 formed by a, `a3` is message 3 of a, `1a:7`
//! the place 7 in it and `-` no place.
//!
//! ```text
//! a start                      (implied by anything else that a does first, unless the story begins with "-")
//! a submit a1 safe digest=5    (service: agreed; digest: 0)
//! a deliver a1 1a:7            (service and digest: as submitted before in the story)
//! a regular 1a abc             a transitional 1a ab
//! a view GROUP VIEW x,y        a gap b 3 5        a leave        a crash
//! b enrolled a1                (a will account for b)
//! b held a1                    (b has it, and waits for the others)
//! a all_hold a1 bc             (a tells b and c that they may deliver it)
//! a account a1 bc d            (complete at b and c, failed at d; - for nobody)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::trace::Observation;
use groupcast_core::{
    ConfigId, ConfigurationKind, Gap, Incarnation, MemberId, MessageId, NodeId, OrderPlace, Service,
};

use crate::{Checker, Contract, Ending, HeardBefore, Outcome, Together, Violation};

/// A story and how it ends.
pub(crate) struct Story {
    observations: Vec<(MemberId, Observation)>,
    outcome: Outcome,
    contract: Contract,
}

/// Asserts that nothing is wrong with the histories.
#[track_caller]
pub(crate) fn accept(text: &str) {
    Story::of(text).accept();
}

/// The same, with everybody alive that did not leave or crash, at the end of a quiet run.
#[track_caller]
pub(crate) fn accept_complete(text: &str) {
    Story::of(text).complete().accept();
}

/// Asserts that `rule` is violated.
#[track_caller]
pub(crate) fn reject(rule: &str, text: &str) {
    Story::of(text).reject(rule);
}

/// The same, with everybody alive that did not leave or crash, at the end of a quiet run.
#[track_caller]
pub(crate) fn reject_complete(rule: &str, text: &str) {
    Story::of(text).complete().reject(rule);
}

impl Story {
    pub(crate) fn of(text: &str) -> Self {
        let (text, implied_start) = match text.strip_prefix("- ") {
            Some(text) => (text, false),
            None => (text, true),
        };
        let mut observations = Vec::new();
        let mut submitted = BTreeMap::new();
        let mut started = BTreeSet::new();
        for sentence in text.split(';') {
            let words: Vec<&str> = sentence.split_whitespace().collect();
            let [who, verb, rest @ ..] = words.as_slice() else {
                panic!("not a sentence: {sentence}");
            };
            for who in who.split(',').map(member) {
                if implied_start && started.insert(who) && *verb != "start" {
                    observations.push((who, Observation::Start));
                }
                observations.push((who, observation(verb, rest, &mut submitted)));
            }
        }
        let outcome = Outcome::default();
        Self {
            observations,
            outcome,
            contract: Contract::Ordered,
        }
    }

    /// Held against the contract with gaps.
    pub(crate) fn gapped(self) -> Self {
        self.under(Contract::Gapped)
    }

    pub(crate) fn under(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    pub(crate) fn complete(mut self) -> Self {
        let alive = self
            .observations
            .iter()
            .map(|(who, _)| (*who, Ending::Alive));
        self.outcome.endings = alive.collect();
        self.outcome.complete = true;
        self
    }

    pub(crate) fn without_configurations(mut self) -> Self {
        self.outcome.without_configurations = true;
        self
    }

    pub(crate) fn together(mut self, members: &str, messages: &[&str]) -> Self {
        self.outcome.together.push(Together {
            members: letters(members).into_iter().collect(),
            messages: messages.iter().copied().map(message).collect(),
        });
        self
    }

    /// `observer` had heard of the sender of `since` before that was sent.
    pub(crate) fn heard_before(mut self, observer: &str, since: &str) -> Self {
        let since = message(since);
        self.outcome
            .heard_before
            .extend(letters(observer).into_iter().map(|observer| HeardBefore {
                observer,
                sender: since.sender,
                since: since.number,
            }));
        self
    }

    pub(crate) fn observations(&self) -> &[(MemberId, Observation)] {
        &self.observations
    }

    #[track_caller]
    pub(crate) fn accept(&self) {
        let violations = self.judge();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    #[track_caller]
    pub(crate) fn reject(&self, rule: &str) {
        let violations = self.judge();
        let is_found = violations.iter().any(|violation| violation.rule == rule);
        assert!(is_found, "no violation of {rule}: {violations:#?}");
    }

    fn judge(&self) -> Vec<Violation> {
        let mut checker = Checker::new().under(self.contract);
        for (who, observation) in &self.observations {
            checker.observe(*who, observation);
        }
        checker.finish(&self.outcome)
    }
}

fn observation(
    verb: &str,
    words: &[&str],
    submitted: &mut BTreeMap<MessageId, (Service, u64)>,
) -> Observation {
    match (verb, words) {
        ("start", []) => Observation::Start,
        ("leave", []) => Observation::Leave,
        ("gap", [sender, first, last]) => Observation::Gap(Gap {
            sender: member(sender),
            first: first.parse().unwrap(),
            last: last.parse().unwrap(),
        }),
        ("crash", []) => Observation::Crash,
        ("submit", [id, rest @ ..]) => {
            let id = message(id);
            let (service, digest) = promise(rest, (Service::Agreed, 0));
            submitted.insert(id, (service, digest));
            Observation::Submit {
                id,
                service,
                digest,
            }
        }
        ("deliver", [id, place, rest @ ..]) => {
            let id = message(id);
            let unreliable = (Service::Unreliable, 0);
            let ordered = (Service::Agreed, 0);
            let default = if *place == "-" { unreliable } else { ordered };
            let known = submitted.get(&id).copied().unwrap_or(default);
            let (service, digest) = promise(rest, known);
            let place = self::place(place);
            Observation::Deliver {
                id,
                service,
                place,
                digest,
            }
        }
        ("regular" | "transitional", [id, members]) => Observation::Configuration {
            kind: match verb {
                "regular" => ConfigurationKind::Regular,
                _ => ConfigurationKind::Transitional,
            },
            id: config(id),
            members: letters(members),
        },
        ("view", [group, view, members]) => Observation::GroupView {
            group: (*group).to_owned(),
            view: (*view).to_owned(),
            members: members.split(',').map(str::to_owned).collect(),
        },
        ("asked", [request, group, client]) => Observation::Asked {
            request: (*request).to_owned(),
            group: (*group).to_owned(),
            client: (*client).to_owned(),
        },
        ("replied", [request, client, handler]) => Observation::Replied {
            request: (*request).to_owned(),
            client: (*client).to_owned(),
            handler: handler.parse().ok(),
        },
        ("granted", [group, role, client, at]) => Observation::Granted {
            group: (*group).to_owned(),
            role: (*role).to_owned(),
            client: (*client).to_owned(),
            place: place(at).unwrap(),
        },
        ("freed", [group, role, client, at]) => Observation::Freed {
            group: (*group).to_owned(),
            role: (*role).to_owned(),
            client: (*client).to_owned(),
            place: place(at).unwrap(),
        },
        ("enrolled", [id]) => Observation::Enrolled { id: message(id) },
        ("held", [id]) => Observation::Held { id: message(id) },
        ("all_hold", [id, holders]) => Observation::AllHold {
            id: message(id),
            holders: letters(holders.trim_start_matches('-')),
        },
        ("account", [id, complete, failed]) => {
            let list = |members: &&str| letters(members.trim_start_matches('-'));
            Observation::Account {
                id: message(id),
                complete: list(complete),
                failed: list(failed),
            }
        }
        _ => panic!("not a sentence: {verb} {words:?}"),
    }
}

fn promise(words: &[&str], (mut service, mut digest): (Service, u64)) -> (Service, u64) {
    for word in words {
        match word.strip_prefix("digest=") {
            Some(number) => digest = number.parse().unwrap(),
            None => service = word.parse().unwrap(),
        }
    }
    (service, digest)
}

fn member(letter: &str) -> MemberId {
    let [code] = letter.as_bytes() else {
        panic!("not a member: {letter}");
    };
    MemberId {
        node: NodeId(u64::from(*code)),
        incarnation: Incarnation(u64::from(*code) << 8),
    }
}

fn place(text: &str) -> Option<OrderPlace> {
    text.split_once(':').map(|(id, seq)| OrderPlace {
        config: config(id),
        seq: seq.parse().unwrap(),
    })
}

fn letters(members: &str) -> Vec<MemberId> {
    let ends = (1..=members.len()).map(|end| &members[end - 1..end]);
    ends.map(member).collect()
}

fn message(text: &str) -> MessageId {
    let (sender, number) = text.split_at(1);
    MessageId {
        sender: member(sender),
        number: number.parse().unwrap(),
    }
}

fn config(text: &str) -> ConfigId {
    let (counter, representative) = text.split_at(text.len() - 1);
    ConfigId {
        counter: counter.parse().unwrap(),
        representative: member(representative),
    }
}
