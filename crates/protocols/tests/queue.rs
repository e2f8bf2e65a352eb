//! Goal: in a daemon's order no more messages wait than its network takes at a time, so that a
//! message is not late by all that others have submitted; and the order is as fast as with a long
//! queue.
//! Method: members that always have messages, over a slow and a fast network, in the daemon's
//! settings and in the same with a queue of fixed length; the same for every family that orders
//! messages.

use std::time::Duration;

use groupcast_core::family::OrderFamily;
use groupcast_core::settings::Value;
use groupcast_core::{Instrumented, Service, SubmitError};
use groupcast_protocols::registry;
use groupcast_sim::{Cluster, ClusterConfig, NetworkConfig};

type Group = Cluster<Box<dyn Instrumented>>;

const HOSTS: usize = 3;
/// Twice the least that a visit of the token may take, and some.
const SHORT: usize = 64 << 10;

/// What became of messages that members submitted whenever there was room.
struct Flood {
    /// Payload bytes that the first member delivered.
    delivered: usize,
    /// The most that waited at a member.
    waited: usize,
}

impl Flood {
    /// The first `senders` members submit messages of `len` bytes for `length`.
    fn run(
        order: &OrderFamily,
        measured: bool,
        network: NetworkConfig,
        senders: usize,
        len: usize,
        length: Duration,
    ) -> Self {
        let mut group = group(order, measured, network);
        let (end, before) = (group.now() + length, group.deliveries(0).len());
        let mut waited = 0;
        while group.now() < end {
            for host in 0..senders {
                waited = waited.max(fill(&mut group, host, len));
            }
            group.run_for(Duration::from_micros(50));
        }
        group.check();
        Self {
            delivered: (group.deliveries(0).len() - before) * len,
            waited,
        }
    }
}

/// 1.25 MB/s: a queue of 1 MiB would be 0.8 s of it.
fn slow() -> NetworkConfig {
    NetworkConfig {
        bandwidth: 10_000_000,
        ..NetworkConfig::default()
    }
}

/// A group with the daemon's settings, but perhaps with a fixed queue.
fn group(order: &OrderFamily, measured: bool, network: NetworkConfig) -> Group {
    let mut config = order.daemon_config(None).expect("the first preset");
    config.set("queue_measured", Value::Flag(measured));
    let members = config.members().expect("the settings are valid");
    let cluster = ClusterConfig {
        network,
        ..ClusterConfig::new(HOSTS, 17)
    };
    let mut group = Cluster::with_factory(cluster, members.factory(HOSTS));
    group.start_all();
    let patience = Duration::from_secs(5);
    group.must("one group", Cluster::all_in_one_configuration, patience);
    group
}

/// Submits messages at `host` until one is refused; how many bytes wait then.
fn fill(group: &mut Group, host: usize, len: usize) -> usize {
    loop {
        match group.submit(host, Service::Agreed, vec![7; len]) {
            Ok(_) => {}
            Err(SubmitError::Full { queued }) => return queued,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_slow_network_has_a_short_queue() {
    for order in registry::ORDERED {
        let length = Duration::from_secs(3);
        let flood = Flood::run(order, true, slow(), 1, 1_000, length);
        let (name, waited) = (order.name(), flood.waited);
        assert!(waited <= SHORT, "{name}: {waited} bytes wait");
    }
}

/// The bytes that others have submitted when a message is are all that is ordered before it.
#[test]
fn a_message_is_ordered_after_no_more_than_waited() {
    for order in registry::ORDERED {
        let mut group = group(order, true, slow());
        fill(&mut group, 0, 1_000);
        group.run_for(Duration::from_secs(1));
        fill(&mut group, 0, 1_000);
        let lone = loop {
            group.run_for(Duration::from_micros(50));
            if let Ok(id) = group.submit(0, Service::Agreed, "lone") {
                break id;
            }
        };
        let before = group.deliveries(0).len();
        let patience = Duration::from_secs(1);
        group.must("ordered", |group| group.has_delivered(0, lone), patience);
        let ahead = (group.deliveries(0).len() - before) * 1_000;
        // What was sent and has no place yet is ahead of it, too.
        let most = 3 * SHORT;
        assert!(ahead <= most, "{}: {ahead} bytes are ahead", order.name());
    }
}

#[test]
fn a_measured_queue_is_as_fast_as_a_long_one() {
    for order in registry::ORDERED {
        for (senders, len) in [(1, 1_000), (3, 1_000), (1, 90_000), (3, 300_000)] {
            let [measured, long] = [true, false].map(|measured| {
                let network = NetworkConfig::default();
                let length = Duration::from_millis(200);
                Flood::run(order, measured, network, senders, len, length)
            });
            let name = order.name();
            assert!(
                measured.delivered as f64 >= 0.98 * long.delivered as f64,
                "{name}, {senders} senders of {len} bytes: {} instead of {} bytes",
                measured.delivered,
                long.delivered
            );
        }
    }
}
