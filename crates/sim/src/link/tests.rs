//! The laws of links against closed forms.

use std::time::Duration;

use groupcast_core::{Rng, Time};

use super::*;

/// When a packet arrives, if it does.
fn arrival(passage: Passage) -> Option<Time> {
    match passage {
        Passage::Dropped(_) => None,
        Passage::Through { first, .. } => Some(first.at),
    }
}

#[test]
fn a_packet_takes_its_serialisation_and_the_propagation() {
    // The thesis: s / b + d. 210 bytes at 1.5 Mb/s are 1.12 ms; the link is 5 ms long.
    let spec = LinkSpec::ideal(1_500_000, Duration::from_millis(5));
    let (mut link, mut rng) = (LinkState::new(), Rng::new(1));
    let mut pass = |now| arrival(link.pass(Time::from_nanos(now), 210, &spec, &mut rng));
    assert_eq!(pass(0), Some(Time::from_nanos(6_120_000)));
    assert_eq!(
        pass(0),
        Some(Time::from_nanos(7_240_000)),
        "waits for the first"
    );
    assert_eq!(pass(100_000_000), Some(Time::from_nanos(106_120_000)));
    assert_eq!(link.counters().busy, Duration::from_nanos(3 * 1_120_000));
}
