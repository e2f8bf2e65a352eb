//! Rules of a member of three, one at a time: whom it asks, for whom it waits, whom it leaves out,
//! and what it follows.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::leave::Leave;
use groupcast_core::mech::namesakes::NameMessage;
use groupcast_core::mech::peers::Attempt;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{
    ConfigId, Event, Incarnation, MemberId, Ordered as _, Protocol as _, Rng, Service, Time,
    TransmitBuf,
};

use super::config::RmpConfig;
use super::fixtures::{config, member, order};
use super::numbers::{Number, Packets, Tag};
use super::operational::Operational;
use super::order::Order;
use super::polling::Polling;
use super::wire::{Announcement, Answer, Message, Nack, Poll, Proposal};
use super::{Rmp, State, Timer};
use crate::packing::{Packer, Record};

const NOW: Time = Time::from_millis(2);

/// Member 2 in this configuration, with these settings.
fn in_order(order: Order, settings: RmpConfig) -> Rmp {
    let now = Time::from_millis(1);
    let mut rmp = Rmp::new(settings, member(2), Rng::new(1), now).expect("it is valid");
    rmp.timers.cancel_all();
    rmp.outbox = super::outbox::Outbox::default();
    rmp.state = State::Operational(Operational::new(order).into());
    rmp
}

fn operational() -> Rmp {
    in_order(order(), RmpConfig::lan())
}

fn hears(rmp: &mut Rmp, from: u64, message: &Message) {
    rmp.handle_datagram(NOW, member(from), message.encode());
}

/// What it sends.
fn sent(rmp: &mut Rmp) -> Vec<Message> {
    let (mut buf, mut sent) = (TransmitBuf::new(64, 0, 0), Vec::new());
    while rmp.poll_transmit(NOW, &mut buf).is_some() {
        let bodies = buf.iter().map(Bytes::copy_from_slice);
        sent.extend(bodies.filter_map(|it| Message::decode(&it).ok()));
        buf.clear();
    }
    sent
}

/// Three packets of member 1, which this one has, are asked for.
fn nack() -> Nack {
    Nack {
        whole: false,
        tag: order().tag,
        asked: 2,
        again: 0,
        positions: Vec::new(),
        packets: vec![Packets {
            origin: 1,
            first: Number(1),
            count: 3,
        }],
    }
}

/// A poll for all three.
fn poll(attempt: u64) -> Poll {
    Poll {
        attempt: Attempt(attempt),
        counter: 1,
        wanted: (0..3).map(member).collect(),
        failed: Vec::new(),
        left: Vec::new(),
        heard: vec![member(2)],
    }
}

/// What follows from the first poll of member 0.
fn proposal() -> Proposal {
    let old = config(1);
    Proposal {
        attempt: Attempt(1),
        config: config(2),
        start: Seq(100),
        max_n: 3,
        left: Vec::new(),
        members: (0..3).map(|it| (member(it), old)).collect(),
        sizes: vec![1431; 3],
    }
}

/// An answer to the `attempt`th poll of `poller`.
fn answer(poller: MemberId, attempt: Attempt) -> Message {
    Message::Answer(Answer {
        poller,
        attempt,
        counter: 1,
        body_max: 1431,
        inventory: order().inventory(),
    })
}

fn polling_of(rmp: &Rmp) -> &Polling {
    match &rmp.state {
        State::Polling(polling) => polling,
        other => panic!("it is {}", other.name()),
    }
}

/// Member 0 asks on and on, as fast as this member answers: the others go on without it.
#[test]
fn who_asks_on_and_on_is_left_out() {
    let mut rmp = operational();
    let nack = Message::Nack(nack());
    let trip = rmp.timing.trip().max(rmp.config.timer_min);
    for step in 1..200 {
        let now = NOW + trip * step;
        for _ in 0..20 {
            rmp.handle_datagram(now, member(0), nack.encode());
        }
        sent(&mut rmp);
        if step < 90 {
            assert_eq!(rmp.state.name(), "operational", "after {step} round trips");
        }
    }
    let polling = polling_of(&rmp);
    assert!(polling.failed.contains(&member(0)) && !polling.wanted.contains(&member(0)));
}

#[test]
fn whom_to_ask_goes_from_those_that_issued_acks_to_those_that_issued_none() {
    assert_eq!([0, 1, 2].map(|it| order().asked(it)), [0, 1, 0].map(Some));
    let of_first = |count| {
        let members = (0..count).map(member).collect();
        Order::new(
            config(1),
            members,
            member(0),
            Seq(100),
            1431,
            &RmpConfig::lan(),
        )
    };
    let lonely = [0, 1].map(|it| of_first(3).asked(it));
    assert_eq!(lonely, [Some(1); 2], "nobody else issued one");
    assert_eq!(of_first(1).asked(0), None);
}

