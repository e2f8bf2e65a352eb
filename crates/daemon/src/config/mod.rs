//! The configuration of a daemon: checked, complete, with every default in place.
//!
//! [`File`] and [`Options`] are what was written; [`Config::build`] lays one over the other, checks
//! each value and values against each other, and fills in the defaults. Nothing is corrected. Which
//! keys there are, and what they may be, stands in [`keys()`], most of it in the lists of settings
//! of the parts that they configure; `docs/configuration.md` is written from it.

mod access;
mod bus;
mod check;
mod difference;
mod error;
mod file;
mod keys;
mod options;
mod order;
mod process;
pub mod reference;
mod rings;
mod top;
mod when_slow;
mod written;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use groupcast_net::EndpointConfig;
use groupcast_protocols::gossip::GossipConfig;
use groupcast_session::EngineConfig;
use groupcast_session::groups::{Access, SlowRules};
use groupcast_session::socket::socket_candidates;
use groupcast_tls::ServerFiles;

pub use self::bus::BusAddress;
use self::check::Check;
pub use self::difference::Changes;
pub use self::error::{DaemonConfigError, FilePlace, Source};
pub use self::file::File;
pub use self::keys::{Key, keys};
pub use self::options::{Listen, MetricsAddress, Options};
pub use self::order::Order;
pub use self::process::ProcessConfig;
pub use self::rings::{PoolOptions, Ring, RingOptions};
pub use self::top::TopKey;

/// The UDP port of a daemon's datagrams, unless the configuration names another.
pub const LISTEN_PORT: u16 = 4810;
/// The address of the group's multicasts, unless the configuration names another
/// (organisation-local scope, RFC 2365).
pub const MULTICAST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 1), 4809);
/// The longest name of a daemon, in bytes.
pub const NAME_MAX: usize = 64;

/// What a daemon runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The daemon's name, unique in the cluster: 1 to [`NAME_MAX`] bytes. Default: the host's name.
    pub name: String,
    /// How the other daemons are reached. Default: by multicast to [`MULTICAST`], from the address
    /// from which multicasts would leave this host (127.0.0.1 if none would), port [`LISTEN_PORT`];
    /// other daemons on this host hear them too.
    pub endpoint: EndpointConfig,
    /// The Unix socket for clients. Default: [`default_socket`].
    pub socket: PathBuf,
    /// A TCP address for clients. Default: none.
    pub client_listen: Option<SocketAddr>,
    /// Where clients of the bus connect. Default: nowhere.
    pub bus: Vec<BusAddress>,
    /// The directory of the traces of their connections. Default: there are none.
    pub bus_trace: Option<PathBuf>,
    /// Where the metrics are. Default: nowhere.
    pub metrics: Option<SocketAddr>,
    /// The file with the token that clients over TCP must have. Default: they need none.
    pub client_token: Option<PathBuf>,
    /// What clients over TCP speak TLS with. Default: they speak in clear.
    pub tls: Option<ServerFiles>,
    /// Which clients may do what. Default: everybody everything.
    pub access: Access,
    /// What is done about members of which groups that are slow. Default: publishers wait.
    pub when_slow: SlowRules,
    /// The directory for what waits for clients that are slow. Default: all waits in memory.
    pub spill_dir: Option<PathBuf>,
    /// Whose datagrams are believed.
    pub security: Security,
    /// Where the history is written. Default: nowhere.
    pub history: Option<PathBuf>,
    /// How much is logged, unless the environment says so: a filter. Default: `info`.
    pub log: Option<String>,
    /// The file that log lines go to. Default: stderr.
    pub log_file: Option<PathBuf>,
    /// Limits of the client side.
    pub engine: EngineConfig,
    /// What orders the messages of all groups. Default: the first of the registry.
    pub order: Order,
    /// Rings that order the groups at and below certain names instead. Default: none.
    pub rings: Vec<Ring>,
    /// What orders the groups of rings that joins ask for; their addresses are in `engine`.
    /// Default: RMP with its defaults.
    pub made_rings: Order,
    /// Settings of the gossip of bimodal groups; which they are is in `engine`.
    pub bimodal: GossipConfig,
    /// What the process asks of its host.
    pub process: ProcessConfig,
    /// What the operator should know of the interface that was chosen, if nothing names one.
    pub interface_warning: Option<String>,
    /// Tables of the file that have no effect, because another protocol was chosen.
    pub unused_tables: Vec<&'static str>,
    /// Whether the order's `body_max` is lowered to what the interface takes in one piece: unless
    /// it was configured.
    pub fit_body: bool,
}

