//! Daemons with clients under random faults. Goal: what clients see from end to end keeps every
//! promise, through joins and leaves, good-byes, expulsions, crashes, partitions and merges.
//! Method: some seeds of the swarm at every change; `cargo xtask swarm --protocol groups` runs as
//! many as one likes.

use std::sync::Arc;

use groupcast_suite::groups;

#[test]
fn clients_of_daemons_under_faults_see_what_they_were_promised() {
    let tally = Arc::default();
    let swarm = groups::swarm("--protocol groups".into(), Arc::clone(&tally));
    let report = swarm.run_range(0..16, 2, false, &|_| ());
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|it| (it.seed, it.violations.first()))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let tally = tally.lock().expect("no holder panics");
    assert!(tally.parted > 20 && tally.lost > 20, "{tally:?}");
    assert!(tally.expelled > 0 && tally.views > 1_000, "{tally:?}");
    assert!(
        tally.published > 2_000 && tally.seen > tally.published,
        "{tally:?}"
    );
}

/// A daemon that was excluded although nothing was wrong with it any more (10390).
#[test]
fn seeds_that_failed_once_stay_mended() {
    let swarm = groups::swarm("--protocol groups".into(), Arc::default());
    let report = swarm.run_range(10_390..10_391, 1, false, &|_| ());
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
}
