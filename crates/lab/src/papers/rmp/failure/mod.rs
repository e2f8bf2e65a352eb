//! How long it takes until a crash is noticed (000 ch. 8): timers double up to a clamp, and after
//! this many tries the ring is reformed.

mod judge;

use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::{Service, Time};
use groupcast_protocols::rmp::{Rmp, RmpConfig, RmpStatus, inspect};
use groupcast_sim::experiment::{Change, Experiment, ExperimentConfig, ProcessChange};
use groupcast_sim::host::Status;
use groupcast_sim::link::LinkSpec;
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

pub(super) use self::judge::{draw, judge};
use super::super::{Cell, Context, Data, RunError, figure};
use super::stage::{ANNOUNCE, sparc};

const SITES: usize = 4;
/// The site that crashes. Under low load another one sends.
const CRASHES: usize = 2;
/// When it does, and by how much later with the next seed: the token is elsewhere then.
const CRASH: Duration = Duration::from_secs(20);
const LATER: Duration = Duration::from_millis(1_370);
/// A member that has not noticed it by then never does.
const LIMIT: Duration = Duration::from_secs(90);
/// How finely time is seen.
const STEP: Duration = Duration::from_millis(5);
/// Bytes of a message.
const SIZE: u32 = 64;

/// How far sites are from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distance {
    /// On a LAN.
    Near,
    /// 100 ms one way.
    Far,
}

/// How much they send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    /// One of them, a message in two seconds.
    Low,
    /// All, as fast as stop-and-wait allows.
    High,
}

/// Whose constants they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Constants {
    /// 000's: a clamp of 2 s, 10 tries.
    Paper,
    /// Ours: the presets for a LAN and for long links.
    Ours,
}

/// One point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FailurePoint {
    distance: Distance,
    load: Load,
    constants: Constants,
}

/// What was seen of a crash, in seconds since it happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noticed {
    /// The first repetition of an ACK or a packet: the first sign that somebody does not answer.
    repeated: f64,
    /// Somebody polls.
    detected: f64,
    /// All others are in a configuration without it.
    reformed: f64,
}

/// All eight points.
pub(super) fn plan(_quick: bool) -> Vec<FailurePoint> {
    let mut plan = Vec::new();
    for constants in [Constants::Paper, Constants::Ours] {
        for distance in [Distance::Near, Distance::Far] {
            for load in [Load::Low, Load::High] {
                plan.push(FailurePoint {
                    distance,
                    load,
                    constants,
                });
            }
        }
    }
    plan
}

impl Distance {
    fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }

    /// 000 has no shortest timer. Ours is three times the shortest before a round trip was
    /// measured, and none is ever measured if that is below it: every packet is repeated then.
    fn timer_min(self) -> Duration {
        match self {
            Self::Near => Duration::from_millis(1),
            Self::Far => Duration::from_millis(70),
        }
    }

    fn link(self) -> LinkSpec {
        match self {
            Self::Near => LinkSpec::ethernet(10_000_000, Duration::from_micros(5)),
            Self::Far => LinkSpec::ethernet(1_500_000, Duration::from_millis(50)),
        }
    }
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
        }
    }
}

impl Constants {
    fn name(self) -> &'static str {
        match self {
            Self::Paper => "000's",
            Self::Ours => "ours",
        }
    }
}

impl FailurePoint {
    fn settings(&self) -> RmpConfig {
        let preset = match self.distance {
            Distance::Near => RmpConfig::lan(),
            Distance::Far => RmpConfig::wan(),
        };
        let paper = RmpConfig::paper();
        match self.constants {
            Constants::Ours => preset,
            // A reformation has ours: 000 gives no times for it.
            Constants::Paper => RmpConfig {
                ack_packets_max: paper.ack_packets_max,
                order: paper.order,
                null_ack_after: paper.null_ack_after,
                pass_after: paper.pass_after,
                quiet: paper.quiet,
                confirm_after: Duration::from_micros(500),
                timer_min: self.distance.timer_min(),
                timer_max: paper.timer_max,
                tries: paper.tries,
                silence_max: paper.silence_max,
                announce_interval: ANNOUNCE,
                ..preset
            },
        }
    }

    fn topology(&self) -> Topology {
        let mut topology = Topology::new();
        let middle = topology.add(Kind::Plain);
        for _ in 0..SITES {
            let site = topology.add(Kind::Plain);
            topology.connect(middle, site, self.distance.link());
            topology.place_host(site);
        }
        topology
    }

    fn sources(&self) -> Vec<(usize, SourceConfig)> {
        let of = |arrivals| SourceConfig {
            start: Time::ZERO + Duration::from_secs(10),
            ..SourceConfig::new(arrivals, SIZE, Service::Agreed)
        };
        match self.load {
            Load::Low => vec![(0, of(Arrivals::Constant { rate: 0.5 }))],
            Load::High => (0..SITES)
                .map(|site| (site, of(Arrivals::Saturate)))
                .collect(),
        }
    }

