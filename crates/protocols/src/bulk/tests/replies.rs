//! Goal: what receivers' users reply comes to the sender's user once and whole, the sender keeps no
//! more of it than its budget, and a receiver whose reply does not come is named. Method: a small
//! network of endpoints with loss, crashes and users that read nothing; packets that no receiver of
//! ours sends.

use std::boxed::Box;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{MemberId, Protocol as _, Rng};

use super::endpoints::config;
use super::multidriver::{at, rounds, with};
use super::net::{Net, file, member};
use crate::bulk::numbers::{PacketNumber, PassNumber, Stamp};
use crate::bulk::wire::{Message, Part, Purpose, ReceiverReport, Returned, Status};
use crate::bulk::{
    BulkConfig, DeliverTo, Failure, Multidriver, Notice, Outcome, SendError, Transfer, Wanted,
};

fn settings() -> BulkConfig {
    with(rounds(10))
}

/// A request of this many bytes to all receivers of `net`.
fn request(net: &Net) -> Transfer {
    Transfer {
        replies: true,
        ..file(net.stream.len(), Wanted::Count(net.endpoints.len() - 1))
    }
}

fn reply(index: usize, length: usize) -> Bytes {
    let byte = |at: usize| (at * (index + 1) % 251) as u8;
    (0..length).map(byte).collect::<Vec<u8>>().into()
}

/// Receivers that reply this many bytes each.
fn asked(receivers: usize, settings: &BulkConfig, length: usize) -> Net {
    let mut net = Net::new(receivers + 1, settings, 3_000);
    for index in 1..=receivers {
        net.replies[index] = Some(reply(index, length));
    }
    net
}

/// The receivers whose replies have ended, with code and length, as the sender's user was told.
fn ended(net: &Net) -> Vec<(MemberId, u32, u64)> {
    let told = net.notices[0].iter();
    let ended = told.filter_map(|notice| match notice {
        Notice::ReplyEnded {
            receiver,
            code,
            length,
            ..
        } => Some((*receiver, *code, *length)),
        _ => None,
    });
    ended.collect()
}

/// Fails unless the reply of receiver `index` is here, whole and once.
fn assert_replied(net: &Net, index: usize) {
    let expected = net.replies[index].clone().unwrap_or_default();
    let got = net.replied.get(&member(index)).cloned().unwrap_or_default();
    assert!(got == expected, "{index}: {} bytes", got.len());
    let whole = (member(index), Net::code(index), expected.len() as u64);
    let told = ended(net);
    let of = told.iter().filter(|(of, ..)| *of == member(index));
    assert_eq!(of.collect::<Vec<_>>(), [&whole]);
}

#[test]
fn every_reply_comes_once_and_whole_whatever_its_length() {
    for length in [0, 1, 1_330, 65_536] {
        for (loss, use_backoff) in [(0.0, false), (0.05, false), (0.05, true)] {
            let settings = with(Multidriver {
                use_backoff,
                ..rounds(10)
            });
            let mut net = asked(20, &settings, length);
            net.loss.fill(loss);
            net.send(request(&net));
            net.must(Duration::from_secs(30), Net::is_sent);
            (1..=20).for_each(|index| assert_replied(&net, index));
            let complete = |outcome: &Outcome| *outcome == Outcome::Complete;
            assert!(net.outcomes().values().all(complete));
            assert_eq!(net.endpoints[0].counters().parts_refused, 0);
        }
    }
}

#[test]
fn without_loss_a_short_reply_is_one_packet_and_one_acknowledgement() {
    for receivers in [2, 50, 200] {
        let settings = BulkConfig {
            replies_buffer: 1 << 20,
            ..settings()
        };
        let mut net = asked(receivers, &settings, 1);
        net.send(request(&net));
        net.must(Duration::from_secs(5), Net::is_sent);
        (1..=receivers).for_each(|index| assert_replied(&net, index));
        let sent = net.endpoints[1..].iter();
        let sent: u64 = sent.map(|it| it.counters().parts_sent).sum();
        let sender = net.endpoints[0].counters();
        assert_eq!(
            (sent, sender.parts_received),
            (receivers as u64, receivers as u64)
        );
        assert_eq!((sender.parts_unused, sender.parts_refused), (0, 0));
    }
}

