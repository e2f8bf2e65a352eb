//! The tables of `[[rings]]`: rings that order the groups at and below a name, beside the daemon's
//! own order.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use groupcast_core::settings::read::{self, Wrong};
use groupcast_core::settings::suggest::did_you_mean;
use groupcast_core::settings::{ConfigError, Kind, Value};
use groupcast_net::config::is_for_routing;
use groupcast_protocols::rmp;
use groupcast_session::names::{DomainName, Pool};
use toml::de::{DeTable, DeValue};

use super::file::{address, list, text, written};
use super::keys::{Key, keys};
use super::order::{Order, order_key};

/// An example of the pool, for errors.
const POOL: &str = "{ network = \"239.192.80.0/24\", port = 4809 }";
/// An example of a ring, for errors.
const EXAMPLE: &str = "{ top = \"wb.cb.uiuc\", multicast = \"239.192.79.2:4809\" }";

/// A ring as a file has it.
#[derive(Clone, PartialEq, Debug)]
pub struct RingOptions {
    /// Its top.
    pub top: String,
    /// The address of its multicasts.
    pub multicast: SocketAddrV4,
    /// Settings of its protocol, by their names.
    pub settings: BTreeMap<String, Value>,
}

/// The pool for rings that joins ask for, as a file has it.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolOptions {
    /// Their addresses.
    pub addresses: Pool,
    /// Settings of their protocol, by their names.
    pub settings: BTreeMap<String, Value>,
}

/// A ring beside the daemon's own order.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Its top: it orders the groups at and below this name.
    pub top: Arc<str>,
    /// The address of its multicasts.
    pub multicast: SocketAddrV4,
    /// The protocol, with its settings.
    pub order: Order,
}

/// Reads all rings.
pub(super) fn rings(value: &DeValue<'_>) -> Result<Vec<RingOptions>, Wrong> {
    list(value, "[[rings]]", |item| match item {
        DeValue::Table(table) => ring(table),
        other => written(other).mistyped("a table", EXAMPLE),
    })
}

fn ring(table: &DeTable<'_>) -> Result<RingOptions, Wrong> {
    let (mut top, mut multicast, mut settings) = (None, None, BTreeMap::new());
    let known = &keys();
    for (key, value) in table {
        let (word, value) = (key.get_ref().as_ref(), value.get_ref());
        match word {
            "top" => top = Some(name(text(value)?)?),
            "multicast" => multicast = Some(group(address(value)?)?),
            _ => {
                let kind = setting(known, word);
                let kind = kind.ok_or_else(|| unknown("a ring", word, &["top", "multicast"]))?;
                settings.insert(word.to_owned(), kind.read(written(value))?);
            }
        }
    }
    let missing = |what: &str| Wrong {
        message: format!("a ring has no `{what}`"),
        help: format!("write both, for example {EXAMPLE}"),
    };
    Ok(RingOptions {
        top: top.ok_or_else(|| missing("top"))?,
        multicast: multicast.ok_or_else(|| missing("multicast"))?,
        settings,
    })
}

/// The kind of value that RMP's setting `word` takes.
fn setting(known: &[Key], word: &str) -> Option<Kind> {
    let dotted = order_key(&rmp::ORDER, word);
    let setting = known.iter().find(|key| key.name == dotted);
    setting.and_then(|key| key.kind)
}

