//! The settings of a protocol, read by its list of them.

use groupcast_core::settings::{ConfigError, Settings};

use super::error::ScenarioError;
use super::section::Section;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The settings that `section` gives, laid over its preset.
pub(super) fn read<C: Settings>(section: &Section<'_>) -> Result<C> {
    let presets: Vec<_> = C::PRESETS
        .iter()
        .map(|preset| (preset.name, preset.make))
        .collect();
    let make = match section.get("preset") {
        Some(entry) => entry.word(&presets)?,
        None => presets[0].1,
    };
    let mut config = make();
    lay_over(section, &mut config)?;
    Ok(config)
}

/// The same, if `validate` finds that they fit each other.
pub(super) fn checked<C: Settings>(
    section: &Section<'_>,
    validate: fn(&C) -> std::result::Result<(), ConfigError>,
) -> Result<C> {
    let config = read(section)?;
    match validate(&config) {
        Ok(()) => Ok(config),
        Err(error) => Err(refused(section, &error)),
    }
}

/// Lays the settings that `section` gives over `config`.
pub(super) fn lay_over<C: Settings>(section: &Section<'_>, config: &mut C) -> Result<()> {
    for setting in C::settings() {
        if let Some(entry) = section.get(setting.name) {
            (setting.set)(config, entry.value(&setting.spec.kind)?);
        }
    }
    for setting in C::settings() {
        let (Some(needs), Some(entry)) = (&setting.needs, section.get(setting.name)) else {
            continue;
        };
        if !(needs.is_met)(config) {
            return Err(entry.wrong(
                format!("`{}` has no meaning without {}", setting.name, needs.what),
                format!("leave it out, or say {}", needs.what),
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
