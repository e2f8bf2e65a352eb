//! What a host knows of a protocol that orders the messages of all its groups, where the user
//! chooses which protocol that is: the daemon, members without one, measurements.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::{Family, GroupConfig, PresetName};
use crate::node::Channel;
use crate::settings::{Preset, Settings};

/// A family that orders the messages of all groups of a daemon, in configurations.
#[derive(Clone, Copy)]
pub struct OrderFamily {
    /// The family.
    pub family: &'static Family,
    /// The channel of its datagrams. Every family has its own: a node hears by the channel which
    /// protocol another one speaks.
    pub channel: Channel,
    presets: fn() -> Vec<PresetName>,
    daemon: fn(usize) -> Box<dyn OrderConfig>,
    member: fn(usize) -> Box<dyn OrderConfig>,
}

impl OrderFamily {
    /// `family`, whose configuration is `C`, on `channel`.
    pub const fn of<C: DaemonPresets + OrderConfig>(
        family: &'static Family,
        channel: Channel,
    ) -> Self {
        assert!(!C::DAEMON_PRESETS.is_empty(), "a reader begins with one");
        assert!(
            C::DAEMON_PRESETS.len() <= C::PRESETS.len(),
            "each is a member's too"
        );
        Self {
            family,
            channel,
            presets: presets::<C>,
            daemon: |index| Box::new((C::DAEMON_PRESETS[index].make)()),
            member: |index| Box::new((C::PRESETS[index].make)()),
        }
    }

    /// Its name on command lines and in configurations.
    pub fn name(&self) -> &'static str {
        self.family.name
    }

    /// The presets of a daemon; the first is the default.
    pub fn presets(&self) -> Vec<PresetName> {
        (self.presets)()
    }

    /// The settings of a daemon under the preset `name`, or under the first one.
    ///
    /// `None`: there is no such preset.
    pub fn daemon_config(&self, name: Option<&str>) -> Option<Box<dyn OrderConfig>> {
        self.index(name).map(self.daemon)
    }

    /// The settings of a member without a daemon under the preset `name`, or under the first one.
    ///
    /// `None`: there is no such preset.
    pub fn member_config(&self, name: Option<&str>) -> Option<Box<dyn OrderConfig>> {
        self.index(name).map(self.member)
    }

    fn index(&self, name: Option<&str>) -> Option<usize> {
        let Some(name) = name else { return Some(0) };
        self.presets().iter().position(|preset| preset.name == name)
    }
}

impl fmt::Debug for OrderFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for OrderFamily {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// The presets of a configuration in a daemon.
pub trait DaemonPresets: Settings {
    /// They have the names and the order of the first of [`PRESETS`](Settings::PRESETS), because
    /// which of them a network needs is the same with a daemon and without. The first is the
    /// default.
    const DAEMON_PRESETS: &'static [Preset<Self>];
}

/// The settings of an [`OrderFamily`], whose type only the family knows.
pub trait OrderConfig: GroupConfig {
    /// What the host has to know of them.
    fn limits(&self) -> OrderLimits;

    /// Changes what the host decides. Ranges are checked when members are made.
    fn set_limits(&mut self, limits: OrderLimits);

    /// The same settings once more.
    fn boxed(&self) -> Box<dyn OrderConfig>;
}

/// What every family that orders messages has among its settings, and hosts read and decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderLimits {
    /// The most bytes of a datagram's body.
    pub body_max: usize,
    /// The most bytes of a message.
    pub message_max: usize,
    /// Bytes of messages that may wait to be sent.
    pub queue_max: usize,
    /// The most members of a configuration.
    pub members_max: usize,
    /// A graceful leave is over after this long at the latest.
    pub leave_timeout: Duration,
}

/// Implements [`OrderConfig`] for a configuration that has the fields of [`OrderLimits`] under
/// their names.
#[macro_export]
macro_rules! order_config {
    ($config:ty) => {
        impl $crate::family::OrderConfig for $config {
            fn limits(&self) -> $crate::family::OrderLimits {
                $crate::family::OrderLimits {
                    body_max: self.body_max,
                    message_max: self.message_max,
                    queue_max: self.queue_max,
                    members_max: self.members_max,
                    leave_timeout: self.leave_timeout,
                }
            }

            fn set_limits(&mut self, limits: $crate::family::OrderLimits) {
                self.body_max = limits.body_max;
                self.message_max = limits.message_max;
                self.queue_max = limits.queue_max;
                self.members_max = limits.members_max;
                self.leave_timeout = limits.leave_timeout;
            }

            fn boxed(&self) -> alloc::boxed::Box<dyn $crate::family::OrderConfig> {
                alloc::boxed::Box::new(self.clone())
            }
        }
    };
}

impl Clone for Box<dyn OrderConfig> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

fn presets<C: DaemonPresets>() -> Vec<PresetName> {
    let names = C::DAEMON_PRESETS.iter().map(|preset| PresetName {
        name: preset.name,
        meaning: preset.meaning,
    });
    names.collect()
}
