//! Recovery, visit by visit. Method: a member in recovery gets the forming ring's token as a test
//! wants it, and what it passes on is read.

use alloc::vec;

use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::{ConfigId, Ordered as _, Protocol as _, Rng, Service, TransmitBuf};

use super::*;
use crate::ring::numbers::Attempt;
use crate::ring::ordering::tests::{hold, member, order};
use crate::ring::wire::{CommitMember, Message, OldMarks};

const NOW: Time = Time::from_millis(5);
/// The highest that any member holds of its old ring.
const START: Seq = Seq(140);

fn forming() -> ConfigId {
    ConfigId {
        counter: 2,
        representative: member(0),
    }
}

/// A commit token by which three members of one old ring form another. They hold all up to 101;
/// what is above, up to 140, some of them hold.
fn commit() -> Commit {
    let old = order(3, 0).id;
    let part = |index| CommitMember {
        member: member(index),
        attempt: Attempt::default(),
        body_max: 1_431,
        holding: Some(Holding {
            config: old,
            aru: Seq(101 + index as u64),
            high: START,
            safe: Seq(100),
            obligations: Indices::default(),
        }),
    };
    Commit {
        hop: Default::default(),
        ring: forming(),
        left: Vec::new(),
        members: (0..3).map(part).collect(),
        marks: Vec::new(),
    }
}

/// The member at `me`, in recovery, with these packets of the old ring.
fn recovering(me: u16, held: impl IntoIterator<Item = u64>) -> Ring {
    recovering_by(&commit(), me, held)
}

fn recovering_by(commit: &Commit, me: u16, held: impl IntoIterator<Item = u64>) -> Ring {
    let config = RingConfig::lan();
    let local = member(me.into());
    let mut ring = Ring::new(config, local, Rng::new(1), Time::ZERO).expect("valid");
    let mut old = order(3, me);
    hold(&mut old, held);
    let recovery = Recovery::new(commit, local, Some(old), &ring.claims, &ring.config);
    ring.state = State::Recovery(recovery.into());
    while sent(&mut ring).is_some() {}
    ring
}

/// The messages of the next send.
fn sent(ring: &mut Ring) -> Option<Vec<Message>> {
    let mut buf = TransmitBuf::new(64, 0, 0);
    ring.poll_transmit(NOW, &mut buf)?;
    let decode = |body: &[u8]| Message::decode(&body.to_vec().into()).expect("it is ours");
    Some(buf.iter().map(decode).collect())
}

/// The token visits; the data that is sent, and the token that is passed on.
fn visit(ring: &mut Ring, token: &Token) -> (Vec<Data>, Token) {
    ring.recovery_token(NOW, token.clone());
    let (mut data, mut passed) = (Vec::new(), None);
    for message in core::iter::from_fn(|| sent(ring)).flatten() {
        match message {
            Message::Data(packet) => data.push(packet),
            Message::Token(token) => passed = Some(token),
            _ => {}
        }
    }
    (data, passed.expect("it is passed on"))
}

fn first_token(ring: &mut Ring) -> Token {
    ring.state.expect_recovery().ordering.first_token()
}

fn recovered(ring: &mut Ring, seq: u64, from: u16, old: Recovered) -> Data {
    Data {
        ring: ring.state.expect_recovery().ordering.tag(),
        seq: Seq(seq),
        post_token: false,
        packet: Packet {
            origin: Index(from),
            round: Round::default(),
            recovered: Some(old),
            body: "old".into(),
        },
    }
}

#[test]
fn the_end_is_set_when_nothing_is_left_at_two_visits_in_a_row() {
    let mut ring = recovering(1, []);
    let token = first_token(&mut ring);
    for (backlog, end) in [
        (0, None),
        (3, None),
        (0, None),
        (1, None),
        (0, None),
        (0, Some(START)),
    ] {
        let token = Token {
            backlog,
            ..token.clone()
        };
        assert_eq!(visit(&mut ring, &token).1.install, end);
    }
    let set = Token {
        seq: START.plus(2),
        install: Some(START),
        ..token
    };
    assert_eq!(visit(&mut ring, &set).1.install, Some(START), "it stays");
}

