//! Bulk as a family of the registry: every message is a transfer.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{
    Factory, Family, FamilySettings, GroupConfig, Members, Situation, Trial, Variant,
};
use groupcast_core::settings::{ConfigError, SettingState, Settings as _, Value};
use groupcast_core::{Incarnation, Instrumented, MemberId, NodeId, Rng, Service, Time};

use super::{
    BulkConfig, Control, Damping, Messages, MessagesConfig, Multidriver, NakRule, Partial, Policy,
    RateControl, Repair, Slot, SlowPolicy, Xtp, inspect,
};
#[cfg(any(test, feature = "planted-bugs"))]
use super::{PlantedInBuckets, PlantedInRounds};

/// Bulk transfers, a message a transfer: what one sender sends comes in its order, and is accounted
/// for.
pub const FAMILY: Family = Family {
    name: "bulk",
    services: Messages::SERVICES,
    service: Service::Fifo,
    contract: Contract::Accounted,
    variants: &[
        Variant {
            name: "ack",
            build: build_ack,
        },
        Variant {
            name: "nak",
            build: build_nak,
        },
        Variant {
            name: "ring",
            build: build_ring,
        },
        Variant {
            name: "tree",
            build: build_tree,
        },
        Variant {
            name: "xtp",
            build: build_xtp,
        },
        Variant {
            name: "multidriver",
            build: build_multidriver,
        },
        Variant {
            name: "list",
            build: build_list,
        },
    ],
    settings: Some(FamilySettings::of::<MessagesConfig>()),
    inspect,
    // A transfer waits for those that are there, and takes a few round trips, so there are fewer
    // messages than the ring gets, and progress after healing has to wait until those who are gone
    // are given up.
    trial: Trial {
        #[cfg(any(test, feature = "planted-bugs"))]
        plants: &[EMPTY_RELEASES, STALE_DAMPS],
        #[cfg(any(test, feature = "planted-bugs"))]
        rare_plants: &[SILENT_FORGOTTEN, FIRST_REPLY_COUNTS],
        messages: 100,
        services: Some(&[Service::Fifo]),
        progress_within: PROGRESS_WITHIN,
        settings_progress_within: Some(progress_within),
        ..Trial::new(vary)
    },
};

/// The planted bug: a bucket without answers releases what was sent before its request. The sender
/// notices that it releases what nobody has said to have.
#[cfg(any(test, feature = "planted-bugs"))]
const EMPTY_RELEASES: &str = "empty-releases";
/// Another: an answer damps those to other requests, too. So does the setting `damping = "rseq"`,
/// which keeps the contract, so no history shows it: the receiver notices.
#[cfg(any(test, feature = "planted-bugs"))]
const STALE_DAMPS: &str = "stale-damps";
/// Two more, of rounds, which cost time and no message here: what is released too early is sent in
/// a later pass. Connections have none, and show both.
#[cfg(any(test, feature = "planted-bugs"))]
pub(crate) const SILENT_FORGOTTEN: &str = "silent-forgotten";
#[cfg(any(test, feature = "planted-bugs"))]
pub(crate) const FIRST_REPLY_COUNTS: &str = "first-reply-counts";
/// One of the marks, which monitored messages have.
#[cfg(any(test, feature = "planted-bugs"))]
pub(crate) const MARK_TOO_EARLY: &str = "mark-too-early";

/// The policy of the bug that is planted, with it; else the one that was drawn.
#[cfg(any(test, feature = "planted-bugs"))]
fn planted(drawn: Policy, window: u32, situation: &Situation) -> Policy {
    let in_rounds = |bug| {
        let mut rule = Multidriver::for_window(window);
        if bug == PlantedInRounds::SilentForgotten {
            // Of the other rules none acts while a receiver is silent.
            rule.partial = Partial::Act;
        }
        rule.planted = Some(bug);
        Policy::Multidriver(rule)
    };
    let in_buckets = |bug| {
        let mut rule = Xtp::for_window(window);
        rule.planted = Some(bug);
        Policy::Xtp(rule)
    };
    match situation.plant {
        Some(EMPTY_RELEASES) => in_buckets(PlantedInBuckets::EmptyReleases),
        Some(STALE_DAMPS) => in_buckets(PlantedInBuckets::StaleDamps),
        Some(SILENT_FORGOTTEN) => in_rounds(PlantedInRounds::SilentForgotten),
        Some(FIRST_REPLY_COUNTS) => in_rounds(PlantedInRounds::FirstReplyCounts),
        Some(MARK_TOO_EARLY) => in_rounds(PlantedInRounds::MarkTooEarly),
        _ => drawn,
    }
}

