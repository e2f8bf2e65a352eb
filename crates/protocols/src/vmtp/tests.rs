//! Goal: the exchanges of 003 3.3.2: the first response stops the client's timer, a time-out
//! demands acknowledgements at once, later replies are kept. Method: the simulator's cluster, with
//! single datagrams lost by choice, and the counters of the client.

use std::collections::BTreeMap;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Contract, Instrumented as _, MessageId, Rng, Service};
use groupcast_sim::{Cluster, ClusterConfig};

use super::wire::Message;
use super::{Vmtp, VmtpConfig};

/// A client, host 0, and servers, which have heard each other.
fn group(servers: usize, config: VmtpConfig) -> Cluster<Vmtp> {
    let mut world = ClusterConfig::new(servers + 1, 1);
    world.contract = Contract::Unreliable;
    let mut cluster = Cluster::started(world, move |local, rng: Rng, _| {
        Vmtp::new(local, config.clone(), rng).expect("the settings are in their ranges")
    });
    ask(&mut cluster, b"hello");
    cluster.run_for(Duration::from_secs(5));
    cluster.act(0, |client, _| while client.poll_later().is_some() {});
    cluster
}

fn ask(cluster: &mut Cluster<Vmtp>, payload: &'static [u8]) -> MessageId {
    let payload = Bytes::from_static(payload);
    cluster
        .submit(0, Service::Reliable, payload)
        .expect("there is room")
}

/// What the client has counted.
fn counted(cluster: &Cluster<Vmtp>) -> BTreeMap<&'static str, u64> {
    let mut counted = BTreeMap::new();
    let client = cluster.protocol(0).expect("it runs");
    client.measure(&mut |name, value| {
        counted.insert(name, value);
    });
    counted
}

/// How much more it has counted than `before`.
fn since(
    cluster: &Cluster<Vmtp>,
    before: &BTreeMap<&'static str, u64>,
) -> impl Fn(&str) -> u64 + use<> {
    let now = counted(cluster);
    let before = before.clone();
    move |name: &str| now[name] - before[name]
}

#[test]
fn a_request_of_one_packet_costs_a_response_of_each_server_and_nothing_else() {
    for servers in [2, 5, 50] {
        let mut cluster = group(servers, VmtpConfig::default());
        let before = counted(&cluster);
        let id = ask(&mut cluster, b"x");
        cluster.run_for(Duration::from_secs(5));
        assert!((0..=servers).all(|host| cluster.has_delivered(host, id)));
        let counts = since(&cluster, &before);
        assert_eq!(counts("responses"), servers as u64);
        assert_eq!((counts("demands"), counts("acknowledgements")), (0, 0));
        // The first ended the transaction; the others are kept for the user.
        assert_eq!(counts("later replies"), servers as u64 - 1);
        let mut kept = 0;
        cluster.act(0, |client, _| {
            while let Some(reply) = client.poll_later() {
                assert_eq!((reply.message, reply.bytes.len()), (id, 4));
                kept += 1;
            }
        });
        assert_eq!(kept, servers - 1);
        cluster.check();
    }
}

#[test]
fn a_server_that_is_slow_acknowledges_when_it_is_asked_and_gets_nothing_again() {
    let slow = VmtpConfig {
        think: Duration::from_secs(2),
        ..VmtpConfig::default()
    };
    let mut cluster = group(1, slow);
    let before = counted(&cluster);
    let id = ask(&mut cluster, b"x");
    let own = |cluster: &Cluster<Vmtp>| cluster.has_delivered(0, id);
    cluster.must("it responds at last", own, Duration::from_secs(5));
    let counts = since(&cluster, &before);
    assert!(counts("demands") > 0 && counts("acknowledgements") == counts("demands"));
    assert_eq!((counts("repairs"), counts("failed")), (0, 0));
    assert_eq!(counts("responses"), 1);
    cluster.check();
}

#[test]
fn segments_that_every_server_misses_are_sent_again_and_no_others() {
    let mut cluster = group(3, VmtpConfig::default());
    let before = counted(&cluster);
    // Of four segments the second falls, everywhere, the first time.
    let mut lost = 0;
    cluster.drop_all(move |datagram| {
        let message = Message::decode(&Bytes::copy_from_slice(datagram.body()));
        let is_second = matches!(message, Ok(Message::Request { segment: 1, .. }));
        let falls = is_second && lost < 3;
        lost += u32::from(falls);
        falls
    });
    let id = ask(&mut cluster, &[7; 2_000]);
    cluster.run_for(Duration::from_secs(5));
    assert!((0..4).all(|host| cluster.has_delivered(host, id)));
    let counts = since(&cluster, &before);
    assert_eq!((counts("demands"), counts("repairs")), (1, 1));
    assert_eq!(counts("acknowledgements"), 3);
    cluster.check();
}

#[test]
fn a_response_that_is_lost_is_given_again_on_demand() {
    let mut cluster = group(1, VmtpConfig::default());
    let before = counted(&cluster);
    let mut lost = false;
    cluster.drop_all(move |datagram| {
        let message = Message::decode(&Bytes::copy_from_slice(datagram.body()));
        let falls = matches!(message, Ok(Message::Response { .. })) && !lost;
        lost |= falls;
        falls
    });
    let id = ask(&mut cluster, b"x");
    cluster.run_for(Duration::from_secs(5));
    assert!(cluster.has_delivered(0, id));
    let counts = since(&cluster, &before);
    assert_eq!((counts("demands"), counts("responses")), (1, 1));
    assert_eq!((counts("acknowledgements"), counts("repairs")), (0, 0));
    let times = cluster.deliveries(1).iter().filter(|it| it.id == id);
    assert_eq!(times.count(), 1, "the server's user is asked once");
    cluster.check();
}

#[test]
fn k_responses_are_waited_for_and_too_few_fail_after_the_demands() {
    let of_three = VmtpConfig {
        responses: 3,
        ..VmtpConfig::default()
    };
    let mut cluster = group(3, of_three.clone());
    let before = counted(&cluster);
    let id = ask(&mut cluster, b"x");
    cluster.run_for(Duration::from_secs(5));
    assert!(cluster.has_delivered(0, id));
    let counts = since(&cluster, &before);
    assert_eq!((counts("responses"), counts("later replies")), (3, 0));
    assert_eq!((counts("demands"), counts("failed")), (0, 0));

    let mut few = group(2, of_three);
    let before = counted(&few);
    let id = ask(&mut few, b"x");
    few.run_for(Duration::from_secs(10));
    assert!(
        few.has_delivered(0, id),
        "its user learns that it has failed"
    );
    let counts = since(&few, &before);
    assert_eq!((counts("demands"), counts("failed")), (4, 1));
    few.check();
}

/// 500,000 bytes are 31 transactions. A host of the laboratory takes 256 KiB from its source at
/// once, which is sixteen of them; what is submitted arrives.
#[test]
fn what_needs_many_transactions_reaches_every_server() {
    let mut cluster = group(12, VmtpConfig::default());
    let before = counted(&cluster);
    let ids: Vec<MessageId> = (0..31)
        .map(|_| ask(&mut cluster, &[7; Vmtp::MESSAGE_MAX]))
        .collect();
    cluster.run_for(Duration::from_secs(5));
    for id in ids {
        assert!((0..=12).all(|host| cluster.has_delivered(host, id)));
    }
    let counts = since(&cluster, &before);
    assert_eq!((counts("demands"), counts("repairs")), (0, 0));
    assert_eq!(counts("responses"), 31 * 12);
    cluster.check();
}
