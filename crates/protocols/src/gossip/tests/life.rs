//! Gaps, stability, joining late, leaving, failing, zones, and the first phase along trees.

use alloc::boxed::Box;
use alloc::vec::Vec;

use groupcast_core::{Event, NodeId, Ordered, Protocol, Service, SubmitError, Time};

use super::super::round::RoundNumber;
use super::super::wire::{Gossip as Digest, Heartbeat, Message, SelfDescription};
use super::super::{Dissemination, GossipConfig, Hierarchy, Variant};
use super::script::{Script, id, message};

fn quiet() -> GossipConfig {
    GossipConfig {
        announce_every: None,
        ..GossipConfig::lan()
    }
}

#[test]
fn what_nobody_can_repair_is_a_gap_one_round_after_it_is_stable_and_a_late_copy_is_dropped() {
    let mut script = Script::new("AB", |_| GossipConfig {
        stable_threshold: 3,
        ..quiet()
    });
    script.submit('A', "1");
    script.arrives = Box::new(|_, to, what| to == 'A' && what != "data A2");
    script.submit('A', "2");
    script.arrives = Box::new(|_, _, what| !what.starts_with("gossip"));
    script.submit('A', "3");
    assert_eq!(script.told('B'), ["A1"]);
    for _ in 0..3 {
        script.round('B');
    }
    assert_eq!(script.told('B'), [""; 0]);
    script.round('B');
    assert_eq!(script.told('B'), ["gap A2..2", "A3"]);
    assert_eq!(script.member('B').counters().gaps, 1);
    assert!(script.members[&'A'].holds(message('A', 2)));
    let late = Message::Request {
        round: RoundNumber(0),
        id: message('A', 2),
    };
    script.forge('B', 'A', &late);
    assert_eq!(script.told('B'), [""; 0]);
    assert_eq!(script.member('B').counters().late, 1);
}

#[test]
fn a_message_is_gossiped_about_for_its_rounds_and_then_stable() {
    let mut script = Script::new("AB", |_| GossipConfig {
        stable_threshold: 2,
        stability_notices: true,
        ..quiet()
    });
    script.submit('A', "1");
    script.submit('A', "2");
    for _ in 0..2 {
        script.round('A');
        assert!(script.members[&'A'].holds(message('A', 1)));
    }
    script.round('A');
    assert!(!script.members[&'A'].holds(message('A', 1)));
    assert_eq!(script.told('A'), ["A1", "A2", "stable A2"]);
    let gossips: Vec<_> = script
        .said()
        .into_iter()
        .filter(|line| line.contains("gossip"))
        .collect();
    assert!(gossips.len() == 3 && gossips.iter().all(|line| line.ends_with("A1..2")));
    script.round('A');
    assert!(
        script.said()[0].ends_with("gossip 4"),
        "nothing is left to gossip about"
    );
}

#[test]
fn who_joins_late_begins_where_messages_can_still_be_had() {
    let mut script = Script::new("ABC", |_| GossipConfig {
        stable_threshold: 3,
        ..quiet()
    });
    // C is there but hears nothing until message 6: as if it began then.
    script.arrives = Box::new(|_, to, _| to != 'C');
    for round in 0..5 {
        script.submit('A', "early");
        if round < 4 {
            script.round('A');
        }
    }
    script.arrives = Box::new(|_, _, _| true);
    script.submit('A', "late");
    assert_eq!(script.told('C'), [""; 0], "it may be that more can be had");
    for _ in 0..6 {
        script.round('A');
        script.round('B');
        script.round('C');
    }
    let told = script.told('C');
    // A's first gossip after that still knew of messages 2 to 6 or of fewer.
    let first: u64 = told[0][1..].parse().expect("a delivery comes first");
    assert!((2..=6).contains(&first), "{told:?}");
    assert_eq!(told.len() as u64, 7 - first);
}