    fn measure(&self, seed: u64) -> Result<Noticed, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
        let settings = RmpConfig {
            stop_and_wait: true,
            queue_max: 0,
            ..self.settings()
        };
        settings.validate().map_err(|error| failed(&error))?;
        let mut config = ExperimentConfig::new(self.topology(), inspect, seed);
        config.hosts = sparc();
        let mut experiment = Experiment::new(config, move |local, rng, now| {
            Rmp::new(settings.clone(), local, rng, now).expect("the settings were checked")
        });
        experiment.start_all();
        for (site, source) in self.sources() {
            experiment
                .add_source(site, source)
                .map_err(|error| failed(&error))?;
        }
        let crash = Time::ZERO + CRASH + LATER * seed as u32;
        experiment.run_to(crash);
        let before = all(&experiment);
        if before.len() != SITES || before.iter().any(|site| site.members.len() != SITES) {
            return Err(RunError::Failed("the sites formed no ring".to_owned()));
        }
        experiment.schedule(crash, Change::Process(CRASHES, ProcessChange::Crash));
        Ok(watch(&mut experiment, crash, repeated(&survivors(&before))))
    }
}

/// How far each site that runs is.
fn all(experiment: &Experiment<Rmp>) -> Vec<RmpStatus> {
    let sites = (0..SITES).filter(|site| experiment.status(*site) == Status::Up);
    let node = |site| experiment.node(site)?.instance(Channel::SOLE);
    sites.filter_map(node).map(Rmp::status).collect()
}

fn survivors(sites: &[RmpStatus]) -> Vec<RmpStatus> {
    let others = sites
        .iter()
        .enumerate()
        .filter(|(site, _)| *site != CRASHES);
    others.map(|(_, status)| status.clone()).collect()
}

/// ACKs and packets that were sent again.
fn repeated(sites: &[RmpStatus]) -> u64 {
    let counters = sites.iter().map(|site| &site.counters);
    counters.map(|it| it.acks_again + it.packets_again).sum()
}

/// Lets time pass until the others are together without the one that crashes.
fn watch(experiment: &mut Experiment<Rmp>, crash: Time, before: u64) -> Noticed {
    let mut noticed = Noticed {
        repeated: f64::NAN,
        detected: f64::NAN,
        reformed: f64::NAN,
    };
    let note = |what: &mut f64, now: Time| {
        if what.is_nan() {
            *what = (now - crash).as_secs_f64();
        }
    };
    while experiment.now() < crash + LIMIT {
        let now = experiment.now() + STEP;
        experiment.run_to(now);
        let sites = all(experiment);
        if repeated(&sites) > before {
            note(&mut noticed.repeated, now);
        }
        let together =
            |site: &RmpStatus| site.state == "operational" && site.members.len() == SITES - 1;
        if sites.iter().any(|site| site.state != "operational") {
            note(&mut noticed.detected, now);
        }
        if sites.iter().all(together) {
            note(&mut noticed.reformed, now);
            break;
        }
    }
    noticed
}

impl figure::Point for FailurePoint {
    type Measured = Noticed;

    fn conditions(_: &Context<'_>, _: &[Self], data: &mut Data) {
        data.condition(
            "sites",
            "4, one of which crashes; far: 100 ms one way, 1.5 Mb/s",
        );
        data.condition(
            "low load, high load",
            "a message in 2 s by one site; all sites by stop-and-wait",
        );
        data.condition(
            "000's constants",
            "timers up to 2 s, 10 tries, null ACKs after 1 s; no timer below 1 ms near and 70 ms \
             far (ours: a first one must outlast the round trip)",
        );
        data.condition("ours", "the presets lan and wan, with stop-and-wait");
        data.condition(
            "seeds",
            "each crashes the site 1.37 s later: at another place of the token's round",
        );
    }

    fn simulate(&self, _: &Context<'_>, seed: u64) -> Result<Noticed, RunError> {
        self.measure(seed)
    }

    fn on_sockets(_: &Context<'_>, _: &[Self]) -> Result<Vec<(Self, u64, Noticed)>, RunError> {
        Err(RunError::Unavailable(
            "000's hosts exist in the simulator alone".to_owned(),
        ))
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("constants", ""),
            ("distance", ""),
            ("load", ""),
            ("seed", ""),
            ("repeated", "s"),
            ("detected", "s"),
            ("reformed", "s"),
        ]
    }

    fn row(&self, seed: u64, measured: &Noticed) -> Vec<Cell> {
        vec![
            self.constants.name().into(),
            self.distance.name().into(),
            self.load.name().into(),
            seed.into(),
            measured.repeated.into(),
            measured.detected.into(),
            measured.reformed.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        Self::columns()
    }

    fn sweep_row(&self, measured: &Noticed) -> Vec<Cell> {
        self.row(0, measured)
    }
}
