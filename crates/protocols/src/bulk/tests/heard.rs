//! Goal: two hundred receivers at 1 Gb/s are heard by one host: their reports are bounded, and the
//! rate is found, and kept, as if there were few; and the sender tells its rate when it has nothing
//! to send. Method: the small network, where the sender has a link.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::Rng;

use super::net::{Link, Net, file};
use crate::bulk::{BulkConfig, Policy, RateControl, Transfer, Wanted};

/// 1 Gb/s.
const LINK: u64 = 125_000_000;

/// What this many receivers cost: the reports a second, and the bytes a second, once the rate is
/// found.
fn at_a_gigabit(receivers: usize) -> (f64, f64) {
    const LENGTH: usize = 200_000_000;
    let settings = BulkConfig {
        packet: 8_000,
        window: 4_096,
        policy: Policy::Nak { poll: 32 },
        rate: RateControl::FAIR,
        ..BulkConfig::lan()
    };
    let mut net = Net::new(receivers + 1, &settings, 0);
    net.stream = std::vec![7; LENGTH].into();
    net.links[0] = Some(Link::new(LINK, Duration::from_millis(10)));
    net.rng = Rng::new(receivers as u64);
    let id = net.send(file(LENGTH, Wanted::Count(receivers)));
    let heard = |net: &Net| net.endpoints[0].counters().reports_received;
    let sent = |net: &Net| net.endpoints[0].counters().packets_sent;
    // What users were given is not kept: it is much.
    let run = |net: &mut Net, millis: u64| {
        for _ in 0..millis {
            net.run(Duration::from_millis(1));
            net.data.iter_mut().for_each(BTreeMap::clear);
        }
    };
    for _ in 0..100 {
        run(&mut net, 20);
        let progress = net.endpoints[0].progress(id).expect("it goes on");
        if progress.rate.is_some_and(|rate| rate > LINK / 5 * 4) {
            break;
        }
    }
    let (reports, packets) = (heard(&net), sent(&net));
    const MILLIS: u64 = 200;
    run(&mut net, MILLIS);
    let a_second = |count: u64| count as f64 * 1000.0 / MILLIS as f64;
    let reports = a_second(heard(&net) - reports);
    let bytes = a_second(sent(&net) - packets) * settings.packet as f64;
    std::eprintln!(
        "{receivers}: {reports} reports/s, {bytes} B/s after {:?}",
        net.now
    );
    (reports, bytes)
}

#[test]
fn two_hundred_receivers_at_a_gigabit_report_a_bounded_number_of_times() {
    let (_, few) = at_a_gigabit(4);
    let (reports, many) = at_a_gigabit(200);
    assert!(reports < 25_000.0, "{reports} reports a second");
    assert!(many > 0.7 * few, "{many} B/s, {few} to few");
}

/// A source that has a little now and then, while others keep a queue: what it sends in an epoch is
/// not what the network takes.
#[test]
fn the_rate_is_told_when_there_is_nothing_to_send() {
    const RECEIVERS: usize = 3;
    const LENGTH: usize = 8_000_000;
    const BURST: usize = 28_000;
    let settings = BulkConfig {
        rate: RateControl::FAIR,
        ..BulkConfig::lan()
    };
    let mut net = Net::new(RECEIVERS + 1, &settings, LENGTH);
    for link in &mut net.links[1..] {
        *link = Some(Link::new(1_000_000, Duration::from_millis(100)));
    }
    let all = net.stream.clone();
    let id = net.send(Transfer {
        length: None,
        ..file(LENGTH, Wanted::Count(RECEIVERS))
    });
    net.stream.truncate(4_000_000);
    net.must(Duration::from_secs(20), |net| net.offered == 4_000_000);
    net.run(Duration::from_millis(500));
    let rate = |net: &Net| {
        let progress = net.endpoints[0].progress(id);
        progress.and_then(|it| it.rate).expect("it is found")
    };
    let before = rate(&net);
    net.late[1..].fill(Duration::from_millis(30));
    let mut least = before;
    for _ in 0..20 {
        let end = net.stream.len() + BURST;
        net.stream = all.slice(..end);
        net.run(Duration::from_millis(300));
        least = least.min(rate(&net));
    }
    std::eprintln!("{least} after {before}");
    assert!(least > before / 4, "{least} after {before}");
}
