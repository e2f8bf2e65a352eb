//! Goal: while the token goes round with messages a member lets its host wake for the token alone,
//! and never when something would wait for that. Method: what each member says, every 20 µs.

use std::time::Duration;

use groupcast_core::{Service, SocketClass};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::Cluster;

use super::with_config;

const HOSTS: usize = 5;
const STEP: Duration = Duration::from_micros(20);

/// A ring with these settings.
fn formed(seed: u64, config: RingConfig) -> Cluster<Ring> {
    let mut cluster = with_config(HOSTS, seed, config);
    let limit = Duration::from_secs(2);
    cluster.must("one ring", Cluster::all_in_one_configuration, limit);
    cluster.run_for(Duration::from_millis(500));
    cluster
}

/// For how long each member dozes from now on; 0 if it does not.
fn dozing(cluster: &Cluster<Ring>) -> Vec<Duration> {
    let left = |host| {
        let until = cluster.node(host)?.dozes_until()?;
        Some(until - cluster.now())
    };
    (0..HOSTS)
        .map(|host| left(host).unwrap_or_default())
        .collect()
}

/// Every host sends `service` steadily for this many steps; how many times a host was seen dozing.
fn seen_dozing(cluster: &mut Cluster<Ring>, service: Service, steps: u32) -> usize {
    let mut seen = 0;
    for step in 0..steps {
        if step % 10 == 0 {
            for host in 0..HOSTS {
                cluster
                    .submit(host, service, vec![0; 1_000])
                    .expect("there is room");
            }
        }
        cluster.run_for(STEP);
        let left = dozing(cluster);
        let longest = left.iter().max().expect("there are hosts");
        let most = RingConfig::daemon().doze_max;
        assert!(*longest <= most, "longer than the setting: {longest:?}");
        seen += left.iter().filter(|left| !left.is_zero()).count();
    }
    seen
}

#[test]
fn with_messages_members_doze_for_no_longer_than_the_setting() {
    let mut cluster = formed(71, RingConfig::daemon());
    let seen = seen_dozing(&mut cluster, Service::Agreed, 1_000);
    assert!(seen > 1_000 * HOSTS / 4, "{seen}");
    cluster.run_for(Duration::from_millis(100));
    cluster.check();
}

#[test]
fn nobody_dozes_while_the_token_rests() {
    let mut cluster = formed(72, RingConfig::daemon());
    assert!(seen_dozing(&mut cluster, Service::Agreed, 50) > 0);
    cluster.run_for(Duration::from_millis(5));
    for _ in 0..5_000 {
        cluster.run_for(STEP);
        assert_eq!(dozing(&cluster), [Duration::ZERO; HOSTS]);
    }
}

/// How long it takes until a message beside steady traffic is delivered everywhere, in the mean.
fn latency(service: Service, config: RingConfig) -> Duration {
    const MESSAGES: u32 = 200;
    let mut cluster = formed(73, config);
    let mut total = Duration::ZERO;
    for number in 0..MESSAGES {
        seen_dozing(&mut cluster, Service::Agreed, 7 + number % 13);
        let at = cluster.now();
        let sender = number as usize % HOSTS;
        let id = cluster
            .submit(sender, service, "news")
            .expect("there is room");
        let there =
            |cluster: &Cluster<Ring>| (0..HOSTS).all(|host| cluster.has_delivered(host, id));
        while !there(&cluster) {
            cluster.run_for(STEP);
        }
        total += cluster.now() - at;
    }
    total / MESSAGES
}

#[test]
fn a_message_waits_for_a_rotation_more_at_most_because_members_doze() {
    for service in [Service::Agreed, Service::Safe] {
        let awake = RingConfig {
            doze_max: Duration::ZERO,
            ..RingConfig::daemon()
        };
        let (dozing, awake) = (
            latency(service, RingConfig::daemon()),
            latency(service, awake),
        );
        println!("{service}: {dozing:?} dozing, {awake:?} awake");
        assert!(
            dozing < awake + Duration::from_micros(250),
            "{service}: {dozing:?}, {awake:?}"
        );
    }
}

#[test]
fn members_doze_less_while_packets_are_missing() {
    let mut cluster = formed(74, RingConfig::daemon());
    cluster.drop_all(|info| info.to == 3 && info.class == SocketClass::Data && info.from != 2);
    let seen = seen_dozing(&mut cluster, Service::Agreed, 1_000);
    let clean = seen_dozing(
        &mut formed(74, RingConfig::daemon()),
        Service::Agreed,
        1_000,
    );
    assert!(seen < clean / 3, "{seen}, {clean} without loss");
}

#[test]
fn members_that_are_no_daemons_do_not_doze() {
    let mut cluster = formed(75, RingConfig::lan());
    assert_eq!(seen_dozing(&mut cluster, Service::Agreed, 1_000), 0);
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use groupcast_protocols::ring::Planted;

    use super::*;

    fn daemons(planted: Planted) -> RingConfig {
        RingConfig {
            planted: Some(planted),
            ..RingConfig::daemon()
        }
    }

    #[test]
    #[should_panic(expected = "longer than the setting")]
    fn a_deadline_that_is_forgotten_is_seen() {
        let mut cluster = formed(76, daemons(Planted::DozesOn));
        seen_dozing(&mut cluster, Service::Agreed, 1_000);
    }

    #[test]
    fn a_member_that_dozes_at_rest_misses_a_message_until_the_token_comes_by_itself() {
        let late = |config| {
            let mut cluster = formed(77, config);
            cluster.run_for(Duration::from_millis(5));
            let id = cluster
                .submit(3, Service::Agreed, "news")
                .expect("there is room");
            cluster.run_for(Duration::from_millis(1));
            (0..HOSTS).any(|host| !cluster.has_delivered(host, id))
        };
        assert!(!late(RingConfig::daemon()));
        assert!(late(daemons(Planted::DozesAtRest)));
    }
}