/// This member polls, with these settings.
fn polling(settings: RmpConfig) -> Rmp {
    let mut rmp = in_order(order(), settings);
    rmp.poll(NOW, "test", Polling::default());
    rmp
}

/// `from` answers the poll of member 2: whether it is wanted then.
fn is_wanted_with_its_answer(rmp: &mut Rmp, from: MemberId) -> bool {
    let answer = answer(member(2), rmp.peers.attempt);
    rmp.handle_datagram(NOW, from, answer.encode());
    polling_of(rmp).wanted.contains(&from)
}

#[test]
fn who_answers_a_poll_is_wanted_as_long_as_there_is_room() {
    let mut rmp = polling(RmpConfig::lan());
    assert!(is_wanted_with_its_answer(&mut rmp, member(3)));
    let mut full = polling(RmpConfig {
        members_max: 3,
        ..RmpConfig::lan()
    });
    assert!(!is_wanted_with_its_answer(&mut full, member(3)));
    assert!(is_wanted_with_its_answer(&mut full, member(0)));
}

#[test]
fn another_life_takes_the_place_of_a_member_that_has_not_answered() {
    let again = MemberId {
        incarnation: Incarnation(77),
        ..member(0)
    };
    let mut rmp = polling(RmpConfig::lan());
    assert!(is_wanted_with_its_answer(&mut rmp, again));
    assert!(
        !is_wanted_with_its_answer(&mut rmp, member(0)),
        "its time is over"
    );
    let mut rmp = polling(RmpConfig::lan());
    assert!(is_wanted_with_its_answer(&mut rmp, member(0)));
    assert!(!is_wanted_with_its_answer(&mut rmp, again), "it lives");
}

/// Goodbye is heard in every state in which others are waited for.
#[test]
fn nobody_waits_for_a_member_that_said_goodbye() {
    let mut rmp = polling(RmpConfig::lan());
    hears(&mut rmp, 1, &Message::Goodbye);
    let polled = polling_of(&rmp);
    let sets = [&polled.wanted, &polled.failed, &polled.left];
    assert_eq!(sets.map(|it| it.contains(&member(1))), [false, true, true]);
    // It follows a poll that wants all three.
    let mut rmp = operational();
    hears(&mut rmp, 0, &Message::Poll(poll(1)));
    hears(&mut rmp, 1, &Message::Goodbye);
    hears(&mut rmp, 9, &Message::Goodbye);
    let State::Standby(standby) = &rmp.state else {
        panic!("it is {}", rmp.state.name());
    };
    assert!(!standby.wanted.contains(&member(1)));
    assert_eq!(
        standby.left.iter().copied().collect::<Vec<_>>(),
        [member(1)]
    );
    hears(&mut rmp, 0, &Message::Proposal(proposal()));
    hears(&mut rmp, 0, &Message::Goodbye);
    hears(&mut rmp, 9, &Message::Goodbye);
    let State::Recovering(recovering) = &rmp.state else {
        panic!("it is {}", rmp.state.name());
    };
    assert!(recovering.gone.contains(&member(0)) && !recovering.gone.contains(&member(9)));
}

/// The member after the one that left polls at once. This one is not: it waits for that, and no
/// longer when the other says again that it is gone.
#[test]
fn the_others_poll_soon_when_the_next_member_does_not() {
    let mut rmp = operational();
    let start = NOW;
    let end = start + rmp.config.abort_delay_max * 2;
    let mut now = start;
    while now < end {
        rmp.handle_datagram(now, member(0), Message::Goodbye.encode());
        rmp.handle_timeout(now);
        now += Duration::from_millis(5);
    }
    rmp.handle_timeout(end);
    assert_eq!(rmp.state.name(), "polling");
    let mut next = operational();
    hears(&mut next, 1, &Message::Goodbye);
    assert_eq!(next.state.name(), "polling", "at once");
}

#[test]
fn what_is_unreliable_counts_from_members_in_this_configuration_alone() {
    let mut packer = Packer::default();
    packer.push(Record {
        service: Service::Unreliable,
        number: 1,
        payload: Bytes::from_static(b"now"),
    });
    let record = packer.pack(1_000).expect("it fits");
    let (tag, other) = (order().tag, Tag(7));
    for (from, tag, delivered) in [(0, tag, true), (9, tag, false), (0, other, false)] {
        let mut rmp = operational();
        let record = record.clone();
        hears(&mut rmp, from, &Message::Unordered { tag, record });
        let event = rmp.poll_event();
        assert_eq!(matches!(event, Some(Event::Deliver(_))), delivered);
        assert_eq!(rmp.counters.foreign, u64::from(!delivered));
    }
}

