//! CSMA/CD by the clock, and against what Metcalfe and Boggs predict.

use std::collections::BTreeMap;

use super::*;
use crate::link::{QueueLimit, SpecError};

/// A bus, its agenda, and what it delivered.
struct Lan {
    bus: Bus<u64>,
    agenda: BTreeMap<(Time, u64), BusStep>,
    planned: u64,
    now: Time,
    /// When, from which station, which frame.
    delivered: Vec<(u64, usize, u64)>,
}

impl Lan {
    fn new(spec: BusSpec, stations: usize, seed: u64) -> Self {
        assert_eq!(spec.check(), Ok(()));
        Self {
            bus: Bus::new(spec, stations, Rng::new(seed)),
            agenda: BTreeMap::new(),
            planned: 0,
            now: Time::ZERO,
            delivered: Vec::new(),
        }
    }

    fn enqueue(&mut self, station: usize, ip_bytes: u32, frame: u64) -> bool {
        let taken = self.bus.enqueue(self.now, station, ip_bytes, frame);
        self.plan();
        taken
    }

    fn plan(&mut self) {
        while let Some((at, step)) = self.bus.poll() {
            assert!(at >= self.now, "a step in the past");
            self.planned += 1;
            self.agenda.insert((at, self.planned), step);
        }
    }

    /// Lets the next step happen if it is due by `end`; returns whose it was.
    fn step(&mut self, end: Time) -> Option<usize> {
        let first = self
            .agenda
            .first_entry()
            .filter(|first| first.key().0 <= end);
        let Some(first) = first else {
            self.now = end;
            return None;
        };
        let ((at, _), step) = first.remove_entry();
        self.now = at;
        let delivered = self.bus.handle(at, step);
        if let Some(Delivered { station, frame }) = delivered {
            self.delivered.push((at.as_nanos(), station, frame));
        }
        self.plan();
        Some(step.station as usize)
    }

    fn run_to(&mut self, nanos: u64) {
        while self.step(Time::from_nanos(nanos)).is_some() {}
    }

    /// Every station always has something to send.
    fn saturate(&mut self, ip_bytes: u32, end: Time) {
        for station in 0..self.bus.stations.len() {
            self.enqueue(station, ip_bytes, 0);
            self.enqueue(station, ip_bytes, 0);
        }
        while let Some(station) = self.step(end) {
            while self.bus.stations[station].queue_len() < 2 {
                self.enqueue(station, ip_bytes, 0);
            }
        }
    }

