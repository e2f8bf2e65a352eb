//! Settings of the policy `cp`: when repairs are multicast, and how many receivers have to stay
//! (003 sections 3.1.1, 3.3.1 and 3.4). They stand together, because they have a meaning under this
//! policy only.

use groupcast_core::settings::{Needs, Setting, SettingField as _, Spec};

use super::{BulkConfig, Policy};

/// What the policy `cp` chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cp {
    /// A packet that more than this share of the receivers miss is multicast again; one that fewer
    /// miss goes to each of them by unicast. In percent; default 25 (003 leaves it to the user:
    /// lower on LANs, higher across networks).
    pub threshold: u32,
    /// So many receivers have to stay until they have everything, whoever they are, or the transfer
    /// ends for all. 0: none has to, but for those that a strict transfer names. Default 0.
    pub minimum: u32,
}

impl Default for Cp {
    fn default() -> Self {
        Self {
            threshold: 25,
            minimum: 0,
        }
    }
}

/// The policy's settings, if it is this one.
fn cp(config: &BulkConfig) -> Option<&Cp> {
    match &config.policy {
        Policy::Cp(rule) => Some(rule),
        _ => None,
    }
}

fn set(config: &mut BulkConfig, change: impl FnOnce(&mut Cp)) {
    if let Policy::Cp(rule) = &mut config.policy {
        change(rule);
    }
}

const NEEDS: Option<Needs<BulkConfig>> = Some(Needs {
    what: "policy = \"cp\"",
    is_met: |config| cp(config).is_some(),
});

pub(super) const THRESHOLD: Setting<BulkConfig> = Setting {
    name: "multicast_above",
    text: "The share of receivers, in percent: what more of them miss is multicast again, what fewer miss goes to each of \
           them by unicast.",
    spec: Spec::count("percent", 0, 100).unset("25"),
    wrong: "Too small: all read what few miss. Too large: the sender sends as many copies.",
    get: |config| cp(config)?.threshold.to_value(),
    set: |config, value| {
        if let Some(percent) = u32::from_value(value) {
            set(config, |rule| rule.threshold = percent);
        }
    },
    needs: NEEDS,
};

pub(super) const MINIMUM: Setting<BulkConfig> = Setting {
    name: "minimum",
    text: "So many receivers have to stay until they have everything, or the transfer ends for all.",
    spec: Spec::count("receivers", 0, 65_535).unset("0"),
    wrong: "Too large: one that goes ends the transfer for all.",
    get: |config| cp(config)?.minimum.to_value(),
    set: |config, value| {
        if let Some(receivers) = u32::from_value(value) {
            set(config, |rule| rule.minimum = receivers);
        }
    },
    needs: NEEDS,
};
