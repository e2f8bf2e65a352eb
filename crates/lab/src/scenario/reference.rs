//! The tables of `docs/scenarios.md` that say what the settings of the protocols are, written from
//! their lists.
//!
//! A test holds the document against them; `BLESS=1` rewrites it.

use std::fmt::Write as _;

use groupcast_core::family::FamilySettings;

/// The settings of a family: those of its first preset are the defaults.
fn table(settings: &FamilySettings) -> String {
    let mut text =
        String::from("| key | value | default | meaning | when wrong |\n|---|---|---|---|---|\n");
    let presets = settings.presets();
    let words: Vec<_> = presets
        .iter()
        .map(|preset| format!("`\"{}\"`", preset.name))
        .collect();
    let meanings: Vec<_> = presets
        .iter()
        .map(|preset| format!("`{}`: {}", preset.name, preset.meaning))
        .collect();
    let _ = writeln!(
        text,
        "| `preset` | {} | {} | where the other defaults come from. {} | |",
        words.join(", "),
        words[0],
        meanings.join(". "),
    );
    let usual = settings.config(None).expect("the first preset");
    for setting in usual.list() {
        let needs = setting.needs.map(|needs| format!("; with `{needs}`"));
        let _ = writeln!(
            text,
            "| `{}` | {}{} | {} | {} | {} |",
            setting.name,
            setting.spec.describe(),
            needs.unwrap_or_default(),
            setting.shown(),
            setting.meaning,
            setting.wrong,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Duration;

    use groupcast_core::family::Family;
    use groupcast_core::settings::{Kind, SettingState, Value};
    use groupcast_protocols::registry::FAMILIES;

    use super::*;
    use crate::scenario::Scenario;

    /// The families that have settings.
    fn families() -> impl Iterator<Item = (&'static Family, &'static FamilySettings)> {
        let settings = |family: &&'static Family| Some((*family, family.settings.as_ref()?));
        FAMILIES.iter().filter_map(settings)
    }

    /// A value of the setting: its default, or one of its range where it is left open.
    fn value(setting: &SettingState) -> Value {
        setting.value.unwrap_or_else(|| match setting.spec.kind {
            Kind::Count { least, .. } => Value::Integer(least.max(1)),
            Kind::Time { .. } => Value::Time(Duration::from_millis(10)),
            Kind::Bandwidth { least } => Value::Integer(least),
            Kind::Flag => Value::Flag(true),
            Kind::Word(words) | Kind::WordOr(words, _) => Value::Word(words[0]),
            other => panic!("{}: a value of {other:?}", setting.name),
        })
    }

    /// A line with a setting, after lines with the settings that it needs.
    fn keys(setting: &SettingState, all: &BTreeMap<&str, SettingState>) -> String {
        let needed = needed(setting.needs, all);
        let value = setting.spec.kind.toml(value(setting));
        format!("{needed}{} = {value}\n", setting.name)
    }

    /// Lines with these needs, and with what they need themselves.
    fn needed(needs: Option<&str>, all: &BTreeMap<&str, SettingState>) -> String {
        match needs {
            // Of several values any will do.
            Some(needs) if needs.contains('=') => {
                let first = needs.split(" or ").next().unwrap_or(needs);
                let name = first.split(" = ").next().unwrap_or(first);
                let before = all.get(name).and_then(|setting| setting.needs);
                format!("{}{first}\n", needed(before, all))
            }
            Some(name) => keys(&all[name], all),
            None => String::new(),
        }
    }

    #[test]
    fn every_setting_of_the_lists_is_read() {
        for (family, settings) in families() {
            let list = settings.config(None).expect("the first preset").list();
            let all: BTreeMap<_, _> = list.into_iter().map(|it| (it.name, it)).collect();
            for setting in all.values() {
                let keys = keys(setting, &all);
                let text = format!(
                    "duration = \"1 s\"\n[network]\nkind = \"switch\"\nhosts = 4\n\
                     link = {{ bandwidth = \"1 Gb/s\", delay = \"5 us\" }}\n\
                     [protocol]\nname = \"{}\"\n{keys}",
                    family.name
                );
                if let Err(error) = Scenario::parse(Path::new("s.toml"), &text, &[]) {
                    panic!("{keys}\n{error}");
                }
            }
        }
    }

    #[test]
    fn the_document_has_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
        let found = std::fs::read_to_string(&path).unwrap();
        let mut document = found.clone();
        for (family, settings) in families() {
            let begin = format!("<!-- settings of {} -->\n", family.name);
            let start = document.find(&begin).expect(family.name) + begin.len();
            let end = start + document[start..].find("<!-- end -->").expect(family.name);
            document.replace_range(start..end, &table(settings));
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &document).unwrap();
            return;
        }
        assert!(document == found, "BLESS=1 rewrites docs/scenarios.md");
    }
}
