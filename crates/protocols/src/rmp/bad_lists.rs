//! Lists that a member may not make change nothing: of who is not the token site, with more than
//! one change, or with another one than the figures have.

use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, Protocol as _, Rng, Time};

use super::config::RmpConfig;
use super::fixtures::{config, member};
use super::numbers::{Marks, Number, Stamp};
use super::operational::Operational;
use super::order::{Heard, Order};
use super::wire::{Ack, Announcement, List, ListAck, Listed, Message, Start};
use super::{Rmp, State};

/// The order of member 2 of four; member 0 has the token.
fn order() -> Order {
    let members = (0..4).map(member).collect();
    let config_of = RmpConfig::lan();
    Order::new(config(1), members, member(2), Seq(100), 1431, &config_of)
}

/// Member 0 lets member 7 in.
fn joins() -> ListAck {
    ListAck {
        ack: Ack {
            again: false,
            issuer: 0,
            next: 4,
            tag: order().tag,
            stamp: Stamp(1),
            first: Seq(101),
            marks: Marks::default(),
            packets: Vec::new(),
        },
        list: List {
            version: 1,
            config: config(2),
            max_n: 5,
            cut: Number(0),
            gone: List::NOBODY,
            ring: vec![0, 4, 1, 2, 3],
            roster: [0, 1, 2, 3, 7].map(member).to_vec(),
            sizes: vec![1431; 5],
            floor: Seq(100),
            starts: vec![Start::default(); 4],
        },
    }
}

/// Member 0 takes member 1 off the list.
fn leaves() -> ListAck {
    let mut list = joins();
    list.ack.next = 2;
    list.list.gone = 1;
    list.list.max_n = 3;
    list.list.ring = vec![0, 2, 3];
    list.list.roster.pop();
    list.list.sizes.pop();
    list.list.starts.clear();
    list
}

#[test]
fn what_the_figures_have_is_taken() {
    for list in [joins(), leaves()] {
        let mut order = order();
        assert_eq!(order.take_list(&list), Heard::Newest);
        assert_eq!(order.take_list(&list), Heard::Older, "again");
        assert_eq!(order.ring, list.list.ring);
        assert_eq!(order.members.len(), 4, "until its place");
    }
}

type Change = fn(&mut ListAck);

#[test]
fn a_list_that_a_member_may_not_make_changes_nothing() {
    let changes: [(&str, Change); 14] = [
        ("not of the token site", |it| {
            it.ack.issuer = 1;
            it.list.ring = vec![0, 1, 4, 2, 3];
        }),
        ("of a stranger", |it| it.ack.issuer = 9),
        ("the token for another", |it| it.ack.next = 1),
        ("the newcomer elsewhere", |it| {
            it.list.ring = vec![0, 1, 4, 2, 3];
        }),
        ("without a member", |it| it.list.ring = vec![0, 4, 1, 2]),
        ("another index", |it| it.list.ring = vec![0, 5, 1, 2, 3]),
        ("a member twice", |it| it.list.roster[4] = member(1)),
        ("another member", |it| it.list.roster[3] = member(8)),
        ("two newcomers", |it| it.list.roster.push(member(8))),
        ("a later version", |it| it.list.version = 2),
        ("no later configuration", |it| it.list.config = config(1)),
        ("behind a hole", |it| it.ack.first = Seq(102)),
        ("a higher MaxN", |it| it.list.max_n = 128),
        ("a lower MaxN", |it| it.list.max_n = 4),
    ];
    for (what, change) in changes {
        let mut list = joins();
        change(&mut list);
        let mut order = order();
        assert_eq!(order.take_list(&list), Heard::Malformed, "{what}");
        assert_eq!((order.ring.len(), order.roster.len()), (4, 4), "{what}");
        assert_eq!((order.top.stamp, order.held), (Stamp(0), Seq(100)));
    }
    let mut not_the_next = leaves();
    not_the_next.ack.next = 1;
    not_the_next.list.gone = 3;
    not_the_next.list.ring = vec![0, 1, 2];
    assert_eq!(order().take_list(&not_the_next), Heard::Malformed);
    let mut one_goes_and_one_comes = leaves();
    one_goes_and_one_comes.list.roster.push(member(7));
    one_goes_and_one_comes.list.sizes.push(1431);
    let heard = order().take_list(&one_goes_and_one_comes);
    assert_eq!(heard, Heard::Malformed);
}

