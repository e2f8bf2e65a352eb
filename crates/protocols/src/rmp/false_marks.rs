//! Marks that are not true: one member's word of a third one counts only where nobody else could
//! know; and nobody asks for ever for an ACK that a member only says to know.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use core::time::Duration;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{Protocol as _, Rng, Time, TransmitBuf};

use super::config::RmpConfig;
use super::fixtures::{config, member};
use super::numbers::{Marks, Number, Packets, Stamp};
use super::operational::Operational;
use super::order::{Heard, Order, Packet};
use super::wire::{Ack, Message, Relayed};
use super::{Rmp, State};

const START: Time = Time::from_millis(1);

/// Member 2 of five, to which member 0 has ordered a packet of member 1 at position 101.
fn operational() -> Rmp {
    let mut rmp = Rmp::new(RmpConfig::lan(), member(2), Rng::new(1), START).expect("it is valid");
    let members = (0..5).map(member).collect();
    let mut order = Order::new(
        config(1),
        members,
        member(2),
        Seq(100),
        1431,
        &RmpConfig::lan(),
    );
    let packet = Packet {
        version: 0,
        body: Bytes::from_static(b"packet"),
    };
    order.insert(1, Number(1), packet);
    let ack = Ack {
        again: false,
        issuer: 0,
        next: 1,
        tag: order.tag,
        stamp: Stamp(1),
        first: Seq(101),
        marks: Marks::default(),
        packets: vec![Packets {
            origin: 1,
            first: Number(1),
            count: 1,
        }],
    };
    assert_eq!(order.take_ack(&ack), Heard::Newest);
    rmp.timers.cancel_all();
    rmp.outbox = super::outbox::Outbox::default();
    rmp.state = State::Operational(Operational::new(order).into());
    rmp
}

/// Member `from` tells, at `now`, that the member at index 1 knows the places of its packets up to
/// `known`. What is believed of that then.
fn tells(rmp: &mut Rmp, now: Time, from: u64, known: u64) -> u64 {
    let order = &rmp.state.expect_operational().order;
    let marks = Marks {
        known: Number(known),
        ready: Seq(100),
    };
    let relayed = Message::Relayed(Relayed {
        tag: order.tag,
        members: vec![(1, marks)],
    });
    rmp.handle_datagram(now, member(from), relayed.encode());
    believed(rmp)
}

/// Up to where the member at index 1 is believed to know the places of its packets.
fn believed(rmp: &mut Rmp) -> u64 {
    let order = &rmp.state.expect_operational().order;
    order.sites[1].marks.known.0
}

/// Lets time go by, until `end`. What was sent.
fn sent_until(rmp: &mut Rmp, end: Time) -> Vec<Message> {
    let mut sent = Vec::new();
    while let Some(due) = rmp.poll_timeout().filter(|due| *due <= end) {
        rmp.handle_timeout(due);
        let mut buf = TransmitBuf::new(64, 0, 0);
        while rmp.poll_transmit(due, &mut buf).is_some() {}
        let bodies = buf.iter().map(Bytes::copy_from_slice);
        sent.extend(bodies.map(|body| Message::decode(&body).expect("it is well-formed")));
    }
    sent
}

#[test]
fn two_members_have_to_tell_what_a_third_one_knows() {
    let mut rmp = operational();
    assert_eq!(tells(&mut rmp, START, 0, 3), 0, "one");
    assert_eq!(tells(&mut rmp, START, 0, 3), 0, "again");
    assert_eq!(tells(&mut rmp, START, 3, 1), 1, "as far as both say");
    assert_eq!(tells(&mut rmp, START, 4, 2), 2);
    assert_eq!(tells(&mut rmp, START, 1, 3), 3, "of itself");
}

#[test]
fn one_member_is_believed_when_all_were_asked() {
    let mut rmp = operational();
    rmp.progress(START);
    assert_eq!(tells(&mut rmp, START, 3, 1), 0);
    let timer = rmp.config.timer_min;
    let asked = |sent: Vec<Message>| -> Vec<u8> {
        let asked = sent.into_iter().filter_map(|message| match message {
            Message::Wanted(wanted) => Some(wanted.asked),
            _ => None,
        });
        asked.collect()
    };
    let first = sent_until(&mut rmp, START + timer * 3);
    assert_eq!(asked(first), [3, 4], "two at once");
    assert_eq!(believed(&mut rmp), 0);
    let second = sent_until(&mut rmp, START + timer * 6);
    assert_eq!(asked(second), [0, 3]);
    assert_eq!(believed(&mut rmp), 0);
    assert!(asked(sent_until(&mut rmp, START + timer * 9)).is_empty());
    assert_eq!(believed(&mut rmp), 1);
}

#[test]
fn an_ack_that_members_only_say_to_know_is_not_asked_for_for_ever() {
    let mut rmp = operational();
    tells(&mut rmp, START, 0, 3);
    assert_eq!(tells(&mut rmp, START, 3, 3), 3);
    let soon = START + rmp.config.silence_max * 2;
    let requests = sent_until(&mut rmp, soon);
    let is_nack = |message: &Message| matches!(message, Message::Nack(_));
    assert!(requests.iter().filter(|it| is_nack(it)).count() > 3);
    assert_eq!(believed(&mut rmp), 1, "what is known here");
    let later = sent_until(&mut rmp, soon + Duration::from_secs(10));
    assert!(!later.iter().any(is_nack), "{later:?}");
    assert_eq!(rmp.counters.malformed, 1);
}

#[test]
fn a_list_of_which_only_an_ack_tells_is_not_asked_for_for_ever() {
    let mut rmp = operational();
    let tag = rmp.state.expect_operational().order.tag;
    let names_another = Message::Ack(Ack {
        again: false,
        issuer: 9,
        next: 1,
        tag,
        stamp: Stamp(5),
        first: Seq(110),
        marks: Marks::default(),
        packets: Vec::new(),
    });
    rmp.handle_datagram(START, member(0), names_another.encode());
    let soon = START + rmp.config.silence_max * 2;
    let is_nack = |message: &Message| matches!(message, Message::Nack(_));
    let requests = sent_until(&mut rmp, soon);
    assert!(requests.iter().filter(|it| is_nack(it)).count() > 3);
    let later = sent_until(&mut rmp, soon + Duration::from_secs(10));
    assert!(!later.iter().any(is_nack), "{later:?}");
    assert_eq!(rmp.counters.malformed, 1);
}
