//! A setting that cannot work.

use alloc::format;
use alloc::string::String;

/// A setting that cannot work: out of its range, or in contradiction to another. Nothing was built
/// or changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {}; {remedy}", self.problem())]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the setting.
    pub field: &'static str,
    /// Its value, as a file would have it; empty if it has none.
    pub value: String,
    /// What it may be: "1 to 128", "at most a quarter of token_loss_min".
    pub allowed: String,
    /// What to do.
    pub remedy: String,
}

impl ConfigError {
    /// The setting `field` is `value` and must be what `allowed` says.
    pub fn new(field: &'static str, value: impl Into<String>, allowed: impl Into<String>) -> Self {
        let allowed = allowed.into();
        Self {
            field,
            value: value.into(),
            remedy: format!("use {allowed}"),
            allowed,
        }
    }

    /// The same error, with something else to do than to use what is allowed.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: remedy.into(),
            ..self
        }
    }

    /// What is wrong, without the name of the setting.
    pub fn problem(&self) -> String {
        match self.value.as_str() {
            "" => String::from("it cannot be left open"),
            value => format!("{value} is out of range"),
        }
    }
}
