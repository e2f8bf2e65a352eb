//! Hosts whose networks carry datagrams of other sizes are in one ring, and no byte is wrong: MTUs
//! of 1500, 1450 and 1420 with loss, and a rolling change of `ring.body_max` under load.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, MULTICAST, Subscription};
use groupcast_suite::live::judge::{Subscriber, agree, complete};
use groupcast_suite::live::text::{messages, text_of_all_sizes};
use groupcast_suite::live::{Outcome, live, promised, until, verdict};

const LIMIT: Duration = Duration::from_secs(60);
/// What each host's interface takes in one piece.
const MTUS: [u16; 3] = [1500, 1450, 1420];
/// How much of what reaches a host is lost, in thousandths.
const LOSS: u16 = 30;
/// How much is published at a time, in bytes.
const TEXT: usize = 3 << 20;

#[test]
#[ignore = "live: needs root and network namespaces"]
fn hosts_with_other_mtus_have_every_byte_in_spite_of_loss() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(3, Link::Gbit1)?;
        for (host, mtu) in (1..).zip(MTUS) {
            cluster.bed.set_mtu(host, mtu)?;
            cluster.start(host)?;
        }
        cluster.await_members(&[1, 2, 3])?;
        let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
        for host in 1..=3 {
            cluster.bed.lose(host, LOSS)?;
        }
        let (mut texts, mut publishers) = (Vec::new(), Vec::new());
        for host in 1..=3 {
            let (name, file) = (format!("pub{host}"), format!("text-{host}"));
            let text = text_of_all_sizes(TEXT, host as u64);
            cluster.write_text(&file, &text)?;
            publishers.push(cluster.publish_as(host, &name, &["--file", &file])?);
            texts.push((name, text));
        }
        for publisher in publishers {
            cluster.finish(publisher, LIMIT)?;
        }
        have_all(&mut subscriptions, &texts)?;
        host_3_is_the_narrowest(&mut cluster)?;
        cluster.check_histories()
    })
}

/// The others say in their logs and in `status` who keeps their datagrams small; host 3, whose they
/// are, has no reason to.
fn host_3_is_the_narrowest(cluster: &mut Cluster) -> Outcome {
    for host in 1..=3 {
        let status = cluster.status(host)?.unwrap_or_default();
        let (size, narrowest) = (&status["ring"]["body_max"], &status["ring"]["narrowest"]);
        // 28 bytes of IP and UDP, 24 of prefix, 1 of channel, 16 of tag.
        let right = match host {
            3 => narrowest.is_null(),
            _ => narrowest["name"] == "host-3",
        };
        if !right || size != 1420 - 28 - 41 {
            return Err(format!("host-{host} has datagrams of {size}, for {narrowest}").into());
        }
        let log = cluster.daemon(host)?.stderr()?;
        if log.contains("host-3 takes no more") != (host != 3) {
            return Err(format!("host-{host} logged {log}").into());
        }
    }
    Ok(())
}

/// What `ring.body_max` is before and after.
const ROLLED: [usize; 2] = [1431, 1351];

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_size_of_datagrams_changes_host_by_host_under_load() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(3, Link::Gbit1)?;
        for size in ROLLED {
            cluster.write_text(
                &format!("{size}.toml"),
                &format!("ring.body_max = {size}\n"),
            )?;
        }
        for host in 1..=3 {
            start(&mut cluster, host, ROLLED[0])?;
            cluster.bed.lose(host, LOSS)?;
        }
        cluster.await_members(&[1, 2, 3])?;
        for host in 1..=3 {
            let others = [host % 3 + 1, (host + 1) % 3 + 1];
            let text = text_of_all_sizes(TEXT, 10 + host as u64);
            let (name, file) = (format!("pub{host}"), format!("text-{host}"));
            cluster.write_text(&file, &text)?;
            let mut subscriptions = cluster.subscribe_all(&others)?;
            let publisher =
                cluster.publish_as(others[0], &name, &["--file", &file, "--rate", "100"])?;
            until(LIMIT, "the first message is there", || {
                Ok((subscriptions[1].printed()? > 1 << 20).then_some(()))
            })?;
            cluster.daemon(host)?.terminate()?;
            cluster.daemon(host)?.wait(LIMIT)?;
            start(&mut cluster, host, ROLLED[1])?;
            cluster.await_members(&[1, 2, 3])?;
            cluster.finish(publisher, LIMIT)?;
            have_all(&mut subscriptions, &[(name, text)])?;
        }
        for host in 1..=3 {
            let status = cluster.status(host)?.unwrap_or_default();
            if status["ring"]["body_max"] != ROLLED[1] || !status["ring"]["narrowest"].is_null() {
                return Err(format!("host-{host} has {}", status["ring"]).into());
            }
        }
        cluster.check_histories()
    })
}

fn start(cluster: &mut Cluster, host: usize, body_max: usize) -> Outcome {
    let file = format!("{body_max}.toml");
    cluster.start_with(host, &["--config", &file, "--multicast", MULTICAST])
}

/// All subscribers have each publisher's text, byte for byte, and agree on the order.
fn have_all(subscriptions: &mut [Subscription], texts: &[(String, String)]) -> Outcome {
    let mut streams = Vec::new();
    for subscription in subscriptions {
        for (publisher, text) in texts {
            subscription.await_messages(publisher, messages(text).len(), LIMIT)?;
        }
        streams.push((subscription.name.clone(), subscription.stream()?));
    }
    let subscribers: Vec<Subscriber<'_>> = streams
        .iter()
        .map(|(name, stream)| (name.as_str(), stream))
        .collect();
    promised(&agree(&subscribers))?;
    let mut faults = Vec::new();
    for subscriber in subscribers {
        for (publisher, text) in texts {
            faults.extend(complete(subscriber, publisher, &messages(text)));
        }
    }
    verdict(&faults)
}
