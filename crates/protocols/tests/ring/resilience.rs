//! Goal: `k-resilient` and `majority` messages are delivered as soon as enough members hold them,
//! outlive the failures that they promise to, and are refused by a part without a majority. Method:
//! loss towards chosen hosts, crashes at the moment of the first delivery, partitions; and a look
//! at the token's bytes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Gap, MessageId, Service, SocketClass, SubmitError};
use groupcast_protocols::ring::{FAMILY, Ring};
use groupcast_sim::Cluster;
use groupcast_sim::swarm::{Crashes, crash_at_delivery};

use super::formed;

/// First byte of a token's body.
const TOKEN: u8 = 2;
/// Bytes of a token without requests and extensions.
const TOKEN_LEN: usize = 2 + 16 + 8 + 8 + 8 + 2 + 4 + 4 + 4 + 8 + 2;

fn submit(cluster: &mut Cluster<Ring>, host: usize, service: Service) -> MessageId {
    let text = format!("{service} of {host}");
    cluster.submit(host, service, text).expect("there is room")
}

/// Data reaches none of `hosts` from now on.
fn deafen(cluster: &mut Cluster<Ring>, hosts: &'static [usize]) {
    cluster.drop_all(|info| info.class == SocketClass::Data && hosts.contains(&info.to));
}

#[test]
fn a_message_is_delivered_once_enough_members_hold_it_and_not_before() {
    // 0 sends; 1 and 2 hear it, 3 and 4 do not.
    let held_by = 3;
    let services = [
        Service::KResilient(0),
        Service::KResilient(1),
        Service::KResilient(2),
        Service::Majority,
        Service::KResilient(3),
        Service::KResilient(4),
        Service::KResilient(127),
        Service::Safe,
    ];
    for (seed, service) in services.into_iter().enumerate() {
        let mut cluster = formed(5, 70 + seed as u64);
        deafen(&mut cluster, &[3, 4]);
        let id = submit(&mut cluster, 0, service);
        cluster.run_for(Duration::from_millis(30));
        let wanted = match service {
            Service::KResilient(k) => usize::from(k) + 1,
            Service::Majority => 3,
            _ => 5,
        };
        for host in 0..3 {
            let delivered = cluster.has_delivered(host, id);
            assert_eq!(delivered, wanted <= held_by, "{service} at {host}");
        }
        cluster.heal();
        let everywhere = |cluster: &Cluster<Ring>| (0..5).all(|it| cluster.has_delivered(it, id));
        cluster.must("delivered everywhere", everywhere, Duration::from_secs(2));
        cluster.check();
    }
}

#[test]
fn the_fewer_must_hold_it_the_sooner_it_comes() {
    let mut took = Vec::new();
    for service in [
        Service::KResilient(1),
        Service::KResilient(5),
        Service::Safe,
    ] {
        let mut cluster = formed(8, 91);
        let begun = cluster.now();
        let id = submit(&mut cluster, 3, service);
        let first = |cluster: &Cluster<Ring>| (0..8).any(|it| cluster.has_delivered(it, id));
        cluster.must("delivered", first, Duration::from_secs(1));
        took.push(cluster.now().since(begun));
        cluster.run_for(Duration::from_millis(100));
        cluster.check_at_rest();
    }
    assert!(took[0] < took[1] && took[1] < took[2], "{took:?}");
}

#[test]
fn the_token_carries_marks_only_while_such_messages_are_about() {
    let mut cluster = formed(5, 92);
    let marked = Rc::new(Cell::new(0_u32));
    let seen = Rc::clone(&marked);
    cluster.drop_all(move |info| {
        let body = info.body();
        if body.first() == Some(&TOKEN) && body.len() > TOKEN_LEN {
            seen.set(seen.get() + 1);
        }
        false
    });
    for service in [Service::Agreed, Service::Safe, Service::KResilient(0)] {
        submit(&mut cluster, 1, service);
    }
    cluster.run_for(Duration::from_millis(300));
    assert_eq!(marked.get(), 0, "nobody waits for marks");
    for service in [Service::KResilient(2), Service::Majority] {
        submit(&mut cluster, 1, service);
        cluster.run_for(Duration::from_millis(300));
        let tokens = marked.take();
        assert!((5..30).contains(&tokens), "{service}: {tokens} tokens");
    }
    cluster.check_at_rest();
}

/// The holders 0, 1 and 2 of a message of 0, which it delivers as 2-resilient; `crashed` of them
/// end in that moment.
fn crash_holders(crashed: &[usize], service: Service) -> (Cluster<Ring>, MessageId) {
    let mut cluster = formed(6, 93);
    deafen(&mut cluster, &[3, 4, 5]);
    let id = submit(&mut cluster, 0, service);
    let first = |cluster: &Cluster<Ring>| (0..6).any(|it| cluster.has_delivered(it, id));
    cluster.must("delivered", first, Duration::from_secs(1));
    for host in crashed {
        cluster.crash(*host);
    }
    cluster.heal();
    cluster.run_for(Duration::from_secs(3));
    (cluster, id)
}

