//! The load of a round: a publisher and a subscriber on every host, and a last message of each host
//! that every subscriber must get.

use std::time::Duration;

use groupcast_bench::Process;

use crate::live::cluster::{Cluster, GROUP, Subscription};
use crate::live::judge::{Subscriber, agree};
use crate::live::stream::{Stream, View};
use crate::live::text::text;
use crate::live::{Outcome, promised, until};

/// What each publisher sends: lines of many lengths, some longer than several datagrams.
const TEXT: usize = 4 << 20;
/// Messages a second of each publisher.
const RATE: &str = "40";
/// After a round, the last messages are everywhere within this.
const LAST_WITHIN: Duration = Duration::from_secs(20);
const FILE: &str = "chaos-text";

/// Publishers and subscribers of one round.
pub(super) struct Load {
    round: u64,
    subscriptions: Vec<Subscription>,
    /// That of host 1 first. A publisher ends with its daemon.
    publishers: Vec<Process>,
}

impl Load {
    /// Begins them on every host.
    pub(super) fn begin(cluster: &mut Cluster, round: u64) -> Outcome<Self> {
        cluster.write_text(FILE, &text(TEXT, round))?;
        let hosts = 1..=cluster.bed.hosts();
        let mut subscriptions = Vec::new();
        for host in hosts.clone() {
            subscriptions.push(cluster.subscribe_with(host, "sub", GROUP, &[])?);
        }
        let publishers = hosts
            .map(|host| publish(cluster, host))
            .collect::<Outcome<Vec<_>>>()?;
        Ok(Self {
            round,
            subscriptions,
            publishers,
        })
    }

    /// Starts the publisher of a host again if it has ended with its daemon.
    pub(super) fn look_after(&mut self, cluster: &mut Cluster, host: usize) -> Outcome {
        if !self.publishers[host - 1].is_running() {
            self.publishers[host - 1] = publish(cluster, host)?;
        }
        Ok(())
    }

    /// After all faults: each host publishes a last message, which every subscriber must get, and
    /// the subscribers are judged. Returns how many messages they got.
    pub(super) fn end(mut self, cluster: &mut Cluster) -> Outcome<u64> {
        self.publishers.clear();
        let hosts = cluster.bed.hosts();
        // A subscriber that lost its daemon takes a moment to connect again.
        for subscription in &self.subscriptions {
            let what = format!("{} sees all subscribers", subscription.name);
            until(LAST_WITHIN, what, || {
                let stream = subscription.stream()?;
                let together = |view: &View| view.regular && view.members.len() == hosts;
                Ok(stream
                    .views()
                    .last()
                    .filter(|view| together(view))
                    .map(|_| ()))
            })?;
        }
        let name = format!("last{}", self.round);
        for host in 1..=hosts {
            let last = cluster.publish_as(host, &name, &["--size", "64", "--count", "1"])?;
            cluster.finish(last, LAST_WITHIN)?;
        }
        let mut streams = Vec::new();
        for subscription in &mut self.subscriptions {
            subscription.await_messages(&name, hosts, LAST_WITHIN)?;
            let stream = subscription.stream()?;
            let parts: Vec<Stream> = stream.connections().collect();
            let named = parts.into_iter().enumerate();
            streams.extend(named.map(|(part, stream)| {
                let name = format!("{}, connection {}", subscription.name, part + 1);
                (name, stream)
            }));
        }
        let subscribers: Vec<Subscriber<'_>> = streams
            .iter()
            .map(|(name, stream)| (name.as_str(), stream))
            .collect();
        promised(&agree(&subscribers))?;
        for subscription in &self.subscriptions {
            std::fs::remove_file(subscription.process.stdout_path())?;
        }
        let counts = subscribers
            .iter()
            .map(|(_, stream)| stream.messages().count());
        Ok(counts.sum::<usize>() as u64)
    }
}

fn publish(cluster: &mut Cluster, host: usize) -> Outcome<Process> {
    cluster.publish_as(host, "pub", &["--file", FILE, "--rate", RATE])
}
