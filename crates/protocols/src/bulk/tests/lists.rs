//! Goal: a transfer that is for some subgroups, or for those on a list, is answered by these and by
//! nobody else, under every policy; under `list` both change while it runs, and the response side
//! keeps the same memory whatever the number of receivers. Method: a small network of endpoints in
//! subgroups of their own, exact counts.

use std::boxed::Box;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::endpoints::{config, knowing, under};
use super::multidriver::{at, rounds, with};
use super::net::{Net, accepting, file, member};
use crate::bulk::wire::{Finish, Message};
use crate::bulk::{
    BulkConfig, Collectors, DeliverTo, Failure, ListError, Listed, Multidriver, Notice, Order,
    Outcome, Policy, RateControl, SendError, Transfer, TransferId, Wanted, Xtp,
};
use crate::xgm::Subgroups;

/// Endpoint `index` is in the subgroup of its number.
fn in_their_own(endpoints: usize, settings: &BulkConfig, length: usize) -> Net {
    let mut net = Net::new(endpoints, settings, length);
    for (index, endpoint) in net.endpoints.iter_mut().enumerate() {
        endpoint.set_subgroups(Subgroups::one(index as u8));
    }
    net
}

fn for_some(subgroups: &str, length: usize, receivers: Wanted) -> Transfer {
    Transfer {
        subgroups: subgroups.parse().expect("it is a list"),
        ..file(length, receivers)
    }
}

/// The policies under which receivers answer.
fn policies() -> impl Iterator<Item = Policy> {
    let xtp = Policy::Xtp(Xtp::for_window(32));
    knowing().into_iter().chain([xtp])
}

/// How many datagrams go to the sender.
fn heard(net: &mut Net) -> Rc<RefCell<u64>> {
    let heard = Rc::new(RefCell::new(0));
    let seen = heard.clone();
    net.loses = Some(Box::new(move |_, to, _| {
        *seen.borrow_mut() += u64::from(to == 0);
        false
    }));
    heard
}

#[test]
fn who_is_in_none_of_the_subgroups_is_not_asked_and_says_nothing() {
    for policy in policies() {
        let settings = under(policy);
        let mut net = in_their_own(5, &settings, 50_000);
        let id = net.send(for_some("1,3,8-11", 50_000, Wanted::Open));
        net.must(Duration::from_secs(10), Net::is_sent);
        let complete: BTreeSet<_> = [member(1), member(3)].into();
        let outcomes = net.outcomes();
        assert_eq!(outcomes.keys().copied().collect::<BTreeSet<_>>(), complete);
        assert!(outcomes.values().all(|it| *it == Outcome::Complete));
        assert!(net.has_stream(1, 0) && net.has_stream(3, 0));
        for index in [2, 4] {
            assert!(net.notices[index].is_empty(), "{policy:?}");
            assert!(net.endpoints[index].deliver_to(id).is_none());
        }
        let vectors = net.notices[0].iter().filter_map(|notice| match notice {
            Notice::Registered { subgroups, .. } => *subgroups,
            _ => None,
        });
        let vectors: BTreeSet<Subgroups> = vectors.collect();
        assert_eq!(vectors, [Subgroups::one(1), Subgroups::one(3)].into());

        let mut net = in_their_own(5, &settings, 50_000);
        let heard = heard(&mut net);
        net.send(for_some("9", 50_000, Wanted::Open));
        net.run(Duration::from_secs(2));
        assert_eq!(*heard.borrow(), 0, "{policy:?}");
    }
}

#[test]
fn what_is_for_all_subgroups_is_for_everybody() {
    let mut net = in_their_own(4, &config(), 5_000);
    net.send(for_some("0-63", 5_000, Wanted::Count(3)));
    net.must(Duration::from_secs(2), Net::is_sent);
    assert!((1..4).all(|index| net.has_stream(index, 0)));
}

