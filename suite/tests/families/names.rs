//! Rings that joins make, over the datagrams of RMP.
//!
//! The swarm: some seeds of `groupcast_suite::names::swarm`, of which `cargo xtask swarm --protocol
//! names` runs as many as one likes.
//!
//! The measurement: how long a join takes to a name that is known and to one that is not, what a
//! ring costs in datagrams and who gets them, at 1,000 names over 20 rings. `docs/names.md` has the
//! table, which this test prints and holds.

use std::time::Duration;

use groupcast_core::Service;
use groupcast_protocols::rmp::RmpConfig;
use groupcast_session::ClientId;
use groupcast_session::names::Planted;
use groupcast_suite::AskTally;
use groupcast_suite::names::swarm::{engine, labelled, rmp, run_seed};
use groupcast_suite::names::{World, WorldConfig};

/// Seeds of a plain run.
const SEEDS: u64 = 12;
/// After the last fault all must be at rest within this time.
const REST: Duration = Duration::from_secs(20);

#[test]
fn over_real_packets_a_name_has_one_ring_and_none_is_left_behind() {
    let (mut stays, mut asked) = (0, AskTally::default());
    for seed in 0..SEEDS {
        let report = run_seed(seed, None);
        assert_eq!(report.violation, None, "seed {seed}");
        stays += report.stays;
        asked.merge(&report.asked);
    }
    // Enough happened. Requests for two answers need more seeds than these.
    assert!(stays > 50, "daemons joined rings {stays} times");
    let answered = [asked.first, asked.all, asked.handled];
    assert!(answered.iter().all(|it| *it > 2), "{asked:?}");
    assert!(asked.given > 25 && asked.held > 40, "{asked:?}");
}

#[test]
fn over_real_packets_a_planted_bug_is_seen() {
    let bug = Planted::RingStays;
    let seen = (0..20).any(|seed| run_seed(seed, Some(bug)).violation.is_some());
    assert!(seen, "{bug:?}");
}

/// A world of daemons, which have met.
fn world((hosts, rings): (usize, usize), of: RmpConfig, seed: u64) -> World {
    let settings = labelled(of);
    let mut world = World::new(WorldConfig {
        hosts,
        rings,
        seed,
        engine: engine(),
        own: rmp(settings.clone()),
        ring: rmp(settings),
        planted: None,
    });
    for host in 0..hosts {
        world.start(host);
    }
    let together = |world: &World| {
        (0..hosts).all(|host| world.engine(host, |it| it.status().daemons.len()) == Some(hosts))
    };
    assert!(
        world.run_until(REST, together),
        "seed {seed}: they do not meet"
    );
    world
}

/// What a join took, and what it cost the daemons' own order and rings in datagrams.
#[derive(Default)]
struct Row {
    joins: u32,
    /// Until its daemon knew of the ring.
    agreed: Duration,
    took: Duration,
    longest: Duration,
    own: u64,
    rings: u64,
}

const HOSTS: usize = 8;
const RINGS: usize = 20;
const NAMES_A_RING: usize = 50;
/// It is in no ring.
const OUTSIDER: usize = HOSTS - 1;

impl Row {
    /// A client joins a name, and sees its first view.
    fn join(&mut self, world: &mut World, (host, id): (usize, ClientId), name: &str, asks: bool) {
        let traffic = |world: &World| {
            let all = (0..HOSTS).map(|host| world.traffic(host).map(|it| it.datagrams));
            all.fold([0; 2], |[own, rings], it| [own + it[0], rings + it[1]])
        };
        let (begun, before) = (world.cluster.now(), traffic(world));
        world.act(host, id, |client| {
            let connection = client.connection();
            let asked = match asks {
                true => connection.join_on_ring(name, false),
                false => connection.join(name, false),
            };
            asked.expect("the name is good");
        });
        let knows = |world: &World| {
            let ring = world.engine(host, |engine| engine.ring_of(name).is_some());
            ring.unwrap_or(false)
        };
        assert!(
            world.run_until(REST, knows),
            "nobody makes a ring for {name}"
        );
        self.agreed += world.cluster.now() - begun;
        let is_in = |world: &World| world.sees(host, id, |client| client.view(name).is_some());
        assert!(world.run_until(REST, is_in), "{name} at h{host}");
        let after = traffic(world);
        let took = world.cluster.now() - begun;
        self.joins += 1;
        self.took += took;
        self.longest = self.longest.max(took);
        self.own += after[0] - before[0];
        self.rings += after[1] - before[1];
    }

