//! `cargo xtask bench`: the ring's throughput and latency for several sizes of group, sealed and in clear, each beside
//! the raw multicast limit of the same run. The measuring is `groupcast bench ring`'s; here is the sweep.

use crate::Failure;
use crate::exec::{self, cargo};

/// How many hosts the group has.
const HOSTS: &[&str] = &["3", "5", "8"];

/// `cargo xtask bench …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    exec::hand_over(cargo(["build", "--release", "--bin", "groupcast"]))?;
    for hosts in HOSTS {
        for sealing in [&[][..], &["--insecure"]] {
            let mut bench = exec::command(
                exec::built("release", "groupcast"),
                ["bench", "ring", "--hosts", hosts],
            );
            bench.args(sealing).args(args);
            println!("$ {}", exec::shown(&bench));
            exec::hand_over(bench)?;
        }
    }
    Ok(())
}
