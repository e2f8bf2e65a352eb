//! `send --paper` with each protocol of 001, to three hosts that lose frames; their `recv` knows
//! nothing of it.
//!
//! Every receiver must have every byte, and what is repeated must be what go-back-N repeats: much
//! more than was lost, where the same protocol with selective repeat repeats what was lost. Method:
//! the real binary on a test bed, the same packets, window and loss with `--paper` and without.

use std::fs;
use std::time::Duration;

use groupcast_bench::{Link, Process};
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::{Outcome, live, until};

const GROUP: &str = "239.79.1.3:4820";
const LIMIT: Duration = Duration::from_secs(60);
/// How much of what reaches a receiver is lost, in thousandths.
const LOSS: u16 = 10;
const HOSTS: usize = 4;
/// With a window of fewer than two blocks no parity is sent, so that repairs are comparable.
const SAME: [&str; 6] = ["--window", "50", "--packet", "1400", "--rate", "window"];

/// `groupcast COMMAND` on a host, in the group of the test.
fn launch(cluster: &Cluster, host: usize, command: &str, options: &[&str]) -> Outcome<Process> {
    let (key, address) = (cluster.path("cluster.key"), cluster.bed.address(host));
    let name = format!("host-{host}");
    let mut line = cluster.command(host, &[command, "--group", GROUP, "--key", &key]);
    line.args(["--interface", &address.to_string(), "--name", &name]);
    line.args(options);
    Ok(cluster.bed.launch(&format!("{command}-{host}"), line)?)
}

/// Sends a file to all; the packets that were sent again.
fn repeated(cluster: &Cluster, name: &str, options: &[&str]) -> Outcome<u64> {
    let noise: Vec<u8> = (0..1_000_001_usize)
        .map(|at| ((at * at + name.len() * 131) % 251) as u8)
        .collect();
    let file = cluster.path(name);
    fs::write(&file, &noise)?;
    let mut receivers = Vec::new();
    for host in 2..=HOSTS {
        let out = cluster.path(&format!("out-{host}"));
        let receiver = launch(cluster, host, "recv", &["--out", &out, "--once", "--json"])?;
        until(LIMIT, "a receiver listens", || {
            Ok(receiver.stdout()?.contains("listening").then_some(()))
        })?;
        receivers.push(receiver);
    }
    let whom = [
        "--receivers",
        "3",
        "--slow",
        "wait",
        "--no-compare",
        "--json",
    ];
    let line = [&[&*file], &whom[..], options].concat();
    let mut sender = launch(cluster, 1, "send", &line)?;
    match sender.wait(LIMIT)? {
        Some(status) if status.success() => {}
        status => return Err(format!("{name}: {status:?}: {}", sender.stderr()?).into()),
    }
    for receiver in &mut receivers {
        receiver.wait(LIMIT)?;
    }
    for host in 2..=HOSTS {
        if fs::read(cluster.path(&format!("out-{host}/{name}")))? != noise {
            return Err(format!("{name}: host {host} has something else").into());
        }
    }
    let said = sender.stdout()?;
    let done = said.lines().last().unwrap_or_default();
    let done: serde_json::Value = serde_json::from_str(done)?;
    let repeated = done["repeated"].as_u64();
    repeated.ok_or_else(|| format!("{name}: no account: {done}").into())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn with_paper_each_protocol_goes_back_and_every_byte_comes() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(HOSTS, Link::Gbit1)?;
        for host in 2..=HOSTS {
            cluster.bed.lose(host, LOSS)?;
        }
        for protocol in ["ack", "nak", "ring", "tree"] {
            let options = [&["--protocol", protocol], &SAME[..]].concat();
            let selective = repeated(&cluster, &format!("selective-{protocol}"), &options)?;
            let options = [&options[..], &["--paper"]].concat();
            let all_after = repeated(&cluster, &format!("paper-{protocol}"), &options)?;
            if all_after < 3 * selective.max(1) {
                return Err(format!(
                    "{protocol}: {all_after} packets sent again, and {selective} with selective repeat"
                )
                .into());
            }
            // And with the packets of the paper, in fragments.
            let options = ["--paper", "--protocol", protocol];
            repeated(&cluster, &format!("large-{protocol}"), &options)?;
        }
        cluster.pass();
        Ok(())
    })
}
