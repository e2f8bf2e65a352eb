//! A scenario: everything that follows from a seed before the world begins.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use groupcast_core::family::Moment;
use groupcast_core::{Rng, Service, Time};

use super::SwarmConfig;
use super::fault::{Fault, FaultKind};
use super::lasting::Lasting;
use super::long;
use crate::host::config::{BufferLimit, Cost, Effect, HostConfig};
use crate::network::NetworkConfig;

/// A group, its network, its load and its faults.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Of everything random.
    pub seed: u64,
    /// How many hosts.
    pub hosts: usize,
    /// How long the faults last. The healing comes after.
    pub duration: Duration,
    /// What the network is like, all the time.
    pub network: NetworkConfig,
    /// What the hosts are like.
    pub host: HostConfig,
    /// Whether there is multicast.
    pub multicast: bool,
    /// The hosts that have none, where there is.
    pub without_multicast: BTreeSet<usize>,
    /// How wrong each host's clock is from the start, in parts per million.
    pub clocks: Vec<i64>,
    /// When each host starts.
    pub starts: Vec<Time>,
    /// Whether nothing goes wrong but what the network does.
    pub calm: bool,
    /// What goes wrong, by the time of its beginning.
    pub faults: Vec<Fault>,
    /// What is submitted, by time.
    pub load: Vec<Submission>,
    /// Clients that send their next message when they have their last.
    pub loops: Vec<ClosedLoop>,
    /// What goes wrong and lasts, once all have recovered from the faults.
    pub lasting: Option<Lasting>,
    /// Within which time there must be progress after everything healed, and between those that
    /// hear each other while a fault lasts.
    pub progress_within: Duration,
}

/// A client that sends its next message when it has its last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedLoop {
    /// When it begins.
    pub at: Time,
    /// Where. If no process runs there, it ends.
    pub host: usize,
    /// How many messages it sends.
    pub messages: u32,
    /// How long each is, in bytes.
    pub len: usize,
}

/// A message to be submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// When the message is submitted.
    pub at: Time,
    /// Where, or at the next host that runs then.
    pub host: usize,
    /// With what promise.
    pub service: Service,
    /// Its length in bytes.
    pub len: usize,
}

impl Scenario {
    /// The scenario of `seed`.
    pub fn new(config: &SwarmConfig, seed: u64) -> Self {
        let rng = Rng::new(seed).fork("scenario");
        let mut shape = rng.fork("shape");
        let hosts = shape.range(config.hosts_min as u64..config.hosts_max as u64 + 1) as usize;
        let multicast = shape.chance(0.85);
        let without_multicast = match multicast {
            true => random_without(config, hosts, &mut rng.fork("without multicast")),
            false => BTreeSet::new(),
        };
        let copies = !multicast || !without_multicast.is_empty();
        let clocks = random_clocks(hosts, &mut rng.fork("clocks"));
        let starts = random_starts(hosts, &mut rng.fork("starts"));
        let long = rng.fork("is long").chance(config.long);
        let calm = rng.fork("calm").chance(config.calm);
        let config = &match long {
            true => SwarmConfig {
                duration: long::FACTOR * config.duration,
                messages: long::FACTOR as usize * config.messages,
                ..config.clone()
            },
            false => config.clone(),
        };
        let mut faults = match calm {
            true => Vec::new(),
            false => random_faults(config, hosts, &mut rng.fork("faults")),
        };
        if long && !calm {
            let more = long::random_faults(hosts, config.duration, &mut rng.fork("long"));
            faults.extend(more);
            faults.sort_by_key(|fault| fault.at);
        }
        let load = random_load(config, hosts, &faults, &mut rng.fork("load"));
        let mut later = rng.fork("lasting");
        let lasting = later.chance(config.lasting) && !calm;
        Self {
            seed,
            hosts,
            duration: config.duration,
            network: random_network(config, copies, &mut rng.fork("network")),
            host: random_host(hosts, &mut rng.fork("host")),
            multicast,
            without_multicast,
            clocks,
            starts,
            calm,
            faults,
            load,
            loops: random_loops(config, hosts, &mut rng.fork("loops")),
            lasting: lasting.then(|| Lasting::random(hosts, &mut later)),
            progress_within: config.progress_within,
        }
    }
}

