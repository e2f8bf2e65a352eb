//! The keys by which files set what is more than one number: the policy, repairs, the rate.

use core::time::Duration;

use groupcast_core::settings::{Kind, Needs, Setting, SettingField as _, Spec, Value};

use super::xtp::usual_every;
use super::{
    BulkConfig, Collectors, Cp, Multidriver, NakRule, Policy, RateControl, Repair, Share, Xtp,
};

const POLICIES: &[&str] = &[
    "ack",
    "nak",
    "ring",
    "tree",
    "xtp",
    "multidriver",
    "list",
    "collectors",
    "cp",
];

/// Packets from one that is flagged to the next, unless told otherwise: an eighth of the window.
pub(super) fn usual_poll(window: u32) -> u32 {
    (window / 8).max(1)
}

/// Receivers in a chain, unless told otherwise.
const USUAL_HEIGHT: u32 = 6;

pub(super) const WINDOW: Setting<BulkConfig> = Setting {
    name: "window",
    text: "Packets that the sender may be ahead of the slowest receiver that it waits for, and keeps for repairs. With \
           the policy `ring`, more than there are receivers.",
    spec: Spec::count("packets", 1, 1 << 20),
    wrong: "Too small: throughput. More than the receivers' socket buffers take is lost when they are slow.",
    get: |config| config.window.to_value(),
    set: |config, value| {
        let Some(window) = u32::from_value(value) else {
            return;
        };
        // The interval of polling follows the window until it is given.
        if let Policy::Nak { poll } = &mut config.policy
            && *poll == usual_poll(config.window)
        {
            *poll = usual_poll(window);
        }
        if let Policy::Xtp(xtp) = &mut config.policy
            && xtp.every == usual_every(config.window)
        {
            xtp.every = usual_every(window);
        }
        if let Policy::Multidriver(rule) | Policy::List(rule) = &mut config.policy
            && rule.every == usual_every(config.window)
        {
            rule.every = usual_every(window);
        }
        if let Policy::Collectors(rule) = &mut config.policy
            && rule.every == usual_poll(config.window)
        {
            rule.every = usual_poll(window);
        }
        config.window = window;
    },
    needs: None,
};

pub(super) const POLICY: Setting<BulkConfig> = Setting {
    name: "policy",
    text: "Which receivers acknowledge which packets. `ack`: every receiver, every packet. `nak`: all receivers \
           acknowledge flagged packets, and each asks for packets that it misses. `ring`: receivers in turn. `tree`: \
           chains of receivers. `xtp`: receivers that hear a request; the sender knows only the group. `multidriver`: \
           every receiver, each request; `list`: the same, with a list of receivers that changes by subgroups. (These \
           three are of 003: go-back-N by default, and no parity.) `collectors`: as `nak`, through a few receivers \
           that collect the others' reports. `cp`: a window and a timer for each receiver. (Both are of 003 too.)",
    spec: Spec::word(POLICIES),
    wrong: "`ack` with many receivers: more acknowledgements than the sender takes.",
    get: |config| {
        Some(Value::Word(match config.policy {
            Policy::Ack => "ack",
            Policy::Nak { .. } => "nak",
            Policy::Ring => "ring",
            Policy::Tree { .. } => "tree",
            Policy::Xtp(_) => "xtp",
            Policy::Multidriver(_) => "multidriver",
            Policy::List(_) => "list",
            Policy::Collectors(_) => "collectors",
            Policy::Cp(_) => "cp",
        }))
    },
    set: |config, value| {
        config.policy = match value {
            Value::Word("ack") => Policy::Ack,
            Value::Word("nak") => Policy::Nak {
                poll: usual_poll(config.window),
            },
            Value::Word("ring") => Policy::Ring,
            Value::Word("tree") => Policy::Tree {
                height: USUAL_HEIGHT,
            },
            Value::Word("xtp") => {
                // 003 section 3.4; parity goes with receivers that are known.
                config.repair = Repair::GoBackN;
                config.block = None;
                Policy::Xtp(Xtp::for_window(config.window))
            }
            Value::Word("multidriver") => {
                // 003 5.3.1: go-back-N.
                config.repair = Repair::GoBackN;
                config.block = None;
                Policy::Multidriver(Multidriver::for_window(config.window))
            }
            Value::Word("list") => {
                config.repair = Repair::GoBackN;
                config.block = None;
                Policy::List(Multidriver::for_window(config.window))
            }
            Value::Word("collectors") => Policy::Collectors(Collectors::for_window(config.window)),
            Value::Word("cp") => {
                config.block = None;
                Policy::Cp(Cp::default())
            }
            _ => return,
        }
    },
    needs: None,
};

pub(super) const POLL: Setting<BulkConfig> = Setting {
    name: "poll",
    text: "Packets from one that is flagged to the next. 80 to 90 % of the window is best on a LAN (001 Fig. 12).",
    spec: Spec::count("packets", 1, 1 << 20)
        .rule("at most the window")
        .unset("an eighth of the window"),
    wrong: "Too small: acknowledgements. Too large: the window fills before any receiver is asked.",
    get: |config| match config.policy {
        Policy::Nak { poll } => poll.to_value(),
        _ => None,
    },
    set: |config, value| {
        if let (Policy::Nak { poll }, Some(packets)) = (&mut config.policy, u32::from_value(value))
        {
            *poll = packets;
        }
    },
    needs: Some(Needs {
        what: "policy = \"nak\"",
        is_met: |config| matches!(config.policy, Policy::Nak { .. }),
    }),
};

