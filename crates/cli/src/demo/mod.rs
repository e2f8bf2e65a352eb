//! `groupcast demo`: the whole life of a group on this machine, without any set-up.
//!
//! The members are threads of this process: real sockets on loopback, real encryption under a key
//! made for the run, the ring (or RMP) with the settings of a LAN. The story starts them, loads
//! them, kills one and lets it come back, cuts the network in two and heals it, lets all leave;
//! then the checker gives its verdict on the histories of all members.
//!
//! - [`story`]: the steps; [`stage`]: the members as the story sees them, and waiting.
//! - [`member`]: one member's thread; [`load`]: what it says; [`diary`]: what it saw; [`network`]:
//!   where it lives.
//! - [`report`]: the output, with the fields of its JSON.
//!
//! Exit 0 only if every step came about in time and the checker found nothing.

mod diary;
mod load;
mod member;
mod network;
mod report;
mod stage;
mod story;

use std::process::ExitCode;

use groupcast_core::Rng;
use groupcast_core::family::OrderFamily;
use groupcast_net::{Key, random_u64};

use self::network::Network;
use self::report::{DemoReport, Event};
use self::stage::{DemoStage, NAMES};
use self::story::Story;
use crate::failure::{Failure, printed};
use crate::order;

/// Watch the whole life of a group on this machine: order, crash, view change, partition, merge.
///
/// Needs no set-up. The members are threads that talk over loopback multicast (or unicast copies,
/// where there is no multicast), encrypted with a key made for the run. Exit 0: the checker found
/// every promise kept; 1: it did not, or something did not come about in time.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many members, 2 to 16
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=16))]
    members: u8,
    /// How many messages they send in all when everybody talks at once, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    messages: u64,
    /// What orders the messages
    #[arg(long, value_name = "PROTOCOL", default_value = order::usual(), value_parser = order::parser())]
    protocol: &'static OrderFamily,
    /// Decides sizes and services of messages, the order of starting, who is killed and how the
    /// network is cut
    ///
    /// Without it a new one is drawn, and shown. The same seed tells the same story, but not to the
    /// microsecond: the network and the clock are real.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON object per event instead of the story
    #[arg(long)]
    json: bool,
}

/// Tells the story.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let seed = match args.seed {
        Some(seed) => seed,
        // Short enough to be typed again.
        None => random_u64().map_err(Failure::failed)? % 1_000_000,
    };
    let rng = Rng::new(seed);
    let network = Network::on_loopback(args.members).map_err(Failure::failed)?;
    let report = DemoReport::new(args.json);
    let group = network.group();
    report.tell(&Event::Demo {
        members: NAMES[..usize::from(args.members)]
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        messages: args.messages,
        seed,
        protocol: args.protocol.name(),
        network: match group {
            Some(_) => "multicast",
            None => "mesh",
        },
        group: group.map(|group| group.to_string()),
    });
    let key = Key::random().map_err(Failure::failed)?;
    let stage = DemoStage::new(args.members, args.protocol, network, key, &rng);
    let story = Story::new(stage, &report, &rng, args.members, args.messages);
    let clean = story.run()?;
    printed(report.finish())?;
    Ok(if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}
