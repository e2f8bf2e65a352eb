//! A transfer whose rate is changed while it runs, under every policy.

use std::time::Duration;
use std::vec::Vec;

use super::endpoints::config;
use super::net::{Net, accepting, file};
use crate::bulk::{BulkConfig, Multidriver, Order, Policy, RateControl, Wanted, Xtp};

const LENGTH: usize = 400_000;

/// Bytes of the stream that the slowest of the receivers has.
fn least(net: &Net) -> usize {
    let have = |index: usize| net.data[index].values().map(bytes::Bytes::len).sum();
    (1..net.endpoints.len()).map(have).min().unwrap_or(0)
}

fn policies() -> Vec<BulkConfig> {
    let policies = [
        Policy::Nak { poll: 8 },
        Policy::Ack,
        Policy::Ring,
        Policy::Tree { height: 2 },
        Policy::Xtp(Xtp::for_window(32)),
        Policy::Multidriver(Multidriver::for_window(32)),
    ];
    let of = |policy| BulkConfig {
        block: None,
        policy,
        ..config()
    };
    policies.map(of).into()
}

fn fixed(bytes_per_second: u64) -> Option<RateControl> {
    Some(RateControl::Fixed { bytes_per_second })
}

#[test]
fn a_pause_of_many_time_outs_loses_nobody_and_sends_nothing() {
    for settings in policies() {
        let policy = settings.policy;
        let mut net = Net::new(4, &settings, LENGTH);
        for index in 1..4 {
            net.acceptance[index] = Some(accepting(Order::AsTheyCome));
            net.loss[index] = 0.02;
        }
        let id = net.send(file(LENGTH, Wanted::Count(3)));
        let now = net.now;
        net.endpoints[0].set_rate(now, id, fixed(400_000)).unwrap();
        net.must(Duration::from_secs(5), |net| least(net) > 50_000);
        let now = net.now;
        net.endpoints[0].set_rate(now, id, None).unwrap();
        // What is on its way arrives.
        net.run(Duration::from_millis(500));
        let sent = net.endpoints[0].counters().packets_sent;
        net.run(Duration::from_secs(60));
        assert_eq!(net.endpoints[0].counters().packets_sent, sent, "{policy:?}");
        assert!(!net.is_sent() && net.outcomes().is_empty(), "{policy:?}");
        let progress = net.endpoints[0].progress(id).expect("it goes on");
        assert_eq!(progress.rate, Some(0), "{policy:?}");
        let now = net.now;
        net.endpoints[0]
            .set_rate(now, id, Some(RateControl::Window))
            .unwrap();
        net.must(Duration::from_secs(20), Net::is_sent);
        assert!((1..4).all(|index| net.has_stream(index, 0)), "{policy:?}");
    }
}

#[test]
fn a_rate_that_is_changed_is_the_rate_from_then_on() {
    let mut net = Net::new(3, &config(), LENGTH);
    for index in 1..3 {
        net.acceptance[index] = Some(accepting(Order::AsTheyCome));
    }
    let id = net.send(file(LENGTH, Wanted::Count(2)));
    let now = net.now;
    net.endpoints[0].set_rate(now, id, fixed(20_000)).unwrap();
    net.run(Duration::from_secs(5));
    let slow = least(&net);
    assert!((60_000..110_000).contains(&slow), "{slow}");
    let now = net.now;
    net.endpoints[0].set_rate(now, id, fixed(100_000)).unwrap();
    net.run(Duration::from_secs(2));
    let faster = least(&net) - slow;
    assert!((160_000..210_000).contains(&faster), "{faster}");
}

#[test]
fn a_transfer_may_pause_before_its_first_byte() {
    let mut net = Net::new(3, &config(), LENGTH);
    for index in 1..3 {
        net.acceptance[index] = Some(accepting(Order::AsTheyCome));
    }
    let id = net.send(file(LENGTH, Wanted::Open));
    let now = net.now;
    net.endpoints[0].set_rate(now, id, None).unwrap();
    net.run(Duration::from_secs(30));
    assert_eq!(least(&net), 0);
    assert!(net.outcomes().is_empty());
    let now = net.now;
    net.endpoints[0]
        .set_rate(now, id, Some(RateControl::ALL))
        .unwrap();
    net.must(Duration::from_secs(20), Net::is_sent);
    assert!(net.has_stream(1, 0) && net.has_stream(2, 0));
}

#[test]
fn a_rate_of_nothing_is_refused_and_changes_nothing() {
    let mut net = Net::new(2, &config(), LENGTH);
    net.acceptance[1] = Some(accepting(Order::AsTheyCome));
    let id = net.send(file(LENGTH, Wanted::Count(1)));
    let now = net.now;
    assert!(net.endpoints[0].set_rate(now, id, fixed(0)).is_err());
    net.must(Duration::from_secs(20), Net::is_sent);
}