pub(super) const HEIGHT: Setting<BulkConfig> = Setting {
    name: "height",
    text: "Receivers in a chain.",
    spec: Spec::count("receivers", 1, u32::MAX).unset("6"),
    wrong: "1 is the policy `ack`. Too large: an acknowledgement passes many receivers on its way.",
    get: |config| match config.policy {
        Policy::Tree { height } => height.to_value(),
        _ => None,
    },
    set: |config, value| {
        if let (Policy::Tree { height }, Some(receivers)) =
            (&mut config.policy, u32::from_value(value))
        {
            *height = receivers;
        }
    },
    needs: Some(Needs {
        what: "policy = \"tree\"",
        is_met: |config| matches!(config.policy, Policy::Tree { .. }),
    }),
};

pub(super) const REPAIR: Setting<BulkConfig> = Setting {
    name: "repair",
    text: "What is sent again: the missing packets (`selective`), or the first of them and all after it (`go-back-n`).",
    spec: Spec::word(Repair::WORDS),
    wrong: "`go-back-n` on a network that loses: most of what is sent again is not missing.",
    get: |config| config.repair.to_value(),
    set: |config, value| {
        let Some(repair) = Repair::from_value(value) else {
            return;
        };
        config.repair = repair;
        // Parity goes with selective repeat only.
        if repair == Repair::GoBackN {
            config.block = None;
        }
    },
    needs: None,
};

pub(super) const BLOCK: Setting<BulkConfig> = Setting {
    name: "block",
    text: "Packets of a block for forward error correction; 0: lost packets are repeated. No parity is sent where the \
           window is smaller than two blocks.",
    spec: Spec::count("packets", 0, BulkConfig::BLOCK_MAX as u32),
    wrong: "Too small: parity repairs little. Too large: it comes late, and costs processor time.",
    get: |config| config.block.unwrap_or(0).to_value(),
    set: |config, value| {
        config.block = u16::from_value(value).filter(|packets| *packets > 0);
    },
    needs: Some(Needs {
        what: "repair = \"selective\"",
        is_met: |config| config.repair == Repair::Selective,
    }),
};

pub(super) const RATE: Setting<BulkConfig> = Setting {
    name: "rate",
    text: "What bounds the speed besides the window: a rate that is found by itself and leaves TCP its share (`auto`), \
           one that takes what others leave (`background`), one for a link of one's own (`max`), nothing (`window`), or so many \
           bits a second.",
    spec: Spec::of(Kind::WordOr(
        &["auto", "background", "max", "window"],
        &Kind::Bandwidth { least: 8 },
    )),
    wrong: "Faster than the slowest receiver: losses. `max` beside other traffic: TCP is left with nothing.",
    get: |config| {
        Some(match config.rate {
            RateControl::Window => Value::Word("window"),
            RateControl::Adaptive { share, .. } => Value::Word(match share {
                Share::Fair => "auto",
                Share::Rest => "background",
                Share::All => "max",
            }),
            RateControl::Fixed { bytes_per_second } => {
                Value::Integer(bytes_per_second.saturating_mul(8))
            }
        })
    },
    set: |config, value| {
        config.rate = match value {
            Value::Word("window") => RateControl::Window,
            Value::Word("max") => RateControl::ALL,
            Value::Word("background") => RateControl::BACKGROUND,
            Value::Word(_) => RateControl::FAIR,
            Value::Integer(bits) => RateControl::Fixed {
                bytes_per_second: bits / 8,
            },
            _ => return,
        }
    },
    needs: None,
};

pub(super) const NAK_DELAY: Setting<BulkConfig> = Setting {
    name: "nak_delay",
    text: "Receivers ask by multicast, after a random delay up to this, unless another has asked for the same by then.",
    spec: Spec::time().unset("at once, by unicast"),
    wrong: "Too small: many receivers ask for the same. Too large: repairs come late.",
    get: |config| match config.nak {
        NakRule::Unicast => None,
        NakRule::Multicast { delay_max } => delay_max.to_value(),
    },
    set: |config, value| {
        if let Some(delay_max) = Duration::from_value(value) {
            config.nak = NakRule::Multicast { delay_max };
        }
    },
    needs: None,
};

pub(super) const RECEIVE_RATE: Setting<BulkConfig> = Setting {
    name: "receive_rate",
    text: "The rate that this receiver reports to a sender that asks (policies `multidriver`, `list`, `xtp`): the \
           least rate of all receivers limits the transfer.",
    spec: Spec::of(Kind::Bandwidth { least: 12_000 }).unset("no limit"),
    wrong: "Too small: all receivers of a transfer wait. Too large: losses at a receiver that is slow to read.",
    get: |config| {
        let bits = config.receive_rate?.saturating_mul(8);
        Some(Value::Integer(bits))
    },
    set: |config, value| {
        if let Value::Integer(bits) = value {
            config.receive_rate = Some(bits / 8);
        }
    },
    needs: None,
};
