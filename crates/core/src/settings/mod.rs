//! Settings as data: one list for each configuration, which says all that there is to know of each
//! setting.
//!
//! The macro [`settings!`](crate::settings!) declares a configuration: a plain struct whose every
//! field states its meaning, default, range and what goes wrong. From that one text come the struct
//! with its documentation, its [`Default`], and the list [`Settings::settings`]. Whatever reads
//! settings from a file, checks them or documents them goes through the list: the daemon's
//! configuration, the simulator's scenarios and the reference in the documents.
//!
//! - [`Setting`], [`Spec`], [`Kind`], [`Value`]: a setting, what it may be, what it is.
//! - [`SettingState`]: the same for readers that do not know the type of the configuration.
//! - [`Settings`]: a configuration that has such a list.
//! - [`ConfigError`]: a setting that cannot work.
//! - [`read`]: from what a file has to a value; [`units`] and [`suggest`] help it.
//!
//! Parsing a file and pointing at its lines is left to the readers.

mod error;
mod field;
mod macros;
pub mod read;
mod spec;
pub mod suggest;
pub mod units;

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use self::error::ConfigError;
pub use self::field::SettingField;
pub use self::read::{Written, Wrong};
pub use self::spec::{Kind, Span, Spec, Value};

/// A setting of the configuration `C`.
#[derive(Debug)]
pub struct Setting<C: 'static> {
    /// Its name in files, and in errors.
    pub name: &'static str,
    /// What it decides; lines as they were written, see [`meaning`](Self::meaning).
    pub text: &'static str,
    /// What it may be.
    pub spec: Spec,
    /// What goes wrong when it is too small, too large or otherwise wrong.
    pub wrong: &'static str,
    /// Its value; none where it is left open, and where another setting makes it meaningless.
    pub get: fn(&C) -> Option<Value>,
    /// Gives it a value, which must be of its kind.
    pub set: fn(&mut C, Value),
    /// Where it has a meaning, if that depends on another setting.
    pub needs: Option<Needs<C>>,
}

/// What a setting needs beside it.
#[derive(Debug)]
pub struct Needs<C: 'static> {
    /// The other setting as a file has it: with its value if only one will do, as in `policy =
    /// "tree"`, else its name alone.
    pub what: &'static str,
    /// Whether it is so.
    pub is_met: fn(&C) -> bool,
}

/// Settings to begin with.
#[derive(Debug)]
pub struct Preset<C: 'static> {
    /// Its name in files.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// The settings.
    pub make: fn() -> C,
}

/// A setting as it is in a configuration, without the configuration's type.
#[derive(Clone, Debug)]
pub struct SettingState {
    /// Its name in files, and in errors.
    pub name: &'static str,
    /// What it decides, in one line.
    pub meaning: String,
    /// What it may be.
    pub spec: Spec,
    /// What goes wrong when it is too small, too large or otherwise wrong.
    pub wrong: &'static str,
    /// Its value; none where it is left open, and where another setting makes it meaningless.
    pub value: Option<Value>,
    /// What it needs beside it, as in [`Needs::what`].
    pub needs: Option<&'static str>,
    /// Whether that is so; true where it needs nothing.
    pub is_met: bool,
}

impl SettingState {
    /// Its value as a file would have it, or in words where it is left open.
    pub fn shown(&self) -> String {
        self.spec.shown(self.value)
    }
}

impl<C> Setting<C> {
    /// What it decides, in one line.
    pub fn meaning(&self) -> String {
        let words = self.text.split_whitespace();
        words.fold(String::new(), |line, word| match line.as_str() {
            "" => word.to_owned(),
            line => format!("{line} {word}"),
        })
    }

    /// Its value in `config` as a file would have it, or in words where it is left open.
    pub fn shown(&self, config: &C) -> String {
        self.spec.shown((self.get)(config))
    }

    /// How it is in `config`.
    fn state(&self, config: &C) -> SettingState {
        let needs = self.needs.as_ref();
        SettingState {
            name: self.name,
            meaning: self.meaning(),
            spec: self.spec,
            wrong: self.wrong,
            value: (self.get)(config),
            needs: needs.map(|needs| needs.what),
            is_met: needs.is_none_or(|needs| (needs.is_met)(config)),
        }
    }
}

/// A configuration that has a list of its settings.
pub trait Settings: Sized + 'static {
    /// All that files can set, field by field, in the order in which they are read and documented.
    const FIELDS: &'static [&'static [Setting<Self>]];

    /// The settings to begin with, by name; the first is the default.
    const PRESETS: &'static [Preset<Self>] = &[];

    /// All that files can set.
    fn settings() -> impl Iterator<Item = &'static Setting<Self>> {
        Self::FIELDS.iter().copied().flatten()
    }

    /// The setting of that name.
    fn setting(name: &str) -> Option<&'static Setting<Self>> {
        Self::settings().find(|setting| setting.name == name)
    }

    /// Every setting as it is now, in the order in which it is read and documented.
    fn listed(&self) -> Vec<SettingState> {
        Self::settings()
            .map(|setting| setting.state(self))
            .collect()
    }

    /// Gives the setting `name` a value, which must be of its kind. Returns whether there is such a
    /// setting.
    fn assign(&mut self, name: &str, value: Value) -> bool {
        match Self::setting(name) {
            Some(setting) => {
                (setting.set)(self, value);
                true
            }
            None => false,
        }
    }

    /// Checks that every setting is of its range.
    ///
    /// # Errors
    /// The first that is not.
    fn check_ranges(&self) -> Result<(), ConfigError> {
        for setting in Self::settings() {
            if let Some(value) = (setting.get)(self)
                && !setting.spec.kind.allows(value)
            {
                return Err(self.refuse(setting.name, setting.spec.kind.range()));
            }
        }
        Ok(())
    }

    /// The error that says that the setting `field` must be what `allowed` says: "at least 2", "1
    /// to 7".
    fn refuse(&self, field: &'static str, allowed: impl Into<String>) -> ConfigError {
        let setting = Self::setting(field);
        let value = setting.and_then(|setting| {
            let value = (setting.get)(self)?;
            Some(setting.spec.kind.text(value))
        });
        ConfigError::new(field, value.unwrap_or_default(), allowed)
    }
}

#[cfg(test)]
mod tests;
