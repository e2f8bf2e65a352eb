//! A receiver that is served after the others costs its port nothing meanwhile, at a switch that
//! follows memberships.
//!
//! Three receivers lose nothing, one loses 30 % of what reaches it. While the three are served, the
//! switch must send nothing of the transfer to the fourth's port, which it did before, and in the
//! end all four must have every byte. Method: the real binary on a test bed with wires of 1 Gb/s, a
//! bridge with IGMP snooping and a querier; the counters of its ports, between the moment when the
//! sender says that it does not wait for the fourth any more and the end of the first pass.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process};
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::files::Site;
use groupcast_suite::live::{Outcome, live, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const LEN: usize = 64 << 20;
const LOSSY: usize = 5;
const HOSTS: usize = 5;
/// From the sender's word until the port is quiet: the word has to come, which may be lost several
/// times, the host to leave the group, the switch to ask whether anybody else is there.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);
/// A port is quiet that was sent no more than this many bytes in this long: 100 Mb/s are 2.5 MB.
const QUIET: (u64, Duration) = (50_000, Duration::from_millis(200));

/// How many reports of progress a sender has printed, and the last.
fn progress(sender: &Process) -> Outcome<(usize, Value)> {
    let printed = sender.stdout()?;
    // The last line may be half of one.
    let whole = &printed[..printed.rfind('\n').map_or(0, |end| end + 1)];
    let lines = whole.lines().filter(|line| line.contains("\"progress\""));
    let last = lines.clone().next_back().unwrap_or("null");
    Ok((lines.count(), serde_json::from_str(last)?))
}

/// Whether the sender waits for the lossy one.
fn waits_for_lossy(report: &Value) -> bool {
    let name = format!("host-{LOSSY}");
    let receivers = report["receivers"].as_array().into_iter().flatten();
    let lossy = receivers.filter(|it| it["receiver"] == name.as_str());
    lossy.fold(true, |_, it| it["waited_for"] == true)
}

/// Bytes that the switch has sent to host 2, and to the lossy one.
fn sent(cluster: &Cluster) -> Outcome<(u64, u64)> {
    Ok((cluster.bed.sent_to(2)?, cluster.bed.sent_to(LOSSY)?))
}

fn run() -> Outcome {
    let mut site = Site::new(HOSTS, Link::Gbit1)?;
    site.cluster.bed.follow_memberships()?;
    site.cluster.bed.lose(LOSSY, 300)?;
    let bytes: Vec<u8> = (0..LEN)
        .map(|at| ((at * at + at / 251) % 251) as u8)
        .collect();
    let image = site.cluster.path("image");
    fs::write(&image, &bytes)?;
    let mut receivers = Vec::new();
    for host in 2..=HOSTS {
        receivers.push(site.receiver(host)?);
    }
    sleep(Duration::from_secs(2));

    let idle = sent(&site.cluster)?;
    let options = [
        &image,
        "--require",
        "host-2,host-3,host-4,host-5",
        "--rate",
        "100",
    ];
    let mut sender = site.launch(1, "send", &options)?;
    until(LIMIT, "the lossy one is served later", || {
        Ok((!waits_for_lossy(&progress(&sender)?.1)).then_some(()))
    })?;
    let listened = sent(&site.cluster)?.1 - idle.1;
    until(LEAVES_WITHIN, "the port is quiet", || {
        let (most, time) = QUIET;
        let before = sent(&site.cluster)?.1;
        sleep(time);
        Ok((sent(&site.cluster)?.1 - before <= most).then_some(()))
    })?;
    let from = sent(&site.cluster)?;
    let (mut reports, mut latest, mut to) = (progress(&sender)?.0, from, from);
    let end = Instant::now() + LIMIT;
    loop {
        let (count, report) = progress(&sender)?;
        if report["pass"] != 1 {
            break;
        }
        if count > reports {
            // The pass went on after these were read.
            (reports, to) = (count, latest);
        }
        latest = sent(&site.cluster)?;
        if Instant::now() > end {
            return Err(format!("the first pass does not end: {report}").into());
        }
        sleep(Duration::from_millis(20));
    }
    let (others, lossy) = (to.0 - from.0, to.1 - from.1);
    match sender.wait(LIMIT)? {
        Some(status) if status.success() => {}
        status => return Err(format!("{status:?}: {}", sender.stderr()?).into()),
    }
    let served = sent(&site.cluster)?.1 - to.1;
    println!("{listened} B before, {lossy} B while others had {others} B, {served} B in its pass");
    assert!(listened > 2 << 20, "it heard the group before: {listened}");
    assert!(others > 8 << 20, "there is something to look at: {others}");
    assert!(
        lossy * 100 < others,
        "{lossy} B while others had {others} B"
    );
    for host in 2..=HOSTS {
        let has = fs::read(site.out(host).join("image"))?;
        assert!(has == bytes, "host {host} has something else");
    }
    site.cluster.pass();
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_receiver_that_is_served_later_leaves_its_port_to_others() -> Outcome {
    live(run)
}