#[test]
fn nobody_leaves_a_pair_with_a_list() {
    let members = (0..2).map(member).collect();
    let lan = RmpConfig::lan();
    let mut pair = Order::new(config(1), members, member(1), Seq(100), 1431, &lan);
    let mut alone = leaves();
    alone.ack.next = 0;
    alone.list.max_n = 1;
    alone.list.ring = vec![0];
    alone.list.roster.truncate(2);
    alone.list.sizes.truncate(2);
    assert_eq!(pair.take_list(&alone), Heard::Malformed);
}

#[test]
fn a_list_stands_where_no_packet_stands_and_where_it_can_be_kept() {
    let mut taken = order();
    let packet = super::numbers::Packets {
        origin: 1,
        first: Number(1),
        count: 1,
    };
    let first = Ack {
        packets: vec![packet],
        next: 1,
        ..joins().ack
    };
    assert_eq!(taken.take_ack(&first), Heard::Newest);
    assert_eq!(taken.take_list(&joins()), Heard::Malformed);
    assert!(taken.places.get(101).is_some_and(|place| !place.is_list()));
    let mut order = order();
    let mut far = joins();
    far.ack.stamp = Stamp(9);
    far.ack.first = order.room();
    assert_eq!(order.take_list(&far), Heard::Beyond);
    assert_eq!((order.ring.len(), order.top.last), (4, Seq(100)));
}

#[test]
fn the_token_site_alone_makes_a_list_and_none_behind_the_last_version() {
    let members = || (0..4).map(member).collect();
    let lan = RmpConfig::lan();
    let mut site = Order::new(config(1), members(), member(0), Seq(100), 1431, &lan);
    assert!(site.may_change() && site.leaves_by_list());
    assert!(!order().may_change(), "another has the token");
    site.lists.version = 62;
    assert!(site.may_change() && site.leaves_by_list());
    site.lists.version = 63;
    assert!(!site.may_change() && !site.leaves_by_list());
    // Nor is one looked for there of which only an ACK tells.
    let unlisted = Ack {
        issuer: 9,
        stamp: Stamp(2),
        first: Seq(103),
        ..joins().ack
    };
    for (version, heard_of) in [(62, Seq(102)), (63, Seq(100))] {
        let mut order = order();
        order.lists.version = version;
        assert_eq!(order.take_ack(&unlisted), Heard::Beyond);
        assert_eq!(order.heard_of, heard_of);
    }
}

/// With `order = heard`.
#[test]
fn acks_settle_places_behind_a_list_once_a_member_of_before_has_passed_it() {
    let settled_to = |list: &ListAck, who: usize| {
        let mut order = order();
        assert_eq!(order.take_list(list), Heard::Newest);
        let ready = |index| Seq(if index == who { 101 } else { 100 });
        order.lists.heard_settles_to(ready)
    };
    assert_eq!(order().lists.heard_settles_to(|_| Seq(100)), Seq::MAX);
    for who in 0..4 {
        assert_eq!(settled_to(&joins(), who), Seq::MAX);
        assert_eq!(settled_to(&leaves(), who), Seq::MAX);
    }
    assert_eq!(settled_to(&joins(), 4), Seq(101), "the newcomer");
    assert_eq!(settled_to(&joins(), 9), Seq(101), "nobody");
}

#[test]
fn what_a_member_sent_before_it_heard_a_list_is_said_of_that_list() {
    let mut order = order();
    assert_eq!(order.take_list(&joins()), Heard::Newest);
    for index in [1, 3] {
        order.note_cut(index, 1, Number(0));
    }
    for version in [0, 2] {
        order.note_cut(2, version, Number(7));
        assert!(order.lacks_cuts(), "version {version}");
    }
    order.note_cut(2, 1, Number(4));
    assert!(!order.lacks_cuts());
    let own = [0, 1, 2].map(|version| order.own_cut(version));
    assert_eq!(own, [None, Some(Number(4)), None]);
}

