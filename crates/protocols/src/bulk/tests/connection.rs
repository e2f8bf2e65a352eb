//! Goal: messages on a connection that stays reach all of its receivers whole and in order, under
//! every policy, and the sender learns when all have each of them, as soon as the network allows.
//! Method: a small network with and without loss, cuts and crashes; endpoints of every policy.

use std::collections::VecDeque;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::Rng;

use super::net::{Net, file, member};
use super::talk::{PACKET, WINDOW, messages, talking};
use crate::bulk::{
    Bulk, BulkConfig, Collectors, Cp, DeliverTo, Failure, Multidriver, Notice, OfferError, Opening,
    Outcome, Policy, Repair, SendError, Transfer, Wanted, Xtp,
};

fn policies() -> [Policy; 10] {
    let once = Xtp {
        agree: 1,
        ..Xtp::for_window(WINDOW)
    };
    [
        Policy::Ack,
        Policy::Nak { poll: 8 },
        Policy::Ring,
        Policy::Tree { height: 2 },
        Policy::Xtp(Xtp::for_window(WINDOW)),
        Policy::Xtp(once),
        Policy::Multidriver(Multidriver::for_window(WINDOW)),
        Policy::List(Multidriver::for_window(WINDOW)),
        Policy::Collectors(Collectors::for_window(WINDOW)),
        Policy::Cp(Cp::default()),
    ]
}

fn is_xtp(policy: Policy) -> bool {
    matches!(policy, Policy::Xtp(_))
}

/// Whether a user has been given exactly these, or the first of them.
fn has_first_of(given: &[Vec<u8>], all: &[Bytes]) -> bool {
    let same = given.iter().zip(all).all(|(given, sent)| given == sent);
    same && given.len() <= all.len()
}

#[test]
fn messages_of_any_length_reach_all_and_the_sender_learns_when() {
    let packet = PACKET;
    let lengths = [
        0,
        1,
        packet - 1,
        packet,
        packet + 1,
        3 * packet + 7,
        0,
        0,
        2 * WINDOW as usize * packet,
        5,
    ];
    for policy in policies() {
        for (loss, repair) in [
            (0.0, Repair::Selective),
            (0.0, Repair::GoBackN),
            (0.1, Repair::Selective),
            (0.1, Repair::GoBackN),
        ] {
            if matches!(policy, Policy::Cp(_)) && repair == Repair::GoBackN {
                continue;
            }
            let config = BulkConfig {
                repair,
                ..talking(policy)
            };
            let mut net = Net::new(6, &config, 0);
            let all = messages(lengths);
            net.to_send = all.clone().into();
            let id = net.open(5);
            net.loss.fill(loss);
            net.must(Duration::from_secs(60), |net| {
                net.all_had.len() == lengths.len()
            });
            for (index, (_, number, had)) in net.all_had.iter().enumerate() {
                assert_eq!(*number, index as u64 + 1, "{policy:?}");
                let least = had[1..].iter().min().copied().unwrap_or_default();
                // With loss, who has not answered XTP's requests may have less.
                let told = is_xtp(policy) && loss > 0.0 || least as u64 >= *number;
                assert!(told, "{policy:?}: {number} of {had:?}");
            }
            net.endpoints[0].finish(net.now, id);
            net.must(Duration::from_secs(60), Net::is_sent);
            net.run(Duration::from_secs(3));
            for index in 1..6 {
                let outcome = net.outcomes().remove(&member(index));
                let is_whole = net.messages[index].len() == all.len();
                assert!(has_first_of(&net.messages[index], &all), "{policy:?}");
                match outcome {
                    Some(Outcome::Complete) => assert!(is_whole, "{policy:?}"),
                    // What it missed was released, and cannot be offered again.
                    Some(Outcome::Outrun) if is_xtp(policy) && loss > 0.0 => {}
                    other => panic!("{policy:?} {repair:?} {loss}: {other:?}"),
                }
                let over = [
                    Notice::Ended { id },
                    Notice::Failed {
                        id,
                        failure: Failure::Outrun,
                    },
                ];
                let last = net.notices[index].last();
                assert!(last.is_some_and(|last| over.contains(last)), "{last:?}");
            }
        }
    }
}

#[test]
fn all_messages_are_told_of_when_the_connection_is_closed_at_once() {
    for policy in policies() {
        let mut net = Net::new(4, &talking(policy), 0);
        let id = net.open(3);
        net.to_send = messages([1, 0, 300, 20, 1_000]).into();
        net.must(Duration::from_secs(5), |net| net.to_send.is_empty());
        net.endpoints[0].finish(net.now, id);
        net.must(Duration::from_secs(5), Net::is_sent);
        let told: Vec<u64> = net.all_had.iter().map(|(_, number, _)| *number).collect();
        assert_eq!(told, [1, 2, 3, 4, 5], "{policy:?}");
    }
}

