//! Goal: a group lives with several ways that are closed at once, with loss and without: few
//! configurations, and it is whole soon after they are open again. Method: random ways between five
//! hosts are closed for a minute or more, in which all send; both orders.

use std::time::Duration;

use groupcast_core::{ConfigurationKind, Family, Instrumented, Rng, Service, Time};
use groupcast_protocols::{ring, rmp};
use groupcast_sim::{Cluster, ClusterConfig};

const HOSTS: usize = 5;
/// How long a group may take to find out how to live with the fault.
const SETTLING: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
/// The most configurations that a member installs in a minute then.
const CONFIGURATIONS_MAX: usize = 6;
/// Within which time all are together after the end.
const HEALING_MAX: Duration = Duration::from_secs(8);
/// What is lost where something is.
const LOSS: f64 = 0.02;

type Group = Cluster<Box<dyn Instrumented>>;
/// From which host to which nothing passes.
type Ways = Vec<(usize, usize)>;

/// This many random ways between two hosts each.
fn random_ways(count: usize, seed: u64) -> Ways {
    let mut rng = Rng::new(seed).fork("closed ways");
    let mut ways: Ways = (0..HOSTS)
        .flat_map(|from| (0..HOSTS).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect();
    while ways.len() > count {
        ways.swap_remove(rng.below(ways.len() as u64) as usize);
    }
    ways
}

/// The largest groups of hosts that all hear each other.
fn hearing(ways: &Ways) -> Vec<Vec<usize>> {
    let apart = |a: usize, b: usize| ways.contains(&(a, b)) || ways.contains(&(b, a));
    let of = |bits: u32| -> Vec<usize> { (0..HOSTS).filter(|it| bits >> it & 1 == 1).collect() };
    let hear = |set: &Vec<usize>| set.iter().all(|a| set.iter().all(|b| !apart(*a, *b)));
    let sets: Vec<_> = (1..1 << HOSTS).map(of).filter(hear).collect();
    let most = sets.iter().map(Vec::len).max().unwrap_or(0);
    sets.into_iter().filter(|it| it.len() == most).collect()
}

/// What came of a run.
#[derive(Debug)]
struct Outcome {
    /// The most regular configurations that a host installed in one of the minutes.
    most: usize,
    /// The longest time in which one host delivered nothing of another: among those of a largest
    /// group that hears each other, the one in which it is shortest.
    silence: Duration,
    /// How many members configurations had, on average over hosts and time.
    members: f64,
    /// How long it took until all were together after the end.
    healed: Duration,
}

/// Who delivered what of whom, and when last.
struct Heard {
    seen: [usize; HOSTS],
    last: [[Time; HOSTS]; HOSTS],
    longest: [[Duration; HOSTS]; HOSTS],
    members: usize,
    looks: usize,
}

impl Heard {
    fn new(group: &Group) -> Self {
        Self {
            seen: std::array::from_fn(|host| group.deliveries(host).len()),
            last: [[group.now(); HOSTS]; HOSTS],
            longest: [[Duration::ZERO; HOSTS]; HOSTS],
            members: 0,
            looks: 0,
        }
    }

    fn look(&mut self, group: &Group) {
        let now = group.now();
        for host in 0..HOSTS {
            let deliveries = group.deliveries(host);
            for delivery in &deliveries[self.seen[host]..] {
                let of = (0..HOSTS).find(|it| group.member(*it) == Some(delivery.id.sender));
                self.last[host][of.expect("nobody else sends")] = now;
            }
            self.seen[host] = deliveries.len();
            for (longest, last) in self.longest[host].iter_mut().zip(self.last[host]) {
                *longest = (*longest).max(now.since(last));
            }
            let members = group.current_configuration(host).map(|it| it.members.len());
            self.members += members.unwrap_or(0);
            self.looks += 1;
        }
    }

    fn silence(&self, among: &[usize]) -> Duration {
        let of = |host: &usize| among.iter().map(|from| self.longest[*host][*from]).max();
        among.iter().filter_map(of).max().unwrap_or_default()
    }
}

fn regular(group: &Group) -> [usize; HOSTS] {
    let is_regular = |it: &&groupcast_core::Configuration| it.kind == ConfigurationKind::Regular;
    std::array::from_fn(|host| group.configurations(host).iter().filter(is_regular).count())
}

/// Every host sends some twenty messages a second, until `end`.
fn converse(group: &mut Group, rng: &mut Rng, end: Time, mut heard: Option<&mut Heard>) {
    while group.now() < end {
        for host in 0..group.hosts() {
            // Behind a fault queues may be full.
            let _ = group.submit(host, Service::Agreed, "a few words");
            group.run_for(rng.duration(Duration::ZERO, Duration::from_millis(80)));
        }
        if let Some(heard) = &mut heard {
            heard.look(group);
        }
    }
}

fn run(family: &'static Family, ways: &Ways, loss: f64, seed: u64, minutes: u32) -> Outcome {
    let config = ClusterConfig {
        contract: family.contract,
        ..ClusterConfig::new(HOSTS, seed)
    };
    let mut group = Cluster::started(config, family.variants[0].build);
    let one = Cluster::all_in_one_configuration;
    group.must("one configuration", one, Duration::from_secs(5));
    group.set_loss(loss);
    ways.iter().for_each(|(from, to)| group.block(*from, *to));
    let mut rng = Rng::new(seed).fork("talk");
    let settled = group.now() + SETTLING;
    converse(&mut group, &mut rng, settled, None);
    let (mut heard, mut most) = (Heard::new(&group), 0);
    for _ in 0..minutes {
        let (before, end) = (regular(&group), group.now() + MINUTE);
        converse(&mut group, &mut rng, end, Some(&mut heard));
        let installed = regular(&group).into_iter().zip(before);
        most = most.max(
            installed
                .map(|(after, before)| after - before)
                .max()
                .unwrap_or(0),
        );
    }
    let silence = hearing(ways).iter().map(|set| heard.silence(set)).min();
    group.heal();
    let end = group.now();
    group.must("one configuration", one, MINUTE);
    let healed = group.now() - end;
    group.set_loss(0.0);
    group.run_for(Duration::from_secs(2));
    group.check();
    Outcome {
        most,
        silence: silence.unwrap_or_default(),
        members: heard.members as f64 / heard.looks as f64,
        healed,
    }
}

/// A minute with these ways closed, without loss and with it, holds the bars.
fn hold(family: &'static Family, ways: &Ways, seed: u64) -> Vec<Outcome> {
    let outcome = |loss| {
        let outcome = run(family, ways, loss, seed, 1);
        let Outcome { most, healed, .. } = outcome;
        println!(
            "{} seed {seed}, {loss} lost, {ways:?}: {outcome:?}",
            family.name
        );
        assert!(most <= CONFIGURATIONS_MAX, "{most} configurations");
        assert!(healed <= HEALING_MAX, "one configuration after {healed:?}");
        outcome
    };
    [0.0, LOSS].map(outcome).into()
}

/// The same with this many random ways.
fn lives(family: &'static Family, count: usize, seeds: &[u64]) -> Vec<Outcome> {
    let of = |seed: &u64| hold(family, &random_ways(count, *seed), *seed);
    seeds.iter().flat_map(of).collect()
}

/// The first member that would send a token on is not heard by the one that it is for (19), or does
/// not hear the one that passes it (0, 7): another one does. With loss a declaration that only one
/// member could tell, and a member that went to and fro between two groups (19), broke groups over
/// and over. All go on in one configuration.
#[test]
fn rmp_lives_with_three_closed_ways_in_one_group() {
    for count in [2, 3] {
        for outcome in lives(&rmp::FAMILY, count, &[0, 7, 19]) {
            let whole = outcome.members > 4.9 && outcome.silence < Duration::from_secs(3);
            assert!(whole, "{count} ways: {outcome:?}");
        }
    }
}

/// Where so many ways are closed that no group of all lasts, those that are left out are tried
/// seldom. They came and went up to 32 times a minute.
#[test]
fn rmp_lives_with_five_closed_ways() {
    lives(&rmp::FAMILY, 5, &[1, 3, 4, 6, 9]);
}

/// A ring has only members that all hear each other, or nearly. Those that are left out came and
/// went up to 23 times a minute; and one that was alone waited for the end of its own quarantines
/// when the others had ended theirs (two ways, seed 1: 17 s).
#[test]
fn rings_live_with_several_closed_ways() {
    lives(&ring::FAMILY, 2, &[1, 9, 18]);
    lives(&ring::FAMILY, 3, &[1, 9, 17, 18]);
    lives(&ring::FAMILY, 5, &[6, 11, 18]);
}

/// Members that do not get on took each other's place in turn, up to eleven times a minute, while
/// each one's quarantine grew by itself. And two rings stayed apart for 17 s, each of a member that
/// took a third one's word against the other ring, which the third one was in by then (three ways,
/// seed 141).
#[test]
fn who_makes_way_for_others_in_a_ring_is_not_back_before_they_would_be() {
    lives(&ring::FAMILY, 3, &[115, 141, 152]);
    lives(&ring::FAMILY, 5, &[122, 207, 235, 250, 265, 287]);
}

/// Each host is closed to the next one in the list: no token pass arrives by itself. With loss
/// such a group changed up to 21 times a minute. And a host that only one of the others hears: 8
/// times in the first.
#[test]
fn rmp_lives_where_every_token_is_sent_on_and_where_one_host_is_heard_by_one_alone() {
    let circle: Ways = (0..HOSTS).map(|it| (it, (it + 1) % HOSTS)).collect();
    let muted: Ways = (1..4).map(|it| (0, it)).collect();
    for seed in 1_000..1_003 {
        hold(&rmp::FAMILY, &circle, seed);
        hold(&rmp::FAMILY, &muted, seed);
    }
}

/// How long it takes until all are together when one way was closed for a quarter of a minute and
/// opens at the moment when the host `gone` is gone for good.
fn healed_without(
    family: &'static Family,
    hosts: usize,
    (from, to): (usize, usize),
    gone: usize,
    leaves: bool,
) -> Duration {
    let config = ClusterConfig {
        contract: family.contract,
        ..ClusterConfig::new(hosts, 7)
    };
    let mut group = Cluster::started(config, family.variants[0].build);
    let one = Cluster::all_in_one_configuration;
    group.must("one configuration", one, Duration::from_secs(5));
    group.block(from, to);
    let (mut rng, end) = (Rng::new(7), group.now() + Duration::from_secs(15));
    converse(&mut group, &mut rng, end, None);
    if leaves {
        group.leave(gone);
    } else {
        group.crash(gone);
    }
    group.heal();
    let end = group.now();
    group.must("one configuration", one, MINUTE);
    let healed = group.now() - end;
    group.run_for(Duration::from_secs(1));
    group.check();
    healed
}

/// A member that saw nothing wrong itself took another one's word that a third one could not be
/// reached. When that one was gone, it kept the third one out for as long as its quarantine lasted;
/// so did the third one, which had heard no join that gave it up, and had taken the others for
/// silent (up to 19 s in groups of three).
#[test]
fn who_was_left_out_on_the_word_of_a_member_that_is_gone_is_back_soon() {
    for family in [&ring::FAMILY, &rmp::FAMILY] {
        for hosts in [3, 4] {
            let ways = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
            for way in ways.filter(|(from, to)| from != to) {
                for (gone, leaves) in [way.0, way.1].map(|it| [(it, false), (it, true)]).concat() {
                    let healed = healed_without(family, hosts, way, gone, leaves);
                    let what = (family.name, hosts, way, gone, leaves);
                    println!("{what:?}: {healed:?}");
                    assert!(healed <= HEALING_MAX, "{what:?}: {healed:?}");
                }
            }
        }
    }
}

/// The table of docs/adr/0050: 20 seeds each, three minutes. Prints it, and the seeds that miss a
/// bar.
#[test]
#[ignore = "a measurement of some minutes"]
fn how_both_orders_live_with_closed_ways() {
    for family in [&rmp::FAMILY, &ring::FAMILY] {
        for (count, loss) in [1, 2, 3, 5]
            .into_iter()
            .flat_map(|it| [(it, 0.0), (it, LOSS)])
        {
            let outcome = |seed| run(family, &random_ways(count, seed), loss, seed, 3);
            let outcomes: Vec<(u64, Outcome)> = (0..20).map(|it| (it, outcome(it))).collect();
            let mut most: Vec<usize> = outcomes.iter().map(|(_, it)| it.most).collect();
            most.sort_unstable();
            let members: f64 = outcomes.iter().map(|(_, it)| it.members).sum();
            let silence = outcomes.iter().map(|(_, it)| it.silence).max();
            let healed = outcomes.iter().map(|(_, it)| it.healed).max();
            println!(
                "{} {count} {loss}: median {} worst {} members {:.2} silence {silence:?} healed {healed:?}",
                family.name,
                most[most.len() / 2],
                most[most.len() - 1],
                members / outcomes.len() as f64
            );
            let missed =
                |it: &&(u64, Outcome)| it.1.most > CONFIGURATIONS_MAX || it.1.healed > HEALING_MAX;
            for (seed, outcome) in outcomes.iter().filter(missed) {
                println!("  seed {seed}: {outcome:?}");
            }
        }
    }
}
