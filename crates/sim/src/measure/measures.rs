//! The results of a run: of each host, of each direction of a link, and overall.

use std::time::Duration;

use groupcast_core::Time;
use serde::Serialize;

use super::MeterConfig;
use super::distribution::Distribution;
use super::host::{HostMeter, Installed, Ran, Window};
use super::meter::Meter;
use super::seconds;
use super::traffic::{KindCount, Traffic};
use super::usage::{HostUse, LinkUse};
use crate::flow::FlowUse;

/// What a run comes to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measures {
    /// How long was measured: from the end of the warm-up to the end.
    #[serde(rename = "measured_s", serialize_with = "seconds::serialize")]
    pub measured: Duration,
    /// What the warm-up left out.
    #[serde(rename = "warm_up_s", serialize_with = "seconds::serialize")]
    pub warm_up: Duration,
    /// The length of a window.
    #[serde(rename = "window_s", serialize_with = "seconds::serialize")]
    pub window: Duration,
    /// All hosts together.
    pub overall: Overall,
    /// The measures of each host, by its index.
    pub hosts: Vec<HostMeasures>,
    /// As they were given.
    pub links: Vec<LinkUse>,
    /// What TCP-like flows did, by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowUse>,
}

/// All hosts together. A *receiver* is a host that ran from before the end of the warm-up to the
/// end and to which another host sent messages. If there is no such host, every host that delivered
/// anything is a receiver.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Overall {
    /// How many receivers there are.
    pub receivers: usize,
    /// Messages that protocols took.
    pub submitted: u64,
    /// Messages that they, or the queues before them, did not take.
    pub refused: u64,
    /// Deliveries at all hosts.
    pub delivered: u64,
    /// Deliveries that did not happen at receivers. `None` if there was no receiver that ran all
    /// the time.
    pub missing: Option<u64>,
    /// Payloads that arrived again, at all hosts.
    pub duplicates: u64,
    /// Deliveries a second, mean over receivers.
    pub throughput_mean: f64,
    /// Deliveries a second at the slowest receiver.
    pub throughput_slowest: f64,
    /// Bits of payload delivered a second, mean over receivers.
    pub goodput_mean_bps: f64,
    /// The same at the slowest receiver.
    pub goodput_slowest_bps: f64,
    /// From the offer to the delivery, after ordering. All hosts.
    pub latency: Distribution,
    /// From the offer to the first arrival, before ordering. All hosts.
    pub arrival: Distribution,
    /// Between deliveries at a host. All hosts.
    pub gap: Distribution,
    /// Between first arrivals at a host. All hosts.
    pub arrival_gap: Distribution,
    /// Datagrams of all hosts.
    pub traffic: Traffic,
    /// As of a host, over the messages of all hosts.
    pub interference: Option<f64>,
}

/// What one host did and saw.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostMeasures {
    /// The index of the host.
    pub host: usize,
    /// Whether its process ran from before the end of the warm-up to the end.
    pub whole: bool,
    /// Messages that its protocol took.
    pub submitted: u64,
    /// Their bytes.
    pub submitted_bytes: u64,
    /// Messages that were not taken.
    pub refused: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Messages that others submitted and that it did not deliver. `None` if its process did not
    /// run all the time.
    pub missing: Option<u64>,
    /// Messages delivered more than once: 0 if the protocol is right.
    pub redelivered: u64,
    /// Payloads that arrived again.
    pub duplicates: u64,
    /// Messages whose arrival was not seen before their delivery, because they came in pieces or in
    /// datagrams that could not be read. Their delivery counts as their arrival, so `arrival` is
    /// too high by these.
    pub unseen: u64,
    /// Deliveries a second.
    pub throughput: f64,
    /// Bits of payload delivered a second.
    pub goodput_bps: f64,
    /// From the offer to the delivery, after ordering.
    pub latency: Distribution,
    /// From the offer to the first arrival, before ordering. Own messages do not arrive.
    pub arrival: Distribution,
    /// Between deliveries.
    pub gap: Distribution,
    /// Between first arrivals.
    pub arrival_gap: Distribution,
    /// The share of messages whose first receipt was later than 1/rate + the path's delay (004
    /// 6.10), of those that were received. `None` if it is not known for any.
    pub interference: Option<f64>,
    /// Datagrams by role.
    pub traffic: Traffic,
    /// Datagrams by kind, in the order of first use.
    pub kinds: Vec<KindCount>,
    /// Throughput, window by window; the last is shorter if the time does not divide.
    pub windows: Vec<Window>,
    /// How many configurations it installed.
    pub configurations: u64,
    /// The first of them since the start of the world, with their times.
    pub installed: Vec<Installed>,
    /// What it used.
    pub usage: HostUse,
    #[serde(skip)]
    expected: u64,
    #[serde(skip)]
    late: u64,
}

