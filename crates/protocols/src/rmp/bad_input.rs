//! What a member may not say changes nothing: ACKs that contradict the order, marks out of all
//! proportion.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId};

use super::config::RmpConfig;
use super::numbers::{Marks, Number, Packets, Stamp};
use super::order::{Heard, Order};
use super::wire::Ack;

fn member(site: u64) -> MemberId {
    MemberId {
        node: NodeId(site),
        incarnation: Incarnation(site),
    }
}

/// The order of member 2 of three; member 0 has the token.
fn order() -> Order {
    let id = ConfigId {
        counter: 1,
        representative: member(0),
    };
    let members = (0..3).map(member).collect();
    let mut order = Order::new(id, members, member(2), Seq(100), 1431, &RmpConfig::lan());
    for number in 1..4 {
        order.insert(1, Number(number), Bytes::from_static(b"packet"));
    }
    order
}

/// The first ACK: of member 0, for the first `count` packets of member 1.
fn first(count: u8) -> Ack {
    Ack {
        again: false,
        issuer: 0,
        next: 1,
        tag: order().tag,
        stamp: Stamp(1),
        first: Seq(101),
        marks: Marks::default(),
        packets: vec![Packets {
            origin: 1,
            first: Number(1),
            count,
        }],
    }
}

#[test]
fn an_ack_that_contradicts_the_order_changes_nothing() {
    let not_the_token_site = Ack {
        issuer: 1,
        ..first(2)
    };
    let stranger = Ack {
        issuer: 3,
        ..first(2)
    };
    let for_a_stranger = Ack {
        next: 3,
        ..first(2)
    };
    let of_a_stranger = Ack {
        packets: vec![Packets {
            origin: 3,
            first: Number(1),
            count: 1,
        }],
        ..first(2)
    };
    let leaves_a_hole = Ack {
        first: Seq(102),
        ..first(2)
    };
    let out_of_proportion = Ack {
        stamp: Stamp(1 << 40),
        ..first(2)
    };
    for ack in [
        not_the_token_site,
        stranger,
        for_a_stranger,
        of_a_stranger,
        leaves_a_hole,
        out_of_proportion,
    ] {
        let mut order = order();
        assert_eq!(order.take_ack(&ack), Heard::Malformed, "{ack:?}");
        assert_eq!((order.top.stamp, order.held), (Stamp(0), Seq(100)));
    }
}

#[test]
fn a_packet_has_one_position_and_a_position_one_packet() {
    let mut order = order();
    assert_eq!(order.take_ack(&first(2)), Heard::Newest);
    assert_eq!(order.held, Seq(102));
    let again = Ack {
        issuer: 1,
        next: 2,
        stamp: Stamp(2),
        first: Seq(103),
        ..first(2)
    };
    assert_eq!(order.take_ack(&again), Heard::Malformed, "ordered twice");
    let other = Ack {
        packets: vec![Packets {
            origin: 0,
            first: Number(1),
            count: 1,
        }],
        ..first(2)
    };
    assert_eq!(
        order.take_ack(&other),
        Heard::Malformed,
        "two packets at one"
    );
    assert_eq!(order.take_ack(&first(2)), Heard::Older, "a repetition");
    assert_eq!(order.top.stamp, Stamp(1));
}

#[test]
fn positions_far_ahead_are_not_kept_and_marks_far_ahead_not_believed() {
    let mut order = order();
    for packets in [Vec::new(), first(2).packets] {
        let ahead = Ack {
            stamp: Stamp(9),
            first: Seq(1 << 40),
            packets,
            ..first(2)
        };
        assert_eq!(order.take_ack(&ahead), Heard::Beyond);
    }
    let marks = Marks {
        known: Number(9),
        ready: Seq(1 << 40),
    };
    order.note_marks(0, marks);
    order.note_marks(1, marks);
    assert_eq!(order.safe(), Seq(100));
    assert_eq!(order.top.last, Seq(100));
}

#[test]
fn a_token_is_taken_only_with_everything_up_to_it_in_hand() {
    let mut order = order();
    let names_us = Ack {
        next: 2,
        ..first(4)
    };
    assert_eq!(order.take_ack(&names_us), Heard::Newest);
    assert!(
        order.is_named() && !order.has_token(),
        "the fourth is missing"
    );
    order.insert(1, Number(4), Bytes::from_static(b"late"));
    assert!(order.has_token());
}
