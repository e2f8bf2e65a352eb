//! A token ring by the clock: who waits for whom, and for how long at most.

use std::collections::BTreeMap;

use super::*;

/// A ring, its agenda, and what it delivered: when in microseconds, from whom, which frame.
struct Lan {
    ring: TokenRing<u32>,
    agenda: BTreeMap<(Time, u64), RingStep>,
    planned: u64,
    now: Time,
    delivered: Vec<(f64, usize, u32)>,
}

impl Lan {
    fn new(spec: TokenRingSpec, stations: usize) -> Self {
        assert_eq!(spec.check(), Ok(()));
        Self {
            ring: TokenRing::new(spec, stations),
            agenda: BTreeMap::new(),
            planned: 0,
            now: Time::ZERO,
            delivered: Vec::new(),
        }
    }

    fn enqueue(&mut self, station: usize, ip_bytes: u32, frame: u32) -> bool {
        let taken = self.ring.enqueue(self.now, station, ip_bytes, frame);
        self.plan();
        taken
    }

    fn plan(&mut self) {
        while let Some((at, step)) = self.ring.poll() {
            assert!(at >= self.now, "a step in the past");
            self.planned += 1;
            self.agenda.insert((at, self.planned), step);
        }
    }

    fn run_to(&mut self, end: Time) {
        while let Some(first) = self.agenda.first_entry()
            && first.key().0 <= end
        {
            let ((at, _), step) = first.remove_entry();
            self.now = at;
            if let Some(Delivered { station, frame }) = self.ring.handle(at, step) {
                let micros = at.as_nanos() as f64 / 1e3;
                self.delivered.push((micros, station, frame));
            }
            self.plan();
        }
        self.now = end;
    }

    fn order(&self) -> Vec<u32> {
        self.delivered.iter().map(|(_, _, frame)| *frame).collect()
    }
}

/// A byte takes 2 µs, a hop 10 µs, and the token 6 µs.
fn spec() -> TokenRingSpec {
    TokenRingSpec {
        hop: Duration::from_micros(10),
        ..TokenRingSpec::default()
    }
}

#[test]
fn a_frame_waits_for_the_token_goes_round_and_is_everywhere() {
    let mut lan = Lan::new(spec(), 5);
    lan.run_to(Time::from_millis(1));
    // A round is 50 µs: at 1 ms the token is at the first station again, 30 µs before the fourth.
    lan.enqueue(3, 71, 7);
    lan.run_to(Time::from_millis(2));
    assert_eq!(lan.delivered, [(1_000.0 + 30.0 + 200.0 + 50.0, 3, 7)]);
    assert_eq!(lan.ring.counters().frames, 1);
    assert_eq!(lan.ring.counters().busy, Duration::from_micros(200));
}

#[test]
fn the_token_goes_from_who_has_sent_to_the_next_that_waits() {
    let mut lan = Lan::new(spec(), 5);
    lan.run_to(Time::from_millis(1));
    for (station, frame) in [(4, 4), (2, 2), (3, 3)] {
        lan.enqueue(station, 1_000, frame);
    }
    lan.run_to(Time::from_millis(1) + Duration::from_micros(100));
    // The first has nothing yet while the token passes it, and then waits for the others.
    lan.enqueue(0, 1_000, 0);
    lan.run_to(Time::from_millis(50));
    assert_eq!(lan.order(), [2, 3, 4, 0]);
}

#[test]
fn nobody_holds_the_token_for_longer_than_it_may() {
    let mut lan = Lan::new(spec(), 3);
    lan.run_to(Time::from_millis(1));
    // Frames of 4 ms: two fit into 10 ms.
    for frame in 0..6 {
        lan.enqueue(1, 1_971, frame);
    }
    lan.enqueue(2, 1_971, 10);
    lan.run_to(Time::from_millis(100));
    assert_eq!(lan.order(), [0, 1, 10, 2, 3, 4, 5]);
    // One that takes longer than that goes all the same.
    lan.enqueue(1, 8_000, 20);
    lan.run_to(Time::from_millis(200));
    assert_eq!(lan.order().last(), Some(&20));
}

#[test]
fn a_full_station_drops_and_a_ring_without_bandwidth_is_none() {
    let limited = TokenRingSpec {
        queue: QueueLimit::packets(2),
        ..spec()
    };
    let mut lan = Lan::new(limited, 2);
    assert!(lan.enqueue(0, 100, 0) && lan.enqueue(0, 100, 1));
    assert!(!lan.enqueue(0, 100, 2));
    lan.run_to(Time::from_millis(10));
    assert_eq!(lan.order(), [0, 1]);
    let none = TokenRingSpec {
        bandwidth: 0,
        ..spec()
    };
    assert_eq!(none.check(), Err(SpecError::NoBandwidth));
}

#[test]
fn a_busy_ring_carries_its_bandwidth() {
    let mut lan = Lan::new(TokenRingSpec::default(), 5);
    for frame in 0..1_000 {
        lan.enqueue(frame as usize % 5, 1_971, frame);
    }
    lan.run_to(Time::from_millis(10_000));
    assert_eq!(lan.delivered.len(), 1_000);
    let (last, ..) = lan.delivered[999];
    // 1,000 frames of 4 ms; the token adds microseconds.
    assert!((4_000_000.0..4_020_000.0).contains(&last), "{last}");
}
