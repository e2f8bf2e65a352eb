//! 003's machines and what work costs them, fitted to Tables 5.2 and 5.5 and to the one-receiver
//! lines of Tables 5.1 and 5.3. Nothing else is: all other points are predictions.
//!
//! The model, from 5.3.1 and 5.5.2. Every packet costs the *engine* of its host a price. The user's
//! call and its return cost the sender another. Beyond that, with the Multidriver:
//!
//! - a receiver's tag crosses from engine to driver, and its reply from driver to engine: two
//!   *crossings*;
//! - each reply crosses once at the sender, and its acknowledgement is a packet;
//! - when all have replied, their minimum goes down to the engine of the multicast context: one
//!   crossing a round, whatever the number of receivers.
//!
//! The List-Based Multidriver opens and closes a context for each tag at both ends besides. A file
//! costs a price a KiB on top. All prices are those of a Flex, times a machine's factor.

use std::time::Duration;

use groupcast_sim::HostConfig;
use groupcast_sim::host::config::{Cost, Effect, KindPrice};

/// A machine of 003's test bed (5.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    /// 25 MHz, with a cache.
    Flex,
    /// 25 MHz.
    Core,
    /// 16 MHz.
    Zenith,
}

/// What carries a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum System {
    /// XTP to a single receiver: engine to engine.
    Unicast,
    Multidriver,
    /// The List-Based Multidriver (LBM).
    List,
}

/// A packet in an engine, in microseconds on a Flex: the difference of Flex and Zenith in Table
/// 5.2, in which a receiver handles two, at a ratio of 25/16.
const ENGINE: f64 = 978.0;
/// The user's call: what is left of 5.7 ms.
const CALL: f64 = 1_340.0;
/// A crossing between engine and driver, with the driver's work on the tag: what is left of 17.5
/// ms.
const CROSSING: f64 = 1_900.0;
/// Opening and closing a context: what is left of 19.8 ms.
const CONTEXT: f64 = 900.0;
/// A KiB of a file, at a Flex: from 606.1 Kbit/s of a Zenith's.
const KIBIBYTE: f64 = 7_000.0;
/// The same at a Core that receives, from 640.0 Kbit/s; and at a Zenith that does, whose buffers
/// are its bottleneck (5.5.3), from 347.8.
const KIBIBYTE_CORE: f64 = 1_500.0;
const KIBIBYTE_ZENITH: f64 = 20_100.0;

impl Machine {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flex => "Flex",
            Self::Core => "Core",
            Self::Zenith => "Zenith",
        }
    }

    /// How much longer it takes than a Flex: by its clock; a Core by Table 5.2.
    fn factor(self) -> f64 {
        match self {
            Self::Flex => 1.0,
            Self::Core => 0.95,
            Self::Zenith => 25.0 / 16.0,
        }
    }

    fn takes(self, micros: f64) -> Duration {
        Duration::from_secs_f64(micros * self.factor() / 1e6)
    }

    /// What it is like as the sender of a file, if it is one, or of messages.
    pub(super) fn sender(self, system: System, is_file: bool) -> HostConfig {
        let kibibyte = if is_file {
            self.takes(KIBIBYTE)
        } else {
            Duration::ZERO
        };
        let (round, reply) = match system {
            System::Unicast => (0.0, 0.0),
            System::Multidriver => (CROSSING, CROSSING),
            System::List => (CROSSING, CROSSING + CONTEXT),
        };
        let price = |kind, send: f64, receive: f64| KindPrice {
            kind,
            send: self.takes(send),
            receive: self.takes(receive),
        };
        HostConfig {
            kinds: vec![
                price("asking data", CALL + round, 0.0),
                price("report", 0.0, reply),
                price("nak", 0.0, reply),
            ],
            ..self.host(kibibyte, Duration::ZERO)
        }
    }

    /// What it is like as a receiver.
    pub(super) fn receiver(self, system: System, is_file: bool) -> HostConfig {
        let micros = match self {
            _ if !is_file => 0.0,
            Self::Flex => KIBIBYTE,
            Self::Core => KIBIBYTE_CORE,
            Self::Zenith => KIBIBYTE_ZENITH,
        };
        let kibibyte = Duration::from_secs_f64(micros / 1e6);
        let reply = match system {
            System::Unicast => 0.0,
            System::Multidriver => 2.0 * CROSSING,
            System::List => 2.0 * CROSSING + CONTEXT,
        };
        let price = |kind| KindPrice {
            kind,
            send: self.takes(reply),
            receive: Duration::ZERO,
        };
        HostConfig {
            kinds: vec![price("report"), price("nak")],
            ..self.host(Duration::ZERO, kibibyte)
        }
    }

    /// A host whose engine takes its time, and this much for a KiB that it sends or receives.
    fn host(self, sent: Duration, received: Duration) -> HostConfig {
        let engine = Cost::per_call(self.takes(ENGINE));
        HostConfig {
            send: Cost {
                kibibyte: sent,
                ..engine
            },
            receive: Cost {
                kibibyte: received,
                ..engine
            },
            // A frame of a 4 Mb/s ring takes a packet of 4 KB.
            mtu: 4_464,
            effect: Effect::End,
            ..HostConfig::free()
        }
    }
}

impl System {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unicast => "unicast",
            Self::Multidriver => "Multidriver",
            Self::List => "list-based",
        }
    }
}
