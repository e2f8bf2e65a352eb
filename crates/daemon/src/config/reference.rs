//! The reference of all keys, from which `docs/configuration.md` is written.
//!
//! A test holds it against the keys that are read and the defaults that are used; `BLESS=1`
//! rewrites the document.

use std::fmt::Write as _;

use groupcast_core::family::OrderFamily;
use groupcast_core::settings::SettingState;
use groupcast_protocols::registry::ORDERED;

use super::keys;
use super::order::order_key;

/// The document.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    let mut table = None;
    for key in &keys() {
        if key.table() != table {
            table = key.table();
            if let Some(table) = table {
                let _ = writeln!(text, "\n## `[{table}]`");
            }
        }
        let _ = write!(
            text,
            "\n### `{}`\n{}\n\n- value: {}\n- default: {}\n- when wrong: {}\n",
            key.name, key.meaning, key.value, key.default, key.wrong
        );
        for order in ORDERED {
            if key.name == order_key(order, "preset") {
                text.push_str(&presets(order));
            }
        }
    }
    text
}

/// The presets in numbers, and where a daemon's settings are not those of a member without one.
fn presets(order: &OrderFamily) -> String {
    let names: Vec<&str> = order.presets().iter().map(|preset| preset.name).collect();
    let daemons = names.iter().map(|name| order.daemon_config(Some(name)));
    let members = names.iter().map(|name| order.member_config(Some(name)));
    let columns = daemons.chain(members).flatten().map(|config| config.list());
    let columns: Vec<Vec<SettingState>> = columns.collect();
    let heads = |whose: &str| {
        let heads = names.iter().map(|name| format!(" {whose}, `{name}` |"));
        heads.collect::<String>()
    };
    let mut text = format!(
        "\nWhere the presets differ, and what a member without a daemon has (as in scenarios):\n\n\
         | setting |{}{}\n|---|{}\n",
        heads("daemon"),
        heads("member"),
        "---|".repeat(columns.len())
    );
    for (index, setting) in columns[0].iter().enumerate() {
        let values: Vec<String> = columns.iter().map(|column| column[index].shown()).collect();
        let differ = values.iter().any(|value| *value != values[0]);
        if differ && !setting.spec.is_experimental {
            let _ = writeln!(text, "| `{}` | {} |", setting.name, values.join(" | "));
        }
    }
    text
}

const HEAD: &str = "\
# Configuration of the daemon

`groupcast daemon -c FILE` reads a TOML file. Every option of the command line is a key of the file too, with `_` for `-`; the command line has priority over the file.
Unknown keys, values out of range and contradictions are errors that name the line. All daemons of a cluster need the same `key`, and the same `multicast` address (or
`peer` lists, for hosts without multicast). Nothing else is required:

```toml
name = \"host-1\"
key = \"cluster.key\"
```

`groupcast daemon --check -c FILE` reads and checks the file, the key, the token and the files of TLS, and whether this user could use the sockets, files and directories that the file
names, the histories of further rings among them; it runs and writes nothing, and makes nothing that stays. What a running daemon uses is no fault. It checks for the host on which
it runs: an address to listen on that no interface of this host has is an error, as at the start. It gives the warnings that the start would give; the exit code is 0 all the same. Each key below has its meaning, its values, its default, and the effect of a wrong value.

## Environment, log and signals

The log goes to stderr, or to `log_file`. `GROUPCAST_LOG`, or else the key `log`, sets the level: `off`, `error`, `warn`, `info` (the default), `debug` or `trace`, or a list
such as `warn,groupcast_net=debug`. Lines that cannot be written (a closed pipe, a pipe or a terminal that is not read, a full disk) are lost and counted; they have no other effect.
`GROUPCAST_SOCKET` replaces `--socket`, for the daemon and for the commands that talk to it.

| signal | the daemon |
|---|---|
| SIGTERM, SIGINT | leaves its group and ends; a second one ends it at once, and lines of the log that still wait to be written are lost |
| SIGHUP | opens `log_file` again and reads this file again. New values of `log`, `access`, `when_slow` and `[clients]`, and the contents of the files of `tls_certificate`, `tls_key` and `tls_client_ca`, take effect at once; the log names the other keys that have changed, which take effect when the daemon starts again. A file that cannot be used is an error in the log; the daemon goes on as it is |
| SIGUSR1 | writes the output of `groupcast status --json` into the log |

## Values

A duration is a number and a unit: `ns`, `us`, `ms`, `s` or `min`. A size is a number of bytes, or a number and a unit in
quotes: `\"64 KiB\"`; `B`, `kB`, `MB`, `GB` (thousands), `KiB`, `MiB`, `GiB` (1,024). Options of commands that take `BYTES` read
the same, without quotes: `--size 64KiB`.

(Written from the lists of settings in the crates; `BLESS=1 cargo test -p groupcast-daemon` rewrites it.)
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, File, Options};
    use super::*;

    fn build(text: &str) -> Config {
        let file = File::parse(Path::new("t.toml"), &format!("insecure = true\n{text}")).unwrap();
        Config::build(Some(&file), Options::default()).unwrap()
    }

    #[test]
    fn every_documented_default_is_read_and_changes_nothing() {
        for order in ORDERED {
            let is_used = |key: &keys::Key| {
                let table = key.table();
                let mut others = ORDERED.iter().filter(|other| *other != order);
                !["insecure", "protocol"].contains(&key.name.as_str())
                    && others.all(|other| table != Some(other.name()))
            };
            let chosen = format!("protocol = \"{}\"\n", order.name());
            let stated = keys()
                .iter()
                .filter(|key| is_used(key))
                .filter_map(|key| Some(format!("{} = {}\n", key.name, key.default_toml()?)))
                .collect::<String>();
            assert!(stated.lines().count() > 50, "{stated}");
            let stated = format!("{chosen}{stated}");
            assert_eq!(
                format!("{:?}", build(&stated)),
                format!("{:?}", build(&chosen))
            );
        }
    }

    #[test]
    fn every_key_is_read() {
        for key in keys() {
            let text = format!("{} = [5]", key.name);
            let error = File::parse(Path::new("t.toml"), &text).expect_err(&text);
            assert!(!error.to_string().contains("not a key"), "{error}");
        }
    }

    #[test]
    fn the_protocols_of_the_registry_are_named() {
        let key = keys().into_iter().find(|key| key.name == "protocol");
        let value = key.unwrap().value;
        for order in ORDERED {
            assert!(value.contains(&format!("\"{}\"", order.name())), "{value}");
        }
    }

    #[test]
    fn no_key_is_there_twice() {
        let mut names: Vec<String> = keys().into_iter().map(|key| key.name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
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