/// Whose datagrams are believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Security {
    /// Those sealed with the key in this file.
    Key(PathBuf),
    /// Everybody's: without authentication and encryption. The operator has said so.
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

/// Whether clients of the bus at `address` speak TLS, if there is a certificate: those of this host
/// do not.
pub(crate) fn speaks_tls(address: SocketAddr) -> bool {
    !address.ip().is_loopback()
}

impl Config {
    /// Why the table `table`, one of [`unused_tables`](Self::unused_tables), has no effect, and
    /// what to do.
    pub fn unused(&self, table: &str) -> String {
        let protocol = self.order.family.name();
        format!(
            "[{table}] has no effect, because `protocol` is \"{protocol}\": set `protocol = \"{table}\"`, or leave \
             the table out"
        )
    }

    /// The addresses at which clients, those of the bus too, speak TLS, if there is a certificate.
    pub fn tls_addresses(&self) -> Vec<IpAddr> {
        let bus = self.bus.iter().filter_map(|address| match address {
            BusAddress::Tcp(address) => Some(*address).filter(|it| speaks_tls(*it)),
            BusAddress::Unix(_) => None,
        });
        let all = self.client_listen.into_iter().chain(bus);
        all.map(|address| address.ip()).collect()
    }

    /// The configuration of `file` with `command_line` laid over it and defaults for the rest.
    ///
    /// # Errors
    /// If there is no key and `insecure` is not set, or the first value that cannot be, or
    /// contradicts another.
    pub fn build(file: Option<&File>, command_line: Options) -> Result<Self, DaemonConfigError> {
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
            (None, _) => return Err(DaemonConfigError::NoKey),
        };
        check.written(&options)?;
        let (listen, interface_warning) = check.listen(options.listen)?;
        let order = check.order(&options)?;
        let rings = check.rings(&options)?;
        let made_rings = check.made_rings(&options)?;
        let unused_tables = check.unused_tables(&options, &order);
        Ok(Self {
            name: check.name(options.name.as_deref())?,
            endpoint: check.endpoint(&options, listen)?,
            bimodal: check.bimodal(&options)?,
            client_listen: check.client_listen(&options, &security)?,
            bus: check.bus(&options, &security)?,
            bus_trace: check.bus_trace(&options)?,
            metrics: options.metrics.map(|metrics| metrics.0),
            client_token: check.client_token(&options)?,
            tls: check.tls(&options)?,
            spill_dir: check.spill_dir(&options)?,
            security,
            engine: EngineConfig {
                order: order.family.name().to_owned(),
                rings: rings.iter().map(|ring| ring.top.to_string()).collect(),
                ring_pool: options.ring_pool.as_ref().map(|it| it.addresses),
                ..check.engine(&options)?
            },
            process: check.process(&options)?,
            log: check.log(options.log)?,
            access: options.access.unwrap_or_default(),
            when_slow: options.when_slow.unwrap_or_default(),
            log_file: options.log_file,
            interface_warning,
            fit_body: !options.settings.contains_key(&order.key("body_max")),
            unused_tables,
            order,
            rings,
            made_rings,
            socket: options.socket.unwrap_or_else(default_socket),
            history: options.history,
        })
    }
}
