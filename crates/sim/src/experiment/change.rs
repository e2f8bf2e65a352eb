//! What changes while the world runs.
//!
//! These are the words for it everywhere: a scenario file says them as keys of a `[[change]]`, the
//! swarm's [faults](crate::swarm::Fault) begin and end with them.

use groupcast_core::Instrumented;

use super::Experiment;
use crate::host::Status;
use crate::host::config::HostConfig;
use crate::link::LinkSpec;
use crate::topology::{EdgeId, Way};
use crate::world::CHANNEL;

/// What happens to the process of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessChange {
    /// A process begins on a host that has none.
    Start,
    /// The process ends without telling the others.
    Crash,
    /// The process is stopped, as by SIGSTOP.
    Pause,
    /// A stopped process continues.
    Resume,
    /// The process begins a graceful leave.
    Leave,
}

/// Something that changes at a time.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The process of a host begins, ends, stops or continues.
    Process(usize, ProcessChange),
    /// The network's multicast reaches a host from now on.
    Join(usize),
    /// The network's multicast reaches a host no longer.
    Part(usize),
    /// A link breaks.
    Down(EdgeId),
    /// A broken link is whole again.
    Up(EdgeId),
    /// Hosts of different components no longer reach each other; those in none are together in one
    /// more.
    Cut(Vec<Vec<usize>>),
    /// The cut ends.
    Heal,
    /// One direction of a link becomes different.
    Link {
        /// Which direction of which link.
        way: Way,
        /// What it is like from now on.
        spec: LinkSpec,
    },
    /// A host becomes different.
    Host {
        /// The index of the host.
        host: usize,
        /// What it is like from now on.
        config: Box<HostConfig>,
    },
    /// The source stops sending; [`Experiment::add_source`] returned its number.
    Silence(usize),
    /// The source with that number sends again.
    Sound(usize),
}

impl<P: Instrumented> Experiment<P> {
    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Process(host, change) => self.change_process(host, change),
            Change::Join(host) => self.world.medium.fabric().set_joined(host, true),
            Change::Part(host) => self.world.medium.fabric().set_joined(host, false),
            Change::Down(edge) => self.world.medium.fabric().set_up(edge, false),
            Change::Up(edge) => self.world.medium.fabric().set_up(edge, true),
            Change::Cut(components) => self.world.medium.fabric().cut(&components),
            Change::Heal => self.world.medium.fabric().heal(),
            Change::Link { way, spec } => self.world.medium.fabric().set_spec(way, spec),
            Change::Host { host, config } => self.world.set_host(host, *config),
            Change::Silence(source) => self.set_playing(source, false),
            Change::Sound(source) => self.set_playing(source, true),
        }
    }

    fn change_process(&mut self, host: usize, change: ProcessChange) {
        match change {
            ProcessChange::Start => self.start(host),
            ProcessChange::Crash => {
                self.world.crash(host);
                self.meter().stopped(host);
            }
            ProcessChange::Pause => self.world.pause(host),
            ProcessChange::Resume => self.world.resume(host),
            ProcessChange::Leave => self.leave(host),
        }
    }

    fn leave(&mut self, host: usize) {
        let now = self.world.now();
        let leaving = &mut self.world.hosts[host];
        if leaving.status != Status::Up {
            return;
        }
        let local = leaving.clock.local(now);
        let node = leaving.node.as_mut();
        if let Some(instance) = node.and_then(|node| node.instance_mut(CHANNEL)) {
            instance.leave(local);
            self.world.drain(host);
        }
        self.meter().stopped(host);
    }
}
