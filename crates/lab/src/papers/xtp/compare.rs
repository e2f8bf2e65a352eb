//! The policies beside each other (003 ch. 3 and 6.2): control packets at the sender, latency and
//! throughput, to 2 to 200 receivers, without loss. NAPP, VMTP and MTP, which are no policies, send
//! the same messages.

use std::time::Duration;

use groupcast_core::trace::Inspect;
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};
use groupcast_protocols::bulk::{
    self, BulkConfig, Collectors, Control, Cp, Damping, Messages, MessagesConfig, Multidriver,
    Policy, Repair, Slot, Wanted, Xtp,
};
use groupcast_protocols::mtp::{self, Mtp, MtpConfig};
use groupcast_protocols::napp::{self, Napp, NappConfig};
use groupcast_protocols::vmtp::{self, Vmtp, VmtpConfig};
use groupcast_sim::HostConfig;
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::link::LinkSpec;
use groupcast_sim::measure::{HostMeasures, Measures, MeterConfig};
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::generate;

use super::super::data::RecordRef;
use super::super::plot::{Axis, Series};
use super::super::points::Points;
use super::super::{Cell, Context, Data, Plot, RunError, Verdict, figure};

/// Bytes of a large transfer, and of a packet.
const LARGE: u32 = 500_000;
const PACKET: u32 = 1_400;
/// Packets of the window: a ring needs more than there are receivers.
const WINDOW: u32 = 256;
/// From one poll to the next, 85 % of the window; receivers of a chain; from one request to the
/// next.
const POLL: u32 = 217;
const HEIGHT: u32 = 6;
const EVERY: u32 = 16;
/// How long XTP's answers wait at most.
const SLOT: Duration = Duration::from_millis(2);
/// Receivers that collect.
const COLLECTORS: u32 = 4;
/// Receivers of NAPP, at most: to twice as many its acknowledgements fill the switch.
const NAPP_MOST: u32 = 100;
/// Of all: a bucket of XTP lives as long.
const LEAST_TIME_OUT: Duration = Duration::from_millis(10);
const FIRST_TIME_OUT: Duration = Duration::from_millis(100);
/// When the measured transfer begins: a first one has gone to all.
const BEGIN: Duration = Duration::from_secs(4);
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(60);
/// Bits a second of every link, and what it takes besides.
const BANDWIDTH: u64 = 100_000_000;
const DELAY: Duration = Duration::from_micros(5);
/// What the switch keeps for all its ports.
const SWITCH: u64 = 8 << 20;

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum System {
    Ack,
    Nak,
    Ring,
    Tree,
    /// With our defaults.
    Xtp,
    /// As 003 has it: one bucket releases, damping by rseq.
    Xtp003,
    /// Undamped, at once.
    XtpPlain,
    Multidriver,
    List,
    /// As nak, by four collectors.
    Collectors,
    Cp,
    Napp,
    Vmtp,
    Mtp,
}

