//! Attacks and accidents: another cluster, a name twice, another version, noise on every port, a
//! client that lies about lengths. The daemons count and log all of it, and their memory does not
//! grow while a text goes through.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_core::wire::VERSION;
use groupcast_suite::live::cluster::{Cluster, GROUP, MULTICAST, PORT, judge_streams};
use groupcast_suite::live::text::{messages, text};
use groupcast_suite::live::{Outcome, live, until};

const LIMIT: Duration = Duration::from_secs(60);
/// How much a daemon's resident memory may grow under attack: buffers of connections, none that add
/// up.
const GROWTH_MAX: u64 = 8 << 20;
const ADVERSARY: &str = env!("CARGO_BIN_EXE_adversary");

#[test]
#[ignore = "live: needs root and network namespaces"]
fn daemons_with_another_key_are_another_cluster() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(3, Link::Unlimited)?;
        let other = cluster.path("other.key");
        let keygen = cluster.command(3, &["keygen", &other]);
        cluster.finish(cluster.bed.launch("keygen-other", keygen)?, LIMIT)?;
        cluster.start(1)?;
        cluster.start(2)?;
        cluster.start_as(3, "host-3", &["--key", &other, "--multicast", MULTICAST])?;
        cluster.await_members(&[1, 2])?;
        cluster.await_members(&[3])?;
        // Long enough for several announcements each way.
        thread::sleep(Duration::from_secs(3));
        cluster.await_members(&[1, 2])?;
        for host in 1..=3 {
            if cluster.counter(host, &["counters", "node", "other_cluster"])? == 0 {
                return Err(format!("host-{host} did not count the other cluster").into());
            }
            let log = cluster.daemon(host)?.stderr()?;
            let lines: Vec<&str> = log
                .lines()
                .filter(|line| line.contains("another cluster"))
                .collect();
            if lines.len() != 1 || !lines[0].contains("10.79.") {
                return Err(
                    format!("host-{host} should say it once, with the source: {lines:?}").into(),
                );
            }
        }
        cluster.check_histories()
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_name_that_is_taken_is_refused() -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(3, Link::Unlimited)?;
        cluster.start(1)?;
        cluster.start(2)?;
        cluster.await_members(&[1, 2])?;
        let key = cluster.path("cluster.key");
        cluster.start_as(3, "host-2", &["--key", &key, "--multicast", MULTICAST])?;
        let second = cluster.daemon(3)?;
        let ended = second.wait(Duration::from_secs(20))?;
        let log = second.stderr()?;
        if ended.is_none_or(|status| status.success()) || !log.contains("host-2") {
            return Err(format!("the second host-2: {ended:?}: {log}").into());
        }
        cluster.await_members(&[1, 2])?;
        if !cluster.daemon(2)?.is_running() {
            return Err("the first host-2 ended".into());
        }
        cluster.pass();
        Ok(())
    })
}

