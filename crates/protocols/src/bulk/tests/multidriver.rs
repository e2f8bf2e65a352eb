//! Goal: under the Multidriver every receiver replies to every request, the sender acts on the
//! minimum of all once a round, and a set that is too small or too large is told. Method: a small
//! network of endpoints, exact counts, and schedules from seeds; planted bugs show that the
//! properties are tested.

use std::boxed::Box;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Rng, Time};
use groupcast_sim::swarm::{Swarm, SwarmConfig};

use super::endpoints::config;
use super::net::{Net, accepting, file, member, time_beside_a_slow_receiver};
use crate::bulk::config::PlantedInRounds;
use crate::bulk::wire::{Message, Purpose};
use crate::bulk::{
    BulkConfig, FAMILY, Failure, Multidriver, Notice, Order, Outcome, Partial, Policy, RateControl,
    Repair, SendError, SlowPolicy, Transfer, Wanted,
};

pub(super) fn with(rule: Multidriver) -> BulkConfig {
    BulkConfig {
        policy: Policy::Multidriver(rule),
        repair: Repair::GoBackN,
        block: None,
        window: 4096,
        ..config()
    }
}

pub(super) fn rounds(every: u32) -> Multidriver {
    Multidriver {
        every,
        ..Multidriver::for_window(4096)
    }
}

pub(super) fn at(bytes_per_second: u64) -> RateControl {
    RateControl::Fixed { bytes_per_second }
}

#[test]
fn every_receiver_replies_once_to_a_request_and_is_acknowledged_once() {
    for receivers in [2, 7, 50, 200] {
        for use_backoff in [false, true] {
            // A round is over before the next request, whatever the back-off.
            let settings = BulkConfig {
                rate: at(200_000),
                ..with(Multidriver {
                    use_backoff,
                    ..rounds(10)
                })
            };
            let mut net = Net::new(receivers + 1, &settings, 95_000);
            net.send(file(95_000, Wanted::Count(receivers)));
            net.must(Duration::from_secs(5), Net::is_sent);
            let sender = net.endpoints[0].counters();
            // Packets 10, 20 … 90, and the last.
            assert_eq!((sender.rounds, sender.rounds_partial), (10, 0));
            assert_eq!((sender.tags_sent, sender.polls_sent), (0, 0));
            let all = 10 * receivers as u64;
            assert_eq!(
                (sender.reports_received, sender.replies_acknowledged),
                (all, all)
            );
            assert_eq!((sender.packets_repeated, sender.naks_received), (0, 0));
            let complete = |index| net.outcomes().get(&member(index)) == Some(&Outcome::Complete);
            assert!((1..=receivers).all(complete));
        }
    }
}

#[test]
fn what_several_miss_is_repeated_once_from_the_minimum_on() {
    let mut net = Net::new(4, &with(rounds(10)), 10_000);
    // Receiver 1 loses packet 5, receiver 2 packet 3, the first time.
    let lost = RefCell::new(Vec::new());
    net.loses = Some(Box::new(move |_, to, body| {
        let Ok((_, Message::Data(data))) = Message::decode(body) else {
            return false;
        };
        let falls = [(1, 5), (2, 3)].contains(&(to, data.header.number.0));
        let first = falls && !lost.borrow().contains(&to);
        lost.borrow_mut().extend(first.then_some(to));
        first
    }));
    net.send(file(10_000, Wanted::Count(3)));
    net.must(Duration::from_secs(5), Net::is_sent);
    let sender = net.endpoints[0].counters();
    assert_eq!((sender.rounds, sender.packets_repeated), (2, 7));
    assert!((1..4).all(|index| net.has_stream(index, 0)));
}

/// When each receiver sent its first datagram of this kind.
fn times_of(net: &mut Net, wanted: impl Fn(&Message) -> bool + 'static) -> Rc<RefCell<Vec<Time>>> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let seen = times.clone();
    net.loses = Some(Box::new(move |now, to, body: &Bytes| {
        if to == 0 && Message::decode(body).is_ok_and(|(_, message)| wanted(&message)) {
            seen.borrow_mut().push(now);
        }
        false
    }));
    times
}