    /// The part of the time in which the cable carried frames that arrived, gaps between frames
    /// left out.
    fn efficiency(&self) -> f64 {
        let counters = self.bus.counters();
        let gaps = self.bus.spec.gap.as_secs_f64() * counters.frames as f64;
        counters.busy.as_secs_f64() / ((self.now - Time::ZERO).as_secs_f64() - gaps)
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

#[test]
fn one_station_alone_reaches_the_rate_of_the_wire() {
    let spec = BusSpec::default();
    let mut lan = Lan::new(spec, 5, 1);
    for frame in 0..50 {
        assert!(lan.enqueue(3, 1_500, frame));
    }
    lan.run_to(1_000_000_000);
    // 1,518 bytes and a preamble are 1,220.8 µs; a gap of 9.6 µs between two.
    let expected: Vec<_> = (0..50)
        .map(|frame| (1_220_800 * (frame + 1) + 9_600 * frame + 2_500, 3, frame))
        .collect();
    assert_eq!(lan.delivered, expected);
    assert_eq!(lan.bus.counters().bytes, 50 * 1_518);
    assert_eq!(lan.bus.station(3).collisions, 0);
    // 812.7 frames a second: 9.75 Mb/s of IP packets.
    let mut full = Lan::new(spec, 1, 1);
    full.saturate(1_500, Time::from_millis(10_000));
    assert_eq!(full.bus.counters().frames, 8_127);
}

#[test]
fn who_hears_a_carrier_waits_for_its_end_and_a_gap() {
    let mut lan = Lan::new(BusSpec::default(), 3, 1);
    lan.enqueue(0, 1_500, 7);
    lan.run_to(2_500);
    lan.enqueue(1, 46, 8);
    lan.run_to(10_000_000);
    let first = 1_220_800 + 2_500;
    let second = first + 9_600 + 57_600 + 2_500;
    assert_eq!(lan.delivered, [(first, 0, 7), (second, 1, 8)]);
    assert_eq!(lan.bus.counters().collisions, 0);
    assert_eq!(lan.bus.station(1).deferrals, 1);
}

#[test]
fn who_begins_a_nanosecond_earlier_than_that_collides() {
    let mut lan = Lan::new(BusSpec::default(), 3, 1);
    lan.enqueue(0, 1_500, 7);
    lan.run_to(2_499);
    lan.enqueue(1, 46, 8);
    lan.run_to(50_000_000);
    assert_eq!(lan.delivered.len(), 2);
    assert!(lan.bus.counters().collisions >= 1);
    assert!(lan.bus.station(0).collisions >= 1 && lan.bus.station(1).collisions >= 1);
}

#[test]
fn a_collision_is_jammed_and_the_shorter_back_off_goes_first() {
    // Both complete the preamble (6.4 µs) and jam (3.2 µs). A host that draws no slot must wait
    // until the other's jam is over (2.5 µs) and a gap long; who draws one comes 51.2 µs after its
    // jam, and finds it sending.
    let quick = 9_600 + 2_500 + 9_600 + 57_600 + 2_500;
    let mut outcomes = BTreeMap::<usize, u32>::new();
    for seed in 0..200 {
        let mut lan = Lan::new(BusSpec::default(), 2, seed);
        lan.enqueue(0, 46, 0);
        lan.enqueue(1, 46, 1);
        lan.run_to(1_000_000_000);
        assert_eq!(lan.delivered.len(), 2);
        let tries = lan.bus.station(0).collisions;
        if tries == 1 {
            assert_eq!(lan.delivered[0].0, quick);
            assert_eq!(lan.delivered[1].0, quick + 9_600 + 57_600 + 2_500);
            *outcomes.entry(lan.delivered[0].1).or_default() += 1;
        }
        assert_eq!(
            u64::from(tries > 0),
            u64::from(lan.bus.counters().collisions > 0)
        );
    }
    // Of {0, 1} both draw different numbers half of the time, and each is the first in half of
    // those.
    assert!(
        outcomes.values().all(|count| (35..=65).contains(count)),
        "{outcomes:?}"
    );
}

#[test]
fn a_frame_is_given_up_after_its_last_attempt_and_none_is_forgotten() {
    let spec = BusSpec {
        attempts_max: 2,
        queue: QueueLimit::packets(5),
        ..BusSpec::default()
    };
    let mut lan = Lan::new(spec, 20, 4);
    let mut taken = 0;
    for round in 0..10 {
        for station in 0..20 {
            taken += u64::from(lan.enqueue(station, 500, round));
        }
    }
    assert_eq!(taken, 100);
    lan.run_to(10_000_000_000);
    let sum =
        |of: fn(StationCounters) -> u64| (0..20).map(|it| of(lan.bus.station(it))).sum::<u64>();
    assert_eq!(sum(|it| it.dropped_queue), 100);
    let given_up = sum(|it| it.dropped_collisions);
    assert!(given_up > 10, "{given_up}");
    assert_eq!(sum(|it| it.frames) + given_up, 100);
    assert_eq!(lan.delivered.len() as u64 + given_up, 100);
    assert!(sum(|it| it.collisions) >= 2 * given_up);
    assert_eq!(sum(|it| u64::from(it.queue_packets_high)), 100);
}

/// Metcalfe and Boggs (1976), section 6: `Q` stations of which each begins in a slot with
/// probability 1/Q.
fn metcalfe_boggs(spec: &BusSpec, stations: u32, ip_bytes: u32) -> f64 {
    let acquisition = (1.0 - 1.0 / f64::from(stations)).powi(stations as i32 - 1);
    let contention = (1.0 - acquisition) / acquisition * spec.slot.as_secs_f64();
    let frame = spec.frame_time(ip_bytes).as_secs_f64();
    frame / (frame + contention)
}

#[test]
fn many_stations_share_the_longest_cable_as_metcalfe_and_boggs_predict() {
    // Their slot is the round trip of the cable. Their stations know how many there are and forget
    // their collisions: the back-off lets a winner of few keep the cable, which does better, and is
    // too short for many, which does worse.
    let share = |propagation, stations: u32| {
        let spec = BusSpec {
            propagation: Duration::from_nanos(propagation),
            ..BusSpec::default()
        };
        let mut lan = Lan::new(spec, stations as usize, 1);
        lan.saturate(1_500, Time::from_millis(10_000));
        lan.efficiency() / metcalfe_boggs(&spec, stations, 1_500)
    };
    for stations in [2, 3, 5, 10, 16, 24] {
        let long = share(25_000, stations);
        assert!(
            (0.96..1.04).contains(&long),
            "{stations} stations: {long:.3}"
        );
        let short = share(2_500, stations);
        assert!(
            short > 1.0 && short > long,
            "{stations} stations: {short:.3}, {long:.3}"
        );
    }
}

#[test]
fn small_frames_and_long_cables_cost_efficiency() {
    let efficiency = |propagation, ip_bytes| {
        let spec = BusSpec {
            propagation: Duration::from_nanos(propagation),
            ..BusSpec::default()
        };
        let mut lan = Lan::new(spec, 24, 1);
        lan.saturate(ip_bytes, Time::from_millis(5_000));
        lan.efficiency()
    };
    let sizes = [1_500, 494, 46].map(|ip_bytes| efficiency(2_500, ip_bytes));
    assert!(
        sizes[0] > sizes[1] + 0.02 && sizes[1] > sizes[2] + 0.02,
        "{sizes:?}"
    );
    assert!(efficiency(2_500, 494) > efficiency(25_000, 494) + 0.04);
}

#[test]
fn saturated_stations_starve_each_other_but_share_in_the_long_run() {
    let mut lan = Lan::new(BusSpec::default(), 4, 9);
    lan.saturate(1_500, Time::from_millis(60_000));
    let stations: Vec<_> = (0..4).map(|it| lan.bus.station(it)).collect();
    let mean = stations.iter().map(|it| it.stayed).sum::<Duration>()
        / stations.iter().map(|it| it.frames).sum::<u64>() as u32;
    assert!(lan.bus.fairness() > 0.9, "{}", lan.bus.fairness());
    assert!(stations.iter().all(|it| it.dropped_collisions > 20));
    assert!(stations.iter().all(|it| it.stayed_longest > 20 * mean));
}

#[test]
fn the_same_seed_gives_the_same_bus() {
    let run = |seed| {
        let mut lan = Lan::new(BusSpec::default(), 7, seed);
        lan.saturate(300, Time::from_millis(500));
        lan.delivered
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn an_impossible_bus_is_refused_with_what_would_be_possible() {
    let long = BusSpec {
        propagation: Duration::from_micros(30),
        ..BusSpec::default()
    };
    let error = long.check().unwrap_err();
    let most = Duration::from_nanos((57_600 - 3_200) / 2);
    assert_eq!(
        error,
        SpecError::BusTooLong {
            propagation: Duration::from_micros(30),
            most
        }
    );
    assert!(error.to_string().contains("27.2µs is the most"), "{error}");
    let possible = BusSpec {
        propagation: most,
        ..BusSpec::default()
    };
    assert_eq!(possible.check(), Ok(()));
    let dead = BusSpec {
        bandwidth: 0,
        ..BusSpec::default()
    };
    assert_eq!(dead.check(), Err(SpecError::NoBandwidth));
    assert_eq!(nanos(BusSpec::default().frame_time(1_500)), 1_220_800);
}
