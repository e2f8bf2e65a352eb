//! The tables of `docs/scenarios.md` that say what the settings of the protocols are, written from
//! their lists.
//!
//! A test holds the document against them; `BLESS=1` rewrites it.

use std::fmt::Write as _;

use groupcast_core::settings::Settings;
use groupcast_protocols::bulk::{BulkConfig, MessagesConfig, Wanted};
use groupcast_protocols::gossip::GossipConfig;
use groupcast_protocols::ring::RingConfig;
use groupcast_protocols::srm::SrmConfig;

/// The tables, by the protocol's name.
fn tables() -> [(&'static str, String); 4] {
    let messages = MessagesConfig {
        receivers: Wanted::Open,
        ..MessagesConfig::default()
    };
    [
        ("ring", table(&RingConfig::lan())),
        ("bulk", table(&BulkConfig::lan()) + &rows(&messages)),
        ("gossip", table(&GossipConfig::lan())),
        ("srm", table(&SrmConfig::lan())),
    ]
}

/// The settings of a protocol whose first preset is `usual`.
fn table<C: Settings>(usual: &C) -> String {
    let mut text =
        String::from("| key | value | default | meaning | when wrong |\n|---|---|---|---|---|\n");
    let words: Vec<_> = C::PRESETS
        .iter()
        .map(|preset| format!("`\"{}\"`", preset.name))
        .collect();
    let what: Vec<_> = C::PRESETS
        .iter()
        .map(|preset| format!("`{}`: {}", preset.name, preset.meaning))
        .collect();
    let _ = writeln!(
        text,
        "| `preset` | {} | {} | where the other defaults come from. {} | |",
        words.join(", "),
        words[0],
        what.join(". "),
    );
    text + &rows(usual)
}

fn rows<C: Settings>(usual: &C) -> String {
    C::settings().fold(String::new(), |mut text, setting| {
        let needs = setting
            .needs
            .as_ref()
            .map(|needs| format!("; with `{}`", needs.what));
        let _ = writeln!(
            text,
            "| `{}` | {}{} | {} | {} | {} |",
            setting.name,
            setting.spec.describe(),
            needs.unwrap_or_default(),
            setting.shown(usual),
            setting.meaning(),
            setting.wrong,
        );
        text
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use groupcast_core::settings::{Kind, Setting, Value};

    use super::*;
    use crate::scenario::Scenario;

    /// A value of the setting: its default, or one of its range where it is left open.
    fn value<C>(setting: &Setting<C>, usual: &C) -> Value {
        let kind = setting.spec.kind;
        (setting.get)(usual).unwrap_or_else(|| match kind {
            Kind::Count { least, .. } => Value::Integer(least.max(1)),
            Kind::Time { .. } => Value::Time(Duration::from_millis(10)),
            Kind::Flag => Value::Flag(true),
            other => panic!("{}: a value of {other:?}", setting.name),
        })
    }

    /// Every setting is a key of the protocol's.
    fn every_setting_is_a_key<C: Settings>(protocol: &str, usual: &C) {
        for setting in C::settings() {
            let value = setting.spec.kind.toml(value(setting, usual));
            let needs = setting.needs.as_ref().map_or("", |needs| needs.what);
            let keys = format!("name = \"{protocol}\"\n{needs}\n{} = {value}", setting.name);
            let text = format!(
                "duration = \"1 s\"\n[network]\nkind = \"switch\"\nhosts = 4\n\
                 link = {{ bandwidth = \"1 Gb/s\", delay = \"5 us\" }}\n[protocol]\n{keys}"
            );
            if let Err(error) = Scenario::parse(Path::new("s.toml"), &text, &[]) {
                panic!("{keys}\n{error}");
            }
        }
    }

    #[test]
    fn every_setting_of_the_lists_is_read() {
        every_setting_is_a_key("ring", &RingConfig::lan());
        every_setting_is_a_key("bulk", &BulkConfig::lan());
        every_setting_is_a_key("bulk", &MessagesConfig::default());
        every_setting_is_a_key("gossip", &GossipConfig::lan());
        every_setting_is_a_key("srm", &SrmConfig::lan());
    }

    #[test]
    fn the_document_has_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
        let found = std::fs::read_to_string(&path).unwrap();
        let mut document = found.clone();
        for (protocol, table) in tables() {
            let begin = format!("<!-- settings of {protocol} -->\n");
            let start = document.find(&begin).expect(protocol) + begin.len();
            let end = start + document[start..].find("<!-- end -->").expect(protocol);
            document.replace_range(start..end, &table);
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &document).unwrap();
            return;
        }
        assert!(document == found, "BLESS=1 rewrites docs/scenarios.md");
    }
}