/// Reads the pool of addresses for rings that joins ask for.
pub(super) fn pool(value: &DeValue<'_>) -> Result<PoolOptions, Wrong> {
    let DeValue::Table(table) = value else {
        return written(value).mistyped("a table", POOL);
    };
    let (mut of_network, mut port, mut settings) = (None, None, BTreeMap::new());
    let known = keys();
    for (key, value) in table {
        let (word, value) = (key.get_ref().as_ref(), value.get_ref());
        match word {
            "network" => of_network = Some(network(text(value)?)?),
            "port" => port = Some(pool_port(value)?),
            _ => {
                let kind = setting(&known, word);
                let kind = kind.ok_or_else(|| unknown("ring_pool", word, &["network", "port"]))?;
                settings.insert(word.to_owned(), kind.read(written(value))?);
            }
        }
    }
    let missing = |what: &str| Wrong {
        message: format!("the pool has no `{what}`"),
        help: format!("write both, for example {POOL}"),
    };
    let (network, prefix) = of_network.ok_or_else(|| missing("network"))?;
    let port = port.ok_or_else(|| missing("port"))?;
    let pool = Pool::new(network, prefix, port).filter(|_| !is_for_routing(network));
    let addresses = pool.ok_or_else(|| Wrong {
        message: format!("`{network}/{prefix}` is no network of multicast addresses"),
        help: format!(
            "use a network of 224.0.0.0/4 without 224.0.0.0/24, best of 239.192.0.0/14, with 16 to 32 bits, for example {POOL}"
        ),
    })?;
    Ok(PoolOptions {
        addresses,
        settings,
    })
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), Wrong> {
    let parts = text.split_once('/');
    let read = parts.and_then(|(ip, bits)| Some((ip.parse().ok()?, bits.parse().ok()?)));
    read.ok_or_else(|| Wrong {
        message: format!("`{text}` is not a network"),
        help: "write its first address and how many bits it has, for example \"239.192.80.0/24\""
            .into(),
    })
}

fn pool_port(value: &DeValue<'_>) -> Result<u16, Wrong> {
    let number = read::number(written(value))?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.ok_or_else(|| Wrong {
        message: format!("{number} is out of range"),
        help: "use 1 to 65535".into(),
    })
}

fn unknown(what: &str, word: &str, own: &[&str]) -> Wrong {
    let table = order_key(&rmp::ORDER, "");
    let known = keys();
    let settings = known.iter().filter_map(|key| key.name.strip_prefix(&table));
    let all: Vec<&str> = own.iter().copied().chain(settings).collect();
    Wrong {
        message: format!("`{word}` is not a key of {what}"),
        help: did_you_mean(word, &all),
    }
}

/// Checks that a name can be a top.
fn name(top: &str) -> Result<String, Wrong> {
    match top.parse::<DomainName>() {
        Ok(_) => Ok(top.to_owned()),
        Err(error) => Err(Wrong {
            message: error.to_string(),
            help: "write levels with dots between, the root rightmost, for example \"wb.cb.uiuc\""
                .into(),
        }),
    }
}

fn group(address: SocketAddrV4) -> Result<SocketAddrV4, Wrong> {
    let is_for_groups = address.ip().is_multicast() && !is_for_routing(*address.ip());
    match is_for_groups && address.port() != 0 {
        true => Ok(address),
        false => Err(Wrong {
            message: format!("`{address}` is not a multicast address with a port"),
            help: "use an address of 224.0.0.0/4, not of 224.0.0.0/24, best of 239.192.0.0/14, another for each ring, for example \
                   \"239.192.79.2:4809\""
                .into(),
        }),
    }
}

impl RingOptions {
    /// The ring, with defaults for settings that the file does not have.
    ///
    /// # Errors
    /// The setting that contradicts others.
    pub(super) fn build(&self) -> Result<Ring, ConfigError> {
        Ok(Ring {
            top: self.top.as_str().into(),
            multicast: self.multicast,
            order: order(&self.settings)?,
        })
    }
}

/// RMP with these settings, and defaults for the others.
///
/// # Errors
/// The setting that contradicts others.
pub(super) fn order(settings: &BTreeMap<String, Value>) -> Result<Order, ConfigError> {
    Order::build(&rmp::ORDER, |name| settings.get(name))
}

impl Ring {
    /// Whether the file has the same as `other`.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.top == other.top
            && self.multicast == other.multicast
            && self.order.differences(&other.order).is_empty()
    }
}
