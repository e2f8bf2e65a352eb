//! Goal: a strict transfer ends for all when a receiver goes that it waits for, under every policy,
//! and all are told who it was; without, the others go on. Method: a small network of endpoints,
//! with receivers that are cut off, that refuse, and that are started again.

use std::collections::BTreeSet;
use std::format;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{NodeId, Rng};

use super::endpoints::{knowing, under};
use super::net::{Net, accepting, file, member};
use crate::bulk::{
    BulkConfig, DeliverTo, Failure, Listed, Multidriver, Notice, Order, Outcome, Policy,
    RateControl, Transfer, Wanted, Xtp,
};
use crate::xgm::Subgroups;

const LENGTH: usize = 60_000;

/// A megabyte a second.
fn settings(policy: Policy) -> BulkConfig {
    BulkConfig {
        rate: RateControl::Fixed {
            bytes_per_second: 1_000_000,
        },
        ..under(policy)
    }
}

fn node(index: usize) -> NodeId {
    member(index).node
}

fn nodes(indices: &[usize]) -> Wanted {
    Wanted::Members(indices.iter().map(|index| node(*index)).collect())
}

fn listed(indices: &[usize]) -> Wanted {
    let listed = indices.iter().map(|index| Listed {
        node: node(*index),
        subgroups: Subgroups::ALL,
    });
    Wanted::Listed(listed.collect())
}

/// A sender and this many receivers, called `host-1` and so on, to whom it sends.
fn sending(receivers: usize, policy: Policy, wanted: Wanted) -> Net {
    let mut net = Net::new(receivers + 1, &settings(policy), LENGTH);
    for (index, acceptance) in net.acceptance.iter_mut().enumerate() {
        let mut named = accepting(Order::AsTheyCome);
        named.name = format!("host-{index}").into();
        *acceptance = Some(named);
    }
    net.send(Transfer {
        strict: true,
        ..file(LENGTH, wanted)
    });
    net
}

/// Cuts off `who` when each has ten packets.
fn cut(net: &mut Net, who: &[usize]) {
    let receivers = 1..net.endpoints.len();
    net.must(Duration::from_secs(5), |net| {
        receivers.clone().all(|index| net.data[index].len() >= 10)
    });
    who.iter().for_each(|index| net.cut[*index] = true);
}

/// Runs until all are settled and told; what became of receiver 1, and so on.
fn ended(net: &mut Net) -> Vec<Outcome> {
    net.must(Duration::from_secs(20), Net::is_sent);
    net.run(Duration::from_millis(10));
    let outcomes = net.outcomes();
    let receivers = 1..net.endpoints.len();
    let of = |index| outcomes.get(&member(index)).cloned();
    receivers.map(|index| of(index).expect("settled")).collect()
}

/// Why the transfer failed at a receiver, as it was told.
fn told(net: &Net, index: usize) -> Option<&str> {
    net.notices[index].iter().find_map(|notice| match notice {
        Notice::Failed {
            failure: Failure::Cancelled(reason),
            ..
        } => Some(reason.as_str()),
        _ => None,
    })
}

#[test]
fn whoever_is_waited_for_and_goes_ends_it_for_all() {
    let all = [1, 2, 3];
    let between = Wanted::Between { min: 3, max: 3 };
    let audiences = [
        (nodes(&all), "has gone: host-2"),
        (listed(&all), "has gone: host-2"),
        (Wanted::Count(3), "3 receivers, and only 2 are left"),
        (between, "3 receivers, and only 2 are left"),
        (Wanted::Open, "has gone: host-2"),
    ];
    for policy in knowing() {
        for (wanted, why) in &audiences {
            let mut net = sending(3, policy, wanted.clone());
            cut(&mut net, &[2]);
            let outcomes = ended(&mut net);
            let (gone, others) = (Outcome::Vanished, Outcome::Cancelled);
            let expected = [others.clone(), gone, others];
            assert_eq!(outcomes, expected, "{policy:?} {wanted:?}");
            for index in [1, 3] {
                let reason = told(&net, index).expect("it is told");
                assert!(reason.contains(why), "{policy:?} {wanted:?}: {reason}");
            }
        }
    }
}

