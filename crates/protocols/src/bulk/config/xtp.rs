//! Settings of the policy `xtp`: when receivers are asked, how they answer, and what the sender
//! makes of answers (003 sections 3.3.3 and 3.4). They stand together, because they have a meaning
//! under this policy only.

use core::time::Duration;

use groupcast_core::settings::{Kind, Needs, Setting, SettingField as _, Spec, Value};

use super::{BulkConfig, Policy};

/// What the policy `xtp` chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Xtp {
    /// Packets from one request to the next; besides, the last packet that window and room let go,
    /// and the last of all, carry one. At most the window; default a sixteenth of it.
    pub every: u32,
    /// How receivers answer.
    pub control: Control,
    /// Buckets that may be open at once; beyond, no packet carries a request. Default 16.
    pub buckets: u32,
    /// So many buckets in a row must say that a packet has come before it is released. 1 is 003;
    /// default 4 (ours): a receiver is outrun only if as many of its answers are lost in a row.
    pub agree: u32,
    /// So often in a row the sender may ask in vain, the wait doubled each time; then the transfer
    /// ends. Default 16: ten seconds.
    pub unanswered: u32,
    /// A bug for the tests to find.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub planted: Option<PlantedInBuckets>,
}

/// A rule of the policy that is broken on purpose.
#[cfg(any(test, feature = "planted-bugs"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedInBuckets {
    /// A bucket without answers releases all that was sent before its request.
    EmptyReleases,
    /// An answer damps those to other requests, too.
    StaleDamps,
}

/// How receivers answer requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// To all, as in 003; else to the sender alone, and nothing is damped.
    pub multicast: bool,
    /// Which answers are not sent because another's was heard.
    pub damping: Damping,
    /// How long answers wait, so that another's may be heard first (slotting).
    pub slot: Slot,
}

/// How long an answer waits at most: for a random time up to its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// It leaves at once, and nothing is damped.
    None,
    /// Up to this, however many receivers there are.
    UpTo(Duration),
    /// Up to so much for each receiver, so that few answers come to a request however many there
    /// are: for each that the transfer names or counts, else for each host that group management
    /// [has counted](crate::bulk::Bulk::set_group_size), else up to [`UNKNOWN`](Self::UNKNOWN).
    ForEach(Duration),
}

impl Slot {
    /// The slot where nobody knows how many receivers there are.
    pub const UNKNOWN: Duration = Duration::from_millis(2);

    /// The slot in a group of so many receivers, if that is known.
    pub(in crate::bulk) fn in_group_of(self, receivers: Option<usize>) -> Self {
        let Self::ForEach(each) = self else {
            return self;
        };
        let longest = match receivers.filter(|receivers| *receivers > 0) {
            Some(receivers) => each.saturating_mul(u32::try_from(receivers).unwrap_or(u32::MAX)),
            None => Self::UNKNOWN,
        };
        Self::UpTo(longest.min(Duration::from_micros(Xtp::SLOT_MAX_US)))
    }

    /// The longest wait.
    pub(in crate::bulk) fn longest(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::UpTo(longest) => longest,
            Self::ForEach(_) => Self::UNKNOWN,
        }
    }
}

/// Which answers that wait are dropped when another receiver's is heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damping {
    /// None.
    Off,
    /// Those to the same request that say nothing smaller: neither what they have nor their room
    /// (ours).
    Request,
    /// Those that have as much or more, whatever they answer (003 3.3.3): a smaller room stays
    /// hidden, and an answer to an older request damps.
    Rseq,
}

groupcast_core::setting_words! {
    Damping { "off" => Off, "request" => Request, "rseq" => Rseq }
}

impl Xtp {
    /// The longest slot, in microseconds.
    pub(in crate::bulk) const SLOT_MAX_US: u64 = 1_000_000;

    /// A slot for each receiver: about twice what an answer takes to the others on a LAN, so that
    /// one or two come to a request.
    const SLOT_EACH: Duration = Duration::from_micros(200);

    /// The policy's defaults for a window of so many packets: answers by multicast, damped within a
    /// request, slots of 200 µs for each receiver.
    pub fn for_window(window: u32) -> Self {
        Self {
            every: usual_every(window),
            control: Control {
                multicast: true,
                damping: Damping::Request,
                slot: Slot::ForEach(Self::SLOT_EACH),
            },
            buckets: 16,
            agree: 4,
            unanswered: 16,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted: None,
        }
    }
}

/// Packets from one request to the next, unless told otherwise.
pub(super) fn usual_every(window: u32) -> u32 {
    (window / 16).max(1)
}

/// The policy's settings, if it is this one.
fn xtp(config: &BulkConfig) -> Option<&Xtp> {
    match &config.policy {
        Policy::Xtp(xtp) => Some(xtp),
        _ => None,
    }
}

fn set(config: &mut BulkConfig, change: impl FnOnce(&mut Xtp)) {
    if let Policy::Xtp(xtp) = &mut config.policy {
        change(xtp);
    }
}

const NEEDS: Option<Needs<BulkConfig>> = Some(Needs {
    what: "policy = \"xtp\"",
    is_met: |config| xtp(config).is_some(),
});

pub(super) const EVERY: Setting<BulkConfig> = Setting {
    name: "request_every",
    text: "Packets from one that asks all receivers for an answer to the next.",
    spec: Spec::count("packets", 1, 1 << 16)
        .rule("at most the window")
        .unset("a sixteenth of the window"),
    wrong: "Too small: answers. Too large: the window fills before receivers are asked.",
    get: |config| xtp(config)?.every.to_value(),
    set: |config, value| {
        if let Some(packets) = u32::from_value(value) {
            set(config, |xtp| xtp.every = packets);
        }
    },
    needs: NEEDS,
};

