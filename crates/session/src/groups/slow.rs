//! Clients that take their messages too slowly: the rule for each, its limits, and the warning that
//! comes before.

use std::time::Duration;

use groupcast_core::Time;

use super::access::names;
use super::client::{Client, ClientLink};
use super::{ClientId, Engine, EngineConfig, Fact};
use crate::frame::{BEHIND, DaemonFrame};
use crate::when_slow::WhenSlow;

/// The shortest time between two warnings of a client.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// The policy for the slow members of some groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowRule {
    /// Names of groups. One that ends in `*` means all names that begin with the rest; one that
    /// begins with `*.` means all names below the rest.
    pub groups: Vec<String>,
    /// The daemon's policy for a member of them that is slow.
    pub policy: WhenSlow,
}

/// All rules of a daemon. If several name a group, the least patient one holds. A group that no
/// rule names blocks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SlowRules(pub Vec<SlowRule>);

impl SlowRules {
    fn of(&self, group: &str) -> WhenSlow {
        let rules = self.0.iter().filter(|rule| names(&rule.groups, group));
        rules.map(|rule| rule.policy).max().unwrap_or_default()
    }
}

/// The limits of a client's output; each is checked before more is added.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowLimits {
    /// From here on publishers wait for it, if anybody does; of the groups that block alone.
    pub(super) block_at: Option<usize>,
    /// From here on it goes to a disk, if there it goes.
    pub(super) spill_at: Option<usize>,
    /// What is on a disk does not count: it has a limit of its own.
    pub(super) in_memory: bool,
    /// From here on it misses unreliable messages.
    pub(super) drop_at: usize,
    /// From this many bytes on it is disconnected.
    pub(super) disconnect_at: usize,
    /// From this many bytes on it is warned: half of what costs it messages or the connection.
    /// Held-back publishers are no reason for a warning: this is how fast publishers are slowed to
    /// its pace.
    pub(super) warn_at: usize,
}

impl SlowLimits {
    pub(super) fn of(config: &EngineConfig, policy: WhenSlow) -> Self {
        let (stop, drop, end) = (
            config.stop_publishers_at,
            config.drop_unreliable_at,
            config.disconnect_at,
        );
        let (drop_at, disconnect_at) = match policy {
            WhenSlow::Block | WhenSlow::Spill => (drop, end),
            WhenSlow::Drop => (stop, end),
            WhenSlow::Disconnect => (drop, drop.min(end)),
        };
        let only = |of: WhenSlow| (policy == of).then_some(stop);
        Self {
            block_at: only(WhenSlow::Block),
            spill_at: only(WhenSlow::Spill),
            in_memory: policy <= WhenSlow::Spill,
            drop_at,
            disconnect_at,
            warn_at: drop_at.min(disconnect_at) / 2,
        }
    }
}

impl Engine {
    /// Replaces the rules for slow clients. If they differ from before, all publishers are
    /// released: one that must still wait is held back again with its next message to the slow
    /// client.
    pub fn set_slow_rules(&mut self, rules: SlowRules) {
        if self.slow_rules == rules {
            return;
        }
        self.slow_rules = rules;
        self.routes_changed();
        for id in self.schedule.congestion.slow() {
            self.relieve(id);
        }
    }

    /// The policy for a client as a member of `group`: a client may ask for less patience than the
    /// group's rule gives, not for more.
    pub(super) fn when_slow(&self, id: ClientId, group: &str) -> WhenSlow {
        self.when_slow_by(id, self.slow_rule(group))
    }

    /// The rule for all slow members of `group`.
    pub(super) fn slow_rule(&self, group: &str) -> WhenSlow {
        self.slow_rules.of(group)
    }

    /// The policy for a client as a member of groups with this rule.
    pub(super) fn when_slow_by(&self, id: ClientId, rule: WhenSlow) -> WhenSlow {
        let own = self.clients.get(id).map(|client| client.when_slow);
        self.possible(rule.max(own.unwrap_or_default()))
    }

    /// Without a disk publishers wait.
    pub(super) fn possible(&self, policy: WhenSlow) -> WhenSlow {
        match policy {
            WhenSlow::Spill if !self.spills => WhenSlow::Block,
            policy => policy,
        }
    }

