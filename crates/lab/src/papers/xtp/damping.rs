//! How many answers a request of XTP brings to the sender (003 3.3.3): undamped, damped, in slots,
//! and both; over the number of receivers, the delay from sending an answer to dropping others by
//! it, and what a datagram costs a host.
//!
//! The law: of N receivers that answer at random times in a slot S, the first one's answer is heard
//! d later; who would have answered in between does, too. So 1 + N·d/S − (d/S)^N answers come for a
//! delay d that is constant.

use std::time::Duration;

use groupcast_core::{Service, Time};
use groupcast_protocols::bulk::{
    self, BulkConfig, Control, Damping, Messages, MessagesConfig, Policy, RateControl, Slot,
    SlowPolicy, Wanted, Xtp,
};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::host::config::{Cost, Effect};
use groupcast_sim::link::LinkSpec;
use groupcast_sim::measure::{HostMeasures, Measures};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::{Kind, Topology};

use super::super::plot::{Axis, Point, Series};
use super::super::points::Points;
use super::super::{Cell, Context, Data, Plot, RunError, Verdict, figure};

/// The slot of all points, in milliseconds.
const SLOT: f64 = 10.0;
/// Numbers of receivers.
const RECEIVERS: [u32; 7] = [2, 5, 10, 20, 50, 100, 200];
/// The delay of points that are not about it, in milliseconds.
const USUAL_DELAY: f64 = 1.0;
/// Bytes of a packet, each of which asks.
const PACKET: usize = 256;
/// Bytes of its header.
const HEADER: usize = 24;
/// When the message is sent: all know each other from the start.
const BEGIN: Duration = Duration::from_millis(100);

/// What keeps answers from the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    /// Nothing.
    None,
    /// Answers that wait are dropped when another's is heard; none waits.
    Damping,
    /// Answers wait for a random time.
    Slotting,
    /// Both.
    Both,
}

impl Means {
    const ALL: [Self; 4] = [Self::None, Self::Damping, Self::Slotting, Self::Both];

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Damping => "damping",
            Self::Slotting => "slotting",
            Self::Both => "both",
        }
    }
}

/// One point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DampingPoint {
    means: Means,
    receivers: u32,
    /// From sending an answer until another host has it, in milliseconds.
    delay: f64,
    /// What a datagram costs a host that receives it, in microseconds.
    price: f64,
}

/// What came of a request, in the mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    requests: f64,
    /// Answers that were sent.
    answers: f64,
    /// Answers that came after their bucket was acted on.
    late: f64,
}

/// What the law says of the answers to a request.
fn law(receivers: f64, delay: f64) -> f64 {
    let share = (delay / SLOT).min(1.0);
    match share < 1.0 {
        true => 1.0 + receivers * share - share.powf(receivers),
        false => receivers,
    }
}

pub(super) fn plan(quick: bool) -> Vec<DampingPoint> {
    let (receivers, delays, prices): (&[u32], &[f64], &[f64]) = match quick {
        true => (&[2, 20], &[1.0], &[100.0]),
        false => (
            &RECEIVERS,
            &[0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0],
            &[20.0, 100.0, 500.0],
        ),
    };
    let point = |means, receivers, delay, price| DampingPoint {
        means,
        receivers,
        delay,
        price,
    };
    let mut plan = Vec::new();
    for receivers in receivers {
        for means in Means::ALL {
            let delays = match means {
                Means::Both => delays,
                _ => &[USUAL_DELAY],
            };
            plan.extend(
                delays
                    .iter()
                    .map(|delay| point(means, *receivers, *delay, 0.0)),
            );
        }
        let priced = prices.iter();
        plan.extend(priced.map(|price| point(Means::Both, *receivers, USUAL_DELAY, *price)));
    }
    plan
}

impl DampingPoint {
    /// How often the sender asks. Without chance in the number of answers few times are enough.
    fn requests(&self, quick: bool) -> u32 {
        let requests = match self.means {
            Means::Both => (10_000 / self.receivers).clamp(100, 2_000),
            _ => 20,
        };
        if quick { requests.min(200) } else { requests }
    }

    /// From a request to the next, so that no answers to two wait at once.
    fn interval(&self) -> Duration {
        let answers = f64::from(self.receivers) * self.price / 1e3;
        Duration::from_secs_f64((2.0 * SLOT + 4.0 * self.delay + 2.0 * answers) / 1e3)
    }

    fn settings(&self) -> MessagesConfig {
        let slotted = matches!(self.means, Means::Slotting | Means::Both);
        let damped = matches!(self.means, Means::Damping | Means::Both);
        let xtp = Xtp {
            every: 1,
            control: Control {
                multicast: true,
                damping: if damped {
                    Damping::Request
                } else {
                    Damping::Off
                },
                slot: match slotted {
                    true => Slot::UpTo(Duration::from_secs_f64(SLOT / 1e3)),
                    false => Slot::None,
                },
            },
            buckets: 1_024,
            ..Xtp::for_window(4_096)
        };
        let bytes = (PACKET + HEADER) as f64;
        MessagesConfig {
            bulk: BulkConfig {
                policy: Policy::Xtp(xtp),
                block: None,
                window: 4_096,
                packet: PACKET,
                rate: RateControl::Fixed {
                    bytes_per_second: (bytes / self.interval().as_secs_f64()) as u64,
                },
                slow: SlowPolicy::Wait,
                ..BulkConfig::lan()
            },
            receivers: Wanted::Count(self.receivers as usize),
            ..MessagesConfig::default()
        }
    }

