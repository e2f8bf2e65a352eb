//! The laws of links against closed forms.

use std::time::Duration;

use groupcast_core::{Rng, Time};

use super::ip::{self, Reassembly, ReassemblyConfig};
use super::*;

const MILLI: u64 = 1_000_000;

/// When a packet arrives, if it does.
fn arrival(passage: Passage) -> Option<Time> {
    match passage {
        Passage::Dropped(_) => None,
        Passage::Through { first, .. } => Some(first.at),
    }
}

/// A link with what it is like and its randomness.
struct Line {
    spec: LinkSpec,
    state: LinkState,
    rng: Rng,
}

impl Line {
    fn new(spec: LinkSpec) -> Self {
        assert_eq!(spec.check(), Ok(()));
        Self {
            spec,
            state: LinkState::new(),
            rng: Rng::new(1),
        }
    }

    fn pass(&mut self, now: u64, ip_bytes: u32) -> Passage {
        self.state
            .pass(Time::from_nanos(now), ip_bytes, &self.spec, &mut self.rng)
    }

    fn arrives(&mut self, now: u64, ip_bytes: u32) -> Option<u64> {
        arrival(self.pass(now, ip_bytes)).map(Time::as_nanos)
    }

    /// Of `packets` that leave one after another, the part that is lost.
    fn loss(&mut self, packets: u64) -> f64 {
        let lost = (0..packets).filter(|it| self.arrives(it * MILLI, 100).is_none());
        lost.count() as f64 / packets as f64
    }
}

/// An exponential waiting time.
fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

#[test]
fn a_packet_takes_its_serialisation_and_the_propagation() {
    // 004 6.1: s / b + d. 210 bytes at 1.5 Mb/s are 1.12 ms; the link is 5 ms long.
    let mut line = Line::new(LinkSpec::ideal(1_500_000, Duration::from_millis(5)));
    assert_eq!(line.arrives(0, 210), Some(6_120_000));
    assert_eq!(line.arrives(0, 210), Some(7_240_000), "waits for the first");
    assert_eq!(line.arrives(100 * MILLI, 210), Some(106_120_000));
    let counters = line.state.counters();
    assert_eq!(counters.busy, Duration::from_nanos(3 * 1_120_000));
    assert_eq!((counters.packets, counters.bytes), (3, 630));
    assert_eq!(
        (counters.queue_packets_high, counters.queue_bytes_high),
        (1, 210)
    );
}

#[test]
fn an_ethernet_pads_and_frames_and_an_infinite_link_takes_no_time() {
    let mut gigabit = Line::new(LinkSpec::ethernet(1_000_000_000, Duration::ZERO));
    assert_eq!(gigabit.arrives(0, 1_500), Some(1_538 * 8));
    assert_eq!(gigabit.arrives(MILLI, 28), Some(MILLI + 84 * 8));
    let mut infinite = Line::new(LinkSpec::ideal(0, Duration::from_millis(1)));
    assert_eq!([infinite.arrives(5, 9_000); 3], [Some(MILLI + 5); 3]);
}

#[test]
fn a_saturated_link_carries_its_bandwidth() {
    let mut line =
        Line::new(LinkSpec::ideal(1_500_000, Duration::ZERO).with_queue(QueueLimit::packets(50)));
    // 2,000 packets of 210 bytes a second are 3.36 Mb/s.
    let arrived = (0..20_000).filter_map(|it| line.arrives(it * MILLI / 2, 210));
    let (count, last) = arrived.fold((0, 0), |(count, _), at| (count + 1, at));
    assert_eq!(last, count * 1_120_000, "without a pause");
    assert_eq!(line.state.counters().dropped_queue, 20_000 - count);
    assert_eq!(line.state.counters().queue_packets_high, 50);
}