#[test]
fn a_pause_loses_no_receiver_that_has_less_patience_than_the_sender() {
    for policy in policies() {
        let config = talking(policy);
        let mut net = Net::new(3, &config, 0);
        let patient = BulkConfig {
            vanish_after: 15 * config.vanish_after,
            ..config
        };
        net.endpoints[0] = Bulk::new(member(0), patient, Rng::new(0)).expect("they fit");
        let id = net.open(2);
        let all = messages([10, 20]);
        for message in &all {
            net.to_send.push_back(message.clone());
            net.must(Duration::from_secs(1), |net| net.to_send.is_empty());
            net.run(Duration::from_secs(20));
        }
        net.endpoints[0].finish(net.now, id);
        net.must(Duration::from_secs(5), Net::is_sent);
        net.run(Duration::from_secs(1));
        for index in 1..3 {
            assert!(
                net.notices[index].contains(&Notice::Ended { id }),
                "{policy:?}"
            );
            assert_eq!(net.messages[index], all, "{policy:?}");
            assert_eq!(
                net.outcomes()[&member(index)],
                Outcome::Complete,
                "{policy:?}"
            );
        }
    }
}

#[test]
fn a_lone_message_takes_one_round_trip() {
    for policy in policies().into_iter().filter(|policy| !is_xtp(*policy)) {
        let mut net = Net::new(4, &talking(policy), 0);
        net.open(3);
        net.run(Duration::from_secs(1));
        for number in 1..=20 {
            let begun = net.now;
            net.to_send.push_back(Bytes::from_static(b"x"));
            net.must(Duration::from_secs(1), |net| net.all_had.len() == number);
            let took = net.all_had[number - 1].0 - begun;
            assert_eq!(took, Duration::from_millis(2), "{policy:?}, {number}");
            net.run(Duration::from_millis(number as u64));
        }
        let counters = net.endpoints[0].counters();
        assert_eq!(counters.packets_sent, 20, "{policy:?}");
        assert_eq!(counters.packets_repeated, 0, "{policy:?}");
    }
}

#[test]
fn a_lone_message_takes_a_bucket_for_each_that_has_to_agree() {
    for agree in [1, 4] {
        let xtp = Xtp {
            agree,
            ..Xtp::for_window(WINDOW)
        };
        let mut net = Net::new(4, &talking(Policy::Xtp(xtp)), 0);
        net.open(3);
        net.to_send = messages([1; 30]).into();
        net.run(Duration::from_secs(1));
        assert_eq!(net.all_had.len(), 30);
        // Until the round trip is known well.
        for number in 31..=50 {
            let begun = net.now;
            net.to_send.push_back(Bytes::from_static(b"x"));
            net.must(Duration::from_secs(1), |net| net.all_had.len() == number);
            let took = net.all_had[number - 1].0 - begun;
            let config = net.endpoints[0].config();
            let time_out = config.nak_interval + Duration::from_millis(5);
            // It lives for as long as the slot besides, which is 2 ms.
            let bucket = config.rto_min.max(time_out) + Duration::from_millis(2);
            assert!(took <= bucket * agree, "{took:?} with {agree}");
            net.run(Duration::from_secs(number as u64));
        }
    }
}

#[test]
fn who_dies_keeps_no_message_from_being_told_for_long() {
    for policy in policies() {
        let mut net = Net::new(4, &talking(policy), 0);
        let id = net.open(3);
        net.to_send = messages([1, 2]).into();
        net.must(Duration::from_secs(5), |net| net.all_had.len() == 2);
        net.cut[3] = true;
        net.to_send = messages([3]).into();
        net.must(Duration::from_secs(20), |net| net.all_had.len() == 3);
        net.endpoints[0].finish(net.now, id);
        net.must(Duration::from_secs(20), Net::is_sent);
        let outcomes = net.outcomes();
        assert_eq!(outcomes[&member(1)], Outcome::Complete, "{policy:?}");
        assert_eq!(outcomes[&member(2)], Outcome::Complete, "{policy:?}");
        assert_eq!(outcomes[&member(3)], Outcome::Vanished, "{policy:?}");
    }
}

#[test]
fn a_connection_stays_while_nothing_is_said() {
    for policy in policies() {
        let mut net = Net::new(4, &talking(policy), 0);
        let id = net.open(3);
        net.run(Duration::from_secs(120));
        net.to_send = messages([1, 1_000]).into();
        net.must(Duration::from_secs(5), |net| net.all_had.len() == 2);
        net.run(Duration::from_secs(120));
        net.endpoints[0].finish(net.now, id);
        net.must(Duration::from_secs(5), Net::is_sent);
        let outcomes = net.outcomes();
        let all = (1..4).all(|index| outcomes[&member(index)] == Outcome::Complete);
        assert!(all, "{policy:?}: {outcomes:?}");
    }
}

#[test]
fn a_receiver_that_takes_nothing_stops_its_sender_and_keeps_a_bounded_number() {
    for policy in policies() {
        let config = BulkConfig {
            buffer_max: 8_192,
            ..talking(policy)
        };
        let mut net = Net::new(3, &config, 0);
        net.consumes[2] = false;
        net.open(2);
        net.to_send = messages([0; 1_000]).into();
        net.run(Duration::from_secs(5));
        let given = net.messages[2].len();
        assert!((32..=64).contains(&given), "{policy:?}: {given}");
        assert!(net.to_send.len() > 900, "{policy:?}");
    }
}

