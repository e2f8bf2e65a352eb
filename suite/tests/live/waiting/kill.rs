//! A daemon is killed by SIGKILL in the middle of a stream: the others go on without a hole, and it
//! comes back as a new member.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, RING, RMP, judge_streams};
use groupcast_suite::live::judge::{agree, beginning};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, promised, until, verdict};

const TEXT: usize = 5 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(60);

/// Rates that stretch the stream over a few seconds, so that "in the middle" is in the middle.
const RATE: &[&str] = &["--rate", "5000"];

#[test]
#[ignore = "live: needs root and network namespaces"]
fn another_hosts_daemon_dies_and_comes_back() -> Outcome {
    another_dies(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn another_hosts_daemon_of_rmp_dies_and_comes_back() -> Outcome {
    another_dies(RMP)
}

fn another_dies(protocol: &str) -> Outcome {
    live(|| {
        let text = text(TEXT, 91);
        let published = messages(&text);
        let mut cluster = Cluster::running_with(3, Link::Unlimited, protocol)?;
        cluster.write_text("text", &text)?;
        let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
        let publisher = cluster.publish(1, "text", RATE)?;
        until(LIMIT, "a quarter is delivered at host 2", || {
            Ok((subscriptions[1].printed()? > TEXT as u64 / 4).then_some(()))
        })?;
        cluster.daemon(2)?.kill()?;
        cluster.finish(publisher, LIMIT)?;
        for index in [0, 2] {
            subscriptions[index].await_messages("pub", published.len(), LIMIT)?;
        }
        judge_streams(&subscriptions, &["sub@host-1", "sub@host-3"], &published)?;
        let ended = subscriptions[1].process.wait(LIMIT)?;
        if ended.is_none_or(|status| status.success()) {
            return Err(format!("the subscriber of the dead daemon: {ended:?}").into());
        }

        cluster.start(2)?;
        cluster.await_members(&[1, 2, 3])?;
        let mut again = cluster.subscribe(2, "again", "text")?;
        let publisher = cluster.publish(3, "text", &[])?;
        cluster.finish(publisher, LIMIT)?;
        again.await_messages("pub", published.len(), LIMIT)?;
        judge_streams(&[again], &["again@host-2"], &published)?;
        cluster.check_histories()
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_publishers_own_daemon_dies() -> Outcome {
    the_own_dies(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn the_publishers_own_daemon_of_rmp_dies() -> Outcome {
    the_own_dies(RMP)
}

fn the_own_dies(protocol: &str) -> Outcome {
    live(|| {
        let text = text(TEXT, 92);
        let published = messages(&text);
        let mut cluster = Cluster::running_with(3, Link::Unlimited, protocol)?;
        cluster.write_text("text", &text)?;
        let subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
        let mut publisher = cluster.publish(1, "text", RATE)?;
        until(LIMIT, "a quarter is delivered at host 1", || {
            Ok((subscriptions[0].printed()? > TEXT as u64 / 4).then_some(()))
        })?;
        cluster.daemon(1)?.kill()?;
        let ended = publisher.wait(LIMIT)?;
        if ended.is_none_or(|status| status.success()) {
            return Err(format!("`pub` did not fail without its daemon: {ended:?}").into());
        }
        cluster.await_members(&[2, 3])?;

        // What the dead daemon's own subscriber saw was ordered and delivered there, so it may have
        // been acknowledged to the publisher; agreed messages are promised only to members of the
        // configuration that they reached, so the others have a beginning of the text, and all the
        // same one.
        let streams = [subscriptions[1].stream()?, subscriptions[2].stream()?];
        let (second, third) = (("sub@host-2", &streams[0]), ("sub@host-3", &streams[1]));
        promised(&agree(&[second, third]))?;
        let mut faults = beginning(second, "pub", &published, 1);
        faults.extend(beginning(third, "pub", &published, 1));
        verdict(&faults)?;
        if streams[0].messages().count() != streams[1].messages().count() {
            return Err("hosts 2 and 3 moved on together with different messages".into());
        }
        cluster.check_histories()
    })
}
