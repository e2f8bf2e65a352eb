//! Two of five hosts have no multicast. With every protocol that orders messages, all five are one
//! order; and unicast copies go to the two, and from them, and nowhere else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::family::OrderFamily;
use groupcast_core::wire::Prefix;
use groupcast_core::{Instrumented, MessageId, Service};
use groupcast_protocols::registry::ORDERED;
use groupcast_sim::swarm::{Swarm, SwarmConfig};
use groupcast_sim::{Cluster, ClusterConfig};

const HOSTS: usize = 5;
const WITHOUT: [usize; 2] = [1, 4];
const FILE: usize = 5 << 20;
/// This many of the swarm's seeds are tried with each protocol.
const SEEDS: usize = 6;
const MINUTE: Duration = Duration::from_secs(60);

type Group = Cluster<Box<dyn Instrumented>>;
/// How many datagrams to the group went from a host to another, by multicast and in copies.
type Traffic = Rc<RefCell<BTreeMap<(usize, usize), [u64; 2]>>>;

fn group(order: &OrderFamily) -> Group {
    let config = ClusterConfig {
        contract: order.family.contract,
        without_multicast: WITHOUT.into(),
        ..ClusterConfig::new(HOSTS, 1)
    };
    let build = order.family.variants[0].build;
    let mut cluster = Cluster::started(config, build);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        MINUTE,
    );
    cluster
}

fn count(cluster: &mut Group) -> Traffic {
    let traffic = Traffic::default();
    let counted = Rc::clone(&traffic);
    cluster.drop_all(move |info| {
        let addressed = Prefix::decode(info.bytes).unwrap().addressed;
        if !addressed {
            let mut counted = counted.borrow_mut();
            let [multicasts, copies] = counted.entry((info.from, info.to)).or_default();
            match info.multicast {
                true => *multicasts += 1,
                false => *copies += 1,
            }
        }
        false
    });
    traffic
}

fn has_no_multicast(host: usize) -> bool {
    WITHOUT.contains(&host)
}

#[test]
fn a_file_is_in_one_order_at_hosts_with_and_without_multicast() {
    for order in ORDERED {
        println!("{}", order.name());
        let mut cluster = group(order);
        let traffic = count(&mut cluster);
        let file: Vec<u8> = (0..FILE).map(|at| (at / 7) as u8).collect();
        let mut sent: Vec<MessageId> = Vec::new();
        for host in [0, 4] {
            sent.push(cluster.submit(host, Service::Agreed, file.clone()).unwrap());
        }
        for round in 0..20 {
            // Those with a file have their queues full.
            for host in 1..4 {
                let service = [Service::Agreed, Service::Safe][round % 2];
                sent.push(cluster.submit(host, service, "beside").unwrap());
            }
            cluster.run_for(Duration::from_millis(5));
        }
        cluster.must(
            "everything is delivered everywhere",
            |cluster| {
                let mut all = (0..HOSTS).flat_map(|host| sent.iter().map(move |it| (host, it)));
                all.all(|(host, id)| cluster.has_delivered(host, *id))
            },
            MINUTE,
        );
        let said = |host| -> Vec<(MessageId, bool)> {
            let deliveries = cluster.deliveries(host).iter();
            deliveries
                .map(|it| (it.id, it.payload == file || it.payload == "beside"))
                .collect()
        };
        let first = said(0);
        assert!(first.iter().all(|(_, intact)| *intact));
        assert!((1..HOSTS).all(|host| said(host) == first));
        only_those_without_get_copies(&traffic.borrow());
        cluster.check();
    }
}

fn only_those_without_get_copies(traffic: &BTreeMap<(usize, usize), [u64; 2]>) {
    for ((from, to), [multicasts, copies]) in traffic {
        let by_copy = has_no_multicast(*from) || has_no_multicast(*to);
        assert_eq!(*copies > 0, by_copy, "{from} to {to}: {copies} copies");
        assert_eq!(*multicasts > 0, !by_copy, "{from} to {to}");
    }
    for from in [0, 4] {
        let to = (0..HOSTS).filter(|to| *to != from);
        let counts: Vec<u64> = to.map(|to| traffic[&(from, to)].iter().sum()).collect();
        assert!(counts[0] > FILE as u64 / 1500, "{counts:?}");
        let equal = counts.iter().all(|count| *count == counts[0]);
        assert!(equal, "everybody gets each once: {from} sent {counts:?}");
    }
}

#[test]
fn a_host_without_multicast_crashes_and_comes_back_and_so_does_one_with_it() {
    for order in ORDERED {
        println!("{}", order.name());
        let mut cluster = group(order);
        for host in [4, 0] {
            cluster.crash(host);
            cluster.run_for(Duration::from_secs(2));
            cluster.start(host);
            cluster.must("all again", Cluster::all_in_one_configuration, MINUTE);
            let id = cluster.submit(host, Service::Safe, "back").unwrap();
            cluster.must(
                "a message of it",
                |cluster| (0..HOSTS).all(|host| cluster.has_delivered(host, id)),
                MINUTE,
            );
        }
        cluster.check();
    }
}

/// Few of the swarm's seeds have such hosts: here all do that have multicast at all.
#[test]
fn hosts_without_multicast_live_through_faults() {
    for order in ORDERED {
        let config = SwarmConfig {
            without_multicast: 1.0,
            duration: Duration::from_secs(30),
            messages: 200,
            ..SwarmConfig::of(order.family)
        };
        let swarm = Swarm::of(order.family, None, config);
        let mixed = |seed: &u64| !swarm.scenario(*seed).without_multicast.is_empty();
        for seed in (1..).filter(mixed).take(SEEDS) {
            let report = swarm.run_seed(seed);
            let violations = report.violations.join("\n");
            assert!(
                violations.is_empty(),
                "{order:?}, seed {seed}: {violations}"
            );
        }
    }
}