#[test]
fn the_ring_is_installed_when_all_held_all_at_two_visits_in_a_row() {
    let mut ring = recovering(1, []);
    let token = first_token(&mut ring);
    let end = |install| Token {
        install,
        backlog: 1,
        ..token.clone()
    };
    let behind = Token {
        aru: Seq(START.0 - 1),
        ..end(Some(START))
    };
    for token in [
        end(None),
        end(None),
        end(None),
        end(Some(START)),
        behind,
        end(Some(START)),
    ] {
        assert!(!visit(&mut ring, &token).1.installed);
        assert!(matches!(ring.state, State::Recovery(_)));
    }
    let (_, passed) = visit(&mut ring, &end(Some(START)));
    assert!(passed.installed);
    assert_eq!(ring.configuration(), Some(forming()));
    assert_eq!(ring.counters.configurations, 1);
}

#[test]
fn what_was_counted_in_a_ring_stays_counted_when_the_next_one_is_installed() {
    let mut ring = recovering(1, []);
    let old = ring.state.installed_mut().expect("it comes from one");
    old.streams.malformed = 3;
    assert_eq!(ring.status().counters.malformed, 3);
    ring.install(NOW);
    assert_eq!(ring.configuration(), Some(forming()));
    assert_eq!(ring.status().counters.malformed, 3);
}

#[test]
fn one_visit_of_a_token_that_all_hold_installs_nothing_unless_another_has() {
    for installed in [false, true] {
        let mut ring = recovering(1, []);
        let token = Token {
            install: Some(START),
            installed,
            ..first_token(&mut ring)
        };
        visit(&mut ring, &token);
        assert_eq!(matches!(ring.state, State::Operational(_)), installed);
    }
    // Nobody can have installed what has no end.
    let mut ring = recovering(1, []);
    let endless = Token {
        installed: true,
        ..first_token(&mut ring)
    };
    visit(&mut ring, &endless);
    assert!(matches!(ring.state, State::Recovery(_)));
}

#[test]
fn what_was_noted_while_rings_failed_to_form_ends_with_one_that_is_installed() {
    let installing = || {
        let ring = recovering(1, []);
        let token = Token {
            install: Some(START),
            installed: true,
            ..order(3, 0).first_token()
        };
        (ring, token)
    };
    let (mut ring, _) = installing();
    let too_often = (1..).find(|_| ring.reach.note_unacknowledged(member(2)));
    let (mut ring, token) = installing();
    for _ in 1..too_often.expect("in the end") {
        assert!(!ring.reach.note_unacknowledged(member(2)));
    }
    ring.peers.note_counter(1_000);
    ring.recovery_token(NOW, token);
    assert!(!ring.reach.note_unacknowledged(member(2)));
    assert_eq!(ring.peers.counter(), forming().counter);
}

/// Without that the second quarantine of the member would be four times as long.
#[test]
fn members_of_a_ring_that_is_installed_are_well_from_then_on() {
    let mut ring = recovering(1, []);
    let lengths = ring.config.quarantines();
    for excluded in [member(2), member(7)] {
        ring.peers.quarantine(Time::ZERO, excluded, lengths);
    }
    ring.install(NOW);
    let again = NOW + lengths.min * 8;
    for (excluded, longer) in [(member(2), false), (member(7), true)] {
        ring.peers.quarantine(again, excluded, lengths);
        let lasts = ring.peers.is_quarantined(again + lengths.min, excluded);
        assert_eq!(lasts, longer, "{excluded:?}");
    }
}