/// Half of the groups have good clocks; the clocks of the others are up to a tenth wrong.
fn random_clocks(hosts: usize, rng: &mut Rng) -> Vec<i64> {
    let worst = if rng.chance(0.5) { 1_000 } else { 100_000 };
    (0..hosts)
        .map(|_| rng.below(2 * worst + 1) as i64 - worst as i64)
        .collect()
}

/// In most groups all hosts start at about the same time; in the others one host comes late.
fn random_starts(hosts: usize, rng: &mut Rng) -> Vec<Time> {
    let late = rng.chance(0.3);
    (0..hosts)
        .map(|_| match late && rng.chance(0.5) {
            true => Time::from_millis(rng.below(20_000)),
            false => Time::from_nanos(rng.below(500_000_000)),
        })
        .collect()
}

/// Hosts without multicast: at least one, and not all.
fn random_without(config: &SwarmConfig, hosts: usize, rng: &mut Rng) -> BTreeSet<usize> {
    if !rng.chance(config.without_multicast) {
        return BTreeSet::new();
    }
    let count = 1 + rng.below(hosts as u64 - 1) as usize;
    let mut all: Vec<usize> = (0..hosts).collect();
    all.sort_by_cached_key(|_| rng.next_u64());
    all.into_iter().take(count).collect()
}

/// In a third of the networks hosts are milliseconds apart, so that faults hit the short moments in
/// which a configuration forms; in half of them what is reordered may come after the next
/// configuration has formed. Where a datagram leaves in copies, to each, the network is no slower
/// than 100 Mbit/s: below, a round of nine hosts takes longer than any LAN's time-out for a token.
fn random_network(config: &SwarmConfig, copies: bool, rng: &mut Rng) -> NetworkConfig {
    let far = if rng.fork("far").chance(0.3) {
        4_000
    } else {
        500
    };
    let late = if rng.fork("late").chance(0.5) { 100 } else { 5 };
    let mut sometimes = |odds: f64, most: f64| match rng.chance(odds) {
        true => rng.unit() * most,
        false => 0.0,
    };
    let loss = sometimes(0.6, 0.05) + sometimes(0.2, 0.15);
    let duplication = sometimes(0.3, 0.05);
    let reordering = sometimes(0.3, 0.05);
    let corruption = sometimes(0.2, 0.01);
    let jitter_max = config.jitter_max.as_nanos() as f64;
    let jitter = Duration::from_nanos(sometimes(0.5, jitter_max) as u64);
    let slowest = if copies { 100 } else { 20 };
    let bandwidths = [slowest, 100, 1_000, 1_000, 10_000];
    NetworkConfig {
        bandwidth: 1_000_000 * rng.pick(&bandwidths).copied().unwrap_or(1_000),
        latency: rng.duration(Duration::from_micros(10), Duration::from_micros(far)),
        jitter,
        egress_queue: 128 << 10,
        send_patience: Duration::from_millis(50),
        ingress_queue: (64 << 10) << rng.below(4),
        loss,
        duplication,
        reordering,
        reordering_delay: rng.duration(Duration::from_micros(100), Duration::from_millis(late)),
        corruption,
    }
}

/// In a fifth of the groups the process sleeps between datagrams, and takes long to wake up: all
/// together up to 30 ms, which is about what a rotation of the token then takes.
fn random_host(hosts: usize, rng: &mut Rng) -> HostConfig {
    let mut sleep = rng.fork("sleep");
    let sleeps = sleep.chance(0.2);
    let longest = (30_000 / hosts as u64).min(6_000);
    let wake_up = Duration::from_micros(if sleeps { sleep.range(50..longest) } else { 0 });
    HostConfig {
        effect: if sleeps { Effect::End } else { Effect::Begin },
        wake_up,
        wake_up_jitter: wake_up / 4,
        receive: Cost::per_call(Duration::from_micros(rng.range(1..20))),
        send: Cost::per_call(Duration::from_micros(1)),
        data_buffer: BufferLimit::datagrams(128 << rng.below(5)),
        token_buffer: BufferLimit::datagrams(32 << rng.below(4)),
        segments_max: 1 << rng.below(6),
        ..HostConfig::default()
    }
}