#[test]
fn the_budget_bounds_what_waits_for_the_user_and_all_comes_once_it_reads() {
    let settings = BulkConfig {
        replies_buffer: 10_000,
        reply_buffer: 4_000,
        vanish_after: Duration::from_secs(20),
        ..settings()
    };
    let mut net = asked(12, &settings, 20_000);
    net.consumes_replies = false;
    let id = net.send(request(&net));
    net.run(Duration::from_secs(5));
    let waits: usize = net.replied.values().map(Vec::len).sum();
    assert!((9_000..=10_000).contains(&waits), "{waits} bytes wait");
    assert!(!net.is_sent());
    // The user reads.
    net.consumes_replies = true;
    let now = net.now;
    net.endpoints[0].reply_consumed(now, id, waits as u64);
    net.must(Duration::from_secs(20), Net::is_sent);
    (1..=12).for_each(|index| assert_replied(&net, index));
}

#[test]
fn a_receiver_keeps_no_more_of_its_reply_than_its_buffer() {
    let settings = BulkConfig {
        reply_buffer: 4_000,
        ..settings()
    };
    let mut net = asked(1, &settings, 0);
    net.replies[1] = None;
    let id = net.send(request(&net));
    net.must(Duration::from_secs(1), |net| net.has_stream(1, 0));
    let now = net.now;
    net.cut[1] = true;
    let mut took = |len: usize| net.endpoints[1].reply(now, id, &vec![7; len]);
    assert_eq!([took(3_000), took(3_000), took(1)], [3_000, 1_000, 0]);
}

#[test]
fn a_receiver_that_dies_within_its_reply_is_named_and_the_others_are_heard() {
    let settings = BulkConfig {
        // It waits for its turn, so it is not done at once.
        replies_buffer: 8_000,
        ..settings()
    };
    let mut net = asked(5, &settings, 60_000);
    net.send(request(&net));
    net.must(Duration::from_secs(5), |net| {
        net.replied
            .get(&member(3))
            .is_some_and(|it| it.len() > 1_000)
    });
    net.cut[3] = true;
    net.must(Duration::from_secs(20), Net::is_sent);
    for index in [1, 2, 4, 5] {
        assert_replied(&net, index);
    }
    assert!(ended(&net).iter().all(|(of, ..)| *of != member(3)));
    assert_eq!(net.outcomes()[&member(3)], Outcome::Vanished);
}

#[test]
fn a_receiver_without_an_end_keeps_the_transfer_open_until_it_fails_or_the_sender_gives_up() {
    let mut net = asked(3, &settings(), 100);
    net.replies[2] = None;
    net.replies[3] = None;
    let id = net.send(request(&net));
    net.run(Duration::from_secs(5));
    assert!(!net.is_sent(), "two have not replied, and are there");
    assert_replied(&net, 1);
    let now = net.now;
    let reason = "its command was ended by signal 9";
    net.endpoints[2].conclude(now, id, Err(reason));
    net.run(Duration::from_millis(100));
    assert_eq!(net.outcomes()[&member(2)], Outcome::Failed(reason.into()));
    let now = net.now;
    net.endpoints[0].cancel(now, id, "time is up");
    net.run(Duration::from_millis(100));
    assert_eq!(net.outcomes()[&member(3)], Outcome::Cancelled);
    let told = |index: usize| net.notices[index].last().cloned();
    assert_eq!(told(1), Some(Notice::Ended { id }), "it had replied");
    let failure = Failure::Cancelled("time is up".into());
    assert_eq!(told(3), Some(Notice::Failed { id, failure }));
}

