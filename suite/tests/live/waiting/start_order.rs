//! The order in which daemons and subscribers start does not matter.

use std::thread::sleep;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, GROUP, PORT, judge_streams};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn daemons_start_in_reverse_with_subscribers_before_their_peers() -> Outcome {
    live(|| {
        let text = text(200_000, 95);
        let published = messages(&text);
        let mut cluster = Cluster::new(4, Link::Unlimited)?;
        cluster.write_text("text", &text)?;
        let mut subscriptions = Vec::new();
        for (host, delay) in [(4, 0), (3, 700), (2, 50), (1, 1500)] {
            sleep(Duration::from_millis(delay));
            cluster.start(host)?;
            cluster.await_answer(host)?;
            subscriptions.push(cluster.subscribe(host, "sub", GROUP)?);
        }
        cluster.await_members(&[1, 2, 3, 4])?;
        let publisher = cluster.publish(2, "text", &["--service", "safe"])?;
        cluster.finish(publisher, LIMIT)?;
        for subscription in &mut subscriptions {
            subscription.await_messages("pub", published.len(), LIMIT)?;
        }
        let stayed = ["sub@host-1", "sub@host-2", "sub@host-3", "sub@host-4"];
        judge_streams(&subscriptions, &stayed, &published)?;
        cluster.check_histories()
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_network_without_multicast_works_by_unicast_copies() -> Outcome {
    live(|| {
        let text = text(1_000_000, 96);
        let published = messages(&text);
        let mut cluster = Cluster::new(3, Link::Unlimited)?;
        cluster.write_text("text", &text)?;
        // A chain: host 2 names 1, host 3 names 2; host 1 names 3, who is not there yet.
        for (host, peer) in [(2, 1), (1, 3), (3, 2)] {
            let peer = format!("{}:{PORT}", cluster.bed.address(peer));
            cluster.start_with(host, &["--peer", &peer])?;
        }
        cluster.await_members(&[1, 2, 3])?;
        let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
        let publisher = cluster.publish(1, "text", &[])?;
        cluster.finish(publisher, LIMIT)?;
        for subscription in &mut subscriptions {
            subscription.await_messages("pub", published.len(), LIMIT)?;
        }
        judge_streams(
            &subscriptions,
            &["sub@host-1", "sub@host-2", "sub@host-3"],
            &published,
        )?;
        cluster.check_histories()
    })
}