#[test]
fn who_leaves_the_subgroups_before_it_registers_is_told() {
    let settings = with(Multidriver {
        backoff: Duration::from_millis(100),
        ..rounds(10)
    });
    let mut net = in_their_own(3, &settings, 1_000);
    net.acceptance[2] = None;
    let id = net.send(for_some("1-2", 1_000, Wanted::Open));
    net.run(Duration::from_millis(2));
    net.endpoints[2].set_subgroups(Subgroups::one(5));
    let now = net.now;
    let accepted = net.endpoints[2].accept(now, id, &accepting(Order::InOrder));
    accepted.expect("it was announced before");
    net.must(Duration::from_secs(5), Net::is_sent);
    let failure = Failure::Excluded;
    let told = Notice::Failed { id, failure };
    assert!(net.notices[2].contains(&told), "{:?}", net.notices[2]);
    assert_eq!(net.outcomes(), [(member(1), Outcome::Complete)].into());
}

#[test]
fn a_transfer_for_no_subgroup_is_refused() {
    let mut net = Net::new(1, &config(), 0);
    let now = net.now;
    let nobody = Transfer {
        subgroups: Subgroups::NONE,
        ..file(0, Wanted::Open)
    };
    assert_eq!(
        net.endpoints[0].send(now, nobody),
        Err(SendError::Subgroups)
    );
}

fn by_list(rule: Multidriver) -> BulkConfig {
    let settings = with(rule);
    BulkConfig {
        policy: Policy::List(rule),
        ..settings
    }
}

fn listed(index: usize, subgroups: Subgroups) -> Listed {
    let node = member(index).node;
    Listed { node, subgroups }
}

/// Whether user `index` was told that the transfer is for others.
fn is_told(net: &Net, index: usize, id: TransferId) -> bool {
    let failure = Failure::Excluded;
    net.notices[index].contains(&Notice::Failed { id, failure })
}

#[test]
fn every_receiver_replies_once_to_a_request_and_is_acknowledged_once() {
    for receivers in [2, 7, 50, 200] {
        let settings = BulkConfig {
            rate: at(200_000),
            ..by_list(Multidriver {
                use_backoff: true,
                ..rounds(10)
            })
        };
        let mut net = Net::new(receivers + 1, &settings, 95_000);
        net.send(file(95_000, Wanted::Count(receivers)));
        net.must(Duration::from_secs(5), Net::is_sent);
        let sender = net.endpoints[0].counters();
        assert_eq!((sender.rounds, sender.rounds_partial), (10, 0));
        let all = 10 * receivers as u64;
        assert_eq!(
            (sender.reports_received, sender.replies_acknowledged),
            (all, all)
        );
        let nothing = (sender.responses_refused, sender.packets_repeated);
        assert_eq!(nothing, (0, 0));
        let complete = |index| net.outcomes().get(&member(index)) == Some(&Outcome::Complete);
        assert!((1..=receivers).all(complete));
    }
}

#[test]
fn what_is_kept_for_replies_is_the_same_for_few_and_for_many_receivers() {
    let kept = |receivers: usize| {
        // Without a back-off all replies come at once.
        let patient = BulkConfig {
            vanish_after: Duration::from_secs(10),
            ..by_list(rounds(10))
        };
        let mut net = Net::new(receivers + 1, &patient, 30_000);
        net.send(file(30_000, Wanted::Count(receivers)));
        net.must(Duration::from_secs(60), Net::is_sent);
        let complete = |index| net.outcomes().get(&member(index)) == Some(&Outcome::Complete);
        assert!((1..=receivers).all(complete));
        let status = net.endpoints[0].status();
        let Some(free) = receivers.checked_sub(16) else {
            return status.responses_max;
        };
        assert!(status.counters.responses_refused >= free as u64);
        status.responses_max
    };
    let few = kept(32);
    assert!(few > 0 && few <= 16 * 64, "{few} bytes");
    assert_eq!(few, kept(500));
}

