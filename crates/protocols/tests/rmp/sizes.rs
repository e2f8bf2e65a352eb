//! Goal: packets are as long as the ways of all members carry, and no longer; soon after the member
//! is gone whose way carries least, they are as long as those of the others do.
//! Method: one host's way carries less than those of the others, and loses what is longer; it
//! leaves, is killed and comes back while all send long messages.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use groupcast_core::{MemberId, Service};
use groupcast_protocols::rmp::{FAMILY, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig, Status};

const HOSTS: usize = 5;
/// The host whose way carries less.
const NARROW: usize = HOSTS - 1;
const LEAST: usize = 1_381;
const MOST: usize = 9_000;
/// Within this packets are as long as they may be.
const SOON: Duration = Duration::from_secs(1);

/// The lists that packets were sent under which were too long for the narrow way: their versions.
type TooLong = Arc<Mutex<Vec<u8>>>;

fn narrow(cluster: &mut Cluster<Rmp>, loss: f64) -> TooLong {
    let too_long = TooLong::default();
    let seen = too_long.clone();
    cluster.drop_all(move |it| {
        let is = it.to == NARROW && it.body().len() > LEAST;
        if is && it.body()[0] == 33 {
            seen.lock()
                .expect("nothing fails here")
                .push(it.body()[1] >> 2);
        }
        is
    });
    cluster.set_loss(loss);
    too_long
}

fn formed(seed: u64, loss: f64) -> (Cluster<Rmp>, TooLong) {
    let build = |member: MemberId, rng, now| {
        let is_narrow = member.node.0 == HOSTS as u64;
        let config = RmpConfig {
            body_max: if is_narrow { LEAST } else { MOST },
            ..RmpConfig::lan()
        };
        Rmp::new(config, member, rng, now).expect("the settings are valid")
    };
    let judged = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(HOSTS, seed)
    };
    let mut cluster = Cluster::started(judged, build);
    let too_long = narrow(&mut cluster, loss);
    super::come_together(&mut cluster, Duration::from_secs(5));
    (cluster, too_long)
}

/// All send for `duration`.
fn load(cluster: &mut Cluster<Rmp>, duration: Duration) {
    for step in 0..duration.as_millis() / 10 {
        for host in 0..HOSTS {
            if cluster.status(host) == Status::Up {
                // Refused where too much waits, or it leaves.
                let _ = cluster.submit(host, Service::Agreed, vec![step as u8; 12_000]);
            }
        }
        cluster.run_for(Duration::from_millis(10));
        if cluster.is_alive(NARROW) {
            let narrow = cluster.member(NARROW);
            for host in 0..HOSTS {
                let with = cluster.current_configuration(host);
                let with = with.is_some_and(|it| it.members.iter().any(|it| Some(*it) == narrow));
                assert!(!with || body_max(cluster, host) <= LEAST, "host {host}");
            }
        }
    }
}

fn body_max(cluster: &Cluster<Rmp>, host: usize) -> usize {
    let rmp = cluster.protocol(host).expect("it was started");
    rmp.status().body_max
}

fn all_have(cluster: &Cluster<Rmp>, most: usize) -> bool {
    let mut alive = cluster.alive();
    alive.all(|host| body_max(cluster, host) == most)
}

/// Whom each host names as the one that keeps its datagrams small.
fn narrowest(cluster: &Cluster<Rmp>) -> Vec<Option<MemberId>> {
    let hosts = cluster.alive();
    let told = hosts.map(|host| cluster.protocol(host).expect("it is up").status().narrowest);
    told.collect()
}

#[test]
fn the_others_tell_whose_way_keeps_packets_short_as_long_as_it_is_there() {
    let (mut cluster, _) = formed(1, 0.0);
    let narrow = cluster.member(NARROW);
    assert_eq!(
        narrowest(&cluster),
        [narrow, narrow, narrow, narrow, None],
        "its own datagrams are as long as they may be"
    );
    cluster.leave(NARROW);
    cluster.must("it is gone", |it| !it.is_alive(NARROW), SOON);
    super::come_together(&mut cluster, SOON);
    assert_eq!(narrowest(&cluster), [None; 4], "before packets are longer");
    cluster.must("packets are long", |it| all_have(it, MOST), SOON);
    assert_eq!(narrowest(&cluster), [None; 4]);
}