/// Before there is a configuration, the first ones wait and the others are dropped.
#[test]
fn unreliable_messages_that_wait_are_bounded() {
    let mut rmp = polling(RmpConfig::lan());
    for _ in 0..300 {
        let said = rmp.submit(NOW, Service::Unreliable, Bytes::from_static(b"now"));
        said.expect("each is taken");
    }
    assert_eq!(rmp.counters.unordered_dropped, 44);
}

/// Members 0 to 4, of which this one is member 2.
fn in_five(settings: RmpConfig) -> Rmp {
    let members = (0..5).map(member).collect();
    let own = Order::new(config(1), members, member(2), Seq(100), 1431, &settings);
    in_order(own, settings)
}

/// It polls, and others answer another poll that it does not hear: two have to.
#[test]
fn a_poller_follows_a_lower_one_that_others_answer() {
    let answered = |poller: u64, failed: bool| {
        let mut rmp = in_five(RmpConfig::lan());
        let mut seed = Polling::default();
        if failed {
            seed.failed.insert(member(poller));
        }
        rmp.poll(NOW, "test", seed);
        let names = [1, 3].map(|from| {
            hears(&mut rmp, from, &answer(member(poller), Attempt(1)));
            rmp.state.name()
        });
        (names, rmp.counters.polls_aborted)
    };
    assert_eq!(answered(0, false), (["polling", "standby"], 1));
    assert_eq!(answered(4, false), (["polling"; 2], 0), "a higher one");
    assert_eq!(answered(0, true), (["polling"; 2], 0), "it is given up");
    let mut rmp = in_five(RmpConfig::lan());
    rmp.poll(NOW, "test", Polling::default());
    let own = rmp.peers.attempt;
    hears(&mut rmp, 0, &answer(member(2), own));
    for from in [1, 3] {
        hears(&mut rmp, from, &answer(member(0), Attempt(1)));
    }
    assert_eq!(rmp.state.name(), "polling", "it has answered this poll");
}

/// Member 0 polls on and on, and this one follows.
#[test]
fn who_polls_on_and_on_is_left_out() {
    let (mut rmp, mut now) = (operational(), NOW);
    let mut attempt = 0;
    while !matches!(rmp.state, State::Polling(_)) {
        attempt += 1;
        let poll = Message::Poll(poll(attempt));
        rmp.handle_datagram(now, member(0), poll.encode());
        sent(&mut rmp);
        now += rmp.config.poll_interval;
        assert!(now < Time::from_millis(20_000), "it follows for ever");
    }
    let longest = (rmp.config.poll_wait + rmp.config.recover_wait) * 2;
    assert!(now.since(NOW) > longest);
    let polling = polling_of(&rmp);
    assert!(polling.failed.contains(&member(0)) && !polling.wanted.contains(&member(0)));
}

/// What it sent is never acknowledged.
#[test]
fn who_cannot_leave_with_the_others_leaves_without_them() {
    let settings = RmpConfig {
        leave_timeout: Duration::from_millis(50),
        ..RmpConfig::lan()
    };
    let mut rmp = in_order(order(), settings);
    let said = rmp.submit(NOW, Service::Safe, Bytes::from_static(b"words"));
    said.expect("there is room");
    rmp.leave(NOW);
    let mut now = NOW;
    while matches!(rmp.state, State::Operational(_)) {
        now = rmp.poll_timeout().expect("it goes on");
        rmp.handle_timeout(now);
    }
    assert_eq!(now, NOW + Duration::from_millis(50));
    let polling = polling_of(&rmp);
    assert_eq!(polling.failed.len(), 2, "{polling:?}");
    assert!(polling.failed.contains(&member(0)) && polling.failed.contains(&member(1)));
    while rmp.state.name() != "left" {
        assert!(now < Time::from_millis(2_000), "it does not leave");
        now = rmp.poll_timeout().expect("it goes on");
        rmp.handle_timeout(now);
    }
}

/// Member 7 is in a group of two, which hears this one.
fn announces(rmp: &mut Rmp) {
    let group = Announcement {
        config: config(5),
        members: vec![member(7), member(8)],
        heard: vec![member(2)],
    };
    hears(rmp, 7, &Message::Announcement(group));
}

#[test]
fn groups_come_together_where_there_is_room_for_both() {
    for (members_max, polls) in [(5, true), (4, false)] {
        let settings = RmpConfig {
            members_max,
            ..RmpConfig::lan()
        };
        let mut rmp = in_order(order(), settings.clone());
        announces(&mut rmp);
        let wanted = matches!(&rmp.state, State::Polling(it) if it.wanted.contains(&member(7)));
        assert_eq!(wanted, polls, "{members_max}, operational");
        let mut rmp = polling(settings);
        announces(&mut rmp);
        let wanted = polling_of(&rmp).wanted.contains(&member(7));
        assert_eq!(wanted, polls, "{members_max}, polling");
    }
}

