//! What orders the messages of all groups: the protocol of the key `protocol`, with the settings
//! of the table that has its name.

use std::fmt;

use groupcast_core::family::{OrderConfig, OrderFamily};

/// A protocol of the registry with its settings.
#[derive(Clone)]
pub struct Order {
    /// Which protocol.
    pub family: &'static OrderFamily,
    /// Its settings.
    pub config: Box<dyn OrderConfig>,
}

impl Order {
    /// The dotted key of its setting `field`.
    pub fn key(&self, field: &str) -> String {
        order_key(self.family, field)
    }

    /// The settings whose values differ from those in `other`, by their dotted keys: of two
    /// protocols none, because each has a table of its own.
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
