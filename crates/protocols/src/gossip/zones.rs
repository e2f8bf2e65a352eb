//! Gossip settings of a whole group whose hosts are in zones: LANs of equal size, hosts in their
//! order (004 3.7, 5.3.3).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use groupcast_core::MemberId;
use groupcast_core::family::{GroupConfig, Members};
use groupcast_core::settings::{
    ConfigError, Needs, Preset, Setting, SettingField as _, SettingState, Settings as _, Spec,
    Value,
};

use super::{Gossip, GossipConfig, Hierarchy};

groupcast_core::settings! {
    /// What the members of a group have in common, and the zones that their hosts are in.
    #[derive(Clone, Debug)]
    pub struct ZonedConfig {
        /// What all members have in common.
        pub gossip: GossipConfig = GossipConfig::default();
        /// How many zones of equal size the hosts are in, in their order: LANs whose members are
        /// neighbours (`local`).
        pub zones: Option<u32> = None => Spec::count("zones", 1, u32::MAX).unset("none"),
            "Too few: neighbours that are far from each other. Too many: members without a neighbour.";
        /// Hosts of a zone that gossip with other zones. `None`: all do.
        pub links: Option<u32> = None, keys [LINKS];
        /// In how many rounds a link gossips with another zone once. At least 1.
        pub remote_every: u32 = 1, keys [REMOTE_EVERY];
    }
    presets [
        Preset {
            name: GossipConfig::PRESETS[0].name,
            meaning: GossipConfig::PRESETS[0].meaning,
            make: || ZonedConfig::preset(0),
        },
        Preset {
            name: GossipConfig::PRESETS[1].name,
            meaning: GossipConfig::PRESETS[1].meaning,
            make: || ZonedConfig::preset(1),
        },
    ]
}

const LINKS: Setting<ZonedConfig> = Setting {
    name: "links",
    text: "Gossip is hierarchical: it stays within a zone, but for the first `links` hosts of each zone, which gossip \
           with the links of another zone too.",
    spec: Spec::count("hosts", 1, u32::MAX).unset("none: each host gossips with every other"),
    wrong: "Too small: a zone whose links fail is cut off. Too large: traffic between the zones.",
    get: |config| config.links.to_value(),
    set: |config, value| config.links = Option::from_value(value).unwrap_or_default(),
    needs: Some(Needs {
        what: "zones",
        is_met: |config| config.zones.is_some(),
    }),
};

const REMOTE_EVERY: Setting<ZonedConfig> = Setting {
    name: "remote_every",
    text: "In how many rounds a link gossips with another zone once.",
    spec: Spec::count("rounds", 1, u32::MAX),
    wrong: "Too small: traffic between the zones. Too large: what a whole zone has lost is repaired late.",
    get: |config| config.remote_every.to_value(),
    set: |config, value| config.remote_every = u32::from_value(value).unwrap_or(1),
    needs: Some(Needs {
        what: "links",
        is_met: |config| config.zones.is_some() && config.links.is_some(),
    }),
};

impl ZonedConfig {
    /// The preset of gossip that has this index, without zones.
    fn preset(index: usize) -> Self {
        Self {
            gossip: (GossipConfig::PRESETS[index].make)(),
            ..Self::default()
        }
    }

    /// The settings of `host`, counted from 0, one of `hosts`.
    fn of_host(&self, host: usize, hosts: usize) -> GossipConfig {
        let mut config = self.gossip.clone();
        let Some(zones) = self.zones else {
            return config;
        };
        let size = hosts.div_ceil(zones as usize).max(1);
        config.zone = (host / size) as u32;
        config.hierarchy = self.links.map(|links| Hierarchy {
            link: host % size < links as usize,
            remote_every: self.remote_every,
        });
        config
    }
}

impl GroupConfig for ZonedConfig {
    fn list(&self) -> Vec<SettingState> {
        let mut list = self.gossip.listed();
        list.extend(self.listed());
        list
    }

    fn set(&mut self, name: &str, value: Value) {
        if !self.gossip.assign(name, value) {
            self.assign(name, value);
        }
    }

    fn members(&self) -> Result<Members, ConfigError> {
        self.gossip.validate()?;
        self.check_ranges()?;
        let config = self.clone();
        Ok(Members::of_size(move |hosts| {
            let config = config.clone();
            Arc::new(move |local: MemberId, rng, now| {
                // An experiment numbers the nodes of its hosts from 1.
                let host = local.node.0.saturating_sub(1) as usize;
                let gossip = Gossip::new(config.of_host(host, hosts), local, rng, now);
                Box::new(gossip.expect("the settings were checked"))
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The zone of each of `hosts` hosts, and whether it is a link.
    fn zones(config: &ZonedConfig, hosts: usize) -> Vec<(u32, Option<bool>)> {
        let of_host = |host| {
            let config = config.of_host(host, hosts);
            let link = config.hierarchy.map(|hierarchy| hierarchy.link);
            (config.zone, link)
        };
        (0..hosts).map(of_host).collect()
    }

    #[test]
    fn hosts_fill_the_zones_in_their_order_and_the_first_of_each_are_its_links() {
        let config = ZonedConfig {
            zones: Some(2),
            links: Some(1),
            ..ZonedConfig::default()
        };
        let (link, inner) = (Some(true), Some(false));
        let expected = [(0, link), (0, inner), (0, inner), (1, link), (1, inner)];
        assert_eq!(zones(&config, 5), expected);
    }

    #[test]
    fn without_links_each_host_gossips_with_every_other() {
        let config = ZonedConfig {
            zones: Some(3),
            ..ZonedConfig::default()
        };
        assert_eq!(zones(&config, 3), [(0, None), (1, None), (2, None)]);
        let config = ZonedConfig::default();
        assert_eq!(zones(&config, 2), [(0, None), (0, None)]);
    }
}