fn spread(times: &Rc<RefCell<Vec<Time>>>) -> Duration {
    let times = times.borrow();
    let (first, last) = (times.iter().min(), times.iter().max());
    *last.expect("something was sent") - *first.expect("something was sent")
}

#[test]
fn registrations_are_spread_over_the_back_off_of_the_set() {
    let settings = with(Multidriver {
        backoff: Duration::from_micros(500),
        ..rounds(10)
    });
    let mut net = Net::new(101, &settings, 1000);
    let times = times_of(
        &mut net,
        |message| matches!(message, Message::Report(report) if report.purpose == Purpose::Register),
    );
    net.send(file(1000, Wanted::Count(100)));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(times.borrow().len(), 100);
    let spread = spread(&times);
    assert!(
        Duration::from_millis(40) < spread && spread <= Duration::from_millis(50),
        "{spread:?}"
    );
}

#[test]
fn back_off_of_replies_is_changed_while_it_runs() {
    let settings = BulkConfig {
        rate: at(100_000),
        ..with(Multidriver {
            backoff: Duration::from_millis(1),
            ..rounds(10)
        })
    };
    let mut net = Net::new(21, &settings, 100_000);
    let id = net.send(file(100_000, Wanted::Count(20)));
    let is_reply =
        |message: &Message| matches!(message, Message::Report(report) if report.tag.is_some());
    // One request in each 100 ms: the replies to one at once, those to the next over 20 ms.
    let replies = |net: &mut Net| {
        let times = times_of(net, is_reply);
        net.must(Duration::from_secs(1), |_| times.borrow().len() == 20);
        spread(&times)
    };
    assert_eq!(replies(&mut net), Duration::ZERO);
    let now = net.now;
    net.endpoints[0].use_backoff(now, id, 20);
    let spread = replies(&mut net);
    assert!(
        Duration::from_millis(10) < spread && spread <= Duration::from_millis(20),
        "{spread:?}"
    );
    let now = net.now;
    net.endpoints[0].use_backoff(now, id, 0);
    assert_eq!(replies(&mut net), Duration::ZERO);
    net.must(Duration::from_secs(5), Net::is_sent);
}

fn between(min: usize, max: usize) -> Wanted {
    Wanted::Between { min, max }
}

#[test]
fn the_opening_is_done_at_the_most_and_who_comes_beyond_is_told() {
    let mut net = Net::new(5, &with(rounds(10)), 50_000);
    let id = net.send(file(50_000, between(2, 3)));
    net.must(Duration::from_secs(1), Net::is_sent);
    assert!(net.now < Time::from_millis(500), "it waits for no timer");
    let served = net.outcomes();
    let complete = |outcome: &&Outcome| **outcome == Outcome::Complete;
    let failure = Failure::Full;
    let beyond = Notice::Failed { id, failure };
    let told = (1..5).filter(|index| net.notices[*index].contains(&beyond));
    assert_eq!(served.values().filter(complete).count(), 3);
    assert_eq!((told.count(), served.len()), (1, 3));
}

#[test]
fn the_opening_waits_no_longer_when_all_of_a_set_have_answered() {
    let mut net = Net::new(4, &with(rounds(10)), 50_000);
    net.acceptance[3] = None;
    let id = net.send(file(50_000, between(1, 3)));
    net.run(Duration::from_millis(100));
    assert!(net.data[1].is_empty(), "a third may come");
    let now = net.now;
    net.endpoints[3].refuse(now, id, "no room", b"three");
    net.must(Duration::from_secs(1), Net::is_sent);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
    // With fewer than the least others may come in its place.
    let mut net = Net::new(4, &with(rounds(10)), 50_000);
    net.acceptance[3] = None;
    let id = net.send(file(50_000, between(3, 3)));
    net.run(Duration::from_millis(100));
    let now = net.now;
    net.endpoints[3].refuse(now, id, "no room", b"three");
    net.run(Duration::from_millis(500));
    assert!(net.offered == 0 && !net.is_sent());
}

