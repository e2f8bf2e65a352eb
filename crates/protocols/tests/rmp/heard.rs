//! Goal: with `order = heard` a member delivers each of its own messages once, whoever dies and
//! whatever was not heard when the configuration ends. Method: load, heavy loss, and the death of
//! each host in turn at many moments; what is left is judged by the contract of `rmp-heard`.

use std::time::Duration;

use groupcast_core::Service;
use groupcast_protocols::rmp::{HEARD, OrderRule, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use crate::all_have;

fn group(seed: u64) -> Cluster<Rmp> {
    let config = RmpConfig {
        order: OrderRule::Heard,
        ..RmpConfig::lan()
    };
    let judged = ClusterConfig {
        contract: HEARD.contract,
        ..ClusterConfig::new(4, seed)
    };
    let mut cluster = Cluster::started(judged, move |member, rng, now| {
        Rmp::new(config.clone(), member, rng, now).expect("the settings are valid")
    });
    let limit = Duration::from_secs(3);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        limit,
    );
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
        let limit = Duration::from_secs(10);
        cluster.must(
            "one configuration",
            Cluster::all_in_one_configuration,
            limit,
        );
        let alive: Vec<usize> = cluster.alive().collect();
        let probes = alive
            .iter()
            .map(|host| cluster.submit(*host, Service::Safe, "probe"));
        let probes: Vec<_> = probes.map(|id| id.expect("there is room")).collect();
        cluster.must("probes", |it| all_have(it, &probes), limit);
        cluster.check_at_rest();
    }
}
