//! Goal: what 000 ch. 4 says of MTP: a byte costs seven packets at least, messages are delivered in
//! the order of their tokens, lost packets are asked for, a message whose sender fails is rejected,
//! and what was kept too short is lost; and no datagram of a member stops the web. Method: the
//! simulator's cluster, and every datagram counted; three members without a network.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{
    Contract, Destination, Event, Incarnation, Instrumented as _, MemberId, MessageId, NodeId,
    Ordered as _, Protocol as _, Rng, Service, Time, TransmitBuf,
};
use groupcast_sim::{Cluster, ClusterConfig};

use super::statuses::Statuses;
use super::wire::{Data, InWeb, Message};
use super::{Mtp, MtpConfig, inspect};

const MINUTE: Duration = Duration::from_secs(60);

/// A web: its hosts have found each other.
fn web(hosts: usize, seed: u64, config: MtpConfig) -> Cluster<Mtp> {
    let mut world = ClusterConfig::new(hosts, seed);
    world.contract = Contract::Unreliable;
    let mut cluster = Cluster::started(world, move |local, rng: Rng, now| {
        Mtp::new(local, config.clone(), rng, now).expect("the settings are in their ranges")
    });
    cluster.run_for(Duration::from_secs(20));
    let masters = (0..hosts).filter(|host| is_master(&cluster, *host));
    assert_eq!(masters.count(), 1);
    cluster
}

fn is_master(cluster: &Cluster<Mtp>, host: usize) -> bool {
    cluster.protocol(host).is_some_and(Mtp::is_master)
}

fn master(cluster: &Cluster<Mtp>) -> usize {
    let mut hosts = cluster.alive();
    let is_it = |host: &usize| is_master(cluster, *host);
    hosts.find(is_it).expect("there is a master")
}

fn submit(cluster: &mut Cluster<Mtp>, host: usize, len: usize) -> MessageId {
    let payload = Bytes::from(std::vec![host as u8; len]);
    let submitted = cluster.submit(host, Service::Unreliable, payload);
    submitted.expect("there is room")
}

/// The kinds of the datagrams that are sent from now on, each once.
fn listen(cluster: &mut Cluster<Mtp>) -> Rc<RefCell<BTreeMap<&'static str, u32>>> {
    let kinds = Rc::new(RefCell::new(BTreeMap::new()));
    let seen = kinds.clone();
    cluster.drop_all(move |datagram| {
        // Of what is multicast, the copy to one host.
        let counted = if datagram.from == 0 { 1 } else { 0 };
        if !datagram.is_admission() && (!datagram.multicast || datagram.to == counted) {
            let kind = inspect(datagram.class, datagram.body(), &mut |_| {}).kind;
            *seen.borrow_mut().entry(kind).or_insert(0) += 1;
        }
        false
    });
    kinds
}

#[test]
fn a_byte_costs_seven_packets() {
    for hosts in [3, 20] {
        let mut cluster = web(hosts, 1, MtpConfig::default());
        let master = master(&cluster);
        let sender = (master + 1) % hosts;
        let kinds = listen(&mut cluster);
        let id = submit(&mut cluster, sender, 1);
        cluster.run_for(Duration::from_secs(5));
        assert!((0..hosts).all(|host| cluster.has_delivered(host, id)));
        let mut kinds = kinds.borrow().clone();
        // That the master is there it says in any case.
        kinds.remove("alive");
        let expected = [
            ("data", 1),
            ("empty data", 3),
            ("status", 1),
            ("token", 1),
            ("token request", 1),
        ];
        assert_eq!(kinds, BTreeMap::from(expected));
        cluster.check();
    }
}

