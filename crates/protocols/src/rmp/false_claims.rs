//! What a member with the key may say, and cannot be true, is not believed where that can be seen;
//! and where it cannot, nobody waits for ever for what follows from it.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::peers::Attempt;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{Event, Protocol as _, Rng, Service, Time};

use super::catching_up::comes_from;
use super::config::RmpConfig;
use super::fixtures::{config, member};
use super::numbers::{Marks, Number, Packets, Stamp};
use super::operational::Operational;
use super::order::{Heard, Order, Packet};
use super::plan::Plan;
use super::polling::Polling;
use super::wire::{
    Ack, Answer, Data, Declared, Inventory, List, ListAck, Message, Passed, Poll, Proposal, Start,
};
use super::{Rmp, State};
use crate::packing::{Packer, Record};

/// The order of member 2 of three, whose positions begin above `start`; member 1 has sent four
/// packets, and nothing is ordered.
fn order_above(start: u64) -> Order {
    let members = (0..3).map(member).collect();
    let lan = RmpConfig::lan();
    let mut order = Order::new(config(1), members, member(2), Seq(start), 1431, &lan);
    for number in 1..=4 {
        let packet = Packet {
            version: 0,
            body: Bytes::from_static(b"packet"),
        };
        order.insert(1, Number(number), packet);
    }
    order
}

/// An ACK for packet `number` of `origin`, at position `seq`; they are issued in turn.
fn ack(stamp: u64, seq: u64, origin: u8, number: u64) -> Ack {
    Ack {
        again: false,
        issuer: ((stamp - 1) % 3) as u8,
        next: (stamp % 3) as u8,
        tag: order_above(0).tag,
        stamp: Stamp(stamp),
        first: Seq(seq),
        marks: Marks::default(),
        packets: vec![Packets {
            origin,
            first: Number(number),
            count: 1,
        }],
    }
}

/// Packets 1 to `count` of member 1 stand from 101 on.
fn ordered(count: u64) -> Order {
    let mut order = order_above(100);
    for number in 1..=count {
        let ack = ack(number, 100 + number, 1, number);
        assert_eq!(order.take_ack(&ack), Heard::Newest);
    }
    order
}

#[test]
fn an_older_ack_gives_out_no_position_above_the_newest() {
    let mut order = ordered(2);
    let forged = Ack {
        stamp: Stamp(1),
        ..ack(1, 110, 1, 4)
    };
    assert_eq!(order.take_ack(&forged), Heard::Malformed);
    // The token site does, and is believed.
    assert_eq!(order.take_ack(&ack(3, 103, 1, 3)), Heard::Newest);
    assert_eq!(order.take_ack(&ack(4, 104, 1, 4)), Heard::Newest);
    assert_eq!(order.held, Seq(104));
}

#[test]
fn no_packet_that_has_no_place_gets_one_that_is_forgotten() {
    let mut order = ordered(2);
    for index in [0, 1] {
        let marks = Marks {
            known: Number(2),
            ready: Seq(102),
        };
        order.note_marks(index, marks);
    }
    order.deliver(&mut |_| {});
    order.discard();
    assert_eq!(order.places.base(), 103);
    let forged = Ack {
        stamp: Stamp(1),
        ..ack(1, 101, 1, 3)
    };
    assert_eq!(order.take_ack(&forged), Heard::Malformed);
    assert_eq!(order.take_ack(&ack(3, 103, 1, 3)), Heard::Newest);
}

#[test]
fn an_ack_at_no_position_says_nothing_of_others() {
    let mut order = ordered(1);
    // Member 9 may be in a list that was not heard.
    let forged = Ack {
        issuer: 9,
        ..ack(5, 0, 1, 2)
    };
    assert_eq!(order.take_ack(&forged), Heard::Beyond);
    assert_eq!(order.heard_of, Seq(100));
    assert_eq!(order.take_ack(&ack(1, 0, 1, 2)), Heard::Malformed);
}

