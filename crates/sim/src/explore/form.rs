//! How the group comes together before it is explored: in one order of all steps, on a network that
//! loses nothing.

use std::hash::Hash;
use std::time::Duration;

use groupcast_core::trace::Observation;
use groupcast_core::{ConfigurationKind, MemberId, Ordered, Rng, Time, TransmitBuf};

use super::ExploreConfig;
use super::world::{World, member};

/// How long members may take to come together.
const FORMED_WITHIN: Duration = Duration::from_secs(10);

/// The formed group, when it has been left alone for as long as `config` says.
pub(super) fn form<P: Ordered + Clone + Hash>(
    config: &ExploreConfig,
    make: impl Fn(MemberId, Rng, Time) -> P,
) -> World<P> {
    let now = Time::from_millis(1);
    let make = |site| make(member(site), Rng::new(site as u64), now);
    let mut world = World::new(config, now, make);
    let mut buf = TransmitBuf::new(1, 0, 0);
    for site in 0..config.members {
        world.input(site, &mut buf, |_, _| None);
    }
    let mut formed = None;
    loop {
        arrive(&mut world, &mut buf);
        if formed.is_none()
            && world
                .sites
                .iter()
                .all(|site| is_whole(&site.history.log, config))
        {
            formed = Some(world.now);
        }
        let due = world.sites.iter().filter_map(|site| site.due).min();
        let due = due.expect("a member without company looks for some");
        let end = formed.map(|at| at + config.idle);
        if end.is_some_and(|end| due > end) {
            // Just before the next timer: time has passed, and nothing is due.
            return world;
        }
        assert!(
            due < now + FORMED_WITHIN,
            "the members do not come together"
        );
        world.now = world.now.max(due);
        let is_due = |site: &usize| world.sites[*site].due.is_some_and(|due| due <= world.now);
        let site = (0..config.members).find(is_due);
        let site = site.expect("one is due now");
        world.input(site, &mut buf, |engine, now| {
            engine.handle_timeout(now);
            None
        });
    }
}

/// All that is on its way arrives, and what follows from it.
fn arrive<P: Ordered + Clone + Hash>(world: &mut World<P>, buf: &mut TransmitBuf) {
    while !world.copies.is_empty() {
        let copy = world.copies.remove(0);
        let from = member(copy.datagram.from);
        world.input(copy.to, buf, |engine, now| {
            engine.handle_datagram(now, from, copy.datagram.body.clone());
            None
        });
    }
}

/// Whether the last that was seen is a regular configuration of all.
fn is_whole(log: &[Observation], config: &ExploreConfig) -> bool {
    matches!(
        log.last(),
        Some(Observation::Configuration { kind: ConfigurationKind::Regular, members, .. })
            if members.len() == config.members
    )
}
