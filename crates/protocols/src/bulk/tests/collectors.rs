//! Goal: under collectors the sender reads as many acknowledgements of a request as there are
//! collectors, however many receivers there are; what is missing comes at once; a collector that
//! dies is replaced, and nobody is believed to have what it has not said. Method: a small network
//! of endpoints, in which every datagram to the sender is counted, and a planted bug.

use std::boxed::Box;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;

use super::endpoints::config;
use super::net::{Net, file, member};
use crate::bulk::wire::{Message, Purpose};
use crate::bulk::{
    BulkConfig, Collectors, Outcome, PlantedInCollectors, Policy, RateControl, Repair, Wanted,
};

fn rule(every: u32) -> Collectors {
    Collectors {
        every,
        ..Collectors::for_window(256)
    }
}

fn with(rule: Collectors) -> BulkConfig {
    BulkConfig {
        policy: Policy::Collectors(rule),
        block: None,
        window: 256,
        rate: RateControl::Window,
        ..config()
    }
}

type Messages = Rc<RefCell<Vec<(usize, Message)>>>;

/// Everything that is sent from now on, and to whom.
fn listen(net: &mut Net) -> Messages {
    let messages = Messages::default();
    let heard = messages.clone();
    net.loses = Some(Box::new(move |_, to, body: &Bytes| {
        let (_, message) = Message::decode(body).expect("what is sent can be read");
        heard.borrow_mut().push((to, message));
        false
    }));
    messages
}

/// Acknowledgements that came to the sender: composites, and reports of single receivers.
fn at_the_sender(messages: &Messages) -> (usize, usize) {
    let messages = messages.borrow();
    let to_sender = messages.iter().filter(|(to, _)| *to == 0);
    let (mut composites, mut reports) = (0, 0);
    for (_, message) in to_sender {
        match message {
            Message::Composite(_) => composites += 1,
            Message::Report(it) if it.purpose != Purpose::Register => reports += 1,
            _ => {}
        }
    }
    (composites, reports)
}

#[test]
fn four_acknowledge_a_request_whatever_the_number_of_receivers() {
    for receivers in [2, 4, 5, 20, 50, 100, 200] {
        let mut net = Net::new(receivers + 1, &with(rule(10)), 20_000);
        let messages = listen(&mut net);
        net.send(file(20_000, Wanted::Count(receivers)));
        net.must(Duration::from_secs(5), Net::is_sent);
        // Packets 10 and 20; the second is the last.
        let expected = match receivers {
            // Small groups do without.
            2..=4 => (0, 2 * receivers),
            _ => (2 * 4, 0),
        };
        assert_eq!(at_the_sender(&messages), expected, "{receivers} receivers");
        let sender = net.endpoints[0].counters();
        assert_eq!((sender.polls_sent, sender.packets_repeated), (0, 0));
        assert_eq!(sender.reports_received, 2 * receivers as u64, "a row each");
        let outcomes = net.outcomes();
        assert!((1..=receivers).all(|it| outcomes[&member(it)] == Outcome::Complete));
    }
}

#[test]
fn what_one_receiver_misses_is_told_at_once_and_its_collector_tells_the_rest_together() {
    let receivers = 20;
    let mut net = Net::new(receivers + 1, &with(rule(10)), 10_000);
    let messages = Messages::default();
    let heard = messages.clone();
    // Receiver 7 loses the fifth packet.
    let mut has_lost = false;
    net.loses = Some(Box::new(move |_, to, body: &Bytes| {
        let (_, message) = Message::decode(body).expect("what is sent can be read");
        let falls = matches!(&message, Message::Data(data) if data.header.number.0 == 4);
        heard.borrow_mut().push((to, message));
        let is_lost = to == 7 && falls && !has_lost;
        has_lost |= is_lost;
        is_lost
    }));
    net.send(file(10_000, Wanted::Count(receivers)));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!((1..=receivers).all(|index| net.has_stream(index, 0)));
    let messages = messages.borrow();
    let to_sender = messages.iter().filter_map(|(to, message)| match message {
        Message::Composite(it) if *to == 0 => Some(it),
        _ => None,
    });
    // The rows that say that something is missing travel alone; no other row waits for them.
    let (errors, others): (Vec<_>, Vec<_>) =
        to_sender.partition(|it| it.rows.iter().any(|row| row.report.purpose == Purpose::Nak));
    assert!(!errors.is_empty() && errors.iter().all(|it| it.rows.len() == 1));
    let rows = others.iter().map(|it| it.rows.len()).max();
    assert_eq!(rows, Some(receivers / 4), "the others' are told together");
    assert_eq!(net.endpoints[0].counters().polls_sent, 0);
}

/// A transfer to twelve whose second receiver, a collector, dies when the first packets have left,
/// and with it the link to one of the receivers that it collects from.
fn with_a_dead_collector(rule: Collectors, repair: Repair) -> (Net, Messages) {
    let settings = BulkConfig {
        repair,
        vanish_after: Duration::from_secs(2),
        rto_max: Duration::from_millis(200),
        // Long enough for somebody to die meanwhile.
        rate: RateControl::Fixed {
            bytes_per_second: 1_000_000,
        },
        ..with(rule)
    };
    let mut net = Net::new(13, &settings, 30_000);
    let messages = listen(&mut net);
    net.send(file(30_000, Wanted::Count(12)));
    net.must(Duration::from_secs(5), |net| !net.data[2].is_empty());
    net.cut[2] = true;
    // Member 6 is the sixth receiver: the second collector has it, as it has 2 and 10.
    net.cut[6] = true;
    let end = net.now + Duration::from_millis(900);
    net.run_until(end, Net::is_sent);
    net.cut[6] = false;
    (net, messages)
}

#[test]
fn a_dead_collector_is_replaced_and_its_receivers_miss_nothing() {
    for repair in [Repair::Selective, Repair::GoBackN] {
        let (mut net, messages) = with_a_dead_collector(rule(8), repair);
        net.must(Duration::from_secs(20), Net::is_sent);
        let outcomes = net.outcomes();
        for index in 1..=12 {
            let expected = match index {
                2 => Outcome::Vanished,
                _ => Outcome::Complete,
            };
            assert_eq!(outcomes[&member(index)], expected, "{index} {repair:?}");
            assert!(index == 2 || net.has_stream(index, 0), "{index}");
        }
        let messages = messages.borrow();
        let lists = messages.iter().filter_map(|(_, message)| match message {
            Message::Start(start) => start.collectors.clone(),
            _ => None,
        });
        let last = lists.max_by_key(|list| list.version);
        let last = last.expect("there are collectors");
        assert!(last.version > 0, "it was replaced");
        assert!(!last.members.contains(&member(2)), "{last:?}");
    }
}

#[test]
fn that_a_dead_collector_is_believed_is_seen() {
    let planted = Collectors {
        planted: Some(PlantedInCollectors::DeadBelieved),
        ..rule(8)
    };
    let (mut net, _) = with_a_dead_collector(planted, Repair::Selective);
    net.run_until(net.now + Duration::from_secs(5), Net::is_sent);
    let told = net.outcomes().get(&member(6)) == Some(&Outcome::Complete);
    assert!(told && !net.has_stream(6, 0));
}
