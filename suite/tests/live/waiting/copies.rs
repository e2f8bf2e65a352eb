//! Two of five hosts have no multicast: they send and get unicast copies, and all five are one
//! order, on the ring and with RMP.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, MULTICAST, PORT, RING, RMP};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, until};

const TEXT: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);
const WITH: [usize; 3] = [1, 2, 3];
const WITHOUT: [usize; 2] = [4, 5];

#[test]
#[ignore = "live: needs root and network namespaces"]
fn two_hosts_without_multicast_are_in_one_ring_with_three_that_have_it() -> Outcome {
    one_order(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn two_hosts_without_multicast_are_in_one_order_of_rmp_with_three_that_have_it() -> Outcome {
    one_order(RMP)
}

fn one_order(protocol: &str) -> Outcome {
    live(|| {
        let text = text(TEXT, 99);
        let published = messages(&text);
        let mut cluster = Cluster::new(5, Link::Unlimited)?;
        cluster.set_protocol(protocol);
        cluster.write_text("text", &text)?;
        start(&mut cluster)?;

        // A client that subscribes stays to the end.
        let _subscriptions = cluster.carry_two(&[1, 2, 3, 4, 5], [2, 5], &published, LIMIT)?;
        those_without_get_copies(&mut cluster)?;
        the_dead_get_none(&mut cluster)?;
        cluster.check_histories()
    })
}

/// The hosts with multicast are told nothing of the others.
fn start(cluster: &mut Cluster) -> Outcome {
    let peers: Vec<String> = WITH
        .iter()
        .chain(&WITHOUT)
        .map(|host| format!("{}:{PORT}", cluster.bed.address(*host)))
        .collect();
    let options: Vec<&str> = peers.iter().flat_map(|peer| ["--peer", peer]).collect();
    for host in WITH {
        cluster.start_with(host, &["--multicast", MULTICAST])?;
    }
    for host in WITHOUT {
        cluster.bed.without_multicast(host)?;
        cluster.start_with(host, &options)?;
    }
    cluster.await_members(&[1, 2, 3, 4, 5])
}

/// Exactly those, and the log says so.
fn those_without_get_copies(cluster: &mut Cluster) -> Outcome {
    let mut expected = WITHOUT.map(|host| format!("{}:{PORT}", cluster.bed.address(host)));
    expected.sort();
    for host in WITH {
        let copies = copies(cluster, host)?;
        let sent = cluster.counter(host, &["counters", "net", "sent", "copies"])?;
        if copies != expected || sent == 0 {
            return Err(format!("host-{host} sent {sent} copies to {copies:?}").into());
        }
        let log = cluster.daemon(host)?.stderr()?;
        if !log.contains("each gets a unicast copy") {
            return Err(format!("host-{host} does not log who gets copies: {log}").into());
        }
    }
    let text = cluster.counter(2, &["counters", "net", "sent", "copies"])?;
    if (text as usize) < 2 * TEXT / 1500 {
        return Err(format!("host-2 sent {text} copies of {TEXT} bytes").into());
    }
    Ok(())
}

/// A daemon without multicast that is killed gets no more copies; one that comes back does.
fn the_dead_get_none(cluster: &mut Cluster) -> Outcome {
    cluster.daemon(5)?.kill()?;
    cluster.await_members(&[1, 2, 3, 4])?;
    let four = format!("{}:{PORT}", cluster.bed.address(4));
    // A host that sends nothing asks nobody whether it is alive.
    let slowly = ["--size", "100", "--count", "400", "--rate", "20"];
    let publisher = cluster.publish_as(1, "slow", &slowly)?;
    until(LIMIT, "host-1 sends copies to host 4 alone", || {
        Ok((copies(cluster, 1)? == [four.as_str()]).then_some(()))
    })?;
    drop(publisher);
    let peers: Vec<String> = WITH
        .iter()
        .map(|host| format!("{}:{PORT}", cluster.bed.address(*host)))
        .chain([four.clone()])
        .collect();
    let options: Vec<&str> = peers.iter().flat_map(|peer| ["--peer", peer]).collect();
    cluster.start_with(5, &options)?;
    cluster.await_members(&[1, 2, 3, 4, 5])
}

/// Who gets copies of a host's daemon, sorted.
fn copies(cluster: &Cluster, host: usize) -> Outcome<Vec<String>> {
    let status = cluster.status(host)?.ok_or("no status")?;
    let copies = status["reach"]["copies"].as_array();
    let copies = copies.into_iter().flatten();
    let mut copies: Vec<String> = copies
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    copies.sort();
    Ok(copies)
}
