//! Goal: in the networks that a preset is documented for, no ring breaks without a fault.
//! Method: the ends of each preset's range of delays, few hosts and many; clients that send now and
//! then, one that sends when it has seen its last message, and bursts of all; the ring that formed
//! first stays.

use std::time::Duration;

use groupcast_core::{Rng, Service};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::Cluster;

use super::calls::{closed_loop, far_apart};

/// Messages of random members, `mean` apart.
fn sparse(cluster: &mut Cluster<Ring>, mean: Duration, duration: Duration) {
    let mut random = Rng::new(7);
    let end = cluster.now() + duration;
    while cluster.now() < end {
        let host = random.below(cluster.hosts() as u64) as usize;
        let service = if random.chance(0.2) {
            Service::Safe
        } else {
            Service::Agreed
        };
        cluster
            .submit(host, service, "a few words")
            .expect("there is room");
        cluster.run_for(random.duration(Duration::ZERO, mean * 2));
    }
}

/// Every 2 s all members have a hundred messages at once.
fn bursts(cluster: &mut Cluster<Ring>, duration: Duration) {
    let end = cluster.now() + duration;
    while cluster.now() < end {
        for host in 0..cluster.hosts() {
            for _ in 0..100 {
                cluster
                    .submit(host, Service::Agreed, vec![1; 1_000])
                    .expect("there is room");
            }
        }
        cluster.run_for(Duration::from_secs(2));
    }
}

fn changes(config: &RingConfig, hosts: usize, micros: u64, duration: Duration) -> [usize; 3] {
    let delay = Duration::from_micros(micros);
    let run = |load: &dyn Fn(&mut Cluster<Ring>)| {
        let mut cluster = far_apart(hosts, hosts as u64, delay, config.clone());
        let before = cluster.configurations(0).len();
        load(&mut cluster);
        cluster.check();
        cluster.configurations(0).len() - before
    };
    [
        run(&|cluster| sparse(cluster, Duration::from_millis(300), duration)),
        run(&|cluster| closed_loop(cluster, hosts - 1, 50, duration)),
        run(&|cluster| bursts(cluster, duration)),
    ]
}

#[test]
fn no_ring_breaks_in_calm_where_its_preset_fits() {
    let lan = [(2, 50), (9, 500), (9, 5_000)];
    let wan = [(2, 100_000), (5, 25_000), (9, 100_000)];
    let networks = lan.map(|network| (RingConfig::lan(), network));
    let long_ones = wan.map(|network| (RingConfig::wan(), network));
    for (config, (hosts, micros)) in networks.into_iter().chain(long_ones) {
        let changes = changes(&config, hosts, micros, Duration::from_secs(30));
        assert_eq!(changes, [0; 3], "{hosts} hosts, {micros} us apart");
    }
}

#[test]
fn time_outs_that_do_not_fit_the_network_are_counted() {
    let config = RingConfig {
        token_loss_max: RingConfig::lan().token_loss_min,
        ..RingConfig::lan()
    };
    let slow = |micros| {
        let cluster = far_apart(5, 5, Duration::from_micros(micros), config.clone());
        let status = cluster.protocol(0).expect("runs").status();
        status.counters.rotations_slow
    };
    assert_eq!(slow(50), 0);
    assert!(slow(11_000) > 0);
}
