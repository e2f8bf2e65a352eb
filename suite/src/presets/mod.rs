//! The table of presets: each preset of the ring over the delays that it is documented for, with
//! few hosts and many, in calm, under three kinds of load.
//!
//! A [`Cell`] is one of these worlds. Nothing goes wrong in it, so the configuration that was
//! formed first must stay and each message must arrive; the histories are judged as those of the
//! swarm. What it takes to deliver a lone message everywhere is measured. `swarm --presets` runs
//! the whole table, the suite's tests a few cells of it for a shorter time.

mod load;

use std::time::Duration;

use groupcast_core::ConfigurationKind;
use groupcast_core::family::DaemonPresets as _;
use groupcast_core::settings::{Preset, Settings as _};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::host::config::{Cost, Effect};
use groupcast_sim::{Cluster, ClusterConfig, HostConfig};

pub use self::load::Load;

/// The fewest hosts and the most.
const HOSTS: std::ops::RangeInclusive<usize> = 2..=9;
/// One-way delays of a preset for a LAN, in microseconds.
const LAN: [u64; 4] = [50, 500, 2_000, 5_000];
/// One-way delays of a preset for links between places, in microseconds.
const WAN: [u64; 4] = [5_000, 20_000, 50_000, 100_000];
/// What slow hosts take, in milliseconds.
const SLOW: [u64; 6] = [1, 2, 3, 4, 5, 6];
/// What all hosts together may take to wake up, with the preset for a LAN.
const SLEEPY_MAX: Duration = Duration::from_millis(30);
/// What one host may take for a datagram, with the preset for a LAN. A burst brings it more at a
/// time than its windows have adapted to, and the others wait for the token until it has read all.
const SLOW_MAX: Duration = Duration::from_millis(1);
/// Within which time the ring must have formed.
const FORMING_MAX: Duration = Duration::from_secs(20);
/// How long it then has to come to rest.
const REST: Duration = Duration::from_secs(5);

/// Who has the settings of a preset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Holder {
    /// A member inside a program.
    Member,
    /// A daemon.
    Daemon,
}

impl Holder {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Member, Self::Daemon];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Daemon => "daemon",
        }
    }

    fn presets(self) -> &'static [Preset<RingConfig>] {
        match self {
            Self::Member => RingConfig::PRESETS,
            Self::Daemon => RingConfig::DAEMON_PRESETS,
        }
    }
}

/// How quick the hosts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// A few microseconds a datagram, and always awake.
    Quick,
    /// Every host sleeps when it has nothing to do, and takes this long to wake up, or up to a
    /// quarter longer.
    Sleepy(Duration),
    /// The last host takes this long for each datagram.
    Slow(Duration),
}

impl Pace {
    fn host(self, host: usize, hosts: usize) -> HostConfig {
        let usual = HostConfig::default();
        match self {
            Self::Sleepy(wake_up) => HostConfig {
                effect: Effect::End,
                wake_up,
                wake_up_jitter: wake_up / 4,
                ..usual
            },
            Self::Slow(takes) if host + 1 == hosts => HostConfig {
                receive: Cost::per_call(takes),
                ..usual
            },
            Self::Quick | Self::Slow(_) => usual,
        }
    }
}

/// One world of the table.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Who has the settings.
    pub holder: Holder,
    /// Which of the holder's presets, by its index: `lan`, `wan`.
    pub preset: usize,
    /// From any host to any other.
    pub delay: Duration,
    /// How many hosts there are.
    pub hosts: usize,
    /// How quick they are.
    pub pace: Pace,
    /// What is sent.
    pub load: Load,
}

/// What came of a cell.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The most regular configurations that a host installed after the first.
    pub changes: usize,
    /// Messages that were sent.
    pub messages: u64,
    /// What was wrong: promises that were broken, messages that did not arrive.
    pub violations: Vec<String>,
    /// How long each lone message took to its last receiver, in ascending order. Empty but for
    /// [`Load::Sparse`].
    pub lone: Vec<Duration>,
}

impl Outcome {
    /// Whether nothing happened but what should.
    pub fn is_calm(&self) -> bool {
        self.changes == 0 && self.violations.is_empty()
    }

