//! The rules of `[[when_slow]]`: what the daemon does about slow members of which groups.

use groupcast_core::settings::read::Wrong;
use groupcast_core::settings::suggest::did_you_mean;
use groupcast_session::WhenSlow;
use groupcast_session::groups::{SlowRule, SlowRules};
use toml::de::{DeTable, DeValue};

use super::access::group;
use super::file::{list, text, written};

/// The keys of a rule.
const KEYS: [&str; 2] = ["groups", "policy"];
/// An example of a rule, for errors.
const EXAMPLE: &str = "{ groups = [\"ticks/*\"], policy = \"drop\" }";

/// Reads all rules.
pub(super) fn when_slow(value: &DeValue<'_>) -> Result<SlowRules, Wrong> {
    let rules = list(value, "[[when_slow]]", |item| match item {
        DeValue::Table(table) => rule(table),
        other => written(other).mistyped("a table", EXAMPLE),
    })?;
    Ok(SlowRules(rules))
}

fn rule(table: &DeTable<'_>) -> Result<SlowRule, Wrong> {
    let (mut groups, mut policy) = (Vec::new(), None);
    for (key, value) in table {
        let value = value.get_ref();
        match key.get_ref().as_ref() {
            "groups" => groups = list(value, "[\"ticks/*\"]", group)?,
            "policy" => policy = Some(named(text(value)?)?),
            other => {
                return Err(Wrong {
                    message: format!("`{other}` is not a key of a rule"),
                    help: did_you_mean(other, &KEYS),
                });
            }
        }
    }
    match policy {
        Some(policy) if !groups.is_empty() => Ok(SlowRule { groups, policy }),
        _ => Err(Wrong {
            message: "a rule has `groups` and a `policy`".into(),
            help: format!("for example {EXAMPLE}"),
        }),
    }
}

fn named(word: &str) -> Result<WhenSlow, Wrong> {
    WhenSlow::find(|policy| policy.name() == word).ok_or_else(|| Wrong {
        message: format!("`{word}` is no policy"),
        help: did_you_mean(word, &WhenSlow::ALL.map(WhenSlow::name)),
    })
}
