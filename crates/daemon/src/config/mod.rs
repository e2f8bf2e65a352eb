//! What a daemon is told: checked, complete, with every default in place.
//!
//! [`File`] and [`Options`] are what was written; [`Config::build`] lays one over the other, checks each value and
//! values against each other, and fills in the defaults. Nothing is corrected in silence. [`mod@reference`] documents
//! every key; `docs/configuration.md` is written from it.

mod bimodal;
mod clients;
mod duration;
mod error;
mod net;
mod options;
pub mod reference;
mod ring;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use groupcast_net::{EndpointConfig, default_interface};
use groupcast_protocols::gossip::GossipConfig;
use groupcast_protocols::ring::RingConfig;
use groupcast_session::EngineConfig;
use groupcast_session::groups::ConfigError as EngineConfigError;
use groupcast_session::socket::socket_candidates;

pub use self::bimodal::{BimodalOptions, VariantOption};
pub use self::clients::ClientOptions;
pub use self::duration::{NoDuration, Span};
pub use self::error::{ConfigError, Place, Source};
pub use self::net::{NetOptions, SpinOption};
pub use self::options::{File, Listen, Options};
pub use self::ring::{Preset, Priority, RingOptions};

/// Port of a daemon's datagrams, unless told otherwise.
pub const LISTEN_PORT: u16 = 4810;
/// Where the group's multicasts go, unless told otherwise (organisation-local scope, RFC 2365).
pub const MULTICAST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 1), 4809);
/// Longest name of a daemon in bytes.
pub const NAME_MAX: usize = 64;

/// What a daemon runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The daemon's name, unique in the cluster: 1 to [`NAME_MAX`] bytes. Default: the host's name.
    pub name: String,
    /// How the other daemons are reached. Default: by multicast to [`MULTICAST`], from the address from which
    /// multicasts would leave this host (127.0.0.1 if none would), port [`LISTEN_PORT`]; other daemons on this host
    /// hear them too.
    pub endpoint: EndpointConfig,
    /// The Unix socket for clients. Default: [`default_socket`].
    pub socket: PathBuf,
    /// A TCP address for clients. Default: none.
    pub client_listen: Option<SocketAddr>,
    /// Whose datagrams are believed.
    pub security: Security,
    /// Where the history is written. Default: nowhere.
    pub history: Option<PathBuf>,
    /// Limits of the client side.
    pub engine: EngineConfig,
    /// Settings of the ring.
    pub ring: RingConfig,
    /// Settings of the gossip of bimodal groups; which they are is in `engine`.
    pub bimodal: GossipConfig,
    /// Whether the ring's `body_max` is lowered to what the interface takes in one piece: unless it was configured.
    pub fit_body: bool,
}

/// Whose datagrams are believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Security {
    /// Those sealed with the key in this file.
    Key(PathBuf),
    /// Everybody's: no authentication, no encryption, in so many words.
    Insecure,
}

/// The socket that a daemon of this user listens on unless told otherwise; see
/// [`socket_candidates`].
pub fn default_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    let euid = rustix::process::geteuid().as_raw();
    socket_candidates(euid, runtime.as_deref())
        .into_iter()
        .next()
        .expect("there is always a candidate")
}

impl Config {
    /// The configuration of `file` with `command_line` laid over it and defaults for the rest.
    pub fn build(file: Option<&File>, command_line: Options) -> Result<Self, ConfigError> {
        let check = Check {
            file,
            command_line: &command_line.clone(),
        };
        check.exclusive(&command_line, None)?;
        let options = match file {
            Some(file) => {
                check.exclusive(&file.options, Some(file))?;
                file.options.clone().overlaid_with(command_line)
            }
            None => command_line,
        };
        let security = match (&options.key, options.insecure) {
            (Some(key), _) => Security::Key(key.clone()),
            (None, Some(true)) => Security::Insecure,
            (None, _) => return Err(ConfigError::NoKey),
        };
        Ok(Self {
            name: check.name(options.name.as_deref())?,
            endpoint: check.endpoint(&options)?,
            ring: check.ring(&options.ring)?,
            bimodal: check.bimodal(&options.bimodal)?,
            client_listen: check.client_listen(options.client_listen, &security)?,
            socket: options.socket.unwrap_or_else(default_socket),
            security,
            history: options.history,
            engine: check.engine(&options.clients, &options.bimodal)?,
            fit_body: options.ring.body_max.is_none(),
        })
    }
}