#[test]
fn a_ring_without_a_majority_reports_what_waited_for_one_as_lost_and_takes_no_more() {
    for (max_n, lost) in [(5, false), (6, true)] {
        let mut commit = commit();
        let other = ConfigId {
            counter: 9,
            ..order(3, 1).id
        };
        commit.marks = vec![OldMarks {
            ring: other,
            max_n,
            marks: vec![Seq(100); 3],
        }];
        let mut ring = recovering_by(&commit, 1, []);
        let submit = |ring: &mut Ring, service| ring.submit(NOW, service, "x".into());
        for service in [Service::Majority, Service::Agreed, Service::Majority] {
            submit(&mut ring, service).expect("there is room");
        }
        let token = Token {
            install: Some(START),
            installed: true,
            ..first_token(&mut ring)
        };
        ring.recovery_token(NOW, token);
        let events = core::iter::from_fn(|| ring.poll_event());
        let numbers: Vec<u64> = events
            .filter_map(|event| match event {
                Event::Gap(gap) => Some(gap.first),
                Event::Deliver(delivery) => Some(delivery.id.number),
                _ => None,
            })
            .collect();
        // At once: they do not go round with the others first.
        assert_eq!(numbers, if lost { vec![1, 3, 2] } else { vec![] });
        assert_eq!(submit(&mut ring, Service::Majority).is_err(), lost);
    }
}

/// The member has the least gap and knows of 100 alone that all hold it; others have the largest.
/// There was room for 65,536 numbers, and settings allowed gaps of 1,048,576.
#[test]
fn there_is_room_for_all_that_members_with_the_largest_gap_may_hold() {
    let mut commit = commit();
    let last = Seq(100).plus(CLAIMED_MOST);
    for part in &mut commit.members[1..] {
        part.holding.as_mut().expect("it was declared").high = last;
    }
    let mut ring = recovering_by(&commit, 0, []);
    for (seq, comes) in [(last, true), (last.next(), false)] {
        let old = Recovered {
            seq,
            origin: Index(1),
            part: None,
        };
        let packet = recovered(&mut ring, last.0 + 1, 1, old);
        let recovery = ring.state.expect_recovery();
        assert!(recovery.has_room_for(&packet));
        recovery.handle_recovered(&packet);
        let old = recovery.old.as_ref().expect("there was one");
        assert_eq!(old.window.get(seq).is_some(), comes, "nobody has more");
    }
}

#[test]
fn a_member_that_cannot_receive_is_left_out_of_recovery_too() {
    let mut ring = recovering(1, []);
    let packet = recovered(
        &mut ring,
        START.0 + 1,
        0,
        Recovered {
            seq: Seq(120),
            origin: Index(0),
            part: None,
        },
    );
    ring.handle_data(NOW, member(0), packet);
    let token = Token {
        seq: START.next(),
        aru_by: Some(Index(2)),
        ..first_token(&mut ring)
    };
    let patience = ring.config.fail_to_receive;
    ring.recovery_token(NOW, token.clone());
    assert!(matches!(ring.state, State::Recovery(_)));
    ring.recovery_token(NOW + patience, token);
    let gather = ring.state.expect_gather();
    assert!(gather.fail.contains(&member(2)));
}

#[test]
fn who_lacks_a_packet_installs_nothing_whatever_others_have_done() {
    let mut ring = recovering(1, []);
    let installed = Token {
        seq: START.next(),
        aru: START.next(),
        install: Some(START.next()),
        installed: true,
        ..first_token(&mut ring)
    };
    for _ in 0..3 {
        visit(&mut ring, &installed);
        assert!(matches!(ring.state, State::Recovery(_)));
    }
    let packet = recovered(
        &mut ring,
        START.0 + 1,
        2,
        Recovered {
            seq: Seq(120),
            origin: Index(0),
            part: None,
        },
    );
    ring.handle_data(NOW, member(0), packet);
    visit(&mut ring, &installed);
    assert_eq!(ring.configuration(), Some(forming()));
}

