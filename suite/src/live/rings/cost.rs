//! What a ring, and a name on it, take of a daemon's memory.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_client::{Address, Client, ClientEvent, Options};

use super::{MULTICAST, POOL};
use crate::live::Outcome;
use crate::live::cluster::Cluster;

/// All joins are carried out within this.
const JOINED_WITHIN: Duration = Duration::from_secs(30);

/// Resident memory of a daemon that is alone in its rings.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCost {
    /// How many rings it is in.
    pub rings: u64,
    /// How many names one client of it has joined beside.
    pub names: u64,
    /// Bytes before the first ring, with all rings, and with all names.
    pub resident: [u64; 3],
}

impl MemoryCost {
    /// Bytes that a ring takes.
    pub fn of_ring(&self) -> u64 {
        self.resident[1].saturating_sub(self.resident[0]) / self.rings.max(1)
    }

    /// Bytes that a name takes.
    pub fn of_name(&self) -> u64 {
        self.resident[2].saturating_sub(self.resident[1]) / self.names.max(1)
    }
}

impl fmt::Display for MemoryCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rings take {} bytes each of a daemon's resident memory, {} names {} bytes each",
            self.rings,
            self.of_ring(),
            self.names,
            self.of_name()
        )
    }
}

/// Measures it at a daemon that has this many rings, and one client of this many names on them, the
/// tops among these.
pub fn cost(rings: u64, names: u64) -> Outcome<MemoryCost> {
    let mut cluster = Cluster::new(1, Link::Unlimited)?;
    cluster.write_text("rings.toml", POOL)?;
    let file = cluster.path("rings.toml");
    cluster.start_without_history(1, &["--multicast", MULTICAST, "-c", &file])?;
    cluster.await_members(&[1])?;
    let address = Address::Unix(Path::new(&cluster.socket(1)).into());
    let mut client = Client::connect(&address, Options::default())?;
    let mut resident = [cluster.daemon(1)?.usage()?.resident; 3];
    for ring in 0..rings {
        client.join_on_ring(&format!("r{ring}.top"))?;
    }
    await_views(&mut client, rings)?;
    resident[1] = cluster.daemon(1)?.usage()?.resident;
    let names = names.saturating_sub(rings);
    for name in 0..names {
        client.join(&format!("n{name}.r{}.top", name % rings.max(1)))?;
    }
    await_views(&mut client, names)?;
    resident[2] = cluster.daemon(1)?.usage()?.resident;
    cluster.pass();
    Ok(MemoryCost {
        rings,
        names,
        resident,
    })
}

/// Waits for the views of as many groups.
fn await_views(client: &mut Client, count: u64) -> Outcome {
    let mut seen = 0;
    while seen < count {
        match client.next_event(Some(JOINED_WITHIN))? {
            Some(ClientEvent::View(_)) => seen += 1,
            Some(ClientEvent::Rejected { text, .. }) => return Err(text.into()),
            Some(_) => {}
            None => return Err(format!("{seen} of {count} joined in {JOINED_WITHIN:?}").into()),
        }
    }
    Ok(())
}