    /// Hosts around a point to which and from which everything takes half the delay.
    fn topology(&self) -> Topology {
        let mut topology = Topology::new();
        let middle = topology.add(Kind::Plain);
        let half = Duration::from_secs_f64(self.delay / 2e3);
        for _ in 0..=self.receivers {
            let host = topology.add(Kind::Plain);
            topology.connect(host, middle, LinkSpec::ideal(0, half));
            topology.place_host(host);
        }
        topology
    }

    fn measure(&self, requests: u32, seed: u64) -> Result<Measured, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
        let mut config = ExperimentConfig::new(self.topology(), bulk::inspect, seed);
        config.acquainted = self.receivers as usize;
        config.hosts = HostConfig {
            receive: Cost::per_call(Duration::from_nanos((self.price * 1e3) as u64)),
            effect: Effect::End,
            ..HostConfig::free()
        };
        let settings = self.settings();
        settings.bulk.validate().map_err(|error| failed(&error))?;
        let mut experiment = Experiment::new(config, move |local, rng, _| {
            Messages::new(local, settings.clone(), rng).expect("the settings were checked")
        });
        experiment.start_all();
        let source = SourceConfig {
            start: Time::ZERO + BEGIN,
            ..SourceConfig::new(
                Arrivals::Trace([(Duration::ZERO, requests * PACKET as u32)].into()),
                0,
                Service::Reliable,
            )
        };
        experiment
            .add_source(0, source)
            .map_err(|error| failed(&error))?;
        experiment.run_to(Time::ZERO + BEGIN + self.interval() * (requests + 5) * 2);
        let measures = experiment.finish().map_err(|error| failed(&error))?;
        Ok(self.read(&measures))
    }

    fn read(&self, measures: &Measures) -> Measured {
        let (sender, receivers) = (&measures.hosts[0], &measures.hosts[1..]);
        let sent = |kind: &str| {
            let kinds = sender.kinds.iter().filter(|count| count.kind == kind);
            kinds.map(|count| count.packets.sent).sum::<u64>() as f64
        };
        let counted = |host: &HostMeasures, name: &str| {
            let counted = host.usage.counter(name);
            counted.unwrap_or_default() as f64
        };
        // Every receiver has an answer to every request: nothing is lost.
        let requests = sent("data") + sent("request");
        let damped: f64 = receivers
            .iter()
            .map(|host| counted(host, "answers damped"))
            .sum();
        let is_whole = measures.hosts.iter().all(|host| host.delivered == 1);
        let answers = f64::from(self.receivers) - damped / requests;
        Measured {
            requests,
            answers: if is_whole { answers } else { f64::NAN },
            late: counted(sender, "answers late") / requests,
        }
    }
}

impl figure::Point for DampingPoint {
    type Measured = Measured;

    fn conditions(_: &Context<'_>, _: &[Self], data: &mut Data) {
        data.condition("slot", format!("{SLOT} ms"));
        data.condition(
            "network",
            "every datagram takes the delay, none is lost; a sender's own way to each host is as long",
        );
        data.condition(
            "requests",
            "every packet asks, the next when all answers to the one before have come",
        );
        data.condition(
            "damping",
            "within one request, of what says nothing smaller (ours; without loss 003's rule on rseq \
             drops the same)",
        );
        data.condition(
            "price",
            "what a received datagram costs a host, the sender too: it delays the dropping of \
             answers as a queue does",
        );
    }

    fn simulate(&self, context: &Context<'_>, seed: u64) -> Result<Measured, RunError> {
        self.measure(self.requests(context.options().quick), seed)
    }

    fn on_sockets(_: &Context<'_>, _: &[Self]) -> Result<Vec<(Self, u64, Measured)>, RunError> {
        Err(RunError::Unavailable(
            "a constant delay exists in the simulator alone".to_owned(),
        ))
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("means", ""),
            ("receivers", ""),
            ("delay", "ms"),
            ("price", "µs"),
            ("seed", ""),
            ("requests", ""),
            ("answers", "a request"),
            ("law", "a request"),
            ("late", "a request"),
        ]
    }

    fn row(&self, seed: u64, measured: &Measured) -> Vec<Cell> {
        vec![
            self.means.name().into(),
            self.receivers.into(),
            self.delay.into(),
            self.price.into(),
            seed.into(),
            measured.requests.into(),
            measured.answers.into(),
            law(self.receivers.into(), self.delay).into(),
            measured.late.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        Self::columns()
    }

    fn sweep_row(&self, measured: &Measured) -> Vec<Cell> {
        self.row(0, measured)
    }
}

