//! Goal: whatever receivers do (come late, hold parts, go away, fill up, give up), each is settled
//! once and rightly. Method: a small network of endpoints whose users keep what they are told.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Incarnation, MemberId, NodeId};

use super::net::{Link, Net, accepting, file, member};
use crate::bulk::wire::Message;
use crate::bulk::{
    Acceptance, Bulk, BulkConfig, Counters, Failure, Multidriver, Notice, Order, Outcome, Policy,
    RateControl, SendError, SlowPolicy, Transfer, Wanted,
};

/// Small packets and short time-outs, for transfers of a few packets.
pub(super) fn config() -> BulkConfig {
    BulkConfig {
        packet: 1000,
        window: 32,
        policy: Policy::Nak { poll: 8 },
        rate: RateControl::Window,
        rto_initial: Duration::from_millis(50),
        rto_max: Duration::from_millis(250),
        vanish_after: Duration::from_secs(1),
        slow_after: Duration::from_millis(200),
        ..BulkConfig::lan()
    }
}

/// The same under another policy, without parity.
pub(super) fn under(policy: Policy) -> BulkConfig {
    BulkConfig {
        policy,
        block: None,
        ..config()
    }
}

/// The policies that know their receivers while data goes out.
pub(super) fn knowing() -> [Policy; 6] {
    [
        Policy::Ack,
        Policy::Nak { poll: 8 },
        Policy::Ring,
        Policy::Tree { height: 2 },
        Policy::Multidriver(Multidriver::for_window(32)),
        Policy::List(Multidriver::for_window(32)),
    ]
}

#[test]
fn what_every_receiver_holds_is_not_sent() {
    let mut net = Net::new(3, &config(), 100_000);
    for (index, held) in [(1, 0..60_000), (2, 0..50_500)] {
        net.acceptance[index] = Some(Acceptance {
            held: core::iter::once(held).collect(),
            ..accepting(Order::AsTheyCome)
        });
    }
    net.send(file(100_000, Wanted::Count(2)));
    net.must(Duration::from_secs(2), Net::is_sent);
    assert!(net.has_stream(1, 60_000) && net.has_stream(2, 50_000));
    assert_eq!(net.offered, 50_000);
}

#[test]
fn a_receiver_is_told_once_that_it_is_counted_in_if_it_is() {
    let mut net = Net::new(3, &config(), 10_000);
    net.acceptance[2] = None;
    let id = net.send(file(10_000, Wanted::Count(1)));
    net.must(Duration::from_secs(2), Net::is_sent);
    let enrolled = |index: usize| {
        let notices = net.notices[index].iter();
        notices
            .filter(|notice| **notice == Notice::Enrolled { id })
            .count()
    };
    assert_eq!([enrolled(1), enrolled(2)], [1, 0]);
}

#[test]
fn who_holds_everything_is_complete_at_once() {
    let mut net = Net::new(2, &config(), 10_500);
    net.acceptance[1] = Some(Acceptance {
        held: vec![0..7_500, 7_500..10_500],
        ..accepting(Order::InOrder)
    });
    net.send(file(10_500, Wanted::Count(1)));
    net.must(Duration::from_secs(1), Net::is_sent);
    assert_eq!(
        (net.offered, net.outcomes()[&member(1)].clone()),
        (0, Outcome::Complete)
    );
}

#[test]
fn a_late_receiver_is_served_by_another_pass_of_what_it_missed() {
    let mut net = Net::new(3, &config(), 8_000_000);
    net.cut[2] = true;
    net.send(file(8_000_000, Wanted::Count(1)));
    net.run(Duration::from_millis(60));
    assert!(!net.data[1].is_empty() && !net.is_sent());
    net.cut[2] = false;
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
    assert!(
        net.outcomes()
            .values()
            .all(|outcome| *outcome == Outcome::Complete)
    );
    assert!(
        net.offered > 8_000_000 && net.offered < 16_000_000,
        "{}",
        net.offered
    );
}

#[test]
fn a_stream_that_cannot_be_repeated_has_no_late_receivers() {
    let mut net = Net::new(3, &config(), 2_000_000);
    net.acceptance[2] = None;
    let id = net.send(Transfer {
        rewindable: false,
        ..file(2_000_000, Wanted::Count(1))
    });
    net.run(Duration::from_millis(60));
    let now = net.now;
    net.endpoints[2]
        .accept(now, id, &accepting(Order::InOrder))
        .expect("it was announced");
    net.must(Duration::from_secs(5), Net::is_sent);
    let complete = BTreeMap::from([(member(1), Outcome::Complete)]);
    assert_eq!(net.outcomes(), complete);
    let came_late = Notice::CameLate {
        id,
        receiver: member(2),
        name: "host".into(),
    };
    let told = net.notices[0].iter().filter(|it| **it == came_late);
    assert_eq!(told.count(), 1);
    assert_eq!(
        net.notices[2].last(),
        Some(&Notice::Failed {
            id,
            failure: Failure::Dropped
        })
    );
}