#[test]
fn who_heard_the_sender_before_its_first_message_owes_an_account_of_all() {
    let mut script = Script::new("AB", |_| GossipConfig {
        stable_threshold: 2,
        ..quiet()
    });
    script.round('A');
    script.arrives = Box::new(|_, _, what| what == "data A2");
    script.submit('A', "1");
    script.submit('A', "2");
    for _ in 0..4 {
        script.round('B');
    }
    assert_eq!(script.told('B'), ["gap A1..1", "A2"]);
}

#[test]
fn a_last_message_that_nobody_gossiped_of_is_reported_once_its_sender_is_heard() {
    let mut script = Script::new("AB", |_| GossipConfig {
        stable_threshold: 2,
        ..quiet()
    });
    script.round('A');
    script.arrives = Box::new(|_, _, _| false);
    script.submit('A', "1");
    (0..5).for_each(|_| script.round('A'));
    script.arrives = Box::new(|_, _, _| true);
    script.round('A');
    (0..3).for_each(|_| script.round('B'));
    assert_eq!(script.told('B'), ["gap A1..1"]);
}

#[test]
fn strangers_find_each_other_by_joins_and_who_says_good_bye_is_forgotten() {
    let mut script = Script::new("AB", |_| quiet());
    let late = {
        let mut other = Script::new("C", |_| quiet());
        other.members.remove(&'C').expect("it was made")
    };
    for _ in 0..6 {
        script.round_of_all();
    }
    script.members.insert('C', late);
    script.round('C');
    for (who, others) in [('A', "BC"), ('B', "AC"), ('C', "AB")] {
        let view: Vec<_> = script.members[&who].view().collect();
        assert_eq!(view, others.chars().map(id).collect::<Vec<_>>());
    }
    script.submit('C', "last words");
    script.member('C').leave(Time::ZERO);
    let refused = script
        .member('C')
        .submit(Time::ZERO, Service::Fifo, "no".into());
    assert_eq!(refused, Err(SubmitError::Leaving));
    // It stays until its message is stable, says so, and is gone a round later.
    let rounds = (0..30).take_while(|_| {
        script.round('C');
        script.member('C').poll_timeout().is_some()
    });
    assert_eq!(rounds.count(), 12);
    assert!(script.told('C').last().is_some_and(|it| it == "Left"));
    assert_eq!(script.members[&'A'].view().collect::<Vec<_>>(), [id('B')]);
    assert_eq!(script.told('A'), ["C1"]);
}

#[test]
fn who_is_silent_for_long_has_failed_unless_others_hear_it() {
    let mut script = Script::new("ABC", |_| GossipConfig {
        fail_rounds: 60,
        ..quiet()
    });
    // C cannot be heard by A, but B says that it lives.
    script.arrives = Box::new(|from, to, _| (from, to) != ('C', 'A'));
    for _ in 0..200 {
        script.round_of_all();
    }
    assert_eq!(script.members[&'A'].view().count(), 2);
    script.members.remove(&'C');
    for _ in 0..200 {
        script.round_of_all();
    }
    assert_eq!(script.members[&'A'].view().collect::<Vec<_>>(), [id('B')]);
    assert_eq!(script.member('A').counters().failed, 1);
}

/// How many members each of twelve took for failed in ten minutes, the one that crashed after the
/// first six seconds among them, if that one told another one `lie` of everybody else's heartbeat.
fn failed_after(lie: Option<Heartbeat>, fail_rounds: u32) -> Vec<u64> {
    let names = "ABCDEFGHIJKL";
    let mut script = Script::new(names, |_| GossipConfig {
        fail_rounds,
        ..quiet()
    });
    for _ in 0..60 {
        script.round_of_all();
    }
    if let Some(heartbeat) = lie {
        let others = names.chars().filter(|name| !"BL".contains(*name));
        let about = SelfDescription {
            heartbeat: Heartbeat(61),
            zone: 0,
            link: false,
            sent: 0,
        };
        let gossip = Message::Gossip(Digest {
            round: RoundNumber(61),
            about,
            alive: others.map(|name| (id(name), heartbeat)).collect(),
            digest: Vec::new(),
        });
        script.forge('L', 'B', &gossip);
    }
    script.members.remove(&'L');
    for _ in 0..6_000 {
        script.round_of_all();
        script.said();
    }
    let members = script.members.values();
    members.map(|member| member.counters().failed).collect()
}