/// Member 0 lets member 7 in, at position 101; it says that it sent `cut` packets before.
fn joins(cut: u64) -> ListAck {
    ListAck {
        ack: Ack {
            next: 3,
            packets: Vec::new(),
            ..ack(1, 101, 0, 1)
        },
        list: List {
            version: 1,
            config: config(2),
            max_n: 4,
            cut: Number(cut),
            gone: List::NOBODY,
            ring: vec![0, 3, 1, 2],
            roster: [0, 1, 2, 7].map(member).to_vec(),
            sizes: vec![1431; 4],
            floor: Seq(100),
            starts: vec![Start::default(); 3],
        },
    }
}

#[test]
fn a_list_has_a_timestamp_and_a_place_near_the_newest() {
    let mut far = joins(0);
    far.ack.stamp = Stamp(1 << 40);
    far.ack.first = Seq(102);
    assert_eq!(order_above(100).take_list(&far), Heard::Malformed);
    let mut order = ordered(1);
    let mut older = joins(0);
    older.ack.first = Seq(105);
    assert_eq!(order.take_list(&older), Heard::Malformed);
}

fn passed(cuts: [u64; 4]) -> Passed {
    Passed {
        from: config(1),
        at: Seq(101),
        gone: None,
        cuts: cuts.map(Number).to_vec(),
    }
}

#[test]
fn who_catches_up_declares_nothing_that_it_was_told_falsely_of_a_list() {
    let mut order = order_above(100);
    assert_eq!(order.take_list(&joins(1 << 40)), Heard::Newest);
    let honest = passed([0, 4, 0, 0]);
    assert!(order.catch_up(&honest, &mut |_| {}));
    assert_eq!(order.id, config(2));
    assert_eq!(order.lists.passed, Some(honest), "as the others say");
    assert_eq!(order.inventory().members[0].early, Number(0));
    // And if all have been told so: it declares what it can bring.
    let mut order = order_above(100);
    assert_eq!(order.take_list(&joins(1 << 40)), Heard::Newest);
    order.take_cuts(&passed([1 << 40, 4, 0, 0]).cuts);
    order.pass(&mut |_| {});
    let declared = order.inventory().members;
    assert_eq!(
        [declared[0].early, declared[1].early],
        [Number(0), Number(4)]
    );
}

#[test]
fn a_newcomer_says_nothing_of_the_configuration_before_its_list() {
    let mut order = order_above(100);
    assert_eq!(order.take_list(&joins(0)), Heard::Newest);
    for (index, cut) in [(1, 4), (2, 0), (3, 1 << 40)] {
        order.note_cut(index, 1, Number(cut));
    }
    order.deliver(&mut |_| {});
    assert!(!order.lacks_cuts());
    order.pass(&mut |_| {});
    assert_eq!(order.lists.passed, Some(passed([0, 4, 0, 0])));
}

#[test]
fn a_list_that_cannot_have_been_passed_is_not_looked_for() {
    let mut order = order_above(100);
    assert_eq!(order.take_list(&joins(0)), Heard::Newest);
    let packets_far = passed([1 << 46, 4, 0, 0]);
    let list_far = Passed {
        at: Seq(1 << 46),
        ..passed([0, 4, 0, 0])
    };
    for claim in [&packets_far, &list_far] {
        assert!(!order.may_be(claim) && !order.catch_up(claim, &mut |_| {}));
    }
    assert!(order.may_be(&passed([0, 4, 0, 0])));
}

#[test]
fn who_left_with_a_list_does_not_come_from_behind_it() {
    let mut behind = inventory(104, 104);
    behind.holding.config = config(2);
    behind.passed = Some(Passed {
        gone: Some(member(1)),
        ..passed([0, 4, 0, 0])
    });
    let own = inventory(104, 104);
    let all = [own.clone(), behind];
    let of = |it| comes_from(member(it), &own, &all);
    assert_eq!((of(0), of(1)), (config(2), config(1)));
}

/// Position 101 is not known; member 0 let member 7 in at 102.
#[test]
fn no_list_is_passed_before_all_in_front_of_it_is_held() {
    let mut order = order_above(100);
    let mut list = joins(0);
    list.ack.stamp = Stamp(2);
    list.ack.first = Seq(102);
    assert_eq!(order.take_list(&list), Heard::Newest);
    let at = |at| Passed {
        at: Seq(at),
        ..passed([0, 4, 0, 0])
    };
    for claim in [at(101), at(102)] {
        assert!(!order.catch_up(&claim, &mut |_| {}), "{claim:?}");
    }
    assert_eq!(order.id, config(1));
    let nack = order.request_to_list(&at(102), 0, 1_000);
    assert_eq!((nack.again, nack.positions.len()), (255, 1));
    assert_eq!(nack.positions[0].first, Seq(101));
}

