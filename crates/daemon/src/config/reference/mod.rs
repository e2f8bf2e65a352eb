//! The reference of all keys, from which `docs/configuration.md` is written.
//!
//! A test holds it against the keys that are read and the defaults that are used; `BLESS=1` rewrites the document.

mod keys;

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use groupcast_net::EndpointConfig;
use groupcast_protocols::gossip::GossipConfig;
use groupcast_protocols::ring::RingConfig;
use groupcast_session::EngineConfig;

pub use self::keys::KEYS;
use super::{LISTEN_PORT, MULTICAST, Span};

/// What there is to know of a key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted: the table, if it is in one, and the key.
    pub name: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// What kind of value, in which unit, in which range.
    pub value: &'static str,
    /// The default, as TOML where it is a constant, else in words.
    pub default: Default,
    /// What goes wrong when it is too small or too large, or otherwise wrong.
    pub wrong: &'static str,
}

/// The default of a key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Default {
    /// This constant, as TOML.
    Toml(&'static str),
    /// A default of the client side, as TOML.
    Engine(fn(&EngineConfig) -> String),
    /// A default of the network driver, as TOML.
    Net(fn(&EndpointConfig) -> String),
    /// A default of the ring, as TOML.
    Ring(fn(&RingConfig) -> String),
    /// A default of the gossip in bimodal groups, as TOML.
    Gossip(fn(&GossipConfig) -> String),
    /// Found out at the start, in words.
    Words(&'static str),
}

impl Default {
    /// As TOML, if it is a constant.
    fn toml(self) -> Option<String> {
        match self {
            Self::Toml(value) => Some(value.to_owned()),
            Self::Engine(value) => Some(value(&EngineConfig::default())),
            Self::Net(value) => Some(value(&EndpointConfig::multicast(
                SocketAddrV4::new(Ipv4Addr::LOCALHOST, LISTEN_PORT),
                MULTICAST,
            ))),
            Self::Ring(value) => Some(value(&RingConfig::lan())),
            Self::Gossip(value) => Some(value(&GossipConfig::lan())),
            Self::Words(_) => None,
        }
    }
}

fn span(duration: Duration) -> String {
    format!("\"{}\"", Span(duration))
}

/// The document.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    let mut table = None;
    for key in KEYS {
        let parent = key.name.rsplit_once('.').map(|(parent, _)| parent);
        if parent != table {
            table = parent;
            if let Some(table) = table {
                let _ = writeln!(text, "\n## `[{table}]`");
            }
        }
        let default = match (key.default, key.default.toml()) {
            (Default::Words(words), _) => words.to_owned(),
            (_, value) => format!("`{}`", value.unwrap_or_default()),
        };
        let _ = write!(
            text,
            "\n### `{}`\n{}\n\n- value: {}\n- default: {default}\n- when wrong: {}\n",
            key.name, key.meaning, key.value, key.wrong
        );
    }
    text
}

const HEAD: &str = "\
# Configuration of the daemon

`groupcast daemon -c FILE` reads a TOML file. Every option of the command line is a key too, called the same with `_`
for `-`; the command line wins over the file. Unknown keys, values out of range and contradictions are errors that name
the line. All daemons of a cluster need the same `multicast` (or connected `peer` lists) and the same `key`.

```toml
name = \"host-1\"
key = \"cluster.key\"
```

(Written from `crates/daemon/src/config/reference`; `BLESS=1 cargo test -p groupcast-daemon` rewrites it.)
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, File, Options};
    use super::*;

    /// The dotted names of all keys that a file may have.
    fn names(prefix: &str, value: &serde_json::Value, names: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(table) => {
                for (name, value) in table {
                    let dotted = match prefix {
                        "" => name.clone(),
                        prefix => format!("{prefix}.{name}"),
                    };
                    self::names(&dotted, value, names);
                }
            }
            _ => names.push(prefix.to_owned()),
        }
    }

    #[test]
    fn every_key_is_documented_and_nothing_else() {
        let mut read = Vec::new();
        names(
            "",
            &serde_json::to_value(Options::default()).unwrap(),
            &mut read,
        );
        read.sort();
        let mut documented: Vec<String> = KEYS.iter().map(|key| key.name.to_owned()).collect();
        documented.sort();
        assert_eq!(documented, read);
    }

    #[test]
    fn documented_defaults_are_the_defaults() {
        let stated = KEYS
            .iter()
            .filter(|key| key.name != "insecure")
            .filter_map(|key| Some(format!("{} = {}\n", key.name, key.default.toml()?)))
            .collect::<String>();
        let build = |text: &str| {
            let file =
                File::parse(Path::new("t.toml"), &format!("insecure = true\n{text}")).unwrap();
            Config::build(Some(&file), Options::default()).unwrap()
        };
        assert_eq!(format!("{:?}", build(&stated)), format!("{:?}", build("")));
    }

    #[test]
    fn the_document_is_written_from_here() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, markdown()).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            markdown(),
            "BLESS=1 rewrites it"
        );
    }
}