#[cfg(not(any(test, feature = "planted-bugs")))]
fn planted(drawn: Policy, _window: u32, _situation: &Situation) -> Policy {
    drawn
}

/// Within which time all that was accepted arrives. With go-back-N a message of many packets takes
/// a round trip for every few of them where any of several receivers loses one (seed 202059).
pub(crate) const PROGRESS_WITHIN: Duration = Duration::from_secs(240);

/// The settings of the transfers come first, as documents have them.
impl GroupConfig for MessagesConfig {
    fn list(&self) -> Vec<SettingState> {
        let mut list = self.bulk.listed();
        list.extend(self.listed());
        list
    }

    fn set(&mut self, name: &str, value: Value) {
        if !self.bulk.assign(name, value) {
            self.assign(name, value);
        }
    }

    fn members(&self) -> Result<Members, ConfigError> {
        // Whether settings fit each other does not depend on whose member it is.
        let unnamed = MemberId {
            node: NodeId(0),
            incarnation: Incarnation(0),
        };
        Messages::new(unnamed, self.clone(), Rng::new(0))?;
        let config = self.clone();
        Ok(Members::new(Arc::new(move |local, rng, _| {
            let messages = Messages::new(local, config.clone(), rng);
            Box::new(messages.expect("the settings were checked"))
        })))
    }
}

/// A member of a group of tests: whoever is there, short time-outs.
fn build(local: MemberId, rng: Rng, policy: Policy) -> Box<dyn Instrumented> {
    let config = MessagesConfig {
        bulk: for_tests(policy),
        ..MessagesConfig::default()
    };
    Box::new(Messages::new(local, config, rng).expect("these settings fit each other"))
}

/// Short time-outs, for groups of tests.
pub(crate) fn for_tests(policy: Policy) -> BulkConfig {
    let lan = BulkConfig::lan();
    let parity = policy.takes_parity();
    BulkConfig {
        policy,
        block: lan.block.filter(|_| parity),
        announce_interval: Duration::from_millis(20),
        present_within: Duration::from_millis(100),
        register_within: Duration::from_secs(2),
        rto_max: Duration::from_millis(250),
        vanish_after: Duration::from_secs(2),
        slow_after: Duration::from_millis(500),
        ..lan
    }
}

/// A member under the ACK policy.
fn build_ack(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Ack)
}

/// A member under the NAK policy.
fn build_nak(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Nak { poll: 32 })
}

/// A member under the ring policy.
fn build_ring(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Ring)
}

/// A member under the tree policy.
fn build_tree(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Tree { height: 3 })
}

/// A member under the XTP policy.
fn build_xtp(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::Xtp(Xtp::for_window(256)))
}

/// A member under the Multidriver's policy.
fn build_multidriver(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(
        local,
        rng,
        Policy::Multidriver(Multidriver::for_window(256)),
    )
}

/// A member under the list-based policy.
fn build_list(local: MemberId, rng: Rng, _now: Time) -> Box<dyn Instrumented> {
    build(local, rng, Policy::List(Multidriver::for_window(256)))
}

fn vary(rng: Rng, situation: &Situation) -> Factory {
    let settings = MessagesConfig {
        bulk: varied(rng, situation),
        ..MessagesConfig::default()
    };
    Arc::new(move |member, rng, _| {
        let messages = Messages::new(member, settings.clone(), rng);
        Box::new(messages.expect("settings within their ranges"))
    })
}

/// With selective repeat it is sooner.
pub(crate) fn progress_within(rng: Rng, situation: &Situation) -> Duration {
    match varied(rng, situation).repair {
        Repair::GoBackN => PROGRESS_WITHIN,
        Repair::Selective => PROGRESS_WITHIN / 4,
    }
}

