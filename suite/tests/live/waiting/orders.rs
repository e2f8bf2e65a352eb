//! Daemons with different protocols on one multicast address are two groups: neither disturbs the
//! other, and each daemon says in its log and in its status which other protocol is there and what
//! to do. And five daemons with RMP are one order.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, RING, RMP, judge_streams};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn daemons_with_different_protocols_are_told_apart() -> Outcome {
    live(|| {
        let text = text(500_000, 97);
        let published = messages(&text);
        let mut cluster = Cluster::new(4, Link::Unlimited)?;
        cluster.write_text("text", &text)?;
        for (host, protocol) in [(1, RING), (3, RMP), (2, RING), (4, RMP)] {
            cluster.set_protocol(protocol);
            cluster.start(host)?;
        }
        for (group, other) in [([1, 2], RMP), ([3, 4], RING)] {
            cluster.await_members(&group)?;
            let mut subscriptions = cluster.subscribe_all(&group)?;
            let publisher = cluster.publish(group[0], "text", &[])?;
            cluster.finish(publisher, LIMIT)?;
            for subscription in &mut subscriptions {
                subscription.await_messages("pub", published.len(), LIMIT)?;
            }
            let stayed = group.map(|host| format!("sub@host-{host}"));
            judge_streams(&subscriptions, &[&stayed[0], &stayed[1]], &published)?;
            for subscription in &subscriptions {
                if subscription
                    .stream()?
                    .views()
                    .any(|view| view.cause == "network")
                {
                    return Err(format!("{} was disturbed", subscription.name).into());
                }
            }
            for host in group {
                says_who_speaks(&mut cluster, host, other)?;
            }
        }
        cluster.check_histories()
    })
}

/// The daemon of `host` says that two others speak `other`.
fn says_who_speaks(cluster: &mut Cluster, host: usize, other: &str) -> Outcome {
    let status = cluster.status(host)?.ok_or("no status")?;
    let others = status["other_orders"].as_array().ok_or("no other_orders")?;
    let speaks = |said: &Value| said["order"] == other && said["hint"].as_str().is_some();
    let is_address = |said: &Value| said["address"].as_str().is_some_and(|it| it.contains(':'));
    if others.len() != 2 || !others.iter().all(|said| speaks(said) && is_address(said)) {
        return Err(format!("host-{host} should name two daemons with {other}: {others:?}").into());
    }
    let socket = cluster.socket(host);
    let shown = cluster
        .command(host, &["status", "--socket", &socket])
        .output()?;
    let shown = String::from_utf8(shown.stdout)?;
    let line = format!("speaks {other}, heard");
    if shown.matches("other order").count() != 2 || !shown.contains(&line) {
        return Err(format!("host-{host} does not show the others: {shown}").into());
    }
    let said = format!("speak {other}, this daemon speaks");
    let log = until(
        LIMIT,
        format!("host-{host} logs who speaks {other}"),
        || {
            let log = cluster.daemon(host)?.stderr()?;
            Ok(log.contains(&said).then_some(log))
        },
    )?;
    let lines = log.lines().filter(|line| line.contains(&said)).count();
    if lines > 2 {
        return Err(format!("host-{host} says it {lines} times within a minute or so").into());
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_daemons_with_rmp_are_one_order() -> Outcome {
    live(|| {
        let text = text(1_000_000, 98);
        let published = messages(&text);
        let mut cluster = Cluster::running_with(5, Link::Unlimited, RMP)?;
        cluster.write_text("text", &text)?;
        let subscriptions = cluster.carry_two(&[1, 2, 3, 4, 5], [2, 4], &published, LIMIT)?;
        let line = subscriptions[0].process.stdout()?;
        if !line.contains("\"order\":\"rmp\"") {
            return Err("the lines of `sub --json` do not name the order".into());
        }
        cluster.check_histories()
    })
}
