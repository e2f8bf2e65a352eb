//! The orders of a daemon, and the state that the engine keeps for each of them.
//!
//! A client may be in groups of several orders. Clients, their connections and their rights belong
//! to the engine; all other state is here, once for each order.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use groupcast_core::{ConfigId, Configuration, MemberId};

use super::Carrier;
use super::ahead::Ahead;
use super::exchange::Phase;
use super::fact::PhaseName;
use super::filters::Filters;
use super::roster::Roster;
use super::route::Routing;
use super::spread::{Spread, Work};
use super::steps::Step;
use super::submit::Submissions;
use super::table::Table;
use crate::guests::Guests;

/// The index of one of a daemon's orders: 0 is its own order, 1 its first further ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct OrderIndex(usize);

impl OrderIndex {
    /// The daemon's own order, of all groups that no further ring carries.
    pub(super) const OWN: Self = Self(0);

    /// The order with this index.
    pub(super) fn at(number: usize) -> Self {
        Self(number)
    }

    /// The index of the further ring; `None` for the daemon's own order.
    pub(super) fn ring(self) -> Option<usize> {
        self.0.checked_sub(1)
    }

    /// The carrier of its messages.
    pub(super) fn carrier(self) -> Carrier {
        self.ring().map_or(Carrier::Order, Carrier::Ring)
    }
}

/// One value for each order. There is at least one order, the daemon's own.
#[derive(Debug)]
pub(super) struct PerOrder<T>(Vec<T>);

impl<T> PerOrder<T> {
    /// Makes one value for each of `count` orders.
    pub(super) fn new(count: usize, make: impl FnMut() -> T) -> Self {
        Self(std::iter::repeat_with(make).take(count).collect())
    }

    /// Adds values made by `make` until there are `count`.
    pub(super) fn grow(&mut self, count: usize, make: impl FnMut() -> T) {
        let missing = count.saturating_sub(self.0.len());
        self.0.extend(std::iter::repeat_with(make).take(missing));
    }

    /// The indices of all orders.
    pub(super) fn indices(&self) -> impl DoubleEndedIterator<Item = OrderIndex> + use<T> {
        (0..self.0.len()).map(OrderIndex)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<OrderIndex> for PerOrder<T> {
    type Output = T;

    fn index(&self, index: OrderIndex) -> &T {
        &self.0[index.0]
    }
}

impl<T> IndexMut<OrderIndex> for PerOrder<T> {
    fn index_mut(&mut self, index: OrderIndex) -> &mut T {
        &mut self.0[index.0]
    }
}

/// One order: the groups that its daemons have agreed on, the exchange in which they agree again,
/// and the messages that go into it from here.
#[derive(Debug)]
pub(super) struct Order {
    /// This daemon, as a member of the order.
    pub(super) local: MemberId,
    pub(super) phase: Phase,
    /// The last regular configuration.
    pub(super) current: Option<Configuration>,
    /// The agreed groups, as of the last message that was delivered to subscribers.
    pub(super) table: Table,
    /// Messages that came before their sender or their groups were known.
    pub(super) ahead: Ahead,
    pub(super) submissions: Submissions,
    pub(super) routing: Routing,
    pub(super) guests: Guests,
    /// Claims to roles by clients of this daemon that are submitted and not carried out yet.
    pub(super) claims_on_their_way: usize,
    /// While messages held in interrupted exchanges are carried out: the new states decide about
    /// roles, these messages do not.
    pub(super) defers_roles: bool,
    /// The configuration has ended for this daemon, and not all of its daemons came along: those
    /// that did not may find other messages, and so another holder of a role, at the same place.
    pub(super) is_split: bool,
    pub(super) filters: Filters,
    /// A message that not all of its recipients here have got yet.
    pub(super) spread: Option<Spread>,
    /// What a change of the configuration brings, and was not carried out yet.
    pub(super) steps: VecDeque<Step>,
    pub(super) work: Work,
}

impl Order {
    pub(super) fn new(local: MemberId) -> Self {
        Self {
            local,
            phase: Phase::Starting,
            current: None,
            table: Table::new(local),
            ahead: Ahead::default(),
            submissions: Submissions::default(),
            routing: Routing::default(),
            guests: Guests::new(local),
            claims_on_their_way: 0,
            defers_roles: false,
            is_split: false,
            filters: Filters::default(),
            spread: None,
            steps: VecDeque::new(),
            work: Work::default(),
        }
    }

    /// This daemon's part of the agreed groups, if it has one.
    pub(super) fn own_roster(&self) -> Option<&Roster> {
        self.table.roster(self.local)
    }

    /// Whether this turn has no time for more of its messages. What is left is done in the next
    /// one.
    pub(super) fn is_behind(&self) -> bool {
        self.has_begun() || self.work.is_spent()
    }

    /// Whether something was begun that is done in a later turn.
    pub(super) fn has_begun(&self) -> bool {
        self.spread.is_some() || !self.steps.is_empty()
    }

    /// Whether this turn has no time for another step.
    pub(super) fn has_no_time(&self) -> bool {
        self.spread.is_some() || self.work.is_spent()
    }

    /// Whether all states are installed, and all that follows from that is done.
    pub(super) fn is_steady(&self) -> bool {
        matches!(self.phase, Phase::Steady) && self.steps.is_empty()
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    pub(super) fn stop(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// Whether the ring has refused this daemon's state; true until the daemon joins the ring anew.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.phase, Phase::Refused)
    }

    pub(super) fn phase_name(&self) -> PhaseName {
        match self.phase {
            Phase::Starting => PhaseName::Starting,
            Phase::Exchanging(_) => PhaseName::Exchanging,
            Phase::Steady => PhaseName::Steady,
            Phase::Stopped | Phase::Refused => PhaseName::Stopped,
        }
    }

    pub(super) fn config(&self) -> Option<ConfigId> {
        self.current.as_ref().map(|config| config.id)
    }

    /// Daemons whose state is known, with their names.
    pub(super) fn daemons(&self) -> Vec<(MemberId, Arc<str>)> {
        let rosters = self.table.rosters();
        let named = rosters.map(|(daemon, roster)| (daemon, roster.host.clone()));
        named.collect()
    }

    pub(super) fn held_bytes(&self) -> usize {
        match &self.phase {
            Phase::Exchanging(exchange) => exchange.bytes(),
            _ => 0,
        }
    }
}