/// Single faults, and now and then a series.
fn random_faults(config: &SwarmConfig, hosts: usize, rng: &mut Rng) -> Vec<Fault> {
    let end = (config.duration.as_millis() as u64)
        .saturating_sub(3_000)
        .max(1_001);
    let mut faults = random_singles(config, hosts, end, rng);
    faults.extend(random_series(config, hosts, end, &mut rng.fork("series")));
    faults.sort_by_key(|fault| fault.at);
    faults
}

/// More than half of the faults come soon after the one before, and in one of eight scenarios twice
/// as many come in one storm: many bugs show only where two faults overlap.
fn random_singles(config: &SwarmConfig, hosts: usize, end: u64, rng: &mut Rng) -> Vec<Fault> {
    let kinds: Vec<FaultKind> = FaultKind::ALL
        .into_iter()
        .filter(|kind| *kind != FaultKind::Restart)
        .collect();
    let storm = rng.fork("storm").chance(0.125);
    let count =
        rng.range(config.faults_min as u64..config.faults_max as u64 + 1) << u32::from(storm);
    let mut faults: Vec<Fault> = Vec::new();
    for _ in 0..count {
        let at = match faults.last() {
            Some(last) if storm || rng.chance(0.6) => {
                let begun = if rng.chance(0.3) { last.until } else { None };
                begun.unwrap_or(last.at) + rng.duration(Duration::ZERO, Duration::from_millis(700))
            }
            _ => Time::from_nanos(rng.range(1_000..end) * 1_000_000 + rng.below(1_000_000)),
        };
        let kind = rng.pick(&kinds).copied().unwrap_or(FaultKind::Crash);
        let mut fault = Fault::random(kind, at, hosts, rng);
        fault.moment = random_moment(config, &mut rng.fork("moment"));
        faults.push(fault);
    }
    faults
}

/// A third of the faults wait for a moment of the protocol, if it has any.
fn random_moment(config: &SwarmConfig, rng: &mut Rng) -> Option<Moment> {
    let waits = rng.chance(0.3);
    rng.pick(config.moments).copied().filter(|_| waits)
}

/// Now and then faults come in a series: a way that closes and opens again and again, or all hosts
/// that are started anew one after the other.
fn random_series(config: &SwarmConfig, hosts: usize, end: u64, rng: &mut Rng) -> Vec<Fault> {
    if config.faults_max == 0 || !rng.chance(0.15) {
        return Vec::new();
    }
    let at = Time::from_millis(rng.range(1_000..end));
    match rng.chance(0.5) {
        true => Fault::flapping(at, hosts, rng),
        false => Fault::rolling(at, hosts, rng),
    }
}

/// In a third of the scenarios there is a client or two that send as soon as they can.
fn random_loops(config: &SwarmConfig, hosts: usize, rng: &mut Rng) -> Vec<ClosedLoop> {
    let count = if rng.chance(0.33) { rng.range(1..3) } else { 0 };
    let span = (config.duration.as_millis() as u64)
        .saturating_sub(5_000)
        .max(1);
    let most = (config.messages as u64 / 4).max(2);
    let random = |_| ClosedLoop {
        at: Time::from_millis(rng.below(span)),
        host: rng.below(hosts as u64) as usize,
        messages: rng.range(1..most) as u32,
        len: (rng.below(300) as usize).min(config.len_max),
    };
    let mut loops: Vec<ClosedLoop> = (0..count).map(random).collect();
    loops.sort_by_key(|it| it.at);
    loops
}

/// Half of the messages come in bursts about the moments at which something goes wrong or comes
/// back.
fn random_load(
    config: &SwarmConfig,
    hosts: usize,
    faults: &[Fault],
    rng: &mut Rng,
) -> Vec<Submission> {
    let moments: Vec<Time> = faults
        .iter()
        .flat_map(|fault| [Some(fault.at), fault.until])
        .flatten()
        .collect();
    let span = (config.duration.as_nanos() as u64).max(2);
    let mut load = Vec::with_capacity(config.messages);
    while load.len() < config.messages {
        let start = match rng.pick(&moments) {
            Some(moment) if rng.chance(0.5) => moment
                .as_nanos()
                .saturating_sub(rng.below(300_000_000))
                .saturating_add(rng.below(100_000_000)),
            _ => rng.below(span),
        };
        let burst = if rng.chance(0.3) { rng.range(2..40) } else { 1 };
        let (one, host) = (rng.chance(0.5), rng.below(hosts as u64) as usize);
        let width = rng.range(1..20_000_000);
        for _ in 0..burst.min((config.messages - load.len()) as u64) {
            load.push(Submission {
                at: Time::from_nanos((start + rng.below(width)).min(span - 1)),
                host: if one {
                    host
                } else {
                    rng.below(hosts as u64) as usize
                },
                service: random_service(rng, config.services.as_deref()),
                len: random_len(rng).min(config.len_max),
            });
        }
    }
    load.sort_by_key(|submission| submission.at);
    load
}

