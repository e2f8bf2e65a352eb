//! `groupcast relay`: options to a relay, its events to lines.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use groupcast_net::Key;
use groupcast_protocols::bulk::{BulkConfig, RateControl};
use groupcast_transfer::{Described, LinkReach, RelayEvent, Relaying, Side, TransferLink};
use serde_json::{Value, json};

use super::bars;
use super::lines::{self, Line};
use super::{Peer, Place, chosen_interface, explain, host_name, rates, stop_flag, unprotected};
use crate::failure::Failure;
use crate::json;
use crate::number;

/// Relay transfers of files from one group into another, for example into another subnet.
///
/// It is one of the receivers of `groupcast send` in the group of --from, and sends the data on to
/// the receivers in the group of --to, as it comes; it writes nothing to the disk. The sender
/// learns the outcome of each receiver below, as NAME/RECEIVER. The relay is as fast as the slowest
/// of them. It runs until it is stopped, and then tells both sides.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The multicast address and port of the group that it receives from
    #[arg(long, value_name = "IP:PORT", value_parser = super::group)]
    from: SocketAddrV4,
    /// The multicast address and port of the group that it sends into, another one
    #[arg(long, value_name = "IP:PORT", value_parser = super::group)]
    to: SocketAddrV4,
    /// The key of both groups, made by `groupcast keygen`
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    key: Option<PathBuf>,
    /// The key of the group that it sends into, if it has its own
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        conflicts_with = "insecure"
    )]
    to_key: Option<PathBuf>,
    /// Do without a key: everybody on the network can read and forge what is sent
    #[arg(long)]
    insecure: bool,
    /// The interface on the side of --from, by an address or its name [default: where multicasts
    /// leave this host]
    #[arg(long, value_name = "IP|NAME", value_parser = super::interface)]
    from_interface: Option<Ipv4Addr>,
    /// Multicasts of the side of --from do not reach this host: it listens here for copies from
    /// senders that name it by `send --peer`. UDP must get to this port and the next [default port:
    /// that of --from]
    #[arg(long, value_name = "IP|NAME[:PORT]", conflicts_with = "from_interface", value_parser = super::place)]
    listen: Option<Place>,
    /// Hosts that multicasts of the side of --to do not reach: each gets a copy of everything at
    /// this address, where its `groupcast recv --listen` takes it. Copies count against --rate
    /// [default port: that of --to]
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',', value_parser = super::peer)]
    peer: Vec<Peer>,
    /// The interface on the side of --to [default: where multicasts leave this host]
    #[arg(long, value_name = "IP|NAME", value_parser = super::interface)]
    to_interface: Option<Ipv4Addr>,
    /// What it is called: on the side of --from, and in the names of the receivers below [default:
    /// the host's name]
    #[arg(long, value_name = "N", value_parser = super::own_name)]
    name: Option<String>,
    /// How many routers multicasts of the side of --to may pass, plus one [default: 1, they stay on
    /// the link]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..))]
    ttl: u8,
    /// The class of service that datagrams of the side of --to ask for, 0 to 63 [default: 0, none]
    #[arg(long, value_name = "DSCP", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u8).range(..=63))]
    dscp: u8,
    /// The rate into the group of --to, as for `groupcast send`: megabits a second, auto,
    /// background, max, window, or auto:50
    #[arg(long, value_name = "MBPS|auto|background|max|window", default_value = "auto", value_parser = rates::rate)]
    rate: RateControl,
    /// Print events, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Relays until it is stopped.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    json::told(args.json, relay(&args))
}

fn relay(args: &Args) -> Result<ExitCode, Failure> {
    if args.from == args.to {
        let failure = format!("--from and --to are the same group, {}", args.from);
        return Err(Failure::usage(failure).help(
            "a relay would hear what it sends itself: give the other side a multicast address of its own, for example \
             239.192.79.9:4829",
        ));
    }
    let relaying = args.relaying()?;
    let stop = stop_flag()?;
    let printer = lines::printer(args.json)?;
    let relayed = groupcast_transfer::relay(relaying, &stop, &mut |event| match args.json {
        true => lines::print(&printer, line(&event)),
        false => {
            if let Some(text) = in_words(&event) {
                printer.print(Line::Text(text));
            }
        }
    });
    let is_read = printer.end(&stop).unwrap_or(true);
    relayed.map_err(|error| explain(&error).read(is_read))?;
    Ok(ExitCode::SUCCESS)
}

fn load(path: &Path) -> Result<Key, Failure> {
    Key::load(path).map_err(Failure::failed)
}

