//! `groupcast daemon`: makes a configuration from options and file, starts the log, and runs the
//! daemon until a signal ends it.

use std::io::{self, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::SystemTime;

use groupcast_core::family::OrderFamily;
use groupcast_daemon::config::{
    BusAddress, Config, DaemonConfigError, File, Listen, MetricsAddress, Options, Security, TopKey,
};
use groupcast_daemon::{Daemon, DaemonError, LogError, log_to};
use groupcast_net::{Group, Key};
use groupcast_session::rekey::Fingerprint;
use groupcast_tls::Server;

use crate::failure::{Failure, printed, tell};
use crate::number::number_of;
use crate::{order, target};

/// Run the daemon of this host.
///
/// All daemons of a cluster share a key (`groupcast keygen`) and a multicast address, or know each
/// other as peers. Every option is a key of the configuration file too, called the same with `_`
/// for `-`; the command line wins. The log goes to stderr, or to the file that the configuration
/// names. GROUPCAST_LOG sets what is logged: off, error, warn, info (the default), debug or trace,
/// or a list such as warn,groupcast_net=debug. GROUPCAST_SOCKET stands for --socket.
///
/// SIGTERM and SIGINT leave the group first; a second one ends at once. SIGHUP opens the log file
/// again and reads the configuration again: limits and rights of clients and what is logged hold at
/// once, and the log names what takes effect at the next start. SIGUSR1 writes the status into the
/// log.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Read this configuration file (TOML)
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read and check the configuration, the key and what other files it names, say what would run,
    /// and run nothing
    #[arg(long)]
    check: bool,
    #[arg(long, value_name = "N", help = help("name"))]
    name: Option<String>,
    #[arg(long, value_name = "IP[:PORT]", help = help("listen"))]
    listen: Option<Listen>,
    #[arg(long, value_name = "IP:PORT", conflicts_with = "peer", value_parser = |text: &str| place::<SocketAddrV4>(text, "239.192.79.1:4809"), help = help("multicast"))]
    multicast: Option<SocketAddrV4>,
    #[arg(long, value_name = "IP:PORT", value_parser = |text: &str| place::<SocketAddrV4>(text, "10.0.0.5:4810"), help = help("peer"))]
    peer: Vec<SocketAddrV4>,
    #[arg(long, value_name = "PATH", value_parser = target::SocketPath, help = help("socket"))]
    socket: Option<PathBuf>,
    #[arg(long, value_name = "IP:PORT", value_parser = |text: &str| place::<SocketAddr>(text, "10.0.0.5:4811"), help = help("client_listen"))]
    client_listen: Option<SocketAddr>,
    #[arg(long, value_name = "IP:PORT|unix:PATH", help = help("bus"))]
    bus: Vec<BusAddress>,
    #[arg(long, value_name = "DIR", help = help("bus_trace"))]
    bus_trace: Option<PathBuf>,
    #[arg(long, value_name = "IP:PORT", help = help("metrics"))]
    metrics: Option<MetricsAddress>,
    #[arg(long, value_name = "FILE", help = help("client_token"))]
    client_token: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = help("tls_certificate"))]
    tls_certificate: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = help("tls_key"))]
    tls_key: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = help("tls_client_ca"))]
    tls_client_ca: Option<PathBuf>,
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help = help("key"))]
    key: Option<PathBuf>,
    #[arg(long, help = help("insecure"))]
    insecure: bool,
    #[arg(long, value_name = "PROTOCOL", value_parser = order::parser(), help = help("protocol"))]
    protocol: Option<&'static OrderFamily>,
    #[arg(long, value_name = "FILE", help = help("history"))]
    history: Option<PathBuf>,
}

/// Reads an address with a port, for example `example`.
fn place<A: FromStr>(text: &str, example: &str) -> Result<A, String> {
    text.parse()
        .map_err(|_| format!("not an IP address with a port: for example {example}"))
}

/// The help of an option: the text of the reference on the key of the configuration file.
fn help(key: &str) -> String {
    TopKey::named(key).help()
}

/// Runs the daemon until it ends.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let (path, only_check) = (args.config.clone(), args.check);
    let options = args.options();
    let config = read(path.as_deref(), options.clone()).map_err(|error| explain(&error))?;
    if only_check {
        return check(&config);
    }
    let log =
        log_to(config.log.as_deref(), config.log_file.as_deref()).map_err(|error| match error {
            LogError::File { .. } | LogError::Setup(_) => Failure::failed(error),
            error => Failure::usage(error),
        })?;
    let hook = std::panic::take_hook();
    let of_hook = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        of_hook.flush();
        hook(panic);
    }));
    let serve = || {
        let mut daemon = Daemon::start(config)?;
        daemon.catch_signals()?;
        daemon.log_with(log.clone());
        if path.is_some() {
            daemon.reread_with(move || read(path.as_deref(), options.clone()));
        }
        daemon.run()
    };
    let served = serve();
    // What is told below stands behind the log.
    log.flush();
    served.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: Option<&Path>, options: Options) -> Result<Config, DaemonConfigError> {
    let file = path.map(File::read).transpose()?;
    Config::build(file.as_ref(), options)
}