/// Under XTP the sender hears of single receivers at the end only: who is complete by then stays
/// so.
#[test]
fn under_xtp_who_has_gone_is_found_at_the_end() {
    let mut net = sending(3, Policy::Xtp(Xtp::for_window(32)), nodes(&[1, 2, 3]));
    cut(&mut net, &[2]);
    let outcomes = ended(&mut net);
    assert_eq!(outcomes[1], Outcome::Vanished);
    for outcome in [&outcomes[0], &outcomes[2]] {
        assert!(matches!(outcome, Outcome::Complete | Outcome::Cancelled));
    }
}

#[test]
fn who_is_not_required_may_go() {
    for policy in knowing() {
        for (wanted, gone) in [(nodes(&[1, 3]), 2), (Wanted::Between { min: 2, max: 3 }, 3)] {
            let mut net = sending(3, policy, wanted);
            cut(&mut net, &[gone]);
            let mut outcomes = ended(&mut net);
            assert_eq!(outcomes.remove(gone - 1), Outcome::Vanished);
            assert_eq!(outcomes, [Outcome::Complete, Outcome::Complete]);
        }
    }
    let mut net = sending(3, Policy::Ack, Wanted::Between { min: 2, max: 3 });
    cut(&mut net, &[2, 3]);
    assert_eq!(ended(&mut net)[0], Outcome::Cancelled, "two are needed");
}

#[test]
fn one_that_does_not_come_or_refuses_ends_it_before_the_first_byte_and_all_hear_it() {
    let mut net = sending(3, Policy::Nak { poll: 8 }, nodes(&[1, 2, 8]));
    net.must(Duration::from_secs(60), Net::is_sent);
    net.run(Duration::from_millis(10));
    let absent = net.notices[0].iter().any(|notice| {
        matches!(notice, Notice::Settled { receiver, outcome: Outcome::Absent, .. }
            if receiver.node == node(8))
    });
    assert!(absent && net.offered == 0);
    let reason = told(&net, 1).expect("it is told");
    assert_eq!(
        reason,
        "it was stopped: a receiver that is required did not come"
    );

    for wanted in [nodes(&[1, 2, 3]), Wanted::Count(3)] {
        let mut net = sending(3, Policy::Ack, wanted);
        net.acceptance[2] = None;
        let announced = |net: &Net| !net.notices[2].is_empty();
        net.must(Duration::from_secs(5), announced);
        let (now, id) = (net.now, net.id.expect("it is sent"));
        net.endpoints[2].refuse(now, id, "no room", b"host-2");
        let outcomes = ended(&mut net);
        let refused = Outcome::Refused("no room".into());
        assert_eq!(outcomes, [Outcome::Cancelled, refused, Outcome::Cancelled]);
        assert!(net.offered == 0 && told(&net, 1).is_some() && told(&net, 3).is_some());
    }
    // Fewer than are counted: as with the least of `Between`.
    let mut net = sending(2, Policy::Ack, Wanted::Count(3));
    net.must(Duration::from_secs(60), Net::is_sent);
    let few = [Outcome::TooFew, Outcome::TooFew];
    assert!(net.outcomes().into_values().eq(few) && net.offered == 0);
}

#[test]
fn who_is_started_again_before_it_is_given_up_has_stayed() {
    let settings = settings(Policy::Nak { poll: 8 });
    let mut net = sending(3, settings.policy, nodes(&[1, 2, 3]));
    net.chunk = Some(5_000);
    cut(&mut net, &[]);
    net.restart(2, &settings);
    net.must(Duration::from_secs(20), Net::is_sent);
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&member(2)], Outcome::Vanished, "its former life");
    let complete = |(_, outcome): &(_, Outcome)| *outcome == Outcome::Complete;
    let complete: BTreeSet<NodeId> = outcomes
        .into_iter()
        .filter(complete)
        .map(|it| it.0.node)
        .collect();
    assert_eq!(complete.len(), 3);
}

