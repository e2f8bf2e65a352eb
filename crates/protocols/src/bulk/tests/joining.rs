//! Goal: a receiver that comes to a connection while it runs gets every message from one on, in
//! order; it and the sender are told which one that is, and say the same; nobody who misses the
//! first messages is said to have them. Method: a small network, lost words one by one, and
//! schedules from seeds with loss, cuts and restarts.

use std::boxed::Box;
use std::collections::VecDeque;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{MemberId, Rng};

use super::net::{Net, accepting, file, member};
use super::talk::{PACKET, WINDOW, messages, talking};
use crate::bulk::wire::{Message, Purpose};
use crate::bulk::{
    BulkConfig, Damping, Failure, Multidriver, Notice, Opening, Order, Outcome, Policy,
    RateControl, Repair, SendError, Transfer, Wanted, Xtp,
};

fn config() -> BulkConfig {
    talking(Policy::Xtp(Xtp::for_window(WINDOW)))
}

/// This many messages of some lengths, empty ones among them.
fn some(count: usize) -> Vec<Bytes> {
    messages((0..count).map(|number| number * 37 % 450))
}

/// The number of the first message of the receiver that has joined, as the sender was told.
fn joined(net: &Net, receiver: MemberId) -> Option<u64> {
    net.notices[0].iter().find_map(|notice| match notice {
        Notice::Joined {
            receiver: Some(joined),
            number,
            ..
        } if *joined == receiver => Some(*number),
        _ => None,
    })
}

/// Whether a user was given exactly the messages from its first on.
fn has_all_from_its_first(net: &Net, index: usize, all: &[Bytes]) -> bool {
    let from = net.first[index] as usize - 1;
    net.messages[index] == all[from..]
}

/// Two receivers from the start and a third that is cut off until half of the messages are sent.
fn with_a_late_one(all: &[Bytes]) -> Net {
    let mut net = Net::new(4, &config(), 0);
    net.cut[3] = true;
    net.open_as(2, Opening::AtAnyTime);
    let half = all.len() / 2;
    net.to_send = all[..half].to_vec().into();
    net.must(Duration::from_secs(10), |net| net.all_had.len() == half);
    net.cut[3] = false;
    net
}

/// Sends the rest, closes, and looks whether both ends say of the late one what is.
fn ends_well(mut net: Net, all: &[Bytes]) {
    let id = net.id.expect("it was opened");
    net.must(Duration::from_secs(10), |net| {
        joined(net, member(3)).is_some()
    });
    net.to_send = all[all.len() / 2..].to_vec().into();
    net.must(Duration::from_secs(10), |net| {
        net.all_had.len() == all.len()
    });
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(10), Net::is_sent);
    net.run(Duration::from_secs(1));
    let number = net.first[3];
    assert_eq!(joined(&net, member(3)), Some(number));
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&member(3)], Outcome::Joined { number });
    for index in 1..4 {
        assert!(has_all_from_its_first(&net, index, all), "{index}");
        let last = net.notices[index].last();
        assert_eq!(last, Some(&Notice::Ended { id }), "{index}");
    }
    for index in 1..3 {
        assert_eq!(
            (net.first[index], &outcomes[&member(index)]),
            (1, &Outcome::Complete)
        );
    }
    let told = net.notices[3].iter().filter_map(|notice| match notice {
        Notice::Enrolled { .. } => Some(0),
        Notice::Joined { number, .. } => Some(*number),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<u64>>(), [0, number]);
}

#[test]
fn who_comes_late_joins_from_the_next_message_on_and_both_ends_are_told() {
    let all = some(40);
    let mut net = with_a_late_one(&all);
    // While nothing is said, the next message is the next that is offered.
    net.must(Duration::from_secs(10), |net| {
        joined(net, member(3)).is_some()
    });
    assert_eq!(net.first[3], 21);
    ends_well(net, &all);
}

