//! Two of five receivers have no multicast: one command sends files to all five, with a copy of
//! everything to each of the two and to nobody else, as is counted at their interfaces. And a relay
//! that listens gets one copy for the receivers behind it.
//!
//! Method: the real binary on a test bed with wires of 1 Gb/s; a tree of 20 MB with small files;
//! without loss, and with a fiftieth of what reaches each receiver lost.

use std::time::Duration;

use groupcast_bench::{Link, Process};
use groupcast_core::Rng;
use groupcast_suite::live::files::{Site, await_event, last_line, succeed, tree};
use groupcast_suite::live::{Outcome, live};

const LIMIT: Duration = Duration::from_secs(60);
const WITH: [usize; 3] = [2, 3, 4];
const WITHOUT: [usize; 2] = [5, 6];
/// How long the tree is.
pub(crate) const BYTES: usize = 20 << 20;
/// What is for one host alone and no copy of data is less than this: control, and repairs in a
/// pass of its own.
const LITTLE: u64 = BYTES as u64 / 10;

#[test]
#[ignore = "live: needs root and network namespaces"]
fn one_command_sends_a_tree_to_hosts_with_and_without_multicast() -> Outcome {
    live(|| to_all(0))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn one_command_sends_a_tree_to_lossy_hosts_with_and_without_multicast() -> Outcome {
    live(|| to_all(20))
}

/// A sender, and receivers that listen.
pub(crate) struct Five {
    pub(crate) site: Site,
    receivers: Vec<(usize, Process)>,
    /// The tree that is sent.
    source: String,
    /// The hosts without multicast, as the sender names them.
    peers: String,
}

impl Five {
    pub(crate) fn new(permille: u16) -> Outcome<Self> {
        let mut site = Site::new(6, Link::Gbit1)?;
        let source = site.cluster.path("tree");
        let mut rng = Rng::new(19).fork("copies");
        tree::make(source.as_ref(), BYTES, &mut rng)?;
        let mut receivers = Vec::new();
        for host in WITH {
            receivers.push((host, site.receiver(host)?));
        }
        for host in WITHOUT {
            receivers.push((host, site.receiver_without_multicast(host)?));
        }
        for (host, _) in &receivers {
            site.cluster.bed.lose(*host, permille)?;
            site.cluster.bed.count_unicasts(*host)?;
        }
        let peers = WITHOUT.map(|host| site.cluster.bed.address(host).to_string());
        Ok(Self {
            peers: peers.join(","),
            site,
            receivers,
            source,
        })
    }

    pub(crate) fn send(&mut self, options: &[&str]) -> Outcome<Process> {
        let (source, peers) = (self.source.clone(), self.peers.clone());
        let line = [&[source.as_str(), "--peer", peers.as_str()], options].concat();
        self.site.launch(1, "send", &line)
    }

    fn has_all(&self, host: usize) -> Outcome {
        tree::assert_same(self.source.as_ref(), &self.site.out(host).join("tree"))
    }
}

fn to_all(permille: u16) -> Outcome {
    let mut five = Five::new(permille)?;
    let all: Vec<String> = five.receivers.iter().map(|it| Site::name(it.0)).collect();
    let mut sender = five.send(&["--require", &all.join(",")])?;
    let printed = succeed(&mut sender, LIMIT)?;
    for (host, _) in &five.receivers {
        five.has_all(*host)?;
    }
    let done = last_line(&printed)?;
    let (packets, copies) = (done["packets"].as_u64(), done["copies"].as_u64());
    println!("{permille} of 1,000 lost: {done}");
    if copies < packets.map(|packets| 2 * packets * 9 / 10) {
        return Err(format!("too few copies for two hosts: {done}").into());
    }
    for host in WITH.into_iter().chain(WITHOUT) {
        let unicasts = five.site.cluster.bed.unicasts(host)?;
        println!("to host {host} alone: {unicasts} bytes");
        let is_copied = unicasts > BYTES as u64;
        if is_copied != WITHOUT.contains(&host) || !is_copied && unicasts > LITTLE {
            return Err(format!("{unicasts} bytes went to host {host} alone").into());
        }
    }
    five.site.cluster.pass();
    Ok(())
}

/// A relay that listens for copies gets one; below it two receivers hear its multicasts, and one
/// gets a copy of them. The bed is one network, in which multicasts would get to the relay; but it
/// is no member of the group above.
fn by_a_relay(permille: u16) -> Outcome {
    const BELOW: &str = "239.79.1.3:4821";
    let (relay, with, without) = (5, [3, 4], 6);
    let mut site = Site::new(6, Link::Gbit1)?;
    let source = site.cluster.path("tree");
    let mut rng = Rng::new(19).fork("relay");
    tree::make(source.as_ref(), BYTES, &mut rng)?;
    let mut receivers = Vec::new();
    for host in with {
        let out = site.out(host).display().to_string();
        let receiver = site.launch_in(BELOW, host, "recv", &["--out", &out])?;
        await_event(&receiver, "listening")?;
        receivers.push((host, receiver));
    }
    let far = site.receiver_without_multicast_in(BELOW, without)?;
    receivers.push((without, far));
    let address = |host| site.cluster.bed.address(host).to_string();
    let (key, at, peer) = (site.cluster.path("cluster.key"), address(relay), address(6));
    let mut line = site.cluster.command(relay, &["relay", "--key", &key]);
    line.args(["--from", Site::GROUP, "--listen", &at]);
    line.args(["--to", BELOW, "--to-interface", &at, "--peer", &peer]);
    line.args(["--name", "relay", "--json"]);
    let process = site.cluster.bed.launch("relay", line)?;
    await_event(&process, "listening")?;
    for host in [relay, 3, 4, without] {
        site.cluster.bed.lose(host, permille)?;
        site.cluster.bed.count_unicasts(host)?;
    }
    let options = [&source, "--peer", &at, "--receivers", "3"];
    let mut sender = site.launch(1, "send", &options)?;
    let printed = succeed(&mut sender, LIMIT)?;
    println!("{permille} of 1,000 lost: {}", last_line(&printed)?);
    for (host, _) in &receivers {
        tree::assert_same(source.as_ref(), &site.out(*host).join("tree"))?;
    }
    for host in [relay, 3, 4, without] {
        let unicasts = site.cluster.bed.unicasts(host)?;
        println!("to host {host} alone: {unicasts} bytes");
        let is_copied = unicasts > BYTES as u64;
        let is_one = unicasts < 2 * BYTES as u64;
        if is_copied != [relay, without].contains(&host) || !is_one {
            return Err(format!("{unicasts} bytes went to host {host} alone").into());
        }
    }
    site.cluster.pass();
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_relay_that_listens_gets_one_copy_and_gives_one() -> Outcome {
    live(|| by_a_relay(0))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_lossy_relay_that_listens_gets_one_copy_and_gives_one() -> Outcome {
    live(|| by_a_relay(20))
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_host_without_multicast_that_is_killed_is_named_and_the_others_have_everything() -> Outcome {
    live(|| {
        let mut five = Five::new(0)?;
        let mut sender = five.send(&["--receivers", "5", "--rate", "150"])?;
        let place = five.receivers.iter().position(|it| it.0 == WITHOUT[0]);
        let (killed, mut victim) = five.receivers.remove(place.ok_or("it listens")?);
        await_event(&victim, "progress")?;
        victim.kill()?;
        let status = sender.wait(LIMIT)?.ok_or("the sender does not end")?;
        if status.code() != Some(3) {
            return Err(format!("{status}: {}", sender.stderr()?).into());
        }
        let done = last_line(&sender.stdout()?)?;
        let name = Site::name(killed);
        if done["failed"][0]["receiver"] != name.as_str() || done["complete"] != 4 {
            return Err(format!("{name} was killed: {done}").into());
        }
        for (host, _) in &five.receivers {
            five.has_all(*host)?;
        }
        five.site.cluster.pass();
        Ok(())
    })
}
