//! The keys by which files set what is more than one number: hash buffering, the trees,
//! announcements.

use groupcast_core::settings::{Setting, SettingField as _, Spec};

use super::{Dissemination, GossipConfig, HashConfig};

pub(super) const BUFFERERS: Setting<GossipConfig> = Setting {
    name: "bufferers",
    text: "How many members, others for each message, keep it for repairs after the first rounds; 0: all do.",
    spec: Spec::count("members", 0, u32::MAX),
    wrong: "Too small: repairs that no member can give. Too large, or 0: memory.",
    get: |config| {
        config
            .hash
            .as_ref()
            .map_or(0, |hash| hash.bufferers)
            .to_value()
    },
    set: |config, value| {
        config.hash = u32::from_value(value)
            .filter(|bufferers| *bufferers > 0)
            .map(|bufferers| HashConfig {
                bufferers,
                ..HashConfig::default()
            });
    },
    needs: None,
};

pub(super) const SHORT_TERM: Setting<GossipConfig> = Setting {
    name: "short_term",
    text: "With `bufferers`: rounds in which all members keep a message.",
    spec: Spec::count("rounds", 0, u32::MAX).unset("3").experimental(),
    wrong: "Too small: repairs wait for a bufferer. Too large: memory.",
    get: |config| config.hash.as_ref()?.short_term.to_value(),
    set: |config, value| {
        if let (Some(hash), Some(rounds)) = (&mut config.hash, u32::from_value(value)) {
            hash.short_term = rounds;
        }
    },
    needs: None,
};

pub(super) const GAPS: Setting<GossipConfig> = Setting {
    name: "gaps",
    text: "With `bufferers`: whether gossip names what its sender misses, so that another that misses it too asks the \
           source for a multicast.",
    spec: Spec::flag().unset("`true`").experimental(),
    wrong: "False: a message that all bufferers miss is lost.",
    get: |config| config.hash.as_ref()?.gaps.to_value(),
    set: |config, value| {
        if let (Some(hash), Some(gaps)) = (&mut config.hash, bool::from_value(value)) {
            hash.gaps = gaps;
        }
    },
    needs: None,
};

/// The most children of a member in a tree, unless told otherwise.
const USUAL_ARITY: u16 = 4;

pub(super) const TREES: Setting<GossipConfig> = Setting {
    name: "trees",
    text: "Messages are spread along one of so many spanning trees instead of by multicast.",
    spec: Spec::count("trees", 1, 256)
        .unset("none: by multicast")
        .experimental(),
    wrong: "Too small: the same members carry all messages on.",
    get: |config| match config.dissemination {
        Dissemination::Multicast => None,
        Dissemination::Trees { trees, .. } => trees.to_value(),
    },
    set: |config, value| {
        if let Some(trees) = u16::from_value(value) {
            config.dissemination = Dissemination::Trees {
                trees,
                arity: USUAL_ARITY,
                seed: 1,
            };
        }
    },
    needs: None,
};

pub(super) const ARITY: Setting<GossipConfig> = Setting {
    name: "arity",
    text: "With `trees`: the most children of a member in a tree.",
    spec: Spec::count("members", 1, 65_534).unset("4").experimental(),
    wrong: "Too small: deep trees, and each loss costs a subtree. Too large: a member sends that many copies.",
    get: |config| match config.dissemination {
        Dissemination::Multicast => None,
        Dissemination::Trees { arity, .. } => arity.to_value(),
    },
    set: |config, value| {
        if let (Dissemination::Trees { arity, .. }, Some(children)) =
            (&mut config.dissemination, u16::from_value(value))
        {
            *arity = children;
        }
    },
    needs: None,
};

pub(super) const ANNOUNCE_EVERY: Setting<GossipConfig> = Setting {
    name: "announce_every",
    text: "The group announces itself to strangers about once in so many rounds; 0: never.",
    spec: Spec::count("rounds", 0, u32::MAX).experimental(),
    wrong: "Too small: traffic. Too large: parts that had lost each other meet late.",
    get: |config| config.announce_every.unwrap_or(0).to_value(),
    set: |config, value| {
        config.announce_every = u32::from_value(value).filter(|rounds| *rounds > 0);
    },
    needs: None,
};
