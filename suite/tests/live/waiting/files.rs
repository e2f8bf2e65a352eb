//! A tree of files goes to three hosts that lose frames; one of them is cut off for a while in the
//! middle of it.
//!
//! Every receiver must have every byte and nothing else, the sender must account for each by name,
//! and a second transfer to the same receivers must find everything there. Method: the real binary
//! on a test bed with wires of 1 Gb/s.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use groupcast_bench::{Link, Process};
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::{Outcome, live, until};

const GROUP: &str = "239.79.1.2:4820";
const LIMIT: Duration = Duration::from_secs(20);
/// How much of what reaches a receiver is lost, in thousandths.
const LOSS: u16 = 50;

/// `groupcast COMMAND` on a host, in the group of the test.
fn launch(cluster: &Cluster, host: usize, command: &str, options: &[&str]) -> Outcome<Process> {
    let (key, address) = (cluster.path("cluster.key"), cluster.bed.address(host));
    let name = format!("host-{host}");
    let mut line = cluster.command(host, &[command, "--group", GROUP, "--key", &key]);
    line.args(["--interface", &address.to_string(), "--name", &name]);
    line.args(options);
    Ok(cluster.bed.launch(&format!("{command}-{host}"), line)?)
}

/// Makes a tree with a large file and many small ones.
fn make_tree(root: &Path) -> Outcome {
    fs::create_dir_all(root.join("small"))?;
    let noise = |len: usize, seed: usize| -> Vec<u8> {
        (0..len)
            .map(|at| ((at * at + seed * 131) % 251) as u8)
            .collect()
    };
    fs::write(root.join("large"), noise(16 << 20, 1))?;
    for number in 0..300 {
        fs::write(
            root.join(format!("small/{number}")),
            noise(number * 37, number),
        )?;
    }
    Ok(())
}

/// Fails unless `b` has what `a` has and nothing else.
fn assert_same(a: &Path, b: &Path) -> Outcome {
    if !a.is_dir() {
        return match fs::read(a)? == fs::read(b)? {
            true => Ok(()),
            false => Err(format!("{} differs", b.display()).into()),
        };
    }
    let count = |path: &Path| fs::read_dir(path).map(Iterator::count);
    if count(a)? != count(b)? {
        return Err(format!("{} has other entries", b.display()).into());
    }
    for entry in fs::read_dir(a)? {
        let name = entry?.file_name();
        assert_same(&a.join(&name), &b.join(&name))?;
    }
    Ok(())
}

fn succeed(mut process: Process) -> Outcome<String> {
    match process.wait(LIMIT)? {
        Some(status) if status.success() => Ok(process.stdout()?),
        status => Err(format!("{}: {status:?}: {}", process.label(), process.stderr()?).into()),
    }
}

fn tree_to_lossy_hosts(protocol: &str) -> Outcome {
    let mut cluster = Cluster::new(4, Link::Gbit1)?;
    let tree = cluster.path("tree");
    make_tree(Path::new(&tree))?;
    let mut receivers = Vec::new();
    for host in 2..=4 {
        cluster.bed.lose(host, LOSS)?;
        let out = cluster.path(&format!("out-{host}"));
        let receiver = launch(&cluster, host, "recv", &["--out", &out, "--json"])?;
        until(LIMIT, "a receiver listens", || {
            Ok(receiver.stdout()?.contains("listening").then_some(()))
        })?;
        receivers.push(receiver);
    }

    let required = [
        "--require",
        "host-2,host-3,host-4",
        "--json",
        "--protocol",
        protocol,
    ];
    let mut options = vec![tree.as_str(), "--rate", "100"];
    options.extend(required);
    let sender = launch(&cluster, 1, "send", &options)?;
    until(LIMIT, "data flows", || {
        Ok(receivers[0].stdout()?.contains("progress").then_some(()))
    })?;
    cluster.bed.cut(3)?;
    sleep(Duration::from_secs(1));
    cluster.bed.heal()?;
    succeed(sender)?;
    for host in 2..=4 {
        let out = cluster.path(&format!("out-{host}"));
        assert_same(Path::new(&tree), &Path::new(&out).join("tree"))?;
    }

    let mut options = vec![tree.as_str()];
    options.extend(required);
    let again = succeed(launch(&cluster, 1, "send", &options)?)?;
    let packets = again
        .lines()
        .rev()
        .find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .and_then(|done| done["packets"].as_u64());
    if packets != Some(0) {
        return Err(format!("everything was there, and yet packets were sent: {packets:?}").into());
    }
    for mut receiver in receivers {
        receiver.terminate()?;
        succeed(receiver)?;
    }
    for host in 2..=4 {
        let out = cluster.path(&format!("out-{host}"));
        if fs::read_dir(&out)?.count() != 1 {
            return Err(format!("host {host} has something left over").into());
        }
    }
    cluster.pass();
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_tree_reaches_lossy_hosts_and_one_that_was_cut_off() -> Outcome {
    live(|| tree_to_lossy_hosts("auto"))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_tree_reaches_them_from_a_sender_that_knows_only_the_group() -> Outcome {
    live(|| tree_to_lossy_hosts("xtp"))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_tree_reaches_them_in_rounds_in_which_all_reply() -> Outcome {
    live(|| tree_to_lossy_hosts("multidriver"))
}