#[test]
fn every_packet_and_every_reply_says_its_subgroups() {
    let mut net = in_their_own(4, &by_list(rounds(4)), 20_000);
    let silent = Rc::new(RefCell::new(0));
    let seen = silent.clone();
    net.loses = Some(Box::new(move |_, _, body| {
        let said = match Message::decode(body) {
            Ok((_, Message::Data(data))) => data.header.subgroups,
            Ok((_, Message::Tag(tag))) => tag.subgroups,
            Ok((_, Message::Announce(announce))) => announce.subgroups,
            Ok((_, Message::Report(report))) => report.subgroups,
            _ => return false,
        };
        *seen.borrow_mut() += u64::from(said.is_none());
        false
    }));
    net.send(file(20_000, Wanted::Count(3)));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(*silent.borrow(), 0);
    assert!((1..4).all(|index| net.has_stream(index, 0)));
}

#[test]
fn a_changed_vector_rides_in_the_next_packet_and_the_excluded_leave_without_a_word() {
    let settings = BulkConfig {
        rate: at(200_000),
        ..by_list(rounds(10))
    };
    let mut net = in_their_own(5, &settings, 100_000);
    let id = net.send(for_some("1-4", 100_000, Wanted::Count(4)));
    net.run(Duration::from_millis(200));
    let read = |net: &Net| {
        let list = net.endpoints[0].read_list(id).expect("it runs");
        let entries = list.iter().map(|entry| (entry.member, entry.subgroups));
        entries.collect::<std::vec::Vec<_>>()
    };
    let all: std::vec::Vec<_> = (1..5)
        .map(|index| (Some(member(index)), Some(Subgroups::one(index as u8))))
        .collect();
    assert_eq!(read(&net), all);
    let now = net.now;
    let said = net.endpoints[4].counters().reports_sent;
    let before = net.endpoints[0].counters();
    let changed = net.endpoints[0].change_subgroups(now, id, Subgroups(0b01110));
    assert_eq!(changed, Ok(()));
    assert_eq!(read(&net), all[..3]);
    // A packet every 5 ms.
    net.run(Duration::from_millis(12));
    assert_eq!(net.outcomes(), [(member(4), Outcome::Excluded)].into());
    assert!(is_told(&net, 4, id), "{:?}", net.notices[4]);
    let after = net.endpoints[0].counters();
    assert_eq!(after.tags_sent, before.tags_sent);
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!((1..4).all(|index| net.has_stream(index, 0)));
    assert!(!net.has_stream(4, 0));
    assert_eq!(net.endpoints[4].counters().reports_sent, said);
    assert_eq!(net.endpoints[0].counters().excluded, 1);
}

#[test]
fn who_misses_that_it_is_excluded_is_told_when_it_speaks_or_at_the_end() {
    for (length, speaks) in [(100_000, true), (100_000, false)] {
        let settings = BulkConfig {
            rate: at(200_000),
            ..by_list(rounds(10))
        };
        let mut net = in_their_own(3, &settings, length);
        let id = net.send(for_some("1-2", length, Wanted::Count(2)));
        net.run(Duration::from_millis(200));
        let now = net.now;
        let changed = net.endpoints[0].change_subgroups(now, id, Subgroups::one(1));
        assert_eq!(changed, Ok(()));
        // It hears no packet, request or announcement any more.
        net.loses = Some(Box::new(|_, to, body| {
            let message = Message::decode(body).map(|(_, message)| message);
            let is_end = matches!(message, Ok(Message::Finish(_)));
            to == 2 && !is_end
        }));
        if speaks {
            net.endpoints[2].conclude(now, id, Err("its user gives up"));
        }
        net.must(Duration::from_secs(5), Net::is_sent);
        net.run(Duration::from_millis(50));
        let failed = |notice: &&Notice| matches!(notice, Notice::Failed { .. });
        assert_eq!(net.notices[2].iter().filter(failed).count(), 1);
        assert!(speaks || is_told(&net, 2, id), "{:?}", net.notices[2]);
        assert!(net.has_stream(1, 0));
    }
}

