//! Looking at a cluster, and judging what happened in it.

use groupcast_check::Violation;
use groupcast_core::node::NodeCounters;
use groupcast_core::trace::Observation;
use groupcast_core::{
    Configuration, ConfigurationKind, Delivery, Gap, Instrumented, MemberId, MessageId, Node,
};

use super::Cluster;
use crate::host::{HostLoad, Status};
use crate::world::{CHANNEL, RecordedTransition};

impl<P: Instrumented> Cluster<P> {
    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.world.hosts.len()
    }

    /// What `host` is doing.
    pub fn status(&self, host: usize) -> Status {
        self.world.hosts[host].status
    }

    /// Whether a process exists on `host`, stopped or not.
    pub fn is_alive(&self, host: usize) -> bool {
        self.world.hosts[host].is_alive()
    }

    /// The hosts with a process, stopped or not.
    pub fn alive(&self) -> impl Iterator<Item = usize> {
        (0..self.hosts()).filter(|host| self.is_alive(*host))
    }

    /// The process of `host`, if there ever was one.
    pub fn member(&self, host: usize) -> Option<MemberId> {
        self.world.hosts[host].member()
    }

    /// What the process of `host` delivered.
    pub fn deliveries(&self, host: usize) -> &[Delivery] {
        &self.world.hosts[host].seen.deliveries
    }

    /// Whether the process of `host` delivered the message.
    pub fn has_delivered(&self, host: usize, id: MessageId) -> bool {
        self.world.hosts[host].seen.delivered.contains(&id)
    }

    /// What the process of `host` reported as lost.
    pub fn gaps(&self, host: usize) -> &[Gap] {
        &self.world.hosts[host].seen.gaps
    }

    /// Whether the process of `host` delivered the message or reported it as lost.
    pub fn has_accounted_for(&self, host: usize, id: MessageId) -> bool {
        let is_lost =
            |gap: &Gap| gap.sender == id.sender && (gap.first..=gap.last).contains(&id.number);
        self.has_delivered(host, id) || self.gaps(host).iter().any(is_lost)
    }

    /// Whether the process of `host` has begun with the sender's messages behind this one: it met
    /// the sender only after that had sent it.
    pub fn begins_behind(&self, host: usize, id: MessageId) -> bool {
        let sender = id.sender;
        let first = MessageId { sender, number: 0 };
        let mut delivered = self.world.hosts[host].seen.delivered.range(first..);
        let delivered = delivered.next().filter(|it| it.sender == sender);
        let reported = self.gaps(host).iter().filter(|it| it.sender == sender);
        let numbers = delivered
            .map(|it| it.number)
            .into_iter()
            .chain(reported.map(|it| it.first));
        numbers.min().is_some_and(|first| first > id.number)
    }

    /// The configurations that the process of `host` installed, transitional ones too.
    pub fn configurations(&self, host: usize) -> &[Configuration] {
        &self.world.hosts[host].seen.configurations
    }

    /// The configuration that the process of `host` is in.
    pub fn current_configuration(&self, host: usize) -> Option<&Configuration> {
        self.configurations(host).last()
    }

    /// Whether all living processes are in one regular configuration that has exactly them as
    /// members.
    pub fn all_in_one_configuration(&self) -> bool {
        let mut alive = self.alive();
        let Some(first) = alive
            .next()
            .and_then(|host| self.current_configuration(host))
        else {
            return false;
        };
        let expected = self.alive().filter_map(|host| self.member(host));
        first.kind == ConfigurationKind::Regular
            && first.members.iter().copied().eq(expected)
            && alive.all(|host| {
                self.current_configuration(host)
                    .is_some_and(|other| other.kind == first.kind && other.id == first.id)
            })
    }

    /// Whether the process of `host` was told that its name is in use.
    pub fn name_in_use(&self, host: usize) -> bool {
        self.world.hosts[host].seen.name_in_use
    }

    /// The protocol instance of the process of `host`, if there ever was one.
    pub fn protocol(&self, host: usize) -> Option<&P> {
        self.node(host).and_then(|node| node.instance(CHANNEL))
    }

    /// The node of the process of `host`, if there ever was one.
    pub fn node(&self, host: usize) -> Option<&Node<P>> {
        self.world.hosts[host].node.as_ref()
    }

    /// What the node of `host` counted; zeros if there never was one.
    pub fn counters(&self, host: usize) -> NodeCounters {
        self.node(host).map(Node::counters).unwrap_or_default()
    }

    /// Datagrams that `host` dropped at a full receive buffer.
    pub fn overflowed(&self, host: usize) -> u64 {
        let load = self.load(host);
        load.data.dropped + load.token.dropped
    }

    /// How much of its processor and buffers `host` has used.
    pub fn load(&self, host: usize) -> HostLoad {
        self.world.hosts[host].load()
    }

    /// All transitions of all protocol instances, in the order in which they happened.
    pub fn transitions(&self) -> &[RecordedTransition] {
        &self.world.transitions
    }

    /// All observations of all members, in the order in which they were made.
    pub fn observations(&self) -> Vec<(MemberId, Observation)> {
        self.world.record.borrow().log().to_vec()
    }

    /// How many events have happened in the world: the measure of its cost.
    pub fn events(&self) -> u64 {
        self.world.events()
    }

    // Judging.

    /// The promises that the histories so far break. `complete`: nothing is in flight and no member
    /// has work left, so every living member must have delivered all that it should. `together`:
    /// messages that all living members must have delivered, in one configuration that has exactly
    /// them as members; `None` asks for neither.
    pub fn violations(&self, complete: bool, together: Option<&[MessageId]>) -> Vec<Violation> {
        self.world.violations(complete, together)
    }

    /// Judges what happened so far: safety alone, so at any moment.
    ///
    /// # Panics
    /// If a promise was broken.
    #[track_caller]
    pub fn check(&self) {
        self.judge(&self.violations(false, None));
    }

    /// Judges a run that came to rest: all living members are in one configuration and have nothing
    /// left to deliver.
    ///
    /// # Panics
    /// If a promise was broken.
    #[track_caller]
    pub fn check_at_rest(&self) {
        self.judge(&self.violations(true, Some(&[])));
    }

    #[track_caller]
    fn judge(&self, violations: &[Violation]) {
        if !violations.is_empty() {
            let list: String = violations.iter().map(|it| format!("\n  {it}")).collect();
            self.fail(&format!("{} promises broken:{list}", violations.len()));
        }
    }

    /// A hash of every datagram, every handling and every observation so far, with their times.
    pub fn trace_hash(&self) -> u64 {
        self.world.hash()
    }
}
