//! A group of twenty is asked, and all replies come, once and whole: a byte and 64 KiB, without
//! loss and with 5 %.
//!
//! Method: the real binary on a test bed of six hosts, four members on each of five; on the first
//! `request`, and a program that asks by the library.

use std::collections::BTreeSet;
use std::time::Duration;

use groupcast_bench::{Link, Process};
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::requests::ASK;
use groupcast_suite::live::{Outcome, live, until};
use serde_json::Value;

/// Asks by the library.
const PROGRAM: &str = env!("CARGO_BIN_EXE_soak");
const GROUP: &str = "239.79.1.4:4822";
const LIMIT: Duration = Duration::from_secs(20);
const HOSTS: usize = 5;
const MEMBERS: usize = 20;

/// `groupcast COMMAND` on a host, in the group of the test.
fn launch(
    cluster: &Cluster,
    host: usize,
    name: &str,
    command: &str,
    options: &[&str],
) -> Outcome<Process> {
    let (key, address) = (cluster.path("cluster.key"), cluster.bed.address(host));
    let mut line = cluster.command(host, &[command, "--group", GROUP, "--key", &key]);
    line.args(["--interface", &address.to_string(), "--name", name]);
    line.args(options);
    Ok(cluster.bed.launch(name, line)?)
}

/// Asks all members for so many bytes each, by the command.
fn ask(cluster: &Cluster, round: usize, bytes: usize) -> Outcome {
    let request = cluster.path(&format!("request-{round}"));
    std::fs::write(&request, bytes.to_string())?;
    let most = MEMBERS.to_string();
    let options = ["--json", "--min", &most, "--max", &most, &request];
    let requester = launch(cluster, 1, &format!("console-{round}"), "request", &options)?;
    judge(requester, bytes)
}

/// Asks all members for so many bytes each, by the library.
fn ask_by_library(cluster: &Cluster, round: usize, bytes: usize) -> Outcome {
    let name = format!("program-{round}");
    let interface = cluster.bed.address(1).to_string();
    let (key, most) = (cluster.path("cluster.key"), MEMBERS.to_string());
    let mut line = cluster.bed.command(1, PROGRAM);
    line.args([
        ASK,
        &name,
        &interface,
        GROUP,
        &key,
        &most,
        &bytes.to_string(),
    ]);
    judge(cluster.bed.launch(&name, line)?, bytes)
}

/// Fails unless each member has replied once with so many bytes, whole.
fn judge(mut requester: Process, bytes: usize) -> Outcome {
    let who = requester.label().to_owned();
    let Some(status) = requester.wait(LIMIT)? else {
        return Err(format!("{who} does not end").into());
    };
    let lines = requester.stdout()?;
    let lines = lines.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
    let replies = lines.iter().filter(|line| line["event"] == "reply");
    let is_whole = |line: &&Value| {
        let text = line["text"].as_str().unwrap_or_default();
        text.len() == bytes && text.bytes().all(|byte| byte == b'x')
    };
    let whole = replies.clone().filter(is_whole);
    let names: BTreeSet<&str> = whole.filter_map(|line| line["member"].as_str()).collect();
    let seconds = &lines.last().cloned().unwrap_or_default()["seconds"];
    println!("{who}: {bytes} bytes each: {seconds} s");
    match status.code() == Some(0) && names.len() == MEMBERS && replies.count() == MEMBERS {
        true => Ok(()),
        false => Err(format!("{who}: {bytes} bytes: {} replied, {status}", names.len()).into()),
    }
}

fn all_reply() -> Outcome {
    let cluster = Cluster::new(HOSTS + 1, Link::Gbit1)?;
    let mut members = Vec::new();
    let command = "head -c $(cat) /dev/zero | tr '\\0' x";
    for member in 0..MEMBERS {
        let (host, name) = (2 + member % HOSTS, format!("member-{member}"));
        let options = ["--json", "--exec", "sh", "-c", command];
        members.push(launch(&cluster, host, &name, "answer", &options)?);
    }
    until(LIMIT, "all members listen", || {
        let mut all = true;
        for member in &members {
            all &= member.stdout()?.contains("listening");
        }
        Ok(all.then_some(()))
    })?;
    for (round, (permille, bytes)) in [(0, 1), (0, 65_536), (50, 1), (50, 65_536)]
        .into_iter()
        .enumerate()
    {
        for host in 1..=HOSTS + 1 {
            cluster.bed.lose(host, permille)?;
        }
        ask(&cluster, round, bytes)?;
        ask_by_library(&cluster, round, bytes)?;
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn twenty_members_reply_once_and_whole() -> Outcome {
    live(all_reply)
}
