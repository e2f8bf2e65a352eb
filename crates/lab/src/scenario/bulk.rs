//! `[protocol] name = "bulk"`: the settings of transfers, and whom a transfer waits for (001).

use groupcast_core::{Incarnation, MemberId, NodeId, Rng};
use groupcast_protocols::bulk::{BulkConfig, Messages, MessagesConfig, Wanted};

use super::error::ScenarioError;
use super::protocol::{CHECKED, Settings};
use super::section::Section;
use super::settings;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Reads the settings; what is left unsaid is as in 001 with the preset `paper`, else as for files
/// on a LAN.
pub(super) fn read(section: &Section<'_>) -> Result<Settings> {
    let config = config(section)?;
    Ok(Settings::new(move |local, rng, _| {
        Box::new(Messages::new(local, config.clone(), rng).expect(CHECKED))
    }))
}

pub(super) fn config(section: &Section<'_>) -> Result<MessagesConfig> {
    let bulk: BulkConfig = settings::read(section)?;
    let mut config = MessagesConfig {
        bulk,
        receivers: Wanted::Open,
        ..MessagesConfig::default()
    };
    settings::lay_over(section, &mut config)?;
    let nobody = MemberId {
        node: NodeId(0),
        incarnation: Incarnation(0),
    };
    match Messages::new(nobody, config.clone(), Rng::new(0)) {
        Ok(_) => Ok(config),
        Err(error) => Err(settings::refused(section, &error)),
    }
}
