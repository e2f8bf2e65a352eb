//! One point on the simulator: all members start, get to know each other, then the sender sends.
//!
//! What happens before the first message is not measured; what is still under way after the last
//! one is.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::trace::Role;
use groupcast_core::{Instrumented, Time};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::fabric::Multicast;
use groupcast_sim::host::config::{BufferLimit, Perturbation};
use groupcast_sim::measure::{Bins, HostMeasures, Measures, MeterConfig, Packets};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::Way;

use super::super::RunError;
use super::network::{Network, Shape};
use super::point::GossipPoint;
use super::protocol::Built;

/// Time to measure distances, and for rings to form, before the sender begins.
const SETTLING: Duration = Duration::from_secs(10);
/// The sender sends for this long before it is measured: how a stream begins is not what the
/// figures are about.
const PRELUDE: Duration = Duration::from_secs(2);
/// Time for what is still missing after the last message.
const DRAIN: Duration = Duration::from_secs(10);
/// The histograms' bins: fine enough for 5 ms links and with a gap of 10 ms in the middle of one;
/// the last holds all from 5 s on, as in Fig. 6.12.
const BINS: Bins = Bins::Linear {
    width: 4_000_000,
    count: 1_251,
};

/// Larger than any datagram: a message is one packet on every link, as in ns-2 and on an SP2's
/// switch.
const MTU: u32 = 65_535;
/// 004 4.3: a perturbed member sleeps through intervals of this length.
const SLEEP: Duration = Duration::from_millis(100);
/// What a socket of 004 ch. 4's hosts holds (ours): nine messages of 7 KB.
const INPUT_BUFFER: usize = 64 << 10;

/// What a point came to.
pub(super) struct Run {
    pub(super) setting: GossipPoint,
    pub(super) measures: Measures,
    pub(super) sender: usize,
    /// Those that the figure looks at.
    pub(super) receivers: Vec<usize>,
    between: Option<Way>,
    /// How long the link at the sender transmitted while the sender sent: away from the sender, and
    /// towards it.
    busy: [Duration; 2],
}

/// Measures `setting` with `seed`.
pub(super) fn measure(setting: &GossipPoint, seed: u64) -> Result<Run, RunError> {
    let net = Network::build(setting, seed)?;
    let built = Built::new(setting, &net)?;
    PreparedRun::new(setting, seed, net, built)?.finish(setting)
}

/// A point that is set up and runs.
pub(super) struct PreparedRun<P> {
    pub(super) experiment: Experiment<P>,
    /// When the sender begins.
    pub(super) begin: Duration,
    pub(super) sender: usize,
    receivers: Vec<usize>,
    out: Way,
    between: Option<Way>,
}

impl<P: Instrumented> PreparedRun<P> {
    /// All members run, and the sender's messages are due.
    pub(super) fn new(
        setting: &GossipPoint,
        seed: u64,
        net: Network,
        built: Built<P>,
    ) -> Result<Self, RunError> {
        let members = net.topology.hosts().len();
        let mut config = ExperimentConfig::new(net.topology, built.inspect, seed);
        config.multicast = Some(Multicast::CoreTree(net.core));
        config.senders_wait = false;
        config.acquainted = if built.acquainted { members } else { 0 };
        (config.hosts, config.overrides) = hosts(setting, members);
        config.mtu = MTU;
        config.measure = MeterConfig {
            warm_up: SETTLING + PRELUDE,
            bins: BINS,
            ..MeterConfig::default()
        };
        let mut experiment = Experiment::with_factory(config, built.factory);
        experiment.start_all();
        let arrivals = Arrivals::Constant { rate: setting.rate };
        let start = Time::ZERO + SETTLING;
        let source = SourceConfig {
            start,
            stop: start + PRELUDE + Duration::from_secs_f64(setting.seconds),
            ..SourceConfig::new(arrivals, built.payload, built.service)
        };
        experiment
            .add_source(net.sender, source)
            .map_err(|error| RunError::Failed(error.to_string()))?;
        Ok(Self {
            experiment,
            begin: SETTLING,
            sender: net.sender,
            receivers: net.receivers,
            out: net.out,
            between: net.between,
        })
    }

