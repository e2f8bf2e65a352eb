//! The tables of `[[rings]]`: rings that order the groups at and below a name, beside the daemon's
//! own order.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use groupcast_core::family::OrderLimits;
use groupcast_core::settings::read::Wrong;
use groupcast_core::settings::suggest::did_you_mean;
use groupcast_core::settings::{ConfigError, Value};
use groupcast_protocols::rmp;
use groupcast_session::frame::FRAME_MAX;
use groupcast_session::names::DomainName;
use toml::de::{DeTable, DeValue};

use super::file::{address, list, text, written};
use super::keys::keys;
use super::order::{Order, order_key};

/// How a ring is written.
const EXAMPLE: &str = "{ top = \"wb.cb.uiuc\", multicast = \"239.192.79.2:4809\" }";

/// A ring as a file says it.
#[derive(Clone, PartialEq, Debug)]
pub struct RingOptions {
    /// Its top.
    pub top: String,
    /// Where its multicasts go.
    pub multicast: SocketAddrV4,
    /// Settings of its protocol, by their names.
    pub settings: BTreeMap<String, Value>,
}

/// A ring beside the daemon's own order.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Its top: it orders the groups at and below this name.
    pub top: String,
    /// Where its multicasts go.
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
    let known = keys();
    for (key, value) in table {
        let (word, value) = (key.get_ref().as_ref(), value.get_ref());
        match word {
            "top" => top = Some(name(text(value)?)?),
            "multicast" => multicast = Some(group(address(value)?)?),
            _ => {
                let dotted = order_key(&rmp::ORDER, word);
                let setting = known.iter().find(|key| key.name == dotted);
                let Some(kind) = setting.and_then(|key| key.kind) else {
                    return Err(unknown(word));
                };
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

fn unknown(word: &str) -> Wrong {
    let table = order_key(&rmp::ORDER, "");
    let known = keys();
    let settings = known.iter().filter_map(|key| key.name.strip_prefix(&table));
    let all: Vec<&str> = ["top", "multicast"].into_iter().chain(settings).collect();
    Wrong {
        message: format!("`{word}` is not a key of a ring"),
        help: did_you_mean(word, &all),
    }
}

/// A name that can be a top.
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
    match address.ip().is_multicast() && address.port() != 0 {
        true => Ok(address),
        false => Err(Wrong {
            message: format!("`{address}` is not a multicast address with a port"),
            help: "use an address of 224.0.0.0/4, best of 239.192.0.0/14, another for each ring, for example \
                   \"239.192.79.2:4809\""
                .into(),
        }),
    }
}

impl RingOptions {
    /// The ring with defaults for what is not said.
    ///
    /// # Errors
    /// The setting that contradicts others.
    pub(super) fn build(&self) -> Result<Ring, ConfigError> {
        let preset = match self.settings.get("preset") {
            Some(Value::Word(name)) => Some(*name),
            _ => None,
        };
        let config = rmp::ORDER.daemon_config(preset);
        let mut config = config.expect("the words of the key are the presets");
        config.set_limits(OrderLimits {
            // What clients may send is limited by the engine, whose own messages must pass too.
            message_max: FRAME_MAX,
            ..config.limits()
        });
        for setting in config.list() {
            if let Some(value) = self.settings.get(setting.name) {
                config.set(setting.name, *value);
            }
        }
        config.members()?;
        Ok(Ring {
            top: self.top.clone(),
            multicast: self.multicast,
            order: Order {
                family: &rmp::ORDER,
                config,
            },
        })
    }
}

impl Ring {
    /// Whether it is written as `other` is.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.top == other.top
            && self.multicast == other.multicast
            && self.order.differences(&other.order).is_empty()
    }
}
