//! Total order over gossip. Goal: the order never differs between two members, whatever is lost and
//! whoever pauses; and in ordinary conditions nothing is late. Method: several senders at once, all
//! pairs of members compared.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_check::Contract;
use groupcast_core::{MessageId, Rng, Service};
use groupcast_protocols::gossip::{Gossip, GossipConfig};
use groupcast_protocols::total::{Total, TotalConfig};
use groupcast_sim::{Cluster, ClusterConfig};

const HOSTS: usize = 8;

fn group(seed: u64, hold: Option<Duration>) -> Cluster<Total<Gossip>> {
    let gossip = GossipConfig::lan();
    let mut total = TotalConfig::over_gossip(&gossip);
    total.hold = hold.unwrap_or(total.hold);
    let config = ClusterConfig {
        contract: Contract::Gapped,
        ..ClusterConfig::new(HOSTS, seed)
    };
    let mut cluster = Cluster::started(config, move |member, rng, now| {
        Total::new(
            total,
            Gossip::new(gossip.clone(), member, rng, now).unwrap(),
        )
    });
    cluster.run_for(Duration::from_secs(3));
    cluster
}

/// Some 20 seconds in which everybody talks.
fn talk(
    cluster: &mut Cluster<Total<Gossip>>,
    seed: u64,
    mut disturb: impl FnMut(&mut Cluster<Total<Gossip>>, u64),
) {
    let mut rng = Rng::new(seed).fork("talk");
    for round in 0..400 {
        disturb(cluster, round);
        for host in 0..HOSTS {
            if rng.chance(0.15) && cluster.status(host) == groupcast_sim::Status::Up {
                cluster.submit(host, Service::Agreed, "a message").unwrap();
            }
        }
        cluster.run_for(Duration::from_millis(50));
    }
}

fn order(cluster: &Cluster<Total<Gossip>>, host: usize) -> Vec<MessageId> {
    let deliveries = cluster.deliveries(host).iter();
    deliveries.map(|delivery| delivery.id).collect()
}

/// Whatever two members both delivered stands in the same order at both.
fn assert_one_order(cluster: &Cluster<Total<Gossip>>) {
    let orders: Vec<_> = (0..HOSTS).map(|host| order(cluster, host)).collect();
    for (index, first) in orders.iter().enumerate() {
        let places: BTreeMap<_, _> = first.iter().zip(0..).collect();
        for second in &orders[index + 1..] {
            let common = second.iter().filter_map(|id| places.get(id));
            assert!(common.is_sorted_by(|a: &&i32, b| a < b));
        }
    }
}

#[test]
fn all_deliver_everything_in_one_order_although_a_tenth_is_lost() {
    for seed in 0..3 {
        let mut cluster = group(seed, None);
        cluster.set_loss(0.1);
        talk(&mut cluster, seed, |_, _| {});
        cluster.run_for(Duration::from_secs(6));
        assert_one_order(&cluster);
        let all = order(&cluster, 0);
        assert!(all.len() > 400, "{}", all.len());
        assert!((1..HOSTS).all(|host| order(&cluster, host) == all));
        let late: u64 = (0..HOSTS)
            .filter_map(|host| cluster.protocol(host))
            .map(Total::late)
            .sum();
        assert_eq!(late, 0);
        cluster.check();
    }
}

#[test]
fn the_order_holds_where_pauses_and_too_short_a_hold_make_messages_late() {
    let mut late = 0;
    for seed in 0..3 {
        let mut cluster = group(seed, Some(Duration::from_millis(60)));
        cluster.set_loss(0.1);
        talk(&mut cluster, seed, |cluster, round| match round % 100 {
            30 => cluster.pause(2),
            60 => cluster.resume(2),
            70 => cluster.partition(&[&[0, 1, 2]]),
            90 => {
                cluster.heal();
                cluster.set_loss(0.1);
            }
            _ => {}
        });
        cluster.heal();
        cluster.resume(2);
        cluster.run_for(Duration::from_secs(10));
        assert_one_order(&cluster);
        late += (0..HOSTS)
            .filter_map(|host| cluster.protocol(host))
            .map(Total::late)
            .sum::<u64>();
        // Delivered, or reported, and never both.
        cluster.check();
    }
    assert!(late > 100, "{late}: the test would show nothing");
}
