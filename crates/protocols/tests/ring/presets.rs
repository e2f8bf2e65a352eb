//! Goal: who runs a preset in a network that it does not fit learns of it. Method: time-outs that
//! are too short for the delays; what fits is tried by the table of presets, in the suite.

use std::time::Duration;

use groupcast_protocols::ring::RingConfig;
use groupcast_sim::Cluster;

use super::calls::far_apart;
use super::with_config;

#[test]
fn time_outs_that_do_not_fit_the_network_are_counted() {
    let config = RingConfig {
        token_loss_max: RingConfig::lan().token_loss_min,
        ..RingConfig::lan()
    };
    let slow = |micros| {
        let cluster = far_apart(5, 5, Duration::from_micros(micros), config.clone());
        let status = cluster.protocol(0).expect("runs").status();
        status.counters.rotations_slow
    };
    assert_eq!(slow(50), 0);
    assert!(slow(11_000) > 0);
}

/// The longest that it may be is above the time-out that rotations lead to.
#[test]
fn a_ring_forms_with_the_longest_retransmission_of_the_token() {
    let lan = RingConfig::lan();
    let config = RingConfig {
        token_retransmit_min: lan.token_loss_min / 4,
        ..lan
    };
    let mut cluster = with_config(2, 6, config);
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    cluster.check();
}