impl System {
    pub(super) const ALL: [Self; 14] = [
        Self::Ack,
        Self::Nak,
        Self::Ring,
        Self::Tree,
        Self::Xtp,
        Self::Xtp003,
        Self::XtpPlain,
        Self::Multidriver,
        Self::List,
        Self::Collectors,
        Self::Cp,
        Self::Napp,
        Self::Vmtp,
        Self::Mtp,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Nak => "nak",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Xtp => "xtp",
            Self::Xtp003 => "xtp, 003",
            Self::XtpPlain => "xtp, undamped",
            Self::Multidriver => "multidriver",
            Self::List => "list",
            Self::Collectors => "collectors",
            Self::Cp => "cp",
            Self::Napp => "napp",
            Self::Vmtp => "vmtp",
            Self::Mtp => "mtp",
        }
    }

    /// Its policy, if it is one of bulk transfers.
    fn policy(self) -> Option<Policy> {
        let usual = Xtp::for_window(WINDOW);
        let ours = Xtp {
            every: EVERY,
            control: Control {
                slot: Slot::UpTo(SLOT),
                ..usual.control
            },
            ..usual
        };
        let rounds = Multidriver {
            every: EVERY,
            ..Multidriver::for_window(WINDOW)
        };
        Some(match self {
            Self::Ack => Policy::Ack,
            Self::Nak => Policy::Nak { poll: POLL },
            Self::Ring => Policy::Ring,
            Self::Tree => Policy::Tree { height: HEIGHT },
            Self::Xtp => Policy::Xtp(ours),
            Self::Xtp003 => Policy::Xtp(Xtp {
                agree: 1,
                control: Control {
                    damping: Damping::Rseq,
                    ..ours.control
                },
                ..ours
            }),
            Self::XtpPlain => Policy::Xtp(Xtp {
                control: Control {
                    damping: Damping::Off,
                    slot: Slot::None,
                    ..ours.control
                },
                ..ours
            }),
            Self::Multidriver => Policy::Multidriver(rounds),
            Self::List => Policy::List(rounds),
            Self::Collectors => {
                let mut rule = Collectors::for_window(WINDOW);
                rule.every = POLL;
                rule.count = COLLECTORS;
                Policy::Collectors(rule)
            }
            Self::Cp => Policy::Cp(Cp::default()),
            Self::Napp | Self::Vmtp | Self::Mtp => return None,
        })
    }

    fn inspect(self) -> Inspect {
        match self {
            Self::Napp => napp::inspect,
            Self::Vmtp => vmtp::inspect,
            Self::Mtp => mtp::inspect,
            _ => bulk::inspect,
        }
    }

    /// Whether it sends many packets: for VMTP 003 describes requests of one alone (3.3.2).
    fn takes(self, bytes: u32) -> bool {
        self != Self::Vmtp || bytes <= PACKET
    }

    /// Control packets that come to the sender of `packets` packets, if that is a number that does
    /// not depend on time (001 Table 2).
    fn exact(self, packets: f64, receivers: f64) -> Option<f64> {
        match self {
            Self::Ack => Some(receivers * packets),
            Self::Nak => Some(receivers * (packets / f64::from(POLL)).ceil()),
            Self::Ring => Some(packets + receivers - 1.0),
            Self::Tree => Some(packets * (receivers / f64::from(HEIGHT)).ceil()),
            Self::Collectors => {
                let collectors = receivers.min(COLLECTORS.into());
                Some(collectors * (packets / f64::from(POLL)).ceil())
            }
            Self::Cp => Some(receivers * packets),
            // An ACK of each to a byte; of many packets as many as come in time.
            Self::Napp => (packets == 1.0).then_some(receivers),
            Self::Vmtp => Some(receivers),
            // The token, and that the master has accepted it.
            Self::Mtp => Some(2.0),
            _ => None,
        }
    }
}

/// One point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ComparePoint {
    system: System,
    receivers: u32,
    bytes: u32,
}

/// What was measured of one transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// From the offer until the sender knows that all have it, in milliseconds.
    time: f64,
    packets: f64,
    /// Acknowledgements, answers, replies, tokens and statuses that came to the sender.
    arrived: f64,
    /// Control packets that the sender sent meanwhile: requests, polls, acknowledgements, empty
    /// packets.
    sent: f64,
    /// Requests of XTP or rounds of the Multidriver.
    requests: f64,
    repairs: f64,
    /// Datagrams that found the sender's sockets full.
    overflowed: f64,
    /// What all hosts sent.
    all: f64,
}

pub(super) fn plan(quick: bool) -> Vec<ComparePoint> {
    let receivers: &[u32] = if quick {
        &[2, 12]
    } else {
        &[2, 5, 10, 20, 50, 100, 200]
    };
    let each = System::ALL.iter().flat_map(|system| {
        let sized = move |bytes| {
            receivers.iter().map(move |receivers| ComparePoint {
                system: *system,
                receivers: *receivers,
                bytes,
            })
        };
        let sizes = [1, LARGE].into_iter();
        sizes.filter(|bytes| system.takes(*bytes)).flat_map(sized)
    });
    each.collect()
}

impl ComparePoint {
    fn settings(&self, policy: Policy) -> MessagesConfig {
        let paper = BulkConfig::paper(policy, PACKET as usize, WINDOW);
        MessagesConfig {
            bulk: BulkConfig {
                reserve: false,
                rto_min: LEAST_TIME_OUT,
                rto_initial: FIRST_TIME_OUT,
                repair: match policy {
                    Policy::Cp(_) => Repair::Selective,
                    _ => paper.repair,
                },
                ..paper
            },
            receivers: Wanted::Count(self.receivers as usize),
            ..MessagesConfig::default()
        }
    }

