//! A datagram that was sent to one member and is brought to another changes nothing but counters.
//!
//! Every datagram to one member is recorded on its way, hellos and the sequencer's requests alike,
//! and later put before a host that it was not meant for and whose replay window has never seen it.

use std::cell::RefCell;

use groupcast_core::wire::Prefix;

use super::*;
use crate::host::{Datagram, Received, address};

/// A datagram to one member.
struct Overheard {
    to: usize,
    is_hello: bool,
    datagram: Rc<Datagram>,
}

/// Records every datagram to one member from now on.
fn overhear(cluster: &mut Cluster<Sequencer>) -> Rc<RefCell<Vec<Overheard>>> {
    let overheard = Rc::default();
    let tap: Rc<RefCell<Vec<Overheard>>> = Rc::clone(&overheard);
    cluster.drop_all(move |info| {
        if Prefix::decode(info.bytes).is_ok_and(|prefix| prefix.addressed) {
            tap.borrow_mut().push(Overheard {
                to: info.to,
                is_hello: info.is_admission(),
                datagram: Rc::new(Datagram::new(
                    info.from,
                    address(info.from),
                    info.class,
                    info.bytes.into(),
                )),
            });
        }
        false
    });
    overheard
}

/// Puts a recording before `host`, from the address that it came from at first.
fn redirect(cluster: &mut Cluster<Sequencer>, host: usize, datagram: &Rc<Datagram>) {
    let received = Received {
        datagram: Rc::clone(datagram),
        flipped: None,
        arrived: cluster.now(),
    };
    cluster.world.arrive(host, received);
    cluster.run_for(Duration::from_micros(10));
}

#[test]
fn what_was_for_one_member_is_forged_to_another() {
    let mut cluster = cluster(ClusterConfig::new(3, 15));
    let overheard = overhear(&mut cluster);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    for number in 0..10 {
        cluster
            .submit(1 + number % 2, Service::Agreed, vec![number as u8; 40])
            .expect("the queue has room");
        cluster.run_for(Duration::from_millis(5));
    }
    let recorded = overheard.take();
    let hellos = recorded.iter().filter(|it| it.is_hello).count();
    assert!(hellos >= 6 && recorded.len() - hellos >= 10);

    let before: Vec<NodeCounters> = (0..3).map(|host| cluster.counters(host)).collect();
    let mut redirected = [0; 3];
    for it in &recorded {
        let victims = (0..3).filter(|host| *host != it.to && *host != it.datagram.from);
        for host in victims {
            redirect(&mut cluster, host, &it.datagram);
            redirected[host] += 1;
        }
    }
    for host in 0..3 {
        let (before, after) = (before[host], cluster.counters(host));
        assert!(redirected[host] > 0);
        assert_eq!(after.forged - before.forged, redirected[host]);
        assert_eq!(after.replayed, before.replayed);
        assert_eq!(after.unadmitted, before.unadmitted, "nobody is challenged");
        assert_eq!(after.admitted, before.admitted);
    }
    cluster.run_for(SECOND);
    assert!((0..3).all(|host| cluster.deliveries(host).len() == 10));
    cluster.check_at_rest();
}

#[test]
fn what_was_for_a_process_is_forged_to_the_next_one_on_its_host() {
    let mut cluster = cluster(ClusterConfig::new(3, 16));
    let overheard = overhear(&mut cluster);
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    // Only the adversary reaches the new process.
    cluster.partition(&[&[0]]);
    cluster.restart(0);
    let mut redirected = 0;
    for it in overheard.take().iter().filter(|it| it.to == 0) {
        redirect(&mut cluster, 0, &it.datagram);
        redirected += 1;
    }
    let counters = cluster.counters(0);
    assert!(redirected > 0);
    assert_eq!(counters.forged, redirected);
    assert_eq!((counters.accepted, counters.unadmitted), (0, 0));
    assert_eq!(counters.admitted, 0);
}