#[test]
fn who_says_that_it_holds_all_is_obliged_to_those_that_go_along() {
    let mut ring = recovering(1, []);
    let token = first_token(&mut ring);
    let bound = |ring: &mut Ring| {
        let old = ring.state.expect_recovery().old.as_ref();
        old.expect("there was one").obligations.bits()
    };
    let later = Token {
        seq: START.next(),
        install: Some(START.next()),
        ..token.clone()
    };
    for without in [token.clone(), later] {
        visit(&mut ring, &without);
        assert_eq!(bound(&mut ring), 0);
    }
    let held = Token {
        install: Some(START),
        ..token
    };
    visit(&mut ring, &held);
    assert_eq!(bound(&mut ring), 0b111);
}

#[test]
fn what_others_may_lack_is_sent_again_a_window_at_a_visit_and_the_rest_is_said() {
    let mut ring = recovering(1, 101..=120);
    let window = u64::from(ring.flow.limits().personal);
    let left = 19 - window;
    let first = Token {
        backlog: 7,
        ..first_token(&mut ring)
    };
    let (data, passed) = visit(&mut ring, &first);
    assert_eq!(passed.backlog, 7 + left as u32);
    assert_eq!(passed.seq, START.plus(window));
    let old: Vec<_> = data.iter().filter_map(|it| it.packet.recovered).collect();
    let expected = (102..102 + window).map(|seq| Recovered {
        seq: Seq(seq),
        origin: Index(0),
        part: None,
    });
    assert_eq!(old, expected.collect::<Vec<_>>(), "all hold 101");
    let (data, passed) = visit(&mut ring, &passed);
    assert_eq!((data.len() as u64, passed.backlog), (left, 7));
    assert_eq!(ring.counters.visits, 2);
    let recovery = ring.state.expect_recovery();
    assert_eq!(recovery.ordering.cursor.delivered(), START.plus(19));
}

#[test]
fn what_another_has_sent_again_is_kept_and_not_sent() {
    let mut ring = recovering(1, [102, 103]);
    let place = |seq, origin| Recovered {
        seq: Seq(seq),
        origin: Index(origin),
        part: None,
    };
    let of_no_member = recovered(&mut ring, START.0 + 3, 2, place(103, 3));
    for packet in [
        recovered(&mut ring, START.0 + 1, 2, place(102, 0)),
        recovered(&mut ring, START.0 + 2, 0, place(104, 2)),
        of_no_member,
        recovered(&mut ring, START.0 + 4, 3, place(105, 0)),
    ] {
        ring.handle_data(NOW, member(0), packet);
    }
    let recovery = ring.state.expect_recovery();
    assert_eq!(Vec::from_iter(recovery.queue.iter().copied()), [Seq(103)]);
    let old = recovery.old.as_ref().expect("there was one");
    let kept = old.window.get(Seq(104)).expect("it is kept");
    assert_eq!((kept.origin, kept.recovered), (Index(2), None));
    assert!(old.window.get(Seq(105)).is_none(), "no member sent it");
}

/// The old packet at `seq`, of these bytes, as member `from` re-originates it in parts of at most
/// `most`, from `first` on.
fn in_parts(
    ring: &mut Ring,
    (from, first): (u16, u64),
    seq: u64,
    body: &Bytes,
    most: usize,
) -> Vec<Data> {
    let mut data = Vec::new();
    for ((part, body), at) in cut(body, most).zip(first..) {
        let place = Recovered {
            seq: Seq(seq),
            origin: Index(0),
            part: Some(part),
        };
        let mut packet = recovered(ring, at, from, place);
        packet.packet.body = body;
        data.push(packet);
    }
    data
}

