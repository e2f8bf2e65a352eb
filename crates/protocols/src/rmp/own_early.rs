//! An own message that came early before a list is not sent again, wherever its packet stands.

use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::seq::Seq;
use groupcast_core::{Event, Service};

use super::config::RmpConfig;
use super::fixtures::{config, member};
use super::numbers::{Marks, Number, Packets, Stamp};
use super::order::{Heard, Order, Packet};
use super::outgoing::Outgoing;
use super::wire::{Ack, List, ListAck, Start};
use crate::packing::Record;

fn ack(order: &Order, stamp: u64, seq: u64, packets: Vec<Packets>) -> Ack {
    Ack {
        again: false,
        issuer: 0,
        next: 3,
        tag: order.tag,
        stamp: Stamp(stamp),
        first: Seq(seq),
        marks: Marks::default(),
        packets,
    }
}

/// The packet is sent before the list is heard, so its message belongs to the configuration before;
/// its place is behind the list, and behind one that is not known here.
#[test]
fn a_message_delivered_before_a_list_is_not_sent_again_from_behind_it() {
    let members = (0..3).map(member).collect();
    let lan = RmpConfig::lan();
    let mut order = Order::new(config(1), members, member(2), Seq(100), 1431, &lan);
    let mut outgoing = Outgoing::default();
    outgoing.push(Record {
        service: Service::Reliable,
        number: 7,
        payload: vec![7].into(),
    });
    let (body, _) = outgoing.pack(1431).expect("a message waits");
    order.insert(2, Number(1), Packet { version: 0, body });
    let list = ListAck {
        ack: ack(&order, 1, 101, Vec::new()),
        list: List {
            version: 1,
            config: config(2),
            max_n: 4,
            cut: Number(0),
            gone: List::NOBODY,
            ring: vec![0, 3, 1, 2],
            roster: [0, 1, 2, 7].map(member).to_vec(),
            sizes: vec![1431; 4],
            floor: Seq(100),
            starts: vec![Start::default(); 3],
        },
    };
    assert_eq!(order.take_list(&list), Heard::Newest);
    order.note_cut(1, 1, Number(0));
    order.note_cut(2, 1, Number(1));
    let own = Packets {
        origin: 2,
        first: Number(1),
        count: 1,
    };
    let behind = Ack {
        issuer: 1,
        next: 2,
        ..ack(&order, 3, 103, vec![own])
    };
    assert_eq!(order.take_ack(&behind), Heard::Newest);
    assert!(order.may_pass());
    let mut delivered = Vec::new();
    order.pass(&mut |event| {
        if let Event::Deliver(delivery) = event {
            delivered.push(delivery.id.number);
        }
    });
    assert_eq!(delivered, [7]);
    // A reformation begins here.
    let known = order.marks().known;
    assert_eq!(known, Number(0), "a position before it is not known");
    outgoing.settle(known);
    outgoing.restart(&order.lists.own_early);
    assert!(outgoing.is_settled());
}