    /// What makes a member.
    fn member(
        &self,
    ) -> Result<impl Fn(MemberId, Rng, Time) -> Box<dyn Instrumented> + use<>, RunError> {
        let settings = self.system.policy().map(|policy| self.settings(policy));
        if let Some(settings) = &settings {
            let valid = settings.bulk.validate();
            valid.map_err(|error| RunError::Failed(error.to_string()))?;
        }
        let system = self.system;
        let napp = NappConfig {
            window: WINDOW,
            receivers: self.receivers,
            ..NappConfig::default()
        };
        Ok(move |local, rng, now| -> Box<dyn Instrumented> {
            match (&settings, system) {
                (Some(settings), _) => {
                    let member = Messages::new(local, settings.clone(), rng);
                    Box::new(member.expect("the settings were checked"))
                }
                (None, System::Mtp) => {
                    let member = Mtp::new(local, MtpConfig::default(), rng, now);
                    Box::new(member.expect("the defaults are in their ranges"))
                }
                (None, System::Napp) => {
                    let member = Napp::new(local, napp.clone(), rng);
                    Box::new(member.expect("the settings are in their ranges"))
                }
                (None, _) => {
                    let member = Vmtp::new(local, VmtpConfig::default(), rng);
                    Box::new(member.expect("the defaults are in their ranges"))
                }
            }
        })
    }

    fn measure(&self, seed: u64) -> Result<Measured, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
        let link = LinkSpec::ethernet(BANDWIDTH, DELAY);
        let topology = generate::switch(self.receivers + 1, SWITCH, link);
        let mut topology = topology.map_err(|error| failed(&error))?;
        let stations: Vec<_> = topology.vertices().skip(1).collect();
        topology.place_hosts(stations);
        let mut config = ExperimentConfig::new(topology, self.system.inspect(), seed);
        config.hosts = HostConfig::pentium_650();
        config.acquainted = self.receivers as usize;
        config.measure = MeterConfig {
            warm_up: BEGIN,
            ..MeterConfig::default()
        };
        let mut experiment = Experiment::new(config, self.member()?);
        experiment.start_all();
        for (start, bytes) in [(Duration::from_millis(600), 1), (BEGIN, self.bytes)] {
            let arrivals = Arrivals::Trace([(Duration::ZERO, bytes)].into());
            let source = SourceConfig {
                start: Time::ZERO + start,
                ..SourceConfig::new(arrivals, 0, self.service())
            };
            experiment
                .add_source(0, source)
                .map_err(|error| failed(&error))?;
        }
        experiment.run_to(Time::ZERO + BEGIN + WITHIN);
        let measures = experiment.finish().map_err(|error| failed(&error))?;
        Ok(read(&measures))
    }

    fn service(&self) -> Service {
        match self.system {
            System::Mtp => Service::Unreliable,
            _ => Service::Reliable,
        }
    }
}

fn read(measures: &Measures) -> Measured {
    let sender = &measures.hosts[0];
    let sent = |kinds: &[&str]| {
        let of = sender.kinds.iter().filter(|it| kinds.contains(&it.kind));
        of.map(|count| count.packets.sent).sum::<u64>() as f64
    };
    let received = |host: &HostMeasures, kinds: &[&str]| {
        let of = host.kinds.iter().filter(|it| kinds.contains(&it.kind));
        of.map(|count| count.packets.received).sum::<u64>() as f64
    };
    // What says that somebody is there is sent without a message, too.
    let kinds = measures.hosts.iter().flat_map(|host| &host.kinds);
    let kinds = kinds.filter(|it| !["hello", "alive"].contains(&it.kind));
    let all = kinds.map(|count| count.packets.sent).sum::<u64>() as f64;
    let counter = |name: &str| sender.usage.counter(name).unwrap_or_default() as f64;
    let is_whole = measures.hosts.iter().all(|host| host.delivered == 1);
    let time = sender.latency.mean();
    let control = [
        "report",
        "nak",
        "nack",
        "composite",
        "response",
        "acknowledgement",
        "pack",
        "srej",
        "token",
        "status",
    ];
    Measured {
        time: time.filter(|_| is_whole).unwrap_or(f64::NAN) * 1e3,
        packets: sent(&["data"]),
        arrived: received(sender, &control),
        sent: sent(&[
            "request",
            "tag",
            "poll",
            "acknowledgement",
            "demand",
            "token request",
            "empty data",
        ]),
        requests: counter("rounds") + counter("requests sent"),
        repairs: sent(&["repair"]),
        overflowed: sender.usage.overflowed as f64,
        all,
    }
}

impl figure::Point for ComparePoint {
    type Measured = Measured;