impl Measures {
    pub(super) fn of(meter: Meter, now: Time, links: Vec<LinkUse>, hosts: Vec<HostUse>) -> Self {
        let warm_up = meter.config.warm_up;
        let measured = (now - Time::ZERO).saturating_sub(warm_up);
        let missing: Vec<_> = (0..meter.hosts.len())
            .map(|host| missing(&meter, host, now))
            .collect();
        let Meter {
            config,
            hosts: meters,
            ..
        } = meter;
        let mut hosts = hosts.into_iter();
        let hosts: Vec<_> = meters
            .into_iter()
            .zip(missing)
            .enumerate()
            .map(|(index, (meter, missing))| {
                let usage = hosts.next().unwrap_or_default();
                host_measures(index, meter, missing, measured, &config, usage)
            })
            .collect();
        Self {
            measured,
            warm_up,
            window: config.window,
            overall: Overall::of(&hosts, &config),
            hosts,
            links,
            flows: Vec::new(),
        }
    }

    /// The mean of a host's deliveries a second and their variance, over its windows that are
    /// complete. `None` if none is.
    pub fn window_throughput(&self, host: usize) -> Option<(f64, f64)> {
        let windows = self.complete_windows(host);
        let count = windows.len() as f64;
        let rates = || {
            let seconds = self.window.as_secs_f64();
            windows
                .iter()
                .map(move |it| f64::from(it.delivered) / seconds)
        };
        let mean = rates().sum::<f64>() / count;
        let variance = rates().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
        (!windows.is_empty()).then_some((mean, variance))
    }

    /// The windows of a host but for a last one that the end cut short.
    pub fn complete_windows(&self, host: usize) -> &[Window] {
        let windows = &self.hosts[host].windows;
        let complete = self.measured.as_nanos() / self.window.as_nanos().max(1);
        &windows[..windows.len().min(complete as usize)]
    }

    /// A count per second of what was measured.
    pub fn rate(&self, count: u64) -> f64 {
        rate(count, self.measured)
    }
}

