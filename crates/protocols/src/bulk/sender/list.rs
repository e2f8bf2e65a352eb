//! The transfer list (003 5.4): who is served, by names and by subgroups, read and written while a
//! transfer runs.
//!
//! Every packet and request says which subgroups it is for. So a change rides in whatever is sent
//! next, and nothing is sent for its sake. A receiver that it excludes is settled at once, and
//! nobody waits for it: it finds out by that packet, by its next word to the sender, or by the end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use groupcast_core::{MemberId, NodeId};

use super::super::config::Policy;
use super::super::context::Context;
use super::super::transfer::{ListEntry, ListError, Listed, Outcome, Transfer, Wanted};
use super::super::wire::{DATA_HEADER, Message, ReceiverReport, VECTOR};
use super::{Sender, State};
use crate::xgm::Subgroups;

/// Who is served, beside what the transfer says of subgroups.
#[derive(Debug)]
pub(super) struct TransferList {
    /// The receivers that the application has named, and their subgroups as it knows them: no
    /// others are served. `None`: those that register.
    named: Option<BTreeMap<NodeId, Subgroups>>,
    /// Whether every packet and request carries the subgroup vector (policy `list`).
    rides: bool,
    /// Who was served, and is not any more.
    excluded: BTreeSet<MemberId>,
}

impl TransferList {
    /// The list of a transfer; in it, whom it waits for becomes those on the list that match.
    pub(super) fn of(transfer: &mut Transfer, policy: Policy) -> Self {
        let named = match &transfer.receivers {
            Wanted::Listed(listed) => Some(by_node(listed)),
            _ => None,
        };
        if let Some(named) = &named {
            transfer.receivers = Wanted::Members(matching(named, transfer.subgroups));
        }
        Self {
            named,
            rides: matches!(policy, Policy::List(_)),
            excluded: BTreeSet::new(),
        }
    }

    /// Whether the application has named who is served.
    pub(super) fn is_named(&self) -> bool {
        self.named.is_some()
    }
}

fn by_node(listed: &[Listed]) -> BTreeMap<NodeId, Subgroups> {
    let entries = listed.iter();
    entries.map(|it| (it.node, it.subgroups)).collect()
}

/// The nodes that are in any of these subgroups.
fn matching(named: &BTreeMap<NodeId, Subgroups>, subgroups: Subgroups) -> Vec<NodeId> {
    let matches = named.iter().filter(|(_, own)| subgroups.matches(**own));
    matches.map(|(node, _)| *node).collect()
}

impl Sender {
    /// The subgroups that it is for; `None`: for all, and nobody need say in which it is.
    pub(super) fn vector(&self) -> Option<Subgroups> {
        let subgroups = self.transfer.subgroups;
        let is_for_some = subgroups != Subgroups::ALL;
        (is_for_some || self.list.rides).then_some(subgroups)
    }

    /// The vector that packets and requests carry.
    pub(super) fn riding_vector(&self) -> Option<Subgroups> {
        self.list.rides.then_some(self.transfer.subgroups)
    }

    /// Bytes of a data packet before its part of the stream.
    pub(super) fn header_len(&self) -> usize {
        match self.list.rides {
            true => DATA_HEADER + VECTOR,
            false => DATA_HEADER,
        }
    }

    /// Whether it is for a receiver that says it is in these.
    pub(super) fn is_for(&self, node: NodeId, said: Option<Subgroups>) -> bool {
        let matches = |vector: Subgroups| said.is_some_and(|said| said.matches(vector));
        let is_named = |named: &BTreeMap<NodeId, Subgroups>| named.contains_key(&node);
        self.vector().is_none_or(matches) && self.list.named.as_ref().is_none_or(is_named)
    }

    /// Whether a receiver was served and is not any more.
    pub(super) fn is_excluded(&self, receiver: MemberId) -> bool {
        self.list.excluded.contains(&receiver)
    }

    /// From now on it is for these subgroups (003 5.4, `G_Subgroup` of a transmit context).
    pub(in crate::bulk) fn change_subgroups(
        &mut self,
        context: &mut Context<'_>,
        subgroups: Subgroups,
    ) -> Result<(), ListError> {
        if !self.list.rides {
            return Err(ListError::NoList);
        }
        if subgroups.is_empty() {
            return Err(ListError::Nobody);
        }
        self.transfer.subgroups = subgroups;
        self.exclude_others(context);
        Ok(())
    }

    /// The list as it is now, by subgroups (003 5.4, `G_Members`).
    pub(in crate::bulk) fn read_list(&self) -> Vec<ListEntry> {
        let peers = self.peers.iter().map(|(member, peer)| ListEntry {
            node: member.node,
            member: Some(*member),
            subgroups: peer.subgroups,
        });
        let is_here = |node: &NodeId| self.peers.keys().any(|member| member.node == *node);
        let named = self.list.named.iter().flatten();
        let absent = named.filter(|(node, _)| !is_here(node));
        let absent = absent.map(|(node, subgroups)| ListEntry {
            node: *node,
            member: None,
            subgroups: Some(*subgroups),
        });
        let mut list: Vec<ListEntry> = peers.chain(absent).collect();
        list.sort_by_key(|entry| (entry.subgroups, entry.node));
        list
    }

    /// From now on these are served and no others. Without a list, the rules are those of the
    /// Multidriver (003 5.4).
    pub(in crate::bulk) fn write_list(
        &mut self,
        context: &mut Context<'_>,
        listed: Option<&[Listed]>,
    ) -> Result<(), ListError> {
        if !matches!(context.config.policy, Policy::List(_)) {
            return Err(ListError::NoList);
        }
        self.list.rides = listed.is_some();
        self.list.named = listed.map(by_node);
        self.exclude_others(context);
        Ok(())
    }

    /// Settles those that it is not for any more.
    fn exclude_others(&mut self, context: &mut Context<'_>) {
        let is_new = matches!(self.state, State::Announcing(_));
        if let Some(named) = self.list.named.as_ref().filter(|_| is_new) {
            let wanted = matching(named, self.transfer.subgroups);
            self.transfer.receivers = Wanted::Members(wanted);
        }
        let peers = self.peers.iter();
        let others = peers.filter(|(member, peer)| !self.is_for(member.node, peer.subgroups));
        let others: Vec<MemberId> = others.map(|(member, _)| *member).collect();
        for receiver in others {
            self.exclude(context, receiver);
        }
        self.require_listed();
        self.advance(context);
    }

    fn exclude(&mut self, context: &mut Context<'_>, receiver: MemberId) {
        self.list.excluded.insert(receiver);
        context.counters.excluded += 1;
        self.settle(context, receiver, Outcome::Excluded);
    }

    /// A receiver says in which subgroups it is; whether it is served still.
    pub(super) fn follow_subgroups(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) -> bool {
        let Some(said) = report.subgroups else {
            return true;
        };
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.subgroups = Some(said);
        }
        let is_served = self.is_for(from.node, Some(said));
        if !is_served {
            self.exclude(context, from);
        }
        is_served
    }

    /// Whether a message is a reply that finds no response context: then it is not read.
    pub(super) fn finds_no_context(&self, context: &Context<'_>, message: &Message) -> bool {
        let is_reply = matches!(message, Message::Report(report) if report.tag.is_some());
        is_reply && self.list.rides && !context.responses.has_room()
    }
}