#[test]
fn parts_come_whole_however_each_member_cuts() {
    let body = Bytes::from(vec![7; 3_000]);
    for (ours, theirs) in [(700, 1_000), (1_403, 228), (228, 1_403)] {
        let mut ring = recovering(1, []);
        let mut first = in_parts(&mut ring, (0, START.0 + 1), 104, &body, ours);
        let behind = START.0 + 1 + first.len() as u64;
        let others = in_parts(&mut ring, (2, behind), 104, &body, theirs);
        // The one stops before its last part.
        first.pop();
        for packet in first.into_iter().chain(others) {
            ring.handle_data(NOW, member(0), packet);
        }
        let recovery = ring.state.expect_recovery();
        let old = recovery.old.as_ref().expect("there was one");
        let kept = old.window.get(Seq(104)).map(|it| &it.body);
        assert_eq!(kept, Some(&body));
        assert!(recovery.partial.is_empty());
    }
}

#[test]
fn what_cannot_be_of_an_honest_member_is_not_kept() {
    let mut ring = recovering(1, [103]);
    let body = Bytes::from(vec![7; 3_000]);
    let mut packets = in_parts(&mut ring, (2, START.0 + 1), 104, &body, 227);
    packets.truncate(10);
    packets.extend(in_parts(
        &mut ring,
        (2, START.0 + 11),
        START.0 + 1,
        &body,
        700,
    ));
    let high = Recovered {
        seq: START.next(),
        origin: Index(0),
        part: None,
    };
    packets.push(recovered(&mut ring, START.0 + 16, 2, high));
    for packet in packets {
        ring.handle_data(NOW, member(0), packet);
    }
    let recovery = ring.state.expect_recovery();
    assert_eq!(recovery.ordering.window.aru(), START.plus(16), "it came");
    assert!(recovery.partial.is_empty());
    let old = recovery.old.as_ref().expect("there was one");
    assert!(old.window.get(START.next()).is_none());
}

#[test]
fn who_holds_a_packet_sends_it_when_another_does_not_go_on_with_its_parts() {
    let body = Bytes::from(vec![7; 3_000]);
    let mut ring = recovering(1, [102]);
    let parts = in_parts(&mut ring, (2, START.0 + 1), 102, &body, 1_000);
    let token = first_token(&mut ring);
    let at = |seq| Token {
        seq: Seq(START.0 + seq),
        aru: Seq(START.0 + seq),
        ..token.clone()
    };
    let come = |ring: &mut Ring, part: &Data| ring.handle_data(NOW, member(2), part.clone());
    come(&mut ring, &parts[0]);
    let (data, passed) = visit(&mut ring, &at(1));
    assert_eq!((data.len(), passed.backlog), (0, 1), "another sends it");
    come(&mut ring, &parts[1]);
    assert_eq!(visit(&mut ring, &at(2)).0.len(), 0, "it goes on");
    // A part is on its way.
    assert_eq!(
        visit(
            &mut ring,
            &Token {
                aru: START.plus(2),
                ..at(3)
            }
        )
        .0
        .len(),
        0
    );
    let mut again = parts[1].clone();
    again.seq = START.plus(3);
    come(&mut ring, &again);
    let (data, passed) = visit(&mut ring, &at(3));
    let sent: Vec<_> = data.iter().filter_map(|it| it.packet.recovered).collect();
    assert_eq!((sent.len(), passed.backlog), (1, 0));
    assert_eq!((sent[0].seq, sent[0].part), (Seq(102), None));
}

/// Which parts came before others decides what such a member brings, so it is left out.
#[test]
fn a_member_whose_parts_contradict_each_other_is_left_out() {
    let body = Bytes::from(vec![7; 3_000]);
    let longer = Bytes::from(vec![7; 3_001]);
    for (whole, most) in [(&body, 700), (&longer, 1_000)] {
        let mut ring = recovering(1, []);
        let first = in_parts(&mut ring, (2, START.0 + 1), 104, &body, 1_000).swap_remove(0);
        let second = in_parts(&mut ring, (2, START.0 + 1), 104, whole, most).swap_remove(1);
        for part in [first, second] {
            ring.handle_data(NOW, member(2), part);
        }
        let token = Token {
            seq: START.plus(2),
            aru: START.plus(2),
            ..first_token(&mut ring)
        };
        ring.recovery_token(NOW, token);
        assert!(ring.state.expect_gather().fail.contains(&member(2)));
        assert_eq!(ring.counters.malformed, 1);
    }
}