/// Seed 132 of the swarm of `managed`: a receiver registers too late for the pass, and has all of
/// it by listening. No pass would list it if nothing but its reply were missing. And seed 441: the
/// last mark is told to it, too, though all others have echoed it.
#[test]
fn who_comes_late_and_misses_nothing_replies_too() {
    let marks = DeliverTo::UpTo {
        first: 0,
        step: None,
    };
    for deliver_to in [DeliverTo::AtOnce, marks] {
        comes_late_and_replies(deliver_to);
    }
}

fn comes_late_and_replies(deliver_to: DeliverTo) {
    let mut net = asked(2, &settings(), 100);
    let name = Bytes::from_static(b"late");
    net.acceptance[2].as_mut().expect("it accepts").name = name.clone();
    let begun = net.now;
    // The sender still waits for the reply of the other when it hears of this one.
    net.loses = Some(Box::new(move |now, to, body| {
        let (name, since) = (&name, now - begun);
        let is_lost = |report: &ReceiverReport| {
            since < Duration::from_millis(500) && report.name == name
                || since < Duration::from_secs(2) && report.part.is_some()
        };
        match Message::decode(body).map(|(_, message)| message) {
            Ok(Message::Report(report)) => to == 0 && is_lost(&report),
            Ok(Message::Mark(_)) => to == 2 && since < Duration::from_millis(500),
            _ => false,
        }
    }));
    net.send(Transfer {
        receivers: Wanted::Count(1),
        deliver_to,
        ..request(&net)
    });
    net.run(Duration::from_millis(400));
    let has_heard = |notice: &Notice| matches!(notice, Notice::Enrolled { .. });
    assert!(!net.notices[2].iter().any(has_heard), "it is not heard yet");
    net.must(Duration::from_secs(10), Net::is_sent);
    for index in [1, 2] {
        assert_replied(&net, index);
        assert_eq!(net.outcomes()[&member(index)], Outcome::Complete);
    }
}

/// Seed 738: every Start of the first pass is lost to one receiver, which has all of it by
/// listening; the pass that it asks in is for another.
#[test]
fn who_was_listed_unheard_and_misses_nothing_replies_too() {
    let mut net = asked(3, &settings(), 100);
    let begun = net.now;
    let name = Bytes::from_static(b"late");
    net.acceptance[3].as_mut().expect("it accepts").name = name.clone();
    net.loses = Some(Box::new(move |now, to, body| {
        let (name, since) = (&name, now - begun);
        let decoded = Message::decode(body).map(|(_, message)| message);
        match decoded {
            Ok(Message::Start(start)) => to == 1 && start.pass == PassNumber::FIRST,
            // The third comes late, and misses something.
            Ok(Message::Report(it)) => {
                to == 0 && since < Duration::from_millis(500) && it.name == *name
                    || to == 0 && since < Duration::from_secs(2) && it.part.is_some()
            }
            Ok(Message::Data(_)) => to == 3 && since < Duration::from_millis(450),
            _ => false,
        }
    }));
    net.send(Transfer {
        receivers: Wanted::Count(2),
        ..request(&net)
    });
    net.must(Duration::from_secs(10), Net::is_sent);
    for index in 1..=3 {
        assert_replied(&net, index);
        assert_eq!(net.outcomes()[&member(index)], Outcome::Complete);
    }
}

/// A report that says next to nothing.
pub(super) fn bare_report(net: &Net) -> ReceiverReport {
    ReceiverReport {
        sender: net.endpoints[0].local().incarnation,
        purpose: Purpose::Acknowledge,
        answers: false,
        aggregate: false,
        outrun: false,
        pass: PassNumber::FIRST,
        status: Status::Receiving,
        next: PacketNumber::ZERO,
        limit: PacketNumber(100),
        seen: Stamp(0),
        received: 0,
        delay_us: 0,
        listed_below: PacketNumber::ZERO,
        missing: Vec::new(),
        tag: None,
        delivers_to: None,
        part: None,
        subgroups: None,
        attends: None,
        restores_below: None,
        name: Bytes::new(),
    }
}