#[test]
fn when_all_are_excluded_it_is_over_and_they_are_told() {
    let settings = BulkConfig {
        rate: at(200_000),
        ..by_list(rounds(10))
    };
    let mut net = in_their_own(3, &settings, 100_000);
    let id = net.send(for_some("1-2", 100_000, Wanted::Count(2)));
    net.run(Duration::from_millis(200));
    let now = net.now;
    let changed = net.endpoints[0].change_subgroups(now, id, Subgroups::one(9));
    assert_eq!(changed, Ok(()));
    net.run(Duration::from_millis(20));
    assert!(net.is_sent() && is_told(&net, 1, id) && is_told(&net, 2, id));
    let gone = Err(ListError::Unknown);
    let now = net.now;
    assert_eq!(
        net.endpoints[0].change_subgroups(now, id, Subgroups::ALL),
        gone
    );
}

#[test]
fn a_receiver_that_moves_out_of_the_subgroups_says_so_and_leaves() {
    let settings = BulkConfig {
        rate: at(200_000),
        ..by_list(rounds(10))
    };
    let mut net = in_their_own(3, &settings, 100_000);
    let id = net.send(for_some("1-2", 100_000, Wanted::Count(2)));
    net.run(Duration::from_millis(200));
    net.endpoints[2].set_subgroups(Subgroups::one(7));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!(is_told(&net, 2, id));
    let reason = "it is in other subgroups now".into();
    let outcomes = [
        (member(1), Outcome::Complete),
        (member(2), Outcome::Refused(reason)),
    ];
    assert_eq!(net.outcomes(), outcomes.into());
}

#[test]
fn who_is_not_on_the_list_is_told_and_who_is_on_it_and_matches_is_waited_for() {
    for policy in [
        Policy::Nak { poll: 8 },
        Policy::List(Multidriver::for_window(32)),
    ] {
        let settings = BulkConfig {
            register_within: Duration::from_millis(500),
            ..under(policy)
        };
        let mut net = in_their_own(5, &settings, 10_000);
        let list = std::vec![
            listed(1, Subgroups::one(1)),
            listed(2, Subgroups::one(2)),
            listed(4, Subgroups::one(4)),
            listed(9, Subgroups::one(2)),
        ];
        let id = net.send(for_some("1-3", 10_000, Wanted::Listed(list)));
        net.run(Duration::from_millis(100));
        assert!(is_told(&net, 3, id), "it is not on the list");
        assert!(net.notices[4].is_empty(), "it is in none of the subgroups");
        net.must(Duration::from_secs(5), Net::is_sent);
        let absent = groupcast_core::MemberId {
            node: member(9).node,
            incarnation: groupcast_core::Incarnation(0),
        };
        let outcomes = [
            (member(1), Outcome::Complete),
            (member(2), Outcome::Complete),
            (absent, Outcome::Absent),
        ];
        assert_eq!(net.outcomes(), outcomes.into(), "{policy:?}");
    }
}

/// The data may come before the answer to its registration, or instead of it.
#[test]
fn who_is_not_on_the_list_gets_nothing_whatever_it_hears_first() {
    let collectors = Policy::Collectors(Collectors::for_window(32));
    for policy in policies().chain([collectors]) {
        let settings = under(policy);
        let mut net = Net::new(4, &settings, 1_000);
        net.loses = Some(Box::new(|_, to, body| {
            let message = Message::decode(body).map(|(_, message)| message);
            to == 3 && matches!(message, Ok(Message::Finish(Finish::Excluded)))
        }));
        let list = [1, 2].map(|index| listed(index, Subgroups::ALL));
        let transfer = Transfer {
            confirm: true,
            ..file(1_000, Wanted::Listed(list.into()))
        };
        let id = net.send(transfer);
        net.must(Duration::from_secs(5), |net| {
            net.has_stream(1, 0) && net.has_stream(2, 0)
        });
        for index in 1..4 {
            let now = net.now;
            net.endpoints[index].conclude(now, id, Ok(()));
        }
        net.must(Duration::from_secs(5), Net::is_sent);
        net.run(Duration::from_millis(500));
        let outcomes = [1, 2].map(|index| (member(index), Outcome::Complete));
        assert_eq!(net.outcomes(), outcomes.into(), "{policy:?}");
        let of_the_stream = |it: &Notice| matches!(it, Notice::Received { .. });
        assert!(!net.notices[3].iter().any(of_the_stream), "{policy:?}");
        assert!(!net.has_stream(3, 0), "{policy:?}");
        assert!(is_told(&net, 3, id), "{policy:?}: {:?}", net.notices[3]);
    }
}

