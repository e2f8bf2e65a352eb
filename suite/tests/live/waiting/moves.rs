//! A receiver whose interface is replaced, or gets another address, receives again without being
//! started again.
//!
//! Method: the real binary on a test bed. Between transfers the interface of one receiver is
//! removed and made anew with the same address, as when a cable adapter is replugged; then its
//! address changes, as when a lease ends. The other receiver stays as it is.

use std::fs;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::files::{Site, succeed};
use groupcast_suite::live::{Outcome, live, until};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_receiver_follows_its_interface_and_its_address() -> Outcome {
    live(|| {
        let mut site = Site::new(3, Link::Gbit1)?;
        let mut receivers = Vec::new();
        for host in [2, 3] {
            receivers.push(site.receiver(host)?);
        }
        let rounds = ["as it was", "interface", "address", "interface and address"];
        for (number, round) in rounds.into_iter().enumerate() {
            match round {
                "interface" => site.cluster.bed.replace_interface(2)?,
                "address" => _ = site.cluster.bed.change_address(2)?,
                "interface and address" => {
                    // Back to the first address, on another device.
                    site.cluster.bed.replace_interface(2)?;
                }
                _ => {}
            }
            let receiver = &receivers[0];
            until(LIMIT, format!("{round}: it has joined again"), || {
                let count = receiver.stdout()?.matches("\"rejoined\"").count();
                Ok((count == number).then_some(()))
            })?;
            let source = site.cluster.path(round);
            fs::write(&source, round.repeat(10_000))?;
            let hosts = [2, 3].map(Site::name).join(",");
            let mut sender = site.launch(1, "send", &[&source, "--require", &hosts])?;
            succeed(&mut sender, LIMIT)?;
            for host in [2, 3] {
                let arrived = fs::read_to_string(site.out(host).join(round))?;
                if arrived != round.repeat(10_000) {
                    return Err(format!("{round}: host {host} has something else").into());
                }
            }
        }
        site.cluster.pass();
        Ok(())
    })
}