#[test]
fn the_tail_is_dropped_beyond_the_limit_in_packets_or_in_bytes() {
    let passed = |queue| {
        let mut line = Line::new(LinkSpec::ideal(8_000_000, Duration::ZERO).with_queue(queue));
        let burst = (0..20).map(|_| line.arrives(0, 1_000).is_some());
        let passed = burst.filter(|passed| *passed).count();
        // One leaves every millisecond: after three and a half there is room for three.
        let later = (0..20).filter(|_| line.arrives(7 * MILLI / 2, 1_000).is_some());
        (passed, later.count())
    };
    // What is being sent does not wait.
    assert_eq!(passed(QueueLimit::packets(4)), (5, 3));
    assert_eq!(passed(QueueLimit::bytes(4_999)), (5, 3));
    assert_eq!(
        passed(QueueLimit::packets(0)),
        (1, 1),
        "an idle link takes it"
    );
    assert_eq!(passed(QueueLimit::NONE), (20, 20));
    let both = QueueLimit {
        bytes: Some(3_000),
        packets: Some(10),
    };
    assert_eq!(passed(both), (4, 3));
}

#[test]
fn a_host_that_waits_for_its_own_link_drops_nothing_and_learns_when_there_is_room() {
    let spec = LinkSpec::ideal(8_000_000, Duration::ZERO).with_queue(QueueLimit::bytes(2_000));
    let (mut link, mut rng) = (LinkState::new(), Rng::new(1));
    let mut now = Time::ZERO;
    for packet in 1..=10 {
        let (passage, room) = link.pass_patiently(now, 1_000, &spec, &mut rng);
        assert_eq!(arrival(passage), Some(Time::from_millis(packet)));
        // One is being sent and two wait; a fourth makes the host wait until one more has begun to
        // leave.
        assert_eq!(room, Time::from_millis(packet.saturating_sub(3)));
        now = room;
    }
    // Three at once, as the fragments of a datagram are: until the last of them fits.
    let rooms = [(); 3].map(|()| link.pass_patiently(now, 1_000, &spec, &mut rng).1);
    assert_eq!(rooms, [8, 9, 10].map(Time::from_millis));
    assert_eq!(link.counters().dropped_queue, 0);
}

#[test]
fn a_queue_with_poisson_arrivals_and_fixed_lengths_waits_as_m_d_1_does() {
    let service = 1_000_000.0;
    for (load, tolerance) in [(0.3, 0.02), (0.5, 0.02), (0.8, 0.04)] {
        let mut line = Line::new(LinkSpec::ideal(8_000_000, Duration::ZERO));
        let mut rng = Rng::new(7);
        let (mut now, mut waited) = (0.0, 0.0);
        let packets = 400_000;
        for _ in 0..packets {
            now += exponential(&mut rng, service / load);
            let at = line.arrives(now as u64, 1_000).unwrap();
            waited += at as f64 - now - service;
        }
        // Pollaczek and Khinchine: ρ / 2(1 − ρ) of a service time.
        let (mean, expected) = (
            waited / f64::from(packets),
            service * load / (2.0 * (1.0 - load)),
        );
        assert!(
            (mean / expected - 1.0).abs() < tolerance,
            "load {load}: {mean:.0} ns, expected {expected:.0}"
        );
    }
}

#[test]
fn a_fragmented_datagram_is_lost_with_any_of_its_fragments() {
    for (payload, rate) in [(1_000, 0.05), (8_192, 0.02), (65_000, 0.01)] {
        let mut line = Line::new(LinkSpec::ideal(0, Duration::ZERO).with_loss(Loss::Rate(rate)));
        let mut receiver = Reassembly::new(ReassemblyConfig::default());
        let fragments: Vec<u32> = ip::fragments(payload, 1_500).collect();
        let total = fragments.len() as u32;
        let datagrams = 40_000u32;
        let mut whole = 0;
        for datagram in 0..datagrams {
            for (index, bytes) in fragments.iter().enumerate() {
                if line.arrives(u64::from(datagram) * MILLI, *bytes).is_some() {
                    let now = Time::from_nanos(u64::from(datagram) * MILLI);
                    whole += u32::from(receiver.arrived(now, datagram, index as u32, total));
                }
            }
        }
        let arrived = f64::from(whole) / f64::from(datagrams);
        let expected = (1.0 - rate).powi(total as i32);
        // Four standard deviations of this many trials.
        let tolerance = 4.0 * (expected * (1.0 - expected) / f64::from(datagrams)).sqrt();
        assert!(
            (arrived - expected).abs() < tolerance,
            "{total} fragments: {arrived:.4} arrived, expected {expected:.4}"
        );
    }
}

