//! SRM as a whole, in the simulator.

use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

use groupcast_check::Contract;
use groupcast_core::{Incarnation, NodeId};
use groupcast_sim::swarm::{Swarm, SwarmConfig};
use groupcast_sim::{Cluster, ClusterConfig};

use super::wire::{Session, SessionNumber};
use super::*;

mod claims;
mod late;
mod listener;

fn session(size: usize, seed: u64, config: SrmConfig) -> Cluster<Srm> {
    let cluster = ClusterConfig {
        contract: Contract::Gapped,
        ..ClusterConfig::new(size, seed)
    };
    let mut cluster = Cluster::started(cluster, move |member, rng, now| {
        Srm::new(config.clone(), member, rng, now).expect("valid")
    });
    // Until distances are measured.
    cluster.run_for(Duration::from_secs(4));
    cluster
}

fn submit(cluster: &mut Cluster<Srm>, host: usize, service: Service, count: usize) {
    for _ in 0..count {
        let accepted = cluster.submit(host, service, "some bytes");
        accepted.expect("the queue has room");
        cluster.run_for(Duration::from_millis(10));
    }
}

fn total(cluster: &Cluster<Srm>, of: fn(&Counters) -> u64) -> u64 {
    let members = (0..cluster.hosts()).filter_map(|host| cluster.protocol(host));
    members.map(|srm| of(&srm.counters)).sum()
}

/// Numbers of `sender`'s messages as `host` delivered them.
fn numbers(cluster: &Cluster<Srm>, host: usize, sender: usize) -> Vec<u64> {
    let sender = cluster.member(sender);
    let deliveries = cluster.deliveries(host).iter();
    deliveries
        .filter(|delivery| Some(delivery.id.sender) == sender)
        .map(|delivery| delivery.id.number)
        .collect()
}

#[test]
fn everybody_delivers_everything_whatever_is_lost_and_however_timers_are_set() {
    for timing in [Timing::LogGroup, Timing::SqrtGroup, Timing::Adaptive] {
        for service in [Service::Reliable, Service::Fifo] {
            let config = SrmConfig {
                timing,
                ..SrmConfig::lan()
            };
            let mut cluster = session(6, 1, config);
            cluster.set_loss(0.15);
            submit(&mut cluster, 0, service, 100);
            submit(&mut cluster, 4, service, 100);
            cluster.run_for(Duration::from_secs(20));
            for host in 0..6 {
                for sender in [0, 4] {
                    let mut delivered = numbers(&cluster, host, sender);
                    if service == Service::Reliable {
                        delivered.sort_unstable();
                    }
                    let all: Vec<u64> = (1..=100).collect();
                    assert_eq!(delivered, all, "{timing:?} {service} at {host}");
                }
                assert_eq!(cluster.gaps(host), []);
            }
            let violations = cluster.violations(true, None);
            assert!(violations.is_empty(), "{violations:?}");
        }
    }
}

#[test]
fn distances_are_measured_and_members_counted() {
    let cluster = session(5, 2, SrmConfig::ns2());
    let srm = cluster.protocol(0).expect("it runs");
    assert_eq!(srm.group(), 5);
    for other in 1..5 {
        let distance = srm.distance(cluster.member(other).expect("it runs"));
        let range = Duration::from_micros(100)..Duration::from_millis(1);
        assert!(range.contains(&distance), "{distance:?}");
    }
}

/// Floyd et al.: a loss near the source ideally triggers one request and one repair.
#[test]
fn a_message_that_all_missed_is_asked_for_by_few_and_repaired_by_few() {
    let config = SrmConfig {
        timing: Timing::SqrtGroup,
        ..SrmConfig::lan()
    };
    let mut cluster = session(40, 3, config);
    submit(&mut cluster, 0, Service::Reliable, 1);
    cluster.drop_all(|datagram| datagram.from == 0 && datagram.class == SocketClass::Data);
    submit(&mut cluster, 0, Service::Reliable, 1);
    cluster.heal();
    submit(&mut cluster, 0, Service::Reliable, 1);
    cluster.run_for(Duration::from_secs(2));
    let requests = total(&cluster, |counters| counters.requests_sent);
    let repairs = total(&cluster, |counters| counters.repairs_sent);
    assert!((1..=20).contains(&requests), "{requests} of 39 ask");
    assert!((1..=4).contains(&repairs), "{repairs} answer");
    assert!((0..40).all(|host| numbers(&cluster, host, 0).len() == 3));
}

#[test]
fn the_loss_of_the_last_message_is_found_by_session_messages() {
    let mut cluster = session(3, 4, SrmConfig::lan());
    cluster.drop_all(|datagram| datagram.from == 0 && datagram.class == SocketClass::Data);
    submit(&mut cluster, 0, Service::Fifo, 1);
    cluster.heal();
    assert!(numbers(&cluster, 1, 0).is_empty());
    cluster.run_for(Duration::from_secs(3));
    assert!((0..3).all(|host| numbers(&cluster, host, 0) == [1]));
}

