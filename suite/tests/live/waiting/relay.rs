//! Files go through a relay to hosts that do not hear the sender.
//!
//! Each host below must have every byte, and the sender must account for each by name, whether all
//! goes well, a host below is killed or the relay is. Method: the real binary on a test bed with
//! wires of 1 Gb/s; hosts 4 and 5 are deaf to the sender and to the receiver beside it, so that
//! nothing comes but through the relay on host 3.

use std::fs;
use std::time::Duration;

use groupcast_bench::{Link, Process};
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::{Outcome, live, until};

const ABOVE: &str = "239.79.1.6:4820";
const BELOW: &str = "239.79.1.7:4821";
const LIMIT: Duration = Duration::from_secs(90);
const LEN: usize = 12 << 20;

fn launch(cluster: &Cluster, host: usize, label: &str, options: &[&str]) -> Outcome<Process> {
    let key = cluster.path("cluster.key");
    let name = format!("host-{host}");
    let mut line = cluster.command(host, options);
    line.args(["--key", &key, "--name", &name, "--json"]);
    Ok(cluster.bed.launch(label, line)?)
}

fn tells(process: &Process, event: &str) -> Outcome {
    until(LIMIT, event, || {
        let told = format!("\"event\":\"{event}\"");
        Ok(process.stdout()?.contains(&told).then_some(()))
    })
}

fn relay(cluster: &Cluster, label: &str) -> Outcome<Process> {
    let relay = launch(
        cluster,
        3,
        label,
        &["relay", "--from", ABOVE, "--to", BELOW],
    )?;
    tells(&relay, "listening")?;
    Ok(relay)
}

fn send(cluster: &Cluster, label: &str, options: &[&str]) -> Outcome<Process> {
    let image = cluster.path("image");
    let all = [
        &[
            "send",
            &image,
            "--group",
            ABOVE,
            "--require",
            "host-2,host-4,host-5",
        ],
        options,
    ];
    launch(cluster, 1, label, &all.concat())
}

/// Waits for a sender to end with `code`; who failed, by its account.
fn account(mut sender: Process, code: i32) -> Outcome<Vec<String>> {
    let status = sender.wait(LIMIT)?;
    if status.and_then(|status| status.code()) != Some(code) {
        return Err(format!("{status:?}: {} {}", sender.stdout()?, sender.stderr()?).into());
    }
    let printed = sender.stdout()?;
    let last = printed.lines().last().unwrap_or_default();
    let account: serde_json::Value = serde_json::from_str(last)?;
    let failed = account["failed"].as_array().cloned().unwrap_or_default();
    let names = failed.iter().filter_map(|it| it["receiver"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

fn assert_has(cluster: &Cluster, hosts: &[usize]) -> Outcome {
    let image = fs::read(cluster.path("image"))?;
    for host in hosts {
        if fs::read(cluster.path(&format!("out-{host}/image")))? != image {
            return Err(format!("host {host} has something else").into());
        }
    }
    Ok(())
}

fn write(cluster: &Cluster, seed: usize) -> Outcome {
    let bytes: Vec<u8> = (0..LEN)
        .map(|at| ((at * at + seed * 131) % 251) as u8)
        .collect();
    Ok(fs::write(cluster.path("image"), bytes)?)
}

fn run() -> Outcome {
    let mut cluster = Cluster::new(5, Link::Gbit1)?;
    for host in [4, 5] {
        cluster.bed.deafen(host, &[1, 2])?;
        cluster.bed.lose(host, 20)?;
    }
    let mut receivers = Vec::new();
    for host in [2, 4, 5] {
        let group = if host == 2 { ABOVE } else { BELOW };
        let out = cluster.path(&format!("out-{host}"));
        let options = ["recv", "--group", group, "--out", &out];
        let receiver = launch(&cluster, host, &format!("recv-{host}"), &options)?;
        tells(&receiver, "listening")?;
        receivers.push(receiver);
    }
    let mut first = relay(&cluster, "relay")?;

    write(&cluster, 1)?;
    let failed = account(send(&cluster, "send-1", &[])?, 0)?;
    assert!(failed.is_empty(), "{failed:?}");
    assert_has(&cluster, &[2, 4, 5])?;

    // A host below is killed in the middle.
    write(&cluster, 2)?;
    let sender = send(&cluster, "send-2", &["--rate", "20", "--no-compare"])?;
    until(LIMIT, "data passes", || {
        let progress = receivers[2].stdout()?.matches("\"progress\"").count();
        Ok((progress > 12).then_some(()))
    })?;
    receivers[2].kill()?;
    assert_eq!(account(sender, 3)?, ["host-3/host-5"]);
    assert_has(&cluster, &[2, 4])?;

    // The relay is killed in the middle, and another takes its place.
    let out = cluster.path("out-5");
    receivers[2] = launch(
        &cluster,
        5,
        "recv-5-again",
        &["recv", "--group", BELOW, "--out", &out],
    )?;
    tells(&receivers[2], "listening")?;
    write(&cluster, 3)?;
    let sender = send(&cluster, "send-3", &["--rate", "20", "--no-compare"])?;
    tells(&receivers[2], "progress")?;
    first.kill()?;
    assert_eq!(
        account(sender, 3)?,
        ["host-3", "host-3/host-4", "host-3/host-5"]
    );
    assert_has(&cluster, &[2])?;
    tells(&receivers[2], "failed")?;
    let _second = relay(&cluster, "relay-again")?;
    let failed = account(send(&cluster, "send-4", &[])?, 0)?;
    assert!(failed.is_empty(), "{failed:?}");
    assert_has(&cluster, &[2, 4, 5])?;
    cluster.pass();
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn files_pass_a_relay_and_whoever_fails_behind_it_is_named() -> Outcome {
    live(run)
}