#[test]
fn bursts_of_loss_have_their_stationary_share_and_their_length() {
    let loss = Loss::GilbertElliott {
        to_bad: 0.01,
        to_good: 0.2,
        good: 0.001,
        bad: 0.8,
    };
    let mut line = Line::new(LinkSpec::ideal(0, Duration::ZERO).with_loss(loss));
    let lost = line.loss(2_000_000);
    assert!((loss.mean() - (0.001 + 0.799 / 21.0)).abs() < 1e-12);
    assert!((lost / loss.mean() - 1.0).abs() < 0.02, "{lost}");

    // Where good means none lost and bad all, the bursts are the bad spells.
    let mut line = Line::new(
        LinkSpec::ideal(0, Duration::ZERO).with_loss(Loss::GilbertElliott {
            to_bad: 0.02,
            to_good: 0.25,
            good: 0.0,
            bad: 1.0,
        }),
    );
    let (mut lost, mut bursts, mut was_lost) = (0u32, 0u32, false);
    for packet in 0..1_000_000 {
        let is_lost = line.arrives(packet * MILLI, 100).is_none();
        lost += u32::from(is_lost);
        bursts += u32::from(is_lost && !was_lost);
        was_lost = is_lost;
    }
    let length = f64::from(lost) / f64::from(bursts);
    assert!((length / 4.0 - 1.0).abs() < 0.02, "{length}");
}

#[test]
fn independent_loss_has_its_rate_and_a_lost_packet_took_its_time() {
    let spec = LinkSpec::ideal(8_000_000, Duration::ZERO);
    let mut line = Line::new(spec.with_loss(Loss::Rate(0.1)));
    assert!((line.loss(200_000) / 0.1 - 1.0).abs() < 0.03);
    let mut dead = Line::new(spec.with_loss(Loss::Rate(1.0)));
    assert_eq!(dead.pass(0, 1_000), Passage::Dropped(Drop::Loss));
    assert_eq!(dead.state.free_at(), Time::from_millis(1));
}

#[test]
fn duplicates_follow_their_originals_and_corruption_flips_a_bit_within() {
    let mut line = Line::new(LinkSpec {
        duplication: 0.25,
        corruption: 0.5,
        ..LinkSpec::ideal(8_000_000, Duration::ZERO)
    });
    let (mut copies, mut flipped) = (0u64, 0u64);
    for packet in 0..100_000 {
        let now = packet * 10 * MILLI;
        let Passage::Through { first, second } = line.pass(now, 1_000) else {
            panic!("nothing is lost here");
        };
        assert_eq!(first.at.as_nanos(), now + MILLI);
        if let Some(second) = second {
            assert_eq!(second.at.as_nanos(), now + 2 * MILLI, "sent again");
        }
        for copy in [Some(first), second].into_iter().flatten() {
            copies += 1;
            assert!(copy.flipped.is_none_or(|bit| bit < 8_000));
            flipped += u64::from(copy.flipped.is_some());
        }
    }
    let counters = line.state.counters();
    assert_eq!((counters.packets, counters.corrupted), (copies, flipped));
    assert_eq!(counters.duplicated, copies - 100_000);
    assert!((24_000..26_000).contains(&counters.duplicated));
    assert!((copies * 49 / 100..copies * 51 / 100).contains(&flipped));
}

#[test]
fn jitter_is_even_and_holds_nobody_up() {
    let jitter = Duration::from_millis(4);
    let mut line = Line::new(LinkSpec::ideal(0, Duration::from_millis(10)).with_jitter(jitter));
    let late: Vec<u64> = (0..100_000)
        .map(|it| line.arrives(it * MILLI, 100).unwrap() - it * MILLI - 10 * MILLI)
        .collect();
    assert!(late.iter().all(|late| *late < 4 * MILLI));
    let mean = late.iter().sum::<u64>() / 100_000;
    assert!((1_980_000..2_020_000).contains(&mean), "{mean}");
    let arrivals = late.iter().zip(0u64..).map(|(late, it)| it * MILLI + late);
    assert!(!arrivals.is_sorted());
}