/// Of what can be repeated it gets all, and misses nothing.
#[test]
fn who_comes_after_the_beginning_of_a_stream_is_told_once() {
    for rewindable in [false, true] {
        let mut net = Net::new(3, &config(), 2_000_000);
        net.links[1] = Some(Link::new(600_000, Duration::from_millis(1)));
        net.cut[2] = true;
        net.send(Transfer {
            rewindable,
            ..file(2_000_000, Wanted::Count(1))
        });
        net.run(Duration::from_millis(100));
        net.cut[2] = false;
        net.must(Duration::from_secs(20), Net::is_sent);
        let missed = |index: usize| {
            let notices = net.notices[index].iter();
            let missed = notices.filter(|it| matches!(it, Notice::Missed { .. }));
            missed.count()
        };
        let expected = usize::from(!rewindable);
        assert_eq!((missed(0), missed(1), missed(2)), (0, 0, expected));
    }
}

#[test]
fn a_sender_hears_once_of_who_came_too_late_for_a_stream() {
    let mut net = Net::new(3, &config(), 2_000_000);
    net.links[1] = Some(Link::new(600_000, Duration::from_millis(1)));
    net.cut[2] = true;
    let id = net.send(Transfer {
        rewindable: false,
        ..file(2_000_000, Wanted::Count(1))
    });
    net.run(Duration::from_millis(100));
    net.cut[2] = false;
    let is_missed = |it: &Notice| matches!(it, Notice::Missed { .. });
    net.must(Duration::from_secs(20), |net| {
        net.notices[2].iter().any(is_missed)
    });
    for _ in 0..2 {
        // Who takes part has missed nothing.
        net.endpoints[1].say_missed(id, b"one");
        net.endpoints[2].say_missed(id, b"late");
        net.run(Duration::from_millis(100));
    }
    net.must(Duration::from_secs(20), Net::is_sent);
    let mut late = net.notices[0].iter();
    late.by_ref()
        .find(|it| {
            **it == Notice::CameLate {
                id,
                receiver: member(2),
                name: "late".into(),
            }
        })
        .expect("the sender hears of it");
    assert!(!late.any(|it| matches!(it, Notice::CameLate { .. })));
    assert_eq!(net.outcomes().keys().collect::<Vec<_>>(), [&member(1)]);
}

#[test]
fn a_transfer_says_for_whom_it_waits() {
    let mut net = Net::new(3, &config(), 20_000);
    net.cut[2] = true;
    let nodes = [1, 2].map(|index| member(index).node);
    let named = net.send(file(20_000, Wanted::Members(nodes.to_vec())));
    net.run(Duration::from_millis(200));
    let awaited = net.endpoints[0].awaited(named).expect("it waits");
    assert_eq!((awaited.here, awaited.missing), (1, 1));
    assert_eq!(awaited.named, [member(2).node]);
    assert!(awaited.until > net.now);
    net.cut[2] = false;
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(net.endpoints[0].awaited(named), None);
    net.cut[2] = true;
    let counted = net.send(file(20_000, Wanted::Count(2)));
    net.run(Duration::from_millis(200));
    let awaited = net.endpoints[0].awaited(counted).expect("it waits");
    assert_eq!((awaited.here, awaited.missing), (1, 1));
    assert_eq!(awaited.named, []);
}