#[test]
fn messages_that_nobody_keeps_are_made_again_by_the_application() {
    struct Same;
    impl Archive for Same {
        fn regenerate(&mut self, _id: MessageId) -> Option<(Service, Bytes)> {
            Some((Service::Fifo, Bytes::from_static(b"some bytes")))
        }
    }
    let config = SrmConfig {
        store_max: 0,
        ..SrmConfig::lan()
    };
    let host = ClusterConfig {
        contract: Contract::Gapped,
        ..ClusterConfig::new(4, 5)
    };
    let mut cluster = Cluster::started(host, move |member, rng, now| {
        Srm::with_archive(config.clone(), member, rng, now, Box::new(Same)).expect("valid")
    });
    cluster.run_for(Duration::from_secs(4));
    cluster.set_loss(0.2);
    submit(&mut cluster, 0, Service::Fifo, 100);
    cluster.run_for(Duration::from_secs(20));
    let all: Vec<u64> = (1..=100).collect();
    assert!((0..4).all(|host| numbers(&cluster, host, 0) == all));
    assert!((0..4).all(|host| {
        cluster
            .protocol(host)
            .is_some_and(|srm| srm.store.len() == 0)
    }));
    // The judge compares digests: what is made again is what was submitted.
    cluster.check();
}

#[test]
fn a_message_for_which_nobody_answers_is_reported_once_and_the_later_ones_go_on() {
    let config = SrmConfig {
        store_max: 0,
        timing: Timing::LogGroup,
        ..SrmConfig::lan()
    };
    let mut cluster = session(3, 6, config);
    submit(&mut cluster, 0, Service::Fifo, 2);
    let mut lost = 0;
    cluster.drop_all(move |datagram| {
        let is_lost = datagram.to == 2 && datagram.class == SocketClass::Data && lost < 2;
        lost += u32::from(is_lost);
        is_lost
    });
    submit(&mut cluster, 0, Service::Fifo, 3);
    assert_eq!(numbers(&cluster, 2, 0), [1, 2]);
    cluster.run_for(Duration::from_secs(10));
    assert_eq!(numbers(&cluster, 2, 0), [1, 2, 5]);
    let sender = cluster.member(0).expect("it runs");
    let gap = groupcast_core::Gap {
        sender,
        first: 3,
        last: 4,
    };
    assert_eq!(cluster.gaps(2), [gap]);
    let violations = cluster.violations(true, None);
    assert!(violations.is_empty(), "{violations:?}");
}

#[test]
fn who_comes_late_gets_what_was_said_of_late() {
    let config = SrmConfig {
        catch_up_max: 30,
        ..SrmConfig::lan()
    };
    let mut cluster = session(4, 7, config);
    cluster.crash(3);
    submit(&mut cluster, 0, Service::Fifo, 100);
    cluster.start(3);
    cluster.run_for(Duration::from_secs(5));
    let expected: Vec<u64> = (71..=100).collect();
    assert_eq!(numbers(&cluster, 3, 0), expected);
    cluster.check();
}

#[test]
fn who_leaves_has_sent_all_and_told_of_it() {
    let mut cluster = session(3, 8, SrmConfig::lan());
    for _ in 0..50 {
        cluster
            .submit(0, Service::Fifo, "bytes")
            .expect("there is room");
    }
    cluster.leave(0);
    cluster.run_for(Duration::from_secs(2));
    assert_eq!(cluster.status(0), groupcast_sim::Status::Left);
    let all: Vec<u64> = (1..=50).collect();
    assert_eq!(numbers(&cluster, 1, 0), all);
    assert_eq!(numbers(&cluster, 2, 0), all);
    cluster.check();
}

fn member(node: u64) -> MemberId {
    MemberId {
        node: NodeId(node),
        incarnation: Incarnation(node),
    }
}

fn drain(srm: &mut Srm, now: Time) -> usize {
    let (mut buf, mut segments) = (TransmitBuf::new(16, 0, 0), 0);
    while srm.poll_transmit(now, &mut buf).is_some() {
        segments += buf.segments();
        buf.clear();
    }
    segments
}

#[test]
fn claims_of_what_does_not_exist_cost_bounded_memory_and_time() {
    let config = SrmConfig {
        window_max: 1_000,
        requests_max: 100,
        sources_max: 20,
        members_max: 20,
        ..SrmConfig::lan()
    };
    let mut srm = Srm::new(config, member(1), Rng::new(1), Time::ZERO).expect("valid");
    for node in 2..200 {
        let session = Session {
            number: SessionNumber(1),
            highest: u64::MAX - node,
            states: (2..60).map(|other| (member(other), u64::MAX - 1)).collect(),
            ..Session::default()
        };
        srm.handle_datagram(Time::ZERO, member(node), session.encode().into());
    }
    assert_eq!((srm.streams.len(), srm.group()), (20, 21));
    assert_eq!(srm.recovery.room(&srm.config), 0);
    let mut now = Time::ZERO;
    for _ in 0..2_000 {
        now = srm
            .poll_timeout()
            .expect("there is always a session")
            .max(now);
        srm.handle_timeout(now);
        drain(&mut srm, now);
        assert!(srm.control.is_empty());
        while srm.poll_event().is_some() {}
    }
}

