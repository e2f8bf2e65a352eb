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

use groupcast_bench::Link;
use groupcast_core::Rng;
use groupcast_suite::live::files::{Site, last_line, succeed, tree};
use groupcast_suite::live::{Outcome, live, until};

const BYTES: usize = 18 << 20;
const LIMIT: Duration = Duration::from_secs(20);
/// How much of what reaches a receiver is lost, in thousandths.
const LOSS: u16 = 50;

fn tree_to_lossy_hosts(protocol: &str) -> Outcome {
    let mut site = Site::new(4, Link::Gbit1)?;
    let source = site.cluster.path("tree");
    tree::make(source.as_ref(), BYTES, &mut Rng::new(1))?;
    let mut receivers = Vec::new();
    for host in 2..=4 {
        site.cluster.bed.lose(host, LOSS)?;
        receivers.push(site.receiver(host)?);
    }

    let whom = ["--require", "host-2,host-3,host-4", "--protocol", protocol];
    let options = [&[&*source, "--rate", "100"], &whom[..]].concat();
    let mut sender = site.launch(1, "send", &options)?;
    until(LIMIT, "data flows", || {
        Ok(receivers[0].stdout()?.contains("progress").then_some(()))
    })?;
    site.cluster.bed.cut(3)?;
    sleep(Duration::from_secs(1));
    site.cluster.bed.heal()?;
    succeed(&mut sender, LIMIT)?;
    for host in 2..=4 {
        tree::assert_same(Path::new(&source), &site.out(host).join("tree"))?;
    }

    let options = [&[&*source], &whom[..]].concat();
    let again = succeed(&mut site.launch(1, "send", &options)?, LIMIT)?;
    let packets = last_line(&again)?["packets"].as_u64();
    if packets != Some(0) {
        return Err(format!("everything was there, and yet packets were sent: {packets:?}").into());
    }
    for mut receiver in receivers {
        receiver.terminate()?;
        succeed(&mut receiver, LIMIT)?;
    }
    for host in 2..=4 {
        if fs::read_dir(site.out(host))?.count() != 1 {
            return Err(format!("host {host} has something left over").into());
        }
    }
    site.cluster.pass();
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
