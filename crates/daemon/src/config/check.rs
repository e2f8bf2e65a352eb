//! Checks values against their ranges and against each other; errors name the place of the value
//! that cannot be.
//!
//! Here are the errors and the values that concern the daemon itself; the submodules have one
//! subject each.

mod clients;
mod network;
mod orders;

use groupcast_core::settings::{ConfigError, Settings as _};
use groupcast_protocols::gossip::GossipConfig;
use groupcast_session::EngineConfig;
use groupcast_session::groups::EngineConfigError;

use super::keys::engine_key;
use super::{DaemonConfigError, File, NAME_MAX, Options, ProcessConfig};
use crate::log::{FILTER_HELP, check_filter};

/// Checks values, and knows where each was written.
pub(super) struct Check<'a> {
    pub(super) file: Option<&'a File>,
    pub(super) command_line: &'a Options,
}

impl Check<'_> {
    pub(super) fn error(
        &self,
        key: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DaemonConfigError {
        DaemonConfigError::Value {
            key: key.to_owned(),
            message: message.into(),
            help: help.into(),
            place: match self.command_line.sets(key) {
                true => None,
                false => self.file.and_then(|file| file.place(key)),
            },
        }
    }

    /// The same of the item `index` of the list `key`.
    fn item_error(
        &self,
        key: &str,
        index: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DaemonConfigError {
        let mut error = self.error(key, message, help);
        let item = self.file.and_then(|file| file.place_of_item(key, index));
        if let DaemonConfigError::Value { place, .. } = &mut error
            && place.is_some()
            && item.is_some()
        {
            *place = item;
        }
        error
    }

    /// The error of a setting, which is called `key` here.
    fn setting(&self, key: &str, error: &ConfigError) -> DaemonConfigError {
        let is_here = |key: &str| {
            let in_file = self.file.and_then(|file| file.place(key));
            self.command_line.sets(key) || in_file.is_some()
        };
        // The default of a setting that was not written may contradict one of its table that was:
        // the error is about the latter.
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let written = self.file.map(|file| file.options.settings.keys());
        let mut others = written.into_iter().flatten().filter(|other| {
            let name = other.rsplit_once('.');
            name.is_some_and(|(of, name)| of == table && names(&error.remedy, name))
        });
        match others.next() {
            Some(other) if !is_here(key) => {
                let message = format!("does not go with {key}: its default {}", error.problem());
                self.error(other, message, format!("set {key} too: {}", error.remedy))
            }
            _ => self.error(key, error.problem(), error.remedy.as_str()),
        }
    }

    /// Refuses options of one source that exclude each other; across sources the command line wins.
    pub(super) fn exclusive(
        &self,
        options: &Options,
        file: Option<&File>,
    ) -> Result<(), DaemonConfigError> {
        let conflict = |key: &str, other: &str, help: &str| DaemonConfigError::Value {
            key: key.to_owned(),
            message: format!("contradicts {other}"),
            help: help.to_owned(),
            place: file.and_then(|file| file.place(key)),
        };
        if options.key.is_some() && options.insecure == Some(true) {
            return Err(conflict(
                "insecure",
                "key",
                "keep the key to be protected, or leave it out to run without protection",
            ));
        }
        if options.peer.is_some() && options.multicast.is_some() {
            return Err(conflict(
                "multicast",
                "peer",
                "peers are for hosts without multicast: give one or the other; hosts with and without can be in one \
                 cluster",
            ));
        }
        Ok(())
    }

    pub(super) fn name(&self, name: Option<&str>) -> Result<String, DaemonConfigError> {
        let fallback;
        let name = match name {
            Some(name) => name,
            None => {
                let uname = rustix::system::uname();
                fallback = uname.nodename().to_string_lossy().into_owned();
                &fallback
            }
        };
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(legal) {
            return Err(self.error(
                "name",
                format!("`{name}` cannot be a daemon's name"),
                format!("use 1 to {NAME_MAX} bytes of letters, digits, `-`, `_` and `.`"),
            ));
        }
        Ok(name.to_owned())
    }

    pub(super) fn log(&self, filter: Option<String>) -> Result<Option<String>, DaemonConfigError> {
        if let Some(filter) = &filter {
            check_filter(filter).map_err(|reason| {
                self.error(
                    "log",
                    format!("`{filter}` is not a filter: {reason}"),
                    FILTER_HELP,
                )
            })?;
        }
        Ok(filter)
    }

    pub(super) fn bimodal(&self, options: &Options) -> Result<GossipConfig, DaemonConfigError> {
        let mut gossip = GossipConfig::lan();
        let key = |field: &str| format!("bimodal.{field}");
        options.lay_over(&mut gossip, key);
        match gossip.validate() {
            Ok(()) => Ok(gossip),
            Err(error) => Err(self.setting(&key(error.field), &error)),
        }
    }

    pub(super) fn process(&self, options: &Options) -> Result<ProcessConfig, DaemonConfigError> {
        let mut process = ProcessConfig::default();
        let key = |field: &str| format!("process.{field}");
        options.lay_over(&mut process, key);
        match process.check_ranges() {
            Ok(()) => Ok(process),
            Err(error) => Err(self.setting(&key(error.field), &error)),
        }
    }

    pub(super) fn engine(&self, options: &Options) -> Result<EngineConfig, DaemonConfigError> {
        let mut engine = EngineConfig::default();
        options.lay_over(&mut engine, engine_key);
        if let Some(groups) = &options.bimodal_groups {
            engine.bimodal_groups.clone_from(groups);
        }
        match engine.check() {
            Ok(()) => Ok(engine),
            Err(EngineConfigError::Setting(error)) => {
                Err(self.setting(&engine_key(error.field), &error))
            }
            // Beside ranges only names can be wrong here, and the only names are those of groups.
            Err(error) => Err(self.error(
                "bimodal.groups",
                match error {
                    EngineConfigError::Twice { name } => format!("{name:?} is named twice"),
                    error => error.to_string(),
                },
                "name each group once, for example groups = [\"ticks\"]",
            )),
        }
    }
}

/// Whether `name` is a word of `text`.
fn names(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(|letter| !is_part(letter))
        .any(|word| word == name)
}