/// Without what others say, each of the twelve would miss another one for this long about once in
/// fifty spans.
#[test]
fn one_false_word_of_anothers_heartbeat_does_not_make_members_that_live_look_dead() {
    for lie in [None, Some(Heartbeat(u64::MAX)), Some(Heartbeat(100))] {
        assert_eq!(failed_after(lie, 40), [1; 11], "{lie:?}");
    }
}

#[test]
fn in_a_hierarchy_gossip_stays_at_home_but_for_the_links() {
    // Zones ABC and DEF, links A and D.
    let names = "ABCDEF";
    let mut script = Script::new(names, |who| GossipConfig {
        zone: u32::from(who > 'C'),
        hierarchy: Some(Hierarchy {
            link: who == 'A' || who == 'D',
            remote_every: 2,
        }),
        variant: Variant::Basic,
        ..quiet()
    });
    for _ in 0..4 {
        script.round_of_all();
    }
    script.said();
    script.arrives =
        Box::new(|from, to, what| !what.starts_with("data") || (from <= 'C') == (to <= 'C'));
    script.submit('B', "M1");
    for _ in 0..10 {
        script.round_of_all();
    }
    let crossing = script.said().into_iter().filter(|line| {
        let at = |index: usize| line.as_bytes()[index];
        line.contains("gossip") && (at(0) <= b'C') != (at(5) <= b'C')
    });
    let crossing: Vec<_> = crossing.collect();
    assert_eq!(crossing.len(), 10);
    assert!(
        crossing
            .iter()
            .all(|line| line.starts_with("A -> D") || line.starts_with("D -> A"))
    );
    for who in names.chars() {
        assert_eq!(script.told(who), ["B1"], "at {who}");
    }
}

#[test]
fn along_a_tree_each_member_gets_a_message_once() {
    let names = "ABCDEFGHIJ";
    let mut script = Script::new(names, |_| GossipConfig {
        dissemination: Dissemination::Trees {
            trees: 4,
            arity: 2,
            seed: 3,
        },
        ..quiet()
    });
    for text in ["1", "2", "3"] {
        script.submit('D', text);
    }
    let copies = script
        .said()
        .iter()
        .filter(|line| line.contains("data"))
        .count();
    assert_eq!(copies, 3 * 9);
    for who in names.chars() {
        assert_eq!(script.told(who), ["D1", "D2", "D3"]);
        assert_eq!(script.member(who).counters().duplicates, 0);
    }
}

#[test]
fn a_pause_is_one_round_and_not_many() {
    let mut script = Script::new("AB", |_| quiet());
    let start = Time::from_millis(5_000);
    let member = script.member('A');
    member.handle_timeout(start);
    assert_eq!(member.round(), 1);
    assert_eq!(member.poll_timeout(), Some(Time::from_millis(5_100)));
}

#[test]
fn a_full_queue_refuses_and_says_when_there_is_room() {
    let mut script = Script::new("A", |_| GossipConfig {
        message_max: 1000,
        queue_max: 1000,
        ..quiet()
    });
    let member = script.member('A');
    let payload = bytes::Bytes::from(alloc::vec![0; 600]);
    assert!(
        member
            .submit(Time::ZERO, Service::Fifo, payload.clone())
            .is_ok()
    );
    let refused = member.submit(Time::ZERO, Service::Fifo, payload);
    assert!(matches!(refused, Err(SubmitError::Full { .. })));
    let wrong = member.submit(Time::ZERO, Service::Agreed, "x".into());
    assert!(matches!(wrong, Err(SubmitError::Unsupported { .. })));
    let mut buf = groupcast_core::TransmitBuf::new(4, 0, 0);
    assert!(member.poll_transmit(Time::ZERO, &mut buf).is_some());
    let events: Vec<_> = core::iter::from_fn(|| member.poll_event()).collect();
    assert!(events.contains(&Event::Writable));
    assert_eq!(member.local().node, NodeId(65));
}
