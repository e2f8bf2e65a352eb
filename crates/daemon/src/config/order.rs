//! The order of all groups' messages: the protocol that the key `protocol` names, with the settings
//! of the table of the same name.

use std::fmt;

use groupcast_core::family::{OrderConfig, OrderFamily};

/// A protocol of the registry with its settings.
#[derive(Clone)]
pub struct Order {
    /// The protocol.
    pub family: &'static OrderFamily,
    /// Its settings.
    pub config: Box<dyn OrderConfig>,
}

impl Order {
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