    /// What `share` of the lone messages took at most; `None` without lone messages.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let last = self.lone.len().checked_sub(1)?;
        self.lone
            .get((last as f64 * share).round() as usize)
            .copied()
    }
}

impl Cell {
    /// The whole table, by holder, preset, delay, hosts and load.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for holder in Holder::ALL {
            for (preset, delays) in [LAN, WAN].into_iter().enumerate() {
                for (micros, hosts) in delays
                    .into_iter()
                    .flat_map(|it| HOSTS.map(move |n| (it, n)))
                {
                    all.extend(Load::ALL.map(|load| Self {
                        holder,
                        preset,
                        delay: Duration::from_micros(micros),
                        hosts,
                        pace: Pace::Quick,
                        load,
                    }));
                }
            }
        }
        all
    }

    /// Slow hosts on a LAN, whose daemons have the preset for it: all of them sleepy, or one slow.
    pub fn slow() -> Vec<Self> {
        let mut all = Vec::new();
        for millis in SLOW {
            let each = Duration::from_millis(millis);
            for pace in [Pace::Sleepy(each), Pace::Slow(each)] {
                for hosts in HOSTS {
                    all.extend(Load::ALL.map(|load| Self {
                        holder: Holder::Daemon,
                        preset: 0,
                        delay: Duration::from_micros(LAN[0]),
                        hosts,
                        pace,
                        load,
                    }));
                }
            }
        }
        all
    }

    /// The ends of each preset's range, the fewest hosts and the most.
    pub fn few() -> Vec<Self> {
        let ends = |cell: &Self| {
            let delays = [LAN, WAN][cell.preset];
            let micros = cell.delay.as_micros() as u64;
            (delays[0] == micros || delays[3] == micros)
                && (cell.hosts == *HOSTS.start() || cell.hosts == *HOSTS.end())
        };
        Self::all().into_iter().filter(ends).collect()
    }

    /// Whether its preset promises that it is calm.
    pub fn is_promised(&self) -> bool {
        match self.pace {
            Pace::Quick => true,
            Pace::Sleepy(wake_up) => wake_up * self.hosts as u32 <= SLEEPY_MAX,
            Pace::Slow(takes) => takes <= SLOW_MAX,
        }
    }

    /// The name of its preset.
    pub fn preset_name(&self) -> &'static str {
        self.holder.presets()[self.preset].name
    }

    /// Runs it for `duration`, once the ring is there.
    pub fn run(&self, duration: Duration) -> Outcome {
        let mut cluster = self.cluster();
        let mut outcome = Outcome {
            changes: 0,
            messages: 0,
            violations: Vec::new(),
            lone: Vec::new(),
        };
        if !cluster.run_until(Cluster::all_in_one_configuration, FORMING_MAX) {
            outcome.violations.push("no ring forms".to_owned());
            return outcome;
        }
        cluster.run_for(REST);
        let before = installed(&cluster);
        self.load.run(&mut cluster, duration, &mut outcome);
        let after = installed(&cluster);
        let grown = before
            .iter()
            .zip(after)
            .map(|(before, after)| after - before);
        outcome.changes = grown.max().unwrap_or(0);
        outcome.lone.sort_unstable();
        let broken = cluster.violations(false, None);
        outcome
            .violations
            .extend(broken.iter().map(ToString::to_string));
        outcome
    }

    fn cluster(&self) -> Cluster<Ring> {
        let mut config = ClusterConfig::new(self.hosts, self.hosts as u64);
        config.network.latency = self.delay;
        config.keep_payloads = false;
        let settings = (self.holder.presets()[self.preset].make)();
        let mut cluster = Cluster::new(config, move |member, rng, now| {
            Ring::new(settings.clone(), member, rng, now).expect("presets are valid")
        });
        for host in 0..self.hosts {
            cluster.set_host(host, self.pace.host(host, self.hosts));
        }
        cluster.start_all();
        cluster
    }
}

/// How many regular configurations each host has installed.
fn installed(cluster: &Cluster<Ring>) -> Vec<usize> {
    let of = |host| {
        let all = cluster.configurations(host).iter();
        all.filter(|it| it.kind == ConfigurationKind::Regular)
            .count()
    };
    (0..cluster.hosts()).map(of).collect()
}
