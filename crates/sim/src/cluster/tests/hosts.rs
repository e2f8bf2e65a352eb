//! What hosts and their users promise: every cost once, in its place; nothing lost between a user
//! and a process.

use std::collections::VecDeque;
use std::time::Duration;

use groupcast_core::{Delivery, Service, Time};

use crate::cluster::{Cluster, ClusterConfig};
use crate::host::config::{
    BufferLimit, ClientConfig, Cost, Effect, HostConfig, Perturbation, Processors,
};
use crate::network::NetworkConfig;
use crate::sequencer::Sequencer;
use crate::world::{Offer, WorldNotice};

const SECOND: Duration = Duration::from_secs(1);

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A host on which everything costs something, and effects come after their costs.
fn dear() -> HostConfig {
    HostConfig {
        receive: Cost::nanos(3_000, 700, 2_048),
        send: Cost::nanos(2_000, 500, 1_024),
        submit: Cost::nanos(900, 100, 0),
        deliver: Cost::nanos(800, 200, 0),
        wait: micros(4),
        wake_up: micros(30),
        effect: Effect::End,
        ..HostConfig::default()
    }
}

/// A group in one configuration whose user is told of everything, at a moment at which no timeout
/// is due for 5 ms.
fn quiet(hosts: usize, host: HostConfig) -> Cluster<Sequencer> {
    let mut config = ClusterConfig::new(hosts, 7);
    config.host = host;
    config.network = NetworkConfig {
        // Links add next to nothing, so that times are the hosts'.
        bandwidth: 1_000_000_000_000,
        latency: micros(100),
        ..NetworkConfig::default()
    };
    let mut cluster = Cluster::started(config, move |member, rng, now| {
        Sequencer::new(hosts, member, rng, now)
    });
    cluster.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        SECOND,
    );
    cluster.world.told = Some(VecDeque::new());
    settle(&mut cluster);
    cluster
}

fn settle(cluster: &mut Cluster<Sequencer>) {
    cluster.must(
        "silence",
        |cluster| {
            let soon = cluster.now() + micros(5_000);
            let silent = |host: &crate::host::Host<Sequencer>| {
                !host.awake && !host.has_work() && host.timer.is_none_or(|timer| timer > soon)
            };
            cluster.world.hosts.iter().all(silent)
        },
        SECOND,
    );
}

/// Runs for `duration`; what was told, and when.
fn told(cluster: &mut Cluster<Sequencer>, duration: Duration) -> Vec<(Time, WorldNotice)> {
    let limit = cluster.now() + duration;
    let mut all = Vec::new();
    while cluster.world.step(limit) {
        let now = cluster.now();
        let news = cluster
            .world
            .told
            .iter_mut()
            .flat_map(|told| told.drain(..));
        all.extend(news.map(|news| (now, news)));
    }
    all
}

fn deliveries(told: &[(Time, WorldNotice)], at: usize) -> Vec<(Time, &Delivery)> {
    let mine = told.iter().filter_map(|(when, told)| match told {
        WorldNotice::Delivered { host, delivery } if *host == at => Some((*when, delivery)),
        _ => None,
    });
    mine.collect()
}

fn offer(cluster: &mut Cluster<Sequencer>, host: usize, len: usize) -> Offer {
    cluster
        .world
        .offer(host, Service::Agreed, vec![7; len].into())
}

const WAKING: Duration = micros(30 + 4);

/// From the moment at which the user of host 0, in the same process or whose message is there,
/// offers one until a datagram with 1,000 bytes of payload is handled at host 1.
fn to_the_other_process() -> Duration {
    // Prefix 24, channel 1, the sequencer's header 34, tag 16; one frame.
    let datagram = 1_000 + 75;
    let sent = micros(2) + Duration::from_nanos(500 + datagram);
    let received = micros(3) + Duration::from_nanos(700 + 2 * datagram);
    // 1,075 + 8 + 58 bytes at 1 Tbit/s, rounded up, on each of two links.
    let links = 2 * Duration::from_nanos(10) + micros(100);
    let submitted = micros(1);
    submitted + sent + links + WAKING + received
}

#[test]
fn a_latency_is_the_sum_of_all_costs_on_the_way() {
    let mut cluster = quiet(2, dear());
    let begun = cluster.now();
    assert_eq!(offer(&mut cluster, 0, 1_000), Offer::Taken);
    let told = told(&mut cluster, micros(4_000));
    let at_one = deliveries(&told, 1);
    assert_eq!(at_one.len(), 1);
    assert_eq!(at_one[0].0 - begun, to_the_other_process());
    let own = deliveries(&told, 0);
    assert_eq!(own[0].0 - begun, micros(1));
}

