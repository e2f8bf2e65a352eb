//! A text goes from one host to all, byte for byte and in one order, through three and five daemons
//! whose hosts lose none, 1, 5 and 20 % of what reaches them.
//!
//! One JSON subscriber a host is judged line by line; a plain one's output must be the text itself.

use groupcast_suite::live::{Outcome, live, transfer};

fn transfer(hosts: usize, permille: u16) -> Outcome {
    live(|| {
        let took = transfer::run(hosts, permille)?;
        println!("{hosts} hosts, {permille} of 1,000 lost: {took:?}");
        Ok(())
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_without_loss() -> Outcome {
    transfer(3, 0)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_at_1_percent_loss() -> Outcome {
    transfer(3, 10)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_at_5_percent_loss() -> Outcome {
    transfer(3, 50)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn three_hosts_at_20_percent_loss() -> Outcome {
    transfer(3, 200)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_without_loss() -> Outcome {
    transfer(5, 0)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_at_1_percent_loss() -> Outcome {
    transfer(5, 10)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_at_5_percent_loss() -> Outcome {
    transfer(5, 50)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn five_hosts_at_20_percent_loss() -> Outcome {
    transfer(5, 200)
}
