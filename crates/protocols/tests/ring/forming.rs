//! Goal: rings form, whatever the order of start; a group of one is a ring too. Method: start hosts
//! together, one after another, one alone; look at configurations and deliveries.

use std::time::Duration;

use groupcast_protocols::ring::FAMILY;
use groupcast_sim::Cluster;

use super::{cluster, formed};

#[test]
fn a_member_alone_orders_its_own_messages() {
    let mut cluster = formed(1, 1);
    for service in FAMILY.services {
        cluster.submit(0, *service, "hello").expect("there is room");
    }
    cluster.run_for(Duration::from_millis(50));
    assert_eq!(cluster.deliveries(0).len(), FAMILY.services.len());
    cluster.check();
}

#[test]
fn members_that_start_together_form_one_ring_at_once() {
    for hosts in 2..=9 {
        let mut cluster = cluster(hosts, hosts as u64);
        cluster.must(
            "one ring",
            Cluster::all_in_one_configuration,
            Duration::from_secs(1),
        );
        for host in 0..hosts {
            for service in FAMILY.services {
                cluster
                    .submit(host, *service, format!("{service} from {host}"))
                    .expect("there is room");
            }
        }
        cluster.run_for(Duration::from_millis(100));
        for host in 0..hosts {
            assert_eq!(
                cluster.deliveries(host).len(),
                hosts * FAMILY.services.len(),
                "host {host} of {hosts}"
            );
        }
        cluster.check();
    }
}
