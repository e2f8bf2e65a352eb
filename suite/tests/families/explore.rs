//! Every schedule of three members of RMP and a few messages, as far as seconds go; `cargo xtask
//! explore` goes further. Goal: whatever the order of arrivals, each path keeps RMP's promises and
//! comes to an end. Method: `docs/explorer.md`.

use groupcast_core::Service;
use groupcast_protocols::rmp;
use groupcast_sim::explore::{ExploreConfig, ExploreReport};
use groupcast_suite::explore::{cases, explore_rmp};

const AGREED_SAFE: &[Service] = &[Service::Agreed, Service::Safe];

/// The first cases of those with these services, with these faults.
fn explored(services: &[Service], losses: u8, crashes: u8, most: usize) -> Vec<ExploreReport> {
    let cases = cases(&rmp::FAMILY, services);
    let reports = cases.into_iter().take(most).map(|case| {
        let config = ExploreConfig {
            losses,
            crashes,
            ..case.config
        };
        let report = explore_rmp(&config, None, &mut |_| true);
        assert!(report.complete, "{}: {:#?}", case.name, report.found);
        report
    });
    reports.collect()
}

#[test]
fn two_messages_in_every_order_of_arrival() {
    let reports = explored(AGREED_SAFE, 0, 0, 18);
    assert!(reports.iter().all(|report| report.ends > 1), "{reports:#?}");
}

#[test]
fn two_messages_with_one_loss_anywhere() {
    let reports = explored(AGREED_SAFE, 1, 0, 2);
    assert!(reports.iter().all(|report| report.ends > 1), "{reports:#?}");
}

#[test]
fn one_message_with_one_crash_anywhere() {
    let reports = explored(&[Service::Safe], 0, 1, 3);
    assert!(reports.iter().all(|report| report.ends > 1), "{reports:#?}");
}

#[test]
fn a_planted_bug_is_found() {
    let case = &cases(&rmp::FAMILY, AGREED_SAFE)[0];
    let config = ExploreConfig {
        losses: 1,
        crashes: 1,
        ..case.config.clone()
    };
    let report = explore_rmp(&config, Some("safe-is-agreed"), &mut |_| true);
    let found = report
        .found
        .expect("of two survivors one has delivered more");
    let is_rule = |it: &String| it.starts_with("virtual_synchrony");
    assert!(found.violations.iter().any(is_rule), "{found:#?}");
    assert!(
        found.steps.iter().any(|step| step.contains("crashes")),
        "{found:#?}"
    );
}
