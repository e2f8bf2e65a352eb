//! Whom a token site lets in and takes off with a list.

use alloc::vec;

use bytes::Bytes;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{Protocol as _, Rng, Time, TransmitBuf};

use super::config::RmpConfig;
use super::fixtures::{config, member};
use super::lists::Wish;
use super::numbers::{Marks, Number, Stamp, Tag};
use super::operational::Operational;
use super::order::Order;
use super::wire::{Ack, Join, Message};
use super::{Rmp, State};

/// Member 0, the token site of `members` members, with these settings.
fn token_site(members: u64, settings: &RmpConfig) -> Rmp {
    let now = Time::from_millis(1);
    let rmp = Rmp::new(settings.clone(), member(0), Rng::new(1), now);
    let mut rmp = rmp.expect("it is valid");
    rmp.peers.note_counter(1);
    let members = (0..members).map(member).collect();
    let own = Order::new(config(1), members, member(0), Seq(100), 1431, settings);
    rmp.state = State::Operational(Operational::new(own).into());
    rmp
}

/// A member whose positions end at `high` asks to be let in.
fn join(high: u64) -> Bytes {
    let join = Join {
        counter: 1,
        high: Seq(high),
        body_max: 1431,
        config: config(1),
        heard: vec![member(0)],
    };
    Message::Join(join).encode()
}

/// Member 7, whose positions end at `high`, asks member 0 and others to be let in: how many lists
/// there are then.
fn lists_for_a_newcomer(rmp: &mut Rmp, high: u64) -> u64 {
    rmp.handle_datagram(Time::from_millis(1), member(7), join(high));
    rmp.counters.lists_sent
}

#[test]
fn a_newcomer_is_let_in_by_a_group_that_has_room_and_is_not_behind_it() {
    let lan = RmpConfig::lan();
    let small = RmpConfig {
        members_max: 3,
        ..lan.clone()
    };
    for (members, settings, high, lists) in [
        (3, &lan, 100, 1),
        (3, &lan, 101, 0),
        (3, &small, 100, 0),
        (2, &small, 100, 1),
        (1, &lan, 100, 0),
    ] {
        let mut rmp = token_site(members, settings);
        let sent = lists_for_a_newcomer(&mut rmp, high);
        assert_eq!(sent, lists, "{members} members, {high}");
    }
}

#[test]
fn the_next_member_leaves_a_larger_group_with_a_list_when_it_asks_in_this_configuration() {
    let tag = token_site(3, &RmpConfig::lan())
        .state
        .expect_operational()
        .order
        .tag;
    for (members, tag, lists, foreign) in [(3, tag, 1, 0), (3, Tag(7), 0, 1), (2, tag, 0, 0)] {
        let mut rmp = token_site(members, &RmpConfig::lan());
        let leave = Message::Leave { tag };
        rmp.handle_datagram(Time::from_millis(1), member(1), leave.encode());
        let counted = (rmp.counters.lists_sent, rmp.counters.foreign);
        assert_eq!(counted, (lists, foreign), "{members} members");
    }
}

#[test]
fn a_list_is_sent_again_to_the_newcomer_that_missed_it_and_to_nobody_else() {
    let mut rmp = token_site(3, &RmpConfig::lan());
    let mut buf = TransmitBuf::new(64, 0, 0);
    let mut lists_to = |rmp: &mut Rmp, from: u64| {
        let now = Time::from_millis(1);
        rmp.handle_datagram(now, member(from), join(100));
        let mut lists = 0;
        while rmp.poll_transmit(now, &mut buf).is_some() {
            let sent = buf.iter().map(|it| Message::decode(&it.to_vec().into()));
            lists += sent.filter(|it| matches!(it, Ok(Message::List(_)))).count();
            buf.clear();
        }
        lists
    };
    assert_eq!(lists_to(&mut rmp, 7), 1, "it is made");
    assert_eq!(lists_to(&mut rmp, 7), 1, "again");
    assert_eq!(lists_to(&mut rmp, 1), 0, "a member that was there before");
}

/// Member 1 gets the token so long after the request came.
#[test]
fn a_request_that_is_not_repeated_is_over() {
    let lan = RmpConfig::lan();
    let kept = lan.poll_interval * 4;
    let step = lan.poll_interval / 4;
    for (after, lists) in [(kept - step, 1), (kept, 0)] {
        let now = Time::from_millis(1);
        let rmp = Rmp::new(lan.clone(), member(1), Rng::new(1), now);
        let mut rmp = rmp.expect("it is valid");
        let members = (0..3).map(member).collect();
        let own = Order::new(config(1), members, member(1), Seq(100), 1431, &lan);
        let tag = own.tag;
        rmp.state = State::Operational(Operational::new(own).into());
        rmp.handle_datagram(now, member(7), join(100));
        let pass = Message::Ack(Ack {
            again: false,
            issuer: 0,
            next: 1,
            tag,
            stamp: Stamp(1),
            first: Seq(101),
            marks: Marks::default(),
            packets: vec![],
        });
        rmp.handle_datagram(now + after, member(0), pass.encode());
        assert_eq!(rmp.counters.lists_sent, lists, "after {after:?}");
    }
}

#[test]
fn a_minority_makes_no_list() {
    let mut rmp = token_site(3, &RmpConfig::lan());
    let order = &mut rmp.state.expect_operational().order;
    for wish in [Wish::Join(member(7), 1431), Wish::Leave(1)] {
        order.max_n = 5;
        assert!(order.list(wish, config(2), Number(0)).is_some());
        order.max_n = 6;
        assert!(order.list(wish, config(2), Number(0)).is_none());
    }
}
