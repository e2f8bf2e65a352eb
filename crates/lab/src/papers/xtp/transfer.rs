//! A transfer over the 4 Mb/s token ring (003 5.5): 1-byte messages on an open connection, or a
//! file, from one of 003's machines to some of them.
//!
//! A message is a packet of one byte with a window of one: the next leaves when the sender knows
//! that all have the one before. This many of them are one connection, and opening and closing it
//! are left out: the time is the difference of a long connection and a short one.

use std::time::Duration;

use groupcast_core::{Service, Time};
use groupcast_protocols::bulk::{
    BulkConfig, Messages, MessagesConfig, Multidriver, Policy, Wanted, inspect_requests,
};
use groupcast_sim::experiment::{Experiment, ExperimentConfig};
use groupcast_sim::link::TokenRingSpec;
use groupcast_sim::source::{Arrivals, SourceConfig};
use groupcast_sim::topology::generate;

use super::super::{Cell, Context, Data, RunError, figure};
use super::machines::{Machine, System};

/// "500 Kbytes" (5.5.3).
const FILE: u32 = 500_000;
/// "Message buffers are 16 Kbytes."
const BUFFER: u32 = 16_384;
/// "Typically 100" messages (5.5.2).
const MESSAGES: u32 = 100;
/// When the transfer begins.
const BEGIN: Duration = Duration::from_millis(100);
/// The largest IP packet of a 4 Mb/s ring.
const MTU: u32 = 4_464;

/// What is transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// 1-byte messages.
    Messages,
    /// A file.
    File(Open),
}

/// What 003 does not say of its file transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Open {
    /// Bytes of a packet.
    pub(super) packet: u32,
    /// Packets of the window.
    pub(super) window: u32,
    /// Packets from one that asks to the next, under the Multidriver's policies.
    pub(super) every: u32,
}

impl Open {
    /// Packets of 2 KB, as many as fill a buffer, each of which asks if no round is open.
    pub(super) const DEFAULT: Self = Self {
        packet: 2_048,
        window: BUFFER / 2_048,
        every: 1,
    };

    /// Other values of it.
    pub(super) const OTHERS: [Self; 4] = [
        Self {
            every: Self::DEFAULT.window,
            ..Self::DEFAULT
        },
        Self {
            window: 1,
            ..Self::DEFAULT
        },
        Self {
            packet: 1_024,
            window: BUFFER / 1_024,
            every: 1,
        },
        Self {
            packet: 4_096,
            window: BUFFER / 4_096,
            every: 1,
        },
    ];

    pub(super) fn name(self) -> String {
        format!(
            "packets of {} B, a window of {}, a request every {}",
            self.packet, self.window, self.every
        )
    }
}

/// One point.
#[derive(Clone, PartialEq, Debug)]
pub struct RingPoint {
    pub(super) system: System,
    pub(super) what: What,
    pub(super) sender: Machine,
    pub(super) receivers: Vec<Machine>,
}

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Of a message in the mean, or of the file, in milliseconds.
    time: f64,
    /// Rounds of requests, and replies to them.
    rounds: f64,
    replies: f64,
    repeated: f64,
}

/// A set of receivers in words: `2 Flex, 1 Zenith`.
pub(super) fn set_of(receivers: &[Machine]) -> String {
    let each = [Machine::Flex, Machine::Zenith, Machine::Core].into_iter();
    let counted = each.map(|machine| {
        let count = receivers.iter().filter(|it| **it == machine).count();
        (count, machine.name())
    });
    let named = counted.filter(|(count, _)| *count > 0);
    let named: Vec<String> = named
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    named.join(", ")
}

impl RingPoint {
    fn open(&self) -> Open {
        match self.what {
            What::Messages => Open {
                packet: 1,
                window: 1,
                every: 1,
            },
            What::File(open) => open,
        }
    }

    fn settings(&self) -> MessagesConfig {
        let open = self.open();
        let rule = Multidriver {
            every: open.every.min(open.window),
            ..Multidriver::for_window(open.window)
        };
        let policy = match self.system {
            // XTP asks when its window is full, and the receiver's engine answers.
            System::Unicast => Policy::Nak { poll: open.window },
            System::Multidriver => Policy::Multidriver(rule),
            System::List => Policy::List(rule),
        };
        MessagesConfig {
            bulk: BulkConfig {
                reserve: false,
                announce_interval: Duration::from_secs(1),
                present_within: Duration::from_secs(4),
                rto_min: Duration::from_secs(2),
                rto_initial: Duration::from_secs(2),
                rto_max: Duration::from_secs(2),
                ..BulkConfig::paper(policy, open.packet as usize, open.window)
            },
            receivers: Wanted::Count(self.receivers.len()),
            ..MessagesConfig::default()
        }
    }

    fn measure(&self, seed: u64) -> Result<Measured, RunError> {
        match self.what {
            What::File(_) => self.transfer(FILE, seed),
            What::Messages => {
                let (long, short) = (self.transfer(MESSAGES + 1, seed)?, self.transfer(1, seed)?);
                let each =
                    |of: fn(&Measured) -> f64| (of(&long) - of(&short)) / f64::from(MESSAGES);
                Ok(Measured {
                    time: each(|it| it.time),
                    rounds: each(|it| it.rounds),
                    replies: each(|it| it.replies),
                    repeated: long.repeated,
                })
            }
        }
    }