#[test]
fn no_more_than_a_window_is_sent_in_a_heartbeat() {
    let config = MtpConfig {
        window: 5,
        ..MtpConfig::default()
    };
    let mut cluster = web(3, 2, config);
    let sender = (master(&cluster) + 1) % 3;
    let kinds = listen(&mut cluster);
    let id = submit(&mut cluster, sender, 40 * Mtp::PACKET);
    cluster.run_for(Duration::from_millis(100));
    for beats in 1..4 {
        let data = kinds.borrow().get("data").copied().unwrap_or(0);
        assert!(
            data <= 5 * (beats + 1),
            "{data} after {beats} beats at most"
        );
        cluster.run_for(Duration::from_millis(250));
    }
    let all = |cluster: &Cluster<Mtp>| (0..3).all(|host| cluster.has_delivered(host, id));
    cluster.must("it arrives", all, MINUTE);
    // 40 packets in windows of 5.
    assert_eq!(kinds.borrow().get("data"), Some(&40));
    assert_eq!(kinds.borrow().get("nack"), None);
}

/// The messages that a host delivered, in its order.
fn order(cluster: &Cluster<Mtp>, host: usize) -> Vec<MessageId> {
    cluster.deliveries(host).iter().map(|it| it.id).collect()
}

#[test]
fn all_deliver_in_one_order_and_what_is_lost_is_sent_again() {
    for seed in 0..10 {
        let mut cluster = web(4, seed, MtpConfig::default());
        cluster.set_loss(0.05);
        let mut sent = Vec::new();
        for round in 0..5 {
            for host in 0..4 {
                sent.push(submit(&mut cluster, host, 1 + round * 3_000));
            }
        }
        cluster.run_for(MINUTE);
        let first = order(&cluster, 0);
        assert!(
            first.len() * 10 >= sent.len() * 9,
            "{} of {}",
            first.len(),
            sent.len()
        );
        for host in 1..4 {
            // Each may miss some; none has two the other way round.
            let other = order(&cluster, host);
            let both = |of: &[MessageId], with: &[MessageId]| {
                let shared = of.iter().filter(|id| with.contains(id));
                shared.copied().collect::<Vec<_>>()
            };
            assert_eq!(both(&first, &other), both(&other, &first), "seed {seed}");
        }
        let mut repairs = 0;
        for host in 0..4 {
            let member = cluster.protocol(host).expect("it runs");
            member.measure(&mut |name, value| repairs += u64::from(name == "repairs") * value);
        }
        assert!(repairs > 0);
        cluster.check();
    }
}

#[test]
fn a_message_whose_sender_fails_is_rejected_and_the_next_is_delivered() {
    let config = MtpConfig {
        window: 5,
        ..MtpConfig::default()
    };
    let mut cluster = web(4, 3, config);
    let master = master(&cluster);
    let (fails, goes_on) = ((master + 1) % 4, (master + 2) % 4);
    let lost = submit(&mut cluster, fails, 100 * Mtp::PACKET);
    cluster.run_for(Duration::from_millis(300));
    cluster.crash(fails);
    let next = submit(&mut cluster, goes_on, 10);
    let all = |cluster: &Cluster<Mtp>| {
        let mut alive = cluster.alive();
        alive.all(|host| cluster.has_delivered(host, next))
    };
    cluster.must("what came later is delivered", all, MINUTE);
    assert!((0..4).all(|host| !cluster.has_delivered(host, lost)));
    cluster.check();
}

#[test]
fn who_is_cut_off_for_longer_than_the_retention_misses_it_and_nobody_learns_that() {
    let mut cluster = web(4, 4, MtpConfig::default());
    let master = master(&cluster);
    let (sender, cut) = ((master + 1) % 4, (master + 2) % 4);
    let others: Vec<usize> = (0..4).filter(|host| *host != cut).collect();
    cluster.partition(&[&others, &[cut]]);
    let id = submit(&mut cluster, sender, 10);
    cluster.run_for(Duration::from_secs(3));
    cluster.heal();
    let later = submit(&mut cluster, sender, 10);
    let all = |cluster: &Cluster<Mtp>| (0..4).all(|host| cluster.has_delivered(host, later));
    cluster.must("the next reaches all", all, MINUTE);
    assert!(others.iter().all(|host| cluster.has_delivered(*host, id)));
    assert!(!cluster.has_delivered(cut, id));
    cluster.check();
}