#[test]
fn a_lossy_receiver_among_many_is_demoted_and_complete_in_the_end() {
    let finished = |slow, lossy: f64| {
        let hasty = BulkConfig {
            slow,
            slow_after: Duration::from_millis(20),
            ..config()
        };
        let mut net = Net::new(8, &hasty, 6_000_000);
        net.loss[3] = lossy;
        net.send(file(6_000_000, Wanted::Count(7)));
        let healthy = |net: &Net| {
            [1, 2, 4, 5, 6, 7]
                .iter()
                .all(|index| net.has_stream(*index, 0))
        };
        net.must(Duration::from_secs(60), healthy);
        let healthy = net.now;
        net.must(Duration::from_secs(60), Net::is_sent);
        (healthy.as_nanos() as f64, net)
    };
    let (undisturbed, _) = finished(SlowPolicy::Demote, 0.0);
    let (demoted, net) = finished(SlowPolicy::Demote, 0.3);
    assert!(
        demoted < 1.5 * undisturbed,
        "{demoted} against {undisturbed}"
    );
    assert!(net.has_stream(3, 0));
    assert_eq!(net.endpoints[0].counters().demoted, 1);
    let (_, net) = finished(SlowPolicy::Drop, 0.3);
    assert_eq!(net.outcomes()[&member(3)], Outcome::Slow);
    let (_, net) = finished(SlowPolicy::Wait, 0.3);
    assert!(net.has_stream(3, 0) && net.endpoints[0].counters().demoted == 0);
}

#[test]
fn a_receiver_without_room_holds_the_sender_back_until_it_consumes() {
    for order in [Order::InOrder, Order::AsTheyCome] {
        let limited = BulkConfig {
            buffer_max: 20_000,
            slow: SlowPolicy::Wait,
            ..config()
        };
        let mut net = Net::new(2, &limited, 200_000);
        net.acceptance[1] = Some(accepting(order));
        net.consumes[1] = false;
        let id = net.send(file(200_000, Wanted::Count(1)));
        net.run(Duration::from_secs(5));
        let given: usize = net.data[1].values().map(Bytes::len).sum();
        assert_eq!((given, net.is_sent()), (20_000, false), "{order:?}");
        net.consumes[1] = true;
        let now = net.now;
        net.endpoints[1].consumed(now, id, given as u64);
        net.must(Duration::from_secs(5), Net::is_sent);
        assert!(net.has_stream(1, 0));
    }
}

#[test]
fn required_receivers_that_never_come_are_absent() {
    let patient = BulkConfig {
        register_within: Duration::from_millis(500),
        ..config()
    };
    let mut net = Net::new(2, &patient, 50_000);
    net.send(file(
        50_000,
        Wanted::Members(vec![member(1).node, NodeId(77)]),
    ));
    net.must(Duration::from_secs(3), Net::is_sent);
    let absent = MemberId {
        node: NodeId(77),
        incarnation: Incarnation(0),
    };
    assert_eq!(net.outcomes()[&absent], Outcome::Absent);
    assert_eq!(net.outcomes()[&member(1)], Outcome::Complete);
}

#[test]
fn nobody_there_is_no_receivers() {
    let impatient = BulkConfig {
        register_within: Duration::from_millis(300),
        ..config()
    };
    let mut net = Net::new(1, &impatient, 50_000);
    net.send(file(50_000, Wanted::Open));
    net.must(Duration::from_secs(1), Net::is_sent);
    assert!(net.outcomes().is_empty());
}

#[test]
fn a_receiver_that_vanishes_is_settled_and_learns_when_it_is_back() {
    for policy in [
        Policy::Ack,
        Policy::Nak { poll: 8 },
        Policy::Ring,
        Policy::Tree { height: 2 },
    ] {
        let waiting = BulkConfig {
            policy,
            slow: SlowPolicy::Wait,
            ..config()
        };
        let mut net = Net::new(5, &waiting, 3_000_000);
        let id = net.send(file(3_000_000, Wanted::Count(4)));
        net.run(Duration::from_millis(75));
        net.cut[2] = true;
        net.must(Duration::from_secs(10), Net::is_sent);
        assert_eq!(net.outcomes()[&member(2)], Outcome::Vanished, "{policy:?}");
        assert!([1, 3, 4].iter().all(|index| net.has_stream(*index, 0)));
        net.run(Duration::from_secs(2));
        let failure = Failure::Lost;
        assert_eq!(net.notices[2].last(), Some(&Notice::Failed { id, failure }));
    }
}

#[test]
fn a_user_that_gives_up_is_failed_with_its_reason() {
    let mut net = Net::new(3, &config(), 3_000_000);
    let id = net.send(file(3_000_000, Wanted::Count(2)));
    net.run(Duration::from_millis(70));
    let now = net.now;
    net.endpoints[1].conclude(now, id, Err("the disk is full"));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(
        net.outcomes()[&member(1)],
        Outcome::Failed("the disk is full".into())
    );
    assert!(net.has_stream(2, 0));
    net.run(Duration::from_secs(3));
    let failure = Failure::GivenUp;
    assert_eq!(net.notices[1].last(), Some(&Notice::Failed { id, failure }));
}