#[test]
fn the_place_is_told_again_until_it_is_confirmed_whichever_word_is_lost() {
    type Kind = fn(&Message) -> bool;
    let is_join: Kind = |message| matches!(message, Message::Join(_));
    let is_joined: Kind = |message| matches!(message, Message::Joined(_));
    for kind in [is_join, is_joined] {
        for lost in 1..6 {
            let all = some(60);
            let mut net = with_a_late_one(&all);
            let mut left = lost;
            net.loses = Some(Box::new(move |_, _, body| {
                let message = Message::decode(body).expect("it was encoded").1;
                let loses = left > 0 && kind(&message);
                left -= usize::from(loses);
                loses
            }));
            // Others go on meanwhile, so that the first place is gone when it is heard of.
            for message in &all[30..50] {
                net.to_send.push_back(message.clone());
                net.run(Duration::from_millis(20));
            }
            let middle = all.len() - 10;
            net.must(Duration::from_secs(10), |net| net.all_had.len() == middle);
            net.must(Duration::from_secs(10), |net| {
                joined(net, member(3)).is_some()
            });
            let id = net.id.expect("it was opened");
            net.to_send = all[50..].to_vec().into();
            net.must(Duration::from_secs(10), |net| net.all_had.len() == 60);
            net.endpoints[0].finish(net.now, id);
            net.must(Duration::from_secs(10), Net::is_sent);
            let number = net.first[3];
            assert!(number > 30, "{number}");
            assert_eq!(net.outcomes()[&member(3)], Outcome::Joined { number });
            assert!(has_all_from_its_first(&net, 3, &all));
        }
    }
}

#[test]
fn who_misses_nothing_that_is_released_joins_from_the_first_message_on() {
    let all = some(10);
    // Nothing is released for long.
    let settings = BulkConfig {
        policy: Policy::Xtp(Xtp {
            agree: 16,
            ..Xtp::for_window(WINDOW)
        }),
        ..config()
    };
    let mut net = Net::new(4, &settings, 0);
    let mut left = 2;
    net.loses = Some(Box::new(move |_, to, body| {
        let message = Message::decode(body).expect("it was encoded").1;
        let registers = |message: &Message| matches!(message, Message::Report(report) if report.purpose == Purpose::Register);
        // Of the third the first words.
        let is_third = to == 0 && registers(&message) && left > 0;
        left -= usize::from(is_third);
        is_third
    }));
    // The first registration of two of the three is lost, and it begins with one.
    let id = net.open_as(1, Opening::AtAnyTime);
    net.must(Duration::from_secs(5), |net| {
        net.notices[0]
            .iter()
            .any(|it| matches!(it, Notice::Started { .. }))
    });
    net.to_send = all.clone().into();
    net.must(Duration::from_secs(5), |net| net.all_had.len() == 10);
    net.run(Duration::from_secs(1));
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(5), Net::is_sent);
    for index in 1..4 {
        assert_eq!(net.outcomes()[&member(index)], Outcome::Complete, "{index}");
        assert_eq!(net.messages[index], all, "{index}");
    }
}

#[test]
fn who_hears_everything_and_is_never_heard_is_not_told_that_it_is_counted_in() {
    let all = some(10);
    let mut net = Net::new(3, &config(), 0);
    let mut is_first = true;
    net.loses = Some(Box::new(move |_, to, body| {
        let message = Message::decode(body).expect("it was encoded").1;
        let registers = to == 0
            && matches!(message, Message::Report(report) if report.purpose == Purpose::Register);
        registers && !std::mem::take(&mut is_first)
    }));
    let id = net.open_as(1, Opening::AtAnyTime);
    net.to_send = all.clone().into();
    net.must(Duration::from_secs(5), |net| net.all_had.len() == 10);
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(5), Net::is_sent);
    net.run(Duration::from_secs(1));
    let heard = net.outcomes();
    let is_enrolled = |index: usize| net.notices[index].contains(&Notice::Enrolled { id });
    for index in 1..3 {
        let is_heard = heard.contains_key(&member(index));
        assert_eq!(is_enrolled(index), is_heard, "{index}");
        assert_eq!(net.messages[index].len(), all.len(), "{index}");
    }
    assert_eq!(heard.len(), 1);
}

#[test]
fn what_a_receiver_says_it_holds_it_has_handed_over_though_it_never_hears_that_it_is_listed() {
    let all = some(10);
    let mut net = Net::new(3, &config(), 0);
    net.loses = Some(Box::new(|_, to, body| {
        let message = Message::decode(body).expect("it was encoded").1;
        to == 2 && matches!(message, Message::Start(_) | Message::Finish(_))
    }));
    let id = net.open_as(2, Opening::AtAnyTime);
    net.to_send = all.clone().into();
    net.must(Duration::from_secs(5), |net| net.all_had.len() == 10);
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(5), Net::is_sent);
    // The sender's last word is lost, and the receiver waits for another.
    assert_eq!(net.outcomes()[&member(2)], Outcome::Complete);
    assert_eq!(net.messages[2], all);
    net.run(config().vanish_after * 2);
    assert_eq!(net.notices[2].last(), Some(&Notice::Ended { id }));
}

