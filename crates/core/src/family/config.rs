//! How a file sets up a group: the presets and settings of a family by name, for readers that do
//! not know the type of the family's configuration.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Factory;
use crate::id::MemberId;
use crate::instrument::Instrumented;
use crate::rng::Rng;
use crate::settings::{ConfigError, SettingState, Settings, Value};
use crate::time::Time;

/// The configuration of a group, whose type only its family knows.
///
/// A reader begins with a preset, lists the settings, sets those that its file has, and makes
/// members of the result.
pub trait GroupConfig: fmt::Debug + Send + Sync {
    /// Every setting as it is now, in the order in which documents have them.
    fn list(&self) -> Vec<SettingState>;

    /// Gives the setting `name` a value of its kind. A name that is not in the list changes
    /// nothing.
    fn set(&mut self, name: &str, value: Value);

    /// How members with these settings are made.
    ///
    /// # Errors
    /// If a setting is out of its range, or settings contradict each other.
    fn members(&self) -> Result<Members, ConfigError>;
}

/// A configuration that makes each member by itself, in a group of any size: it is a
/// [`GroupConfig`].
pub trait MemberConfig: Settings + Clone + fmt::Debug + Send + Sync {
    /// What it makes.
    type Member: Instrumented + 'static;

    /// Checks that every setting is of its range, and that they fit each other.
    ///
    /// # Errors
    /// The first setting that cannot work.
    fn check(&self) -> Result<(), ConfigError>;

    /// The member `local`, which begins at `now`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn member(self, local: MemberId, rng: Rng, now: Time) -> Result<Self::Member, ConfigError>;

    /// The most members of the group. `None`: no limit.
    fn members_max(&self) -> Option<usize> {
        None
    }
}

impl<C: MemberConfig> GroupConfig for C {
    fn list(&self) -> Vec<SettingState> {
        self.listed()
    }

    fn set(&mut self, name: &str, value: Value) {
        self.assign(name, value);
    }

    fn members(&self) -> Result<Members, ConfigError> {
        self.check()?;
        let config = self.clone();
        let factory = move |local, rng, now| -> Box<dyn Instrumented> {
            let member = config.clone().member(local, rng, now);
            Box::new(member.expect("the settings were checked"))
        };
        Ok(Members {
            members_max: self.members_max(),
            ..Members::new(Arc::new(factory))
        })
    }
}

/// How the members of a group are made. Its settings have been checked.
#[derive(Clone)]
pub struct Members {
    factory: Arc<dyn Fn(usize) -> Factory + Send + Sync>,
    /// The most members of the group. `None`: no limit.
    pub members_max: Option<usize>,
}

impl Members {
    /// Members that `factory` makes, the same in a group of any size.
    pub fn new(factory: Factory) -> Self {
        Self::of_size(move |_| Arc::clone(&factory))
    }

    /// Members that depend on how many hosts the group has: `factory` is given their number.
    pub fn of_size(factory: impl Fn(usize) -> Factory + Send + Sync + 'static) -> Self {
        Self {
            factory: Arc::new(factory),
            members_max: None,
        }
    }

    /// Makes the members of a group of `hosts` hosts.
    pub fn factory(&self, hosts: usize) -> Factory {
        (self.factory)(hosts)
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members")
            .field("members_max", &self.members_max)
            .finish_non_exhaustive()
    }
}

/// What files can set of a family: its presets, and from a preset the settings.
#[derive(Clone, Copy, Debug)]
pub struct FamilySettings {
    presets: fn() -> Vec<PresetName>,
    make: fn(usize) -> Box<dyn GroupConfig>,
    /// Whether an experiment can have members know each other from the start: whether
    /// [`introduce`](crate::Instrumented::introduce) does something.
    pub is_introduced: bool,
}

/// A preset, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PresetName {
    /// Its name in files.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
}

impl FamilySettings {
    /// The settings and presets of `C`, which must have at least one preset: the first is the
    /// default. Members find each other by themselves.
    pub const fn of<C: Settings + GroupConfig>() -> Self {
        assert!(!C::PRESETS.is_empty(), "a reader begins with a preset");
        Self {
            presets: presets::<C>,
            make: make::<C>,
            is_introduced: false,
        }
    }

    /// The same, where members can be introduced to each other.
    #[must_use]
    pub const fn introduced(self) -> Self {
        Self {
            is_introduced: true,
            ..self
        }
    }

    /// The presets; the first is the default.
    pub fn presets(&self) -> Vec<PresetName> {
        (self.presets)()
    }

    /// The configuration of the preset `name`, or of the first one.
    ///
    /// `None`: there is no such preset.
    pub fn config(&self, name: Option<&str>) -> Option<Box<dyn GroupConfig>> {
        let presets = self.presets();
        let index = match name {
            Some(name) => presets.iter().position(|preset| preset.name == name)?,
            None => 0,
        };
        Some((self.make)(index))
    }
}

fn presets<C: Settings>() -> Vec<PresetName> {
    let names = C::PRESETS.iter().map(|preset| PresetName {
        name: preset.name,
        meaning: preset.meaning,
    });
    names.collect()
}

fn make<C: Settings + GroupConfig>(index: usize) -> Box<dyn GroupConfig> {
    Box::new((C::PRESETS[index].make)())
}
