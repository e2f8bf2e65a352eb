//! The source's methods of an entity (003 4.5.2: `connection_monitor`, `checkpoint`,
//! `release_monitor`), and its handling of the words of members.

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Time};

use super::entity::Xgm;
use super::monitor::{Effects, Monitor, Word};
use super::wire::{Message, PLACES_MAX, Report, Told};
use super::{Account, Membership, MonitorError, NAME_MAX, WatchFrom, XgmEvent};

/// The most connections that are monitored at once.
const MONITORS_MAX: usize = 64;

impl Xgm {
    /// Monitors the connection that this host's transport calls `number`: keeps its members and how
    /// far each has come, and judges from [`begin_monitor`](Self::begin_monitor) on whether
    /// `membership` holds (003: `connection_monitor`).
    ///
    /// # Errors
    /// If too many connections are monitored, or this one is already.
    pub fn monitor(
        &mut self,
        now: Time,
        number: u32,
        membership: Membership,
    ) -> Result<(), MonitorError> {
        if self.monitors.contains_key(&number) {
            return Err(MonitorError::Monitored);
        }
        if self.monitors.len() >= MONITORS_MAX {
            // A connection that is over waits for checkpoints alone: it makes room.
            let mut ended = self.monitors.iter().filter(|(_, it)| it.has_ended());
            let oldest = ended.next().map(|(number, _)| *number);
            self.release_monitor(oldest.ok_or(MonitorError::TooManyConnections)?);
        }
        let monitor = Monitor::new(number, membership, now);
        self.monitors.insert(number, monitor);
        Ok(())
    }

    /// Watches `member`, which the transport has counted in and which calls itself `name`.
    ///
    /// # Errors
    /// If `number` is not monitored, no member may drop in any more, or
    /// [`XgmConfig::hosts_max`](super::XgmConfig::hosts_max) members are watched.
    pub fn watch(
        &mut self,
        number: u32,
        member: MemberId,
        name: &[u8],
        from: WatchFrom,
    ) -> Result<(), MonitorError> {
        let monitor = self.monitors.get_mut(&number);
        let monitor = monitor.ok_or(MonitorError::Unknown)?;
        if !monitor.watches(member) {
            if let Some(error) = monitor.refuses(&self.config) {
                return Err(error);
            }
            let name = &name[..name.len().min(NAME_MAX)];
            let mut effects = Effects::default();
            let name = Bytes::copy_from_slice(name);
            monitor.watch(member, name, from, &mut effects);
            self.take_effects(effects);
        }
        Ok(())
    }

    /// The connection has begun: from now on its required membership has to hold.
    pub fn begin_monitor(&mut self, number: u32) {
        self.with_monitor(number, Monitor::begin);
    }

    /// Asks which members have the stream below `place` (003: `checkpoint`).
    /// [`XgmEvent::Checkpoint`] brings the account when no member is open any more. Up to 16
    /// checkpoints may be open at once.
    ///
    /// # Errors
    /// If `number` is not monitored, or too many checkpoints are open.
    pub fn checkpoint(&mut self, now: Time, number: u32, place: u64) -> Result<(), MonitorError> {
        let config = self.config;
        let monitor = self.monitors.get_mut(&number);
        let monitor = monitor.ok_or(MonitorError::Unknown)?;
        if monitor.checkpoints() >= PLACES_MAX {
            return Err(MonitorError::TooManyCheckpoints);
        }
        monitor.set_checkpoint(now, place, &config);
        self.with_monitor(number, Monitor::tell_settled);
        Ok(())
    }

    /// The account of `place` as of now: which members have the stream below it.
    pub fn account(&self, number: u32, place: u64) -> Option<Account> {
        let monitor = self.monitors.get(&number)?;
        Some(monitor.account(place))
    }

    /// The connection is over, and its membership need not hold any more. The monitor is released
    /// when the last of its checkpoints is settled: at once, or when the open members have said how
    /// they stand or have fallen silent.
    pub fn end_monitor(&mut self, number: u32) {
        self.with_monitor(number, Monitor::end);
        self.release_settled();
    }

    /// Whether the checkpoint at `place` still waits for a member.
    pub fn is_open(&self, number: u32, place: u64) -> bool {
        let monitor = self.monitors.get(&number);
        monitor.is_some_and(|monitor| monitor.is_open(place))
    }

    fn release_settled(&mut self) {
        self.monitors
            .retain(|_, monitor| !monitor.has_ended() || monitor.checkpoints() > 0);
    }

    /// Forgets the connection (003: `release_monitor`). The accounts of open checkpoints are told
    /// first, with open members as unknown.
    pub fn release_monitor(&mut self, number: u32) {
        self.with_monitor(number, Monitor::close);
        self.monitors.remove(&number);
    }

    /// Plants `bug` in this entity.
    #[cfg(test)]
    pub(crate) fn plant(&mut self, bug: super::planted::Planted) {
        self.config.planted = Some(bug);
    }

    fn with_monitor(&mut self, number: u32, act: impl FnOnce(&mut Monitor, &mut Effects)) {
        let mut effects = Effects::default();
        if let Some(monitor) = self.monitors.get_mut(&number) {
            act(monitor, &mut effects);
        }
        self.take_effects(effects);
    }

    fn take_effects(&mut self, effects: Effects) {
        for (to, ask) in effects.asks {
            let to = to.map_or(Destination::Group, Destination::Member);
            // The number of watched members bounds these.
            self.outbox.push_back((to, Message::Ask(ask).encode()));
        }
        let plants = self.config.plants();
        for mut event in effects.events {
            if let XgmEvent::Checkpoint(account) = &mut event {
                plants.settled(account);
            }
            // The source has asked for these: they are told, whatever else waits. Each member goes
            // only once.
            self.events.push_back(event);
        }
    }

    pub(super) fn handle_report(&mut self, from: MemberId, report: &Report) {
        let word = Word {
            round: 0,
            standing: report.standing,
            subgroups: report.subgroups,
            progress: report.progress,
        };
        self.hear(from, report.number, word, &report.name);
    }

    pub(super) fn handle_told(&mut self, from: MemberId, told: &Told) {
        let word = Word {
            round: told.round,
            standing: told.standing,
            subgroups: told.subgroups,
            progress: told.progress,
        };
        self.hear(from, told.number, word, &Bytes::new());
    }

    fn hear(&mut self, from: MemberId, number: u32, mut word: Word, name: &Bytes) {
        self.config.plants().word_heard(&mut word);
        let Some(monitor) = self.monitors.get_mut(&number) else {
            self.counters.stale += 1;
            return;
        };
        if !monitor.watches(from) {
            // The transport decides whether it is a member.
            monitor.hear_early(from, word, &self.config);
            let name = name.clone();
            return self.tell(XgmEvent::Heard {
                number,
                member: from,
                name,
            });
        }
        let mut effects = Effects::default();
        let is_new = monitor.hear(from, word, &mut effects);
        self.counters.stale += u64::from(!is_new);
        self.take_effects(effects);
        self.release_settled();
    }

    /// Sends the asks that are due, in all connections.
    pub(super) fn step_monitors(&mut self, now: Time) {
        let config = self.config;
        let mut effects = Effects::default();
        for monitor in self.monitors.values_mut() {
            monitor.step(now, &config, &mut effects);
        }
        self.take_effects(effects);
        self.release_settled();
    }
}
