//! Goal: with `order = heard` a member delivers each of its own messages once, whoever dies and
//! whatever was not heard when the configuration ends. Method: load, heavy loss, and the death of
//! each host in turn at many moments; what is left is judged by the contract of `rmp-heard`.

use std::time::Duration;

use groupcast_core::Service;
use groupcast_protocols::rmp::{HEARD, OrderRule, Rmp, RmpConfig};
use groupcast_sim::Cluster;

use super::{judged_by, progress, start};

fn group(seed: u64) -> Cluster<Rmp> {
    let config = RmpConfig {
        order: OrderRule::Heard,
        ..RmpConfig::lan()
    };
    let mut cluster = judged_by(HEARD.contract, 4, seed, config);
    start(&mut cluster, 0..4);
    cluster
}

#[test]
fn each_own_message_comes_once_whoever_dies_and_whatever_was_not_heard() {
    for step in 0..80 {
        let mut cluster = group(700 + step);
        cluster.set_loss(0.4);
        let dies = step as usize % 4;
        for _ in 0..10 {
            for host in 0..4 {
                let said = cluster.submit(host, Service::Agreed, vec![7; 900]);
                said.expect("there is room");
            }
            cluster.run_for(Duration::from_micros(300 + 25 * step));
        }
        cluster.crash(dies);
        cluster.run_for(Duration::from_millis(400));
        cluster.heal();
        progress(&mut cluster);
        cluster.check_at_rest();
    }
}
