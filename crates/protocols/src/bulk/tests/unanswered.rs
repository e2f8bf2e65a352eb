//! Goal: a connection that nobody answers begins at once; its receivers say nothing, and are given
//! whole messages only, in order, each once, and by their true numbers; what is lost is lost.
//! Method: a small network that counts what receivers send; losses one by one, and schedules from
//! seeds.

use std::boxed::Box;
use std::cell::Cell;
use std::rc::Rc;
use std::string::ToString as _;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::Rng;

use super::net::{Net, file, member};
use super::talk::{PACKET, WINDOW, messages, talking};
use crate::bulk::wire::Message;
use crate::bulk::{
    BulkConfig, Failure, Multidriver, Notice, Opening, Policy, RateControl, SendError, Transfer,
    Wanted, Xtp,
};

fn config(policy: Policy) -> BulkConfig {
    BulkConfig {
        rate: RateControl::Fixed {
            bytes_per_second: 1_000_000,
        },
        ..talking(policy)
    }
}

fn policies() -> [Policy; 4] {
    [
        Policy::Nak { poll: 8 },
        Policy::Xtp(Xtp::for_window(WINDOW)),
        Policy::Multidriver(Multidriver::for_window(WINDOW)),
        Policy::List(Multidriver::for_window(WINDOW)),
    ]
}

/// This many messages of some lengths, empty and long ones among them.
fn some(count: usize) -> Vec<Bytes> {
    messages((0..count).map(|number| number * 137 % 950))
}

/// Has the sender open a connection that nobody answers.
fn open(net: &mut Net) {
    net.gaps = true;
    net.open_as(1, Opening::Unanswered);
}

