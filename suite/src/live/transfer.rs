//! A text goes from one host to all others over a lossy network, byte for byte and in one order.

use std::time::{Duration, Instant};

use groupcast_bench::Link;

use super::Outcome;
use super::cluster::{Cluster, GROUP, judge_streams};
use super::text::{messages, text};

/// How long the text is, in bytes.
const TEXT: usize = 5 * 1024 * 1024;

/// Sends the text from host 1 to subscribers on all of `hosts` hosts, each of which loses
/// `permille` of 1,000 frames. How long it took from the first message to the last acknowledgement;
/// an error if anything is missing anywhere.
pub fn run(hosts: usize, permille: u16) -> Outcome<Duration> {
    let text = text(TEXT, u64::from(permille) + hosts as u64);
    let published = messages(&text);
    // On wires of a limited rate every datagram is lost or not by itself; without, a burst of them
    // would be.
    let mut cluster = Cluster::running(hosts, Link::Gbit1)?;
    cluster.write_text("text", &text)?;
    let all: Vec<usize> = (1..=hosts).collect();
    let mut subscriptions = cluster.subscribe_all(&all)?;
    let plain = cluster.subscribe_plain(hosts, "plain", GROUP)?;
    for host in &all {
        cluster.bed.lose(*host, permille)?;
    }

    let begun = Instant::now();
    let publisher = cluster.publish(1, "text", &[])?;
    cluster.finish(publisher, Duration::from_secs(120))?;
    let took = begun.elapsed();
    for subscription in &mut subscriptions {
        subscription.await_messages("pub", published.len(), Duration::from_secs(30))?;
    }
    let names: Vec<String> = subscriptions.iter().map(|sub| sub.name.clone()).collect();
    let stayed: Vec<&str> = names.iter().map(String::as_str).collect();
    judge_streams(&subscriptions, &stayed, &published)?;
    if plain.stdout()? != text {
        return Err("the plain subscriber's output is not the text".into());
    }
    let mut retransmissions = 0;
    for host in &all {
        cluster.bed.lose(*host, 0)?;
        retransmissions += cluster.counter(*host, &["counters", "ring", "retransmissions"])?;
    }
    if permille > 0 && retransmissions == 0 {
        return Err("nothing was lost: the test is not what it says".into());
    }
    cluster.check_histories()?;
    Ok(took)
}