pub(super) const CONTROL: Setting<BulkConfig> = Setting {
    name: "control",
    text: "Where receivers send their answers: to all (`multicast`, 003), or to the sender alone (`unicast`): then \
           nothing is damped.",
    spec: Spec::word(&["multicast", "unicast"]).unset("multicast"),
    wrong: "`multicast`: every receiver reads all answers. `unicast`: the sender reads one of each receiver.",
    get: |config| {
        Some(Value::Word(match xtp(config)?.control.multicast {
            true => "multicast",
            false => "unicast",
        }))
    },
    set: |config, value| {
        set(config, |xtp| {
            xtp.control.multicast = value == Value::Word("multicast");
        });
    },
    needs: NEEDS,
};

pub(super) const DAMPING: Setting<BulkConfig> = Setting {
    name: "damping",
    text: "Which answers are not sent because another receiver's was heard: none (`off`), those to the same request \
           that say nothing smaller (`request`), or those that have as much, whatever they answer (`rseq`, 003).",
    spec: Spec::word(Damping::WORDS).unset("request"),
    wrong: "`rseq` hides a smaller room, and is fooled by old answers: receivers are outrun.",
    get: |config| xtp(config)?.control.damping.to_value(),
    set: |config, value| {
        if let Some(damping) = Damping::from_value(value) {
            set(config, |xtp| xtp.control.damping = damping);
        }
    },
    needs: NEEDS,
};

pub(super) const SLOT: Setting<BulkConfig> = Setting {
    name: "slot",
    text: "The longest random wait of an answer, whatever the size of the group, or `by-size`: `slot_each` for each \
           receiver, if anything says how many there are, and else 2 ms. 0: none, and nothing is damped. A bucket lives \
           that much longer.",
    spec: Spec::of(Kind::WordOr(
        &[BY_SIZE],
        &Kind::Time {
            least: Duration::ZERO,
            most: Duration::MAX,
        },
    ))
    .rule("at most 1 s")
    .unset("by-size"),
    wrong: "Shorter than what an answer takes to the others: nothing is damped. Too large: all buckets live longer.",
    get: |config| match xtp(config)?.control.slot {
        Slot::None => Duration::ZERO.to_value(),
        Slot::UpTo(longest) => longest.to_value(),
        Slot::ForEach(_) => Some(Value::Word(BY_SIZE)),
    },
    set: |config, value| {
        let slot = match Duration::from_value(value) {
            Some(Duration::ZERO) => Slot::None,
            Some(longest) => Slot::UpTo(longest),
            None => Slot::ForEach(Xtp::SLOT_EACH),
        };
        set(config, |xtp| xtp.control.slot = slot);
    },
    needs: NEEDS,
};

/// The word for slots that follow the size of the group.
const BY_SIZE: &str = "by-size";

fn slot_each(config: &BulkConfig) -> Option<Duration> {
    match xtp(config)?.control.slot {
        Slot::ForEach(each) => Some(each),
        Slot::None | Slot::UpTo(_) => None,
    }
}

pub(super) const SLOT_EACH: Setting<BulkConfig> = Setting {
    name: "slot_each",
    text: "The slot for each receiver; of all together at most 1 s.",
    spec: Spec::interval().rule("at most 1 s").unset("200 us"),
    wrong: "Shorter than half of what an answer takes to the others: many answers come to a request. Too large: all \
            buckets live longer.",
    get: |config| slot_each(config)?.to_value(),
    set: |config, value| {
        if let Some(each) = Duration::from_value(value) {
            set(config, |xtp| {
                if let Slot::ForEach(slot_each) = &mut xtp.control.slot {
                    *slot_each = each;
                }
            });
        }
    },
    needs: Some(Needs {
        what: "slot = \"by-size\"",
        is_met: |config| slot_each(config).is_some(),
    }),
};

pub(super) const BUCKETS: Setting<BulkConfig> = Setting {
    name: "buckets",
    text: "Requests whose answers are collected at once.",
    spec: Spec::count("buckets", 1, 1024).unset("16"),
    wrong: "Too small: packets carry no request on long paths. Too large: memory.",
    get: |config| xtp(config)?.buckets.to_value(),
    set: |config, value| {
        if let Some(buckets) = u32::from_value(value) {
            set(config, |xtp| xtp.buckets = buckets);
        }
    },
    needs: NEEDS,
};

pub(super) const AGREE: Setting<BulkConfig> = Setting {
    name: "agree",
    text: "Buckets in a row that must say that a packet has come before it is released. 1 is 003.",
    spec: Spec::count("buckets", 1, 64).unset("4"),
    wrong: "Too small: receivers that lose an answer or two are outrun. Too large: the window moves late.",
    get: |config| xtp(config)?.agree.to_value(),
    set: |config, value| {
        if let Some(agree) = u32::from_value(value) {
            set(config, |xtp| xtp.agree = agree);
        }
    },
    needs: NEEDS,
};

pub(super) const UNANSWERED: Setting<BulkConfig> = Setting {
    name: "unanswered",
    text: "How often in a row the sender asks, the wait doubled each time, and nobody answers, before the transfer ends.",
    spec: Spec::count("requests", 1, 1000).unset("16"),
    wrong: "Too small: a pause of the network ends a transfer. Too large: it ends late.",
    get: |config| xtp(config)?.unanswered.to_value(),
    set: |config, value| {
        if let Some(unanswered) = u32::from_value(value) {
            set(config, |xtp| xtp.unanswered = unanswered);
        }
    },
    needs: NEEDS,
};
