//! `groupcast bench gossip`: one sender, many members in one process with sockets of their own, some of them perturbed.
//!
//! The real-socket counterpart of 004 ch. 4: every member has a thread, an endpoint and a protocol instance, and is reached
//! by multicast on the loopback interface; a perturbed one sleeps through intervals of 100 ms, each with a given
//! probability. What counts is what the healthy members get: by gossip the sender's rate, whatever the others do; on the
//! ring and in the windowed group, which wait for everybody, less. The members know each other from the start, so that no
//! admission is measured.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::node::{AdmissionConfig, Channel, NodeConfig};
use groupcast_core::seal::Sealer;
use groupcast_core::{
    Event, Incarnation, MemberId, Node, NodeId, Ordered, Protocol as _, Rng, Service, SubmitError,
};
use groupcast_net::{AesGcmSealer, Endpoint, EndpointConfig, InsecureSealer, Key};
use groupcast_protocols::gossip::{Gossip, GossipConfig, Variant};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_protocols::windowed::{Windowed, WindowedConfig};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::BenchError;
use super::clock::{self, Instant, Window};
use super::report::LatencySummary;
use super::stamp::Stamp;
use super::tally::Latencies;

/// The most members: each has an address of one loopback network.
pub const MEMBERS_MAX: usize = 250;
/// The least and the greatest payload: a stamp, and what one datagram of every protocol here takes.
pub const SIZE_MIN: usize = Stamp::LEN;
/// See [`SIZE_MIN`].
pub const SIZE_MAX: usize = 60_000;

const CHANNEL: Channel = Channel(1);
const PORT: u16 = 4810;
/// A perturbed member decides so often whether it sleeps for as long (004 4.2).
const SLEEP: Duration = Duration::from_millis(100);
/// How long the members may take to find each other.
const FORMING: Duration = Duration::from_secs(60);
/// A member that waits for the others looks around this often.
const LOOK_UP: Duration = Duration::from_millis(50);
/// No view changes, as in 004 4.4: a pause of a member is never taken for its death.
const NEVER: Duration = Duration::from_secs(600);
/// Messages that may wait for everybody's acknowledgement in the windowed group (ours; 004 prints no window).
const WINDOW: u32 = 16;
/// Messages that wait at a sender that is held up; the next ones are refused, and lost to all.
const WAITING: usize = 4;

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Bimodal Multicast, by gossip.
    Pbcast,
    /// The ring, every message safe.
    Ring,
    /// A window of messages, acknowledged by everybody.
    Windowed,
}

impl Carrier {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pbcast => "pbcast",
            Self::Ring => "ring",
            Self::Windowed => "windowed",
        }
    }

    fn service(self) -> Service {
        match self {
            Self::Ring => Service::Safe,
            Self::Pbcast | Self::Windowed => Service::Fifo,
        }
    }
}

/// What to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GossipOptions {
    /// Members, the sender included: 2 to [`MEMBERS_MAX`].
    pub members: usize,
    /// Messages a second.
    pub rate: f64,
    /// Payload of a message in bytes: [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: usize,
    /// The share of the members that is perturbed, 0 to 1; never the sender.
    pub perturbed: f64,
    /// The probability with which a perturbed member sleeps through an interval of 100 ms.
    pub sleep: f64,
    /// What carries the messages.
    pub carrier: Carrier,
    /// From the moment when all are together until it counts: the perturbed sleep already.
    pub warm_up: Duration,
    /// How long to count.
    pub duration: Duration,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
}

impl GossipOptions {
    /// How many members are perturbed.
    fn perturbed_members(&self) -> usize {
        let share = (self.members as f64 * self.perturbed).round() as usize;
        share.min(self.members - 1)
    }
}

/// What a run showed, and under which conditions.
#[derive(Clone, Debug, Serialize)]
pub struct GossipReport {
    /// Messages a second that healthy members delivered; the sender is not counted.
    pub healthy: Throughput,
    /// Messages a second that perturbed members delivered.
    pub perturbed: Throughput,
    /// Whether every healthy member's throughput is within 1 % of the rate.
    pub within_one_percent: bool,
    /// One way, from when a message was due to a healthy member.
    pub latency_us: LatencySummary,
    /// Messages that were sent while it counted, a second. Those that a protocol refused because it waits for somebody
    /// are not sent later.
    pub sent_per_s: f64,
    /// Messages that healthy members reported as lost, all together.
    pub healthy_lost: u64,
    /// Messages that perturbed members reported as lost, all together.
    pub perturbed_lost: u64,
    /// Datagrams that did not fit into receive buffers, at all members.
    pub kernel_drops: u64,
    /// Processors kept busy by all members together.
    pub processors: f64,
    /// What was run.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Messages a second over several members.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Throughput {
    /// How many members.
    pub members: usize,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Under which conditions a run was made.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// What carried the messages.
    pub protocol: &'static str,
    /// Members, the sender included.
    pub members: usize,
    /// Messages a second that were asked for.
    pub rate: f64,
    /// Payload of a message in bytes.
    pub size: usize,
    /// The probability with which a perturbed member sleeps through an interval of 100 ms.
    pub sleep: f64,
    /// How long was counted, in seconds.
    pub duration_s: f64,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
    /// Processors that all members share.
    pub cores: usize,
}

