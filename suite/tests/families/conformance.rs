//! What every host may rely on with every family: goal and method are in each test's name and body.
//! Each runs for every family of the registry in every variant, with the settings that tests use.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::event::Event;
use groupcast_core::family::{Family, Variant};
use groupcast_core::{
    Contract, Incarnation, Instrumented, MemberId, MessageId, NodeId, Rng, Service, SocketClass,
    SubmitError, Time, TransmitBuf,
};
use groupcast_protocols::registry::FAMILIES;
use groupcast_sim::{Cluster, ClusterConfig};

const HOSTS: usize = 4;
const MINUTE: Duration = Duration::from_secs(60);

/// Calls `test` for each family and variant.
fn for_all(test: impl Fn(&'static Family, &'static Variant)) {
    for family in FAMILIES {
        for variant in family.variants {
            println!("{} {}", family.name, variant.name);
            test(family, variant);
        }
    }
}

/// A started group whose members have heard each other.
fn group(family: &Family, variant: &Variant, seed: u64) -> Cluster<Box<dyn Instrumented>> {
    let config = ClusterConfig {
        contract: family.contract,
        ..ClusterConfig::new(HOSTS, seed)
    };
    let mut cluster = Cluster::started(config, variant.build);
    cluster.run_for(Duration::from_secs(3));
    for host in 0..HOSTS {
        // Of a protocol without traffic of its own, a node admits a peer when it hears its first
        // message.
        cluster.submit(host, family.service, "hello").unwrap();
    }
    cluster.run_for(Duration::from_secs(2));
    cluster
}

/// Three messages of each host with each service of the family.
fn talk(
    family: &Family,
    cluster: &mut Cluster<Box<dyn Instrumented>>,
) -> Vec<(Service, MessageId)> {
    let mut sent = Vec::new();
    for round in 0..3 {
        for host in 0..HOSTS {
            for service in family.services {
                let payload = Bytes::from(vec![round; 700]);
                sent.push((*service, cluster.submit(host, *service, payload).unwrap()));
            }
        }
        cluster.run_for(Duration::from_millis(20));
    }
    sent
}

/// A member alone, which a test drives by hand.
struct Alone {
    member: Box<dyn Instrumented>,
    now: Time,
    events: Vec<Event>,
    /// What it sent, with the socket of its receiver.
    sent: Vec<(SocketClass, Bytes)>,
}