#[test]
fn no_randomness_is_drawn_where_nothing_is_random() {
    let plain = LinkSpec::ethernet(1_000_000_000, Duration::from_micros(1));
    let quiet = [
        plain,
        plain.with_loss(Loss::Rate(0.0)),
        plain.with_loss(Loss::GilbertElliott {
            to_bad: 0.0,
            to_good: 0.5,
            good: 0.0,
            bad: 1.0,
        }),
    ];
    for spec in quiet {
        let mut line = Line::new(spec);
        assert!(line.loss(1_000) == 0.0);
        assert_eq!(line.rng.next_u64(), Rng::new(1).next_u64());
    }
}

#[test]
fn ports_share_the_memory_of_their_switch_until_it_has_left() {
    let spec = LinkSpec::ideal(8_000_000, Duration::ZERO);
    let (mut left, mut right) = (LinkState::new(), LinkState::new());
    let (mut buffer, mut rng) = (SwitchBuffer::new(5_000), Rng::new(1));
    let mut pass = |port: &mut LinkState, now, bytes| {
        port.pass_buffered(Time::from_nanos(now), bytes, &spec, &mut buffer, &mut rng)
    };
    // The left port takes four, which leave after 1, 2, 3 and 4 ms.
    let taken = (0..4).filter(|_| arrival(pass(&mut left, 0, 1_000)).is_some());
    assert_eq!(taken.count(), 4);
    assert_eq!(pass(&mut right, 0, 1_001), Passage::Dropped(Drop::Buffer));
    assert!(arrival(pass(&mut right, 0, 1_000)).is_some());
    assert_eq!(
        pass(&mut right, MILLI - 1, 1_000),
        Passage::Dropped(Drop::Buffer)
    );
    // At 1 ms one of each has left.
    assert!(arrival(pass(&mut right, MILLI, 2_000)).is_some());
    assert_eq!(pass(&mut right, MILLI, 1), Passage::Dropped(Drop::Buffer));
    assert_eq!((buffer.high_water(), buffer.refused()), (5_000, 3));
    assert_eq!(right.counters().dropped_queue, 3);
}

#[test]
fn what_is_no_probability_is_refused_by_name() {
    let spec = LinkSpec::ideal(0, Duration::ZERO);
    let bad = LinkSpec {
        duplication: 1.5,
        ..spec
    };
    assert_eq!(
        bad.check().unwrap_err().to_string(),
        "duplication is 1.5, but a probability is between 0 and 1"
    );
    for loss in [f64::NAN, -0.1, 1.01] {
        assert!(spec.with_loss(Loss::Rate(loss)).check().is_err());
    }
    assert_eq!(spec.with_loss(Loss::Rate(1.0)).check(), Ok(()));
}

#[test]
fn a_token_bucket_lets_its_depth_leave_at_once_and_then_keeps_the_rate() {
    // 1,000 bytes at 8 Mb/s take a millisecond; four of them fit the bucket.
    let spec = LinkSpec::ideal(8_000_000, Duration::ZERO).with_burst(4_000);
    let mut line = Line::new(spec);
    let mut burst = || -> Vec<u64> {
        let start = line.state.free_at().as_nanos() + 10 * MILLI;
        let arrivals = (0..7).map(|_| line.arrives(start, 1_000).unwrap_or(u64::MAX) - start);
        arrivals.collect()
    };
    let expected = [0, 0, 0, 0, MILLI, 2 * MILLI, 3 * MILLI];
    assert_eq!(burst(), expected);
    assert_eq!(burst(), expected, "the bucket is full again");
    // However long it is saturated, no more than the rate and the depth pass.
    let last = (0..1_000)
        .filter_map(|_| line.arrives(100 * MILLI, 1_000))
        .max();
    assert_eq!(last, Some(100 * MILLI + 996 * MILLI));
}