#[test]
fn clients_add_their_own_costs_and_the_daemon_pays_for_each() {
    let clients = ClientConfig {
        submit: Cost::per_call(micros(5)),
        deliver: Cost::per_call(micros(6)),
        wake_up: micros(25),
        receivers: 3,
        ..ClientConfig::default()
    };
    let host = HostConfig {
        clients: Some(clients),
        ..dear()
    };
    let mut cluster = quiet(2, host);
    let begun = cluster.now();
    let before = cluster.load(1).processor;
    offer(&mut cluster, 0, 1_000);
    let told = told(&mut cluster, micros(4_000));
    let written = 3 * micros(1);
    let expected = micros(5) + WAKING + to_the_other_process() + written + micros(25 + 6);
    let at_one = deliveries(&told, 1);
    assert_eq!(at_one.len(), 1, "measured once, however many receive it");
    assert_eq!(at_one[0].0 - begun, expected);
    // Clients with cores of their own do not burden the process.
    let received = micros(3) + Duration::from_nanos(700 + 2 * 1_075);
    let spent = cluster.load(1).processor - before;
    assert_eq!(spent, micros(4) + received + written);
}

#[test]
fn a_burst_is_handled_one_by_one_and_what_does_not_fit_is_dropped() {
    let burst = |bytes: usize| {
        let host = HostConfig {
            receive: Cost::per_call(micros(200)),
            data_buffer: BufferLimit::bytes(bytes),
            effect: Effect::End,
            ..HostConfig::free()
        };
        let mut cluster = quiet(2, host);
        let begun = cluster.now();
        (0..10).for_each(|_| assert_eq!(offer(&mut cluster, 0, 1_000), Offer::Taken));
        let told = told(&mut cluster, micros(4_000));
        let times: Vec<u64> = deliveries(&told, 1)
            .iter()
            .map(|(at, _)| (*at - begun).as_micros() as u64 - 100)
            .collect();
        (times, cluster.load(1).data)
    };
    let (times, load) = burst(1 << 20);
    let expected: Vec<u64> = (1..=10).map(|number| 200 * number).collect();
    assert_eq!(times, expected, "each waits for those before it");
    assert_eq!((load.datagrams_max, load.dropped), (9, 0));
    // The first is being received; three fit; the others are lost.
    let (times, load) = burst(3 * 1_075);
    assert_eq!(times, [200, 400, 600, 800]);
    assert_eq!((load.bytes_max, load.dropped), (3 * 1_075, 6));
}

#[test]
fn one_call_takes_what_was_sent_together() {
    let host = HostConfig {
        receive: Cost::nanos(100_000, 1_000, 0),
        receive_batch: 48,
        coalesces: true,
        effect: Effect::End,
        ..HostConfig::free()
    };
    let mut cluster = quiet(2, host);
    let before = cluster.load(1).processor;
    // The first keeps the process busy while the others arrive; the short one ends its batch.
    for len in [500, 800, 800, 300, 800] {
        offer(&mut cluster, 0, len);
    }
    let told = told(&mut cluster, micros(4_000));
    assert_eq!(deliveries(&told, 1).len(), 5);
    let spent = cluster.load(1).processor - before;
    assert_eq!(spent, 3 * micros(100) + 5 * micros(1));
}

#[test]
fn hosts_of_one_machine_wait_for_its_cores() {
    let last = |processors: [Processors; 3]| {
        let host = HostConfig {
            receive: Cost::per_call(micros(100)),
            effect: Effect::End,
            ..HostConfig::free()
        };
        let mut cluster = quiet(3, host.clone());
        for (index, processors) in processors.into_iter().enumerate() {
            let host = HostConfig {
                processors,
                ..host.clone()
            };
            cluster.set_host(index, host);
        }
        let begun = cluster.now();
        (0..4).for_each(|_| _ = offer(&mut cluster, 0, 10));
        let told = told(&mut cluster, micros(4_000));
        let ends = [1, 2].map(|host| deliveries(&told, host).last().map(|(at, _)| *at - begun));
        ends.into_iter().flatten().max().map(|end| end.as_micros())
    };
    let shared = |cores| Processors::Shared { machine: 1, cores };
    assert_eq!(last([Processors::Own; 3]), Some(100 + 400));
    assert_eq!(last([shared(2); 3]), Some(100 + 400));
    assert_eq!(last([shared(1); 3]), Some(100 + 800));
}

#[test]
fn copies_of_an_emulated_network_are_paid_by_the_sender() {
    let host = HostConfig {
        copy: Cost::nanos(0, 10_000, 0),
        ..HostConfig::free()
    };
    let mut cluster = quiet(5, host);
    let before: Vec<Duration> = (0..5).map(|host| cluster.load(host).processor).collect();
    offer(&mut cluster, 0, 10);
    let told = told(&mut cluster, micros(4_000));
    assert_eq!(deliveries(&told, 4).len(), 1);
    assert_eq!(cluster.load(0).processor - before[0], 4 * micros(10));
    assert_eq!(cluster.load(4).processor, before[4]);
}

