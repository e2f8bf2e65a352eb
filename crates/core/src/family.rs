//! Families: protocols by name, for all who let a name choose the protocol.
//!
//! A protocol describes itself once, as a [`Family`]. The swarm, the fuzz targets, the conformance
//! tests and scenarios know of a protocol only what stands there.

mod config;
mod order;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

pub use self::config::{FamilySettings, GroupConfig, MemberConfig, Members, PresetName};
pub use self::order::{DaemonPresets, OrderConfig, OrderFamily, OrderLimits};
use crate::contract::Contract;
use crate::id::MemberId;
use crate::instrument::Instrumented;
use crate::rng::Rng;
use crate::service::Service;
use crate::time::Time;
use crate::trace::Inspect;
use crate::transmit::SocketClass;

/// A protocol that carries the messages of a group.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name on command lines and in configurations; also the name of its module in the crate of
    /// protocols.
    pub name: &'static str,
    /// The services that it carries; `submit` refuses all others.
    pub services: &'static [Service],
    /// The service of a message for which none is asked.
    pub service: Service,
    /// What its histories are judged by.
    pub contract: Contract,
    /// How a member is made, at least one way.
    pub variants: &'static [Variant],
    /// What files can set. `None`: members are always as [`build`](Self::build) makes them.
    pub settings: Option<FamilySettings>,
    /// Reads its datagrams from outside.
    pub inspect: Inspect,
    /// How the swarm tries it.
    pub trial: Trial,
}

/// One way to make a member of a family: a policy, with the settings that tests use.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name; empty if the family has one variant only.
    pub name: &'static str,
    /// Makes a member.
    pub build: Build,
}

/// Makes a member that begins at the time.
pub type Build = fn(MemberId, Rng, Time) -> Box<dyn Instrumented>;

/// Makes the members of one group, all with the same settings.
pub type Factory = Arc<dyn Fn(MemberId, Rng, Time) -> Box<dyn Instrumented> + Send + Sync>;

/// How the swarm tries a family: what it asks for, and which settings it draws.
#[derive(Clone, Copy)]
pub struct Trial {
    /// How many messages are submitted while there are faults.
    pub messages: usize,
    /// The most faults; in a storm twice as many.
    pub faults_max: usize,
    /// The most by which the copies of a datagram are late at random, where the network reorders.
    pub jitter_max: Duration,
    /// The share of scenarios that are long: what only many lives and long pauses bring about.
    pub long: f64,
    /// The longest message in bytes.
    pub len_max: usize,
    /// Their services, each as often as the others. `None`: all of them, the ordered ones most
    /// often.
    pub services: Option<&'static [Service]>,
    /// Within which time there must be progress after everything healed.
    pub progress_within: Duration,
    /// The same for the settings that `vary` draws, where they make it sooner.
    pub settings_progress_within: Option<fn(Rng, &Situation) -> Duration>,
    /// How long the group then has to come to rest.
    pub rest: Duration,
    /// In which share of the scenarios one fault lasts for more than a minute, which the family
    /// lives with: those whom it does not touch go on delivering to each other.
    pub lasting: f64,
    /// In which share of the scenarios some hosts have no multicast, though the others have it.
    pub without_multicast: f64,
    /// In which share of the scenarios nothing goes wrong but what the network does: for settings
    /// that do not keep the contract through more.
    pub calm: f64,
    /// Moments of the protocol at which the swarm lets faults begin.
    pub moments: &'static [Moment],
    /// Draws the settings of a scenario. The generator is the scenario's, forked by the family's
    /// name.
    pub vary: fn(Rng, &Situation) -> Factory,
    /// Measures ([`Instrumented::measure`]) that stay zero at every member, as long as all keep the
    /// rules: what one member counts as the fault of another.
    pub zeros: &'static [&'static str],
    /// The bugs that can be planted, by name: rules that a build for tests can break on purpose.
    /// The swarm finds each within 2,000 seeds.
    pub plants: &'static [&'static str],
    /// Further ones, which show in few seeds.
    pub rare_plants: &'static [&'static str],
}

impl Trial {
    /// Settings from `vary`; 500 messages of up to 100,000 bytes and every service; up to 6 faults
    /// and 1 ms of jitter; no long scenarios; progress within 30 s, 1 s of rest; no lasting fault,
    /// no hosts without multicast among others, no calm scenarios, no moments, no measures that
    /// stay zero, no bugs to plant.
    pub const fn new(vary: fn(Rng, &Situation) -> Factory) -> Self {
        Self {
            messages: 500,
            faults_max: 6,
            jitter_max: Duration::from_millis(1),
            long: 0.0,
            len_max: 100_000,
            services: None,
            progress_within: Duration::from_secs(30),
            settings_progress_within: None,
            rest: Duration::from_secs(1),
            lasting: 0.0,
            without_multicast: 0.0,
            calm: 0.0,
            moments: &[],
            vary,
            zeros: &[],
            plants: &[],
            rare_plants: &[],
        }
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("messages", &self.messages)
            .field("len_max", &self.len_max)
            .field("services", &self.services)
            .field("progress_within", &self.progress_within)
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

/// A moment of a protocol that shows in a datagram: a step at which a fault may find a gap.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Its name, in the protocol's words.
    pub name: &'static str,
    /// Whether a datagram (its class, and the protocol's own bytes, in clear) shows it.
    pub shows: fn(SocketClass, &[u8]) -> bool,
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What settings may depend on, of a scenario of the swarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Situation {
    /// What the scenario follows from.
    pub seed: u64,
    /// How many hosts the group has.
    pub hosts: usize,
    /// Whether nothing goes wrong but what the network does.
    pub calm: bool,
    /// The planted bug, one of [`Trial::plants`] or [`Trial::rare_plants`].
    pub plant: Option<&'static str>,
}

impl Family {
    /// The member that tests use, of the first variant.
    pub fn build(&self, local: MemberId, rng: Rng, now: Time) -> Box<dyn Instrumented> {
        (self.variants[0].build)(local, rng, now)
    }

    /// Draws the settings of a scenario.
    pub fn vary(&self, situation: &Situation) -> Factory {
        (self.trial.vary)(Rng::new(situation.seed).fork(self.name), situation)
    }

    /// Within which time there is progress after everything healed, with the settings that
    /// [`vary`](Self::vary) draws.
    pub fn progress_within(&self, situation: &Situation) -> Duration {
        let rng = Rng::new(situation.seed).fork(self.name);
        let drawn = self.trial.settings_progress_within;
        drawn.map_or(self.trial.progress_within, |of| of(rng, situation))
    }

    /// The bug that can be planted under this name.
    pub fn plant(&self, name: &str) -> Option<&'static str> {
        let Trial {
            plants,
            rare_plants,
            ..
        } = self.trial;
        let mut all = plants.iter().chain(rare_plants).copied();
        all.find(|plant| *plant == name)
    }

    /// Whether it carries `service`.
    pub fn carries(&self, service: Service) -> bool {
        service.is_among(self.services)
    }
}
