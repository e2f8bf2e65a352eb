//! What goes wrong in a scenario: faults with a beginning and an end.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use groupcast_core::family::Moment;
use groupcast_core::{Instrumented, Rng, SocketClass, Time};

use crate::clock::ClockRate;
use crate::cluster::Cluster;
use crate::experiment::ProcessChange;
use crate::host::Status;
use crate::host::config::{Cost, HostConfig};
use crate::network::Block;

/// The kinds of faults, as the coverage table counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A process ends without telling the others.
    Crash,
    /// A process begins where one crashed or left.
    Restart,
    /// A process leaves gracefully.
    Leave,
    /// A process is stopped for a while.
    Pause,
    /// The network is cut in parts.
    Partition,
    /// Two hosts do not reach each other, though others reach both.
    Partial,
    /// Nothing passes from one host to another, but everything passes back.
    OneWay,
    /// One class of datagrams, data or token, does not pass.
    OneClass,
    /// A large part of all datagrams is lost for a while.
    LossBurst,
    /// A host takes long for each datagram.
    Slow,
    /// A clock runs up to a tenth too fast or too slow.
    Clock,
    /// An adversary sends recorded datagrams again, whole, damaged or cut.
    Replay,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Crash,
        Self::Restart,
        Self::Leave,
        Self::Pause,
        Self::Partition,
        Self::Partial,
        Self::OneWay,
        Self::OneClass,
        Self::LossBurst,
        Self::Slow,
        Self::Clock,
        Self::Replay,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Restart => "restart",
            Self::Leave => "leave",
            Self::Pause => "pause",
            Self::Partition => "partition",
            Self::Partial => "partial",
            Self::OneWay => "one-way",
            Self::OneClass => "one-class",
            Self::LossBurst => "loss",
            Self::Slow => "slow",
            Self::Clock => "clock",
            Self::Replay => "replay",
        }
    }
}

/// Something that goes wrong from `at` on, until `until` if it ends before the scenario does.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// What it counts as.
    pub kind: FaultKind,
    /// When it begins.
    pub at: Time,
    /// When it ends. A crash or a leave ends when a new process begins.
    pub until: Option<Time>,
    /// What it does.
    pub effect: Effect,
    /// The moment of the protocol that it waits for from `at` on; without one it begins then. It
    /// strikes a host that takes part in the moment, and ends as much later as it began later.
    pub moment: Option<Moment>,
}

/// What a fault does.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Something happens to the process of a host; what follows from it ends the fault.
    Process(usize, ProcessChange),
    /// Nothing passes between these hosts.
    Cut(Vec<Block>),
    /// A part of what goes to these hosts is lost.
    Loss(Vec<usize>, f64),
    /// A host takes this long for each datagram.
    Slow(usize, Duration),
    /// A host's clock is wrong by parts per million, for ever.
    Clock(usize, i64),
    /// The adversary sends.
    Replay,
}

impl Effect {
    /// The host that it was drawn for, if it is about one.
    pub(crate) fn host(&self) -> Option<usize> {
        match self {
            Self::Process(host, _) | Self::Slow(host, _) | Self::Clock(host, _) => Some(*host),
            Self::Cut(blocks) => blocks.first().map(|block| block.from),
            Self::Loss(hosts, _) => hosts.first().copied(),
            Self::Replay => None,
        }
    }

    /// Puts the hosts `one` and `other` in each other's place.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        let swap = |host: &mut usize| {
            if *host == one {
                *host = other;
            } else if *host == other {
                *host = one;
            }
        };
        match self {
            Self::Process(host, _) | Self::Slow(host, _) | Self::Clock(host, _) => swap(host),
            Self::Cut(blocks) => blocks.iter_mut().for_each(|block| {
                swap(&mut block.from);
                swap(&mut block.to);
            }),
            Self::Loss(hosts, _) => hosts.iter_mut().for_each(swap),
            Self::Replay => {}
        }
    }
}

/// How often a way that flaps closes.
pub(super) const FLAPS: Range<u64> = 5..15;

impl Fault {
    /// How long after its end a fault still counts as met: the protocol is still recovering from
    /// it.
    const AFTERMATH: Duration = Duration::from_secs(2);

