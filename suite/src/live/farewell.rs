//! What a daemon says last: clients close gracefully, and are thrown out, while messages flood.
//! Each must learn why its connection ends, and nothing that was said before may be lost.

use std::time::{Duration, Instant};

use groupcast_bench::Link;
use groupcast_client::{Address, Client, ClientError, Disconnect, Options, Service};

use super::Outcome;
use super::cluster::{Cluster, GROUP, MULTICAST};

/// At the second daemon, clients that do not read are thrown out early, and hold nobody back
/// before.
const CONFIG: &str =
    "[clients]\ndisconnect_at = \"256 KiB\"\nstop_publishers_at = \"1024 MiB\"\nmax = 64\n";
/// What floods: as fast as it is taken.
const FLOOD: [&str; 4] = ["--size", "700", "--count", "1000000000"];
/// How long a client waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);
/// A client that does not read is thrown out within this.
const EXPELLED_WITHIN: Duration = Duration::from_secs(30);

/// How long a run took.
pub struct FarewellReport {
    /// Clients that closed, and how long that took altogether.
    pub closed: (usize, Duration),
    /// Clients that were thrown out, and how long that took altogether.
    pub expelled: (usize, Duration),
}

/// Lets `count` clients close at one daemon and as many be thrown out at another, one after the
/// other.
pub fn run(count: usize) -> Outcome<FarewellReport> {
    let mut cluster = Cluster::new(2, Link::Unlimited)?;
    cluster.write_text("farewell.toml", CONFIG)?;
    let options = ["--multicast", MULTICAST];
    cluster.start_without_history(1, &options)?;
    let options = ["--multicast", MULTICAST, "--config", "farewell.toml"];
    cluster.start_without_history(2, &options)?;
    cluster.await_members(&[1, 2])?;
    let mut flood = cluster.publish_as(2, "flood", &FLOOD)?;
    let [closes, expels] = [1, 2].map(|host| Address::Unix(cluster.socket(host).into()));

    let begun = Instant::now();
    for number in 0..count {
        close(&closes, number).map_err(|error| format!("good-bye {number}: {error}"))?;
    }
    let closed = begun.elapsed();
    let begun = Instant::now();
    for number in 0..count {
        be_expelled(&expels, number).map_err(|error| format!("expulsion {number}: {error}"))?;
    }
    let expelled = begun.elapsed();
    if !flood.is_running() {
        return Err(format!("the flood ended: {}", flood.stderr()?).into());
    }
    cluster.pass();
    Ok(FarewellReport {
        closed: (count, closed),
        expelled: (count, expelled),
    })
}

fn connect(daemon: &Address) -> Outcome<Client> {
    // Little, so that credit goes back often.
    let options = Options {
        delivery_window: 10_000,
        ..Options::default()
    };
    let mut client = Client::connect(daemon, options)?;
    client.join(GROUP)?;
    Ok(client)
}

/// A client that is flooded publishes and says good-bye: all of it is accepted.
fn close(daemon: &Address, number: usize) -> Outcome {
    let mut client = connect(daemon)?;
    for message in 0..number % 4 {
        client.publish(
            &["elsewhere"],
            Service::Agreed,
            &vec![1; 100 << (message * 4)],
        )?;
    }
    for _ in 0..number % 3 {
        client.next_event(Some(PATIENCE))?;
    }
    Ok(client.close(PATIENCE)?)
}

/// A client that does not read what floods it, and publishes meanwhile, is told why it is thrown
/// out.
fn be_expelled(daemon: &Address, number: usize) -> Outcome {
    let mut client = connect(daemon)?;
    let payload = vec![1; [100, 3_000, 60_000][number % 3]];
    let begun = Instant::now();
    let error = loop {
        let published = client.publish(&["elsewhere"], Service::Agreed, &payload);
        if let Err(error) = published.and_then(|_| client.flush()) {
            break error;
        }
        if begun.elapsed() > EXPELLED_WITHIN {
            return Err("it reads nothing, and is not thrown out".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    match error {
        ClientError::Disconnected {
            code: Disconnect::TooSlow,
            ..
        } => Ok(()),
        error => Err(error.into()),
    }
}