#[test]
fn a_perturbed_process_sleeps_as_often_as_it_should_and_forgets_nothing() {
    let host = HostConfig {
        perturbation: Some(Perturbation {
            probability: 0.3,
            interval: Duration::from_millis(10),
        }),
        ..dear()
    };
    let mut cluster = quiet(2, dear());
    cluster.set_host(1, host);
    let mut delivered = 0;
    let mut late = 0;
    for _ in 0..2_000 {
        let begun = cluster.now();
        offer(&mut cluster, 0, 10);
        let told = told(&mut cluster, Duration::from_millis(10));
        delivered += deliveries(&told, 1).len();
        let at_once = |(at, _): &(Time, &Delivery)| *at - begun < micros(1_000);
        late += usize::from(!deliveries(&told, 1).iter().any(at_once));
    }
    let rest = told(&mut cluster, SECOND);
    assert_eq!(delivered + deliveries(&rest, 1).len(), 2_000);
    // 2,000 intervals, p = 0.3, four standard deviations.
    let sleeps = cluster.load(1).sleeps;
    assert!((520..780).contains(&sleeps), "{sleeps}");
    assert!((450..850).contains(&late), "{late}");
    assert_eq!(cluster.load(0).sleeps, 0);
}

#[test]
fn a_user_is_refused_when_too_much_waits_and_told_when_there_is_room() {
    let host = HostConfig {
        clients: Some(ClientConfig::default()),
        offered_max: 1_000,
        ..dear()
    };
    let mut cluster = quiet(2, host);
    cluster.pause(0);
    let outcomes: Vec<Offer> = (0..6).map(|_| offer(&mut cluster, 0, 300)).collect();
    let mut expected = vec![Offer::Taken; 4];
    expected.extend([Offer::Full; 2]);
    assert_eq!(outcomes, expected);
    assert!(told(&mut cluster, micros(1_000)).is_empty());
    cluster.resume(0);
    let told = told(&mut cluster, micros(4_000));
    let room = |told: &&(Time, WorldNotice)| matches!(told.1, WorldNotice::Room { host: 0 });
    assert_eq!(told.iter().filter(room).count(), 1);
    assert_eq!(deliveries(&told, 1).len(), 4);
    assert_eq!(cluster.load(0).offered_max, 1_200);
}

#[test]
fn messages_wait_while_the_protocol_has_no_room_and_keep_their_order() {
    let mut cluster = quiet(2, dear());
    // The sequencer takes 100 of a member before it has placed the first; host 1 is not the one who
    // places them.
    cluster.partition(&[&[0], &[1]]);
    for number in 0..130 {
        let payload = vec![number; 4];
        let offer = cluster.world.offer(1, Service::Agreed, payload.into());
        assert_eq!(offer, Offer::Taken);
    }
    let first = told(&mut cluster, SECOND);
    let accepted = |told: &[(Time, WorldNotice)]| {
        let accepts = |told: &&(Time, WorldNotice)| matches!(&told.1, WorldNotice::Accepted { host: 1, payload, .. } if payload.len() == 4);
        told.iter().filter(accepts).count()
    };
    assert_eq!(accepted(&first), 100);
    assert_eq!(cluster.world.hosts[1].offered.len(), 30);
    let waiting: Vec<u8> = cluster.world.hosts[1]
        .offered
        .iter()
        .map(|offered| offered.payload[0])
        .collect();
    assert_eq!(waiting, (100..130).collect::<Vec<u8>>());
}

#[test]
fn a_refusal_for_good_is_told_and_the_next_has_its_turn() {
    let mut cluster = quiet(2, dear());
    offer(&mut cluster, 0, 60_001);
    offer(&mut cluster, 0, 10);
    let told = told(&mut cluster, micros(4_000));
    let refused =
        |told: &&(Time, WorldNotice)| matches!(told.1, WorldNotice::Refused { host: 0, .. });
    assert_eq!(told.iter().filter(refused).count(), 1);
    assert_eq!(deliveries(&told, 1).len(), 1);
}

#[test]
fn what_waited_for_a_process_ends_with_it() {
    let host = HostConfig {
        clients: Some(ClientConfig {
            submit: Cost::per_call(micros(500)),
            ..ClientConfig::default()
        }),
        ..dear()
    };
    let mut cluster = quiet(2, host);
    (0..4).for_each(|_| assert_eq!(offer(&mut cluster, 1, 10), Offer::Taken));
    cluster.crash(1);
    assert_eq!(offer(&mut cluster, 1, 10), Offer::Down);
    cluster.start(1);
    let told = told(&mut cluster, Duration::from_millis(100));
    let accepts = |told: &&(Time, WorldNotice)| matches!(told.1, WorldNotice::Accepted { .. });
    assert_eq!(told.iter().filter(accepts).count(), 0);
    assert_eq!(cluster.world.hosts[1].offered_bytes, 0);
}
