//! A daemon is stopped (SIGSTOP) for 10 s in the middle of a stream and continued: the others go on
//! without it, and it joins them again with its gap between views.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, judge_rejoined};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, until};

const TEXT: usize = 5 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(10);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_daemon_is_stopped_for_ten_seconds() -> Outcome {
    live(|| {
        let text = text(TEXT, 94);
        let published = messages(&text);
        let mut cluster = Cluster::running(3, Link::Unlimited)?;
        cluster.write_text("text", &text)?;
        let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
        let publisher = cluster.publish(1, "text", &["--rate", "2000"])?;
        until(LIMIT, "a tenth is delivered at host 3", || {
            Ok((subscriptions[2].printed()? > TEXT as u64 / 10).then_some(()))
        })?;
        cluster.daemon(3)?.stop()?;
        std::thread::sleep(PAUSE);
        cluster.await_members(&[1, 2])?;
        cluster.daemon(3)?.resume()?;
        cluster.await_members(&[1, 2, 3])?;
        cluster.finish(publisher, LIMIT)?;
        judge_rejoined(&mut subscriptions, &published, LIMIT)?;
        cluster.check_histories()
    })
}