impl Overall {
    fn of(hosts: &[HostMeasures], config: &MeterConfig) -> Self {
        let whole: Vec<_> = hosts.iter().filter(|host| host.missing.is_some()).collect();
        let ran = || hosts.iter().filter(|host| host.delivered > 0);
        let receivers = if whole.is_empty() {
            ran().collect()
        } else {
            whole.clone()
        };
        let mean = |of: fn(&HostMeasures) -> f64| {
            // `sum` of no numbers is -0.
            let sum = receivers.iter().fold(0.0, |sum, host| sum + of(host));
            sum / receivers.len().max(1) as f64
        };
        let least = |of: fn(&HostMeasures) -> f64| {
            let all = receivers.iter().map(|host| of(host));
            all.reduce(f64::min).unwrap_or(0.0)
        };
        let sum = |of: fn(&HostMeasures) -> u64| hosts.iter().map(of).sum::<u64>();
        let merged = |of: fn(&HostMeasures) -> &Distribution| {
            let mut all = Distribution::new(config.bins);
            hosts.iter().for_each(|host| all.merge(of(host)));
            all
        };
        let mut traffic = Traffic::default();
        hosts.iter().for_each(|host| traffic.add(&host.traffic));
        Self {
            receivers: receivers.len(),
            submitted: sum(|host| host.submitted),
            refused: sum(|host| host.refused),
            delivered: sum(|host| host.delivered),
            missing: (!whole.is_empty()).then(|| sum(|host| host.missing.unwrap_or(0))),
            duplicates: sum(|host| host.duplicates),
            throughput_mean: mean(|host| host.throughput),
            throughput_slowest: least(|host| host.throughput),
            goodput_mean_bps: mean(|host| host.goodput_bps),
            goodput_slowest_bps: least(|host| host.goodput_bps),
            latency: merged(|host| &host.latency),
            arrival: merged(|host| &host.arrival),
            gap: merged(|host| &host.gap),
            arrival_gap: merged(|host| &host.arrival_gap),
            traffic,
            interference: share(sum(|host| host.late), sum(|host| host.expected)),
        }
    }
}

/// What `host` should have delivered and did not; `None` unless it ran all the time and another
/// host sent it something.
fn missing(meter: &Meter, host: usize, now: Time) -> Option<u64> {
    let receiver = &meter.hosts[host];
    if !is_whole(receiver, &meter.config) {
        return None;
    }
    let limit = (now - Time::ZERO)
        .checked_sub(meter.config.grace)
        .map(|end| Time::ZERO + end);
    let senders = (meter.senders.iter().enumerate())
        .filter(|(_, sender)| meter.config.own || **sender != host);
    let mut any = false;
    let mut total = 0;
    for (ordinal, sender) in senders {
        any = true;
        let due = limit.and_then(|limit| meter.hosts[*sender].issued.due(limit));
        if let Some((first, until, void)) = due {
            let missing = match receiver.streams.get(ordinal) {
                Some(stream) => stream.delivered.missing(first, until),
                None => u64::from(until - first),
            };
            total += missing.saturating_sub(void);
        }
    }
    any.then_some(total)
}

fn is_whole(meter: &HostMeter, config: &MeterConfig) -> bool {
    matches!(meter.ran, Ran::Since(start) if start <= Time::ZERO + config.warm_up)
}

fn host_measures(
    host: usize,
    meter: HostMeter,
    missing: Option<u64>,
    measured: Duration,
    config: &MeterConfig,
    usage: HostUse,
) -> HostMeasures {
    let whole = is_whole(&meter, config);
    let mut windows = meter.windows;
    let all = measured
        .as_nanos()
        .div_ceil(config.window.as_nanos().max(1));
    // A delivery at the very end begins a window of no length.
    let all = windows.len().max(all as usize).min(config.windows_max);
    windows.resize(all, Window::default());
    HostMeasures {
        host,
        whole,
        submitted: meter.submitted,
        submitted_bytes: meter.submitted_bytes,
        refused: meter.refused,
        delivered: meter.delivered,
        delivered_bytes: meter.delivered_bytes,
        missing,
        redelivered: meter.redelivered,
        duplicates: meter.duplicates,
        unseen: meter.unseen,
        throughput: rate(meter.delivered, measured),
        goodput_bps: rate(meter.delivered_bytes * 8, measured),
        latency: meter.latency,
        arrival: meter.arrival,
        gap: meter.gap,
        arrival_gap: meter.arrival_gap,
        interference: share(meter.late, meter.expected),
        traffic: Traffic::from_kinds(&meter.kinds),
        kinds: meter.kinds,
        windows,
        configurations: meter.configurations,
        installed: meter.installed,
        usage,
        expected: meter.expected,
        late: meter.late,
    }
}

fn rate(count: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        count as f64 / time.as_secs_f64()
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
