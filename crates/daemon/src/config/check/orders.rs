//! Checks the protocols that order messages, for the daemon's own order and for its further rings.

use std::collections::BTreeMap;

use groupcast_core::settings::suggest::did_you_mean;
use groupcast_protocols::registry;
use groupcast_session::EngineConfig;
use groupcast_session::groups::EngineConfigError;

use super::Check;
use crate::config::order::order_key;
use crate::config::{DaemonConfigError, MULTICAST, Options, Order, Ring, rings};

impl Check<'_> {
    /// The protocol that orders messages, with its settings.
    pub(in crate::config) fn order(&self, options: &Options) -> Result<Order, DaemonConfigError> {
        let family = match &options.protocol {
            None => registry::ORDERED[0],
            Some(name) => registry::order(name).ok_or_else(|| self.unknown_protocol(name))?,
        };
        Order::build(family, |name| {
            options.settings.get(&order_key(family, name))
        })
        .map_err(|error| self.setting(&order_key(family, error.field), &error))
    }

    /// The rings beside the daemon's own order.
    pub(in crate::config) fn rings(
        &self,
        options: &Options,
    ) -> Result<Vec<Ring>, DaemonConfigError> {
        let written = options.rings.as_deref().unwrap_or_default();
        let wrong = |message: String, help: &str| self.error("rings", message, help);
        if !written.is_empty() && options.peer.is_some() {
            let message =
                "members of a ring find each other by multicast, and this daemon has none";
            return Err(wrong(message.into(), "leave the rings out, or the peers"));
        }
        let own = options.multicast.unwrap_or(MULTICAST);
        let mut rings = Vec::new();
        for (index, ring) in written.iter().enumerate() {
            let wrong =
                |message: String, help: &str| self.item_error("rings", index, message, help);
            if ring.top.starts_with("*.") {
                let message = format!("{:?} stands for all groups below a name", ring.top);
                let help =
                    "name the top itself, without `*.`: its ring carries the groups below it too";
                return Err(wrong(message, help));
            }
            if ring.multicast == own {
                let message = format!(
                    "the ring {:?} has the daemons' own address, {own}",
                    ring.top
                );
                let help = "give it another, so that who is not in it gets none of its datagrams";
                return Err(wrong(message, help));
            }
            let built = ring.build().map_err(|error| {
                let message = format!(
                    "{} of the ring {:?}: {}",
                    error.field,
                    ring.top,
                    error.problem()
                );
                wrong(message, error.remedy.as_str())
            })?;
            rings.push(built);
        }
        let config = EngineConfig {
            rings: rings.iter().map(|ring| ring.top.to_string()).collect(),
            bimodal_groups: options.bimodal_groups.clone().unwrap_or_default(),
            ..EngineConfig::default()
        };
        match config.check() {
            Err(
                ref error @ (EngineConfigError::RingTwice { ref top }
                | EngineConfigError::BimodalInRing { ref top, .. }),
            ) => {
                // Of two the second is one too many.
                let index = rings.iter().rposition(|ring| *ring.top == **top);
                let help = "name each top once, for groups that are not bimodal";
                let index = index.unwrap_or_default();
                Err(self.item_error("rings", index, error.to_string(), help))
            }
            Err(EngineConfigError::Setting(error)) if error.field == "rings" => {
                Err(self.setting("rings", &error))
            }
            // What else may be wrong is said where it was written.
            _ => Ok(rings),
        }
    }

    /// What orders the groups of rings that joins ask for.
    pub(in crate::config) fn made_rings(
        &self,
        options: &Options,
    ) -> Result<Order, DaemonConfigError> {
        let Some(pool) = &options.ring_pool else {
            let order = rings::order(&BTreeMap::new());
            return order.map_err(|error| self.setting("ring_pool", &error));
        };
        let wrong = |message: String, help: &str| self.error("ring_pool", message, help);
        if options.peer.is_some() {
            let message =
                "members of a ring find each other by multicast, and this daemon has none";
            return Err(wrong(message.into(), "leave the pool out, or the peers"));
        }
        let own = options.multicast.unwrap_or(MULTICAST);
        let rings = options.rings.iter().flatten().map(|ring| ring.multicast);
        if let Some(taken) = rings.chain([own]).find(|it| pool.addresses.holds(*it)) {
            let message = format!("{taken} is in the pool, and is the address of something else");
            let help = "give the pool a network, or a port, that nothing else has";
            return Err(wrong(message, help));
        }
        rings::order(&pool.settings).map_err(|error| {
            let message = format!("{}: {}", error.field, error.problem());
            wrong(message, error.remedy.as_str())
        })
    }

    fn unknown_protocol(&self, name: &str) -> DaemonConfigError {
        let known: Vec<&str> = registry::ORDERED.iter().map(|it| it.name()).collect();
        let message = format!("`{name}` does not order the messages of a daemon");
        self.error("protocol", message, did_you_mean(name, &known))
    }

    /// The tables of protocols that were not chosen.
    pub(in crate::config) fn unused_tables(
        &self,
        options: &Options,
        order: &Order,
    ) -> Vec<&'static str> {
        let others = registry::ORDERED.iter().filter(|it| **it != order.family);
        let is_there = |table: &&'static str| {
            let mut keys = options.settings.keys();
            keys.any(|key| key.split('.').next() == Some(table))
        };
        others.map(|it| it.name()).filter(is_there).collect()
    }
}