    fn conditions(_: &Context<'_>, _: &[Self], data: &mut Data) {
        data.condition(
            "network",
            "a switch with 8 MiB, links of 100 Mb/s, hosts of the preset pentium-650 (001's); nothing is \
             lost but in full sockets",
        );
        data.condition(
            "transfers",
            "1 B and 500,000 B, each a connection of its own, in packets of 1,400 B and a window of 256; \
             go-back-N, time-outs of 10 ms at least and 100 ms at first",
        );
        data.condition(
            "systems",
            "nak polls every 217th packet; trees are of height 6; xtp, multidriver and list ask with every 16th \
             packet. xtp: our defaults (4 buckets agree, damping within a request, slots of 2 ms); xtp, 003: one \
             bucket, damping by rseq; undamped: no slots either",
        );
        data.condition(
            "others",
            "collectors: as nak, by four receivers; cp: selective repeat, multicast above 25 %; napp: our defaults (an \
             ACK for every 16th packet, T_ack 50 ms, T_pack 100 ms, P 50 %), it opens to as many receivers as there \
             are; vmtp: done with the first response, a byte alone; mtp: heartbeats of 250 ms, windows of 30, a \
             retention of 4; its master is not the sender",
        );
    }

    fn simulate(&self, _: &Context<'_>, seed: u64) -> Result<Measured, RunError> {
        self.measure(seed)
    }

    fn on_sockets(_: &Context<'_>, _: &[Self]) -> Result<Vec<(Self, u64, Measured)>, RunError> {
        Err(RunError::Unavailable(
            "200 hosts of a like are in the simulator alone".to_owned(),
        ))
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("system", ""),
            ("receivers", ""),
            ("size", "B"),
            ("seed", ""),
            ("time", "ms"),
            ("throughput", "Mb/s"),
            ("packets", ""),
            ("control at the sender", ""),
            ("exact", ""),
            ("control by the sender", ""),
            ("requests", ""),
            ("repairs", ""),
            ("overflowed", ""),
            ("packets in all", ""),
        ]
    }

    fn row(&self, seed: u64, measured: &Measured) -> Vec<Cell> {
        let packets = f64::from(self.bytes.div_ceil(PACKET));
        let exact = self.system.exact(packets, self.receivers.into());
        vec![
            self.system.name().into(),
            self.receivers.into(),
            self.bytes.into(),
            seed.into(),
            measured.time.into(),
            (f64::from(self.bytes) * 8.0 / measured.time / 1e3).into(),
            measured.packets.into(),
            measured.arrived.into(),
            exact.unwrap_or(f64::NAN).into(),
            measured.sent.into(),
            measured.requests.into(),
            measured.repairs.into(),
            measured.overflowed.into(),
            measured.all.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        Self::columns()
    }

    fn sweep_row(&self, measured: &Measured) -> Vec<Cell> {
        self.row(0, measured)
    }
}

pub(super) fn judge(data: &Data, verdict: &mut Verdict) {
    let points = Points::read(data);
    let rows = data.table(figure::POINTS).records();
    let rows = rows.filter(|row| !is_beyond_napp(*row));
    let times: Vec<f64> = rows.map(|row| row.number("time")).collect();
    let ended = times.iter().filter(|time| time.is_finite()).count();
    verdict.check(
        !times.is_empty() && ended == times.len(),
        "every transfer ends, and every receiver has it; of napp those to at most 100 receivers",
        format!("{ended} of {}", times.len()),
    );
    exact(
        data,
        verdict,
        &["ack", "nak", "ring", "tree"],
        "ack, nak, ring and tree: as many acknowledgements as 001's Table 2 says, exactly, where none found a full \
         socket",
    );
    exact(
        data,
        verdict,
        &["cp", "vmtp"],
        "cp: an acknowledgement of every receiver for every packet; vmtp: a response of each to a byte; exactly, \
         where none found a full socket",
    );
    exact(
        data,
        verdict,
        &["napp"],
        "napp: an ACK of each to a byte, exactly, to at most 100 receivers",
    );
    let most = points.different("receivers").last().copied();
    let at = points
        .at("receivers", most.unwrap_or(f64::NAN))
        .at("size", LARGE.into());
    let control = |system: &str| at.system(system).mean("control at the sender");
    verdict.check(
        control("xtp") < control("xtp, undamped"),
        "to the most receivers, damping in slots cuts the answers that come to an XTP sender",
        format!(
            "{:.0} beside {:.0}",
            control("xtp"),
            control("xtp, undamped")
        ),
    );
    exact(
        data,
        verdict,
        &["collectors"],
        "collectors hold the sender's control traffic at a constant: four packets for each that asks, exactly, \
         whatever the number of receivers; where there are no more than four, one of each",
    );
    let packets = points
        .at("size", 1.0)
        .system("mtp")
        .values("packets in all");
    let least = packets.iter().copied().fold(f64::INFINITY, f64::min);
    verdict.check(
        !packets.is_empty() && packets.iter().all(|packets| *packets >= 7.0),
        "MTP: at least seven packets for a byte (000 ch. 4)",
        format!("{least:.0} at least"),
    );
    note_curves(&points, verdict);
    verdict.note(
        "vmtp is 1-reliable, and its latency that of the first response; 003 describes requests of one packet alone",
    );
    note_beyond_napp(&points, verdict);
    verdict.note(
        "an XTP sender acts on a bucket when that has lived, 100 ms at first and 10 ms at least here; undamped it \
         hears of all that registered at once, and need not wait at the end. The others act on the last reply",
    );
    verdict.note(
        "answers by multicast are read by every host: to 200 receivers that is what their processors do, and an \
         answer that waits to be read damps nobody. Unicast replies cost the sender alone",
    );
}

