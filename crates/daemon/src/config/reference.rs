//! The reference of all keys, from which `docs/configuration.md` is written.
//!
//! A test holds it against the keys that are read and the defaults that are used; `BLESS=1`
//! rewrites the document.

use std::fmt::Write as _;

use groupcast_core::settings::Settings as _;
use groupcast_protocols::ring::RingConfig;

use super::keys;

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
        if key.name == "ring.preset" {
            text.push_str(&presets());
        }
    }
    text
}

/// The presets in numbers, and where a daemon's settings are not those of a member without one.
fn presets() -> String {
    let columns = [
        RingConfig::daemon(),
        RingConfig::daemon_wan(),
        RingConfig::lan(),
        RingConfig::wan(),
    ];
    let mut text = String::from(
        "\nWhere the presets differ, and what a member without a daemon has (`RingConfig::lan()` and `wan()`, as in \
         scenarios):\n\n| setting | daemon, `lan` | daemon, `wan` | member, `lan` | member, `wan` |\n|---|---|---|---|---|\n",
    );
    for setting in RingConfig::settings().filter(|setting| !setting.spec.is_experimental) {
        let values = columns.each_ref().map(|config| setting.shown(config));
        if values.iter().any(|value| *value != values[0]) {
            let _ = writeln!(text, "| `{}` | {} |", setting.name, values.join(" | "));
        }
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

`groupcast daemon --check -c FILE` reads and checks the file and the key, and runs nothing.

## Environment, log and signals

The log goes to stderr, or to `log_file`. `GROUPCAST_LOG` says what is logged, or else `log`: `off`, `error`, `warn`, `info` (the default), `debug` or `trace`,
or a list such as `warn,groupcast_net=debug`. Lines that cannot be written (a closed pipe, one that is not read, a full disk)
are lost and counted, and nothing else happens. `GROUPCAST_SOCKET` stands for `--socket`, with the daemon and with the commands
that talk to it.

| signal | what the daemon does |
|---|---|
| SIGTERM, SIGINT | leaves its group and ends; a second one ends it at once |
| SIGHUP | opens `log_file` again and reads this file again. New values of `log` and of `[clients]` hold from then on; the log names the other keys that have changed, which take effect when the daemon starts again. A file that cannot be used is an error in the log; the daemon goes on as it is |
| SIGUSR1 | writes what `groupcast status --json` prints into the log |

## Values

A duration is a number and a unit: `ns`, `us`, `ms`, `s` or `min`. A size is a number of bytes, or a number and a unit in
quotes: `\"64 KiB\"`; `B`, `kB`, `MB`, `KiB`, `MiB`.

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
        let stated = keys()
            .iter()
            .filter(|key| key.name != "insecure")
            .filter_map(|key| Some(format!("{} = {}\n", key.name, key.default_toml()?)))
            .collect::<String>();
        assert!(stated.lines().count() > 50, "{stated}");
        assert_eq!(format!("{:?}", build(&stated)), format!("{:?}", build("")));
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