/// What 003 says of damping and slotting.
pub(super) fn judge(data: &Data, verdict: &mut Verdict) {
    let all = Points::read(data);
    let plain = all.at("price", 0.0);
    let usual = plain.at("delay", USUAL_DELAY);
    for (means, claim) in [
        ("none", "undamped: N answers a request, exactly"),
        (
            "damping",
            "damping alone: N as well; an answer that leaves at once is not overtaken",
        ),
        (
            "slotting",
            "slotting alone: N as well, spread over the slot",
        ),
    ] {
        let curve = usual.of("means", means).curve("receivers", "answers");
        let exact = curve.iter().all(|(n, answers)| n == answers);
        verdict.check(curve.len() >= 2 && exact, claim, words(&curve));
    }
    let both = plain.of("means", "both");
    law_holds(&both, verdict);
    let cut = usual.of("means", "both").curve("receivers", "answers");
    verdict.check(
        cut.len() >= 2 && cut.iter().all(|(n, answers)| answers < n),
        "both together, delay a tenth of the slot: fewer than N",
        words(&cut),
    );
    priced(&all, verdict);
}

/// The law, at every number of receivers and every delay.
fn law_holds(both: &Points<'_>, verdict: &mut Verdict) {
    let (mut worst, mut where_at, mut count) = (0.0_f64, String::new(), 0);
    for delay in both.different("delay") {
        let of = both.at("delay", delay);
        for receivers in of.different("receivers") {
            let at = of.at("receivers", receivers);
            let off = (at.mean("answers") / at.mean("law") - 1.0).abs();
            count += 1;
            if off > worst || off.is_nan() {
                worst = off;
                where_at = format!("N = {receivers}, delay {delay} ms");
            }
        }
    }
    verdict.check(
        count >= 2 && worst <= 0.05,
        "both together: 1 + N·d/S − (d/S)^N answers a request, within 5 % at every N and delay",
        format!("{:.2} % off at most ({where_at})", worst * 100.0),
    );
    let most = both.different("receivers").last().copied();
    let curve = both
        .at("receivers", most.unwrap_or(f64::NAN))
        .curve("delay", "answers");
    verdict.note(format!(
        "how far it goes depends on the timing, as 003 warns: of {} receivers answer, by delay in \
         ms in a slot of {SLOT}: {}",
        most.unwrap_or(f64::NAN),
        words(&curve)
    ));
}

/// What a host's price does to it.
fn priced(all: &Points<'_>, verdict: &mut Verdict) {
    let both = all.of("means", "both").at("delay", USUAL_DELAY);
    for price in both.different("price").into_iter().filter(|it| *it > 0.0) {
        let curve = both.at("price", price).curve("receivers", "answers");
        verdict.note(format!(
            "with {price} µs a received datagram: {}; the law, which knows no processor, says {}",
            words(&curve),
            words(&both.at("price", price).curve("receivers", "law")),
        ));
    }
}

fn words(curve: &[(f64, f64)]) -> String {
    let each = curve.iter().map(|(x, y)| format!("{x}: {y:.4}"));
    let each: Vec<String> = each
        .map(|it| match it.contains('.') {
            true => it.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => it,
        })
        .collect();
    each.join(", ")
}

pub(super) fn draw(data: &Data) -> Vec<Plot> {
    let all = Points::read(data);
    let (plain, axis) = (all.at("price", 0.0), || Axis::log("receivers", ""));
    let mut by_receivers = Plot::new(
        format!("delay {USUAL_DELAY} ms, slot {SLOT} ms"),
        axis(),
        Axis::log("answers", "a request"),
    );
    for means in Means::ALL {
        let of = plain.at("delay", USUAL_DELAY).of("means", means.name());
        by_receivers = by_receivers.with(Series::line(means.name(), barred(&of)));
    }
    for price in all.different("price").into_iter().filter(|it| *it > 0.0) {
        let name = format!("both, {price} µs a datagram");
        by_receivers = by_receivers.with(Series::line(name, barred(&all.at("price", price))));
    }
    let mut by_delay = Plot::new(
        "both, by delay; dashed: the law",
        axis(),
        Axis::log("answers", "a request"),
    );
    let both = plain.of("means", "both");
    for (colour, delay) in both.different("delay").into_iter().enumerate() {
        let of = both.at("delay", delay);
        by_delay = by_delay
            .with(Series::line(format!("{delay} ms"), barred(&of)).colour(colour))
            .with(
                Series::line(format!("{delay} ms, law"), of.curve("receivers", "law"))
                    .colour(colour)
                    .dashed(),
            );
    }
    vec![by_receivers, by_delay]
}

/// Answers by receivers, with the range over seeds as bars.
fn barred(points: &Points<'_>) -> Vec<Point> {
    let each = |receivers: f64| {
        let of = points.at("receivers", receivers);
        let (least, most) = of.range("answers");
        Point::with_bar(receivers, of.mean("answers"), least, most)
    };
    points
        .different("receivers")
        .into_iter()
        .map(each)
        .collect()
}
