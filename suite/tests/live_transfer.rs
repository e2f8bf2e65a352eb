//! A text goes from one host to all, byte for byte and in one order, through three and five daemons whose hosts lose
//! none, 1, 5 and 20 % of what reaches them.
//!
//! One JSON subscriber a host is judged line by line; a plain one's output must be the text itself.

use std::time::Duration;

use groupcast_lab::Link;
use groupcast_suite::live::cluster::{Cluster, GROUP, judge_streams};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, skipped};

const TEXT: usize = 5 * 1024 * 1024;

fn transfer(hosts: usize, permille: u16) -> Outcome {
    if skipped() {
        return Ok(());
    }
    let text = text(TEXT, u64::from(permille) + hosts as u64);
    let published = messages(&text);
    let mut cluster = Cluster::running(hosts, Link::Unlimited)?;
    cluster.write_text("text", &text)?;
    let all: Vec<usize> = (1..=hosts).collect();
    let mut subscriptions = cluster.subscribe_all(&all)?;
    let plain = cluster.subscribe_plain(hosts, "plain", GROUP)?;
    for host in all {
        cluster.bed.lose(host, permille)?;
    }

    let publisher = cluster.publish(1, "text", &[])?;
    cluster.finish(publisher, Duration::from_secs(120))?;
    for subscription in &mut subscriptions {
        subscription.await_messages("pub", published.len(), Duration::from_secs(30))?;
    }

    let names: Vec<String> = subscriptions.iter().map(|sub| sub.name.clone()).collect();
    let stayed: Vec<&str> = names.iter().map(String::as_str).collect();
    judge_streams(&subscriptions, &stayed, &published)?;
    if plain.stdout()? != text {
        return Err("the plain subscriber's output is not the text".into());
    }
    for host in 1..=hosts {
        cluster.bed.lose(host, 0)?;
    }
    cluster.check_histories()
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_without_loss() -> Outcome {
    transfer(3, 0)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_at_1_percent_loss() -> Outcome {
    transfer(3, 10)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_at_5_percent_loss() -> Outcome {
    transfer(3, 50)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_at_20_percent_loss() -> Outcome {
    transfer(3, 200)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_without_loss() -> Outcome {
    transfer(5, 0)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_at_1_percent_loss() -> Outcome {
    transfer(5, 10)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_at_5_percent_loss() -> Outcome {
    transfer(5, 50)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_at_20_percent_loss() -> Outcome {
    transfer(5, 200)
}
