//! Goal: who runs a preset in a network that it does not fit learns of it. Method: time-outs that
//! are too short for the delays; what fits is tried by the table of presets, in the suite.

use std::time::Duration;

use groupcast_protocols::ring::RingConfig;

use super::calls::far_apart;

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
