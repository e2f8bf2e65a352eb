//! A host is cut off in the middle of a stream and healed before its end: both sides go on. What
//! the cut side misses lies between two views of its subscriber, and afterwards all hosts are in
//! one configuration again.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, RING, RMP, judge_rejoined};
use groupcast_suite::live::judge::complete;
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, until, verdict};

const TEXT: usize = 5 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_host_is_cut_off_and_healed() -> Outcome {
    cut_off_and_healed(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_host_of_rmp_is_cut_off_and_healed() -> Outcome {
    cut_off_and_healed(RMP)
}

fn cut_off_and_healed(protocol: &str) -> Outcome {
    live(|| {
        let text = text(TEXT, 93);
        let published = messages(&text);
        let mut cluster = Cluster::running_with(3, Link::Unlimited, protocol)?;
        cluster.write_text("text", &text)?;
        cluster.write_text("alone", "written while cut off\nby host 3\n")?;
        let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
        let publisher = cluster.publish(1, "text", &["--rate", "2500"])?;
        until(LIMIT, "a quarter is delivered at host 3", || {
            Ok((subscriptions[2].printed()? > TEXT as u64 / 4).then_some(()))
        })?;

        cluster.bed.cut(3)?;
        cluster.await_members(&[3])?;
        cluster.await_members(&[1, 2])?;
        // The cut side goes on by itself.
        let alone = cluster.path("alone");
        let lonely = cluster.publish_as(3, "lonely", &["--file", &alone])?;
        cluster.finish(lonely, LIMIT)?;
        subscriptions[2].await_messages("lonely", 2, LIMIT)?;

        cluster.bed.heal()?;
        cluster.await_members(&[1, 2, 3])?;
        cluster.finish(publisher, LIMIT)?;
        judge_rejoined(&mut subscriptions, &published, LIMIT)?;

        let stream = subscriptions[2].stream()?;
        let have = stream
            .messages()
            .filter(|message| message.sender.starts_with("pub@"))
            .count();
        if have == published.len() {
            return Err("host 3 missed nothing: it was not cut off".into());
        }
        verdict(&complete(
            ("sub@host-3", &stream),
            "lonely",
            &messages("written while cut off\nby host 3\n"),
        ))?;
        for subscription in &subscriptions[..2] {
            if subscription
                .stream()?
                .messages()
                .any(|message| message.sender.starts_with("lonely@"))
            {
                return Err(format!("{} was given what it missed", subscription.name).into());
            }
        }
        cluster.check_histories()
    })
}
