//! The outcomes of the receivers of a transfer and of its list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId};
use groupcast_protocols::bulk::{Outcome, Wanted};

use super::{Life, SendEvent, SendReport};
use crate::host::BulkHost;
use crate::list::Answer;

/// The outcome of a receiver: the member, its name, the outcome.
pub(super) type Settled = (MemberId, String, Outcome);

/// The receivers that answered a list, with the names by which they are required, or that they say.
pub(super) fn named(answers: Vec<Answer>, required: &BTreeMap<NodeId, String>) -> Vec<Settled> {
    let answers = answers.into_iter();
    answers
        .map(|(member, said, outcome)| (member, called(member, &said, required), outcome))
        .collect()
}

/// The name by which a receiver is required, or that it says.
pub(crate) fn called(member: MemberId, said: &[u8], required: &BTreeMap<NodeId, String>) -> String {
    match required.get(&member.node) {
        Some(name) => name.clone(),
        None if said.is_empty() => member.to_string(),
        None => printable(said),
    }
}

/// What the answers to a list mean for the transfer of its files.
pub(super) struct AfterList {
    /// The receivers that the files wait for.
    pub(super) receivers: Wanted,
    /// The receivers that never came: they are not waited for again.
    pub(super) settled: Vec<Settled>,
    /// Whether a receiver is missing that the transfer is ended for.
    pub(super) is_short: bool,
    /// The receivers that have said what they have, if another one is missing.
    pub(super) has_answered: BTreeSet<NodeId>,
    /// The receivers that have refused the list, which the user was told when they did.
    pub(super) refused: Vec<Settled>,
}

