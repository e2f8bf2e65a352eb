//! `groupcast send`, `groupcast recv`, `groupcast relay` and `groupcast census`: what they have in
//! common. The work is `groupcast-transfer`'s.

mod bars;
pub(crate) mod census;
mod dry_run;
mod lines;
mod list_file;
mod printer;
mod rates;
pub(crate) mod receive;
pub(crate) mod relay;
pub(crate) mod send;
mod speed;
mod status;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use groupcast_net::{Key, choose_interface, interface_named};
use groupcast_protocols::bulk::{BulkConfig, SendError};
use groupcast_transfer::{HostAddress, LinkReach, TransferError, TransferLink};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Failure, tell};

/// The network options that the two ends have in common, of files and of requests.
#[derive(Clone, clap::Args)]
pub(crate) struct Network {
    /// The multicast address and port of the group, the same at the sender and its receivers
    #[arg(long, value_name = "IP:PORT", value_parser = group)]
    group: SocketAddrV4,
    /// The key of the group, made by `groupcast keygen`: every holder of it can read and send
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
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
    #[arg(long, value_name = "N", value_parser = own_name)]
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
            None if self.insecure => None,
            None => return Err(unprotected()),
        };
        Ok(TransferLink {
            name: self.name.clone().unwrap_or_else(host_name),
            interface: self.interface.unwrap_or_else(chosen_interface),
            group: self.group,
            ttl: self.ttl,
            dscp: self.dscp,
            reach: LinkReach::default(),
            key,
            bulk,
            fit_packet,
        })
    }

    /// The link of a sender whose multicasts do not reach these `peers`.
    pub(crate) fn link_with(
        &self,
        peers: &[Peer],
        bulk: BulkConfig,
        fit_packet: bool,
    ) -> Result<TransferLink, Failure> {
        let reach = reach(peers, self.group.port())?;
        let link = self.link(bulk, fit_packet)?;
        Ok(TransferLink { reach, ..link })
    }

    /// The link of a receiver that listens at `place`, because multicasts do not reach it; without
    /// a place they do.
    pub(crate) fn link_at(
        &self,
        place: Option<Place>,
        bulk: BulkConfig,
    ) -> Result<TransferLink, Failure> {
        let Some(place) = place else {
            return self.link(bulk, true);
        };
        let here = Self {
            interface: Some(place.ip),
            ..self.clone()
        };
        let link = here.link(bulk, true)?;
        let reach = place.reach(self.group.port());
        Ok(TransferLink { reach, ..link })
    }
}

/// The failure of a command that has no key, and does not say that it goes without.
fn unprotected() -> Failure {
    Failure::usage("neither --key nor --insecure says how to protect it").help(
        "make a key with `groupcast keygen FILE`, copy it to every host and name it with --key FILE; to go without \
         authentication and encryption, say so: --insecure",
    )
}

/// What a sender reaches in the group with this `port` whose multicasts do not reach `peers`.
fn reach(peers: &[Peer], port: u16) -> Result<LinkReach, Failure> {
    let mut without: Vec<HostAddress> = Vec::new();
    for peer in peers {
        let address = peer.address(port)?;
        if !without.iter().any(|it| it.address == address) {
            let host = peer.to_string();
            without.push(HostAddress { host, address });
        }
    }
    if without.len() > Peer::MAX {
        let (count, max) = (without.len(), Peer::MAX);
        let failure = format!(
            "{count} hosts would get copies, and this host's link would carry everything {count} times: at most {max} can"
        );
        return Err(Failure::usage(failure).help(
            "for files, `groupcast relay --listen` in their network gets one copy, and multicasts it there",
        ));
    }
    Ok(LinkReach::Multicast { without })
}

/// A host that multicasts do not reach, as its user names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    host: String,
    /// Default: the group's.
    port: Option<u16>,
}

impl Peer {
    /// The most that a sender takes: each costs a copy of everything.
    const MAX: usize = 64;

    /// The advice where one has never answered that was to run `command`.
    pub(crate) fn advice(command: &str) -> String {
        format!(
            "a host of --peer runs `groupcast {command} --listen` at that address, where UDP gets to the port and the next"
        )
    }

    /// Where it listens, by the port of the group if it has none.
    fn address(&self, port: u16) -> Result<SocketAddrV4, Failure> {
        let host = &self.host;
        let found = (host.as_str(), self.port.unwrap_or(port)).to_socket_addrs();
        let found = found
            .map_err(|error| Failure::failed(format!("cannot find the host {host}: {error}")))?;
        let mut addresses = found.filter_map(|address| match address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        });
        let address = addresses.next();
        let address = address
            .ok_or_else(|| Failure::failed(format!("the host {host} has no IPv4 address")))?;
        let ip = address.ip();
        if ip.is_multicast() || ip.is_unspecified() || ip.is_broadcast() {
            let failure = format!("{host} is not one host: --peer names each by itself");
            return Err(Failure::usage(failure));
        }
        Ok(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// Reads what stands after `--peer`: a host, with or without a port.
pub(crate) fn peer(text: &str) -> Result<Peer, String> {
    let (host, port) = with_port(text.trim())?;
    let is_host = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err("not a host: give a name or an IPv4 address, with or without a port, for example 10.0.1.4:4820".into());
    }
    let host = host.into();
    Ok(Peer { host, port })
}

/// Where a receiver listens that multicasts do not reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    ip: Ipv4Addr,
    /// Default: the group's.
    port: Option<u16>,
}

impl Place {
    /// What reaches a receiver there, of the group with this `port`.
    fn reach(self, port: u16) -> LinkReach {
        let port = self.port.unwrap_or(port);
        LinkReach::Copies { port }
    }
}

/// Reads what stands after `--listen`: an address or an interface, with or without a port.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    let (ip, port) = with_port(text)?;
    let ip = interface(ip)?;
    Ok(Place { ip, port })
}

/// Takes a text apart that may end with a port: data comes to the one after it, so there must be
/// one.
fn with_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let Some((place, port)) = text.rsplit_once(':') else {
        return Ok((text, None));
    };
    match port.parse::<u16>() {
        Ok(port) if port != 0 && port != u16::MAX => Ok((place, Some(port))),
        _ => Err(format!("`{port}` is not a port from 1 to 65534")),
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

/// Reads a name. Spaces around it are left out: in a list they stand behind commas.
fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.len() {
        1..=255 if !text.contains([',', '\0']) => Ok(text.into()),
        _ => Err("a name has 1 to 255 bytes and no comma".into()),
    }
}

/// Reads what a host is to be called. A slash stands behind the name of a relay, before that of a
/// receiver below it.
fn own_name(text: &str) -> Result<String, String> {
    let name = name(text)?;
    match name.contains(|c: char| c == '/' || c.is_control()) {
        true => Err("a host's own name has no slash and no control characters".into()),
        false => Ok(name),
    }
}

/// Reads the name of a receiver that a sender waits for.
fn required(text: &str) -> Result<String, String> {
    let name = name(text)?;
    match name.rsplit_once('/') {
        Some((_, own)) => Err(format!(
            "no host has a slash in its name: a receiver below a relay is required by its own, `{own}`"
        )),
        None => Ok(name),
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
        | TransferError::Unheard { .. }
        | TransferError::SameGroup { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    };
    match error {
        TransferError::Net(_) => failure.help("--interface IP chooses the network interface"),
        TransferError::Send(SendError::Window { .. }) => {
            failure.help("--window PACKETS says how many packets it has")
        }
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
fn amount(bytes: u64) -> impl fmt::Display {
    indicatif::BinaryBytes(bytes)
}
