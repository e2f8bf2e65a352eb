//! What a configuration file or a command line says: every key optional, not yet checked against the others.
//!
//! The same type carries both: the command line is laid over the file with [`Options::overlaid_with`], and what is
//! then still missing gets its default in [`Config::build`](super::Config::build).

use std::fs;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::bimodal::BimodalOptions;
use super::clients::ClientOptions;
use super::error::{ConfigError, Place, Source};
use super::net::NetOptions;
use super::ring::RingOptions;

/// All keys. Meaning, unit, default and range of each are in [`reference`](super::reference).
#[derive(Clone, Default, PartialEq, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The daemon's name, unique in the cluster.
    pub name: Option<String>,
    /// Address and port of the daemon's datagrams; the port may be left out.
    pub listen: Option<Listen>,
    /// The group's multicast address.
    pub multicast: Option<SocketAddrV4>,
    /// Peers to reach by unicast where there is no multicast.
    pub peer: Option<Vec<SocketAddrV4>>,
    /// How many routers a multicast may cross.
    pub ttl: Option<u8>,
    /// Whether other daemons on this host hear the multicasts.
    pub multicast_loop: Option<bool>,
    /// The Unix socket for clients.
    pub socket: Option<PathBuf>,
    /// A TCP address for clients.
    pub client_listen: Option<SocketAddr>,
    /// The file with the cluster's key.
    pub key: Option<PathBuf>,
    /// Run without a key.
    pub insecure: Option<bool>,
    /// Where to write the history.
    pub history: Option<PathBuf>,
    /// Settings of the client side.
    pub clients: ClientOptions,
    /// Settings of the sockets between daemons.
    pub net: NetOptions,
    /// Settings of the ring.
    pub ring: RingOptions,
    /// The bimodal groups, and settings of their gossip.
    pub bimodal: BimodalOptions,
}

/// `IP` or `IP:PORT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Listen {
    /// The address of the interface.
    pub ip: IpAddr,
    /// The port, if given.
    pub port: Option<u16>,
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Self { ip, port: None });
        }
        text.parse::<SocketAddr>()
            .map(|address| Self {
                ip: address.ip(),
                port: Some(address.port()),
            })
            .map_err(|_| {
                format!("`{text}` is not an address: use IP or IP:PORT, for example 10.0.0.5:4810")
            })
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        match listen.port {
            Some(port) => SocketAddr::new(listen.ip, port).to_string(),
            None => listen.ip.to_string(),
        }
    }
}

/// A configuration file: its options, and its text to point into.
#[derive(Clone, Debug)]
pub struct File {
    /// What it says.
    pub options: Options,
    source: Arc<Source>,
}

impl File {
    /// Reads the file at `path`. Relative paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut file = Self::parse(path, &text)?;
        if let Some(directory) = path.parent() {
            let options = &mut file.options;
            for named in [&mut options.socket, &mut options.key, &mut options.history]
                .into_iter()
                .flatten()
            {
                *named = directory.join(&*named);
            }
        }
        Ok(file)
    }

    /// Reads `text` as the contents of the file at `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = Arc::new(Source {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        match toml::from_str(text) {
            Ok(options) => Ok(Self { options, source }),
            Err(error) => Err(ConfigError::Syntax {
                message: error.message().to_owned(),
                place: Place {
                    source,
                    span: error.span().unwrap_or(0..0),
                },
            }),
        }
    }

    /// Where the file sets the dotted `key`, if it does.
    pub fn place(&self, key: &str) -> Option<Place> {
        let document = DeTable::parse(&self.source.text).ok()?;
        let mut table = document.get_ref();
        let (parents, last) = match key.rsplit_once('.') {
            Some((parents, last)) => (parents.split('.').collect(), last),
            None => (Vec::new(), key),
        };
        for parent in parents {
            table = table.get(parent).map(Spanned::get_ref)?.as_table()?;
        }
        let value: &Spanned<DeValue<'_>> = table.get(last)?;
        Some(Place {
            source: self.source.clone(),
            span: value.span(),
        })
    }
}

impl Options {
    /// Whether the dotted `key` is set.
    pub(super) fn sets(&self, key: &str) -> bool {
        let Ok(mut value) = serde_json::to_value(self) else {
            return false;
        };
        key.split('.')
            .try_fold(&mut value, |value, part| value.get_mut(part))
            .is_some_and(|value| !value.is_null())
    }

    /// These options with `over` laid over them. Of options that exclude each other (`key` and `insecure`, `multicast`
    /// and `peer`), one that is laid over displaces both.
    pub fn overlaid_with(self, over: Self) -> Self {
        let secured = over.key.is_some() || over.insecure.is_some();
        let reached = over.multicast.is_some() || over.peer.is_some();
        Self {
            name: over.name.or(self.name),
            listen: over.listen.or(self.listen),
            multicast: over.multicast.or(self.multicast.filter(|_| !reached)),
            peer: over.peer.or(self.peer.filter(|_| !reached)),
            ttl: over.ttl.or(self.ttl),
            multicast_loop: over.multicast_loop.or(self.multicast_loop),
            socket: over.socket.or(self.socket),
            client_listen: over.client_listen.or(self.client_listen),
            key: over.key.or(self.key.filter(|_| !secured)),
            insecure: over.insecure.or(self.insecure.filter(|_| !secured)),
            history: over.history.or(self.history),
            // The command line has no options for what is in tables.
            clients: self.clients,
            net: self.net,
            ring: self.ring,
            bimodal: self.bimodal,
        }
    }
}