#[test]
fn a_request_that_was_lost_and_is_asked_again_counts_as_lost() {
    // The window is as long as a round, so that the sender stalls at each request.
    let settings = BulkConfig {
        window: 4,
        slow: SlowPolicy::Wait,
        ..with(rounds(4))
    };
    let mut net = Net::new(3, &settings, 4_000_000);
    net.loses = Some(Box::new(|_, to, body: &Bytes| {
        let asks = |message| matches!(message, Message::Data(data) if data.header.answer && !data.header.again);
        to == 1 && Message::decode(body).is_ok_and(|(_, message)| asks(message))
    }));
    let id = net.send(file(4_000_000, Wanted::Count(2)));
    net.run(Duration::from_secs(10));
    let progress = net.endpoints[0].progress(id).expect("it is under way");
    let loss = progress.receivers.iter().map(|it| it.loss_permille);
    let loss: Vec<u16> = loss.collect();
    // One packet of four, and what repairs it comes.
    assert!((100..=250).contains(&loss[0]) && loss[1] == 0, "{loss:?}");
}

#[test]
fn the_opening_is_done_by_the_timer_with_enough() {
    let settings = BulkConfig {
        register_within: Duration::from_secs(2),
        ..with(rounds(10))
    };
    let mut net = Net::new(3, &settings, 50_000);
    net.send(file(50_000, between(2, 3)));
    net.run(Duration::from_millis(1900));
    assert!(net.data[1].is_empty(), "a third may come");
    net.must(Duration::from_secs(2), Net::is_sent);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
}

#[test]
fn below_the_least_nobody_is_served_and_all_are_told() {
    let settings = BulkConfig {
        register_within: Duration::from_secs(2),
        ..with(rounds(10))
    };
    let mut net = Net::new(3, &settings, 50_000);
    let id = net.send(file(50_000, between(3, 5)));
    net.must(Duration::from_secs(3), Net::is_sent);
    net.run(Duration::from_millis(10));
    assert_eq!(net.offered, 0);
    let outcomes: Vec<Outcome> = net.outcomes().into_values().collect();
    assert_eq!(outcomes, [Outcome::TooFew, Outcome::TooFew]);
    let failure =
        Failure::Cancelled("it was stopped: 2 receivers have come, and it needs 3".into());
    for index in [1, 2] {
        let failure = failure.clone();
        assert_eq!(
            net.notices[index].last(),
            Some(&Notice::Failed { id, failure })
        );
    }
}

#[test]
fn a_least_above_the_most_is_refused() {
    let mut net = Net::new(2, &with(rounds(10)), 1000);
    let now = net.now;
    let refused = net.endpoints[0].send(now, file(1000, between(3, 2)));
    assert_eq!(refused, Err(SendError::Between { min: 3, max: 2 }));
}

#[test]
fn the_rate_is_the_least_that_any_receiver_takes() {
    let until_known = Duration::from_millis(200);
    let took = |slowest| time_beside_a_slow_receiver(with(rounds(10)), 3, slowest, until_known).0;
    assert!(took(None) < Duration::from_millis(100));
    let slow = took(Some(500_000));
    let (least, most) = (Duration::from_millis(700), Duration::from_millis(900));
    assert!(least < slow && slow < most, "{slow:?}");
}

#[test]
fn a_receiver_that_dies_is_named_and_the_minima_are_those_of_the_others() {
    for partial in [Partial::Act, Partial::AskAll, Partial::AskSilent] {
        let settings = BulkConfig {
            window: 64,
            rate: at(2_000_000),
            ..with(Multidriver {
                partial,
                ..rounds(16)
            })
        };
        let mut net = Net::new(4, &settings, 1_000_000);
        net.consumes[2] = true;
        net.send(file(1_000_000, Wanted::Count(3)));
        net.run(Duration::from_millis(200));
        net.cut[2] = true;
        net.must(Duration::from_secs(10), Net::is_sent);
        assert!(
            net.has_stream(1, 0) && net.has_stream(3, 0),
            "{partial:?} {:?}",
            net.notices
        );
        assert_eq!(net.outcomes()[&member(2)], Outcome::Vanished);
        assert_eq!(net.outcomes()[&member(1)], Outcome::Complete);
        let sender = net.endpoints[0].counters();
        assert!(sender.rounds_partial > 0 || partial == Partial::AskSilent);
    }
}