/// A report of receiver 1 with this part.
fn with_part(net: &Net, part: Part) -> Bytes {
    let report = ReceiverReport {
        part: Some(part),
        ..bare_report(net)
    };
    Message::Report(report).encode(1)
}

fn part(offset: u64, bytes: usize, waiting: u64, end: Option<u32>) -> Part {
    Part {
        count: 1,
        offset,
        waiting,
        end,
        bytes: vec![9; bytes].into(),
    }
}

#[test]
fn parts_that_no_receiver_of_ours_sends_change_nothing_and_are_counted() {
    let mut net = asked(2, &settings(), 50);
    net.replies[1] = None;
    net.send(request(&net));
    net.must(Duration::from_secs(1), |net| net.has_stream(1, 0));
    net.run(Duration::from_millis(50));
    let credit = 128;
    let absurd = [
        part(0, credit + 1, credit as u64 + 1, None),
        part(1 << 59, 1, 1 << 60, None),
        part(0, 10, 9, None),
        part(0, 10, 11, Some(0)),
        part(0, 1_300, 1_300, Some(0)),
    ];
    for (nth, absurd) in absurd.into_iter().enumerate() {
        let body = with_part(&net, absurd);
        let now = net.now;
        net.endpoints[0].handle_datagram(now, member(1), body);
        let counters = net.endpoints[0].counters();
        assert_eq!(counters.parts_refused, nth as u64 + 1);
    }
    assert!(!net.replied.contains_key(&member(1)));
    // Of a stranger, and of one that is settled: nothing.
    for from in [member(2), member(9)] {
        let body = with_part(&net, part(0, 10, 10, Some(3)));
        let now = net.now;
        net.endpoints[0].handle_datagram(now, from, body);
    }
    net.run(Duration::from_millis(50));
    assert_replied(&net, 2);
    // What comes again brings nothing, and what comes after a gap neither.
    let before = net.endpoints[0].counters();
    for part in [
        part(0, 10, 90, None),
        part(0, 10, 90, None),
        part(40, 10, 90, None),
    ] {
        let body = with_part(&net, part);
        let now = net.now;
        net.endpoints[0].handle_datagram(now, member(1), body);
    }
    net.run(Duration::from_millis(1));
    let after = net.endpoints[0].counters();
    assert_eq!(after.parts_received - before.parts_received, 1);
    assert_eq!(after.parts_unused - before.parts_unused, 2);
    assert_eq!(net.replied[&member(1)], [9; 10]);
}

#[test]
fn acknowledgements_that_no_sender_of_ours_sends_change_nothing_and_are_counted() {
    let mut net = asked(1, &settings(), 0);
    net.replies[1] = None;
    let id = net.send(request(&net));
    net.must(Duration::from_secs(1), |net| net.has_stream(1, 0));
    net.run(Duration::from_millis(50));
    let now = net.now;
    net.endpoints[1].reply(now, id, &[5; 300]);
    let absurd = Returned {
        gap: false,
        ended: false,
        next: 1 << 50,
        limit: 1 << 60,
        count: 1,
    };
    let ends = Returned {
        ended: true,
        next: 0,
        ..absurd
    };
    let before = net.endpoints[1].counters().junk;
    for returned in [
        absurd,
        ends,
        Returned {
            next: 0,
            count: 99,
            ..absurd
        },
    ] {
        let body = Message::Returned(returned).encode(1);
        net.endpoints[1].handle_datagram(now, member(0), body);
    }
    assert_eq!(net.endpoints[1].counters().junk - before, 3);
    net.endpoints[1].finish_reply(now, id, 8);
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(net.replied[&member(1)], [5; 300]);
}

