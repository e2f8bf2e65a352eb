//! Goal: a transfer that is for some subgroups is answered by receivers in these and by nobody
//! else, under every policy. Method: a small network of endpoints in subgroups of their own, exact
//! counts.

use std::boxed::Box;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::endpoints::config;
use super::multidriver::{rounds, with};
use super::net::{Net, accepting, file, member};
use crate::bulk::{
    BulkConfig, Failure, Multidriver, Notice, Order, Outcome, Policy, SendError, Transfer, Wanted,
    Xtp,
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
    for policy in [
        Policy::Ack,
        Policy::Nak { poll: 8 },
        Policy::Ring,
        Policy::Tree { height: 2 },
        Policy::Xtp(Xtp::for_window(32)),
        Policy::Multidriver(Multidriver::for_window(32)),
    ] {
        let settings = BulkConfig {
            policy,
            block: None,
            ..config()
        };
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