impl Alone {
    fn new(variant: &Variant) -> Self {
        let local = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        Self {
            member: (variant.build)(local, Rng::new(1), Time::ZERO),
            now: Time::ZERO,
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Lets time pass, with every timer on time, until `done` or for a minute at most; whether it
    /// was done.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + MINUTE;
        let mut buf = TransmitBuf::new(16, 0, 0);
        loop {
            buf.clear();
            while let Some(transmit) = self.member.poll_transmit(self.now, &mut buf) {
                let segments = buf.iter().map(Bytes::copy_from_slice);
                self.sent
                    .extend(segments.map(|body| (transmit.class, body)));
                buf.clear();
            }
            while let Some(event) = self.member.poll_event() {
                self.events.push(event);
            }
            if done(self) {
                return true;
            }
            match self.member.poll_timeout() {
                Some(due) if due <= end => self.now = self.now.max(due),
                _ => return false,
            }
            self.member.handle_timeout(self.now);
        }
    }
}

#[test]
fn on_a_quiet_network_all_messages_reach_all_hosts_and_the_judge_agrees() {
    for_all(|family, variant| {
        let mut cluster = group(family, variant, 1);
        let sent = talk(family, &mut cluster);
        cluster.must(
            "everything is delivered everywhere",
            |cluster| {
                let mut all = (0..HOSTS).flat_map(|host| sent.iter().map(move |it| (host, it)));
                all.all(|(host, (_, id))| cluster.has_delivered(host, *id))
            },
            MINUTE,
        );
        cluster.check();
    });
}

#[test]
fn under_loss_every_message_with_a_promise_is_delivered_or_reported_everywhere() {
    for_all(|family, variant| {
        if family.contract == Contract::Unreliable {
            return;
        }
        let mut cluster = group(family, variant, 2);
        cluster.set_loss(0.05);
        let mut sent = talk(family, &mut cluster);
        sent.retain(|(service, _)| *service != Service::Unreliable);
        cluster.must(
            "everything is delivered or, with gaps, reported everywhere",
            |cluster| {
                let mut all = (0..HOSTS).flat_map(|host| sent.iter().map(move |it| (host, it)));
                all.all(|(host, (_, id))| match family.contract {
                    Contract::Gapped => cluster.has_accounted_for(host, *id),
                    _ => cluster.has_delivered(host, *id),
                })
            },
            MINUTE,
        );
        cluster.check();
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for_all(|family, variant| {
        let run = |seed| {
            let mut cluster = group(family, variant, seed);
            cluster.set_loss(0.1);
            talk(family, &mut cluster);
            cluster.run_for(Duration::from_secs(2));
            cluster.trace_hash()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    });
}

#[test]
fn who_leaves_is_gone_and_the_others_go_on() {
    for_all(|family, variant| {
        let mut cluster = group(family, variant, 5);
        cluster.leave(1);
        let gone = |cluster: &Cluster<_>| !cluster.is_alive(1);
        cluster.must("the leave is complete", gone, MINUTE);
        let id = cluster.submit(0, family.service, "after").unwrap();
        let others = |cluster: &Cluster<_>| {
            let mut others = [0, 2, 3].into_iter();
            others.all(|host| cluster.has_delivered(host, id))
        };
        cluster.must("the others have a message of after it", others, MINUTE);
        cluster.check();
    });
}

#[test]
fn a_member_that_leaves_accepts_nothing_more_and_ends_its_events_with_that() {
    for_all(|family, variant| {
        let mut alone = Alone::new(variant);
        let early = alone
            .member
            .submit(alone.now, family.service, "early".into());
        alone.member.leave(alone.now);
        let late = alone
            .member
            .submit(alone.now, family.service, "late".into());
        assert_eq!(late, Err(SubmitError::Leaving));
        assert!(alone.run_until(|alone| alone.events.contains(&Event::Left)));
        assert_eq!(alone.events.last(), Some(&Event::Left));
        let delivers = |event: &Event| match event {
            Event::Deliver(delivery) => Some(delivery.id) == early.ok(),
            _ => false,
        };
        assert!(alone.events.iter().any(delivers), "{:?}", alone.events);
        assert_eq!(alone.member.poll_timeout(), None);
    });
}

#[test]
fn other_services_and_endless_messages_are_refused() {
    let endless = Bytes::from(vec![0; 256 << 20]);
    for_all(|family, variant| {
        let mut alone = Alone::new(variant);
        assert!(family.carries(family.service));
        for service in Service::ALL.into_iter().chain([Service::Bimodal]) {
            let result = alone.member.submit(alone.now, service, "short".into());
            match family.carries(service) {
                true => assert!(result.is_ok(), "{service}: {result:?}"),
                false => assert_eq!(result, Err(SubmitError::Unsupported { service })),
            }
        }
        let result = alone
            .member
            .submit(alone.now, family.service, endless.clone());
        assert!(
            matches!(result, Err(SubmitError::TooLarge { .. })),
            "{result:?}"
        );
    });
}

#[test]
fn a_full_queue_refuses_and_says_when_there_is_room_again() {
    for_all(|family, variant| {
        let payload = Bytes::from(vec![0; family.trial.len_max]);
        let mut alone = Alone::new(variant);
        let refused = (0..100_000).find_map(|_| {
            let result = alone
                .member
                .submit(alone.now, family.service, payload.clone());
            result.err()
        });
        assert!(
            matches!(refused, Some(SubmitError::Full { .. })),
            "{refused:?}"
        );
        assert!(alone.run_until(|alone| alone.events.contains(&Event::Writable)));
        let result = alone
            .member
            .submit(alone.now, family.service, payload.clone());
        assert!(result.is_ok(), "{result:?}");
    });
}

#[test]
fn a_family_reads_all_that_its_members_send_and_survives_whatever_others_do() {
    for_all(|family, variant| {
        let mut alone = Alone::new(variant);
        let submitted = alone
            .member
            .submit(alone.now, family.service, "a message".into());
        assert!(submitted.is_ok());
        // Whatever is sent periodically is sent by then.
        let begun = alone.now;
        alone.run_until(|alone| alone.now - begun > Duration::from_secs(10));
        assert!(!alone.sent.is_empty());
        for (class, body) in alone.sent.clone() {
            let inspected = (family.inspect)(class, &body, &mut |_| {});
            assert_ne!(inspected.kind, "junk", "{body:?}");
            for len in 0..body.len() {
                (family.inspect)(class, &body[..len], &mut |_| {});
                let stranger = MemberId {
                    node: NodeId(2),
                    incarnation: Incarnation(2),
                };
                let part = body.slice(..len);
                alone.member.handle_datagram(alone.now, stranger, part);
            }
        }
        alone.run_until(|_| false);
    });
}