#[test]
fn whom_the_sender_excludes_is_not_waited_for() {
    let list = Policy::List(Multidriver::for_window(32));
    let mut net = sending(3, list, listed(&[1, 2, 3]));
    cut(&mut net, &[]);
    let (now, id) = (net.now, net.id.expect("it is sent"));
    let others = [1, 3].map(|index| Listed {
        node: node(index),
        subgroups: Subgroups::ALL,
    });
    let written = net.endpoints[0].write_list(now, id, Some(&others));
    assert_eq!(written, Ok(()));
    let outcomes = ended(&mut net);
    let complete = Outcome::Complete;
    assert_eq!(outcomes, [complete.clone(), Outcome::Excluded, complete]);
}

/// With marks all have to stay until the last one is told, and nobody any more afterwards.
#[test]
fn together_with_marks_it_says_nothing_more() {
    for strict in [false, true] {
        let mut net = Net::new(3, &settings(Policy::Ack), LENGTH);
        net.chunk = Some(1_000);
        net.send(Transfer {
            strict,
            confirm: true,
            deliver_to: DeliverTo::Aside,
            ..file(LENGTH, Wanted::Count(2))
        });
        let is_released = |net: &Net| {
            let tells = |notice: &Notice| matches!(notice, Notice::AllHold { .. });
            net.notices[1].iter().any(tells)
        };
        // The second never hears that all hold it.
        net.loses = Some(std::boxed::Box::new(|_, to, body: &Bytes| {
            to == 2 && body.first() == Some(&MARK)
        }));
        net.must(Duration::from_secs(5), is_released);
        net.cut[2] = true;
        let outcomes = ended(&mut net);
        assert_eq!(outcomes, [Outcome::Complete, Outcome::Vanished]);
    }
}

/// The kind of a datagram that tells a mark.
const MARK: u8 = 12;

/// A transfer to receivers that are cut off at random; whether none was complete after one that is
/// required was gone.
fn keeps_the_rule(seed: u64, strict: bool) -> bool {
    let mut rng = Rng::new(seed).fork("strict");
    let receivers = rng.range(2..6) as usize;
    let policy = knowing()[rng.below(6) as usize];
    let required: Vec<usize> = (1..=receivers).filter(|_| rng.chance(0.6)).collect();
    let wanted = match required.is_empty() {
        true => Wanted::Count(receivers),
        false => nodes(&required),
    };
    let mut net = Net::new(receivers + 1, &settings(policy), LENGTH);
    for loss in &mut net.loss {
        *loss = rng.below(10) as f64 / 100.0;
    }
    net.send(Transfer {
        strict,
        ..file(LENGTH, wanted)
    });
    for _ in 0..2 {
        let until = Duration::from_millis(rng.range(1..100));
        net.run(until);
        let index = rng.range(1..receivers as u64 + 1) as usize;
        net.cut[index] |= rng.chance(0.5);
    }
    net.must(Duration::from_secs(60), Net::is_sent);
    let mut is_broken = false;
    for notice in &net.notices[0] {
        let Notice::Settled {
            receiver, outcome, ..
        } = notice
        else {
            continue;
        };
        if is_broken && *outcome == Outcome::Complete {
            return false;
        }
        let names = required.iter().any(|index| node(*index) == receiver.node);
        let is_required = names || required.is_empty();
        is_broken |= is_required && *outcome != Outcome::Complete;
    }
    true
}

#[test]
fn nobody_completes_after_one_that_is_required_has_gone() {
    for seed in 0..500 {
        assert!(keeps_the_rule(seed, true), "seed {seed}");
    }
    assert!((0..50).any(|seed| !keeps_the_rule(seed, false)));
}
