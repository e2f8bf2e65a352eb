//! The reference of all keys, from which `docs/configuration.md` is written.
//!
//! A test holds it against the keys that are read and the defaults that are used; `BLESS=1` rewrites the document.

use std::fmt::Write as _;

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
pub enum Default {
    /// This constant, as TOML.
    Toml(&'static str),
    /// Found out at the start, in words.
    Words(&'static str),
}

/// Every key, in the order of the document.
pub const KEYS: &[Key] = &[
    Key {
        name: "name",
        meaning: "The daemon's name, unique in the cluster. Clients are called `client@name`.",
        value: "1 to 64 bytes of letters, digits, `-`, `_`, `.`",
        default: Default::Words("the host's name"),
        wrong: "The name of another daemon that is alive: whoever has run for less time stops with an error that \
                names the other.",
    },
    Key {
        name: "listen",
        meaning: "The interface by which the other daemons are reached, and the port of this daemon's datagrams.",
        value: "`\"IPv4\"` or `\"IPv4:PORT\"`",
        default: Default::Words(
            "the address from which multicasts leave this host, else 127.0.0.1; port 4810",
        ),
        wrong: "The address of another network: the daemon stays alone.",
    },
    Key {
        name: "multicast",
        meaning: "The group's multicast address and port; the same at every daemon of the cluster.",
        value: "`\"IPv4:PORT\"` in 224.0.0.0/4; not together with `peer`",
        default: Default::Toml("\"239.192.79.1:4809\""),
        wrong: "Different from the others': the daemon stays alone.",
    },
    Key {
        name: "ttl",
        meaning: "How many routers a multicast may cross.",
        value: "0 (this host) to 255; only with multicast",
        default: Default::Toml("1"),
        wrong: "Too small: daemons behind a router are not reached. Too large: the datagrams reach networks that have \
                no use for them.",
    },
    Key {
        name: "multicast_loop",
        meaning: "Whether other daemons on this host hear this one's multicasts.",
        value: "true or false; only with multicast",
        default: Default::Toml("true"),
        wrong: "False with several daemons on one host: they do not find each other. True costs a copy of every \
                datagram, which the daemon drops.",
    },
    Key {
        name: "peer",
        meaning: "The other daemons, where the network has no multicast (clouds, containers): each gets a unicast \
                  copy. Daemons that are not listed here but list this one are found too.",
        value: "list of `\"IPv4:PORT\"`; not together with `multicast`",
        default: Default::Words("none: multicast is used"),
        wrong: "Lists that do not connect all daemons: the cluster stays in parts. Each peer costs a copy of every \
                datagram.",
    },
    Key {
        name: "socket",
        meaning: "The Unix socket for clients of this host.",
        value: "path; relative to the file's directory",
        default: Default::Words(
            "`/run/groupcast.sock` for root, else `$XDG_RUNTIME_DIR/groupcast.sock`, else \
             `/tmp/groupcast-UID.sock`",
        ),
        wrong: "The socket of another daemon that is alive: this one refuses to start.",
    },
    Key {
        name: "client_listen",
        meaning: "A TCP address for clients of other hosts.",
        value: "`\"IP:PORT\"`; a loopback address unless `insecure`",
        default: Default::Words("none"),
        wrong: "Not a loopback address, without `insecure`: the daemon refuses to start, as clients would speak in \
                clear over the network.",
    },
    Key {
        name: "key",
        meaning: "The file with the key that all daemons of the cluster share; `groupcast keygen` makes one.",
        value: "path; relative to the file's directory; not together with `insecure`",
        default: Default::Words("none: the daemon refuses to start unless `insecure`"),
        wrong: "Another key than the others': datagrams are counted and logged as of another cluster, and dropped.",
    },
    Key {
        name: "insecure",
        meaning: "Run without a key: no authentication, no encryption.",
        value: "true or false; not together with `key`",
        default: Default::Toml("false"),
        wrong: "True where others can reach the network: they read and forge everything.",
    },
    Key {
        name: "history",
        meaning: "A file to which everything that the daemon's group did is written, for `groupcast check`.",
        value: "path; relative to the file's directory; replaced at the start",
        default: Default::Words("none"),
        wrong: "It grows by about 150 bytes a message and is never cut off.",
    },
    Key {
        name: "clients.max",
        meaning: "The most clients at once, on all sockets together.",
        value: "1 to 65536",
        default: Default::Toml("1024"),
        wrong: "Too small: clients are turned away. Too large: each may hold its share of memory.",
    },
];

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
        let default = match key.default {
            Default::Toml(value) => format!("`{value}`"),
            Default::Words(words) => words.to_owned(),
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

(Written from `crates/daemon/src/config/reference.rs`; `BLESS=1 cargo test -p groupcast-daemon` rewrites it.)
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
            .filter_map(|key| match key.default {
                Default::Toml(_) if key.name == "insecure" => None,
                Default::Toml(value) => Some(format!("{} = {value}\n", key.name)),
                Default::Words(_) => None,
            })
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
