//! Lists that a member may not make change nothing: of who is not the token site, with more than
//! one change, or with another one than the figures have.

use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::seq::Seq;
use groupcast_core::{Protocol as _, Rng, Time};

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
        ("not of the token site", |it| it.ack.issuer = 1),
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
    not_the_next.list.gone = 3;
    not_the_next.list.ring = vec![0, 1, 2];
    assert_eq!(order().take_list(&not_the_next), Heard::Malformed);
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
    let changes: [(&str, Change); 5] = [
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
fn there_is_no_list_behind_the_last_version() {
    let mut order = order();
    order.lists.version = 63;
    let mut list = joins();
    list.list.version = 64;
    assert_eq!(order.take_list(&list), Heard::Malformed);
    order.lists.version = u8::MAX;
    assert_eq!(order.take_list(&list), Heard::Malformed);
}