#[test]
fn what_is_no_message_is_refused_and_a_message_where_there_are_none() {
    let mut net = Net::new(2, &talking(Policy::Ack), 300);
    let now = net.now;
    let sender = &mut net.endpoints[0];
    let plain = Transfer {
        length: None,
        rewindable: false,
        ..file(0, Wanted::Count(1))
    };
    for wrong in [
        file(10, Wanted::Count(1)),
        Transfer {
            rewindable: true,
            ..plain.clone()
        },
        Transfer {
            deliver_to: DeliverTo::UpTo {
                first: 0,
                step: Some(10),
            },
            ..plain.clone()
        },
    ] {
        assert_eq!(
            sender.open(now, wrong, Opening::AtStart),
            Err(SendError::Messages)
        );
    }
    let stream = sender.send(now, plain).expect("it can be sent");
    let message = Bytes::from_static(b"message");
    let refused = sender.offer_message(now, stream, message.clone());
    assert_eq!(refused, Err(OfferError::NoMessages));
    let id = net.open(1);
    let sender = &mut net.endpoints[0];
    // Nobody has come yet.
    let (len, wanted) = (message.len(), 0);
    let early = sender.offer_message(now, id, message.clone());
    assert_eq!(early, Err(OfferError::Unwanted { len, wanted }));
    net.id = None;
    net.run(Duration::from_secs(1));
    let (now, sender) = (net.now, &mut net.endpoints[0]);
    let bytes = sender.offer(now, id, message.clone());
    assert_eq!(bytes, Err(OfferError::Messages));
    let max = 2 * WINDOW as usize * PACKET;
    let (len, long) = (max + 1, Bytes::from(std::vec![0; max + 1]));
    let too_long = OfferError::TooLong {
        len,
        max: max as u64,
    };
    assert_eq!(sender.offer_message(now, id, long), Err(too_long));
    assert_eq!(sender.offer_message(now, id, message), Ok(1));
}

/// A connection over a network that loses, with receivers that are cut off, die and come back: what
/// must hold of it.
fn survives(seed: u64) {
    let mut rng = Rng::new(seed);
    let policies = policies();
    let policy = policies[rng.below(policies.len() as u64) as usize];
    let repair = match rng.chance(0.3) && !matches!(policy, Policy::Cp(_)) {
        true => Repair::GoBackN,
        false => Repair::Selective,
    };
    let config = BulkConfig {
        repair,
        reserve: rng.chance(0.3),
        ..talking(policy)
    };
    let receivers = rng.range(1..6) as usize;
    let mut net = Net::new(receivers + 1, &config, 0);
    let lengths: Vec<usize> = (0..rng.range(1..60))
        .map(|_| match rng.below(3) {
            0 => rng.below(3) as usize,
            1 => rng.below(PACKET as u64 * 2) as usize,
            _ => rng.below(1_500) as usize,
        })
        .collect();
    let all = messages(lengths);
    let mut left: VecDeque<Bytes> = all.clone().into();
    let id = net.open(receivers);
    net.run(Duration::from_millis(rng.below(200)));
    net.loss.fill(rng.below(15) as f64 / 100.0);
    let mut restarted = std::vec![false; receivers + 1];
    while !left.is_empty() && !net.is_sent() {
        net.to_send.extend(left.drain(..1));
        net.run(Duration::from_millis(rng.below(60)));
        let one = rng.range(1..receivers as u64 + 1) as usize;
        match rng.below(20) {
            0 => net.cut[one] = true,
            1 => net.cut.fill(false),
            2 if !restarted[one] => {
                restarted[one] = true;
                net.restart(one, &config);
            }
            _ => {}
        }
    }
    let taken = |net: &Net| net.to_send.is_empty() || net.is_sent();
    net.must(Duration::from_secs(120), taken);
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(120), Net::is_sent);
    let outcomes = net.outcomes();
    let came = net.messages.iter().enumerate();
    for (index, messages) in came.skip(1).take(receivers) {
        assert!(has_first_of(messages, &all), "seed {seed}, {policy:?}");
        let first = outcomes.get(&member(index));
        let is_complete = first == Some(&Outcome::Complete);
        let is_whole = messages.len() == all.len();
        assert!(
            !is_complete || is_whole || restarted[index],
            "seed {seed}, {policy:?}: {outcomes:?}"
        );
    }
    for (_, number, had) in &net.all_had {
        // Those that are complete in the end were waited for all along.
        let stayed = (1..=receivers).filter(|index| {
            !restarted[*index] && outcomes.get(&member(*index)) == Some(&Outcome::Complete)
        });
        let least = stayed.map(|index| had[index]).min();
        let told = is_xtp(policy) || least.is_none_or(|least| least as u64 >= *number);
        assert!(told, "seed {seed}, {policy:?}: {number} of {had:?}");
    }
}

#[test]
fn messages_survive_loss_cuts_and_crashes() {
    (0..400).for_each(survives);
}

#[test]
#[ignore = "takes a minute: 20,000 other seeds"]
fn messages_survive_loss_cuts_and_crashes_for_long() {
    (1_000..21_000).for_each(survives);
}
