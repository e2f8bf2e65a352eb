//! What can be said of a configuration's files and directories before a daemon starts, without
//! writing or making anything.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;

use groupcast_check::ndjson::is_history;
use groupcast_net::NetError;
use rustix::fs::{Access, AtFlags, CWD, OFlags};
use rustix::io::Errno;

use crate::Daemon;
use crate::config::{BusAddress, Config};
use crate::error::DaemonError;
use crate::history;
use crate::rings::history_path;
use crate::spill;
use crate::start::load_token;
use crate::trace::Traces;

impl Daemon {
    /// Whether this user's daemon could use what `config` names on this host: its addresses, and
    /// the files and directories of the token, sockets, histories, log, traces and slow clients.
    /// Opens some of them, writes none, and makes none that stays; what a running daemon uses is
    /// not refused.
    ///
    /// # Errors
    /// What [`start`](Self::start) would say; of the log, what [`log_to`](crate::log_to) would.
    pub fn check(config: &Config) -> Result<(), DaemonError> {
        load_token(config)?;
        has_addresses(config)?;
        if let Some(path) = &config.spill_dir {
            spill::can_hold_files(path)?;
        }
        if let Some(path) = &config.history {
            can_write_histories(path, config)?;
        }
        config.bus_trace.as_deref().map(Traces::open).transpose()?;
        can_listen(&config.socket)?;
        for path in config.bus.iter().filter_map(BusAddress::path) {
            can_listen(path).map_err(|error| DaemonError::Bus(Box::new(error)))?;
        }
        if let Some(path) = &config.log_file {
            can_append(path).map_err(|source| DaemonError::LogFile {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

/// Whether the addresses at which it listens are this host's. That their ports are free is not
/// asked: a running daemon has them.
fn has_addresses(config: &Config) -> Result<(), DaemonError> {
    let listen = config.endpoint.listen;
    if has(SocketAddr::V4(listen)).is_err() {
        let address = *listen.ip();
        return Err(NetError::NotLocal { address }.into());
    }
    if let Some(address) = config.client_listen {
        has(address).map_err(|source| DaemonError::ClientListen { address, source })?;
    }
    for address in &config.bus {
        if let BusAddress::Tcp(address) = *address {
            let failed = |source| DaemonError::ClientListen { address, source };
            has(address).map_err(|source| DaemonError::Bus(failed(source).into()))?;
        }
    }
    if let Some(address) = config.metrics {
        has(address).map_err(|source| DaemonError::Metrics { address, source })?;
    }
    Ok(())
}

/// Whether this host has the IP address. What else may be wrong with a socket is no fault of it.
fn has(address: SocketAddr) -> io::Result<()> {
    match UdpSocket::bind((address.ip(), 0)) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Err(error),
        _ => Ok(()),
    }
}

/// Whether a socket can be made at `path`, or is there.
fn can_listen(path: &Path) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::Socket {
        path: path.to_owned(),
        source,
    };
    UnixAddress::from_pathname(path).map_err(failed)?;
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(DaemonError::NotASocket {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        // One that is there is replaced.
        _ => can_make(path).map_err(failed),
    }
}

/// Whether the history at `path` can be written, and those of the rings beside it.
fn can_write_histories(path: &Path, config: &Config) -> Result<(), DaemonError> {
    let failed = |path: &Path, source| DaemonError::History {
        path: path.to_owned(),
        source,
    };
    can_go_on(path).map_err(|source| failed(path, source))?;
    for ring in &config.rings {
        let of_ring = history_path(path, &ring.top);
        can_go_on(&of_ring).map_err(|source| failed(&of_ring, source))?;
    }
    if config.engine.ring_pool.is_some() {
        // What joins will call their rings is not known yet: a file beside it can be made.
        can_make(path).map_err(|source| failed(path, source))?;
    }
    Ok(())
}

/// Whether a history can be begun at `path`, or goes on there.
fn can_go_on(path: &Path) -> io::Result<()> {
    let is_file = match history::open_own(&mut OpenOptions::new(), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return can_make(path),
        opened => opened?.metadata()?.is_file(),
    };
    match is_file && !is_history(path)? {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file holds something that is not a history",
        )),
        false => Ok(()),
    }
}

/// Whether lines can be appended to the file at `path`, or it can be made.
fn can_append(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits() as i32;
    match options.append(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_make(path),
        opened => opened.map(drop),
    }
}

/// Whether a file can be made at `path`.
fn can_make(path: &Path) -> io::Result<()> {
    match path.parent().filter(|it| !it.as_os_str().is_empty()) {
        Some(directory) => is_directory_to_write(directory),
        None => is_directory_to_write(Path::new(".")),
    }
}

fn is_directory_to_write(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS) {
        // Some containers forbid the question.
        Ok(()) | Err(Errno::NOSYS | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::config::{MetricsAddress, Options, RingOptions};

    /// Sets options, given the path of each name.
    type Set<'a> = &'a dyn Fn(&mut Options, &dyn Fn(&str) -> PathBuf);

    /// What is wrong with this option, in a directory with a file `file` that holds something, a
    /// history `h.ndjson`, and a socket.
    fn said(directory: &Path, set: Set<'_>) -> String {
        let at = |name: &str| directory.join(name);
        let mut options = Options {
            name: Some("a".into()),
            insecure: Some(true),
            socket: Some(at("a.sock")),
            ..Options::default()
        };
        set(&mut options, &at);
        match Daemon::check(&Config::build(None, options).unwrap()) {
            Ok(()) => String::new(),
            Err(error) => format!("{error}; {}", error.help().unwrap_or_default()),
        }
    }

    fn ring(top: &str) -> RingOptions {
        RingOptions {
            top: top.into(),
            multicast: "239.192.79.2:4809".parse().unwrap(),
            settings: BTreeMap::new(),
        }
    }

    #[test]
    fn a_configuration_has_the_warnings_of_its_start() {
        let warnings = |options| Config::build(None, options).unwrap().warnings();
        let near = Options {
            name: Some("a".into()),
            insecure: Some(true),
            listen: Some("127.0.0.1".parse().unwrap()),
            ..Options::default()
        };
        let without_key = "running without a key";
        let said = warnings(near.clone());
        assert!(said.len() == 1 && said[0].contains(without_key), "{said:?}");
        let said = warnings(Options {
            metrics: Some(MetricsAddress(([0, 0, 0, 0], 9812).into())),
            client_listen: Some(([127, 0, 0, 1], 4811).into()),
            bus: Some(vec![BusAddress::Tcp(([127, 0, 0, 1], 4812).into())]),
            ..near
        });
        let parts = [
            "every user of this host can be a client, over TCP",
            "every user of this host can be a client of the bus",
            "metrics: everybody who reaches 0.0.0.0:9812 can read them",
            without_key,
        ];
        assert_eq!(said.len(), parts.len(), "{said:?}");
        for (said, part) in said.iter().zip(parts) {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn what_a_start_would_refuse_is_said_and_nothing_is_made() {
        let directory = std::env::temp_dir().join(format!("gc-beforehand-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), "something").unwrap();
        let history = "{\"event\":\"start\",\"schema\":4}\n";
        fs::write(directory.join("h.ndjson"), history).unwrap();
        fs::write(directory.join("h.uiuc.ndjson"), "something").unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(directory.join("is.sock")).unwrap();
        let said = |set: Set<'_>| said(&directory, set);

        assert_eq!(said(&|_, _| ()), "");
        let good = |options: &mut Options, at: &dyn Fn(&str) -> PathBuf| {
            options.socket = Some(at("is.sock"));
            options.bus = Some(vec![BusAddress::Unix(at("bus.sock"))]);
            options.bus_trace = Some(at(""));
            options.spill_dir = Some(at(""));
            options.history = Some(at("h.ndjson"));
            options.rings = Some(vec![ring("wb.cb.uiuc")]);
            options.log_file = Some(at("new.log"));
        };
        assert_eq!(said(&good), "");
        let new = |options: &mut Options, at: &dyn Fn(&str) -> PathBuf| {
            options.history = Some(at("new.ndjson"));
            options.log_file = Some(at("file"));
        };
        assert_eq!(said(&new), "");

        // 192.0.2.0/24 is for documents: no host has it.
        let elsewhere = ([192, 0, 2, 1], 4811).into();
        let refused: [(Set<'_>, &str); 17] = [
            (
                &|it, _| it.listen = Some("192.0.2.1".parse().unwrap()),
                "192.0.2.1 is not an address of this host",
            ),
            (
                &|it, _| it.client_listen = Some(elsewhere),
                "--client-listen",
            ),
            (
                &|it, _| it.bus = Some(vec![BusAddress::Tcp(elsewhere)]),
                "--bus IP:PORT",
            ),
            (
                &|it, _| it.metrics = Some(MetricsAddress(elsewhere)),
                "--metrics IP:PORT",
            ),
            (&|it, at| it.spill_dir = Some(at("no")), "`spill_dir`"),
            // The superuser may write to this directory, and it can hold no file.
            (
                &|it, _| it.spill_dir = Some("/proc/self".into()),
                "cannot keep messages for slow clients in /proc/self",
            ),
            (
                &|it, at| {
                    it.history = Some(at("h.ndjson"));
                    it.rings = Some(vec![ring("uiuc")]);
                },
                "h.uiuc.ndjson",
            ),
            (&|it, at| it.spill_dir = Some(at("file")), "`spill_dir`"),
            (
                &|it, at| {
                    it.bus = Some(vec![BusAddress::Unix(at("bus.sock"))]);
                    it.bus_trace = Some(at("no"));
                },
                "--bus-trace",
            ),
            (&|it, at| it.history = Some(at("no/x")), "--history"),
            (&|it, at| it.history = Some(at("file")), "not a history"),
            (
                &|it, at| it.log_file = Some(at("no/x")),
                "cannot append log lines",
            ),
            (
                &|it, at| it.log_file = Some(at("")),
                "cannot append log lines",
            ),
            (&|it, at| it.socket = Some(at("file")), "is no socket"),
            (&|it, at| it.socket = Some(at("no/x")), "cannot listen"),
            (
                &|it, at| it.socket = Some(at(&"x".repeat(120))),
                "107 bytes",
            ),
            (
                &|it, at| it.bus = Some(vec![BusAddress::Unix(at("file"))]),
                "--bus unix:PATH",
            ),
        ];
        for (set, expected) in refused {
            let said = said(set);
            assert!(said.contains(expected), "{expected} in {said:?}");
        }
        let token = |options: &mut Options, at: &dyn Fn(&str) -> PathBuf| {
            options.client_listen = Some(([127, 0, 0, 1], 4811).into());
            options.client_token = Some(at("no"));
        };
        let said = said(&token);
        assert!(
            said.starts_with("client_token: there is no token file"),
            "{said}"
        );
        assert!(
            said.contains("groupcast keygen") && !said.contains("first host"),
            "{said}"
        );

        let entries = fs::read_dir(&directory).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "h.ndjson", "h.uiuc.ndjson", "is.sock"]);
        assert_eq!(
            fs::read_to_string(directory.join("file")).unwrap(),
            "something"
        );
        assert_eq!(
            fs::read_to_string(directory.join("h.ndjson")).unwrap(),
            history
        );
        fs::remove_dir_all(&directory).unwrap();
    }
}