impl Args {
    fn relaying(&self) -> Result<Relaying, Failure> {
        if self.key.is_none() && !self.insecure {
            return Err(unprotected());
        }
        let key = self.key.as_deref().map(load).transpose()?;
        let to_key = self.to_key.as_deref().map(load).transpose()?;
        let interface = |chosen: Option<Ipv4Addr>| chosen.unwrap_or_else(chosen_interface);
        let name = self.name.clone().unwrap_or_else(host_name);
        let bulk = BulkConfig {
            rate: self.rate,
            ..BulkConfig::lan()
        };
        let (from_interface, reach) = match self.listen {
            Some(place) => (place.ip, place.reach(self.from.port())),
            None => (interface(self.from_interface), LinkReach::default()),
        };
        let from = TransferLink {
            name: name.clone(),
            interface: from_interface,
            group: self.from,
            ttl: 1,
            dscp: 0,
            reach,
            key: key.clone(),
            bulk: BulkConfig::lan(),
            fit_packet: true,
        };
        Ok(Relaying {
            to: TransferLink {
                name,
                interface: interface(self.to_interface),
                group: self.to,
                ttl: self.ttl,
                dscp: self.dscp,
                reach: super::reach(&self.peer, self.to.port())?,
                key: to_key.or(key),
                bulk,
                ..from.clone()
            },
            from,
        })
    }
}

fn describe(transfer: &Described) -> String {
    format!("{} from {}", transfer.label, transfer.sender)
}

/// What happened, for people.
fn in_words(event: &RelayEvent<'_>) -> Option<String> {
    Some(match event {
        RelayEvent::Listening => "ready to relay".into(),
        RelayEvent::Accepted {
            transfer,
            receivers,
        } => format!(
            "relaying {} to {}",
            describe(transfer),
            number::receivers(*receivers)
        ),
        RelayEvent::Refused { transfer, reason } => {
            format!("not relayed: {}: {reason}", describe(transfer))
        }
        RelayEvent::Registered { transfer, receiver } => {
            format!("{}: {receiver} takes part", transfer.label)
        }
        RelayEvent::Served { transfer, served } => format!(
            "{}: {}",
            describe(transfer),
            lines::served_in_words(*served)
        ),
        RelayEvent::Settled {
            transfer,
            receiver,
            outcome,
        } => format!(
            "{}: {receiver}: {}",
            transfer.label,
            super::send::in_words(outcome)
        ),
        RelayEvent::CameLate { transfer, receiver } => {
            format!("{}: {}", transfer.label, bars::came_late(receiver, None))
        }
        RelayEvent::Done {
            transfer,
            complete,
            took,
            problem: None,
            ..
        } => format!(
            "complete: {} at {} in {:.2} s",
            describe(transfer),
            number::receivers(*complete),
            took.as_secs_f64()
        ),
        RelayEvent::Done {
            transfer,
            problem: Some(problem),
            ..
        } => format!("failed: {}: {problem}", describe(transfer)),
        RelayEvent::Stranger { side, stranger } => format!(
            "{} does not take part in the group of {}: {}",
            stranger.last,
            option(*side),
            stranger.hint
        ),
        RelayEvent::Trouble { problem, .. } => bars::trouble(problem),
        RelayEvent::Warning { problem, .. } => bars::warning(problem),
        _ => return None,
    })
}

fn option(side: Side) -> &'static str {
    match side {
        Side::From => "--from",
        Side::To => "--to",
    }
}

/// A side for programs.
fn name(side: Side) -> &'static str {
    match side {
        Side::From => "from",
        Side::To => "to",
    }
}

/// What happened, for programs. Field names are a contract with scripts (docs/relay.md).
fn line(event: &RelayEvent<'_>) -> Option<Value> {
    Some(match event {
        RelayEvent::Listening => json!({"event": "listening"}),
        RelayEvent::Accepted {
            transfer,
            receivers,
        } => lines::line("accepted", transfer, &json!({"receivers": receivers})),
        RelayEvent::Refused { transfer, reason } => {
            lines::line("refused", transfer, &json!({"reason": reason}))
        }
        RelayEvent::Registered { transfer, receiver } => {
            lines::line("registered", transfer, &json!({"receiver": receiver}))
        }
        RelayEvent::Served { transfer, served } => lines::served_line(transfer, *served),
        RelayEvent::Settled {
            transfer,
            receiver,
            outcome,
        } => {
            let (outcome, reason) = (lines::name(outcome), lines::reason(outcome));
            let fields = json!({"receiver": receiver, "outcome": outcome, "reason": reason});
            lines::line("settled", transfer, &fields)
        }
        RelayEvent::CameLate { transfer, receiver } => {
            lines::line("came_late", transfer, &json!({"receiver": receiver}))
        }
        RelayEvent::Done {
            transfer,
            complete,
            failed,
            received,
            took,
            problem,
        } => {
            let fields = json!({
                "complete": complete,
                "failed": failed,
                "received": received,
                "seconds": took.as_secs_f64(),
                "problem": problem,
            });
            lines::line("done", transfer, &fields)
        }
        RelayEvent::Stranger { side, stranger } => json!({
            "event": "stranger",
            "side": name(*side),
            "kind": stranger.kind,
            "address": stranger.last,
            "hint": stranger.hint,
        }),
        RelayEvent::Trouble { side, problem } => {
            json!({"event": "trouble", "side": name(*side), "problem": problem})
        }
        RelayEvent::Warning { side, problem } => {
            json!({"event": "warning", "side": name(*side), "problem": problem})
        }
        _ => return None,
    })
}
