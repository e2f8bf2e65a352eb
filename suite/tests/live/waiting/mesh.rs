//! Seven daemons without multicast, on wires of 10 Mb/s: each datagram leaves in six copies, and
//! still they find each other and go on.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, PORT, judge_streams};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live};

const HOSTS: usize = 7;
/// What passes such wires in a second, in six copies, several times over.
const TEXT: usize = 300_000;
const LIMIT: Duration = Duration::from_secs(30);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_mesh_of_seven_forms_on_slow_wires() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(HOSTS, Link::Mbit10)?;
        let peers: Vec<String> = (1..=HOSTS)
            .map(|host| format!("{}:{PORT}", cluster.bed.address(host)))
            .collect();
        let options: Vec<&str> = peers.iter().flat_map(|peer| ["--peer", peer]).collect();
        let all: Vec<usize> = (1..=HOSTS).collect();
        for host in &all {
            cluster.start_with(*host, &options)?;
        }
        cluster.await_members(&all)?;

        let text = text(TEXT, 95);
        cluster.write_text("text", &text)?;
        let mut subscriptions = cluster.subscribe_all(&[1, 4, 7])?;
        let publisher = cluster.publish(2, "text", &[])?;
        cluster.finish(publisher, LIMIT)?;
        for subscription in &mut subscriptions {
            subscription.await_messages("pub", messages(&text).len(), LIMIT)?;
        }
        let stayed = ["sub@host-1", "sub@host-4", "sub@host-7"];
        judge_streams(&subscriptions, &stayed, &messages(&text))?;
        cluster.check_histories()
    })
}