    /// Runs it to its end: what was measured.
    pub(super) fn finish(mut self, setting: &GossipPoint) -> Result<Run, RunError> {
        let first = Time::ZERO + self.begin + PRELUDE;
        let last = first + Duration::from_secs_f64(setting.seconds);
        let [before, after] = [first, last].map(|time| {
            self.experiment.run_to(time);
            [self.out, self.out.reversed()].map(|way| self.busy(way))
        });
        self.experiment.run_to(last + DRAIN);
        let measures = self
            .experiment
            .finish()
            .map_err(|error| RunError::Failed(error.to_string()))?;
        Ok(Run {
            setting: setting.clone(),
            measures,
            sender: self.sender,
            receivers: self.receivers,
            between: self.between,
            busy: [0, 1].map(|way: usize| after[way] - before[way]),
        })
    }

    /// How long a link has transmitted so far.
    fn busy(&mut self, way: Way) -> Duration {
        let mut uses = self.experiment.fabric().uses();
        let found = uses.find(|link| link.way == way.0);
        found.and_then(|link| link.busy).unwrap_or_default()
    }
}

/// Hosts that cost nothing; those that are perturbed are the last ones, and what comes while they
/// sleep has to fit into their input buffers.
fn hosts(setting: &GossipPoint, members: usize) -> (HostConfig, BTreeMap<usize, HostConfig>) {
    let host = match setting.shape {
        Shape::Switch { .. } => HostConfig {
            data_buffer: BufferLimit::bytes(INPUT_BUFFER),
            token_buffer: BufferLimit::bytes(INPUT_BUFFER),
            // A sender that is held up holds up its user.
            offered_max: setting.size as usize,
            ..HostConfig::free()
        },
        _ => HostConfig::free(),
    };
    let perturbed = HostConfig {
        perturbation: Some(Perturbation {
            probability: setting.perturb_rate,
            interval: SLEEP,
        }),
        ..host.clone()
    };
    let first = members.saturating_sub(setting.perturbed as usize);
    let overrides = (first..members).map(|host| (host, perturbed.clone()));
    (host, overrides.collect())
}