/// What it delivers early in front of the list is told, and an own one is not sent again.
#[test]
fn who_catches_up_delivers_what_the_others_did_in_front_of_the_list() {
    let record = |number| Record {
        service: Service::Reliable,
        number,
        payload: vec![7].into(),
    };
    let body = |number| {
        let mut packer = Packer::default();
        packer.push(record(number));
        packer.pack(1431).expect("it fits")
    };
    let members = (0..3).map(member).collect();
    let lan = RmpConfig::lan();
    let mut order = Order::new(config(1), members, member(2), Seq(100), 1431, &lan);
    let packet = |number| Packet {
        version: 0,
        body: body(number),
    };
    order.insert(1, Number(1), packet(5));
    order.insert(2, Number(1), packet(7));
    assert_eq!(order.take_list(&joins(0)), Heard::Newest);
    let mut delivered = Vec::new();
    let mut tell = |event| {
        if let Event::Deliver(delivery) = event {
            delivered.push(delivery.id.number);
        }
    };
    assert!(
        !order.catch_up(&passed([0, 2, 1, 0]), &mut tell),
        "a packet is missing"
    );
    let nack = order.request_to_list(&passed([0, 2, 1, 0]), 0, 3);
    assert!(nack.positions.is_empty());
    let missing = Packets {
        origin: 1,
        first: Number(2),
        count: 1,
    };
    assert_eq!((nack.again, nack.packets), (3, vec![missing]));
    assert!(order.catch_up(&passed([0, 1, 1, 0]), &mut tell));
    assert_eq!(delivered, [5, 7]);
    assert_eq!(order.lists.own_early, [7]);
}

/// A declaration of a member of the configuration of `order_above`.
fn inventory(aru: u64, safe: u64) -> Inventory {
    Inventory {
        holding: Holding {
            config: config(1),
            aru: Seq(aru),
            high: Seq(aru),
            safe: Seq(safe),
            obligations: Indices::default(),
        },
        max_n: 3,
        members: vec![Declared::default(); 3],
        passed: None,
        size: None,
        held: Vec::new(),
    }
}

#[test]
fn nothing_is_forgotten_that_one_who_goes_along_lacks() {
    let mut order = ordered(4);
    let marks = Marks {
        known: Number(4),
        ready: Seq(100),
    };
    order.note_marks(1, marks);
    order.deliver(&mut |_| {});
    assert_eq!(order.cursor.delivered(), Seq(104));
    let inventories = BTreeMap::from([
        (member(0), inventory(104, 104)),
        (member(1), inventory(101, 100)),
        (member(2), order.inventory()),
    ]);
    let plan = Plan::new(&inventories, member(2), &mut order, &mut |_| {});
    assert_eq!(plan.closing.safe, Seq(101));
    assert_eq!(order.places.base(), 102, "member 1 will ask for the others");
}

#[test]
fn a_member_that_says_that_it_lacks_all_is_not_counted_up_to() {
    let mut order = order_above(1 << 46);
    let inventories =
        BTreeMap::from([(member(0), inventory(0, 0)), (member(2), order.inventory())]);
    let plan = Plan::new(&inventories, member(2), &mut order, &mut |_| {});
    assert!(plan.together.held.is_empty() && plan.lacks(&order).is_empty());
}

/// Member 2 of three, operational.
fn operational() -> Rmp {
    let now = Time::from_millis(1);
    let mut rmp = Rmp::new(RmpConfig::lan(), member(2), Rng::new(1), now).expect("it is valid");
    rmp.timers.cancel_all();
    rmp.outbox = super::outbox::Outbox::default();
    rmp.state = State::Operational(Operational::new(ordered(2)).into());
    rmp
}