#[test]
fn a_flood_of_requests_is_answered_once_a_hold() {
    let mut srm = Srm::new(SrmConfig::lan(), member(1), Rng::new(1), Time::ZERO).expect("valid");
    let payload = Bytes::from(alloc::vec![7; 8_000]);
    let id = srm
        .submit(Time::ZERO, Service::Reliable, payload)
        .expect("the queue is empty");
    drain(&mut srm, Time::ZERO);
    let request = Bytes::from(wire::request(id, Duration::ZERO));
    let (mut now, mut answers) = (Time::ZERO, 0);
    // A second of 10,000 requests.
    for _ in 0..10_000 {
        now += Duration::from_micros(100);
        srm.handle_datagram(now, member(2), request.clone());
        if srm.poll_timeout().is_some_and(|due| due <= now) {
            srm.handle_timeout(now);
        }
        answers += drain(&mut srm, now);
    }
    // Its distance is taken for 10 ms: a hold of 30 ms and a wait before each answer.
    assert!((2..=33).contains(&answers), "{answers} answers");
}

fn swarm() -> Swarm<Srm> {
    let config = SwarmConfig {
        contract: Contract::Gapped,
        services: Some([Service::Reliable, Service::Fifo].to_vec()),
        len_max: 4_000,
        messages: 200,
        duration: Duration::from_secs(40),
        progress_within: Duration::from_secs(60),
        // Until nobody asks any more for what died with its sender.
        rest: Duration::from_secs(300),
        ..SwarmConfig::default()
    };
    Swarm::new(config, |scenario| {
        let mut rng = Rng::new(scenario.seed).fork("srm");
        let timings = [Timing::LogGroup, Timing::SqrtGroup, Timing::Adaptive];
        let config = SrmConfig {
            timing: *rng.pick(&timings).expect("there are three"),
            request_interval_max: Duration::from_secs(2),
            catch_up_max: *rng.pick(&[0, 20, 256]).expect("there are three"),
            store_max: *rng.pick(&[10_000, 16 << 20]).expect("there are two"),
            ..SrmConfig::lan()
        };
        Arc::new(move |member, rng, now| Srm::new(config.clone(), member, rng, now).expect("valid"))
    })
}

/// Random faults, judged: FIFO, gaps reported once and before what follows them, nothing invented;
/// and progress.
#[test]
fn a_swarm_of_faults_breaks_no_promise() {
    let report = swarm().run_range(0..60, 2, false, &|_| ());
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|it| (it.seed, it.violations.first()))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(report.accepted > 9_000, "{} accepted", report.accepted);
}

#[test]
fn a_source_whose_stream_gave_way_goes_on_where_it_was() {
    let config = SrmConfig {
        sources_max: 1,
        source_timeout: Duration::from_secs(10),
        ..SrmConfig::lan()
    };
    let mut srm = Srm::new(config, member(1), Rng::new(1), Time::ZERO).expect("valid");
    let mut hear = |second: u64, from, number| {
        let mut bytes = wire::data_header(Service::Fifo, number);
        bytes.push(7);
        srm.handle_datagram(
            Time::from_millis(second * 1_000),
            member(from),
            bytes.into(),
        );
        let events = core::iter::from_fn(|| srm.poll_event());
        let told = events.map(|event| match event {
            Event::Deliver(delivery) => (delivery.id.number, delivery.id.number),
            Event::Gap(gap) => (gap.first, gap.last),
            other => panic!("{other:?}"),
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(hear(0, 2, 1), [(1, 1)]);
    assert_eq!(hear(1, 2, 3), []);
    // Another takes its place: what it has not repaired by now is given up, and what waited is
    // delivered.
    assert_eq!(hear(20, 3, 1), [(2, 2), (3, 3), (1, 1)]);
    assert_eq!(hear(40, 2, 3), []);
    assert_eq!(hear(40, 2, 4), [(4, 4)]);
}

#[test]
fn messages_that_wait_are_bounded_in_bytes() {
    let config = SrmConfig {
        held_max: 100_000,
        ..SrmConfig::lan()
    };
    let mut srm = Srm::new(config, member(1), Rng::new(1), Time::ZERO).expect("valid");
    let mut told = Vec::new();
    // Of each ten messages the first is lost.
    for number in (1..=1_000).filter(|number| number % 10 != 1) {
        let mut bytes = wire::data_header(Service::Fifo, number);
        bytes.resize(4_000, 7);
        srm.handle_datagram(Time::ZERO, member(2), bytes.into());
        let held: usize = srm.streams.values().map(Stream::held_bytes).sum();
        assert!(held <= 100_000, "{held} bytes wait");
        told.extend(core::iter::from_fn(|| srm.poll_event()));
    }
    let numbers = told.iter().map(|event| match event {
        Event::Deliver(delivery) => delivery.id.number..=delivery.id.number,
        Event::Gap(gap) => gap.first..=gap.last,
        other => panic!("{other:?}"),
    });
    let numbers: Vec<u64> = numbers.flatten().collect();
    assert!(numbers.len() > 900 && numbers.iter().copied().eq(1..=numbers.len() as u64));
}
