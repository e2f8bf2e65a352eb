//! The swarm over whole daemons: the engine of process groups and its clients on top of what orders
//! their messages, in one simulation.
//!
//! A process of the simulator is a [`Daemon`]: a member of the ring or of RMP, the engine of its
//! groups, and clients, each a [`Connection`](groupcast_session::client::Connection) behind pipes
//! that hold little. What a seed submits are acts of clients: they publish, ask and answer, claim
//! and release roles, join and leave, come, say good-bye, vanish, stop reading until they are
//! expelled, and read again. The histories are judged as those of any member; beside that, what the
//! clients saw is judged from end to end (`judge`, `asking`): one order for all, exactly the
//! accepted messages, equal views, gaps with views around them, no request carried out twice, one
//! holder of a role, and for each connection the right last word.

mod acts;
mod asking;
mod client;
mod daemon;
mod judge;
mod ledger;

use std::sync::{Arc, Mutex};

use groupcast_core::Family;
use groupcast_core::family::Situation;
use groupcast_protocols::{ring, rmp};
use groupcast_session::EngineConfig;
use groupcast_session::guests::Planted;
use groupcast_sim::swarm::{Group, Scenario, Swarm, SwarmConfig};

pub use self::acts::Acts;
pub use self::daemon::Daemon;
pub use self::ledger::{Ledger, Tally};

/// What orders the messages of the daemons of a swarm.
#[derive(Clone, Copy)]
pub struct Order {
    /// The name of the swarm beside those of the families.
    pub name: &'static str,
    family: &'static Family,
}

/// Daemons on a ring.
pub const RING: Order = Order {
    name: "groups",
    family: &ring::FAMILY,
};
/// Daemons with RMP.
pub const RMP: Order = Order {
    name: "groups-rmp",
    family: &rmp::FAMILY,
};
/// The orders that there are swarms over daemons of.
pub const ORDERS: [Order; 2] = [RING, RMP];

/// The groups that clients are in. A witness is in all of them.
const GROUPS: [&str; 3] = ["a", "b/c", "d"];

/// The swarm of daemons over `order`, each seed with settings of its own. What its clients went
/// through is added to `tally`.
pub fn swarm(order: Order, tally: Arc<Mutex<Tally>>) -> Swarm<Daemon> {
    swarm_with(order, tally, None)
}

/// The same with a bug in what daemons make of requests and roles.
pub fn swarm_with(order: Order, tally: Arc<Mutex<Tally>>, plant: Option<Planted>) -> Swarm<Daemon> {
    let family = order.family;
    let config = SwarmConfig {
        messages: 600,
        options: format!("--protocol {}", order.name),
        ..SwarmConfig::of(family)
    };
    let situation = |scenario: &Scenario| Situation {
        seed: scenario.seed,
        hosts: scenario.hosts,
        calm: scenario.calm,
        plant: None,
    };
    let maker = move |scenario: &Scenario| {
        let members = family.vary(&situation(scenario));
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let engine = limits(scenario.seed);
        let acts = Acts::new(scenario.seed, Arc::clone(&ledger), Arc::clone(&tally));
        Group {
            factory: Arc::new(move |member, rng, now| {
                let ordered = members(member, rng, now);
                Daemon::new(ordered, (&engine, plant), member, now, Arc::clone(&ledger))
            }),
            application: Box::new(acts),
        }
    };
    Swarm::of_groups(config, maker)
        .patient(move |scenario| family.progress_within(&situation(scenario)))
}

/// Limits that clients meet: a reader that stops is expelled soon, before publishers are held back
/// for it or after; in every third seed for so little that most of those that stop are. In half of
/// the seeds a client that ends leaves its groups one after the other.
fn limits(seed: u64) -> EngineConfig {
    let disconnect_at = match seed % 3 {
        0 => 8 << 10,
        _ => 128 << 10,
    };
    let defaults = EngineConfig::default();
    EngineConfig {
        stop_publishers_at: match seed % 2 {
            0 => disconnect_at,
            _ => disconnect_at / 4,
        },
        drop_unreliable_at: disconnect_at / 2,
        disconnect_at,
        stalled_within: std::time::Duration::from_secs(2),
        groups_left_at_once: match seed / 2 % 2 {
            0 => 1,
            _ => defaults.groups_left_at_once,
        },
        ..defaults
    }
}