    fn print(&self, what: &str) {
        let joins = f64::from(self.joins);
        println!(
            "{what}: {} joins, {:.1} ms in the mean ({:.1} until the ring is known), {:.1} ms at most; \
             meanwhile {:.1} datagrams of the own order came to all hosts, and {:.1} of rings",
            self.joins,
            self.took.as_secs_f64() * 1e3 / joins,
            self.agreed.as_secs_f64() * 1e3 / joins,
            self.longest.as_secs_f64() * 1e3,
            self.own as f64 / joins,
            self.rings as f64 / joins,
        );
    }
}

/// Eight hosts on a LAN, of which one is in all of 20 rings, one in none, and the others in a third
/// each; 50 names on every ring.
#[test]
fn a_thousand_names_over_twenty_rings() {
    let mut world = world((HOSTS, RINGS), RmpConfig::daemon(), 1);
    let clients: Vec<(usize, ClientId)> = (0..HOSTS)
        .map(|host| {
            let id = world
                .connect(host, &format!("c{host}"))
                .expect("there is room");
            (host, id)
        })
        .collect();
    world.run_for(Duration::from_secs(1));
    let [mut unknown, mut known, mut there] = [Row::default(), Row::default(), Row::default()];
    for ring in 0..RINGS {
        let top = format!("r{ring}.top");
        let others = [1 + ring % 6, 1 + (ring + 1) % 6];
        unknown.join(&mut world, clients[0], &top, true);
        // Others learn of it, and join names on it.
        for host in others {
            known.join(&mut world, clients[host], &format!("n{host}.{top}"), false);
        }
        for name in 3..NAMES_A_RING {
            let host = [0, others[0], others[1]][name % 3];
            there.join(&mut world, clients[host], &format!("m{name}.{top}"), false);
        }
    }
    unknown.print("to a name that no ring has, which is made");
    known.print("to a name of a ring that its daemon is not in");
    there.print("to a name of a ring that its daemon is in");
    assert_eq!(unknown.joins + known.joins + there.joins, 1_000);
    assert_eq!(world.rings_of(0), RINGS);

    // At rest, then a message to each ring.
    let before: Vec<_> = (0..HOSTS).map(|host| world.traffic(host)).collect();
    world.run_for(Duration::from_secs(10));
    let idle: Vec<_> = (0..HOSTS).map(|host| world.traffic(host)).collect();
    for ring in 0..RINGS {
        world.act(clients[0].0, clients[0].1, |client| {
            let connection = client.connection();
            let name = format!("r{ring}.top");
            let published = connection.publish(&[&name], Service::Agreed, &[0; 1_000]);
            published.expect("there is credit");
        });
    }
    world.run_for(Duration::from_secs(1));
    for host in [0, 1, OUTSIDER] {
        let [own, rings] = world.traffic(host);
        println!(
            "h{host}: in {} rings; at rest {} datagrams in 10 s of the own order and {} of rings; in all {} and {}",
            world.rings_of(host),
            idle[host][0].datagrams - before[host][0].datagrams,
            idle[host][1].datagrams - before[host][1].datagrams,
            own.datagrams,
            rings.datagrams
        );
    }
    assert_eq!(world.rings_of(OUTSIDER), 0);
    assert_eq!(world.traffic(OUTSIDER)[1].datagrams, 0, "packets of rings");
    assert_eq!(world.cluster.violations(false, None), []);
    // Nobody joins a ring for another's sake.
    for host in 1..OUTSIDER {
        let is_in = |ring: &usize| [1 + ring % 6, 1 + (ring + 1) % 6].contains(&host);
        let rings = (0..RINGS).filter(is_in).count();
        assert_eq!(world.rings_of(host), rings, "h{host}");
    }
}