/// A policy and settings of its own for each seed.
pub(crate) fn varied(mut rng: Rng, situation: &Situation) -> BulkConfig {
    let mut xtp = rng.fork("xtp");
    let mut multidriver = rng.fork("multidriver");
    let mut list = rng.fork("list");
    // More than there are hosts, as a ring must have it.
    let window = rng.range(10..80) as u32;
    let policy = match rng.below(4) {
        0 => Policy::Ack,
        1 => Policy::Nak {
            poll: rng.range(1..u64::from(window) + 1) as u32,
        },
        2 => Policy::Ring,
        _ => Policy::Tree {
            height: rng.range(1..9) as u32,
        },
    };
    let policy = match xtp.chance(0.25) {
        true => Policy::Xtp(vary_xtp(&mut xtp, window)),
        false => policy,
    };
    let policy = match multidriver.chance(0.2) {
        true => Policy::Multidriver(vary_multidriver(&mut multidriver, window)),
        false => policy,
    };
    let policy = match list.chance(0.2) {
        true => Policy::List(vary_multidriver(&mut list, window)),
        false => policy,
    };
    let policy = planted(policy, window, situation);
    let packet = if rng.chance(0.2) {
        rng.range(1..9_000) as usize
    } else {
        rng.range(200..1_400) as usize
    };
    let pick = |rng: &mut Rng, odds: f64| rng.chance(odds);
    let repair = if pick(&mut rng, 0.3) {
        Repair::GoBackN
    } else {
        Repair::Selective
    };
    // Parity goes with selective repeat only.
    let parity = pick(&mut rng, 0.7) && repair == Repair::Selective;
    let parity = parity && policy.takes_parity();
    BulkConfig {
        policy,
        repair,
        block: parity.then(|| rng.range(1..40) as u16),
        packet: packet.max(100),
        window,
        reserve: pick(&mut rng, 0.3),
        rate: if pick(&mut rng, 0.5) {
            RateControl::Window
        } else {
            match situation.seed.is_multiple_of(2) {
                true => RateControl::FAIR,
                false => RateControl::ALL,
            }
        },
        slow: match rng.below(3) {
            0 => SlowPolicy::Wait,
            1 => SlowPolicy::Demote,
            _ => SlowPolicy::Drop,
        },
        nak: if pick(&mut rng, 0.3) {
            NakRule::Multicast {
                delay_max: Duration::from_millis(rng.range(1..50)),
            }
        } else {
            NakRule::Unicast
        },
        suppression: pick(&mut rng, 0.3).then(|| Duration::from_millis(rng.range(1..50))),
        present_within: Duration::from_millis(rng.range(200..400)),
        rto_max: Duration::from_millis(500),
        vanish_after: Duration::from_secs(rng.range(2..5)),
        response_contexts: list.range(1..20) as usize,
        ..BulkConfig::lan()
    }
}

/// The Multidriver with settings of its own for each seed.
pub(super) fn vary_multidriver(rng: &mut Rng, window: u32) -> Multidriver {
    let mut rule = Multidriver::for_window(window);
    rule.every = rng.range(1..u64::from(window) + 1) as u32;
    rule.partial = match rng.below(3) {
        0 => Partial::Act,
        1 => Partial::AskAll,
        _ => Partial::AskSilent,
    };
    rule.backoff = Duration::from_micros(rng.range(0..5_000));
    rule.use_backoff = rng.chance(0.5);
    rule
}

/// How receivers under XTP answer, another way for each seed.
pub(super) fn vary_control(rng: &mut Rng) -> Control {
    Control {
        multicast: rng.chance(0.8),
        damping: match rng.below(3) {
            0 => Damping::Off,
            1 => Damping::Request,
            _ => Damping::Rseq,
        },
        slot: match rng.chance(0.7) {
            true => Slot::UpTo(Duration::from_micros(rng.range(100..20_000))),
            false => Slot::None,
        },
    }
}

/// XTP with settings of its own for each seed.
fn vary_xtp(rng: &mut Rng, window: u32) -> Xtp {
    let mut xtp = Xtp::for_window(window);
    xtp.every = rng.range(1..u64::from(window) + 1) as u32;
    xtp.control = vary_control(rng);
    let mut by_size = rng.fork("slots by size");
    if by_size.chance(0.3) {
        let each = Duration::from_micros(by_size.range(20..2_000));
        xtp.control.slot = Slot::ForEach(each);
    }
    xtp.buckets = rng.range(1..17) as u32;
    xtp.agree = rng.range(1..6) as u32;
    xtp.unanswered = rng.range(10..30) as u32;
    xtp
}