/// What the ways of its members carry all know from when the configuration began.
#[test]
fn a_list_says_of_each_member_what_its_way_carries() {
    let mut order = order();
    for sizes in [
        vec![1431; 4],
        vec![1431; 6],
        vec![1430, 1431, 1431, 1431, 1431],
    ] {
        let mut list = joins();
        list.list.sizes = sizes;
        assert_eq!(order.take_list(&list), Heard::Malformed, "{list:?}");
    }
    let mut less = joins();
    less.list.sizes[4] = 1430;
    assert_eq!(
        order.take_list(&less),
        Heard::Malformed,
        "no list shortens packets"
    );
    let mut more = joins();
    more.list.sizes[4] = 9_000;
    assert_eq!(order.take_list(&more), Heard::Newest);
    assert_eq!((order.sizes[4], order.body_max), (9_000, 1431));
}

#[test]
fn a_list_before_the_last_one_was_passed_is_refused() {
    let mut order = order();
    assert_eq!(order.take_list(&joins()), Heard::Newest);
    let mut second = leaves();
    second.ack.issuer = 4;
    second.ack.stamp = Stamp(2);
    second.ack.first = Seq(102);
    second.list.version = 2;
    second.list.config = config(3);
    second.list.roster = joins().list.roster;
    second.list.ring = vec![0, 4, 2, 3];
    assert_eq!(order.take_list(&second), Heard::Malformed);
}

#[test]
fn a_list_orders_no_packets_and_names_no_more_than_there_are_indices() {
    let refuse = |list: ListAck| {
        let bytes = Message::List(list).encode();
        assert!(Message::decode(&bytes).is_err());
    };
    let mut packets = joins();
    packets.ack.packets.push(super::numbers::Packets {
        origin: 0,
        first: Number(1),
        count: 1,
    });
    refuse(packets);
    let mut long = joins();
    long.list.roster = (0..129).map(member).collect();
    refuse(long);
    let mut many = joins();
    many.ack.packets = vec![
        super::numbers::Packets {
            origin: 0,
            first: Number(1),
            count: 1,
        };
        129
    ];
    let bytes = Message::Ack(many.ack).encode();
    assert!(Message::decode(&bytes).is_err(), "more than an ACK orders");
}

/// A token site takes the next member off the list, which did not ask for it, and the others go
/// along.
#[test]
fn a_member_that_did_not_ask_to_leave_is_not_made_to() {
    for (asked, ends) in [(false, "polling"), (true, "left")] {
        let now = Time::from_millis(1);
        let lan = RmpConfig::lan();
        let mut rmp = Rmp::new(lan.clone(), member(1), Rng::new(1), now).expect("it is valid");
        let members = (0..4).map(member).collect();
        let own = Order::new(config(1), members, member(1), Seq(100), 1431, &lan);
        rmp.state = State::Operational(Operational::new(own).into());
        if asked {
            rmp.begin_leave(now);
        }
        let (list, tag) = (leaves(), order().tag);
        rmp.handle_datagram(now, member(0), Message::List(list).encode());
        for from in [0, 2, 3] {
            let listed = Message::Listed(Listed {
                asks: false,
                tag,
                version: 1,
                cut: Number(0),
            });
            let marks = Marks {
                known: Number(0),
                ready: Seq(101),
            };
            let settle = Message::Settle { tag, marks };
            for message in [listed, settle] {
                rmp.handle_datagram(now, member(from), message.encode());
            }
        }
        assert_eq!(rmp.state.name(), ends);
        assert_eq!(rmp.counters.malformed, u64::from(!asked));
    }
}

/// A member that waits for the list with which a group of four lets it in.
fn newcomer(now: Time) -> Rmp {
    let mut rmp = Rmp::new(RmpConfig::lan(), member(7), Rng::new(1), now).expect("it is valid");
    let group = Announcement {
        config: config(1),
        members: (0..4).map(member).collect(),
        heard: vec![member(7)],
    };
    assert!(rmp.join_by_list(now, &group));
    rmp
}

#[test]
fn a_list_of_longer_datagrams_than_the_newcomer_sends_does_not_let_it_in() {
    let now = Time::from_millis(1);
    let cases = [
        ([1432; 5], "joining"),
        ([1431, 1431, 1431, 1431, 1430], "joining"),
        ([9000, 1432, 1432, 1432, 1431], "operational"),
        ([1431; 5], "operational"),
        ([1400, 1431, 1431, 1431, 1431], "operational"),
    ];
    for (sizes, state) in cases {
        let mut rmp = newcomer(now);
        let mut list = joins();
        list.list.sizes = sizes.to_vec();
        rmp.handle_datagram(now, member(0), Message::List(list).encode());
        assert_eq!(rmp.state.name(), state, "{sizes:?}");
        if let State::Operational(operational) = &rmp.state {
            let least = sizes.iter().min().copied().map(usize::from);
            assert_eq!(Some(operational.order.body_max), least);
        }
    }
}