#[test]
fn a_receiver_without_room_stops_the_sender_and_lets_it_go_on() {
    let settings = BulkConfig {
        buffer_max: 64_000,
        vanish_after: Duration::from_secs(20),
        slow: SlowPolicy::Wait,
        ..with(rounds(10))
    };
    let mut net = Net::new(3, &settings, 300_000);
    net.consumes[2] = false;
    net.acceptance[2] = Some(accepting(Order::InOrder));
    let id = net.send(file(300_000, Wanted::Count(2)));
    net.run(Duration::from_secs(5));
    assert!(!net.is_sent());
    assert_eq!(net.endpoints[2].counters().refused, 0);
    let rounds = net.endpoints[0].counters().rounds;
    assert!(rounds < 60, "{rounds} rounds while nothing can move");
    net.consumes[2] = true;
    let (now, there) = (net.now, net.there(2).end());
    net.endpoints[2].consumed(now, id, there);
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
}

/// Slow, pausing, dying and lossy receivers; the settings and the repair are the seed's.
fn troubled(seed: u64, planted: Option<PlantedInRounds>) -> (Net, bool) {
    let mut rng = Rng::new(seed).fork("multidriver");
    let receivers = rng.range(1..8) as usize;
    let window = rng.range(8..200) as u32;
    let rule = Multidriver {
        every: rng.range(1..u64::from(window) + 1) as u32,
        partial: match rng.below(3) {
            0 => Partial::Act,
            1 => Partial::AskAll,
            _ => Partial::AskSilent,
        },
        backoff: Duration::from_micros(rng.range(0..3000)),
        use_backoff: rng.chance(0.5),
        planted,
    };
    let repair = match rng.chance(0.5) {
        true => Repair::GoBackN,
        false => Repair::Selective,
    };
    let settings = BulkConfig {
        window,
        repair,
        // Longer than any pause: who pauses is met again in the same transfer.
        vanish_after: Duration::from_secs(10),
        ..with(rule)
    };
    let length = rng.range(1_000..300_000) as usize;
    let mut net = Net::new(receivers + 1, &settings, length);
    for index in 1..=receivers {
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
    net.send(Transfer {
        rewindable: rng.chance(0.5),
        ..file(length, Wanted::Count(receivers))
    });
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
    net.run(Duration::from_secs(12));
    (net, is_sent)
}

/// What is wrong with the end of a transfer, if anything is.
fn flaw(net: &Net, is_sent: bool) -> Option<&'static str> {
    if !is_sent {
        return Some("it does not end");
    }
    let outcomes = net.outcomes();
    for index in 1..net.endpoints.len() {
        let receiver = member(index);
        let came = |notice: &Notice| matches!(notice, Notice::Registered { receiver: it, .. } if *it == receiver);
        if !net.notices[0].iter().any(came) {
            continue;
        }
        let Some(outcome) = outcomes.get(&receiver) else {
            return Some("a receiver is not named");
        };
        let has = net.has_stream(index, 0);
        let is_told = net.notices[index]
            .iter()
            .any(|notice| matches!(notice, Notice::Failed { .. }));
        if *outcome == Outcome::Complete && !has {
            return Some("a receiver is said to be complete and is not");
        }
        if !has && !is_told {
            return Some("a receiver ends without all bytes, untold");
        }
        let is_known = [Outcome::Complete, Outcome::Vanished, Outcome::Slow].contains(outcome);
        if !is_known && !net.cut[index] {
            return Some("a receiver that is there is not served");
        }
    }
    None
}