impl AfterList {
    /// Without a list.
    pub(super) fn none(receivers: Wanted) -> Self {
        Self {
            receivers,
            settled: Vec::new(),
            is_short: false,
            has_answered: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    /// After a list for the `wanted` receivers, of which `came` were there when it began. If the
    /// transfer `ends_for_all` when one of them goes, all of them are told if one does not come,
    /// though that one has had its time.
    pub(super) fn of(wanted: Wanted, came: usize, named: &[Settled], ends_for_all: bool) -> Self {
        let refused = named.iter();
        let refused = refused.filter(|(.., it)| matches!(it, Outcome::Refused(_)));
        let refused = refused.cloned().collect();
        if !ends_for_all {
            return Self {
                settled: absent(named),
                refused,
                ..Self::none(those_present(wanted, named))
            };
        }
        let is_short = !absent(named).is_empty() || are_too_few(&wanted, came, named);
        let is_here = |outcome: &Outcome| !matches!(outcome, Outcome::Absent | Outcome::Vanished);
        // Unless one is missing, nobody is ended here for want of another.
        let here = named
            .iter()
            .filter(|(.., outcome)| is_short && is_here(outcome));
        Self {
            has_answered: here.map(|(member, ..)| member.node).collect(),
            is_short,
            refused,
            ..Self::none(wanted)
        }
    }
}

/// The receivers that were waited for and never came.
fn absent(named: &[Settled]) -> Vec<Settled> {
    let absent = named.iter().filter(|(.., it)| *it == Outcome::Absent);
    absent.cloned().collect()
}

/// Whether fewer receivers than `wanted` counts have come to a list: `came` when it began, or those
/// that have answered it, if it was refused by all.
fn are_too_few(wanted: &Wanted, came: usize, named: &[Settled]) -> bool {
    let answered: BTreeSet<NodeId> = named.iter().map(|(member, ..)| member.node).collect();
    matches!(wanted, Wanted::Count(count) if came.max(answered.len()) < *count)
}

/// The hosts without multicast that were named and have never answered: what they are called is
/// all that is known of them.
pub(super) fn unanswered(host: &BulkHost) -> Vec<Settled> {
    let absent = host.absent();
    absent
        .map(|(member, name)| (member, name, Outcome::Absent))
        .collect()
}

/// The receivers that the files are to wait for: those of `wanted` that have answered a list and
/// are there.
fn those_present(wanted: Wanted, named: &[Settled]) -> Wanted {
    let is_there = |outcome: &Outcome| !matches!(outcome, Outcome::Absent | Outcome::Vanished);
    let there = named.iter().filter(|(.., outcome)| is_there(outcome));
    if named.iter().any(|(.., it)| *it == Outcome::SameName) {
        // Two receivers have one name. Only a sender that waits for all of them notices that.
        return wanted;
    }
    let mut nodes: BTreeSet<NodeId> = there.map(|(member, ..)| member.node).collect();
    match wanted {
        Wanted::Count(count) if nodes.len() >= count => return Wanted::Count(count),
        Wanted::Listed(mut listed) => {
            let absent = |node| {
                named
                    .iter()
                    .any(|(it, _, became)| it.node == node && *became == Outcome::Absent)
            };
            listed.retain(|it| !absent(it.node));
            return Wanted::Listed(listed);
        }
        Wanted::Members(required) => {
            let absent = |node: &NodeId| {
                let mut gone = named.iter().filter(|(.., it)| *it == Outcome::Absent);
                gone.any(|(member, ..)| member.node == *node)
            };
            nodes.extend(required.into_iter().filter(|node| !absent(node)));
        }
        _ => {}
    }
    Wanted::Members(nodes.into_iter().collect())
}

/// The report of a transfer to which no receiver came.
pub(super) fn nobody(
    named: Vec<Settled>,
    bytes: u64,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(SendEvent<'_>),
) -> SendReport {
    named.iter().for_each(|one| tell_settled(one, tell));
    SendReport {
        receivers: by_name(named),
        bytes,
        sent: 0,
        packets: 0,
        repeated: 0,
        copies: 0,
        took: Duration::ZERO,
        stopped: stop.load(Ordering::Relaxed),
    }
}

pub(super) fn tell_settled((_, name, outcome): &Settled, tell: &mut dyn FnMut(SendEvent<'_>)) {
    tell(SendEvent::Settled {
        receiver: name,
        outcome,
        life: Life::Only,
    });
}

/// How many receivers failed for good. A receiver that has come back, and is among the
/// `registered`, has not.
pub(super) fn failures<'a>(
    settled: &[Settled],
    registered: impl Iterator<Item = &'a MemberId>,
) -> usize {
    let is_settled = |member: &MemberId| settled.iter().any(|(other, ..)| other == member);
    let mut good: BTreeSet<NodeId> = registered
        .filter(|member| !is_settled(member))
        .map(|member| member.node)
        .collect();
    let complete = settled.iter().filter(|it| it.2 == Outcome::Complete);
    good.extend(complete.map(|(member, ..)| member.node));
    let failed = settled.iter().map(|(member, ..)| member.node);
    let failed: BTreeSet<NodeId> = failed.filter(|node| !good.contains(node)).collect();
    failed.len()
}

/// The outcome of each receiver. One that was restarted counts once, with the best outcome of its
/// lives: complete, else one that says more than that it was not heard. Two receivers with the same
/// name are two.
pub(super) fn by_name(settled: Vec<Settled>) -> Vec<(String, Outcome)> {
    let says = |outcome: &Outcome| match outcome {
        Outcome::Complete => 2,
        Outcome::Vanished | Outcome::Absent => 0,
        _ => 1,
    };
    let mut kept: Vec<Settled> = Vec::new();
    let mut places: BTreeMap<NodeId, usize> = BTreeMap::new();
    for one in settled {
        if one.2 == Outcome::SameName {
            kept.push(one);
            continue;
        }
        let place = *places.entry(one.0.node).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(former) if says(&one.2) > says(&former.2) => *former = one,
            Some(_) => {}
            None => kept.push(one),
        }
    }
    kept.into_iter()
        .map(|(_, name, outcome)| (name, outcome))
        .collect()
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    #[test]
    fn a_former_life_of_a_complete_receiver_is_no_failure() {
        let member = |node, life| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(life),
        };
        let settled = vec![
            (member(1, 1), "a".to_owned(), Outcome::Vanished),
            (member(1, 2), "a@later".to_owned(), Outcome::Complete),
            (member(2, 3), "b".to_owned(), Outcome::Vanished),
            (member(1, 4), "a@other".to_owned(), Outcome::Slow),
        ];
        let registered = [member(2, 3), member(2, 9), member(3, 1)];
        assert_eq!(failures(&settled, registered.iter()), 0, "b has come back");
        assert_eq!(failures(&settled, registered[..1].iter()), 1, "b");
        let names: Vec<String> = by_name(settled).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a@later", "b"]);
    }

    #[test]
    fn a_receiver_that_did_not_answer_a_list_is_left_out_or_ends_the_transfer_for_all() {
        let member = |node| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        let named = [
            (member(1), "a".to_owned(), Outcome::Complete),
            (member(2), "b".to_owned(), Outcome::Absent),
        ];
        let wanted = || Wanted::Members(vec![NodeId(1), NodeId(2)]);
        let each = AfterList::of(wanted(), 1, &named, false);
        assert_eq!(each.receivers, Wanted::Members(vec![NodeId(1)]));
        assert_eq!(each.settled, named[1..]);
        assert!(!each.is_short && each.has_answered.is_empty());
        let all = AfterList::of(wanted(), 1, &named, true);
        assert_eq!(all.receivers, wanted());
        assert!(all.is_short && all.settled.is_empty());
        assert_eq!(all.has_answered, BTreeSet::from([NodeId(1)]));
        let none_is_missing = AfterList::of(wanted(), 1, &named[..1], true);
        assert!(!none_is_missing.is_short && none_is_missing.has_answered.is_empty());
    }

    #[test]
    fn a_receiver_that_was_restarted_counts_once() {
        let member = |node, life| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(life),
        };
        let named = |settled: &[(u64, u64, &str, Outcome)]| -> Vec<(String, Outcome)> {
            let settled = settled.iter().map(|(node, life, name, outcome)| {
                (member(*node, *life), (*name).to_owned(), outcome.clone())
            });
            by_name(settled.collect())
        };
        let is = |name: &str, outcome| (name.to_owned(), outcome);
        let complete = Outcome::Complete;
        let twice = named(&[
            (1, 1, "a", complete.clone()),
            (1, 2, "a@address", complete.clone()),
            (2, 3, "b", complete.clone()),
        ]);
        assert_eq!(twice, [is("a", complete.clone()), is("b", complete)]);
        let disk = Outcome::Failed("the disk is full".into());
        let failed = named(&[
            (1, 1, "a", Outcome::Vanished),
            (1, 2, "a@address", disk.clone()),
            (1, 3, "a@address", Outcome::Vanished),
            (2, 3, "b", Outcome::Absent),
        ]);
        assert_eq!(failed, [is("a@address", disk), is("b", Outcome::Absent)]);
        // These are two hosts.
        let same = named(&[
            (1, 1, "a", Outcome::SameName),
            (1, 2, "a@address", Outcome::SameName),
        ]);
        assert_eq!(same.len(), 2);
    }
}