    /// A random fault of `kind` (not [`FaultKind::Restart`]: that is how a crash or a leave ends)
    /// among `hosts` hosts.
    pub(crate) fn random(kind: FaultKind, at: Time, hosts: usize, rng: &mut Rng) -> Self {
        let host = rng.below(hosts as u64) as usize;
        let millis = |rng: &mut Rng, low, high| at + Duration::from_millis(rng.range(low..high));
        let (effect, until) = match kind {
            FaultKind::Crash | FaultKind::Restart => {
                let back = match rng.below(4) {
                    0 => None,
                    1 => Some(millis(rng, 1, 400)),
                    _ => Some(millis(rng, 400, 10_000)),
                };
                (Effect::Process(host, ProcessChange::Crash), back)
            }
            FaultKind::Leave => {
                let back = rng.chance(0.7).then(|| millis(rng, 1_500, 10_000));
                (Effect::Process(host, ProcessChange::Leave), back)
            }
            FaultKind::Pause => {
                let longest = if rng.chance(0.5) { 500 } else { 10_000 };
                (
                    Effect::Process(host, ProcessChange::Pause),
                    Some(millis(rng, 20, longest)),
                )
            }
            FaultKind::Partition | FaultKind::Partial | FaultKind::OneWay | FaultKind::OneClass => {
                let cut = random_cut(kind, hosts, host, rng);
                let longest = if rng.chance(0.5) { 1_500 } else { 15_000 };
                (Effect::Cut(cut), Some(millis(rng, 100, longest)))
            }
            FaultKind::LossBurst => {
                let hosts = if rng.chance(0.5) {
                    (0..hosts).collect()
                } else {
                    vec![host]
                };
                let rate = 0.3 + 0.7 * rng.unit();
                (Effect::Loss(hosts, rate), Some(millis(rng, 50, 3_000)))
            }
            FaultKind::Slow => {
                let takes = Duration::from_micros(rng.range(50..5_000));
                (Effect::Slow(host, takes), Some(millis(rng, 100, 10_000)))
            }
            FaultKind::Clock => (
                Effect::Clock(host, rng.below(200_001) as i64 - 100_000),
                None,
            ),
            FaultKind::Replay => (Effect::Replay, Some(millis(rng, 500, 10_000))),
        };
        Self {
            kind,
            at,
            until,
            effect,
            moment: None,
        }
    }

    /// A way that closes and opens again and again, from `at` on.
    pub(crate) fn flapping(at: Time, hosts: usize, rng: &mut Rng) -> Vec<Self> {
        let kinds = [FaultKind::Partial, FaultKind::OneWay, FaultKind::OneClass];
        let kind = rng.pick(&kinds).copied().unwrap_or(FaultKind::Partial);
        let host = rng.below(hosts as u64) as usize;
        let effect = Effect::Cut(random_cut(kind, hosts, host, rng));
        let longest = Duration::from_millis(*rng.pick(&[30, 300, 1_000]).unwrap_or(&300));
        let cycles = rng.range(FLAPS);
        let mut next = at;
        let mut close = |_| {
            let at = next + rng.duration(Duration::ZERO, longest);
            let until = at + rng.duration(Duration::ZERO, longest);
            next = until;
            Self {
                kind,
                at,
                until: Some(until),
                effect: effect.clone(),
                moment: None,
            }
        };
        (0..cycles).map(&mut close).collect()
    }

    /// All hosts leave, or crash, and begin anew, one after the other, from `at` on.
    pub(crate) fn rolling(at: Time, hosts: usize, rng: &mut Rng) -> Vec<Self> {
        let (kind, change) = match rng.chance(0.5) {
            true => (FaultKind::Leave, ProcessChange::Leave),
            false => (FaultKind::Crash, ProcessChange::Crash),
        };
        let mut next = at;
        let mut restart = |host| {
            let at = next + rng.duration(Duration::ZERO, Duration::from_secs(1));
            let until = at + rng.duration(Duration::from_millis(5), Duration::from_secs(1));
            next = until;
            Self {
                kind,
                at,
                until: Some(until),
                effect: Effect::Process(host, change),
                moment: None,
            }
        };
        (0..hosts).map(&mut restart).collect()
    }

    /// Begins it, among hosts that are `usual` otherwise.
    pub(crate) fn begin<P: Instrumented>(&self, cluster: &mut Cluster<P>, usual: &HostConfig) {
        match &self.effect {
            Effect::Process(host, change) => change_process(cluster, *host, *change),
            Effect::Cut(blocks) => blocks.iter().for_each(|it| cluster.network().block(*it)),
            Effect::Loss(hosts, rate) => hosts
                .iter()
                .for_each(|host| cluster.network().set_ingress_loss(*host, *rate)),
            Effect::Slow(host, takes) => {
                let slow = HostConfig {
                    receive: Cost::per_call(*takes),
                    ..usual.clone()
                };
                cluster.set_host(*host, slow);
            }
            Effect::Clock(host, ppm) => {
                cluster.set_clock_rate(*host, ClockRate::off_by_ppm(*ppm));
            }
            Effect::Replay => cluster.set_attacking(true),
        }
    }