    /// The limits for output that is for a client alone. No publisher waits for it: the client has
    /// asked for it, and whoever answers must not be stopped by it.
    pub(super) fn limits_of_own(&self, id: ClientId) -> SlowLimits {
        let own = self.clients.get(id).map(|client| client.when_slow);
        SlowLimits {
            block_at: None,
            ..SlowLimits::of(&self.config, self.possible(own.unwrap_or_default()))
        }
    }

    /// A message or a request of `publisher`, a client of this daemon, came to the client `id`, for
    /// which it may have to wait.
    pub(super) fn fed(&mut self, id: ClientId, publisher: ClientId) {
        if self.schedule.congestion.fed(id, publisher)
            && let Some(client) = self.clients.get(id)
            && let Some(link) = &client.link
        {
            let (client, backlog) = (client.private.clone(), link.output.backlog());
            self.journal.fact(Fact::HeldBack { client, backlog });
        }
    }

    /// A client chooses its policy. It never gets more patience than it asked for before: otherwise
    /// a client that changes to and fro would begin anew as a slow client each time, with new time
    /// to take its messages.
    pub(super) fn handle_when_slow(&mut self, id: ClientId, policy: WhenSlow) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if policy > client.when_slow {
            client.when_slow = policy;
            self.routes_changed();
            self.relieve(id);
        }
    }

    /// Warns a client that it is slow, unless it was warned within [`WARNING_INTERVAL`].
    pub(super) fn warn_slow(&mut self, now: Time, id: ClientId, limits: SlowLimits) {
        let Some(link) = self.clients.link_mut(id) else {
            return;
        };
        if link.warned_at.is_some_and(|at| now < at + WARNING_INTERVAL) {
            return;
        }
        link.warned_at = Some(now);
        self.tell_behind(id, limits);
    }

    /// Tells a client that has caught up how many messages it missed, unless it knows.
    pub(super) fn report_dropped(&mut self, id: ClientId) {
        let limits = SlowLimits::of(&self.config, WhenSlow::Drop);
        let Some(Client { dropped, link, .. }) = self.clients.get_mut(id) else {
            return;
        };
        let caught_up = |link: &ClientLink| {
            link.dropped_told < *dropped && link.output.backlog() <= limits.warn_at
        };
        if link.as_ref().is_some_and(caught_up) {
            self.tell_behind(id, limits);
        }
    }

    fn tell_behind(&mut self, id: ClientId, limits: SlowLimits) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Client {
            features,
            dropped,
            link,
            ..
        } = client;
        let Some(link) = link else {
            return;
        };
        link.dropped_told = *dropped;
        if *features & BEHIND == 0 {
            return;
        }
        let limit = limits.disconnect_at as u64;
        let frame = DaemonFrame::Behind {
            waiting: link.output.backlog() as u64,
            limit: link.output.spill_size().unwrap_or(limit),
            dropped: *dropped,
        };
        self.send(id, &frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_patient_rule_that_names_a_group_holds() {
        let rule = |group: &str, policy| SlowRule {
            groups: vec![group.into()],
            policy,
        };
        let rules = SlowRules(vec![
            rule("ticks/*", WhenSlow::Drop),
            rule("ticks/eu", WhenSlow::Disconnect),
            rule("ticks/*", WhenSlow::Block),
        ]);
        for (group, expected) in [
            ("ticks/eu", WhenSlow::Disconnect),
            ("ticks/us", WhenSlow::Drop),
            ("tick", WhenSlow::Block),
        ] {
            assert_eq!(rules.of(group), expected, "{group}");
        }
    }

    #[test]
    fn less_patience_never_lets_more_wait() {
        let config = EngineConfig::default();
        let [block, spill, drop, disconnect] =
            WhenSlow::ALL.map(|policy| SlowLimits::of(&config, policy));
        assert!(spill.block_at.is_none() && spill.spill_at == block.block_at);
        assert!(drop.drop_at < block.drop_at && drop.block_at.is_none());
        assert!(disconnect.disconnect_at < block.disconnect_at && disconnect.block_at.is_none());
    }
}
