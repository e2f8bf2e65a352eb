//! The explorer, with a protocol that survives losses and no crash: what it visits, what it finds,
//! and that its reduction leaves nothing out.

use std::time::Duration;

use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{Contract, Service};

use super::{ExploreConfig, ExploreReport, explore};
use crate::sequencer::Sequencer;

fn config() -> ExploreConfig {
    ExploreConfig {
        members: 3,
        messages: vec![(1, Service::Agreed), (2, Service::Agreed)],
        idle: Duration::from_millis(100),
        losses: 0,
        late: 0,
        crashes: 0,
        skew: Duration::ZERO,
        rest: 0,
        within: Duration::from_secs(1),
        reduce: true,
        contract: Contract::Ordered,
        inspect: |_, body, _| Inspected {
            kind: ["hello", "configuration", "request", "order"][usize::from(body[0])],
            role: Role::Control,
        },
    }
}

fn run(config: &ExploreConfig, hasty: bool) -> ExploreReport {
    let make = |member, rng, now| {
        let mut sequencer = Sequencer::new(config.members, member, rng, now);
        sequencer.hasty = hasty;
        sequencer
    };
    explore(config, make, &mut |_| true)
}

#[test]
fn every_order_of_two_messages_is_seen() {
    let report = run(&config(), false);
    assert!(report.complete, "{report:#?}");
    // Both orders of the messages, the second of which is submitted before its sender has delivered
    // the first, or after.
    assert_eq!(report.ends, 4, "{report:#?}");
    assert!(report.histories > 30, "{report:#?}");
}

#[test]
fn the_reduction_leaves_out_steps_and_no_state() {
    for losses in [0, 1] {
        let reduced = ExploreConfig { losses, ..config() };
        let full = ExploreConfig {
            reduce: false,
            ..reduced.clone()
        };
        let (reduced, full) = (run(&reduced, false), run(&full, false));
        assert!(reduced.complete && full.complete, "{reduced:#?} {full:#?}");
        let of = |it: &ExploreReport| (it.states, it.ends, it.histories);
        assert_eq!(of(&reduced), of(&full));
        assert!(reduced.steps * 3 < full.steps * 2, "{reduced:#?} {full:#?}");
    }
}

#[test]
fn a_lost_datagram_is_made_up_for_on_every_path() {
    let lossy = ExploreConfig {
        losses: 2,
        ..config()
    };
    let report = run(&lossy, false);
    assert!(report.complete, "{report:#?}");
    assert!(report.time > Duration::from_millis(10), "{report:#?}");
    assert!(report.ends > 2, "{report:#?}");
}

#[test]
fn who_gives_up_what_comes_late_is_found_with_the_steps_to_it() {
    let found = run(&config(), true).found.expect("it breaks promises");
    let submits = found.steps.iter().filter(|step| step.contains("submits"));
    assert_eq!(submits.count(), 2, "{found:#?}");
    assert!(
        found
            .steps
            .iter()
            .any(|step| step.contains("order of 0 to"))
    );
}

#[test]
fn a_path_without_an_end_is_found() {
    let crash = ExploreConfig {
        crashes: 1,
        ..config()
    };
    let found = run(&crash, false)
        .found
        .expect("nobody replaces the sequencer");
    assert!(found.violations[0].contains("no end"), "{found:#?}");
    assert!(
        found.steps.iter().any(|step| step.contains("crashes")),
        "{found:#?}"
    );
}

#[test]
fn a_datagram_may_be_late_as_often_as_is_allowed() {
    let late = ExploreConfig {
        late: 1,
        ..config()
    };
    let (late, calm) = (run(&late, false), run(&config(), false));
    assert!(
        late.complete && late.states > calm.states,
        "{late:#?} {calm:#?}"
    );
}

#[test]
fn the_caller_may_stop_it() {
    let lossy = ExploreConfig {
        losses: 2,
        ..config()
    };
    let make = |member, rng, now| Sequencer::new(3, member, rng, now);
    let report = explore(&lossy, make, &mut |_| false);
    assert!(!report.complete && report.found.is_none());
}
