//! The meter against worlds that are played by hand, and against closed forms.

use bytes::Bytes;
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{Incarnation, MemberId, MessageId, NodeId, Rng, Service, Time};

use super::*;
use crate::source::{Arrivals, Source, SourceConfig};

/// Host 0 sends, all others receive.
struct Play {
    meter: Meter,
    /// Submitted by the present life of host 0.
    submitted: u64,
    life: u64,
}

impl Play {
    fn new(hosts: usize, config: MeterConfig) -> Self {
        let mut meter = Meter::new(hosts, config);
        (0..hosts).for_each(|host| meter.started(Time::ZERO, host));
        Self {
            meter,
            submitted: 0,
            life: 1,
        }
    }

    /// Host 0 is given a message of `len` bytes, and takes it.
    fn send(&mut self, at: Time, len: usize) -> (MessageId, Bytes) {
        let payload = self.meter.offer(at, 0).payload(len);
        let id = self.submit(at, &payload);
        (id, payload)
    }

    fn submit(&mut self, at: Time, payload: &[u8]) -> MessageId {
        self.submitted += 1;
        let id = MessageId {
            sender: MemberId {
                node: NodeId(1),
                incarnation: Incarnation(self.life),
            },
            number: self.submitted,
        };
        self.meter.submitted(at, 0, id, payload);
        id
    }

