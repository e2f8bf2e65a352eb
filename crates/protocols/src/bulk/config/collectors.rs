//! Settings of the policy `collectors`: how many receivers collect the acknowledgements of the
//! others, and how long they wait for them (003 section 3.3.3). They stand together, because they
//! have a meaning under this policy only.

use core::time::Duration;

use groupcast_core::settings::{Needs, Setting, SettingField as _, Spec};

use super::keys::usual_poll;
use super::{BulkConfig, Policy};

/// What the policy `collectors` chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collectors {
    /// Packets from one that asks every receiver to the next; besides, the last of all asks. At
    /// most the window; default an eighth of it.
    pub every: u32,
    /// Receivers that collect. A pass for no more receivers than that does without. 003 says "say,
    /// four", and so is the default.
    pub count: u32,
    /// A collector waits so long at most for the receivers that it collects from. Default 5 ms.
    pub wait: Duration,
    /// A bug for tests and the swarm to find.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(crate) planted: Option<PlantedInCollectors>,
}

/// A rule of the policy that is broken on purpose.
#[cfg(any(test, feature = "planted-bugs"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlantedInCollectors {
    /// A collector that is dead is believed to have spoken for its receivers: they have all that
    /// was sent.
    DeadBelieved,
}

impl Collectors {
    /// The most receivers that collect: a page of the roster names them all.
    pub const COUNT_MAX: u32 = 16;
    /// The longest wait of a collector, in microseconds.
    pub(in crate::bulk) const WAIT_MAX_US: u64 = 1_000_000;

    /// The policy's defaults for a window of so many packets.
    pub fn for_window(window: u32) -> Self {
        Self {
            every: usual_poll(window),
            count: 4,
            wait: Duration::from_millis(5),
            #[cfg(any(test, feature = "planted-bugs"))]
            planted: None,
        }
    }

    /// Whether a dead collector is believed, which is a bug.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(in crate::bulk) fn believes_dead(&self) -> bool {
        self.planted == Some(PlantedInCollectors::DeadBelieved)
    }

    /// Whether a dead collector is believed, which is a bug.
    #[cfg(not(any(test, feature = "planted-bugs")))]
    pub(in crate::bulk) fn believes_dead(&self) -> bool {
        false
    }
}

/// The policy's settings, if it is this one.
fn collectors(config: &BulkConfig) -> Option<&Collectors> {
    match &config.policy {
        Policy::Collectors(rule) => Some(rule),
        _ => None,
    }
}

fn set(config: &mut BulkConfig, change: impl FnOnce(&mut Collectors)) {
    if let Policy::Collectors(rule) = &mut config.policy {
        change(rule);
    }
}

const NEEDS: Option<Needs<BulkConfig>> = Some(Needs {
    what: "policy = \"collectors\"",
    is_met: |config| collectors(config).is_some(),
});

pub(super) const EVERY: Setting<BulkConfig> = Setting {
    name: "collect_every",
    text: "Packets from one that every receiver acknowledges, by its collector, to the next.",
    spec: Spec::count("packets", 1, 1 << 16)
        .rule("at most the window")
        .unset("an eighth of the window"),
    wrong: "Too small: acknowledgements. Too large: the window fills before receivers are asked.",
    get: |config| collectors(config)?.every.to_value(),
    set: |config, value| {
        if let Some(packets) = u32::from_value(value) {
            set(config, |rule| rule.every = packets);
        }
    },
    needs: NEEDS,
};

pub(super) const COUNT: Setting<BulkConfig> = Setting {
    name: "collectors",
    text: "Receivers that collect the acknowledgements of all; where there are no more than that, each acknowledges to \
           the sender.",
    spec: Spec::count("receivers", 1, Collectors::COUNT_MAX).unset("4"),
    wrong: "Too small: each has much to do. Too large: the sender reads as many acknowledgements.",
    get: |config| collectors(config)?.count.to_value(),
    set: |config, value| {
        if let Some(receivers) = u32::from_value(value) {
            set(config, |rule| rule.count = receivers);
        }
    },
    needs: NEEDS,
};

pub(super) const WAIT: Setting<BulkConfig> = Setting {
    name: "collect_wait",
    text: "How long a collector waits at most for the receivers that it collects from.",
    spec: Spec::time().rule("at most 1 s").unset("5 ms"),
    wrong: "Too small: slow receivers are told of one by one. Too large: one that is silent delays the others' word.",
    get: |config| collectors(config)?.wait.to_value(),
    set: |config, value| {
        if let Some(wait) = Duration::from_value(value) {
            set(config, |rule| rule.wait = wait);
        }
    },
    needs: NEEDS,
};