#[test]
fn a_confirmed_transfer_waits_for_the_users() {
    let mut net = Net::new(3, &config(), 10_000);
    let id = net.send(Transfer {
        confirm: true,
        ..file(10_000, Wanted::Count(2))
    });
    net.run(Duration::from_secs(4));
    assert!(
        !net.is_sent() && net.has_stream(1, 0),
        "users take their time to verify"
    );
    let now = net.now;
    net.endpoints[1].conclude(now, id, Ok(()));
    net.endpoints[2].conclude(now, id, Err("the hash is wrong"));
    net.must(Duration::from_secs(2), Net::is_sent);
    assert_eq!(net.outcomes()[&member(1)], Outcome::Complete);
    assert_eq!(
        net.outcomes()[&member(2)],
        Outcome::Failed("the hash is wrong".into())
    );
    net.run(Duration::from_millis(50));
    assert_eq!(net.notices[1].last(), Some(&Notice::Ended { id }));
}

#[test]
fn an_open_stream_ends_where_its_sender_says() {
    for (length, loss) in [(0, 0.0), (1, 0.0), (64_000, 0.0), (64_321, 0.1)] {
        let mut net = Net::new(3, &config(), length);
        net.loss = vec![loss; 3];
        net.acceptance = vec![Some(accepting(Order::InOrder)); 3];
        let id = net.send(Transfer {
            length: None,
            rewindable: false,
            ..file(0, Wanted::Count(2))
        });
        net.run(Duration::from_secs(3));
        assert!(!net.is_sent());
        let now = net.now;
        net.endpoints[0].finish(now, id);
        net.must(Duration::from_secs(5), Net::is_sent);
        assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
        let received = Notice::Received {
            id,
            length: length as u64,
        };
        assert!(net.notices[1].contains(&received));
    }
}

#[test]
fn a_cancelled_transfer_ends_everywhere_with_the_reason() {
    let mut net = Net::new(2, &config(), 3_000_000);
    let id = net.send(file(3_000_000, Wanted::Count(1)));
    net.run(Duration::from_millis(70));
    let now = net.now;
    net.endpoints[0].cancel(now, id, "it was the wrong file");
    net.run(Duration::from_millis(50));
    assert_eq!(net.outcomes()[&member(1)], Outcome::Cancelled);
    let failure = Failure::Cancelled("it was the wrong file".into());
    assert_eq!(net.notices[1].last(), Some(&Notice::Failed { id, failure }));
}

#[test]
fn a_receiver_that_misses_the_last_word_is_told_the_reason_when_it_reports() {
    let mut net = Net::new(2, &config(), 3_000_000);
    let id = net.send(file(3_000_000, Wanted::Count(1)));
    net.run(Duration::from_millis(50));
    net.loss[1] = 0.3;
    net.run(Duration::from_millis(20));
    net.loss[1] = 0.0;
    let mut lost = 0;
    net.loses = Some(Box::new(move |_, to, body| {
        let (_, message) = Message::decode(body).expect("it is one");
        let is_lost = to == 1 && lost < 2 && matches!(message, Message::Finish(_));
        lost += u32::from(is_lost);
        is_lost
    }));
    let now = net.now;
    net.endpoints[0].cancel(now, id, "it was the wrong file");
    // It asks for what it misses.
    net.run(Duration::from_millis(500));
    let failure = Failure::Cancelled("it was the wrong file".into());
    assert_eq!(net.notices[1].last(), Some(&Notice::Failed { id, failure }));
}

#[test]
fn a_refusal_carries_its_reason() {
    let mut net = Net::new(3, &config(), 10_000);
    net.acceptance[2] = None;
    let id = net.send(file(
        10_000,
        Wanted::Members(vec![member(1).node, member(2).node]),
    ));
    net.run(Duration::from_millis(20));
    net.endpoints[2].refuse(net.now, id, "the disk is read-only", b"two");
    net.must(Duration::from_secs(2), Net::is_sent);
    assert_eq!(
        net.outcomes()[&member(2)],
        Outcome::Refused("the disk is read-only".into())
    );
    assert!(net.has_stream(1, 0));
}

#[test]
fn several_transfers_share_a_group_address() {
    let mut net = Net::new(3, &config(), 50_000);
    net.send(file(50_000, Wanted::Count(2)));
    let now = net.now;
    let other = net.endpoints[1].send(now, file(0, Wanted::Count(2)));
    let other = other.expect("there is room");
    net.must(Duration::from_secs(3), Net::is_sent);
    assert!(net.notices[2].contains(&Notice::Received {
        id: other,
        length: 0
    }));
    assert!(net.notices[1].contains(&Notice::Sent { id: other }));
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
}

