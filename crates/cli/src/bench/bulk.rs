//! `groupcast bench bulk`.

use std::path::Path;
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_bench::measure::BenchError;
use groupcast_bench::measure::bulk::report::BulkReport;
use groupcast_bench::measure::bulk::{self, BulkOptions};
use groupcast_bench::testbed::HOSTS_MAX;

use super::values::{Switch, permille};
use crate::number::size;

#[derive(clap::Args)]
pub(super) struct Bulk {
    /// Receivers, each on a host of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..HOSTS_MAX as i64))]
    receivers: u8,
    /// Bytes of the file
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = |text: &str| size::<u64>(text, 1, bulk::SIZE_MAX))]
    size: u64,
    /// Percent of the frames that reach a receiver and are lost, at random
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = permille)]
    loss: u16,
    /// The wires: none (as fast as the processors copy), 100mbit or 1gbit
    #[arg(long, value_name = "LINK", default_value_t = Link::Unlimited)]
    link: Link,
    /// Whether groupcast has a key; the others never have one
    #[arg(long, value_enum, default_value_t = Switch::On)]
    encrypt: Switch,
    /// groupcast's protocol, as `groupcast send` takes it
    #[arg(long, value_name = "P", default_value = "auto", value_parser = ["auto", "ack", "nak", "ring", "tree", "xtp", "multidriver", "list"])]
    protocol: String,
    /// Packets that may be under way, as `groupcast send` takes it; so are the next four
    #[arg(long, value_name = "PACKETS")]
    window: Option<u32>,
    /// Bytes of a packet
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| size::<usize>(text, 0, u64::MAX))]
    packet: Option<usize>,
    /// With nak: packets from one that everybody acknowledges to the next
    #[arg(long, value_name = "PACKETS")]
    poll: Option<u32>,
    /// With tree: receivers in a chain
    #[arg(long, value_name = "N")]
    height: Option<u32>,
    /// Megabits a second, auto, background, max, or window (no limit but the window)
    #[arg(long, value_name = "MBPS|auto|max|window")]
    rate: Option<String>,
    /// Beside whom, or none. tcp is built in; the others are Debian packages, which are named if
    /// they are missing
    #[arg(
        long,
        value_name = "PEER,...",
        value_delimiter = ',',
        default_value = "tcp",
        value_enum
    )]
    peers: Vec<PeerName>,
    /// Runs of everything; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    runs: u8,
    /// After so many seconds an attempt has failed
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    limit: u32,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PeerName {
    /// Nobody
    None,
    /// TCP to each receiver: one after the other, and to all at once
    Tcp,
    /// UFTP
    Uftp,
    /// udpcast
    Udpcast,
    /// NORM
    Norm,
}

impl Bulk {
    pub(super) fn measure(&self, executable: &Path) -> Result<BulkReport, BenchError> {
        let peer = |name: &PeerName| match name {
            PeerName::None => None,
            PeerName::Tcp => Some(bulk::Peer::Tcp),
            PeerName::Uftp => Some(bulk::Peer::Uftp),
            PeerName::Udpcast => Some(bulk::Peer::Udpcast),
            PeerName::Norm => Some(bulk::Peer::Norm),
        };
        let options = BulkOptions {
            receivers: usize::from(self.receivers),
            size: self.size,
            loss_permille: self.loss,
            link: self.link,
            encrypt: self.encrypt == Switch::On,
            protocol: self.protocol.clone(),
            settings: self.settings(),
            peers: self.peers.iter().filter_map(peer).collect(),
            runs: usize::from(self.runs),
            limit: Duration::from_secs(self.limit.into()),
        };
        bulk::run(&options, executable)
    }

    /// The options of `send` beside the protocol; `send` itself refuses those that do not fit each
    /// other.
    fn settings(&self) -> Vec<String> {
        let options = [
            ("--window", self.window.map(|packets| packets.to_string())),
            ("--packet", self.packet.map(|bytes| bytes.to_string())),
            ("--poll", self.poll.map(|packets| packets.to_string())),
            ("--height", self.height.map(|count| count.to_string())),
            ("--rate", self.rate.clone()),
        ];
        let set = options
            .into_iter()
            .filter_map(|(name, value)| Some([name.to_owned(), value?]));
        set.flatten().collect()
    }
}
