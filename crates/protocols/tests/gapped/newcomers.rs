//! Newcomers that publish at once, over a network that reorders what it carries. Goal: what a
//! sender says of itself may arrive after messages that it sent later, and makes nobody count below
//! zero, nor report what never was. Method: seeds.

use std::time::Duration;

use groupcast_check::Contract;
use groupcast_core::Service;
use groupcast_protocols::gossip::{Gossip, GossipConfig};
use groupcast_sim::network::NetworkConfig;
use groupcast_sim::{Cluster, ClusterConfig};

/// Three members that know each other, and a fourth that publishes as it starts.
fn publish_at_once(seed: u64) -> Cluster<Gossip> {
    let config = ClusterConfig {
        contract: Contract::Gapped,
        network: NetworkConfig {
            jitter: Duration::from_millis(30),
            loss: 0.05,
            ..NetworkConfig::default()
        },
        ..ClusterConfig::new(4, seed)
    };
    let mut cluster = Cluster::new(config, |member, rng, now| {
        Gossip::new(GossipConfig::lan(), member, rng, now).unwrap()
    });
    (0..3).for_each(|host| {
        cluster.start(host);
    });
    cluster.run_for(Duration::from_secs(2));
    cluster.start(3);
    cluster.run_for(Duration::from_millis(200));
    for _ in 0..5 {
        cluster.submit(3, Service::Fifo, "at once").unwrap();
    }
    cluster.run_for(Duration::from_secs(4));
    cluster
}

#[test]
fn what_a_newcomer_says_of_itself_may_come_after_what_it_published() {
    for seed in 0..150 {
        let cluster = publish_at_once(seed);
        cluster.check();
        for host in 0..3 {
            let gaps = cluster.gaps(host);
            assert!(
                gaps.iter().all(|gap| gap.last <= 5),
                "seed {seed}: {gaps:?}"
            );
        }
    }
}
