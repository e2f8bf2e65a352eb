//! Settings of the policies `multidriver` and `list`: when every receiver is asked, how replies are
//! spread, and what follows when some are missing (003 sections 3.2, 5.3.1 and 5.3.3). They stand
//! together, because they have a meaning under these policies only.

use core::time::Duration;

use groupcast_core::settings::{Needs, Setting, SettingField as _, Spec};

use super::xtp::usual_every;
use super::{BulkConfig, Policy};

/// What the policies `multidriver` and `list` choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multidriver {
    /// Packets from one request to the next, if the round before is over; besides, the last packet
    /// that window and room let go, and the last of all, carry one. At most the window; default a
    /// sixteenth of it.
    pub every: u32,
    /// What the sender does when a round's time is over and not all have replied.
    pub partial: Partial,
    /// `BACKOFF_TIME` is so much for each receiver of the set, and a second at most (003 leaves the
    /// formula open). Default 50 µs.
    pub backoff: Duration,
    /// Whether replies wait for a random part of `BACKOFF_TIME`, until the user
    /// [changes](crate::bulk::Bulk::use_backoff) that; registrations always do. Default no.
    pub use_backoff: bool,
    /// A bug for the tests to find.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub planted: Option<PlantedInRounds>,
}

/// What follows when a round's time is over and not all have replied (003 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partial {
    /// Act on what came: those that have replied get repairs. What the others have is what they
    /// said last.
    Act,
    /// Ask all again; nothing is done before.
    AskAll,
    /// Ask those that are silent, each by unicast.
    AskSilent,
}

groupcast_core::setting_words! {
    Partial { "act" => Act, "ask-all" => AskAll, "ask-silent" => AskSilent }
}

/// A rule of the policy that is broken on purpose.
#[cfg(any(test, feature = "planted-bugs"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedInRounds {
    /// A partial round releases what all that have replied hold, whatever the others hold.
    SilentForgotten,
    /// A round ends with its first reply.
    FirstReplyCounts,
    /// A mark is raised when the first receiver holds what lies below.
    MarkTooEarly,
}

impl Multidriver {
    /// The longest time that is waited for one receiver of the set, in microseconds.
    pub(in crate::bulk) const BACKOFF_MAX_US: u64 = 1_000_000;

    /// The policy's defaults for a window of so many packets.
    pub fn for_window(window: u32) -> Self {
        Self {
            every: usual_every(window),
            partial: Partial::AskSilent,
            backoff: Duration::from_micros(50),
            use_backoff: false,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted: None,
        }
    }

    /// `BACKOFF_TIME` for a set of so many receivers: the longest random wait before a packet of a
    /// receiver.
    pub fn backoff_time(&self, receivers: u16) -> Duration {
        let time = self.backoff * u32::from(receivers);
        time.min(Duration::from_micros(Self::BACKOFF_MAX_US))
    }
}

/// The policy's settings, if it is one of these.
fn multidriver(config: &BulkConfig) -> Option<&Multidriver> {
    config.policy.rounds()
}

fn set(config: &mut BulkConfig, change: impl FnOnce(&mut Multidriver)) {
    if let Policy::Multidriver(rule) | Policy::List(rule) = &mut config.policy {
        change(rule);
    }
}

const NEEDS: Option<Needs<BulkConfig>> = Some(Needs {
    what: "policy = \"multidriver\" or \"list\"",
    is_met: |config| multidriver(config).is_some(),
});

pub(super) const EVERY: Setting<BulkConfig> = Setting {
    name: "round_every",
    text: "Packets from one that asks every receiver for a reply to the next, if all have replied to the one before.",
    spec: Spec::count("packets", 1, 1 << 16)
        .rule("at most the window")
        .unset("a sixteenth of the window"),
    wrong: "Too small: replies. Too large: the window fills before receivers are asked.",
    get: |config| multidriver(config)?.every.to_value(),
    set: |config, value| {
        if let Some(packets) = u32::from_value(value) {
            set(config, |rule| rule.every = packets);
        }
    },
    needs: NEEDS,
};

pub(super) const PARTIAL: Setting<BulkConfig> = Setting {
    name: "partial",
    text: "When not all have replied in time: the sender acts on what came (`act`), asks all again (`ask-all`), or asks \
           those that are silent by unicast (`ask-silent`).",
    spec: Spec::word(Partial::WORDS).unset("ask-silent"),
    wrong: "`ask-all` with many receivers: all reply again because one was not heard.",
    get: |config| multidriver(config)?.partial.to_value(),
    set: |config, value| {
        if let Some(partial) = Partial::from_value(value) {
            set(config, |rule| rule.partial = partial);
        }
    },
    needs: NEEDS,
};

pub(super) const BACKOFF: Setting<BulkConfig> = Setting {
    name: "backoff",
    text: "For each receiver of the set: a receiver waits for a random time up to the sum, and a second at most, before \
           it registers, and with `use_backoff` before each reply.",
    spec: Spec::time().rule("at most 1 s").unset("50 us"),
    wrong: "Too small: what receivers send comes at once, and overflows the sender. Too large: each round takes longer.",
    get: |config| multidriver(config)?.backoff.to_value(),
    set: |config, value| {
        if let Some(backoff) = Duration::from_value(value) {
            set(config, |rule| rule.backoff = backoff);
        }
    },
    needs: NEEDS,
};

pub(super) const USE_BACKOFF: Setting<BulkConfig> = Setting {
    name: "use_backoff",
    text: "Whether replies wait as registrations do.",
    spec: Spec::flag().unset("false"),
    wrong: "False: many receivers reply at once. True: each round takes longer.",
    get: |config| multidriver(config)?.use_backoff.to_value(),
    set: |config, value| {
        if let Some(use_backoff) = bool::from_value(value) {
            set(config, |rule| rule.use_backoff = use_backoff);
        }
    },
    needs: NEEDS,
};