/// What each system costs, by receivers.
fn note_curves(points: &Points<'_>, verdict: &mut Verdict) {
    for (column, size, what) in [
        (
            "control at the sender",
            LARGE,
            "control packets that come to the sender for 500,000 B",
        ),
        ("time", 1, "ms for a byte"),
        ("throughput", LARGE, "Mb/s for 500,000 B"),
    ] {
        let of = points.at("size", size.into());
        let each = System::ALL.map(|system| {
            let curve = of.system(system.name()).curve("receivers", column);
            let each: Vec<String> = curve
                .iter()
                .map(|(n, value)| format!("{n}: {}", short(*value)))
                .collect();
            format!("{} {}", system.name(), each.join(", "))
        });
        verdict.note(format!("{what}, by receivers: {}", each.join("; ")));
    }
}

/// What becomes of transfers to more receivers than NAPP's acknowledgements leave room for.
fn note_beyond_napp(points: &Points<'_>, verdict: &mut Verdict) {
    let beyond = points
        .system("napp")
        .at("receivers", f64::from(2 * NAPP_MOST));
    let ended = |size: u32| {
        let rows = beyond.at("size", size.into());
        let times = rows.values("time");
        let ended = times.iter().filter(|time| time.is_finite()).count();
        let heard = rows.mean("control at the sender");
        format!(
            "{ended} of {} ({heard:.0} control packets at the sender)",
            times.len()
        )
    };
    if !beyond.values("time").is_empty() {
        verdict.note(format!(
            "napp to 200 receivers: within a minute end {} transfers of a byte, and {} of 500,000 B. ACK, PACK and \
             SREJ are multicast with an entry for each receiver, so the ACKs of all are about 35 MB in the switch at \
             once, which has 8 MiB; what is lost is said again by timers that do not adapt",
            ended(1),
            ended(LARGE)
        ));
    }
}

/// Whether a row has more receivers than NAPP's acknowledgements leave room for in the switch.
fn is_beyond_napp(row: RecordRef<'_>) -> bool {
    row.text("system") == "napp" && row.number("receivers") > f64::from(NAPP_MOST)
}

/// The counts of some systems that are known beforehand, where no acknowledgement found a full
/// socket.
fn exact(data: &Data, verdict: &mut Verdict, systems: &[&str], claim: &str) {
    let rows = data.table(figure::POINTS).records();
    let rows = rows.filter(|row| systems.contains(&row.text("system")));
    let known = rows.filter(|row| row.number("exact").is_finite() && !is_beyond_napp(*row));
    let (mut clean, mut held, mut full) = (0, 0, 0);
    for row in known {
        let is_clean = row.number("overflowed") == 0.0 && row.number("repairs") == 0.0;
        full += u32::from(!is_clean);
        clean += u32::from(is_clean);
        held += u32::from(is_clean && row.number("control at the sender") == row.number("exact"));
    }
    verdict.check(
        clean > 0 && held == clean,
        claim,
        format!("in {held} of {clean}; in {full} more some did"),
    );
}

fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

pub(super) fn draw(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let drawn = |title: &str, column: &str, size: u32, y: Axis| {
        let of = points.at("size", size.into());
        let mut plot = Plot::new(title, Axis::log("receivers", ""), y);
        for system in System::ALL {
            let curve = of.system(system.name()).curve("receivers", column);
            plot = plot.with(Series::line(system.name(), curve));
        }
        plot
    };
    vec![
        drawn(
            "control packets that come to the sender, 500,000 B",
            "control at the sender",
            LARGE,
            Axis::log("control packets", "a transfer"),
        ),
        drawn(
            "latency of a byte",
            "time",
            1,
            Axis::log("until the sender knows", "ms"),
        ),
        drawn(
            "throughput, 500,000 B",
            "throughput",
            LARGE,
            Axis::linear("payload", "Mb/s").from(0.0),
        ),
    ]
}