#[test]
fn a_packet_that_was_taken_up_is_not_left_to_others_again() {
    let body = Bytes::from(vec![7; 3_000]);
    let mut ring = recovering(1, 102..=140);
    let window = u64::from(ring.flow.limits().personal);
    let last = 102 + window + 1;
    let parts = in_parts(&mut ring, (2, START.0 + 1), last, &body, 1_000);
    let recovery = ring.state.expect_recovery();
    recovery.handle_recovered(&parts[0]);
    let token = Token {
        seq: START,
        ..ring.state.expect_recovery().ordering.first_token()
    };
    let recovery = ring.state.expect_recovery();
    assert!(recovery.awaited.contains_key(&Seq(last)));
    recovery.take_up(&token);
    recovery.take_up(&token);
    assert!(recovery.queue.contains(&Seq(last)));
    assert!(recovery.partial.is_empty());
    assert_eq!(recovery.partial_bytes, 0);
    recovery.handle_recovered(&parts[1]);
    assert!(recovery.awaited.is_empty());
    assert!(recovery.partial.is_empty());
}

#[test]
fn who_holds_a_packet_does_not_send_it_if_another_sends_all_parts() {
    let body = Bytes::from(vec![7; 3_000]);
    let mut ring = recovering(1, [102]);
    for part in in_parts(&mut ring, (2, START.0 + 1), 102, &body, 1_000) {
        ring.handle_data(NOW, member(2), part);
    }
    let token = Token {
        seq: START.plus(3),
        aru: START.plus(3),
        ..first_token(&mut ring)
    };
    let (data, passed) = visit(&mut ring, &token);
    assert_eq!((data.len(), passed.backlog), (0, 0));
}

#[test]
fn a_packet_that_nobody_sends_whole_keeps_no_ring_from_forming() {
    let body = Bytes::from(vec![7; 3_000]);
    let mut ring = recovering(1, []);
    let first = in_parts(&mut ring, (2, START.0 + 1), 104, &body, 1_000).swap_remove(0);
    ring.handle_data(NOW, member(2), first);
    let token = Token {
        seq: START.next(),
        aru: START.next(),
        install: Some(START.next()),
        installed: true,
        ..first_token(&mut ring)
    };
    visit(&mut ring, &token);
    assert_eq!(ring.configuration(), Some(forming()));
}

#[test]
fn who_still_has_packets_to_send_installs_no_ring() {
    let mut ring = recovering(1, [102]);
    let token = Token {
        install: Some(START),
        installed: true,
        ..first_token(&mut ring)
    };
    ring.recovery_token(NOW, token);
    assert!(matches!(ring.state, State::Gather(_)));
    assert_eq!(ring.counters.malformed, 1);
}

#[test]
fn packets_of_another_old_ring_are_not_taken_for_ours() {
    let mut commit = commit();
    let other = ConfigId {
        counter: 9,
        representative: member(2),
    };
    commit.members[2].holding.as_mut().expect("set").config = other;
    let mut ring = recovering(1, []);
    let recovery = Recovery::new(
        &commit,
        member(1),
        Some(order(3, 1)),
        &ring.claims,
        &ring.config,
    );
    ring.state = State::Recovery(recovery.into());
    let place = Recovered {
        seq: Seq(104),
        origin: Index(0),
        part: None,
    };
    for (seq, from, kept) in [(1, 2, false), (2, 0, true)] {
        let packet = recovered(&mut ring, START.0 + seq, from, place);
        ring.handle_data(NOW, member(0), packet);
        let old = ring.state.expect_recovery().old.as_ref();
        let held = old.expect("there was one").window.get(Seq(104)).is_some();
        assert_eq!(held, kept);
    }
}

