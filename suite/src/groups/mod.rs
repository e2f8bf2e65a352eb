//! The swarm over whole daemons: the engine of process groups and its clients on top of the ring,
//! in one simulation.
//!
//! A process of the simulator is a [`Daemon`]: a ring, the engine of its groups, and clients, each
//! a [`Connection`](groupcast_session::client::Connection) behind pipes that hold little. What a
//! seed submits are acts of clients: they publish, join and leave, come, say good-bye, vanish, stop
//! reading until they are expelled, and read again. The histories are judged as those of any ring;
//! beside that, what the clients saw is judged from end to end (`judge`): one order for all,
//! exactly the accepted messages, equal views, gaps with views around them, and for each connection
//! the right last word.

mod acts;
mod client;
mod daemon;
mod judge;
mod ledger;

use std::sync::{Arc, Mutex};

use groupcast_core::family::Situation;
use groupcast_protocols::ring;
use groupcast_session::EngineConfig;
use groupcast_sim::swarm::{Group, Scenario, Swarm, SwarmConfig};

pub use self::acts::Acts;
pub use self::daemon::Daemon;
pub use self::ledger::{Ledger, Tally};

/// The name of this swarm beside those of the families.
pub const NAME: &str = "groups";

/// The groups that clients are in. A witness is in all of them.
const GROUPS: [&str; 3] = ["a", "b/c", "d"];

/// The swarm, each seed with settings of its own. What its clients went through is added to
/// `tally`.
pub fn swarm(options: String, tally: Arc<Mutex<Tally>>) -> Swarm<Daemon> {
    let family = &ring::FAMILY;
    let config = SwarmConfig {
        messages: 600,
        options,
        ..SwarmConfig::of(family)
    };
    let situation = |scenario: &Scenario| Situation {
        seed: scenario.seed,
        hosts: scenario.hosts,
        calm: scenario.calm,
        plant: None,
    };
    let maker = move |scenario: &Scenario| {
        let rings = family.vary(&situation(scenario));
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let engine = limits(scenario.seed);
        let acts = Acts::new(scenario.seed, Arc::clone(&ledger), Arc::clone(&tally));
        Group {
            factory: Arc::new(move |member, rng, now| {
                let ring = rings(member, rng, now);
                Daemon::new(ring, &engine, member, now, Arc::clone(&ledger))
            }),
            application: Box::new(acts),
        }
    };
    Swarm::of_groups(config, maker)
        .patient(move |scenario| family.progress_within(&situation(scenario)))
}

/// Limits that clients meet: a reader that stops is expelled soon, before publishers are held back
/// for it or after; in every third seed for so little that most of those that stop are.
fn limits(seed: u64) -> EngineConfig {
    let disconnect_at = match seed % 3 {
        0 => 8 << 10,
        _ => 128 << 10,
    };
    EngineConfig {
        stop_publishers_at: match seed % 2 {
            0 => disconnect_at,
            _ => disconnect_at / 4,
        },
        drop_unreliable_at: disconnect_at / 2,
        disconnect_at,
        stalled_within: std::time::Duration::from_secs(2),
        ..EngineConfig::default()
    }
}