    fn finish(self, at: Time) -> Measures {
        self.meter.finish(at, Vec::new(), Vec::new())
    }
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("there are values");
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn constant_delays_come_out_exactly_and_the_warm_up_is_left_out() {
    let warm_up = Duration::from_secs(1);
    let mut play = Play::new(
        2,
        MeterConfig {
            warm_up,
            ..MeterConfig::default()
        },
    );
    for number in 0..300 {
        let at = ms(number * 10);
        let (id, payload) = play.send(at, 100);
        play.meter
            .arrived(at + Duration::from_millis(5), 1, &payload);
        play.meter
            .delivered(at + Duration::from_millis(7), 1, id, &payload);
    }
    let measures = play.finish(ms(3_000));
    let host = &measures.hosts[1];
    assert_eq!(measures.measured, Duration::from_secs(2));
    assert_eq!(measures.hosts[0].submitted, 200);
    assert_eq!((host.delivered, host.missing), (200, Some(0)));
    assert_eq!(host.latency.count(), 200);
    near(host.latency.mean(), 0.007);
    near(host.arrival.mean(), 0.005);
    near(host.gap.max(), 0.010);
    near(host.arrival_gap.min(), 0.010);
    near(Some(host.throughput), 100.0);
    near(Some(host.goodput_bps), 80_000.0);
    let windows: Vec<_> = host.windows.iter().map(|it| it.delivered).collect();
    assert_eq!(windows, [50; 4]);
    assert_eq!(measures.window_throughput(1), Some((100.0, 0.0)));
    // Host 0 delivered nothing, its own messages included: those offered from 1 s to 2 s are
    // missing.
    assert_eq!(measures.hosts[0].missing, Some(101));
    assert_eq!(measures.overall.throughput_slowest, 0.0);
}

#[test]
fn where_nothing_is_sent_the_rates_are_zero_without_a_sign() {
    let play = Play::new(2, MeterConfig::default());
    let overall = play.finish(ms(100)).overall;
    assert_eq!(overall.receivers, 0);
    for rate in [overall.throughput_mean, overall.goodput_mean_bps] {
        assert!(rate == 0.0 && rate.is_sign_positive(), "{rate}");
    }
}

#[test]
fn what_is_lost_repeated_or_too_young_is_told_apart() {
    let mut play = Play::new(
        3,
        MeterConfig {
            own: false,
            ..MeterConfig::default()
        },
    );
    for number in 0..100 {
        let at = ms(number * 100);
        let (id, payload) = play.send(at, 50);
        // Host 1 loses each tenth and gets each seventh twice, host 2 hears nothing.
        if number % 10 != 9 {
            play.meter.arrived(at, 1, &payload);
            play.meter.delivered(at, 1, id, &payload);
        }
        if number % 7 == 0 {
            play.meter.arrived(at, 1, &payload);
        }
        // What comes back to its sender is no duplicate.
        play.meter.arrived(at, 0, &payload);
    }
    let measures = play.finish(ms(10_000));
    // Offered at 9 s or before: numbers 0 to 90, of which 9, 19, … 89 are missing.
    assert_eq!(measures.hosts[1].missing, Some(9));
    assert_eq!(measures.hosts[2].missing, Some(91));
    assert_eq!(measures.overall.missing, Some(100));
    // 49 is lost at first and then arrives, for the first time; 0, 7, 14, … 98 but 49 arrive again.
    assert_eq!(measures.hosts[1].duplicates, 14);
    assert_eq!(measures.hosts[0].duplicates, 0);
    // No host sent anything to host 0.
    assert_eq!(
        (measures.hosts[0].missing, measures.overall.receivers),
        (None, 2)
    );
}

#[test]
fn what_comes_again_long_after_is_still_known() {
    let mut play = Play::new(2, MeterConfig::default());
    let sent: Vec<_> = (0..1_000).map(|number| play.send(ms(number), 20)).collect();
    for round in 0..2 {
        for (id, payload) in &sent {
            play.meter.arrived(ms(2_000 + round), 1, payload);
            play.meter.delivered(ms(2_000 + round), 1, *id, payload);
        }
    }
    let measures = play.finish(ms(3_000));
    let host = &measures.hosts[1];
    assert_eq!(
        (host.delivered, host.redelivered, host.duplicates),
        (1_000, 1_000, 1_000)
    );
}

#[test]
fn a_message_without_a_stamp_is_known_by_its_id_across_lives() {
    let mut play = Play::new(2, MeterConfig::default());
    for number in 0..200u64 {
        let at = ms(number * 10);
        if number == 100 {
            play.meter.stopped(0);
            play.meter.started(at, 0);
            (play.life, play.submitted) = (2, 0);
        }
        let (id, payload) = play.send(at, 3);
        play.meter.arrived(at, 1, &payload);
        assert_eq!(play.meter.origin(id, &payload), Some(0));
        let at = at + Duration::from_millis(1 + number % 2);
        play.meter.delivered(at, 1, id, &payload);
        play.meter.delivered(at, 1, id, &payload);
    }
    let measures = play.finish(ms(4_000));
    let host = &measures.hosts[1];
    assert_eq!(
        (host.delivered, host.redelivered, host.missing),
        (200, 200, Some(0))
    );
    near(host.latency.mean(), 0.0015);
    // A short payload is not recognised before its delivery.
    assert_eq!(host.unseen, 200);
    assert_eq!(
        (measures.hosts[0].whole, measures.hosts[0].missing),
        (false, None)
    );
}

#[test]
fn an_unknown_id_or_a_forged_stamp_counts_as_a_delivery_and_no_more() {
    let mut play = Play::new(2, MeterConfig::default());
    let (mut id, _) = play.send(ms(0), 3);
    id.number += 1;
    assert_eq!(play.meter.origin(id, b"abc"), None);
    play.meter.delivered(ms(1), 1, id, b"abc");
    for (host, number) in [(7, 0), (0, 1), (1, 0)] {
        let at = ms(0);
        let payload = Stamp { host, number, at }.payload(20);
        play.meter.arrived(ms(2), 1, &payload);
        play.meter.delivered(ms(2), 1, id, &payload);
    }
    let measures = play.finish(ms(3));
    assert_eq!(measures.hosts[1].delivered, 4);
    assert_eq!(measures.hosts[1].latency.count(), 0);
}

#[test]
fn what_no_protocol_took_is_expected_of_nobody() {
    let mut play = Play::new(2, MeterConfig::default());
    for number in 0..10 {
        let at = ms(number);
        let payload = play.meter.offer(at, 0).payload(20);
        match number {
            3 => play.meter.refused(at, 0),
            5 => play.meter.rejected(at, 0),
            // It waits, and the next is taken first, as if it had been lost between user and
            // process.
            7 => {}
            _ => {
                let id = play.submit(at, &payload);
                play.meter.delivered(at, 1, id, &payload);
            }
        }
    }
    play.meter.offer(ms(11), 0);
    let measures = play.finish(ms(5_000));
    assert_eq!(
        (measures.overall.submitted, measures.overall.refused),
        (7, 2)
    );
    assert_eq!(
        (measures.hosts[1].delivered, measures.hosts[1].missing),
        (7, Some(0))
    );
}

#[test]
fn interference_is_that_of_the_papers_example() {
    // 004 6.10: 25 messages a second over links of 40 ms: later than 80 ms is interference.
    let mut play = Play::new(3, MeterConfig::default());
    play.meter.set_rate(0, 25.0);
    play.meter.set_path(0, 1, Duration::from_millis(40));
    for (number, after) in [40, 79, 80, 81, 500].into_iter().enumerate() {
        let at = ms(number as u64 * 40);
        let (_, payload) = play.send(at, 100);
        for host in [1, 2] {
            play.meter
                .arrived(at + Duration::from_millis(after), host, &payload);
            // A second receipt changes nothing.
            play.meter
                .arrived(at + Duration::from_secs(2), host, &payload);
        }
    }
    let measures = play.finish(ms(5_000));
    assert_eq!(measures.hosts[1].interference, Some(0.4));
    assert_eq!(measures.hosts[2].interference, None);
    assert_eq!(measures.overall.interference, Some(0.4));
}

#[test]
fn datagrams_are_counted_by_kind_by_role_and_by_window() {
    let mut play = Play::new(2, MeterConfig::default());
    let datagram = |kind, role| Inspected { kind, role };
    for tenths in 0..10 {
        let at = ms(tenths * 100);
        play.meter.sent(at, 0, datagram("token", Role::Control), 50);
        play.meter.sent(at, 0, datagram("join", Role::Control), 70);
        if tenths < 3 {
            play.meter
                .received(at, 0, datagram("nak", Role::Request), 30);
            play.meter.sent(at, 0, datagram("data", Role::Repair), 200);
        }
    }
    let measures = play.finish(ms(1_000));
    let host = &measures.hosts[0];
    assert_eq!(
        (host.traffic.control.sent, host.traffic.control.sent_bytes),
        (20, 1_200)
    );
    assert_eq!(
        (host.traffic.requests.received, host.traffic.repairs.sent),
        (3, 3)
    );
    let kinds: Vec<_> = host
        .kinds
        .iter()
        .map(|it| (it.kind, it.packets.sent))
        .collect();
    assert_eq!(
        kinds,
        [("token", 10), ("join", 10), ("nak", 0), ("data", 3)]
    );
    let repairs: Vec<_> = host.windows.iter().map(|it| it.repairs_sent).collect();
    assert_eq!(repairs, [3, 0]);
    assert_eq!(measures.overall.traffic.control.sent, 20);
    assert_eq!(measures.rate(3), 3.0);
}

#[test]
fn a_long_run_with_a_deaf_receiver_takes_bounded_memory() {
    let config = MeterConfig {
        pending_max: 1_024,
        windows_max: 10,
        ..MeterConfig::default()
    };
    let mut play = Play::new(2, config);
    let mut missed = 0;
    for number in 0..200_000 {
        let at = Time::from_nanos(number * 100_000);
        let (id, payload) = play.send(at, 20);
        if number % 1_000 == 500 {
            missed += 1;
        } else {
            play.meter.delivered(at, 1, id, &payload);
        }
    }
    assert!(play.meter.hosts[1].streams[0].delivered.words() <= 16);
    assert!(play.meter.hosts[0].issued.remembered() <= 1_024);
    assert_eq!(play.meter.hosts[1].windows.len(), 10);
    // All of it is due: the end is long after.
    let measures = play.finish(ms(60_000));
    assert_eq!(measures.hosts[1].missing, Some(missed));
}

#[test]
fn an_m_m_1_queue_has_the_latencies_of_the_textbook() {
    let (offered, served) = (500.0, 1_000.0);
    let arrivals = Arrivals::Poisson { rate: offered };
    let config = SourceConfig::new(arrivals, 20, Service::Fifo);
    let mut source = Source::new(config, Rng::new(3)).unwrap();
    let mut service = Source::new(
        SourceConfig::new(Arrivals::Poisson { rate: served }, 1, Service::Fifo),
        Rng::new(4),
    )
    .unwrap();
    let mut play = Play::new(
        2,
        MeterConfig {
            warm_up: Duration::from_secs(10),
            ..MeterConfig::default()
        },
    );
    let (end, mut free, mut last) = (ms(1_010_000), Time::ZERO, Time::ZERO);
    while let Some(at) = source.due().filter(|at| *at < end) {
        source.take(at).unwrap();
        source.taken();
        let (id, payload) = play.send(at, 20);
        // The gaps of a second Poisson process are the times of service.
        let next = service.due().unwrap();
        service.take(next).unwrap();
        free = free.max(at) + (next - last);
        last = next;
        play.meter.delivered(free, 1, id, &payload);
    }
    let measures = play.finish(end);
    let host = &measures.hosts[1];
    // In the system: exponential with mean 1/(μ − λ) = 2 ms. The queue forgets with a time constant
    // of 1/(√μ − √λ)² = 12 ms, so 1,000 s are worth 43,000 independent looks; four standard errors
    // each.
    let mean = host.latency.mean().unwrap();
    assert!((mean / 0.002 - 1.0).abs() < 0.02, "{mean}");
    let p90 = host.latency.quantile(0.9).unwrap();
    assert!((p90 / (0.002 * 10f64.ln()) - 1.0).abs() < 0.03, "{p90}");
    let share = host
        .latency
        .share(Duration::from_millis(4), Duration::from_secs(9))
        .unwrap();
    assert!((share / (-2f64).exp() - 1.0).abs() < 0.05, "{share}");
    // What leaves is Poisson again (Burke): the variance of the counts in windows is their mean,
    // here over 2,000 windows.
    let (mean, variance) = measures.window_throughput(1).unwrap();
    assert!((mean / offered - 1.0).abs() < 0.01, "{mean}");
    assert!((variance * 0.5 / offered - 1.0).abs() < 0.13, "{variance}");
}

#[test]
fn results_are_written_in_seconds_with_the_bins_that_are_not_empty() {
    let mut play = Play::new(2, MeterConfig::default());
    let (id, payload) = play.send(ms(0), 20);
    play.meter.delivered(ms(250), 1, id, &payload);
    play.meter.configured(ms(20), 1, 2);
    let written = serde_json::to_value(play.finish(ms(1_500))).unwrap();
    let host = &written["hosts"][1];
    assert_eq!(written["measured_s"], 1.5);
    assert_eq!(host["latency"]["mean_s"], 0.25);
    assert_eq!(host["latency"]["bins"], serde_json::json!([[0.2, 0.3, 1]]));
    assert_eq!(host["gap"]["mean_s"], serde_json::Value::Null);
    assert_eq!(host["windows"].as_array().map(Vec::len), Some(3));
    assert_eq!(
        host["installed"],
        serde_json::json!([{"at_s": 0.02, "members": 2}])
    );
}