#[test]
fn the_list_is_written_while_it_runs_and_without_one_it_is_the_multidriver() {
    let settings = BulkConfig {
        rate: at(200_000),
        ..by_list(rounds(10))
    };
    let mut net = in_their_own(4, &settings, 100_000);
    let id = net.send(file(100_000, Wanted::Count(3)));
    net.run(Duration::from_millis(200));
    let now = net.now;
    let list = [listed(1, Subgroups::ALL), listed(2, Subgroups::ALL)];
    assert_eq!(net.endpoints[0].write_list(now, id, Some(&list)), Ok(()));
    net.run(Duration::from_millis(20));
    assert_eq!(net.outcomes(), [(member(3), Outcome::Excluded)].into());
    let now = net.now;
    assert_eq!(net.endpoints[0].write_list(now, id, None), Ok(()));
    let now = net.now;
    let no_list = Err(ListError::NoList);
    let one = Subgroups::one(1);
    assert_eq!(net.endpoints[0].change_subgroups(now, id, one), no_list);
    let vectors = Rc::new(RefCell::new(0));
    let seen = vectors.clone();
    net.loses = Some(Box::new(move |_, to, body| {
        let message = Message::decode(body).map(|(_, message)| message);
        let has_one =
            matches!(&message, Ok(Message::Data(data)) if data.header.subgroups.is_some());
        *seen.borrow_mut() += u64::from(to != 0 && has_one);
        false
    }));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(*vectors.borrow(), 0);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
}

#[test]
fn only_the_policy_list_has_a_list_that_changes() {
    let mut net = in_their_own(2, &with(rounds(10)), 1_000);
    let id = net.send(for_some("1", 1_000, Wanted::Count(2)));
    let (now, no_list) = (net.now, Err(ListError::NoList));
    let endpoint = &mut net.endpoints[0];
    assert_eq!(
        endpoint.change_subgroups(now, id, Subgroups::one(2)),
        no_list
    );
    assert_eq!(endpoint.write_list(now, id, Some(&[])), no_list);
    let mut net = in_their_own(2, &by_list(rounds(10)), 1_000);
    let id = net.send(for_some("1", 1_000, Wanted::Count(2)));
    let now = net.now;
    let nobody = net.endpoints[0].change_subgroups(now, id, Subgroups::NONE);
    assert_eq!(nobody, Err(ListError::Nobody));
}

#[test]
fn who_is_excluded_is_not_waited_for_before_a_mark_is_raised() {
    let settings = BulkConfig {
        rate: RateControl::Window,
        ..by_list(rounds(10))
    };
    let mut net = in_their_own(4, &settings, 50_000);
    net.consumes[3] = false;
    let deliver_to = DeliverTo::UpTo {
        first: 0,
        step: None,
    };
    // Receiver 3 holds nothing: it is cut off as soon as it has registered.
    let id = net.send(Transfer {
        deliver_to,
        ..for_some("1-3", 50_000, Wanted::Count(3))
    });
    let has_begun = |net: &Net| {
        net.notices[0]
            .iter()
            .any(|it| matches!(it, Notice::Started { .. }))
    };
    net.must(Duration::from_secs(2), has_begun);
    net.cut[3] = true;
    net.run(Duration::from_millis(300));
    assert!(net.data[1].is_empty() && net.data[2].is_empty());
    let now = net.now;
    let changed = net.endpoints[0].change_subgroups(now, id, Subgroups(0b0110));
    assert_eq!(changed, Ok(()));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0) && net.data[3].is_empty());
    assert_eq!(net.outcomes()[&member(3)], Outcome::Excluded);
}
