//! `groupcast send`, `groupcast recv`, `groupcast relay` and `groupcast census`: what they have in
//! common. The work is `groupcast-transfer`'s.

mod bars;
pub(crate) mod census;
mod dry_run;
mod lines;
mod list_file;
mod rates;
pub(crate) mod receive;
pub(crate) mod relay;
pub(crate) mod send;
mod speed;
mod status;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use groupcast_net::{Key, choose_interface, interface_named};
use groupcast_protocols::bulk::BulkConfig;
use groupcast_transfer::{TransferError, TransferLink};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Failure, tell};

/// The network options that the two ends have in common, of files and of requests.
#[derive(clap::Args)]
pub(crate) struct Network {
    /// The multicast address and port of the group, the same at the sender and its receivers
    #[arg(long, value_name = "IP:PORT", value_parser = group)]
    group: SocketAddrV4,
    /// The key of the group, made by `groupcast keygen`: every holder of it can read and send
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "insecure",
        conflicts_with = "insecure"
    )]
    key: Option<PathBuf>,
    /// Do without a key: everybody on the network can read and forge what is sent
    #[arg(long)]
    insecure: bool,
    /// The interface by which the others are reached, by an address or its name; `lo` at all ends
    /// if they are on one host [default: where multicasts leave this host]
    #[arg(long, value_name = "IP|NAME", value_parser = interface)]
    interface: Option<Ipv4Addr>,
    /// How many routers multicasts may pass, plus one [default: 1, they stay on the link]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..))]
    ttl: u8,
    /// The class of service that datagrams ask for, 0 to 63: for example 8 (CS1, background)
    /// [default: 0, none]
    #[arg(long, value_name = "DSCP", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u8).range(..=63))]
    dscp: u8,
    /// What this host is called [default: the host's name]
    #[arg(long, value_name = "N", value_parser = name)]
    name: Option<String>,
}

/// The interface where none is named; on stderr what there is to know of the choice.
fn chosen_interface() -> Ipv4Addr {
    let choice = choose_interface();
    if let Some(warning) = choice.warning {
        tell(format_args!("{warning}; --interface IP names another"));
    }
    choice.address
}

impl Network {
    /// The link, with `bulk` as the protocol's settings.
    pub(crate) fn link(&self, bulk: BulkConfig, fit_packet: bool) -> Result<TransferLink, Failure> {
        let key = match &self.key {
            Some(path) => Some(Key::load(path).map_err(Failure::failed)?),
            None => None,
        };
        Ok(TransferLink {
            name: self.name.clone().unwrap_or_else(host_name),
            interface: self.interface.unwrap_or_else(chosen_interface),
            group: self.group,
            ttl: self.ttl,
            dscp: self.dscp,
            key,
            bulk,
            fit_packet,
        })
    }
}

fn group(text: &str) -> Result<SocketAddrV4, String> {
    match text.parse::<SocketAddrV4>() {
        Ok(group) if group.ip().is_multicast() && group.port() != 0 => Ok(group),
        _ => Err("not a multicast address with a port: for example 239.192.79.2:4820".into()),
    }
}

fn interface(text: &str) -> Result<Ipv4Addr, String> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => interface_named(text),
    }
}

fn name(text: &str) -> Result<String, String> {
    match text.len() {
        1..=255 if !text.contains([',', '\0']) => Ok(text.into()),
        _ => Err("a name has 1 to 255 bytes and no comma".into()),
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Is set by SIGTERM and SIGINT. A second one ends the process at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the shutdown is armed by the first signal, and acts on the second.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}

/// The failure that `error` is.
pub(crate) fn explain(error: &TransferError) -> Failure {
    let failure = match error {
        TransferError::Config(_)
        | TransferError::Send(_)
        | TransferError::Census(_)
        | TransferError::SameGroup { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    };
    match error {
        TransferError::Net(_) => failure.help("--interface IP chooses the network interface"),
        _ => failure,
    }
}

/// The advice where no host that runs `command` was found.
pub(crate) fn where_they_are(command: &str) -> String {
    format!(
        "check that `groupcast {command}` runs there with the same --group and --key (it prints a line when it hears \
         another key), and that multicasts reach it. --interface IP chooses the network interface; on one host both \
         need --interface lo"
    )
}

/// A number of bytes for people.
fn amount(bytes: u64) -> impl std::fmt::Display {
    indicatif::BinaryBytes(bytes)
}