/// Member 0 polls, and proposes all three. Members 0 and 1 hold up to 103, as they say, and bring
/// nothing of that; one `brings` something else. Time goes on until this member ends the recovery.
fn recovers_in_vain(rmp: &mut Rmp, attempt: u64, now: &mut Time, brings: bool) {
    let attempt = Attempt(attempt);
    let hears = |rmp: &mut Rmp, now: Time, from: u64, message: &Message| {
        rmp.handle_datagram(now, member(from), message.encode());
    };
    let poll = Message::Poll(Poll {
        attempt,
        counter: 1,
        wanted: (0..3).map(member).collect(),
        failed: Vec::new(),
        left: Vec::new(),
        heard: vec![member(2)],
    });
    hears(rmp, *now, 0, &poll);
    for from in [0, 1] {
        let answer = Message::Answer(Answer {
            poller: member(0),
            attempt,
            counter: 1,
            body_max: 1431,
            inventory: inventory(103, 100),
        });
        hears(rmp, *now, from, &answer);
    }
    let proposal = Message::Proposal(Proposal {
        attempt,
        config: config(1 + attempt.0),
        start: Seq(103),
        max_n: 3,
        left: Vec::new(),
        members: (0..3).map(|it| (member(it), config(1))).collect(),
        sizes: vec![1431; 3],
    });
    hears(rmp, *now, 0, &proposal);
    if brings {
        let packet = Message::Data(Data {
            again: true,
            origin: 0,
            tag: order_above(0).tag,
            number: Number(attempt.0),
            version: 0,
            marks: Marks::default(),
            body: Bytes::from_static(b"packet"),
        });
        hears(rmp, *now, 0, &packet);
    }
    while let State::Recovering(recovering) = &rmp.state {
        assert!(!recovering.complete, "it lacks 103");
        *now = rmp.poll_timeout().expect("it goes on");
        rmp.handle_timeout(*now);
    }
}

#[test]
fn a_member_to_which_nobody_brings_what_it_lacks_goes_on_alone() {
    let (mut rmp, mut now) = (operational(), Time::from_millis(2));
    for attempt in 1..3 {
        recovers_in_vain(&mut rmp, attempt, &mut now, false);
        assert_eq!(rmp.state.name(), "standby", "others may bring it yet");
    }
    while rmp.poll_event().is_some() {}
    recovers_in_vain(&mut rmp, 3, &mut now, false);
    assert_eq!(rmp.state.name(), "operational");
    let mut configurations = Vec::new();
    while let Some(event) = rmp.poll_event() {
        if let Event::Configuration(it) = event {
            configurations.push((it.id == config(1), it.members));
        }
    }
    let alone = vec![member(2)];
    assert_eq!(configurations, [(true, alone.clone()), (false, alone)]);
}

#[test]
fn a_member_to_which_something_is_brought_waits_for_the_rest() {
    let (mut rmp, mut now) = (operational(), Time::from_millis(2));
    for attempt in 1..9 {
        recovers_in_vain(&mut rmp, attempt, &mut now, true);
        assert_eq!(rmp.state.name(), "standby");
    }
}

/// A member that polls says where those that answer come from. One that claims to have passed a
/// list behind this member's configuration, and to be in an older one, makes nobody come from
/// there.
#[test]
fn who_is_in_an_older_configuration_has_passed_no_list_behind_this_one() {
    let (mut rmp, mut now) = (operational(), Time::from_millis(2));
    rmp.poll(now, "a member is gone", Polling::default());
    let older = Inventory {
        holding: Holding {
            config: config(0),
            ..inventory(103, 100).holding
        },
        passed: Some(passed([0; 4])),
        size: Some(3),
        ..inventory(103, 100)
    };
    let answer = Message::Answer(Answer {
        poller: member(2),
        attempt: rmp.peers.attempt,
        counter: 1,
        body_max: 1431,
        inventory: older,
    });
    rmp.handle_datagram(now, member(0), answer.encode());
    while now < Time::from_millis(5_000) {
        now = rmp.poll_timeout().expect("it goes on");
        rmp.handle_timeout(now);
    }
    assert_eq!(
        (rmp.counters.malformed, rmp.state.name()),
        (1, "operational")
    );
}