    /// Ends it.
    pub(crate) fn end<P: Instrumented>(&self, cluster: &mut Cluster<P>, usual: &HostConfig) {
        match &self.effect {
            Effect::Process(host, change) => {
                let end = match change {
                    ProcessChange::Pause => ProcessChange::Resume,
                    _ => ProcessChange::Start,
                };
                change_process(cluster, *host, end);
            }
            Effect::Cut(blocks) => blocks.iter().for_each(|it| cluster.network().unblock(*it)),
            Effect::Loss(hosts, _) => hosts
                .iter()
                .for_each(|host| cluster.network().set_ingress_loss(*host, 0.0)),
            Effect::Slow(host, _) => cluster.set_host(*host, usual.clone()),
            Effect::Clock(..) => {}
            Effect::Replay => cluster.set_attacking(false),
        }
    }

    /// The kinds that what happens at `time` may be due to because of this fault.
    pub(crate) fn met_at(&self, time: Time) -> impl Iterator<Item = FaultKind> {
        let within = |from: Time, to: Time| from <= time && time <= to + Self::AFTERMATH;
        let (first, second) = match self.effect {
            Effect::Process(_, ProcessChange::Crash | ProcessChange::Leave) => (
                within(self.at, self.at),
                self.until.is_some_and(|back| within(back, back)),
            ),
            _ => (within(self.at, self.until.unwrap_or(Time::MAX)), false),
        };
        let first = first.then_some(self.kind);
        let second = second.then_some(FaultKind::Restart);
        first.into_iter().chain(second)
    }
}

/// Changes the process of a host, if it is in a state that this makes sense in.
fn change_process<P: Instrumented>(cluster: &mut Cluster<P>, host: usize, change: ProcessChange) {
    match change {
        ProcessChange::Start if !cluster.is_alive(host) => {
            cluster.start(host);
        }
        ProcessChange::Leave if cluster.status(host) == Status::Up => cluster.leave(host),
        ProcessChange::Start | ProcessChange::Leave => {}
        ProcessChange::Crash => cluster.crash(host),
        ProcessChange::Pause => cluster.pause(host),
        ProcessChange::Resume => cluster.resume(host),
    }
}

/// The ways that a fault of `kind` closes, chosen at random among those from and to `host`.
fn random_cut(kind: FaultKind, hosts: usize, host: usize, rng: &mut Rng) -> Vec<Block> {
    let other = (host + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
    // To one host, from one host, or from one to another.
    let some = match rng.below(3) {
        0 => ways(hosts).filter(|(from, _)| *from == host).collect(),
        1 => ways(hosts).filter(|(_, to)| *to == host).collect(),
        _ => vec![(host, other)],
    };
    let both = [SocketClass::Data, SocketClass::Control];
    match kind {
        FaultKind::Partial => close(&[(host, other), (other, host)], &both),
        FaultKind::OneWay => close(&some, &both),
        FaultKind::OneClass => {
            let class = if rng.chance(0.5) { both[0] } else { both[1] };
            close(&some, &[class])
        }
        _ => {
            let parts = rng.range(2..4);
            let part: Vec<u64> = (0..hosts).map(|_| rng.below(parts)).collect();
            let apart = |(from, to): &(usize, usize)| part[*from] != part[*to];
            close(&ways(hosts).filter(apart).collect::<Vec<_>>(), &both)
        }
    }
}

pub(super) fn ways(hosts: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..hosts).flat_map(move |from| (0..hosts).map(move |to| (from, to)))
}

pub(super) fn close(ways: &[(usize, usize)], classes: &[SocketClass]) -> Vec<Block> {
    ways.iter()
        .flat_map(|(from, to)| {
            classes.iter().map(|class| Block {
                from: *from,
                to: *to,
                class: *class,
            })
        })
        .collect()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..", self.at)?;
        if let Some(until) = self.until {
            write!(f, "{until:?}")?;
        }
        if let Some(moment) = self.moment {
            write!(f, " at the next {}", moment.name)?;
        }
        write!(f, " {}: ", self.kind.name())?;
        match &self.effect {
            Effect::Process(host, _) => write!(f, "h{host}"),
            Effect::Cut(blocks) => {
                let mut ways: Vec<_> = blocks.iter().map(|it| (it.from, it.to)).collect();
                ways.dedup();
                if self.kind == FaultKind::OneClass {
                    write!(f, "{:?} ", blocks[0].class)?;
                }
                for (from, to) in ways {
                    write!(f, "h{from}>h{to} ")?;
                }
                Ok(())
            }
            Effect::Loss(hosts, rate) => write!(f, "{:.0} % to {hosts:?}", rate * 100.0),
            Effect::Slow(host, takes) => write!(f, "h{host} takes {takes:?} a datagram"),
            Effect::Clock(host, ppm) => write!(f, "h{host} off by {ppm} ppm"),
            Effect::Replay => Ok(()),
        }
    }
}