/// What attacks a running cluster, while a text goes through it.
fn survives(attack: impl FnOnce(&mut Cluster) -> Outcome) -> Outcome<Cluster> {
    let text = text(1_000_000, 97);
    let published = messages(&text);
    // The adversary runs on the fourth host.
    let mut cluster = Cluster::new(4, Link::Unlimited)?;
    cluster.write_text("text", &text)?;
    for host in 1..=3 {
        cluster.start_with(
            host,
            &[
                "--multicast",
                MULTICAST,
                "--client-listen",
                "127.0.0.1:4811",
            ],
        )?;
    }
    cluster.await_members(&[1, 2, 3])?;
    let mut subscriptions = cluster.subscribe_all(&[1, 2, 3])?;
    // What a first text makes it allocate is not the attack's doing.
    let warm_up = cluster.publish_as(1, "warmup", &["--size", "1000", "--count", "2000"])?;
    cluster.finish(warm_up, LIMIT)?;
    let mut before = Vec::new();
    for host in 1..=3 {
        before.push(cluster.daemon(host)?.usage()?.resident);
    }

    let publisher = cluster.publish(1, "text", &["--rate", "500"])?;
    attack(&mut cluster)?;
    cluster.finish(publisher, LIMIT)?;
    for subscription in &mut subscriptions {
        subscription.await_messages("pub", published.len(), LIMIT)?;
    }
    let stayed = ["sub@host-1", "sub@host-2", "sub@host-3"];
    judge_streams(&subscriptions, &stayed, &published)?;
    for host in 1..=3 {
        let grown = cluster
            .daemon(host)?
            .usage()?
            .resident
            .saturating_sub(before[host - 1]);
        if grown > GROWTH_MAX {
            return Err(format!("host-{host} grew by {grown} bytes").into());
        }
    }
    for subscription in &subscriptions {
        let stream = subscription.stream()?;
        if let Some(view) = stream.views().find(|view| view.cause == "network") {
            return Err(format!("{} lost somebody: {view:?}", subscription.name).into());
        }
    }
    Ok(cluster)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn noise_and_other_versions_on_every_port_change_counters_only() -> Outcome {
    live(|| {
        let mut cluster = survives(|cluster| {
            let unicast: Vec<String> = (1..=3)
                .map(|host| format!("{}:{PORT}", cluster.bed.address(host)))
                .collect();
            for kind in ["random", "version"] {
                let mut arguments = vec![kind, "50000", "20000", "1", "-", MULTICAST];
                arguments.extend(unicast.iter().map(String::as_str));
                let adversary = cluster.attack(4, ADVERSARY, &arguments)?;
                let sent = cluster.finish(adversary, LIMIT)?;
                if sent.trim().parse::<u64>()? < 40_000 {
                    return Err(format!("the adversary sent only {sent}").into());
                }
            }
            Ok(())
        })?;
        let to_come = format!("version {}.0", VERSION.major + 1);
        for host in 1..=3 {
            for (counter, word) in [
                ("malformed", "not a groupcast datagram"),
                ("other_version", to_come.as_str()),
            ] {
                let counted = cluster.counter(host, &["counters", "node", counter])?;
                if counted < 1000 {
                    return Err(format!("host-{host}: {counter} is {counted}").into());
                }
                let log = cluster.daemon(host)?.stderr()?;
                let lines = log.lines().filter(|line| line.contains(word)).count();
                if !(1..=2).contains(&lines) {
                    return Err(format!("host-{host} has {lines} log lines with {word:?}").into());
                }
            }
        }
        cluster.check_histories()
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn clients_that_lie_are_disconnected() -> Outcome {
    live(|| {
        let mut cluster = survives(|cluster| {
            let socket = cluster.socket(2);
            for lie in lies() {
                for _ in 0..50 {
                    let mut client = UnixStream::connect(&socket)?;
                    client.set_read_timeout(Some(Duration::from_secs(10)))?;
                    // The daemon may hang up before it has read all of it.
                    let _ = client.write_all(&lie);
                    let mut answer = Vec::new();
                    until(
                        Duration::from_secs(10),
                        "the daemon hangs up on a liar",
                        || {
                            let mut buffer = [0; 4096];
                            match client.read(&mut buffer) {
                                Ok(0) | Err(_) => Ok(Some(())),
                                Ok(len) => {
                                    answer.extend_from_slice(&buffer[..len]);
                                    Ok(None)
                                }
                            }
                        },
                    )?;
                }
            }
            Ok(())
        })?;
        let log = cluster.daemon(2)?.stderr()?;
        if !log.contains("frame") {
            return Err(format!("nothing in the log about frames: {log}").into());
        }
        cluster.subscribe(2, "honest", GROUP)?;
        cluster.check_histories()
    })
}

/// Bytes with which no client's stream begins.
fn lies() -> Vec<Vec<u8>> {
    let mut oversized = b"gcst".to_vec();
    oversized.extend(u32::MAX.to_be_bytes());
    oversized.push(4);
    oversized.extend([0; 100_000]);
    let mut cut_short = b"gcst".to_vec();
    cut_short.extend(3_u32.to_be_bytes());
    cut_short.extend([1, 0, 0]);
    let noise = (0..100_000_u32).map(|n| (n * 7 + n / 256) as u8).collect();
    vec![
        oversized,
        cut_short,
        noise,
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ]
}
