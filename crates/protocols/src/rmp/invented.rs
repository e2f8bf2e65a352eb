//! Members that do not exist, as a holder of the key names them to one of ours.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use groupcast_core::mech::peers::{Attempt, Peers};
use groupcast_core::mech::seq::Seq;
use groupcast_core::{MemberId, Protocol as _, Rng, Time, TransmitBuf};

use super::fixtures::{config, member};
use super::operational::Operational;
use super::order::Order;
use super::wire::{Announcement, Message, Poll};
use super::{Rmp, RmpConfig, State};

/// Member 5,000 in a configuration with these.
fn together_with(others: impl Iterator<Item = u64>) -> Rmp {
    let lan = RmpConfig::lan();
    let now = Time::from_millis(1);
    let local = member(5_000);
    let mut rmp = Rmp::new(lan.clone(), local, Rng::new(1), now).expect("it is valid");
    let mut members: Vec<MemberId> = others.map(member).chain([local]).collect();
    members.sort_unstable();
    let order = Order::new(config(1), members, local, Seq(100), 1_431, &lan);
    rmp.state = State::Operational(Operational::new(order).into());
    rmp
}

/// Lets `rmp` run until `end`. What it sends.
fn run_to(rmp: &mut Rmp, end: Time) -> Vec<Message> {
    let mut sent = Vec::new();
    loop {
        let mut buf = TransmitBuf::new(64, 0, 0);
        while rmp.poll_transmit(end, &mut buf).is_some() {
            let bodies = buf.iter().map(|it| it.to_vec().into());
            sent.extend(bodies.map(|it| Message::decode(&it).expect("it is ours")));
            buf.clear();
        }
        match rmp.poll_timeout().filter(|due| *due <= end) {
            Some(due) => rmp.handle_timeout(due),
            None => return sent,
        }
    }
}

/// Each process that is named is polled for, and excluded when it does not answer.
#[test]
fn members_that_are_not_there_do_not_keep_one_that_is_excluded_from_being_probed() {
    let mut rmp = together_with([].into_iter());
    let mut now = Time::from_millis(10);
    for teller in 1..=10 {
        let invented = (1..=100).map(|it| member(teller * 100_000 + it));
        let announcement = Announcement {
            config: config(5),
            members: [member(teller)].into_iter().chain(invented).collect(),
            heard: [rmp.local].into(),
        };
        let body = Message::Announcement(announcement).encode();
        rmp.handle_datagram(now, member(teller), body);
        now += rmp.config.poll_wait * 3;
        run_to(&mut rmp, now);
        assert!(matches!(rmp.state, State::Operational(_)));
    }
    assert!(rmp.probes.asks(member(100_015)), "one that is not there");
    // One that is there, and is excluded.
    let real = member(7);
    rmp.peers.note_heard(now, real);
    assert!(rmp.peers.quarantine(now, real, rmp.config.quarantines()));
    rmp.accuse(now, real);
    assert!(rmp.probes.asks(real));
    let later = now + rmp.config.quarantine_min * 2;
    assert!(rmp.peers.is_quarantined(later, real), "until it answers");
}

#[test]
fn a_poll_that_names_more_than_there_is_room_for_has_no_member_left_out() {
    let others = [4_000, 6_000, 7_000];
    let mut rmp = together_with([1].into_iter().chain(others));
    let now = Time::from_millis(10);
    let poll = Poll {
        attempt: Attempt(1),
        counter: 1,
        wanted: (1..=600).map(member).chain([rmp.local]).collect(),
        failed: Vec::new(),
        left: Vec::new(),
        heard: Vec::new(),
    };
    rmp.handle_datagram(now, member(1), Message::Poll(poll).encode());
    assert!(matches!(rmp.state, State::Standby(_)));
    // Nothing is heard of it any more: this member polls itself.
    let end = now + rmp.config.poll_wait;
    let sent = run_to(&mut rmp, end);
    let polls = sent.iter().filter_map(|it| match it {
        Message::Poll(poll) => Some(poll.wanted.iter().copied().collect::<BTreeSet<_>>()),
        _ => None,
    });
    let wanted = polls.last().expect("it polls");
    assert!(wanted.len() <= rmp.config.members_max.min(Peers::MAX));
    let all = [1, 5_000].into_iter().chain(others).map(member);
    assert!(all.into_iter().all(|it| wanted.contains(&it)), "{wanted:?}");
}
