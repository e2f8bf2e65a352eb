//! What changes while the world runs.

use groupcast_core::Instrumented;

use super::Experiment;
use crate::host::Status;
use crate::host::config::HostConfig;
use crate::link::LinkSpec;
use crate::topology::{EdgeId, Way};
use crate::world::CHANNEL;

/// Something that changes at a time.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A process begins on a host that has none.
    Start(usize),
    /// The process of a host ends without a word.
    Crash(usize),
    /// The process of a host is stopped, as by SIGSTOP.
    Pause(usize),
    /// It goes on.
    Resume(usize),
    /// The process of a host begins a graceful leave.
    Leave(usize),
    /// The network's multicast reaches a host.
    Join(usize),
    /// It reaches it no more.
    Part(usize),
    /// A link breaks, or is mended.
    Link {
        /// Which.
        edge: EdgeId,
        /// Whether it is whole.
        up: bool,
    },
    /// One direction of a link becomes different.
    Spec {
        /// Which.
        way: Way,
        /// What it is like from now on.
        spec: LinkSpec,
    },
    /// A host becomes different.
    Host {
        /// Which.
        host: usize,
        /// What it is like from now on.
        config: Box<HostConfig>,
    },
    /// Hosts of different components no longer reach each other; those in none are together in one more.
    Cut(Vec<Vec<usize>>),
    /// The cut ends.
    Heal,
    /// A source stops or goes on.
    Source {
        /// The number that [`Experiment::add_source`] gave it.
        source: usize,
        /// Whether it sends.
        plays: bool,
    },
}

impl<P: Instrumented> Experiment<P> {
    pub(super) fn change(&mut self, change: Change) {
        let world = &mut self.world;
        match change {
            Change::Start(host) => self.start(host),
            Change::Crash(host) => {
                world.crash(host);
                self.meter().stopped(host);
            }
            Change::Pause(host) => world.pause(host),
            Change::Resume(host) => world.resume(host),
            Change::Leave(host) => {
                let now = world.now();
                let leaving = &mut world.hosts[host];
                if leaving.status != Status::Up {
                    return;
                }
                let local = leaving.clock.local(now);
                let node = leaving.node.as_mut();
                if let Some(instance) = node.and_then(|node| node.instance_mut(CHANNEL)) {
                    instance.leave(local);
                    world.drain(host);
                }
                self.meter().stopped(host);
            }
            Change::Join(host) => world.medium.fabric().set_joined(host, true),
            Change::Part(host) => world.medium.fabric().set_joined(host, false),
            Change::Link { edge, up } => world.medium.fabric().set_up(edge, up),
            Change::Spec { way, spec } => world.medium.fabric().set_spec(way, spec),
            Change::Host { host, config } => world.set_host(host, *config),
            Change::Cut(components) => world.medium.fabric().cut(&components),
            Change::Heal => world.medium.fabric().heal(),
            Change::Source { source, plays } => self.set_playing(source, plays),
        }
    }
}
