//! `groupcast bench gossip`.

use std::time::Duration;

use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::gossip::{self, Carrier, GossipOptions, GossipReport};

use super::values::{Switch, per_second, seconds, share};
use crate::number::size;

/// How long members are perturbed before the measurement counts.
const WARM_UP: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(super) struct Gossip {
    /// Members, the sender included
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=gossip::MEMBERS_MAX as i64))]
    members: u16,
    /// Messages a second
    #[arg(long, value_name = "MSG/S", default_value = "200", value_parser = per_second)]
    rate: f64,
    /// Payload of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 7168, value_parser = |text: &str| size::<u32>(text, gossip::SIZE_MIN as u64, gossip::SIZE_MAX as u64))]
    size: u32,
    /// The share of the members that is perturbed, never the sender
    #[arg(long, value_name = "SHARE", default_value = "0.25", value_parser = share)]
    perturbed: f64,
    /// The probability with which a perturbed member sleeps through an interval of 100 ms
    #[arg(long, value_name = "P", default_value = "0.5", value_parser = share)]
    sleep: f64,
    /// What carries the messages
    #[arg(long, value_enum, default_value_t = Protocol::Pbcast)]
    protocol: Protocol,
    /// How long to count, in seconds, after two seconds of warm-up
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    duration: Duration,
    /// Whether the members have a key
    #[arg(long, value_enum, default_value_t = Switch::On)]
    encrypt: Switch,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// Bimodal Multicast, by gossip
    Pbcast,
    /// The ring, every message safe
    Ring,
    /// A window of messages, acknowledged by every member
    Windowed,
}

impl Gossip {
    pub(super) fn measure(&self) -> Result<GossipReport, BenchError> {
        gossip::run(&GossipOptions {
            members: usize::from(self.members),
            rate: self.rate,
            size: self.size as usize,
            perturbed: self.perturbed,
            sleep: self.sleep,
            carrier: match self.protocol {
                Protocol::Pbcast => Carrier::Pbcast,
                Protocol::Ring => Carrier::Ring,
                Protocol::Windowed => Carrier::Windowed,
            },
            warm_up: WARM_UP,
            duration: self.duration,
            encrypt: self.encrypt == Switch::On,
        })
    }
}