/// A newcomer cannot know what was before. A list of the last version would have made it fail at
/// the next word about one; whom a list names twice its user would have been told twice.
#[test]
fn a_list_that_no_group_makes_does_not_let_a_newcomer_in() {
    let now = Time::from_millis(1);
    let changes: [(&str, Change); 14] = [
        ("the token for another", |it| it.ack.next = 1),
        ("without the newcomer", |it| {
            it.list.ring = vec![0, 1, 2, 3];
            it.list.max_n = 4;
        }),
        ("an index of nobody", |it| {
            it.list.ring = vec![0, 4, 1, 2, 9];
        }),
        ("a member that begins nowhere", |it| {
            it.list.starts.pop();
        }),
        ("no position before the list", |it| {
            it.list.floor = Seq(101);
        }),
        ("more to be fetched than any group keeps", |it| {
            it.ack.first = Seq(100 + (1 << 16));
        }),
        ("positions that no group comes to", |it| {
            it.ack.first = Seq(1 << 46);
            it.list.floor = Seq((1 << 46) - 1);
        }),
        ("another MaxN", |it| it.list.max_n = 4),
        ("of the newcomer itself", |it| {
            it.ack.issuer = 4;
            it.ack.again = true;
        }),
        ("a version that packets do not bear", |it| {
            it.list.version = 64;
        }),
        ("the last version", |it| it.list.version = u8::MAX),
        ("no version", |it| it.list.version = 0),
        ("a member twice in the ring", |it| {
            it.list.ring = vec![0, 4, 1, 1, 3];
        }),
        ("a member with two indices", |it| {
            it.list.roster[3] = member(1);
        }),
    ];
    for (what, change) in changes {
        let mut rmp = newcomer(now);
        let mut list = joins();
        change(&mut list);
        rmp.handle_datagram(now, member(0), Message::List(list).encode());
        assert_eq!(rmp.counters.foreign, 1, "{what}");
        let listed = Message::Listed(Listed {
            tag: order().tag,
            version: 1,
            cut: Number(0),
            asks: true,
        });
        rmp.handle_datagram(now, member(0), listed.encode());
        assert_eq!(rmp.state.name(), "joining", "{what}");
    }
}

#[test]
fn a_newcomer_takes_a_list_of_its_issuer_or_one_that_another_member_sends_again() {
    let now = Time::from_millis(1);
    for (from, again, state) in [
        (0, false, "operational"),
        (1, false, "joining"),
        (1, true, "operational"),
        (9, true, "joining"),
    ] {
        let mut rmp = newcomer(now);
        let mut list = joins();
        list.ack.again = again;
        rmp.handle_datagram(now, member(from), Message::List(list).encode());
        assert_eq!(rmp.state.name(), state, "of {from}");
    }
}

/// A member that was alone in a configuration of its own goes on above its counter and its
/// positions.
#[test]
fn a_list_that_is_behind_what_the_newcomer_has_does_not_let_it_in() {
    let now = Time::from_millis(1);
    for (counter, high, state) in [
        (1, 100, "operational"),
        (2, 100, "joining"),
        (1, 101, "joining"),
    ] {
        let lan = RmpConfig::lan();
        let mut rmp = Rmp::new(lan.clone(), member(7), Rng::new(1), now).expect("it is valid");
        let own = ConfigId {
            counter,
            representative: member(7),
        };
        let alone = Order::new(own, vec![member(7)], member(7), Seq(high), 1431, &lan);
        rmp.state = State::Operational(Operational::new(alone).into());
        let group = Announcement {
            config: config(1),
            members: (0..4).map(member).collect(),
            heard: vec![member(7)],
        };
        assert!(rmp.join_by_list(now, &group));
        rmp.handle_datagram(now, member(0), Message::List(joins()).encode());
        assert_eq!(rmp.state.name(), state, "{counter}, {high}");
    }
}

#[test]
fn there_is_no_list_behind_the_last_version() {
    let mut order = order();
    order.lists.version = 63;
    let mut list = joins();
    list.list.version = 64;
    assert_eq!(order.take_list(&list), Heard::Malformed);
    order.lists.version = u8::MAX;
    assert_eq!(order.take_list(&list), Heard::Malformed);
}
