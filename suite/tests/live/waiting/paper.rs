//! `send --paper` with each protocol of 001, to three hosts that lose frames; their `recv` knows
//! nothing of it.
//!
//! Every receiver must have every byte, and what is repeated must be what go-back-N repeats: much
//! more than was lost, where the same protocol with selective repeat repeats what was lost. Method:
//! the real binary on a test bed, the same packets, window and loss with `--paper` and without.

use std::fs;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::files::{Site, await_event, last_line, succeed};
use groupcast_suite::live::{Outcome, live};

const LIMIT: Duration = Duration::from_secs(60);
/// How much of what reaches a receiver is lost, in thousandths.
const LOSS: u16 = 10;
const HOSTS: usize = 4;
/// With a window of fewer than two blocks no parity is sent, so that repairs are comparable.
const SAME: [&str; 6] = ["--window", "50", "--packet", "1400", "--rate", "window"];

/// Sends a file to all; the packets that were sent again.
fn repeated(site: &mut Site, name: &str, options: &[&str]) -> Outcome<u64> {
    let noise: Vec<u8> = (0..1_000_001_usize)
        .map(|at| ((at * at + name.len() * 131) % 251) as u8)
        .collect();
    let file = site.cluster.path(name);
    fs::write(&file, &noise)?;
    let mut receivers = Vec::new();
    for host in 2..=HOSTS {
        let out = site.out(host).display().to_string();
        let receiver = site.launch(host, "recv", &["--out", &out, "--once"])?;
        await_event(&receiver, "listening")?;
        receivers.push(receiver);
    }
    let whom = ["--receivers", "3", "--slow", "wait", "--no-compare"];
    let line = [&[&*file], &whom[..], options].concat();
    let said = succeed(&mut site.launch(1, "send", &line)?, LIMIT)?;
    for receiver in &mut receivers {
        receiver.wait(LIMIT)?;
    }
    for host in 2..=HOSTS {
        if fs::read(site.out(host).join(name))? != noise {
            return Err(format!("{name}: host {host} has something else").into());
        }
    }
    let done = last_line(&said)?;
    let repeated = done["repeated"].as_u64();
    repeated.ok_or_else(|| format!("{name}: no account: {done}").into())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn with_paper_each_protocol_goes_back_and_every_byte_comes() -> Outcome {
    live(|| {
        let mut site = Site::new(HOSTS, Link::Gbit1)?;
        for host in 2..=HOSTS {
            site.cluster.bed.lose(host, LOSS)?;
        }
        for protocol in ["ack", "nak", "ring", "tree"] {
            let options = [&["--protocol", protocol], &SAME[..]].concat();
            let selective = repeated(&mut site, &format!("selective-{protocol}"), &options)?;
            let options = [&options[..], &["--paper"]].concat();
            let all_after = repeated(&mut site, &format!("paper-{protocol}"), &options)?;
            if all_after < 3 * selective.max(1) {
                return Err(format!(
                    "{protocol}: {all_after} packets sent again, and {selective} with selective repeat"
                )
                .into());
            }
            // And with the packets of the paper, in fragments.
            let options = ["--paper", "--protocol", protocol];
            repeated(&mut site, &format!("large-{protocol}"), &options)?;
        }
        site.cluster.pass();
        Ok(())
    })
}