#[test]
fn the_token_starts_once() {
    let mut ring = recovering(0, []);
    ring.start_token(NOW);
    ring.start_token(NOW);
    assert_eq!(ring.counters.visits, 1);
}

#[test]
fn max_n_outlives_the_ring_of_a_minority_that_comes_along() {
    let mut commit = commit();
    let old = commit.members[0].holding.expect("set").config;
    let other = ConfigId { counter: 9, ..old };
    let of = |ring, max_n| OldMarks {
        ring,
        max_n,
        marks: vec![START; 3],
    };
    let max_n = |commit: &Commit| {
        let recovery = Recovery::new(
            commit,
            member(1),
            None,
            &Claims::default(),
            &RingConfig::lan(),
        );
        recovery.ordering.max_n
    };
    assert_eq!(max_n(&commit), 3);
    commit.marks = vec![of(old, 5)];
    assert_eq!(max_n(&commit), 3, "three of five came");
    commit.marks = vec![of(old, 6)];
    assert_eq!(max_n(&commit), 6, "half is no majority");
    commit.marks = vec![of(old, 5), of(other, 6)];
    assert_eq!(max_n(&commit), 6, "nobody came of the other");
}

/// What `commit` says of MaxN, and what of that the member at 1 will declare, which comes from a
/// ring of nine, and heard these joins.
fn max_n_from_nine(commit: &Commit, joins: &[(usize, u16)]) -> (usize, usize) {
    let mut claims = Claims::default();
    for (node, max_n) in joins {
        claims.note(member(*node), *max_n, Seq::ZERO);
    }
    let mut old = order(3, 1);
    (old.max_n, old.own_max_n) = (9, 9);
    let recovery = Recovery::new(commit, member(1), Some(old), &claims, &RingConfig::lan());
    (recovery.ordering.max_n, recovery.ordering.own_max_n)
}

#[test]
fn a_member_declares_next_what_it_was_in_itself_or_two_others_say() {
    let mut commit = commit();
    let old = commit.members[0].holding.expect("set").config;
    let of = |ring, max_n| OldMarks {
        ring,
        max_n,
        marks: vec![START; 3],
    };
    commit.marks = vec![of(old, 9)];
    assert_eq!(max_n_from_nine(&commit, &[]), (9, 9), "three of nine");
    commit.marks = vec![of(old, 3)];
    assert_eq!(max_n_from_nine(&commit, &[]), (9, 9), "it knows better");
    commit.marks = vec![of(old, 128)];
    assert_eq!(
        max_n_from_nine(&commit, &[]),
        (9, 9),
        "more than there were"
    );
    let other = ConfigId { counter: 9, ..old };
    commit.marks = vec![of(old, 9), of(other, 128)];
    assert_eq!(
        max_n_from_nine(&commit, &[(0, 128)]),
        (128, 9),
        "one says so"
    );
    let two = [(0, 128), (2, 128)];
    assert_eq!(max_n_from_nine(&commit, &two), (128, 128), "two say so");
    assert_eq!(
        max_n_from_nine(&commit, &[(0, 128), (7, 128)]),
        (128, 9),
        "a stranger"
    );
}

#[test]
fn the_marks_of_the_own_old_ring_are_taken() {
    let mut commit = commit();
    let config = RingConfig::lan();
    let old = || Some(order(3, 1));
    let of = |counter, mark| OldMarks {
        ring: ConfigId {
            counter,
            ..order(3, 1).id
        },
        max_n: 3,
        marks: vec![Seq(mark); 3],
    };
    commit.marks = vec![of(9, 109), of(1, 101)];
    let recovery = Recovery::new(&commit, member(1), old(), &Claims::default(), &config);
    assert_eq!(recovery.marks, [Seq(101); 3]);
    commit.marks.pop();
    let recovery = Recovery::new(&commit, member(1), old(), &Claims::default(), &config);
    assert_eq!(recovery.marks, []);
}
