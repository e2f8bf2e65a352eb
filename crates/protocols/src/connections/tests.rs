//! Goal: members of the family do what connections can do, and the swarm finds rules of rounds
//! that are broken on purpose. Method: single connections by hand, and seeds of the family.

use std::sync::Arc;
use std::time::Duration;

use groupcast_core::{Instrumented as _, Service};
use groupcast_sim::swarm::{Swarm, SwarmConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::family::FAMILY;
use super::sending::Replied;
use super::{ConnectedMessages, ConnectionsConfig, FALSE_REPLIES};
use crate::bulk::{self, Multidriver, Policy, RateControl, Xtp};

fn xtp() -> Policy {
    Policy::Xtp(Xtp::for_window(256))
}

fn multidriver() -> Policy {
    Policy::Multidriver(Multidriver::for_window(256))
}

/// A group whose members have these settings. The last host is not started yet.
fn group(hosts: usize, seed: u64, config: ConnectionsConfig) -> Cluster<ConnectedMessages> {
    let cluster = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(hosts, seed)
    };
    let factory = Arc::new(move |local, rng, _| {
        let member = ConnectedMessages::new(local, config.clone(), rng);
        member.expect("these settings fit each other")
    });
    let mut cluster = Cluster::with_factory(cluster, factory);
    for host in 0..hosts - 1 {
        cluster.start(host);
    }
    cluster
}

fn say(cluster: &mut Cluster<ConnectedMessages>, messages: usize) {
    for _ in 0..messages {
        let said = cluster.submit(0, Service::Fifo, "a message");
        said.expect("it is taken");
        cluster.run_for(Duration::from_millis(50));
    }
}

fn measured(cluster: &Cluster<ConnectedMessages>, host: usize, of: &str) -> u64 {
    let mut found = 0;
    let member = cluster.protocol(host).expect("it was started");
    member.measure(&mut |name, value| found += if name == of { value } else { 0 });
    found
}

/// Numbers of the messages of host 0 that `host` delivered.
fn numbers(cluster: &Cluster<ConnectedMessages>, host: usize) -> std::vec::Vec<u64> {
    let of = cluster.deliveries(host).iter().map(|it| it.id.number);
    of.collect()
}

#[test]
fn who_comes_late_joins_or_waits_for_the_next_connection_and_reports_what_it_missed() {
    for joinable in [false, true] {
        let config = ConnectionsConfig {
            joinable,
            ..ConnectionsConfig::new(bulk::for_tests(xtp()))
        };
        let mut joined = 0;
        for seed in 0..6 {
            let mut cluster = group(4, seed, config.clone());
            cluster.run_for(Duration::from_secs(1));
            say(&mut cluster, 30);
            cluster.start(3);
            say(&mut cluster, 60);
            cluster.run_for(Duration::from_secs(5));
            let all: std::vec::Vec<u64> = (1..=90).collect();
            assert_eq!(numbers(&cluster, 1), all);
            assert_eq!(numbers(&cluster, 2), all);
            let late = numbers(&cluster, 3);
            assert!(late.len() > 30 && all.ends_with(&late), "{late:?}");
            joined += measured(&cluster, 3, "joined");
            cluster.check();
        }
        // Half of the connections can be joined then.
        assert_eq!(joined > 0, joinable);
    }
}

#[test]
fn where_nobody_answers_lost_messages_are_reported_and_nobody_is_in_an_account() {
    let rate = RateControl::Fixed {
        bytes_per_second: 1_000_000,
    };
    let config = ConnectionsConfig {
        unanswered: true,
        ..ConnectionsConfig::new(bulk::BulkConfig {
            rate,
            ..bulk::for_tests(multidriver())
        })
    };
    let mut cluster = group(3, 1, config);
    cluster.run_for(Duration::from_secs(1));
    cluster.set_loss(0.1);
    say(&mut cluster, 300);
    cluster.set_loss(0.0);
    say(&mut cluster, 30);
    cluster.run_for(Duration::from_secs(5));
    let (given, lost) = (numbers(&cluster, 1).len(), cluster.gaps(1).len());
    assert!(given > 200 && lost > 5, "{given} and {lost}");
    cluster.check();
}

#[test]
fn each_receiver_replies_to_every_message_through_loss() {
    let config = ConnectionsConfig {
        replies: true,
        ..ConnectionsConfig::new(bulk::for_tests(multidriver()))
    };
    let mut cluster = group(4, 1, config);
    cluster.run_for(Duration::from_secs(1));
    cluster.set_loss(0.05);
    say(&mut cluster, 100);
    cluster.run_for(Duration::from_secs(20));
    assert_eq!(numbers(&cluster, 1).len(), 100);
    assert!(measured(&cluster, 0, "parts received") >= 20);
    assert_eq!(measured(&cluster, 0, FALSE_REPLIES), 0);
    cluster.check();
}

#[test]
fn a_reply_that_does_not_say_what_was_given_is_counted() {
    let bytes = |numbers: &[u64]| -> std::vec::Vec<u8> {
        numbers.iter().flat_map(|it| it.to_be_bytes()).collect()
    };
    // In whatever parts it comes.
    let (mut replied, right) = (Replied::default(), bytes(&[7, 8, 9]));
    let parts = [&right[..3], &right[3..17], &right[17..]];
    assert_eq!(parts.map(|part| replied.take(7, part)), [0; 3]);
    for (numbers, wrong) in [(&[7, 7][..], 1), (&[8, 9], 2), (&[7, 9, 9], 1)] {
        let counted = Replied::default().take(7, &bytes(numbers));
        assert_eq!(counted, wrong, "{numbers:?}");
    }
}

#[test]
fn what_is_released_before_all_have_it_is_found() {
    let config = SwarmConfig {
        duration: Duration::from_secs(30),
        ..SwarmConfig::of(&FAMILY)
    };
    for plant in [bulk::FIRST_REPLY_COUNTS, bulk::SILENT_FORGOTTEN] {
        let swarm = Swarm::of(&FAMILY, Some(plant), config.clone());
        let report = swarm.run_range(0..2_000, 2, true, &|_| ());
        assert!(report.failed > 0, "one of 2,000 seeds shows {plant}");
    }
}
