//! A further ring is there again after the interface of a host was replaced by another one with the
//! same address, as when a cable adapter is replugged.
//!
//! The kernel keeps the membership in a multicast group with the interface, so the daemon must join
//! the groups of all its rings anew. Method: what is published at the other host after the
//! replacement is delivered at this one.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, GROUP, MULTICAST};
use groupcast_suite::live::{Outcome, live};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_further_ring_follows_an_interface_that_is_replaced() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(2, Link::Gbit1)?;
        let ring = format!("[[rings]]\ntop = \"{GROUP}\"\nmulticast = \"239.79.1.9:4809\"\n");
        cluster.write_text("rings.toml", &ring)?;
        let config = cluster.path("rings.toml");
        for host in [1, 2] {
            cluster.start_with(host, &["--multicast", MULTICAST, "--config", &config])?;
        }
        cluster.await_members(&[1, 2])?;
        let mut subscription = cluster.subscribe(2, "sub", GROUP)?;
        // More than the test waits for: each publisher goes on until it is dropped.
        let steady = ["--size", "100", "--rate", "10", "--count", "3000"];
        let _before = cluster.publish_as(1, "before", &steady)?;
        subscription.await_messages("before", 1, LIMIT)?;
        cluster.bed.replace_interface(2)?;
        let _after = cluster.publish_as(1, "after", &steady)?;
        subscription.await_messages("after", 1, LIMIT)?;
        let status = cluster.status(2)?.unwrap_or_default();
        let ring = &status["rings"][0];
        if !ring["trouble"].is_null() || !ring["left_out"].is_array() {
            return Err(format!("what host-2 says of its ring: {ring}").into());
        }
        cluster.pass();
        Ok(())
    })
}