/// Runs it.
///
/// # Errors
/// If sockets cannot be opened, or not all members are together within a minute.
pub fn run(options: &GossipOptions) -> Result<GossipReport, BenchError> {
    let bench = Bench::new(options)?;
    thread::scope(|scope| {
        let members: Vec<_> = (0..options.members)
            .map(|index| {
                let bench = &bench;
                scope.spawn(move || {
                    let result = Member::run(bench, index);
                    // The others need not wait for one that has failed.
                    if result.is_err() {
                        bench.failed.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        let (processors, formed) = bench.conduct();
        let results: Result<Vec<Counts>, BenchError> = members
            .into_iter()
            .map(|member| {
                member
                    .join()
                    .unwrap_or_else(|_| Err(BenchError::client("be a member", "its thread ended")))
            })
            .collect();
        let results = results?;
        formed?;
        Ok(bench.report(&results, processors))
    })
}

/// What all members share.
struct Bench {
    options: GossipOptions,
    roster: Vec<(MemberId, SocketAddrV4)>,
    group: SocketAddrV4,
    key: Option<Key>,
    seed: u64,
    /// Members whose sockets are open, and who are together with all others.
    opened: AtomicUsize,
    together: AtomicUsize,
    window: OnceLock<Window>,
    /// A member failed, or not all were together in time.
    failed: AtomicBool,
}

impl Bench {
    fn new(options: &GossipOptions) -> Result<Self, BenchError> {
        let failed = |error: &dyn fmt::Display| BenchError::client("start a member", error);
        let seed = groupcast_net::random_u64().map_err(|error| failed(&error))?;
        let network = 1 + (seed % 250) as u8;
        let roster = (1..=options.members).map(|host| {
            let member = MemberId {
                node: NodeId(host as u64),
                incarnation: Incarnation(Rng::new(seed).fork(&format!("{host}")).next_u64()),
            };
            let address = Ipv4Addr::new(127, 79, network, host as u8);
            (member, SocketAddrV4::new(address, PORT))
        });
        let key = match options.encrypt {
            true => Some(Key::random().map_err(|error| failed(&error))?),
            false => None,
        };
        Ok(Self {
            options: *options,
            roster: roster.collect(),
            group: SocketAddrV4::new(Ipv4Addr::new(239, 79, network, 1), PORT + 1),
            key,
            seed,
            opened: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
            window: OnceLock::new(),
            failed: AtomicBool::new(false),
        })
    }

    /// Waits until all members are together, then has them measure; how many processors they kept busy.
    fn conduct(&self) -> (f64, Result<(), BenchError>) {
        let deadline = clock::now() + clock::nanos(FORMING);
        while self.together.load(Ordering::Relaxed) < self.options.members {
            if clock::now() > deadline || self.failed.load(Ordering::Relaxed) {
                self.failed.store(true, Ordering::Relaxed);
                let together = self.together.load(Ordering::Relaxed);
                let problem = format!(
                    "{together} of {} members were together after {FORMING:?}",
                    self.options.members
                );
                return (0.0, Err(BenchError::client("form the group", problem)));
            }
            thread::sleep(LOOK_UP);
        }
        let window = *self
            .window
            .get_or_init(|| Window::after(self.options.warm_up, self.options.duration));
        clock::sleep_until(window.from);
        let before = processor_seconds();
        clock::sleep_until(window.until);
        let used = processor_seconds() - before;
        (used / window.seconds(), Ok(()))
    }

    /// Whether member `index` is perturbed: every so many, the sender (the first) excepted.
    fn is_perturbed(&self, index: usize) -> bool {
        let (perturbed, others) = (self.options.perturbed_members(), self.options.members - 1);
        index > 0 && (index * perturbed) / others > ((index - 1) * perturbed) / others
    }

    fn report(&self, results: &[Counts], processors: f64) -> GossipReport {
        let options = &self.options;
        let seconds = options.duration.as_secs_f64();
        let of = |perturbed: bool| {
            let counts = results.iter().enumerate().skip(1);
            counts
                .filter(move |(index, _)| self.is_perturbed(*index) == perturbed)
                .map(|(_, counts)| counts)
        };
        let lost = |perturbed: bool| of(perturbed).map(|counts| counts.lost).sum();
        let healthy = Throughput::over(of(false).map(|counts| counts.delivered as f64 / seconds));
        let mut latencies = Latencies::default();
        for counts in of(false) {
            latencies.merge(&counts.latencies);
        }
        GossipReport {
            healthy,
            perturbed: Throughput::over(of(true).map(|counts| counts.delivered as f64 / seconds)),
            within_one_percent: healthy.min >= 0.99 * options.rate
                && healthy.max <= 1.01 * options.rate,
            latency_us: LatencySummary::from(&latencies),
            sent_per_s: results[0].delivered as f64 / seconds,
            healthy_lost: lost(false),
            perturbed_lost: lost(true),
            kernel_drops: results.iter().map(|counts| counts.kernel_drops).sum(),
            processors,
            conditions: Conditions {
                protocol: options.carrier.name(),
                members: options.members,
                rate: options.rate,
                size: options.size,
                sleep: options.sleep,
                duration_s: seconds,
                encrypt: options.encrypt,
                cores: thread::available_parallelism().map_or(1, usize::from),
            },
        }
    }
}

impl Throughput {
    fn over(rates: impl Iterator<Item = f64>) -> Self {
        let rates: Vec<f64> = rates.collect();
        if rates.is_empty() {
            return Self::default();
        }
        Self {
            members: rates.len(),
            mean: rates.iter().sum::<f64>() / rates.len() as f64,
            min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            max: rates.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// What a member counted in the window.
struct Counts {
    /// Messages delivered; at the sender, sent.
    delivered: u64,
    /// Messages reported as lost.
    lost: u64,
    latencies: Latencies,
    kernel_drops: u64,
}

/// A member at work.
struct Member<'a> {
    bench: &'a Bench,
    endpoint: Endpoint<Box<dyn Ordered>>,
    counts: Counts,
    window: Option<Window>,
    together: bool,
}

impl<'a> Member<'a> {
    fn run(bench: &'a Bench, index: usize) -> Result<Counts, BenchError> {
        let mut member = Self {
            bench,
            endpoint: open(bench, index)?,
            counts: Counts {
                delivered: 0,
                lost: 0,
                latencies: Latencies::default(),
                kernel_drops: 0,
            },
            window: None,
            together: false,
        };
        bench.opened.fetch_add(1, Ordering::Relaxed);
        while bench.opened.load(Ordering::Relaxed) < bench.options.members {
            if bench.failed.load(Ordering::Relaxed) {
                return Ok(member.counts);
            }
            thread::sleep(LOOK_UP);
        }
        member.begin(index)?;
        let Some(window) = member.await_window()? else {
            return Ok(member.counts);
        };
        match (index, bench.is_perturbed(index)) {
            (0, _) => member.send(window)?,
            (_, perturbed) => member.receive(window, perturbed, index)?,
        }
        let counters = member.endpoint.counters();
        member.counts.kernel_drops = counters.control.kernel_drops + counters.data.kernel_drops;
        Ok(member.counts)
    }

    /// Begins the protocol, once everybody's sockets are open.
    fn begin(&mut self, index: usize) -> Result<(), BenchError> {
        let now = self.endpoint.now();
        let (local, _) = self.bench.roster[index];
        let rng = Rng::new(self.bench.seed).fork(&format!("protocol {index}"));
        let mut protocol = protocol(&self.bench.options, local, rng, now)?;
        let node = self.endpoint.node_mut();
        for (peer, address) in &self.bench.roster {
            if *peer != local {
                node.trust(now, *peer, SocketAddr::V4(*address));
                protocol.meet(now, *peer);
            }
        }
        node.open(CHANNEL, protocol);
        if self.bench.options.carrier == Carrier::Pbcast {
            self.is_together();
        }
        Ok(())
    }

    fn is_together(&mut self) {
        if !std::mem::replace(&mut self.together, true) {
            self.bench.together.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps the protocol going until all are together; `None` if they never were.
    fn await_window(&mut self) -> Result<Option<Window>, BenchError> {
        loop {
            if let Some(window) = self.bench.window.get() {
                self.window = Some(*window);
                return Ok(Some(*window));
            }
            if self.bench.failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.turn(LOOK_UP)?;
        }
    }

    /// Sends at the rate from now until the window ends.
    fn send(&mut self, window: Window) -> Result<(), BenchError> {
        let options = self.bench.options;
        let start = clock::now();
        let mut payload = vec![b'.'; options.size];
        let mut index = 0;
        loop {
            let now = clock::now();
            if now >= window.until {
                return Ok(());
            }
            let due = start + (index as f64 * 1e9 / options.rate) as Instant;
            if due > now {
                self.turn(Duration::from_nanos(due.min(window.until) - now))?;
                continue;
            }
            let stamp = Stamp {
                sender: 1,
                index,
                sent: due,
            };
            stamp.write(&mut payload);
            let bytes = Bytes::copy_from_slice(&payload);
            let at = self.endpoint.now();
            let service = options.carrier.service();
            let protocol = self.endpoint.node_mut().instance_mut(CHANNEL);
            let protocol = protocol.expect("begun before the window");
            match protocol.submit(at, service, bytes) {
                Ok(_) => self.counts.delivered += u64::from(window.contains(now)),
                // A source does not wait: what cannot be sent when it is due never is.
                Err(SubmitError::Full { .. }) => {}
                Err(error) => return Err(BenchError::client("submit", error)),
            }
            index += 1;
        }
    }

    /// Receives until the window ends; a perturbed member sleeps now and then.
    fn receive(&mut self, window: Window, perturbed: bool, index: usize) -> Result<(), BenchError> {
        let mut rng = Rng::new(self.bench.seed).fork(&format!("sleep {index}"));
        // Members decide at different times.
        let mut decide = clock::now() + rng.below(clock::nanos(SLEEP));
        loop {
            let now = clock::now();
            if now >= window.until {
                return Ok(());
            }
            let mut until = window.until;
            if perturbed {
                if now >= decide {
                    decide = now.max(decide + clock::nanos(SLEEP));
                    if rng.chance(self.bench.options.sleep) {
                        clock::sleep_until(decide.min(window.until));
                        continue;
                    }
                }
                until = until.min(decide);
            }
            self.turn(Duration::from_nanos(until.saturating_sub(now)))?;
        }
    }

    /// One turn of the endpoint, and what came of it.
    fn turn(&mut self, patience: Duration) -> Result<(), BenchError> {
        let mut ready = Vec::new();
        self.endpoint
            .turn(Some(patience), &mut ready)
            .map_err(BenchError::io("drive a member"))?;
        let now = clock::now();
        while let Some((_, event)) = self.endpoint.node_mut().poll_event() {
            self.take(now, event)?;
        }
        while self.endpoint.node_mut().poll_transition().is_some() {}
        Ok(())
    }

    fn take(&mut self, now: Instant, event: Event) -> Result<(), BenchError> {
        let counts = self.window.is_some_and(|window| window.contains(now));
        let local = self.endpoint.node().local();
        match event {
            Event::Deliver(delivery) if counts && delivery.id.sender != local => {
                let stamp = Stamp::read(&delivery.payload)
                    .ok_or_else(|| BenchError::client("receive", "a message without a stamp"))?;
                self.counts.delivered += 1;
                self.counts.latencies.add(now.saturating_sub(stamp.sent));
            }
            Event::Gap(gap) if counts => self.counts.lost += gap.last - gap.first + 1,
            Event::Configuration(config) if config.members.len() == self.bench.roster.len() => {
                self.is_together();
            }
            _ => {}
        }
        Ok(())
    }
}

/// The sockets of member `index`, without a protocol yet.
fn open(bench: &Bench, index: usize) -> Result<Endpoint<Box<dyn Ordered>>, BenchError> {
    let (local, listen) = bench.roster[index];
    let sealer: Box<dyn Sealer> = match &bench.key {
        Some(key) => Box::new(AesGcmSealer::new(key, local.incarnation)),
        None => Box::new(InsecureSealer),
    };
    let config = EndpointConfig::multicast(listen, bench.group);
    let node = NodeConfig {
        local,
        reach: config.reach(),
        admission: AdmissionConfig::default(),
    };
    let rng = Rng::new(bench.seed).fork(&format!("node {index}"));
    let node = Node::new(node, sealer, &rng);
    Endpoint::open(config, node).map_err(|error| BenchError::client("start a member", error))
}

/// The protocol of a member, set up as 004 ch. 4 has it.
fn protocol(
    options: &GossipOptions,
    local: MemberId,
    rng: Rng,
    now: groupcast_core::Time,
) -> Result<Box<dyn Ordered>, BenchError> {
    let failed = |error: &dyn fmt::Display| BenchError::client("set up a member", error);
    let body_max = options.size + 1_000;
    let queue_max = options.size * WAITING;
    Ok(match options.carrier {
        Carrier::Pbcast => {
            let config = GossipConfig {
                // 004 4.3.1: each gossips to two a round; the variants that multicast repairs come in its chapter 5.
                sub_gsize: 2,
                variant: Variant::Basic,
                ..GossipConfig::lan()
            };
            Box::new(Gossip::new(config, local, rng, now).map_err(|error| failed(&error))?)
        }
        Carrier::Ring => {
            let config = RingConfig {
                body_max,
                queue_max,
                members_max: options.members.max(2),
                token_loss_min: NEVER,
                token_loss_max: NEVER * 2,
                fail_to_receive: NEVER,
                ..RingConfig::lan()
            };
            Box::new(Ring::new(config, local, rng, now).map_err(|error| failed(&error))?)
        }
        Carrier::Windowed => {
            let config = WindowedConfig {
                window: WINDOW,
                ack_every: WINDOW / 4,
                body_max,
                queue_max,
                ..WindowedConfig::of(options.members)
            };
            Box::new(Windowed::new(config, local, rng, now).map_err(|error| failed(&error))?)
        }
    })
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

impl fmt::Display for GossipReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions {
            protocol,
            members,
            rate,
            size,
            sleep,
            duration_s,
            encrypt,
            cores,
        } = &self.conditions;
        let line = |f: &mut fmt::Formatter<'_>, what: &str, over: &Throughput| {
            writeln!(
                f,
                "{what:<10} {:>4} members: {:8.2} msg/s (least {:.2}, most {:.2})",
                over.members, over.mean, over.min, over.max
            )
        };
        writeln!(
            f,
            "{protocol}: {members} members, {rate} messages of {size} bytes a second for {duration_s} s, {}",
            if *encrypt { "encrypted" } else { "in clear" }
        )?;
        line(f, "healthy", &self.healthy)?;
        line(f, "perturbed", &self.perturbed)?;
        writeln!(
            f,
            "perturbed members sleep through {sleep} of all intervals of {} ms",
            SLEEP.as_millis()
        )?;
        writeln!(
            f,
            "sent       {:8.2} msg/s; healthy members within 1 % of the rate: {}",
            self.sent_per_s,
            if self.within_one_percent { "yes" } else { "no" }
        )?;
        writeln!(
            f,
            "latency    mean {:.0} µs, median {:.0} µs, 99 % {:.0} µs (healthy)",
            self.latency_us.mean, self.latency_us.p50, self.latency_us.p99
        )?;
        write!(
            f,
            "lost       healthy {}, perturbed {}; {} datagrams beyond receive buffers; {:.2} of {cores} processors busy",
            self.healthy_lost, self.perturbed_lost, self.kernel_drops, self.processors
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(members: usize, perturbed: f64) -> GossipOptions {
        GossipOptions {
            members,
            rate: 50.0,
            size: 200,
            perturbed,
            sleep: 0.5,
            carrier: Carrier::Pbcast,
            warm_up: Duration::from_millis(100),
            duration: Duration::from_millis(400),
            encrypt: true,
        }
    }

    #[test]
    fn as_many_are_perturbed_as_the_share_says_and_never_the_sender() {
        for (members, share, perturbed) in [(128, 0.25, 32), (8, 0.5, 4), (2, 1.0, 1), (9, 0.0, 0)]
        {
            let bench = Bench::new(&options(members, share)).unwrap();
            let count = (0..members).filter(|index| bench.is_perturbed(*index));
            assert_eq!(count.count(), perturbed, "{members} {share}");
            assert!(!bench.is_perturbed(0));
        }
    }

    #[test]
    fn a_small_group_delivers_what_is_sent_by_every_carrier() {
        for carrier in [Carrier::Pbcast, Carrier::Ring, Carrier::Windowed] {
            let report = run(&GossipOptions {
                carrier,
                sleep: 0.0,
                ..options(4, 0.25)
            })
            .unwrap();
            assert!(report.sent_per_s > 10.0, "{report}");
            assert!(report.healthy.mean > 10.0, "{report}");
            assert_eq!((report.healthy.members, report.perturbed.members), (2, 1));
        }
    }
}