fn random_service(rng: &mut Rng, services: Option<&[Service]>) -> Service {
    if let Some(services) = services {
        return rng.pick(services).copied().unwrap_or(Service::Reliable);
    }
    match rng.below(20) {
        0 => Service::Unreliable,
        1 => Service::Reliable,
        2..4 => Service::Fifo,
        4..6 => Service::Causal,
        6..13 => Service::Agreed,
        13..16 => Service::Safe,
        16..19 => Service::KResilient(rng.below(6) as u8),
        _ => Service::Majority,
    }
}

/// Most messages are small, some take a few datagrams, and few take many.
fn random_len(rng: &mut Rng) -> usize {
    let most = match rng.below(100) {
        0..80 => 200,
        80..95 => 4_000,
        95..99 => 20_000,
        _ => 100_000,
    };
    rng.below(most) as usize
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reach = match (self.multicast, self.without_multicast.is_empty()) {
            (true, true) => "multicast".to_owned(),
            (true, false) => format!("multicast, which {:?} do not have", self.without_multicast),
            (false, _) => "a mesh".to_owned(),
        };
        writeln!(
            f,
            "{} hosts on {reach}, {} messages in {:?}",
            self.hosts,
            self.load.len(),
            self.duration
        )?;
        writeln!(f, "{:?}", self.network)?;
        writeln!(f, "{:?}", self.host)?;
        writeln!(f, "clocks {:?} ppm, starts {:?}", self.clocks, self.starts)?;
        for fault in &self.faults {
            writeln!(f, "{fault}")?;
        }
        for client in &self.loops {
            writeln!(f, "{client:?}")?;
        }
        match &self.lasting {
            Some(lasting) => writeln!(f, "{lasting}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::FLAPS;
    use super::*;

    /// How many faults `draw` gives, over many seeds.
    fn counts(draw: impl Fn(&mut Rng) -> Vec<Fault>) -> BTreeSet<u64> {
        let count = |seed| draw(&mut Rng::new(seed)).len() as u64;
        (0..2_000).map(count).collect()
    }

    #[test]
    fn there_are_as_many_faults_as_were_asked_for_and_twice_as_many_in_a_storm() {
        let config = SwarmConfig::default();
        let (min, max) = (config.faults_min as u64, config.faults_max as u64);
        let storms = (min..=max).map(|count| 2 * count);
        let allowed: BTreeSet<u64> = (min..=max).chain(storms).collect();
        assert_eq!(
            counts(|rng| random_singles(&config, 5, 57_000, rng)),
            allowed
        );
    }

    #[test]
    fn some_hosts_have_no_multicast_and_never_all() {
        let config = SwarmConfig {
            without_multicast: 0.5,
            ..SwarmConfig::default()
        };
        let draw = |hosts, seed| random_without(&config, hosts, &mut Rng::new(seed)).len();
        for hosts in [2, 5] {
            let counts: BTreeSet<usize> = (0..200).map(|seed| draw(hosts, seed)).collect();
            assert!(counts.into_iter().eq(0..hosts));
        }
        let usual = SwarmConfig::default();
        assert!(random_without(&usual, 5, &mut Rng::new(1)).is_empty());
    }

    #[test]
    fn a_series_is_of_one_way_or_once_over_all_hosts() {
        let config = SwarmConfig::default();
        for hosts in [2, 9] {
            let allowed: BTreeSet<u64> = [0, hosts as u64].into_iter().chain(FLAPS).collect();
            let drawn = counts(|rng| random_series(&config, hosts, 57_000, rng));
            assert_eq!(drawn, allowed, "{hosts} hosts");
        }
    }
}
