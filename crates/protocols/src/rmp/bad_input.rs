//! What a member may not say changes nothing: ACKs that contradict the order, marks out of all
//! proportion, proposals of others, polls that are over; and requests without end are answered
//! within bounds.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::mech::peers::{Attempt, Peers};
use groupcast_core::mech::seq::Seq;
use groupcast_core::{
    ConfigId, MemberId, Ordered as _, Protocol as _, Rng, Service, Time, TransmitBuf,
};

use super::config::RmpConfig;
use super::fixtures::{member, order};
use super::numbers::{Marks, Number, Packets, Stamp};
use super::operational::Operational;
use super::order::{Heard, Packet};
use super::wire::{Ack, Answer, Data, Message, Missing, Nack, Poll, Proposal, Relayed, Wanted};
use super::{Rmp, State};

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
    for (ack, heard) in [
        (not_the_token_site, Heard::Malformed),
        (leaves_a_hole, Heard::Malformed),
        (out_of_proportion, Heard::Malformed),
        // A list that was not heard here may name them.
        (stranger, Heard::Beyond),
        (for_a_stranger, Heard::Beyond),
        (of_a_stranger, Heard::Beyond),
    ] {
        let mut order = order();
        assert_eq!(order.take_ack(&ack), heard, "{ack:?}");
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
fn packets_of_a_sender_get_positions_in_their_order_and_none_that_was_forgotten_again() {
    let skips = Ack {
        packets: vec![Packets {
            origin: 1,
            first: Number(2),
            count: 1,
        }],
        ..first(1)
    };
    let mut order = order();
    assert_eq!(order.take_ack(&skips), Heard::Malformed, "1 is before 2");
    assert_eq!(order.take_ack(&first(3)), Heard::Newest);
    for index in [0, 1] {
        let marks = Marks {
            known: Number(3),
            ready: Seq(103),
        };
        order.note_marks(index, marks);
    }
    order.deliver(&mut |_| {});
    order.discard();
    assert_eq!(order.places.base(), 104, "all is forgotten");
    let again = Ack {
        issuer: 1,
        next: 2,
        stamp: Stamp(2),
        first: Seq(104),
        ..first(2)
    };
    assert_eq!(order.take_ack(&again), Heard::Malformed, "forgotten");
    let stale = order.take_ack(&first(3));
    assert_eq!((stale, order.top.last), (Heard::Older, Seq(103)));
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
    let packet = Packet {
        version: 0,
        body: Bytes::from_static(b"late"),
    };
    order.insert(1, Number(4), packet);
    assert!(order.has_token());
}

/// Member 2 of three, operational; member 0 has the token, and member 1 has sent three packets.
fn operational() -> Rmp {
    let now = Time::from_millis(1);
    let mut rmp = Rmp::new(RmpConfig::lan(), member(2), Rng::new(1), now).expect("it is valid");
    rmp.timers.cancel_all();
    rmp.outbox = super::outbox::Outbox::default();
    rmp.state = State::Operational(Operational::new(order()).into());
    rmp
}

fn hears(rmp: &mut Rmp, from: u64, message: &Message) {
    rmp.handle_datagram(Time::from_millis(2), member(from), message.encode());
}

fn datagrams(rmp: &mut Rmp) -> usize {
    let (mut buf, mut sent) = (TransmitBuf::new(16, 0, 0), 0);
    while rmp.poll_transmit(Time::from_millis(2), &mut buf).is_some() {
        sent += buf.iter().count();
        buf.clear();
    }
    sent
}

#[test]
fn a_flood_of_requests_is_answered_as_far_as_a_round_trip_can_use_it() {
    let mut rmp = operational();
    let nack = Message::Nack(Nack {
        whole: false,
        tag: order().tag,
        asked: 2,
        again: 0,
        positions: Vec::new(),
        packets: first(3).packets,
    });
    (0..1_000).for_each(|_| hears(&mut rmp, 0, &nack));
    assert!(datagrams(&mut rmp) <= 51, "seventeen times three");
    assert!(rmp.counters.nacks_refused >= 980);
    hears(&mut rmp, 9, &nack);
    assert_eq!(rmp.counters.malformed, 1, "a stranger");
}

#[test]
fn questions_for_marks_are_answered_within_the_same_bound_and_name_whom_they_like() {
    let mut rmp = operational();
    let wanted = |asked| {
        Message::Wanted(Wanted {
            tag: order().tag,
            asked,
            again: 0,
            members: (0..=255).collect(),
        })
    };
    hears(&mut rmp, 0, &wanted(1));
    hears(&mut rmp, 9, &wanted(2));
    assert_eq!((datagrams(&mut rmp), rmp.counters.malformed), (0, 1));
    (0..1_000).for_each(|_| hears(&mut rmp, 0, &wanted(2)));
    let sent = datagrams(&mut rmp);
    assert!((1..=48).contains(&sent), "{sent} answers");
}

#[test]
fn marks_that_another_member_tells_count_as_far_as_they_can_be_true() {
    let mut rmp = operational();
    let tell = |rmp: &mut Rmp, from, index, known, ready| {
        let marks = Marks {
            known: Number(known),
            ready: Seq(ready),
        };
        let relayed = Relayed {
            tag: order().tag,
            members: vec![(index, marks)],
        };
        hears(rmp, from, &Message::Relayed(relayed));
        let sites = &rmp.state.expect_operational().order.sites;
        [0, 1, 2].map(|site| sites[site].marks.known.0)
    };
    assert_eq!(tell(&mut rmp, 9, 1, 3, 101), [0, 0, 0], "of a stranger");
    assert_eq!(tell(&mut rmp, 0, 3, 3, 101), [0, 0, 0], "about a stranger");
    assert_eq!(tell(&mut rmp, 0, 2, 3, 101), [0, 0, 0], "about this member");
    assert_eq!(tell(&mut rmp, 0, 1, 1 << 40, 101), [0, 0, 0], "too far");
    assert_eq!(tell(&mut rmp, 0, 1, 3, 1 << 40), [0, 0, 0], "too far");
    assert_eq!(rmp.counters.malformed, 2);
    assert_eq!(tell(&mut rmp, 0, 1, 3, 101), [0, 3, 0]);
    assert_eq!(tell(&mut rmp, 0, 1, 2, 100), [0, 3, 0], "older");
}

/// A poll for all three.
fn poll(attempt: u64) -> Message {
    Message::Poll(Poll {
        attempt: Attempt(attempt),
        counter: 1,
        wanted: (0..3).map(member).collect(),
        failed: Vec::new(),
        left: Vec::new(),
        heard: vec![member(2)],
    })
}

/// What follows from the `attempt`th poll: a configuration of `members`.
fn proposal_of(attempt: u64, representative: u64, members: &[u64]) -> Message {
    let old = order().id;
    Message::Proposal(Proposal {
        attempt: Attempt(attempt),
        config: ConfigId {
            counter: 1 + attempt,
            representative: member(representative),
        },
        start: Seq(100),
        max_n: 3,
        left: Vec::new(),
        members: members.iter().map(|it| (member(*it), old)).collect(),
        sizes: vec![1431; members.len()],
    })
}

#[test]
fn who_may_not_propose_accept_or_install_changes_nothing() {
    let mut rmp = operational();
    let proposal = |representative, members: &[u64]| proposal_of(1, representative, members);
    hears(&mut rmp, 0, &proposal(0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "operational", "nobody polled");
    hears(&mut rmp, 0, &poll(1));
    assert_eq!(rmp.state.name(), "standby");
    for (from, bad) in [
        (1, proposal(1, &[0, 1, 2])),
        (0, proposal(1, &[0, 1, 2])),
        (0, proposal(0, &[0, 1])),
    ] {
        hears(&mut rmp, from, &bad);
        assert_eq!(rmp.state.name(), "standby", "{bad:?}");
    }
    assert_eq!(rmp.counters.malformed, 3);
    hears(&mut rmp, 0, &proposal(0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "recovering");
    let config = ConfigId {
        counter: 2,
        representative: member(0),
    };
    hears(&mut rmp, 9, &Message::Install { config });
    assert_eq!(rmp.state.name(), "recovering");
}

/// What a member declared before it recovered, others may still have; it holds more now. A poll of
/// then that comes again, and its proposal, are over.
#[test]
fn who_has_recovered_answers_no_poll_again_that_it_answered_before() {
    let mut rmp = operational();
    hears(&mut rmp, 0, &poll(1));
    hears(&mut rmp, 0, &proposal_of(1, 0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "recovering");
    hears(&mut rmp, 1, &poll(1));
    assert_eq!(rmp.state.name(), "standby", "a newer poll");
    datagrams(&mut rmp);
    hears(&mut rmp, 0, &poll(1));
    assert_eq!((datagrams(&mut rmp), rmp.counters.polls_stale), (0, 1));
    hears(&mut rmp, 0, &proposal_of(1, 0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "standby");
    hears(&mut rmp, 0, &poll(2));
    assert_eq!(datagrams(&mut rmp), 1, "what it holds now");
    hears(&mut rmp, 0, &proposal_of(2, 0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "recovering");
}

/// What others said is told on, in a datagram that is longer than the one that was heard.
#[test]
fn nothing_is_heard_that_is_too_long_to_be_told_on() {
    let mut rmp = operational();
    hears(&mut rmp, 0, &poll(1));
    let Message::Proposal(proposal) = proposal_of(1, 0, &[0, 2]) else {
        unreachable!("it is one");
    };
    let left: Vec<MemberId> = (10..10 + 4083).map(member).collect();
    let long = Proposal {
        left,
        ..proposal.clone()
    };
    hears(&mut rmp, 0, &Message::Proposal(long));
    let missing = Message::Missing(Missing {
        poller: member(0),
        attempt: Attempt(1),
        member: member(0),
        accepts: true,
    });
    hears(&mut rmp, 0, &missing);
    // As with a key, and the longest prefix.
    let mut buf = TransmitBuf::new(1, 25, 16);
    while rmp.poll_transmit(Time::from_millis(2), &mut buf).is_some() {
        buf.clear();
    }
    assert_eq!((rmp.state.name(), rmp.counters.malformed), ("standby", 1));
    let longest = Message::Proposal(Proposal {
        left: (200..200 + Peers::MAX as u64).map(member).collect(),
        members: (0..128).map(|it| (member(it), order().id)).collect(),
        sizes: vec![1431; 128],
        ..proposal
    });
    let body = longest.encode();
    assert_eq!(Message::decode(&body), Ok(longest));
    assert!(body.len() < TransmitBuf::BYTES_MAX / 4);
}

/// A datagram is as long as its sender's and each receiver's way carries: no longer one is made
/// because a proposer says so.
#[test]
fn a_proposal_of_longer_datagrams_than_this_member_sends_is_refused() {
    let mut rmp = operational();
    hears(&mut rmp, 0, &poll(1));
    let Message::Proposal(proposal) = proposal_of(1, 0, &[0, 1, 2]) else {
        unreachable!("it is one");
    };
    let long = Proposal {
        sizes: vec![u16::MAX; 3],
        ..proposal
    };
    hears(&mut rmp, 0, &Message::Proposal(long));
    assert_eq!((rmp.state.name(), rmp.counters.malformed), ("standby", 1));
    hears(&mut rmp, 0, &proposal_of(1, 0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "recovering");
}

#[test]
fn packets_are_of_members_of_others_and_no_longer_than_may_be() {
    let mut rmp = operational();
    let data = |origin, number, len| {
        Message::Data(Data {
            again: true,
            origin,
            tag: order().tag,
            number: Number(number),
            version: 0,
            marks: Marks::default(),
            body: vec![0; len].into(),
        })
    };
    let kept = |rmp: &mut Rmp| {
        let sites = &rmp.state.expect_operational().order.sites;
        [0, 1, 2].map(|site| sites[site].packets.high())
    };
    let longest = RmpConfig::records_max(1431);
    hears(&mut rmp, 9, &data(1, 4, 6));
    hears(&mut rmp, 0, &data(2, 1, 6));
    hears(&mut rmp, 1, &data(1, 4, longest + 1));
    assert_eq!((kept(&mut rmp), rmp.counters.malformed), ([0, 3, 0], 3));
    hears(&mut rmp, 0, &data(1, 4, longest));
    assert_eq!((kept(&mut rmp), rmp.counters.malformed), ([0, 4, 0], 3));
}

/// An ACK that was lost comes after the one of the last message: the places of all are known then.
#[test]
fn an_ack_that_comes_late_settles_what_this_member_said() {
    let mut rmp = operational();
    let said = rmp.submit(
        Time::from_millis(2),
        Service::Agreed,
        Bytes::from_static(b"a few words"),
    );
    said.expect("there is room");
    let newest = Ack {
        issuer: 1,
        next: 0,
        stamp: Stamp(2),
        first: Seq(104),
        packets: vec![Packets {
            origin: 2,
            first: Number(1),
            count: 1,
        }],
        ..first(3)
    };
    hears(&mut rmp, 1, &Message::Ack(newest));
    assert!(!rmp.queue.is_settled(), "a list may stand before it");
    let late = Ack {
        again: true,
        ..first(3)
    };
    hears(&mut rmp, 0, &Message::Ack(late));
    assert!(rmp.queue.is_settled());
}

/// A list was lost on the way to this member, which learns of it from an ACK of the newcomer: that
/// one's repairs and requests are no bug.
#[test]
fn what_a_newcomer_says_is_foreign_to_a_member_that_misses_its_list() {
    let mut rmp = operational();
    let repair = Message::Data(Data {
        again: true,
        origin: 1,
        tag: order().tag,
        number: Number(4),
        version: 0,
        marks: Marks::default(),
        body: vec![0; 6].into(),
    });
    let nack = Message::Nack(Nack {
        whole: false,
        tag: order().tag,
        asked: 2,
        again: 1,
        positions: Vec::new(),
        packets: first(3).packets,
    });
    let counted = |rmp: &Rmp| (rmp.counters.malformed, rmp.counters.foreign);
    hears(&mut rmp, 3, &repair);
    hears(&mut rmp, 3, &nack);
    assert_eq!(counted(&rmp), (2, 0), "nothing tells of a list");
    let of_the_newcomer = Ack {
        issuer: 3,
        next: 1,
        stamp: Stamp(2),
        first: Seq(102),
        packets: Vec::new(),
        ..first(1)
    };
    hears(&mut rmp, 3, &Message::Ack(of_the_newcomer));
    assert_eq!(counted(&rmp), (2, 0));
    hears(&mut rmp, 3, &repair);
    hears(&mut rmp, 3, &nack);
    assert_eq!(counted(&rmp), (2, 2));
}

/// What was said in a reformation, asked for again and again.
#[test]
fn questions_for_what_others_said_are_answered_within_the_same_bound() {
    let mut rmp = operational();
    hears(&mut rmp, 0, &poll(1));
    datagrams(&mut rmp);
    let ask = Message::Ask {
        poller: member(0),
        attempt: 1,
    };
    (0..1_000).for_each(|_| hears(&mut rmp, 0, &ask));
    let sent = datagrams(&mut rmp);
    assert!((1..=48).contains(&sent), "{sent} answers");
    assert_eq!(rmp.counters.nacks_refused, 1_000 - sent as u64);
    hears(&mut rmp, 0, &proposal_of(1, 0, &[0, 1, 2]));
    assert_eq!(rmp.state.name(), "recovering");
    datagrams(&mut rmp);
    let missing = |member_of| {
        Message::Missing(Missing {
            poller: member(0),
            attempt: Attempt(1),
            member: member(member_of),
            accepts: member_of == 0,
        })
    };
    for wanted in [0, 2] {
        (0..1_000).for_each(|_| hears(&mut rmp, 1, &missing(wanted)));
    }
    let sent = datagrams(&mut rmp);
    assert!((1..=48).contains(&sent), "{sent} answers");
    hears(&mut rmp, 9, &missing(0));
    assert_eq!(datagrams(&mut rmp), 0, "a stranger");
}

/// Each answer is a multicast.
#[test]
fn one_poller_is_answered_as_often_as_it_needs() {
    let mut rmp = operational();
    (1..1_000).for_each(|attempt| hears(&mut rmp, 0, &poll(attempt)));
    let sent = datagrams(&mut rmp);
    assert!((1..=64).contains(&sent), "{sent} answers");
    // A lower poller, and an honest one.
    let mut higher = operational();
    higher.poll(Time::from_millis(2), "test", super::Polling::default());
    datagrams(&mut higher);
    let Message::Poll(of_all) = poll(1) else {
        unreachable!("it is one");
    };
    for attempt in 1..1_000 {
        let poll = Poll {
            attempt: Attempt(attempt),
            ..of_all.clone()
        };
        hears(&mut higher, 3, &Message::Poll(poll));
    }
    let sent = datagrams(&mut higher);
    assert!(sent <= 64, "{sent} polls");
}

/// Member 0 says of each proposal of this one that it has accepted another.
#[test]
fn who_accepts_another_proposal_each_time_is_left_out() {
    let mut rmp = operational();
    let mut now = Time::from_millis(2);
    rmp.poll(now, "test", super::Polling::default());
    let (mut proposals, end) = (0, Time::from_millis(10_000));
    while now < end && !matches!(rmp.state, State::Operational(_)) {
        let attempt = rmp.peers.attempt;
        match &rmp.state {
            State::Polling(polling) => {
                let wanted: Vec<u64> = [0, 1]
                    .into_iter()
                    .filter(|it| polling.wanted.contains(&member(*it)))
                    .collect();
                for from in wanted {
                    let answer = Message::Answer(Answer {
                        poller: member(2),
                        attempt,
                        counter: 1,
                        body_max: 1431,
                        inventory: order().inventory(),
                    });
                    rmp.handle_datagram(now, member(from), answer.encode());
                }
            }
            State::Recovering(recovering) => {
                let (config, liar) = (recovering.id(), recovering.has(member(0)));
                proposals += 1;
                if liar {
                    let other = ConfigId {
                        counter: 1 << 40,
                        representative: member(0),
                    };
                    let accept = Message::Accept { config: other };
                    rmp.handle_datagram(now, member(0), accept.encode());
                } else {
                    let accept = Message::Accept { config };
                    rmp.handle_datagram(now, member(1), accept.encode());
                }
            }
            _ => {}
        }
        if matches!(rmp.state, State::Polling(_) | State::Standby(_)) {
            now = rmp.poll_timeout().expect("it goes on");
            rmp.handle_timeout(now);
        }
        datagrams(&mut rmp);
    }
    assert_eq!((rmp.state.name(), proposals), ("operational", 9));
    let order = &rmp.state.expect_operational().order;
    assert_eq!(order.members, [member(1), member(2)]);
    assert!(now < Time::from_millis(2_000), "{now:?}");
}