#[test]
fn a_master_that_fails_is_replaced() {
    let mut cluster = web(4, 5, MtpConfig::default());
    let former = master(&cluster);
    cluster.crash(former);
    cluster.run_for(Duration::from_secs(20));
    let sender = cluster.alive().next().expect("three are there");
    let id = submit(&mut cluster, sender, 10);
    let all = |cluster: &Cluster<Mtp>| {
        let mut alive = cluster.alive();
        alive.all(|host| cluster.has_delivered(host, id))
    };
    cluster.must("the others have a web", all, MINUTE);
    cluster.check();
}

/// Three members without a network: what each says comes to the others at once.
struct Three {
    now: Time,
    members: [Mtp; 3],
    delivered: [Vec<Bytes>; 3],
}

fn id(index: usize) -> MemberId {
    MemberId {
        node: NodeId(index as u64 + 1),
        incarnation: Incarnation(index as u64 + 100),
    }
}

impl Three {
    /// The last of them is the master.
    fn new() -> Self {
        let now = Time::from_millis(1);
        let new = |index| {
            let rng = Rng::new(index as u64);
            let member = Mtp::new(id(index), MtpConfig::default(), rng, now);
            member.expect("the settings are in their ranges")
        };
        let mut three = Self {
            now,
            members: [0, 1, 2].map(new),
            delivered: Default::default(),
        };
        three.run(Duration::from_secs(5));
        assert!(three.members[2].is_master());
        three
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut buf = TransmitBuf::new(1, 0, 0);
        while self.now < end {
            for from in 0..3 {
                buf.clear();
                while let Some(transmit) = self.members[from].poll_transmit(self.now, &mut buf) {
                    let body = Bytes::copy_from_slice(buf.iter().next().expect("it has one"));
                    let to = (0..3).filter(|to| match transmit.destination {
                        Destination::Group => *to != from,
                        Destination::Member(member) => member == id(*to),
                    });
                    for to in to {
                        self.members[to].handle_datagram(self.now, id(from), body.clone());
                    }
                    buf.clear();
                }
            }
            self.now += Duration::from_millis(10);
            for (member, delivered) in self.members.iter_mut().zip(&mut self.delivered) {
                member.handle_timeout(self.now);
                while let Some(event) = member.poll_event() {
                    if let Event::Deliver(delivery) = event {
                        delivered.push(delivery.payload);
                    }
                }
            }
        }
    }
}

#[test]
fn no_datagram_of_a_member_stops_a_web() {
    const FAR: u64 = u64::MAX / 2 - 1;
    let statuses = |newest, bits| Statuses::of(newest, bits).expect("it is in range");
    let data = |statuses| {
        InWeb::Data(Data {
            statuses,
            message: FAR,
            packet: 0,
            ends: true,
            ends_window: true,
            again: false,
            number: 1,
            bytes: Bytes::from_static(b"x"),
        })
    };
    let far = statuses(FAR, 0);
    let grant = InWeb::Grant {
        request: 1,
        message: FAR,
    };
    for said in [
        // Near to what is under way: all of that is rejected, or so old that nobody tells of it.
        data(statuses(6, 0xaaa)),
        data(statuses(12, 0)),
        data(far),
        InWeb::Status(far),
        InWeb::Alive(far),
        grant,
    ] {
        for to in [0, 2] {
            let mut three = Three::new();
            let web = id(2).incarnation;
            let body = Message::Of(web, said.clone()).encode();
            let mut payloads = Vec::new();
            for round in 0..2 {
                for member in [0, 2] {
                    let payload = Bytes::from(std::vec![member as u8; round + 1]);
                    payloads.push(payload.clone());
                    let now = three.now;
                    let submitted = three.members[member].submit(now, Service::Unreliable, payload);
                    submitted.expect("there is room");
                    three.members[to].handle_datagram(now, id(1), body.clone());
                    three.run(Duration::from_secs(5));
                }
            }
            for delivered in &three.delivered {
                assert_eq!(*delivered, payloads, "{said:?} to {to}");
            }
        }
    }
}