/// Its name is its own as long as it has company.
#[test]
fn another_of_its_name_is_told_of_in_a_group_and_asked_for_a_proof_alone() {
    let other = MemberId {
        incarnation: Incarnation(99),
        ..member(2)
    };
    let in_use = Message::Name(NameMessage::InUse {
        uptime_ms: u64::MAX,
    });
    let asked = |rmp: &mut Rmp| {
        rmp.handle_datagram(NOW, other, in_use.encode());
        let question = |it: &Message| matches!(it, Message::Name(NameMessage::Question { .. }));
        (
            sent(rmp).iter().filter(|it| question(it)).count(),
            rmp.poll_event(),
        )
    };
    let contested = Event::NameContested { other };
    assert_eq!(asked(&mut operational()), (0, Some(contested)));
    let lan = RmpConfig::lan();
    let alone = Order::new(config(1), vec![member(2)], member(2), Seq(100), 1431, &lan);
    assert_eq!(asked(&mut in_order(alone, lan)), (1, None));
}

#[test]
fn a_leaver_that_is_never_taken_off_the_list_says_goodbye() {
    let mut rmp = in_five(RmpConfig::lan());
    rmp.begin_leave(NOW);
    assert_eq!(
        rmp.timers.due(Timer::Lists),
        Some(NOW + rmp.config.poll_interval)
    );
    for _ in 1..16 {
        rmp.ask_to_leave(NOW);
    }
    let asks = |rmp: &mut Rmp| {
        let said = sent(rmp);
        let count = |of: fn(&&Message) -> bool| said.iter().filter(of).count();
        [
            count(|it| matches!(it, Message::Leave { .. })),
            count(|it| matches!(it, Message::Goodbye)),
        ]
    };
    assert_eq!(asks(&mut rmp), [16, 0]);
    rmp.ask_to_leave(NOW);
    assert_eq!(asks(&mut rmp), [0, 1]);
    assert!(rmp.leaving.as_ref().is_some_and(Leave::said_goodbye));
}

/// A member that was in no configuration yet comes from its own, of the counter 0.
#[test]
fn a_proposal_names_a_new_member_as_one_that_comes_from_nowhere() {
    let own = |counter, of| ConfigId {
        counter,
        representative: member(of),
    };
    for (from, state) in [
        (own(0, 2), "recovering"),
        (own(5, 2), "standby"),
        (own(0, 0), "standby"),
    ] {
        let rmp = Rmp::new(RmpConfig::lan(), member(2), Rng::new(1), NOW);
        let mut rmp = rmp.expect("it is valid");
        hears(&mut rmp, 0, &Message::Poll(poll(1)));
        assert_eq!(rmp.state.name(), "standby");
        let mut proposal = proposal();
        proposal.members[2].1 = from;
        hears(&mut rmp, 0, &Message::Proposal(proposal));
        assert_eq!(rmp.state.name(), state, "{from:?}");
    }
}

/// The proposer alone installs what is accepted, and only of those that it proposed.
#[test]
fn strangers_end_no_recovery_and_install_nothing() {
    let mut rmp = operational();
    hears(&mut rmp, 0, &Message::Poll(poll(1)));
    hears(&mut rmp, 0, &Message::Proposal(proposal()));
    for from in [0, 1] {
        hears(&mut rmp, from, &answer(member(0), Attempt(1)));
    }
    let State::Recovering(recovering) = &rmp.state else {
        panic!("it is {}", rmp.state.name());
    };
    assert!(recovering.complete, "nothing is missing");
    hears(&mut rmp, 9, &Message::Install { config: config(2) });
    assert_eq!(rmp.state.name(), "recovering");
    hears(&mut rmp, 0, &Message::Install { config: config(2) });
    assert_eq!(rmp.state.name(), "operational");
    // At the proposer, a stranger that accepts something else ends nothing.
    let mut rmp = polling(RmpConfig::lan());
    let attempt = rmp.peers.attempt;
    for from in [0, 1] {
        hears(&mut rmp, from, &answer(member(2), attempt));
    }
    assert_eq!(rmp.state.name(), "recovering");
    hears(&mut rmp, 9, &Message::Accept { config: config(77) });
    assert_eq!(rmp.state.name(), "recovering");
    hears(&mut rmp, 0, &Message::Accept { config: config(77) });
    assert_eq!(rmp.state.name(), "standby", "it goes along with another");
}
