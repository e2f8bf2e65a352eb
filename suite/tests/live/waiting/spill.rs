//! A subscriber that pauses under the rule `spill`: its messages wait on the daemon's disk, nobody
//! waits for it, and it misses nothing; on a full disk it loses its connection, and nobody else
//! anything.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use groupcast_bench::Link;
use groupcast_client::{Address, Client, ClientEvent, Options, Service, WhenSlow};
use groupcast_suite::live::cluster::{Cluster, MULTICAST};
use groupcast_suite::live::{Outcome, live};
use serde_json::Value;

/// What is published, in messages of this many bytes.
const MESSAGES: u32 = 20_000;
const SIZE: usize = 1_000;
const GROUP: &str = "feed";
const LIMIT: Duration = Duration::from_secs(60);

/// Two daemons of which the first has `directory` for what waits.
fn cluster_with(directory: impl FnOnce(&str) -> Outcome) -> Outcome<Cluster> {
    let mut cluster = Cluster::new(2, Link::Unlimited)?;
    let path = cluster.path("spill");
    fs::create_dir(&path)?;
    directory(&path)?;
    cluster.write_text("spill.toml", "spill_dir = \"spill\"\n")?;
    let options = ["--multicast", MULTICAST, "--config", "spill.toml"];
    cluster.start_with(1, &options)?;
    cluster.start(2)?;
    cluster.await_members(&[1, 2])?;
    Ok(cluster)
}

/// A client that is in the group.
fn subscriber(cluster: &Cluster, host: usize, name: &str, wish: WhenSlow) -> Outcome<Client> {
    let mut client = connect(cluster, host, name)?;
    client.set_when_slow(wish)?;
    client.join(GROUP)?;
    client.flush()?;
    loop {
        match client.next_event(Some(LIMIT))? {
            Some(ClientEvent::View(_)) => return Ok(client),
            Some(_) => {}
            None => return Err(format!("{name} is not in the group").into()),
        }
    }
}

fn connect(cluster: &Cluster, host: usize, name: &str) -> Outcome<Client> {
    let options = Options {
        name: Some(name.into()),
        ..Options::default()
    };
    let address = Address::Unix(cluster.socket(host).into());
    Ok(Client::connect(&address, options)?)
}

/// Publishes all messages, at the pace that the daemon gives credit for.
fn publish(cluster: &Cluster) -> Outcome<Duration> {
    let mut client = connect(cluster, 1, "pub")?;
    let begun = Instant::now();
    for number in 0..MESSAGES {
        let mut payload = vec![0; SIZE];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        client.publish(&[GROUP], Service::Agreed, &payload)?;
    }
    match client.flush_accepted(Some(LIMIT))? {
        true => Ok(begun.elapsed()),
        false => Err("not all is accepted".into()),
    }
}

/// Reads messages, which are to come in their order from `first` on, until all have come or the
/// connection ends, with the reason; the number behind the last.
fn read(client: &mut Client) -> Outcome<(u32, Option<String>)> {
    let mut next = 0_u32;
    while next < MESSAGES {
        match client.next_event(Some(LIMIT))? {
            Some(ClientEvent::Message(message)) => {
                let is_next = message.payload[..4] == next.to_be_bytes();
                if !is_next || message.payload.len() != SIZE {
                    return Err(format!("message {next} is another").into());
                }
                next += 1;
            }
            Some(ClientEvent::Disconnected { text, .. }) => return Ok((next, Some(text))),
            Some(_) => {}
            None => return Err(format!("nothing comes after message {next}").into()),
        }
    }
    Ok((next, None))
}

/// What the status of the first daemon says of a client.
fn status(cluster: &Cluster, name: &str) -> Outcome<Option<Value>> {
    let status = cluster.status(1)?.ok_or("the daemon does not answer")?;
    let clients = status["clients"].as_array().ok_or("it lists no clients")?;
    let is_it = |client: &&Value| client["name"] == name;
    Ok(clients.iter().find(is_it).cloned())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_subscriber_that_pauses_misses_nothing_and_holds_nobody_back() -> Outcome {
    live(|| {
        let mut cluster = cluster_with(|_| Ok(()))?;
        let mut slow = subscriber(&cluster, 1, "slow", WhenSlow::Spill)?;
        let took = publish(&cluster)?;
        let paused = status(&cluster, "slow@host-1")?.ok_or("slow is gone")?;
        let on_disk = paused["on_disk"].as_u64().unwrap_or_default();
        let all = u64::from(MESSAGES) * SIZE as u64;
        if on_disk < all / 2 || paused["holds_back"] != false {
            return Err(format!("{all} bytes were published in {took:?}: {paused}").into());
        }
        let log = cluster.daemon(1)?.stderr()?;
        if !log.contains("what comes for slow@host-1 waits on the disk") {
            return Err(format!("the log does not say it: {log}").into());
        }
        if fs::read_dir(cluster.path("spill"))?.next().is_some() {
            return Err("a file for a client has a name".into());
        }
        let (count, end) = read(&mut slow)?;
        if count != MESSAGES {
            return Err(format!("{count} of {MESSAGES} messages came: {end:?}").into());
        }
        let after = status(&cluster, "slow@host-1")?.ok_or("slow is gone")?;
        if after["on_disk"] != 0 {
            return Err(format!("something is left on the disk: {after}").into());
        }
        cluster.check_histories()
    })
}

/// A disk of its own, as small as a test needs.
struct SmallDisk(String);

impl SmallDisk {
    fn mount(path: &str) -> Outcome<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs", path]);
        match mount.status()?.success() {
            true => Ok(Self(path.into())),
            false => Err("a small disk cannot be mounted".into()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The daemon may still have files there: they go with it.
        let _ = Command::new("umount").args(["--lazy", &self.0]).status();
    }
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_full_disk_costs_the_slow_subscriber_its_connection_and_others_nothing() -> Outcome {
    live(|| {
        let mut disk = None;
        let mut cluster = cluster_with(|path| {
            disk = Some(SmallDisk::mount(path)?);
            Ok(())
        })?;
        let mut slow = subscriber(&cluster, 1, "slow", WhenSlow::Spill)?;
        let mut quick = subscriber(&cluster, 1, "quick", WhenSlow::Block)?;
        let reader = std::thread::spawn(move || read(&mut quick).map_err(|it| it.to_string()));
        publish(&cluster)?;
        let (count, _) = reader.join().map_err(|_| "the reader panicked")??;
        if count != MESSAGES {
            return Err(format!("{count} of {MESSAGES} messages came to the other").into());
        }
        let (_, end) = read(&mut slow)?;
        let end = end.ok_or("the slow one got all of it")?;
        if !end.contains("disk") || !end.contains("No space left") {
            return Err(format!("the reason says nothing of the disk: {end}").into());
        }
        let log = cluster.daemon(1)?.stderr()?;
        if !log.contains("No space left") || status(&cluster, "slow@host-1")?.is_some() {
            return Err(format!("the log does not say it: {log}").into());
        }
        drop(disk);
        cluster.check_histories()
    })
}