#[test]
fn a_receiver_that_is_restarted_before_it_is_ready_joins_and_gets_what_is_said() {
    let settings = BulkConfig {
        reserve: true,
        ..config()
    };
    let mut net = Net::new(2, &settings, 0);
    let id = net.open_as(1, Opening::AtAnyTime);
    net.must(Duration::from_secs(1), |net| {
        let started = |it: &Notice| matches!(it, Notice::Started { .. });
        net.notices[0].iter().any(started)
    });
    net.restart(1, &settings);
    let all = some(10);
    net.to_send = all.clone().into();
    net.must(Duration::from_secs(10), |net| net.all_had.len() == 10);
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(10), Net::is_sent);
    assert!(has_all_from_its_first(&net, 1, &all));
    assert_eq!(net.messages[1].len(), 10);
}

#[test]
fn a_joiner_releases_nothing_for_the_others_that_was_not_sent() {
    // Longer than a window, so that one is on its way, half of it unsent, when somebody joins.
    let all: Vec<Bytes> = (0..12)
        .map(|it| std::vec![it; 30 * PACKET].into())
        .collect();
    let mut xtp = Xtp::for_window(WINDOW);
    xtp.control.damping = Damping::Off;
    let settings = BulkConfig {
        policy: Policy::Xtp(xtp),
        rate: RateControl::Fixed {
            bytes_per_second: 10_000,
        },
        ..config()
    };
    let mut net = Net::new(4, &settings, 0);
    net.cut[3] = true;
    let id = net.open_as(2, Opening::AtAnyTime);
    net.to_send = all.clone().into();
    net.must(Duration::from_secs(30), |net| net.all_had.len() == 3);
    net.cut[3] = false;
    // From now on only the joiner's answers come through: the others have received all that was
    // sent since the start.
    net.loses = Some(Box::new(|_, to, body| {
        let message = Message::decode(body).expect("it was encoded").1;
        to == 0
            && matches!(message, Message::Report(report)
                if report.answers && report.received + 10 > report.seen.0)
    }));
    net.must(Duration::from_secs(10), |net| {
        joined(net, member(3)).is_some()
    });
    net.must(Duration::from_secs(60), |net| net.to_send.is_empty());
    net.loses = None;
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(60), Net::is_sent);
    for index in 1..4 {
        assert!(has_all_from_its_first(&net, index, &all), "{index}");
    }
}

#[test]
fn a_connection_that_is_not_open_to_all_refuses_who_comes_late() {
    let all = some(20);
    let mut net = Net::new(4, &config(), 0);
    net.acceptance[3] = None;
    let id = net.open(2);
    net.to_send = all[..10].to_vec().into();
    net.must(Duration::from_secs(5), |net| net.all_had.len() == 10);
    // It has heard the announcement, and makes up its mind now.
    let now = net.now;
    let accepted = net.endpoints[3].accept(now, id, &accepting(Order::InOrder));
    assert_eq!(accepted, Ok(()));
    net.to_send = all[10..].to_vec().into();
    net.must(Duration::from_secs(5), |net| net.all_had.len() == 20);
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!(!net.outcomes().contains_key(&member(3)));
    let came_late = Notice::CameLate {
        id,
        receiver: member(3),
        name: "host".into(),
    };
    let told = net.notices[0].iter().filter(|it| **it == came_late);
    assert_eq!(told.count(), 1);
    assert!(net.messages[3].is_empty());
    let failure = Failure::Dropped;
    assert_eq!(net.notices[3].last(), Some(&Notice::Failed { id, failure }));
}

#[test]
fn other_policies_and_strict_connections_cannot_be_joined() {
    let connection = |strict| Transfer {
        length: None,
        rewindable: false,
        strict,
        ..file(0, Wanted::Open)
    };
    let rounds = BulkConfig {
        policy: Policy::Multidriver(Multidriver::for_window(WINDOW)),
        ..config()
    };
    for (settings, strict) in [(rounds, false), (config(), true)] {
        let mut net = Net::new(1, &settings, 0);
        let now = net.now;
        let opened = net.endpoints[0].open(now, connection(strict), Opening::AtAnyTime);
        assert_eq!(opened, Err(SendError::Opening));
    }
}