#[test]
fn k_crashes_at_the_moment_of_delivery_lose_nothing() {
    for crashed in [[0, 1], [0, 2], [1, 2]] {
        let (cluster, id) = crash_holders(&crashed, Service::KResilient(2));
        for host in cluster.alive() {
            assert!(cluster.has_delivered(host, id), "{crashed:?}: {host}");
        }
        cluster.check_at_rest();
    }
}

#[test]
fn one_crash_more_than_k_may_lose_it() {
    let (cluster, id) = crash_holders(&[0, 1, 2], Service::KResilient(2));
    assert!(!cluster.alive().any(|host| cluster.has_delivered(host, id)));
    cluster.check_at_rest();
}

#[test]
fn a_minority_refuses_majority_messages_and_reports_those_that_it_may_not_deliver() {
    let mut cluster = formed(5, 94);
    // Nobody but the sender gets it, so no majority ever holds it.
    let deaf = Rc::new(Cell::new(true));
    let still = Rc::clone(&deaf);
    cluster.drop_all(move |info| still.get() && info.class == SocketClass::Data);
    let lost = submit(&mut cluster, 0, Service::Majority);
    let behind = submit(&mut cluster, 0, Service::Agreed);
    cluster.run_for(Duration::from_millis(20));
    deaf.set(false);
    cluster.partition(&[&[0, 1], &[2, 3, 4]]);
    let parted = |cluster: &Cluster<Ring>| {
        let members = |host| {
            cluster
                .current_configuration(host)
                .map(|it| it.members.len())
        };
        members(0) == Some(2) && members(1) == Some(2) && members(3) == Some(3)
    };
    cluster.must("two rings", parted, Duration::from_secs(3));
    let gap = Gap {
        sender: lost.sender,
        first: lost.number,
        last: lost.number,
    };
    for host in [0, 1] {
        assert_eq!(cluster.gaps(host), [gap], "at {host}");
    }
    let refused = cluster.submit(1, Service::Majority, "too few");
    assert_eq!(refused, Err(SubmitError::Minority { members: 2, of: 5 }));
    assert!(cluster.has_delivered(0, behind) && cluster.has_delivered(1, behind));
    // The others are a majority of the five.
    let here = submit(&mut cluster, 3, Service::Majority);
    cluster.run_for(Duration::from_millis(100));
    assert!((2..5).all(|host| cluster.has_delivered(host, here)));
    cluster.heal();
    let merged = Cluster::all_in_one_configuration;
    cluster.must("one ring again", merged, Duration::from_secs(3));
    let again = submit(&mut cluster, 1, Service::Majority);
    cluster.run_for(Duration::from_millis(200));
    assert!((0..5).all(|host| cluster.has_delivered(host, again)));
    cluster.check_at_rest();
}

#[test]
fn directed_seeds_lose_nothing_to_as_many_crashes_as_a_service_outlives() {
    for seed in 0..12 {
        let outlived = crash_at_delivery(&FAMILY, seed, Crashes::Outlived);
        assert_eq!(outlived.violations, [""; 0], "{outlived:?}");
        assert!(!outlived.loss_shown, "{outlived:?}");
        let more = crash_at_delivery(&FAMILY, seed, Crashes::OneMore);
        assert_eq!(more.violations, [""; 0], "{more:?}");
        assert!(more.loss_shown, "{more:?}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn the_checker_finds_it_where_one_holder_fewer_is_enough() {
    use groupcast_protocols::ring::{Planted, RingConfig};

    let config = RingConfig {
        planted: Some(Planted::OneHolderFewer),
        ..RingConfig::lan()
    };
    let mut cluster = super::with_config(6, 95, config);
    let formed = Cluster::all_in_one_configuration;
    cluster.must("one ring", formed, Duration::from_secs(2));
    deafen(&mut cluster, &[2, 3, 4, 5]);
    let id = submit(&mut cluster, 0, Service::KResilient(2));
    let first = |cluster: &Cluster<Ring>| (0..6).any(|it| cluster.has_delivered(it, id));
    cluster.must("delivered", first, Duration::from_secs(1));
    cluster.crash(0);
    cluster.crash(1);
    cluster.heal();
    cluster.run_for(Duration::from_secs(3));
    let violations = cluster.violations(true, Some(&[]));
    assert!(violations.iter().any(|it| it.rule == "resilience"));
}