/// How many times one of the first three hosts polled.
fn polls(cluster: &Cluster<Rmp>) -> usize {
    let transitions = cluster.transitions().iter();
    let polls = transitions.filter(|it| it.host < 3 && it.transition.to == "polling");
    polls.count()
}

#[test]
fn packets_are_long_soon_after_the_member_has_left_whose_way_carries_least() {
    for (seed, loss) in [(1, 0.0), (3, 0.02)] {
        let (mut cluster, too_long) = formed(seed, loss);
        load(&mut cluster, Duration::from_millis(200));
        assert!(all_have(&cluster, LEAST));
        assert!(too_long.lock().expect("nothing fails here").is_empty());
        let polled = polls(&cluster);
        cluster.leave(NARROW);
        load(&mut cluster, Duration::from_millis(100));
        cluster.must("it is gone", |it| !it.is_alive(NARROW), SOON);
        cluster.must("packets are long", |it| all_have(it, MOST), SOON);
        load(&mut cluster, Duration::from_millis(200));
        assert_eq!(polls(&cluster), polled, "seed {seed}: the others went on");
        // It was in the configuration before the first list.
        let too_long = too_long.lock().expect("nothing fails here");
        assert!(too_long.iter().all(|version| *version > 0), "seed {seed}");
        cluster.run_for(SOON);
        cluster.check_at_rest();
    }
}

/// A reformation asks its members what their ways carry, so this held before lists told it, too;
/// the tests before and behind this one fail without that. This one fails where a new configuration
/// takes over the length of the one before.
#[test]
fn packets_are_long_soon_after_that_member_is_killed_and_short_when_it_is_back() {
    for (seed, loss) in [(1, 0.0), (2, 0.02)] {
        let (mut cluster, _) = formed(seed, loss);
        load(&mut cluster, Duration::from_millis(100));
        cluster.crash(NARROW);
        load(&mut cluster, Duration::from_millis(100));
        cluster.must("packets are long", |it| all_have(it, MOST), SOON);
        load(&mut cluster, Duration::from_millis(100));
        cluster.restart(NARROW);
        load(&mut cluster, SOON);
        super::come_together(&mut cluster, SOON);
        assert!(all_have(&cluster, LEAST), "seed {seed}");
        load(&mut cluster, Duration::from_millis(100));
        cluster.run_for(SOON);
        cluster.check_at_rest();
    }
}

/// A member that a list let in makes lists, too.
#[test]
fn a_newcomer_knows_what_the_ways_of_the_others_carry() {
    let build = |member: MemberId, rng, now| {
        let sizes = [MOST, 2_000, LEAST, MOST, 3_000];
        let config = RmpConfig {
            body_max: sizes[member.node.0 as usize - 1],
            ..RmpConfig::lan()
        };
        Rmp::new(config, member, rng, now).expect("the settings are valid")
    };
    let judged = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(HOSTS, 1)
    };
    let mut cluster = Cluster::new(judged, build);
    super::start(&mut cluster, 0..3);
    let polled = polls(&cluster);
    for host in [3, 4] {
        cluster.start(host);
        super::come_together(&mut cluster, SOON);
    }
    assert!(all_have(&cluster, LEAST));
    for (leaver, most) in [(0, LEAST), (2, 2_000), (1, 3_000)] {
        cluster.leave(leaver);
        cluster.must("it is gone", |it| !it.is_alive(leaver), SOON);
        cluster.must("as long as may be", |it| all_have(it, most), SOON);
    }
    assert_eq!(polls(&cluster), polled, "by lists");
    cluster.check();
}
