//! The settings of a protocol, read by the names that its family lists.

use groupcast_core::family::{FamilySettings, GroupConfig};
use groupcast_core::settings::ConfigError;

use super::error::ScenarioError;
use super::section::Section;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The settings that `section` gives, laid over its preset.
pub(super) fn read(
    section: &Section<'_>,
    settings: &FamilySettings,
) -> Result<Box<dyn GroupConfig>> {
    let preset = match section.get("preset") {
        Some(entry) => {
            let names: Vec<_> = settings
                .presets()
                .iter()
                .map(|it| (it.name, it.name))
                .collect();
            Some(entry.word(&names)?)
        }
        None => None,
    };
    let config = settings.config(preset);
    let mut config = config.expect("the name of one of its presets");
    lay_over(section, &mut *config)?;
    Ok(config)
}

/// Lays the settings that `section` gives over `config`.
fn lay_over(section: &Section<'_>, config: &mut dyn GroupConfig) -> Result<()> {
    for setting in config.list() {
        if let Some(entry) = section.get(setting.name) {
            config.set(setting.name, entry.value(&setting.spec.kind)?);
        }
    }
    for setting in config.list() {
        let (Some(needs), Some(entry)) = (setting.needs, section.get(setting.name)) else {
            continue;
        };
        if !setting.is_met {
            return Err(entry.wrong(
                format!("`{}` has no meaning without {needs}", setting.name),
                format!("leave it out, or say {needs}"),
            ));
        }
    }
    Ok(())
}

/// The error at the place of the setting that cannot be so, if the scenario has it.
pub(super) fn refused(section: &Section<'_>, error: &ConfigError) -> ScenarioError {
    match section.get(error.field) {
        Some(entry) => entry.wrong(error.problem(), error.remedy.as_str()),
        None => section.wrong(
            format!("{}: {}", error.field, error.problem()),
            error.remedy.as_str(),
        ),
    }
}