/// Prints what would run.
fn check(config: &Config) -> Result<ExitCode, Failure> {
    let tls = config.tls.as_ref().map(Server::load);
    let tls = tls.transpose().map_err(Failure::failed)?;
    let reach = match &config.endpoint.group {
        Group::Multicast(group) => {
            let most = config.endpoint.copies_max;
            let most = number_of(most as u64, "daemon", "daemons");
            format!("multicast to {group} (with copies to at most {most} without)")
        }
        Group::Mesh(peers) => {
            let peers = number_of(peers.len() as u64, "peer", "peers");
            format!("no multicast, unicast to {peers}")
        }
    };
    let security = match &config.security {
        Security::Key(path) => {
            let key = Key::load_own(path).map_err(Failure::failed)?;
            let fingerprint = Fingerprint(key.fingerprint());
            format!("the key of {}, fingerprint {fingerprint}", path.display())
        }
        Security::Insecure => "no key".into(),
    };
    Daemon::check(config).map_err(failed)?;
    let over_tcp = match (config.client_listen, &tls) {
        (None, _) => String::new(),
        (Some(address), None) => format!(", and over TCP at {address}, in clear"),
        (Some(address), Some(_)) => format!(", and over TCP at {address}, by TLS"),
    };
    let written = writeln!(
        anstream::stdout().lock(),
        "the configuration is valid: `{}`, listening on {}, {reach}, {security}; {} orders messages; \
         clients at {}{over_tcp}",
        config.name,
        config.endpoint.listen,
        config.order.family.name(),
        config.socket.display(),
    );
    printed(written)?;
    printed(parts(&mut anstream::stdout().lock(), config))?;
    let addresses = config.tls_addresses();
    let doubts = tls.map(|tls| tls.doubts(SystemTime::now(), &addresses));
    for doubt in doubts.into_iter().flatten() {
        tell(format_args!("warning: {doubt}"));
    }
    for warning in config.warnings() {
        tell(format_args!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what the daemon has beside that, a line for each kind.
fn parts(out: &mut dyn Write, config: &Config) -> io::Result<()> {
    for address in &config.bus {
        writeln!(out, "clients of the bus at {address}")?;
    }
    if let Some(address) = config.metrics {
        writeln!(out, "metrics at http://{address}/metrics")?;
    }
    if let Some(path) = &config.history {
        writeln!(out, "history in {}", path.display())?;
    }
    let bimodal = &config.engine.bimodal_groups;
    if !bimodal.is_empty() {
        writeln!(out, "bimodal groups: {}", bimodal.join(", "))?;
    }
    for ring in &config.rings {
        writeln!(out, "ring {} at {}", ring.top, ring.multicast)?;
    }
    Ok(())
}

fn failed(error: DaemonError) -> Failure {
    match error {
        DaemonError::Config(error) => explain(&error),
        error => {
            let failure = Failure::failed(&error);
            match error.help() {
                Some(help) => failure.help(help),
                None => failure,
            }
        }
    }
}

impl Args {
    fn options(self) -> Options {
        Options {
            name: self.name,
            listen: self.listen,
            multicast: self.multicast,
            peer: Some(self.peer).filter(|peers| !peers.is_empty()),
            socket: self.socket.or_else(target::socket_of_environment),
            client_listen: self.client_listen,
            bus: Some(self.bus).filter(|bus| !bus.is_empty()),
            bus_trace: self.bus_trace,
            metrics: self.metrics,
            client_token: self.client_token,
            tls_certificate: self.tls_certificate,
            tls_key: self.tls_key,
            tls_client_ca: self.tls_client_ca,
            key: self.key,
            insecure: self.insecure.then_some(true),
            protocol: self.protocol.map(|order| order.name().to_owned()),
            history: self.history,
            ..Options::default()
        }
    }
}

/// The failure for a configuration error: a usage error, with the line of the file if it came from
/// one.
fn explain(error: &DaemonConfigError) -> Failure {
    let Some(place) = error.place() else {
        return Failure::usage(error).help(error.help());
    };
    let name = place.source.path.display().to_string();
    Failure::usage(format!("{place}: {error}"))
        .help(error.help())
        .shown_in(&name, &place.source.text, place.span.clone())
}