/// Checks values, and knows where each was written.
struct Check<'a> {
    file: Option<&'a File>,
    command_line: &'a Options,
}

impl Check<'_> {
    fn error(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            key: key.to_owned(),
            message: message.into(),
            help: help.into(),
            place: match self.command_line.sets(key) {
                true => None,
                false => self.file.and_then(|file| file.place(key)),
            },
        }
    }

    /// Refuses what excludes each other within one source; across sources the command line wins.
    fn exclusive(&self, options: &Options, file: Option<&File>) -> Result<(), ConfigError> {
        let conflict = |key: &str, other: &str, help: &str| ConfigError::Value {
            key: key.to_owned(),
            message: format!("contradicts {other}"),
            help: help.to_owned(),
            place: file.and_then(|file| file.place(key)),
        };
        if options.key.is_some() && options.insecure == Some(true) {
            return Err(conflict(
                "insecure",
                "key",
                "keep the key to be protected, or leave it out to run without protection",
            ));
        }
        if options.peer.is_some() && options.multicast.is_some() {
            return Err(conflict(
                "multicast",
                "peer",
                "peers are for networks without multicast: give one or the other",
            ));
        }
        Ok(())
    }

    fn name(&self, name: Option<&str>) -> Result<String, ConfigError> {
        let fallback;
        let name = match name {
            Some(name) => name,
            None => {
                let uname = rustix::system::uname();
                fallback = uname.nodename().to_string_lossy().into_owned();
                &fallback
            }
        };
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(legal) {
            return Err(self.error(
                "name",
                format!("`{name}` cannot be a daemon's name"),
                format!("use 1 to {NAME_MAX} bytes of letters, digits, `-`, `_` and `.`"),
            ));
        }
        Ok(name.to_owned())
    }

    fn listen(&self, listen: Option<Listen>) -> Result<SocketAddrV4, ConfigError> {
        let ip = match listen.map(|listen| listen.ip) {
            None => default_interface(),
            Some(IpAddr::V4(ip)) if !ip.is_unspecified() && !ip.is_multicast() => ip,
            Some(ip) => {
                return Err(self.error(
                    "listen",
                    format!("`{ip}` is not the IPv4 address of one interface"),
                    "name the address of the interface that the other daemons are reached by",
                ));
            }
        };
        let port = listen.and_then(|listen| listen.port).unwrap_or(LISTEN_PORT);
        if matches!(port, 0 | u16::MAX) {
            return Err(self.error(
                "listen",
                format!("port {port} cannot be used"),
                "name a port from 1 to 65534: the other daemons must know it, and without multicast the next one is \
                 taken too",
            ));
        }
        Ok(SocketAddrV4::new(ip, port))
    }

    fn endpoint(&self, options: &Options) -> Result<EndpointConfig, ConfigError> {
        let listen = self.listen(options.listen)?;
        let mut endpoint = match &options.peer {
            Some(peers) => self.mesh(listen, peers, options)?,
            None => self.multicast(listen, options)?,
        };
        options.net.apply(&mut endpoint);
        self.range("net.segments_max", options.net.segments_max, 1, 1, 64)?;
        self.range("net.receive_max", options.net.receive_max, 1, 1, 65_536)?;
        Ok(endpoint)
    }

    fn multicast(
        &self,
        listen: SocketAddrV4,
        options: &Options,
    ) -> Result<EndpointConfig, ConfigError> {
        let group = options.multicast.unwrap_or(MULTICAST);
        if !group.ip().is_multicast() || group.port() == 0 {
            return Err(self.error(
                "multicast",
                format!("`{group}` is not a multicast address with a port"),
                "use an address of 224.0.0.0/4, best of 239.192.0.0/14, for example 239.192.79.1:4809",
            ));
        }
        let ttl = self.range("ttl", options.ttl, 1, 1, u8::MAX)?;
        let mut endpoint = EndpointConfig::multicast(listen, group);
        endpoint.multicast_ttl = ttl;
        endpoint.multicast_loop = Some(options.multicast_loop.unwrap_or(true));
        Ok(endpoint)
    }

    fn ring(&self, options: &RingOptions) -> Result<RingConfig, ConfigError> {
        let ring = options.settings();
        match ring.validate() {
            Ok(()) => Ok(ring),
            Err(error) => Err(self.error(
                &format!("ring.{}", error.field),
                error.problem,
                "docs/configuration.md says what the key does and its default",
            )),
        }
    }

    fn mesh(
        &self,
        listen: SocketAddrV4,
        peers: &[SocketAddrV4],
        options: &Options,
    ) -> Result<EndpointConfig, ConfigError> {
        for (key, set) in [
            ("ttl", options.ttl.is_some()),
            ("multicast_loop", options.multicast_loop.is_some()),
        ] {
            if set {
                return Err(self.error(
                    key,
                    "means nothing without multicast",
                    "leave it out, or leave the peers out",
                ));
            }
        }
        if peers.is_empty() {
            return Err(self.error(
                "peer",
                "there is none",
                "name at least one other daemon, or leave the key out for multicast",
            ));
        }
        // A daemon without multicast takes the port after its own too.
        let unusable = |peer: &&SocketAddrV4| {
            matches!(peer.port(), 0 | u16::MAX)
                || peer.ip().is_unspecified()
                || peer.ip().is_multicast()
        };
        if let Some(peer) = peers.iter().find(unusable) {
            return Err(self.error(
                "peer",
                format!("`{peer}` is not the address of one daemon"),
                "use what that daemon has as `listen`, for example 10.0.0.6:4810",
            ));
        }
        Ok(EndpointConfig::mesh(listen, peers.to_vec()))
    }

    fn bimodal(&self, options: &BimodalOptions) -> Result<GossipConfig, ConfigError> {
        let gossip = options.settings();
        match gossip.validate() {
            Ok(()) => Ok(gossip),
            Err(error) => Err(self.error(
                &BimodalOptions::key(error.field),
                error.problem,
                "docs/configuration.md says what the key does and its default",
            )),
        }
    }

    fn engine(
        &self,
        options: &ClientOptions,
        bimodal: &BimodalOptions,
    ) -> Result<EngineConfig, ConfigError> {
        let mut engine = options.settings();
        bimodal.apply(&mut engine);
        match engine.check() {
            Ok(()) => Ok(engine),
            Err(EngineConfigError::Range {
                field,
                value,
                min,
                max,
            }) => Err(self.error(
                &ClientOptions::key(field),
                format!("{value} is out of range"),
                format!("use {min} to {max}"),
            )),
            // Names are all that else can be wrong, and the only ones here are those of groups.
            Err(error) => Err(self.error(
                "bimodal.groups",
                error.to_string(),
                "name each group once, for example groups = [\"ticks\"]",
            )),
        }
    }

    fn client_listen(
        &self,
        address: Option<SocketAddr>,
        security: &Security,
    ) -> Result<Option<SocketAddr>, ConfigError> {
        match address {
            Some(address) if !address.ip().is_loopback() && *security != Security::Insecure => {
                Err(self.error(
                    "client_listen",
                    format!("clients at {address} would speak in clear over the network"),
                    "listen on a loopback address, for example 127.0.0.1:4811, or say `insecure`",
                ))
            }
            address => Ok(address),
        }
    }

    fn range<N>(
        &self,
        key: &str,
        value: Option<N>,
        default: N,
        low: N,
        high: N,
    ) -> Result<N, ConfigError>
    where
        N: PartialOrd + std::fmt::Display,
    {
        match value {
            None => Ok(default),
            Some(value) if low <= value && value <= high => Ok(value),
            Some(value) => Err(self.error(
                key,
                format!("{value} is out of range"),
                format!("use {low} to {high}"),
            )),
        }
    }
}

/// Replaces a setting where there is an option.
fn set<T>(setting: &mut T, option: Option<T>) {
    if let Some(value) = option {
        *setting = value;
    }
}

fn set_time(setting: &mut Duration, option: Option<Span>) {
    set(setting, option.map(|span| span.0));
}
