//! Monitored transfers as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::contract::Contract;
use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};

use super::{ManagedConfig, ManagedMessages};
use crate::bulk::{self, BulkConfig, Messages, MessagesConfig, Multidriver, Policy, Xtp};
use crate::xgm::{Membership, Subgroups, UNASKED, WatchFrom, XgmConfig};

/// Bulk transfers with group management beside them; each message is a transfer.
pub const FAMILY: Family = Family {
    name: "managed",
    services: Messages::SERVICES,
    service: Service::Fifo,
    contract: Contract::Accounted,
    variants: &[
        Variant {
            name: "nak",
            build: build_nak,
        },
        Variant {
            name: "xtp",
            build: build_xtp,
        },
        Variant {
            name: "list",
            build: build_list,
        },
    ],
    settings: None,
    inspect: super::inspect::inspect,
    trial: Trial {
        #[cfg(feature = "planted-bugs")]
        plants: &PLANTS,
        zeros: &[UNASKED],
        messages: 100,
        services: Some(&[Service::Fifo]),
        progress_within: bulk::PROGRESS_WITHIN,
        settings_progress_within: Some(bulk::progress_within),
        ..Trial::new(vary)
    },
};

/// The window of the variants, in packets.
const WINDOW: u32 = 256;

fn build(local: MemberId, rng: Rng, now: Time, policy: Policy) -> Box<dyn Instrumented> {
    let config = ManagedConfig::new(MessagesConfig {
        bulk: bulk::for_tests(policy),
        ..MessagesConfig::default()
    });
    let messages = ManagedMessages::new(local, config, rng, now);
    Box::new(messages.expect("these settings fit each other"))
}

fn build_nak(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    build(local, rng, now, Policy::Nak { poll: WINDOW / 8 })
}

fn build_xtp(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    build(local, rng, now, Policy::Xtp(Xtp::for_window(WINDOW)))
}

fn build_list(local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
    let rounds = Multidriver::for_window(WINDOW);
    build(local, rng, now, Policy::List(rounds))
}

/// Longer messages than this may be for some subgroups, require a membership, or have marks. The
/// swarm's last messages, which all members present have to get, are shorter.
const PLAIN_MAX: u64 = 64;

/// The planted bugs: those of group management, and that of the marks.
#[cfg(feature = "planted-bugs")]
const PLANTS: [&str; crate::xgm::Planted::ALL.len() + 1] = {
    let [first, second, third, fourth, fifth] =
        crate::xgm::Planted::names(crate::xgm::Planted::ALL);
    [first, second, third, fourth, fifth, bulk::MARK_TOO_EARLY]
};

/// Whether all long messages have marks, for the bug of the marks.
#[cfg(feature = "planted-bugs")]
fn plants_early_marks(situation: &Situation) -> bool {
    situation.plant == Some(bulk::MARK_TOO_EARLY)
}

#[cfg(not(feature = "planted-bugs"))]
fn plants_early_marks(_situation: &Situation) -> bool {
    false
}

/// Another policy and other settings for each seed.
fn vary(rng: Rng, situation: &Situation) -> Factory {
    let mut own = rng.fork("managed");
    let bulk = bulk::varied(rng, situation);
    let config = ManagedConfig {
        // A member that is there may not be taken for gone: after the healing all have to get
        // everything.
        xgm: XgmConfig {
            #[cfg(feature = "planted-bugs")]
            planted: situation.plant.and_then(|name| name.parse().ok()),
            watch_interval: Duration::from_millis(own.range(1_500..3_000)),
            watch_asks: own.range(6..9) as u32,
            ..XgmConfig::default()
        },
        membership: vary_membership(&mut own, situation),
        from: match own.chance(0.7) {
            true => WatchFrom::Registration,
            false => WatchFrom::FirstWord,
        },
        moves: own
            .chance(0.5)
            .then(|| Duration::from_millis(own.range(50..2_000))),
        marks: own.chance(0.2) || plants_early_marks(situation),
        plain_max: PLAIN_MAX,
        replies: own.chance(0.5),
        ..ManagedConfig::new(MessagesConfig {
            bulk: BulkConfig {
                // The first byte of a body says whether it is the endpoint's or the entity's.
                packet: bulk.packet.saturating_sub(1).max(1),
                ..bulk
            },
            ..MessagesConfig::default()
        })
    };
    Arc::new(move |local, rng, now| {
        let messages = ManagedMessages::new(local, config.clone(), rng, now);
        Box::new(messages.expect("settings within their ranges"))
    })
}

/// In half of the seeds the messages require a membership.
fn vary_membership(rng: &mut Rng, situation: &Situation) -> Membership {
    let mut membership = Membership::default();
    match rng.below(8) {
        0 => membership.count = rng.range(1..situation.hosts as u64) as usize,
        1 => membership.subgroups = Subgroups::ALL.draw(rng),
        2 => membership.may_join = false,
        3 => membership.may_leave = false,
        _ => {}
    }
    membership
}