    /// A connection over which this many bytes go.
    fn transfer(&self, bytes: u32, seed: u64) -> Result<Measured, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
        let count = self.receivers.len();
        let ring = generate::token_ring(count as u32 + 1, TokenRingSpec::default());
        let mut ring = ring.map_err(|error| failed(&error))?;
        let stations: Vec<_> = ring.vertices().skip(1).collect();
        ring.place_hosts(stations);
        let mut config = ExperimentConfig::new(ring, inspect_requests, seed);
        let is_file = self.what != What::Messages;
        config.mtu = MTU;
        config.acquainted = count;
        config.hosts = self.sender.sender(self.system, is_file);
        for (index, machine) in self.receivers.iter().enumerate() {
            let receiver = machine.receiver(self.system, is_file);
            config.overrides.insert(index + 1, receiver);
        }
        let settings = self.settings();
        settings.bulk.validate().map_err(|error| failed(&error))?;
        let mut experiment = Experiment::new(config, move |local, rng, _| {
            Messages::new(local, settings.clone(), rng).expect("the settings were checked")
        });
        experiment.start_all();
        let source = SourceConfig {
            start: Time::ZERO + BEGIN,
            ..SourceConfig::new(
                Arrivals::Trace([(Duration::ZERO, bytes)].into()),
                0,
                Service::Reliable,
            )
        };
        experiment
            .add_source(0, source)
            .map_err(|error| failed(&error))?;
        experiment.run_to(Time::ZERO + BEGIN + Duration::from_secs(120));
        let measures = experiment.finish().map_err(|error| failed(&error))?;
        let sender = &measures.hosts[0];
        let is_whole = measures.hosts.iter().all(|host| host.delivered == 1);
        let time = sender.latency.mean().filter(|_| is_whole);
        let counter = |name: &str| sender.usage.counter(name).unwrap_or_default() as f64;
        let kinds = sender.kinds.iter().filter(|count| count.kind == "report");
        Ok(Measured {
            time: time.unwrap_or(f64::NAN) * 1e3,
            rounds: counter("rounds"),
            replies: kinds.map(|count| count.packets.received).sum::<u64>() as f64,
            repeated: counter("packets repeated"),
        })
    }
}

impl figure::Point for RingPoint {
    type Measured = Measured;

    fn conditions(_: &Context<'_>, plan: &[Self], data: &mut Data) {
        data.condition(
            "network",
            "a token ring of 4 Mb/s: 29 B around an IP packet, a station holds the token for 10 ms at most",
        );
        data.condition(
            "host model",
            "fitted to Tables 5.2 and 5.5 and the one-receiver lines of 5.1 and 5.3 alone: 978 µs a packet in \
             an engine, 1,340 µs a user's call, 1,900 µs a crossing from engine to driver or back, 900 µs for \
             opening and closing a context, 7.0 ms a KiB of a file, on a Flex; a Zenith takes 25/16 of it (its \
             clock), a Core 0.95; a KiB received takes a Core 1.5 ms and a Zenith 20.1 ms",
        );
        data.condition(
            "crossings",
            "two for a reply at a receiver, one for it at the sender, one a round at the sender (5.3.1, 5.5.2)",
        );
        if plan.iter().any(|point| point.what == What::Messages) {
            data.condition(
                "a message",
                "one byte on an open connection, the next when all have it; the mean of 100",
            );
        }
        if plan.iter().any(|point| point.what != What::Messages) {
            data.condition("a file", format!("500,000 B; {}", Open::DEFAULT.name()));
        }
        data.condition(
            "unicast",
            "to each receiver alone, whose engine answers when the window is full",
        );
    }

    fn simulate(&self, _: &Context<'_>, seed: u64) -> Result<Measured, RunError> {
        self.measure(seed)
    }

    fn on_sockets(_: &Context<'_>, _: &[Self]) -> Result<Vec<(Self, u64, Measured)>, RunError> {
        Err(RunError::Unavailable(
            "a token ring of 4 Mb/s exists in the simulator alone".to_owned(),
        ))
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("system", ""),
            ("sender", ""),
            ("set", ""),
            ("receivers", ""),
            ("packet", "B"),
            ("window", ""),
            ("every", ""),
            ("seed", ""),
            ("time", "ms"),
            ("throughput", "Kbit/s"),
            ("rounds", ""),
            ("replies", ""),
            ("repeated", ""),
        ]
    }

    fn row(&self, seed: u64, measured: &Measured) -> Vec<Cell> {
        let open = self.open();
        let throughput = match self.what {
            What::Messages => f64::NAN,
            What::File(_) => f64::from(FILE) * 8.0 / measured.time,
        };
        vec![
            self.system.name().into(),
            self.sender.name().into(),
            set_of(&self.receivers).into(),
            self.receivers.len().into(),
            open.packet.into(),
            open.window.into(),
            open.every.into(),
            seed.into(),
            measured.time.into(),
            throughput.into(),
            measured.rounds.into(),
            measured.replies.into(),
            measured.repeated.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        Self::columns()
    }

    fn sweep_row(&self, measured: &Measured) -> Vec<Cell> {
        self.row(0, measured)
    }
}