/// The numbers of the messages that a user was given. Each is what was sent under this number.
fn given(net: &Net, index: usize, all: &[Bytes]) -> Vec<u64> {
    let numbers = &net.numbers[index];
    for (number, message) in numbers.iter().zip(&net.messages[index]) {
        assert_eq!(message, &all[*number as usize - 1], "{index}: {number}");
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    numbers.clone()
}

fn is_over(net: &Net, index: usize) -> bool {
    let notices = net.notices[index].iter();
    let mut over = notices.filter(|it| matches!(it, Notice::Ended { .. } | Notice::Failed { .. }));
    over.next().is_some()
}

#[test]
fn it_begins_at_once_and_nobody_says_a_word() {
    for policy in policies() {
        let all = some(50);
        let mut net = Net::new(5, &config(policy), 0);
        let said = Rc::new(Cell::new(0));
        let says = Rc::clone(&said);
        net.loses = Some(Box::new(move |_, to, body| {
            let message = Message::decode(body).expect("it was encoded").1;
            let by_receiver = matches!(
                message,
                Message::Report(_)
                    | Message::Refuse(_)
                    | Message::Joined(_)
                    | Message::Composite(_)
            );
            says.set(says.get() + usize::from(to == 0 || by_receiver));
            if let Message::Data(data) = message {
                assert!(!data.header.answer, "nobody is asked");
            }
            false
        }));
        let begun = net.now;
        open(&mut net);
        net.to_send = all.clone().into();
        net.must(Duration::from_secs(5), |net| net.messages[1].len() == 2);
        // An announcement and a packet, a millisecond later.
        assert!(net.now - begun <= Duration::from_millis(2), "{policy:?}");
        net.must(Duration::from_secs(5), |net| net.messages[1].len() == 50);
        // It stays while nothing is said, for much longer than a receiver waits.
        net.run(Duration::from_secs(20));
        assert!((1..5).all(|index| !is_over(&net, index)), "{policy:?}");
        let id = net.id.expect("it was opened");
        net.endpoints[0].finish(net.now, id);
        net.must(Duration::from_secs(1), Net::is_sent);
        net.run(Duration::from_secs(3));
        for index in 1..5 {
            let numbers: Vec<u64> = (1..=50).collect();
            assert_eq!(given(&net, index, &all), numbers, "{policy:?}");
            assert_eq!(net.notices[index].last(), Some(&Notice::Ended { id }));
        }
        assert_eq!(said.get(), 0, "{policy:?}");
        let told = &net.notices[0];
        let is_known =
            |notice: &Notice| matches!(notice, Notice::Registered { .. } | Notice::Settled { .. });
        assert!(
            net.all_had.is_empty() && !told.iter().any(is_known),
            "{told:?}"
        );
        assert_eq!(net.endpoints[0].status().buffered, 0);
    }
}

#[test]
fn a_message_of_which_a_packet_is_lost_is_not_given_and_the_next_one_is() {
    let all = [0, 350, 120, 100, 0, 99].map(|len| Bytes::from(std::vec![len as u8; len]));
    // Packet 0 is the first message, 1 to 4 the second, 5 and 6 the third.
    for (lost, expected) in [
        (0, &[2, 3, 4, 5, 6][..]),
        (1, &[1, 3, 4, 5, 6]),
        (2, &[1, 3, 4, 5, 6]),
        (4, &[1, 3, 4, 5, 6]),
        (5, &[1, 2, 4, 5, 6]),
        (6, &[1, 2, 4, 5, 6]),
        (7, &[1, 2, 3, 5, 6]),
        (9, &[1, 2, 3, 4, 5]),
    ] {
        let mut net = Net::new(2, &config(policies()[0]), 0);
        net.loses = Some(Box::new(move |_, _, body| {
            let message = Message::decode(body).expect("it was encoded").1;
            matches!(message, Message::Data(data) if data.header.number.0 == lost)
        }));
        open(&mut net);
        net.to_send = all.to_vec().into();
        net.run(Duration::from_secs(1));
        assert_eq!(given(&net, 1, &all), expected, "without packet {lost}");
    }
}

#[test]
fn who_comes_late_or_misses_the_announcement_begins_with_a_later_message() {
    let all = some(100);
    let mut net = Net::new(3, &config(policies()[2]), 0);
    net.cut[2] = true;
    open(&mut net);
    net.to_send = all[..50].to_vec().into();
    net.must(Duration::from_secs(5), |net| net.messages[1].len() == 50);
    net.cut[2] = false;
    // Until the next announcement: four intervals at most.
    net.run(Duration::from_millis(100));
    net.to_send = all[50..].to_vec().into();
    net.run(Duration::from_secs(1));
    assert_eq!(given(&net, 1, &all), (1..=100).collect::<Vec<u64>>());
    assert_eq!(given(&net, 2, &all), (51..=100).collect::<Vec<u64>>());
}

#[test]
fn a_user_that_takes_nothing_is_given_a_bounded_number_and_stops_nobody() {
    let all = some(1_000);
    let settings = BulkConfig {
        buffer_max: 8_000,
        ..config(policies()[0])
    };
    let mut net = Net::new(3, &settings, 0);
    net.consumes[1] = false;
    open(&mut net);
    net.to_send = all.clone().into();
    net.run(Duration::from_secs(5));
    let packets = |index: usize| -> usize {
        let messages = net.messages[index].iter();
        messages.map(|it| it.len().div_ceil(PACKET).max(1)).sum()
    };
    assert!((60..=80).contains(&packets(1)), "{}", packets(1));
    assert_eq!(given(&net, 2, &all).len(), 1_000);
    assert!(net.endpoints[1].status().buffered <= 8_000);
}

#[test]
fn a_sender_that_dies_or_gives_up_is_told_apart_from_one_that_closes() {
    let mut net = Net::new(3, &config(policies()[0]), 0);
    open(&mut net);
    net.to_send = some(3).into();
    net.run(Duration::from_millis(100));
    let id = net.id.expect("it was opened");
    net.cut[1] = true;
    net.endpoints[0].cancel(net.now, id, "enough");
    net.run(Duration::from_secs(5));
    let failed = |failure| Notice::Failed { id, failure };
    assert_eq!(net.notices[1].last(), Some(&failed(Failure::Lost)));
    let cancelled = Failure::Cancelled("enough".into());
    assert_eq!(net.notices[2].last(), Some(&failed(cancelled)));
}

#[test]
fn it_needs_a_rate_and_requires_nobody() {
    let connection = |strict, replies| Transfer {
        length: None,
        rewindable: false,
        strict,
        replies,
        ..file(0, Wanted::Open)
    };
    let fixed = config(policies()[2]);
    let found = BulkConfig {
        rate: RateControl::FAIR,
        ..fixed.clone()
    };
    let wrong = [
        (found, false, false),
        (fixed.clone(), true, false),
        (fixed, false, true),
    ];
    for (settings, strict, replies) in wrong {
        let mut net = Net::new(1, &settings, 0);
        let now = net.now;
        let opened = net.endpoints[0].open(now, connection(strict, replies), Opening::Unanswered);
        assert_eq!(opened, Err(SendError::Unanswered));
    }
}

#[test]
fn a_rate_that_would_have_to_be_found_is_refused_while_it_runs_too() {
    let mut net = Net::new(2, &config(policies()[0]), 0);
    open(&mut net);
    let (now, id) = (net.now, net.id.expect("it was opened"));
    for rate in [RateControl::FAIR, RateControl::ALL, RateControl::Window] {
        let refused = net.endpoints[0].set_rate(now, id, Some(rate));
        let refused = refused.expect_err("nobody answers").to_string();
        assert!(
            refused.contains("use a number of bits a second"),
            "{refused}"
        );
    }
    // A pause and another fixed rate are as good as elsewhere.
    let faster = RateControl::Fixed {
        bytes_per_second: 2_000_000,
    };
    for rate in [None, Some(faster)] {
        assert_eq!(net.endpoints[0].set_rate(now, id, rate), Ok(()));
    }
    let all = some(50);
    net.to_send = all.clone().into();
    net.must(Duration::from_secs(5), |net| net.messages[1].len() == 50);
}

#[test]
fn whole_messages_survive_loss_cuts_and_restarts() {
    let (mut whole, mut lost) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed).fork("unanswered");
        let policies = policies();
        let settings = config(policies[rng.below(policies.len() as u64) as usize]);
        let receivers = rng.range(1..5) as usize;
        let mut net = Net::new(receivers + 1, &settings, 0);
        let all = some(rng.range(1..100) as usize);
        net.loss.fill(rng.below(20) as f64 / 100.0);
        open(&mut net);
        for message in &all {
            net.to_send.push_back(message.clone());
            net.run(Duration::from_millis(rng.below(30)));
            let one = rng.range(1..receivers as u64 + 1) as usize;
            match rng.below(20) {
                0 => net.cut[one] = true,
                1 => net.cut.fill(false),
                2 if net.endpoints[one].local() == member(one) => net.restart(one, &settings),
                _ => {}
            }
        }
        net.must(Duration::from_secs(10), |net| net.to_send.is_empty());
        let id = net.id.expect("it was opened");
        net.endpoints[0].finish(net.now, id);
        net.must(Duration::from_secs(10), Net::is_sent);
        net.run(Duration::from_secs(5));
        for index in 1..=receivers {
            let count = given(&net, index, &all).len();
            whole += count;
            lost += all.len() - count;
            let has_heard = net.notices[index].iter();
            let mut announced = has_heard.filter(|it| matches!(it, Notice::Announced { .. }));
            assert!(
                is_over(&net, index) || announced.next().is_none(),
                "seed {seed}"
            );
        }
    }
    assert!(whole > 5_000 && lost > 5_000, "{whole} and {lost}");
}
