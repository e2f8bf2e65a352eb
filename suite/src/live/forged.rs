//! An attack with altered datagrams on a running cluster, and its results.

use std::fmt;
use std::time::Duration;

use groupcast_bench::Link;

use super::cluster::{Cluster, MULTICAST, PORT, judge_streams};
use super::eavesdrop::Eavesdropper;
use super::text::{messages, text};
use super::{Outcome, pcap};

const LIMIT: Duration = Duration::from_secs(120);
/// Counters of what is rejected.
const REJECTED: [&str; 7] = [
    "malformed",
    "other_version",
    "other_cluster",
    "forged",
    "replayed",
    "unadmitted",
    "unexamined",
];

/// The attack: which program, how many datagrams, at which rate.
pub struct Attack {
    /// The adversary's executable.
    pub program: String,
    /// How many datagrams to send.
    pub datagrams: u64,
    /// How many a second.
    pub rate: u64,
}

/// The results of the attack.
pub struct ForgedReport {
    /// Datagrams that the adversary has sent.
    pub sent: u64,
    /// Distinct datagrams that were overheard and altered.
    pub overheard: usize,
    /// Rejected at all daemons, by counter.
    pub rejected: Vec<(&'static str, u64)>,
}

impl fmt::Display for ForgedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} altered datagrams, made of {}; rejected:",
            self.sent, self.overheard
        )?;
        for (counter, count) in &self.rejected {
            write!(f, " {counter} {count}")?;
        }
        Ok(())
    }
}

/// Overhears three daemons while a text goes through, then sends what was overheard, altered, while
/// another text goes through. An error if that text is not complete everywhere, if a member was
/// excluded, or if nothing was counted.
pub fn attack(attack: Attack) -> Outcome<ForgedReport> {
    let published = text(1_000_000, 98);
    let lines = messages(&published);
    // On wires of a limited rate segments travel as separate datagrams, as an eavesdropper should
    // have them.
    let mut cluster = Cluster::new(4, Link::Gbit1)?;
    cluster.write_text("text", &published)?;
    for host in 1..=3 {
        cluster.start(host)?;
    }
    let eavesdropper = Eavesdropper::start(&cluster)?;
    cluster.await_members(&[1, 2, 3])?;
    let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
    let overheard = cluster.publish_as(2, "overheard", &["--size", "700", "--count", "2000"])?;
    cluster.finish(overheard, LIMIT)?;
    let path = eavesdropper.path().to_owned();
    let overheard = pcap::datagrams(&eavesdropper.finish()?)?.len();

    let before = rejections(&cluster)?;
    let seconds = (attack.datagrams / attack.rate).max(1);
    let rate = (lines.len() as u64 / (seconds + 1)).max(1).to_string();
    let publisher = cluster.publish(1, "text", &["--rate", &rate])?;
    let (count, speed) = (attack.datagrams.to_string(), attack.rate.to_string());
    let targets: Vec<String> = (1..=3)
        .map(|host| format!("{}:{PORT}", cluster.bed.address(host)))
        .collect();
    let mut arguments = vec!["mixed", &count, &speed, "7", &path, MULTICAST];
    arguments.extend(targets.iter().map(String::as_str));
    let adversary = cluster.attack(4, &attack.program, &arguments)?;
    let limit = LIMIT + Duration::from_secs(seconds * 3);
    let sent = cluster.finish(adversary, limit)?.trim().parse()?;
    cluster.finish(publisher, limit)?;
    for subscription in &mut subscriptions {
        subscription.await_messages("pub", lines.len(), LIMIT)?;
    }
    let stayed = ["sub@host-1", "sub@host-2", "sub@host-3"];
    judge_streams(&subscriptions, &stayed, &lines)?;
    for subscription in &subscriptions {
        if let Some(view) = subscription
            .stream()?
            .views()
            .find(|view| view.cause == "network")
        {
            return Err(format!("{} lost somebody: {view:?}", subscription.name).into());
        }
    }
    let rejected: Vec<(&str, u64)> = rejections(&cluster)?
        .into_iter()
        .zip(before)
        .map(|((counter, after), (_, before))| (counter, after - before))
        .collect();
    let report = ForgedReport {
        sent,
        overheard,
        rejected,
    };
    let rejected: u64 = report.rejected.iter().map(|(_, count)| count).sum();
    if report.sent < attack.datagrams * 9 / 10 || rejected < report.sent / 2 {
        return Err(format!("the attack did not happen: {report}").into());
    }
    cluster.check_histories()?;
    Ok(report)
}

/// Counters of rejection, over all three daemons.
fn rejections(cluster: &Cluster) -> Outcome<Vec<(&'static str, u64)>> {
    REJECTED
        .into_iter()
        .map(|counter| {
            let mut sum = 0;
            for host in 1..=3 {
                sum += cluster.counter(host, &["counters", "node", counter])?;
            }
            Ok((counter, sum))
        })
        .collect()
}