#[test]
fn whoever_is_there_has_every_byte_and_all_are_named() {
    let mut complete = 0;
    for seed in 0..400 {
        let (net, is_sent) = troubled(seed, None);
        let flaw = flaw(&net, is_sent);
        assert_eq!(flaw, None, "seed {seed}: {:?}", net.notices);
        complete += net
            .outcomes()
            .values()
            .filter(|outcome| **outcome == Outcome::Complete)
            .count();
    }
    assert!(complete > 1000, "{complete}");
}

/// What a stream that cannot be read again comes to when one receiver is away for half a second.
fn pause_of_one(planted: Option<PlantedInRounds>) -> Option<&'static str> {
    let settings = BulkConfig {
        window: 32,
        rate: at(2_000_000),
        slow: SlowPolicy::Wait,
        ..with(Multidriver {
            partial: Partial::Act,
            planted,
            ..rounds(8)
        })
    };
    let mut net = Net::new(4, &settings, 1_000_000);
    net.send(Transfer {
        rewindable: false,
        ..file(1_000_000, Wanted::Count(3))
    });
    net.run(Duration::from_millis(100));
    net.cut[2] = true;
    net.run(Duration::from_millis(500));
    net.cut[2] = false;
    let end = net.now + Duration::from_secs(20);
    let is_sent = net.run_until(end, Net::is_sent);
    net.run(Duration::from_secs(2));
    flaw(&net, is_sent)
}

#[test]
fn a_silent_receiver_holds_what_the_others_release() {
    assert_eq!(pause_of_one(None), None);
    assert_ne!(pause_of_one(Some(PlantedInRounds::SilentForgotten)), None);
}

#[test]
fn a_round_waits_for_every_receiver() {
    // Eight that reply one after the other: behind a round that ends with the first reply, the
    // replies of the others come too late.
    let late = |planted| {
        let settings = BulkConfig {
            rate: at(4_000_000),
            ..with(Multidriver {
                planted,
                ..rounds(32)
            })
        };
        let mut net = Net::new(9, &settings, 400_000);
        for index in 1..9 {
            net.late[index] = Duration::from_millis(index as u64);
            net.loss[index] = 0.01;
        }
        net.send(file(400_000, Wanted::Count(8)));
        net.must(Duration::from_secs(60), Net::is_sent);
        let sender = net.endpoints[0].counters();
        sender.answers_late
    };
    assert_eq!(late(None), 0);
    assert!(late(Some(PlantedInRounds::FirstReplyCounts)) > 0);
}

/// Every fifth seed of bulk's swarm draws the Multidriver and settings for it.
#[test]
fn groups_of_a_swarm_survive_faults() {
    let swarm = Swarm::of(&FAMILY, None, SwarmConfig::of(&FAMILY));
    for seed in 0..40 {
        let report = swarm.run_seed(seed);
        let violations = report.violations.join("\n");
        assert!(violations.is_empty(), "seed {seed}: {violations}");
    }
}

/// Found by seed 1012 of `files`.
#[test]
fn who_has_replied_and_has_no_room_is_not_given_up_with_one_that_is_silent() {
    let settings = BulkConfig {
        buffer_max: 20_000,
        slow: SlowPolicy::Wait,
        ..with(rounds(10))
    };
    for moment in 0..5 {
        let mut net = Net::new(4, &settings, 60_000);
        net.consumes[1] = false;
        let id = net.send(file(60_000, Wanted::Count(3)));
        net.must(Duration::from_secs(1), |net| !net.data[3].is_empty());
        net.run(Duration::from_millis(moment));
        net.cut[2] = true;
        net.must(settings.vanish_after * 3, |net| !net.outcomes().is_empty());
        net.consumes[1] = true;
        let now = net.now;
        net.endpoints[1].consumed(now, id, 20_000);
        net.must(Duration::from_secs(20), Net::is_sent);
        let outcomes = net.outcomes();
        let of = [1, 2, 3].map(|index| outcomes[&member(index)].clone());
        let complete = Outcome::Complete;
        let expected = [complete.clone(), Outcome::Vanished, complete];
        assert_eq!(of, expected, "{moment}");
    }
}