impl Run {
    /// A count, per second of sending.
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.setting.seconds
    }

    /// The mean over all members.
    fn mean(&self, of: impl Fn(&HostMeasures) -> f64) -> f64 {
        let hosts = &self.measures.hosts;
        hosts.iter().map(of).sum::<f64>() / hosts.len() as f64
    }

    /// Datagrams of a role that a member receives a second, mean over all members, addressed to
    /// them or not (004 6.3.1.1).
    pub(super) fn received(&self, role: Role) -> f64 {
        let packets = |host: &HostMeasures| -> Packets { *host.traffic.of(role) };
        self.mean(|host| self.rate(packets(host).received))
    }

    /// The mean of a quantity of each member.
    pub(super) fn mean_of(&self, values: impl Iterator<Item = f64>) -> f64 {
        values.sum::<f64>() / self.measures.hosts.len() as f64
    }

    /// Datagrams of these kinds that all members receive a second.
    pub(super) fn kinds_received(&self, kinds: &[&str]) -> f64 {
        let counts = self.measures.hosts.iter().flat_map(|host| &host.kinds);
        let received = counts
            .filter(|count| kinds.contains(&count.kind))
            .map(|count| count.packets.received);
        // They go on after the last message.
        received.sum::<u64>() as f64 / self.measures.measured.as_secs_f64()
    }

    /// Messages that a receiver, or all together, did not deliver.
    pub(super) fn missing(&self, receiver: Option<usize>) -> f64 {
        let hosts = self.measures.hosts.iter();
        let hosts = hosts.filter(|host| receiver.is_none_or(|receiver| receiver == host.host));
        hosts.map(|host| host.missing.unwrap_or(0) as f64).sum()
    }

    /// Members that are not perturbed, but for the sender.
    fn healthy(&self) -> impl Iterator<Item = &HostMeasures> {
        let perturbed = self.setting.perturbed as usize;
        let healthy = self.measures.hosts.len().saturating_sub(perturbed);
        let hosts = self.measures.hosts[..healthy].iter();
        hosts.filter(|host| host.host != self.sender)
    }

    /// The mean of a healthy member's throughput over windows and its variance, mean over members.
    /// The windows are those in which the sender sends, but for the first and the last.
    pub(super) fn healthy_windows(&self) -> (f64, f64) {
        let window = self.measures.window.as_secs_f64();
        let sending = (self.setting.seconds / window) as usize;
        let (mut mean, mut variance, mut count) = (0.0, 0.0, 0.0);
        for host in self.healthy() {
            let windows = self.measures.complete_windows(host.host);
            let Some(windows) = windows.get(1..sending.saturating_sub(1)) else {
                return (f64::NAN, f64::NAN);
            };
            let rates = || windows.iter().map(|it| f64::from(it.delivered) / window);
            let of_host = rates().sum::<f64>() / windows.len() as f64;
            let spread: f64 = rates().map(|rate| (rate - of_host).powi(2)).sum();
            mean += of_host;
            variance += spread / windows.len() as f64;
            count += 1.0;
        }
        (mean / count, variance / count)
    }

    /// Messages that healthy members did not deliver.
    pub(super) fn healthy_lost(&self) -> f64 {
        self.healthy()
            .map(|host| host.missing.unwrap_or(0) as f64)
            .sum()
    }

    /// Repairs that a healthy member sends for each message of the sender: the mean over members,
    /// and in the worst window of any.
    pub(super) fn resent(&self) -> (f64, f64) {
        let window = self.measures.window.as_secs_f64();
        let a_window = self.setting.rate * window;
        let (mut sum, mut count, mut worst) = (0.0, 0.0, 0.0f64);
        for host in self.healthy() {
            sum += host.traffic.repairs.sent as f64 / self.sent();
            count += 1.0;
            let windows = self.measures.complete_windows(host.host).iter();
            let most = windows.map(|it| it.repairs_sent).max().unwrap_or(0);
            worst = worst.max(f64::from(most) / a_window);
        }
        (sum / count, worst)
    }

    /// Views installed while it was measured.
    pub(super) fn configurations(&self) -> f64 {
        let hosts = self.measures.hosts.iter();
        hosts.map(|host| host.configurations as f64).sum()
    }

    /// Messages that the sender sent.
    pub(super) fn sent(&self) -> f64 {
        self.measures.hosts[self.sender].submitted as f64
    }

    /// The share of a link's bandwidth that is used while the sender sends: away from the sender,
    /// or towards it.
    pub(super) fn link_use(&self, towards: bool) -> f64 {
        self.busy[usize::from(towards)].as_secs_f64() / self.setting.seconds
    }

    /// Bits a second over what joins the halves of the network, both ways together, lost or not.
    pub(super) fn between(&self) -> f64 {
        let Some(way) = self.between else {
            return f64::NAN;
        };
        let both = [way.0, way.reversed().0];
        let links = self.measures.links.iter();
        let bytes = links
            .filter(|link| both.contains(&link.way))
            .map(|link| link.bytes);
        // Gossip goes on after the last message.
        bytes.sum::<u64>() as f64 * 8.0 / self.measures.measured.as_secs_f64()
    }

    /// Packets dropped at full queues.
    pub(super) fn dropped(&self) -> f64 {
        let dropped = self.measures.links.iter().map(|link| link.dropped);
        dropped.sum::<u64>() as f64
    }

    /// What a member's protocol counts under `name`, by member; 0 where it counts no such thing.
    pub(super) fn counters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = f64> + 'a {
        let hosts = self.measures.hosts.iter();
        hosts.map(move |host| host.usage.counter(name).unwrap_or(0) as f64)
    }

    /// The first that the figure looks at.
    pub(super) fn receiver(&self) -> &HostMeasures {
        &self.measures.hosts[self.receivers.first().copied().unwrap_or(0)]
    }
}
