//! What a test bed's network carries without any protocol.
//!
//! `cargo run --release -p groupcast-bench --example raw_limit -- [HOSTS] [none|100mbit|1gbit]`, as
//! root.

use std::error::Error;
use std::time::Duration;

use groupcast_bench::measure::{WORKER, raw, work};
use groupcast_bench::{Link, Testbed};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, second, assignment] = &arguments[..]
        && [first.as_str(), second.as_str()] == WORKER
    {
        return Ok(work(assignment)?);
    }
    let hosts = arguments.first().map_or(Ok(3), |hosts| hosts.parse())?;
    let link = arguments
        .get(1)
        .map_or(Ok(Link::Unlimited), |link| link.parse())?;
    Testbed::available()?;
    let bed = Testbed::new(hosts, link)?;
    let executable = std::env::current_exe()?;
    for offload in [false, true] {
        let mbps = raw::limit(&bed, &executable, offload, Duration::from_secs(2))?;
        println!("{hosts} hosts, link {link}, offload {offload}: {mbps:.0} Mb/s");
    }
    Ok(())
}
