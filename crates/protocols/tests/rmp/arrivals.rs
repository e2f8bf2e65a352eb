//! Goal: members of one configuration that hear each other go on together, whoever comes. Method:
//! newcomers that start at one moment, or soon after each other, beside members under load.

use std::time::Duration;

use groupcast_core::{ConfigurationKind, Service};
use groupcast_protocols::rmp::{FAMILY, Rmp, RmpConfig};
use groupcast_sim::host::config::Effect;
use groupcast_sim::{Cluster, ClusterConfig};

/// Who comes to a group, and how the network and the hosts are.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    old: usize,
    newcomers: usize,
    /// Between the starts of two newcomers.
    apart: Duration,
    /// One way.
    latency: Duration,
    /// Whether processes run some milliseconds after something came for them.
    busy: bool,
}

impl Arrival {
    fn cluster(self, preset: fn() -> RmpConfig, seed: u64) -> Cluster<Rmp> {
        let build = move |member, rng, now| {
            Rmp::new(preset(), member, rng, now).expect("the settings are valid")
        };
        let mut config = ClusterConfig {
            contract: FAMILY.contract,
            ..ClusterConfig::new(self.old + self.newcomers, seed)
        };
        config.network.latency = self.latency;
        config.network.jitter = self.latency / 2;
        if self.busy {
            config.host.effect = Effect::End;
            config.host.wake_up = Duration::from_micros(40);
            config.host.wake_up_jitter = Duration::from_millis(4);
        }
        Cluster::new(config, build)
    }

    /// The old members send 500 messages a second.
    fn load(self, cluster: &mut Cluster<Rmp>, duration: Duration) {
        for step in 0..duration.as_millis() as usize / 2 {
            let payload = vec![step as u8; 100];
            // Where a reformation takes long, the queue fills: that is no matter here.
            let _ = cluster.submit(step % self.old, Service::Agreed, payload);
            cluster.run_for(Duration::from_millis(2));
        }
    }

    /// No old member is ever in a regular configuration without the others, and all come together.
    fn must_keep_the_old_together(self, preset: fn() -> RmpConfig, seed: u64) {
        let mut cluster = self.cluster(preset, seed);
        let limit = Duration::from_secs(10);
        let together = Cluster::all_in_one_configuration;
        for host in 0..self.old {
            cluster.start(host);
        }
        cluster.must("the old ones formed", together, limit);
        let old: Vec<_> = (0..self.old)
            .filter_map(|host| cluster.member(host))
            .collect();
        let formed = cluster.configurations(0).len();
        self.load(&mut cluster, Duration::from_millis(300 + seed % 50));
        for host in self.old..self.old + self.newcomers {
            cluster.start(host);
            self.load(&mut cluster, self.apart);
        }
        self.load(&mut cluster, Duration::from_secs(1));
        cluster.must("all in one configuration", together, limit);
        for configuration in &cluster.configurations(0)[formed..] {
            let whole = old.iter().all(|it| configuration.members.contains(it));
            let regular = configuration.kind == ConfigurationKind::Regular;
            assert!(
                whole || !regular,
                "{self:?}, seed {seed}: {configuration:?}"
            );
        }
        cluster.check();
    }
}

/// Runs both presets on a fast and a slow network, with hosts at rest and busy ones.
fn everywhere(old: usize, newcomers: usize, apart: Duration, seeds: u64) {
    for latency in [Duration::from_micros(50), Duration::from_millis(1)] {
        for busy in [false, true] {
            let arrival = Arrival {
                old,
                newcomers,
                apart,
                latency,
                busy,
            };
            for seed in 0..seeds {
                arrival.must_keep_the_old_together(RmpConfig::lan, seed);
                arrival.must_keep_the_old_together(RmpConfig::wan, seed);
            }
        }
    }
}

/// Once each of the newcomers drew one of two members away, in more than half of the runs.
#[test]
fn members_under_load_stay_together_when_two_newcomers_start_at_one_moment() {
    everywhere(2, 2, Duration::ZERO, 6);
}

#[test]
fn members_under_load_stay_together_when_newcomers_start_soon_after_each_other() {
    for apart in [4, 60] {
        everywhere(2, 2, Duration::from_millis(apart), 3);
    }
}

#[test]
fn four_members_under_load_stay_together_when_three_newcomers_start_at_one_moment() {
    everywhere(4, 3, Duration::ZERO, 3);
}

/// A process that comes alone is let in by a list (000 ch. 8, Fig. 9): the others do not reform.
#[test]
fn newcomers_that_start_apart_are_let_in_by_a_list_each() {
    let arrival = Arrival {
        old: 3,
        newcomers: 2,
        apart: Duration::from_millis(100),
        latency: Duration::from_micros(50),
        busy: false,
    };
    for seed in 0..5 {
        let mut cluster = arrival.cluster(RmpConfig::lan, seed);
        for host in 0..arrival.old {
            cluster.start(host);
        }
        let together = Cluster::all_in_one_configuration;
        cluster.must("the old ones formed", together, Duration::from_secs(10));
        let transitions = |cluster: &Cluster<Rmp>, host| {
            let member = cluster.protocol(host).expect("it runs");
            member.status().counters.transitions
        };
        let before: Vec<u64> = (0..3).map(|host| transitions(&cluster, host)).collect();
        for host in 3..5 {
            cluster.start(host);
            arrival.load(&mut cluster, arrival.apart);
        }
        assert!(cluster.all_in_one_configuration(), "seed {seed}");
        let after: Vec<u64> = (0..3).map(|host| transitions(&cluster, host)).collect();
        assert_eq!(after, before, "seed {seed}");
        cluster.check();
    }
}
