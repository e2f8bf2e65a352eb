//! Gossip with tables and buffers that are too small for its load. Goal: what does not fit costs repairs and gaps, but
//! no promise: nothing twice, nothing behind what was delivered, nothing missing in silence. Method: the judge reads
//! along, and what is lost is counted.

use std::time::Duration;

use groupcast_check::Contract;
use groupcast_core::Service;
use groupcast_protocols::gossip::{Gossip, GossipConfig};
use groupcast_sim::{Cluster, ClusterConfig};

const SECOND: Duration = Duration::from_secs(1);

fn group(hosts: usize, seed: u64, settings: GossipConfig) -> Cluster<Gossip> {
    let config = ClusterConfig {
        contract: Contract::Gapped,
        keep_payloads: false,
        ..ClusterConfig::new(hosts, seed)
    };
    let mut cluster = Cluster::started(config, move |member, rng, now| {
        Gossip::new(settings.clone(), member, rng, now).unwrap()
    });
    cluster.run_for(2 * SECOND);
    cluster
}

/// More senders than a member can follow, and views that know few of them: streams are forgotten and met again.
#[test]
fn a_stream_that_was_forgotten_goes_on_where_it_was() {
    for seed in 0..4 {
        let mut cluster = group(
            24,
            seed,
            GossipConfig {
                senders_max: 12,
                view_max: 6,
                ..GossipConfig::lan()
            },
        );
        cluster.set_loss(0.02);
        for turn in 0..240 {
            // A sender at a time, so that the others' streams are idle.
            let sender = turn / 5 % 24;
            cluster.submit(sender, Service::Fifo, "some bytes").unwrap();
            cluster.run_for(Duration::from_millis(if turn % 5 == 4 { 300 } else { 20 }));
        }
        cluster.run_for(5 * SECOND);
        let violations = cluster.violations(true, None);
        assert!(
            violations.is_empty(),
            "seed {seed}: {} of {violations:#?}",
            violations.len()
        );
    }
}
