//! Goal: what sender and receiver go through can be polled, edge by edge. Method: a transfer to one
//! receiver that misses nothing.

use std::time::Duration;
use std::vec::Vec;

use groupcast_core::Protocol as _;

use super::net::{Net, file};
use crate::bulk::{BulkConfig, Wanted};

/// The edges that endpoint `index` went along.
fn edges(net: &mut Net, index: usize) -> Vec<(&'static str, &'static str)> {
    let polled = std::iter::from_fn(|| net.endpoints[index].poll_transition());
    polled.map(|edge| (edge.from, edge.to)).collect()
}

#[test]
fn a_transfer_goes_through_its_states_in_order() {
    let mut net = Net::new(2, &BulkConfig::lan(), 20_000);
    net.send(file(20_000, Wanted::Count(1)));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert_eq!(
        edges(&mut net, 0),
        [
            ("announcing", "starting"),
            ("starting", "sending"),
            ("sending", "sender over"),
        ]
    );
    assert_eq!(
        edges(&mut net, 1),
        [("announced", "registering"), ("registering", "receiving")]
    );
    net.run(Duration::from_millis(20));
    assert_eq!(edges(&mut net, 1), [("receiving", "receiver over")]);
    assert!(edges(&mut net, 0).is_empty());
}
