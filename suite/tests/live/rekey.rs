//! The key of five daemons is changed twice under load: every message arrives everywhere, the ring
//! does not break, and at the end the old keys open nothing.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, judge_streams};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, until};

const HOSTS: usize = 5;
const TEXT: usize = 12 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(60);
/// A rate at which the text takes some ten seconds.
const RATE: &[&str] = &["--rate", "4000"];

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_change_of_the_key_under_load_loses_nothing_and_breaks_no_ring() -> Outcome {
    live(|| {
        let text = text(TEXT, 97);
        let published = messages(&text);
        let mut cluster = Cluster::running(HOSTS, Link::Unlimited)?;
        cluster.write_text("text", &text)?;
        let mut subscriptions = cluster.subscribe_all(&[1, 2, 3, 4, 5])?;
        let publisher = cluster.publish(1, "text", RATE)?;
        for (change, part) in [("first", 8), ("second", 2)] {
            until(LIMIT, format!("it is time for the {change} change"), || {
                let printed = subscriptions[1].printed()?;
                Ok((printed > TEXT as u64 / part).then_some(()))
            })?;
            let before = rings(&cluster)?;
            change_key(&cluster, change)?;
            let after = rings(&cluster)?;
            if after != before {
                return Err(format!("{change} change: {before:?} before, {after:?} after").into());
            }
        }
        cluster.finish(publisher, LIMIT)?;
        for subscription in &mut subscriptions {
            subscription.await_messages("pub", published.len(), LIMIT)?;
        }
        let all: Vec<String> = (1..=HOSTS).map(|host| format!("sub@host-{host}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        judge_streams(&subscriptions, &all, &published)?;
        cluster.check_histories()
    })
}

/// Of each host, what changes if a ring breaks, or a daemon does not open what another seals: lost
/// tokens, configurations, datagrams of other clusters, forged ones.
fn rings(cluster: &Cluster) -> Outcome<Vec<[u64; 4]>> {
    let hosts = (1..=HOSTS).map(|host| {
        let counter = |path: &[&str]| cluster.counter(host, path);
        Ok([
            counter(&["counters", "ring", "token_losses"])?,
            counter(&["counters", "ring", "transitions"])?,
            counter(&["counters", "node", "other_cluster"])?,
            counter(&["counters", "node", "forged"])?,
        ])
    });
    hosts.collect()
}

/// Changes the key on every host, and waits until all have the new one alone.
fn change_key(cluster: &Cluster, name: &str) -> Outcome {
    let file = cluster.path(&format!("{name}.key"));
    let run = |host: usize, arguments: &[&str]| -> Outcome<String> {
        let output = cluster.command(host, arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    };
    run(1, &["keygen", &file])?;
    let mut said = String::new();
    for host in 1..=HOSTS {
        said = run(
            host,
            &["rekey", &file, "--socket", &cluster.socket(host), "--json"],
        )?;
    }
    let said: serde_json::Value = serde_json::from_str(&said)?;
    until(LIMIT, format!("the {name} change is done"), || {
        for host in 1..=HOSTS {
            let status = cluster.status(host)?.unwrap_or_default();
            let key = &status["key"];
            if key["fingerprint"] != said["fingerprint"] || !key["change"].is_null() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
}
