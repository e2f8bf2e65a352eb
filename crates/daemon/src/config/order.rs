//! The order of all groups' messages: the protocol that the key `protocol` names, with the settings
//! of the table of the same name.

use std::fmt;

use groupcast_core::family::{OrderConfig, OrderFamily, OrderLimits};
use groupcast_core::settings::{ConfigError, Value};
use groupcast_session::frame::FRAME_MAX;

/// A protocol of the registry with its settings.
#[derive(Clone)]
pub struct Order {
    /// The protocol.
    pub family: &'static OrderFamily,
    /// Its settings.
    pub config: Box<dyn OrderConfig>,
}

impl Order {
    /// The protocol `family` with the settings that `value_of` gives by their names, over those of
    /// the preset that it gives by the name `preset`.
    ///
    /// # Errors
    /// The setting that contradicts others.
    pub(super) fn build<'a>(
        family: &'static OrderFamily,
        value_of: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<Self, ConfigError> {
        let preset = match value_of("preset") {
            Some(Value::Word(name)) => Some(*name),
            _ => None,
        };
        let config = family.daemon_config(preset);
        let mut config = config.expect("the words of the key are the presets");
        config.set_limits(OrderLimits {
            // The engine limits the messages of clients; its own messages must pass, too.
            message_max: FRAME_MAX,
            ..config.limits()
        });
        for setting in config.list() {
            if let Some(value) = value_of(setting.name) {
                config.set(setting.name, *value);
            }
        }
        config.members()?;
        Ok(Self { family, config })
    }

    /// The dotted key of its setting `field`.
    pub fn key(&self, field: &str) -> String {
        order_key(self.family, field)
    }

    /// The dotted keys of the settings whose values differ from those in `other`. None if the
    /// protocols differ, because each has its own table.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        if self.family != other.family {
            return Vec::new();
        }
        let pairs = self.config.list().into_iter().zip(other.config.list());
        pairs
            .filter(|(ours, theirs)| ours.value != theirs.value && !ours.spec.is_experimental)
            .map(|(setting, _)| self.key(setting.name))
            .collect()
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// The dotted key of the setting `field` of `family`.
pub(super) fn order_key(family: &OrderFamily, field: &str) -> String {
    format!("{}.{field}", family.name())
}