/// How a schedule went: receivers that joined, those that were outrun, those that came too late.
#[derive(Default, Debug)]
struct Went {
    joined: usize,
    outrun: usize,
    late: usize,
}

/// A connection that receivers come to at any time, over a network that loses; some are cut off,
/// die and come back: what must hold of it.
fn survives(seed: u64, went: &mut Went) {
    let mut rng = Rng::new(seed).fork("joining");
    let config = BulkConfig {
        repair: match rng.chance(0.3) {
            true => Repair::GoBackN,
            false => Repair::Selective,
        },
        reserve: rng.chance(0.3),
        policy: Policy::Xtp(Xtp {
            agree: rng.range(1..5) as u32,
            ..Xtp::for_window(WINDOW)
        }),
        ..config()
    };
    let receivers = rng.range(2..7) as usize;
    let early = rng.range(1..receivers as u64 + 1) as usize;
    let mut net = Net::new(receivers + 1, &config, 0);
    let all = some(rng.range(5..80) as usize);
    let mut left: VecDeque<Bytes> = all.clone().into();
    net.cut[early + 1..].fill(true);
    let id = net.open_as(early, Opening::AtAnyTime);
    net.run(Duration::from_millis(rng.below(200)));
    net.loss.fill(rng.below(15) as f64 / 100.0);
    while !left.is_empty() && !net.is_sent() {
        net.to_send.extend(left.drain(..1));
        net.run(Duration::from_millis(rng.below(60)));
        let one = rng.range(1..receivers as u64 + 1) as usize;
        match rng.below(12) {
            0 => net.cut[one] = true,
            1 => net.cut.fill(false),
            2 => net.cut[one] = false,
            3 if net.endpoints[one].local() == member(one) => net.restart(one, &config),
            _ => {}
        }
    }
    let taken = |net: &Net| net.to_send.is_empty() || net.is_sent();
    net.must(Duration::from_secs(120), taken);
    net.run(Duration::from_millis(rng.below(500)));
    net.endpoints[0].finish(net.now, id);
    net.must(Duration::from_secs(120), Net::is_sent);
    net.cut.fill(false);
    net.loss.fill(0.0);
    net.run(Duration::from_secs(5));
    let outcomes = net.outcomes();
    for index in 1..=receivers {
        let local = net.endpoints[index].local();
        let outcome = outcomes.get(&local);
        let (first, given) = (net.first[index], &net.messages[index]);
        let from = first as usize - 1;
        let what = std::format!("seed {seed}, {index}: {outcome:?}, from {first}");
        assert!(
            from <= all.len() && all[from..].starts_with(&vec_of(given)),
            "{what}"
        );
        match outcome {
            Some(Outcome::Complete) => {
                assert!(first == 1 && given.len() == all.len(), "{what}");
            }
            Some(Outcome::Joined { number }) => {
                assert!(
                    *number == first && from + given.len() == all.len(),
                    "{what}"
                );
                went.joined += 1;
            }
            Some(Outcome::Outrun) => went.outrun += 1,
            Some(Outcome::Late) => went.late += 1,
            _ => {}
        }
        if let Some(number) = joined(&net, local) {
            assert_eq!(number, first, "{what}");
        }
        // Whoever was counted in and has not everything is told.
        let notices = &net.notices[index];
        let is_in = notices
            .iter()
            .any(|it| matches!(it, Notice::Enrolled { .. }));
        let is_well = notices.iter().any(|it| matches!(it, Notice::Ended { .. }));
        let is_told = notices.iter().any(|it| matches!(it, Notice::Failed { .. }));
        let has_all = from + given.len() == all.len();
        assert!(
            !is_in || is_told || is_well && has_all,
            "{what}: {notices:?}"
        );
    }
}

fn vec_of(given: &[Vec<u8>]) -> Vec<Bytes> {
    given.iter().map(|it| Bytes::copy_from_slice(it)).collect()
}

#[test]
fn what_comes_late_is_whole_from_its_place_on_through_loss_cuts_and_restarts() {
    let mut went = Went::default();
    (0..600).for_each(|seed| survives(seed, &mut went));
    assert!(went.joined > 100 && went.outrun + went.late > 5, "{went:?}");
}

#[test]
#[ignore = "takes a minute: 20,000 other seeds"]
fn joining_survives_for_long() {
    let mut went = Went::default();
    (1_000..21_000).for_each(|seed| survives(seed, &mut went));
    std::println!("{went:?}");
}