#[test]
fn replies_are_of_this_policy_and_of_transfers_that_want_them() {
    let mut net = Net::new(2, &config(), 1_000);
    let (now, wants) = (net.now, request(&net));
    let refused = net.endpoints[0].send(now, wants);
    assert_eq!(refused, Err(SendError::Replies));
    let mut net = asked(1, &settings(), 10);
    let id = net.send(file(3_000, Wanted::Count(1)));
    net.must(Duration::from_millis(20), |net| {
        !net.endpoints[1].receivers.is_empty()
    });
    let now = net.now;
    assert_eq!(net.endpoints[1].reply(now, id, b"unasked"), 0);
    net.must(Duration::from_secs(2), Net::is_sent);
    assert!(net.replied.is_empty());
}

#[test]
fn nobody_replies_before_all_hold_the_request() {
    let mut net = asked(
        3,
        &BulkConfig {
            rate: at(100_000),
            ..settings()
        },
        10,
    );
    net.cut[3] = true;
    net.send(Transfer {
        deliver_to: DeliverTo::UpTo {
            first: 0,
            step: None,
        },
        ..request(&net)
    });
    net.run(Duration::from_millis(400));
    net.cut[3] = false;
    net.must(Duration::from_secs(5), |net| {
        net.endpoints[3].counters().packets_received > 1
    });
    assert!(net.replied.is_empty() && net.data[1].is_empty());
    net.must(Duration::from_secs(5), Net::is_sent);
    (1..=3).for_each(|index| assert_replied(&net, index));
}

/// Lossy, pausing and dying receivers, replies and settings of the seed's.
fn troubled(seed: u64) -> (Net, bool) {
    let mut rng = Rng::new(seed).fork("replies");
    let receivers = rng.range(1..8) as usize;
    let rule = Multidriver {
        use_backoff: rng.chance(0.3),
        backoff: Duration::from_micros(rng.range(0..500)),
        ..rounds(rng.range(1..20) as u32)
    };
    let settings = BulkConfig {
        replies_buffer: rng.range(4_096..60_000) as usize,
        reply_buffer: rng.range(1..20_000) as usize,
        // Longer than any pause: who pauses is met again in the same transfer.
        vanish_after: Duration::from_secs(10),
        ..with(rule)
    };
    let mut net = asked(receivers, &settings, 0);
    for index in 1..=receivers {
        let most = [1, 100, 5_000, 50_000][rng.below(4) as usize];
        net.replies[index] = Some(reply(index, rng.range(0..most) as usize));
        if rng.chance(0.4) {
            net.loss[index] = rng.below(20) as f64 / 100.0;
        }
        if rng.chance(0.3) {
            net.late[index] = Duration::from_millis(rng.range(1..60));
        }
    }
    if rng.chance(0.3) {
        net.loss[0] = rng.below(20) as f64 / 100.0;
    }
    net.send(request(&net));
    for _ in 0..4 {
        net.run(Duration::from_millis(rng.range(1..200)));
        let pauses = rng.range(1..receivers as u64 + 1) as usize;
        net.cut[pauses] = true;
        net.run(Duration::from_millis(rng.range(1..400)));
        // Some never come back.
        net.cut[pauses] = rng.chance(0.2);
    }
    let end = net.now + Duration::from_secs(60);
    let is_sent = net.run_until(end, Net::is_sent);
    (net, is_sent)
}

#[test]
fn whoever_is_complete_has_replied_and_whoever_is_there_is_complete() {
    let (mut complete, mut vanished) = (0, 0);
    for seed in 0..300 {
        let (net, is_sent) = troubled(seed);
        assert!(is_sent, "seed {seed}: {:?}", net.notices);
        for (receiver, outcome) in net.outcomes() {
            let index = receiver.node.0 as usize - 1;
            match outcome {
                Outcome::Complete => {
                    assert_replied(&net, index);
                    complete += 1;
                }
                Outcome::Vanished if net.cut[index] => vanished += 1,
                other => panic!("seed {seed}: {index} is {other:?}"),
            }
        }
        assert_eq!(net.endpoints[0].counters().parts_refused, 0, "seed {seed}");
    }
    assert!(complete > 1_000 && vanished > 5, "{complete}, {vanished}");
}