#[test]
fn a_ring_refuses_as_many_receivers_as_its_window_has_packets() {
    let ring = BulkConfig {
        policy: Policy::Ring,
        window: 4,
        ..config()
    };
    let mut net = Net::new(1, &ring, 0);
    let now = net.now;
    let refused = net.endpoints[0].send(now, file(0, Wanted::Count(4)));
    assert_eq!(
        refused,
        Err(SendError::Window {
            receivers: 4,
            window: 4
        })
    );
    assert!(
        net.endpoints[0]
            .send(now, file(0, Wanted::Count(3)))
            .is_ok()
    );
}

#[test]
fn any_datagrams_of_a_stranger_change_nothing_for_the_others() {
    use groupcast_core::{Protocol as _, Rng};
    let mut net = Net::new(3, &config(), 200_000);
    net.send(file(200_000, Wanted::Count(2)));
    let mut rng = Rng::new(4);
    let stranger = member(50);
    for _ in 0..400 {
        net.run(Duration::from_millis(1));
        let len = 5 + rng.below(60) as usize;
        let mut body: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        body[..5].copy_from_slice(&[1 + rng.below(7) as u8, 0, 0, 0, 1]);
        let now = net.now;
        for endpoint in &mut net.endpoints {
            endpoint.handle_datagram(now, stranger, Bytes::from(body.clone()));
        }
    }
    net.must(Duration::from_secs(5), |net| {
        net.has_stream(1, 0) && net.has_stream(2, 0)
    });
}

#[test]
fn parity_repairs_streams_of_known_and_of_open_length() {
    let wide = BulkConfig {
        window: 256,
        policy: Policy::Nak { poll: 32 },
        slow: SlowPolicy::Wait,
        ..config()
    };
    for length in [Some(600_321), None] {
        let mut net = Net::new(5, &wide, 600_321);
        net.loss = vec![0.0, 0.15, 0.15, 0.15, 0.15];
        let id = net.send(Transfer {
            length,
            ..file(0, Wanted::Count(4))
        });
        if length.is_none() {
            net.run(Duration::from_secs(5));
            let now = net.now;
            net.endpoints[0].finish(now, id);
        }
        net.must(Duration::from_secs(10), Net::is_sent);
        assert!((1..5).all(|index| net.has_stream(index, 0)));
        let restored = (1..5).map(|index| net.endpoints[index].counters().packets_restored);
        assert!(restored.sum::<u64>() > 100);
    }
}

#[test]
fn an_acknowledgement_of_a_chain_that_overtakes_the_roster_is_not_forgotten() {
    let paper = BulkConfig {
        reserve: false,
        ..BulkConfig::paper(Policy::Tree { height: 3 }, 1000, 20)
    };
    for packets in [1, 45] {
        let length = packets * 1000;
        let mut net = Net::new(4, &paper, length);
        let millis = [0, 9, 4, 0];
        net.late = millis.map(Duration::from_millis).to_vec();
        net.send(file(length, Wanted::Count(3)));
        net.must(Duration::from_secs(5), Net::is_sent);
        let counters: Vec<Counters> = net.endpoints.iter().map(Bulk::counters).collect();
        let sent: u64 = counters[1..].iter().map(|one| one.reports_sent).sum();
        // 001 Table 2: N·P in the network, P at the sender of one chain.
        let expected = (3 * packets as u64, packets as u64, 0);
        let sender = counters[0];
        let counted = (sent, sender.reports_received, sender.packets_repeated);
        assert_eq!(counted, expected, "{packets} packets");
    }
}

#[test]
fn a_receiver_that_goes_while_it_has_no_room_is_given_up() {
    let config = BulkConfig {
        buffer_max: 64 << 10,
        slow: SlowPolicy::Wait,
        ..BulkConfig::lan()
    };
    let mut net = Net::new(3, &config, 1 << 20);
    net.consumes[1] = false;
    net.send(file(1 << 20, Wanted::Count(2)));
    net.run(Duration::from_secs(60));
    assert!(!net.is_sent(), "it has no room, and is there");
    net.cut[1] = true;
    net.must(Duration::from_secs(30), Net::is_sent);
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&member(1)], Outcome::Vanished);
    assert_eq!(outcomes[&member(2)], Outcome::Complete);
}
