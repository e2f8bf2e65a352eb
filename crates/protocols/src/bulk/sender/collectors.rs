//! Collectors at the sender (003 3.3.3): who collects in a pass, what they hand on, and who takes
//! the place of one that is dead.
//!
//! The first receivers of the roster collect; receiver k tells collector k modulo their number.
//! Which that is it learns with the roster: it has joined then. A collector that is given up, or
//! that says nothing from one time-out to the next, though every receiver is asked then, is
//! replaced: by the receiver that was heard last, or where nobody is left, by the sender itself.

use alloc::vec::Vec;

use groupcast_core::{MemberId, Time};

use super::super::config::{self, Policy};
use super::super::context::Context;
use super::super::wire::{CollectorList, Composite, Message};
use super::Sender;

/// Who collects in a pass; nobody under other policies, and for few receivers.
#[derive(Debug, Default)]
pub(super) struct CollectorSet {
    list: CollectorList,
    /// When each was heard last.
    heard: Vec<Time>,
    /// When the sender last asked every receiver because nothing had moved.
    asked: Option<Time>,
}

impl CollectorSet {
    /// The first receivers of a roster, if the policy says so and there are more than those.
    pub(super) fn of(policy: Policy, roster: &[MemberId], now: Time) -> Self {
        let Policy::Collectors(config::Collectors { count, .. }) = policy else {
            return Self::default();
        };
        let count = count as usize;
        if roster.len() <= count {
            return Self::default();
        }
        Self {
            list: CollectorList {
                version: 0,
                members: roster[..count].to_vec(),
            },
            heard: Vec::from_iter(core::iter::repeat_n(now, count)),
            asked: None,
        }
    }

    /// As the roster tells it.
    pub(super) fn list(&self) -> Option<&CollectorList> {
        (!self.list.members.is_empty()).then_some(&self.list)
    }

    /// Whether anybody was replaced.
    pub(super) fn has_changed(&self) -> bool {
        self.list.version > 0
    }

    /// The place of a collector.
    fn slot_of(&self, member: MemberId) -> Option<usize> {
        self.list.members.iter().position(|it| *it == member)
    }
}

impl Sender {
    fn collectors_mut(&mut self) -> Option<&mut CollectorSet> {
        let pass = self.state.pass_mut()?;
        (!pass.collectors.list.members.is_empty()).then_some(&mut pass.collectors)
    }

    /// A member was heard: if it collects, it is not dead.
    pub(super) fn note_collector(&mut self, now: Time, from: MemberId) {
        if let Some(set) = self.collectors_mut()
            && let Some(slot) = set.slot_of(from)
        {
            set.heard[slot] = now;
        }
    }

    /// A collector hands on what its receivers have said: each row counts as if its receiver had
    /// said it here.
    pub(super) fn handle_composite(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        composite: &Composite,
    ) {
        let pass = self.pass_number();
        let set = self.state.pass().map(|pass| &pass.collectors);
        let slot = set.and_then(|set| Some((set.slot_of(from)?, set.list.members.len())));
        let Some((slot, count)) = slot.filter(|_| composite.pass == pass) else {
            // It was replaced, or the pass is over.
            return;
        };
        for row in &composite.rows {
            let index = usize::from(row.index);
            let of_its = index % count == slot;
            let Some(receiver) = self.roster().get(index).copied().filter(|_| of_its) else {
                context.counters.junk += 1;
                continue;
            };
            self.handle(context, receiver, Message::Report(row.report.clone()));
            if self.is_over() || self.pass_number() != pass {
                return;
            }
        }
    }

    /// Nothing has moved for too long, and all receivers are asked: collectors that were asked
    /// before and have said nothing since are dead.
    pub(super) fn replace_silent_collectors(&mut self, context: &mut Context<'_>) {
        let Some(set) = self.collectors_mut() else {
            return;
        };
        let Some(asked) = set.asked.replace(context.now) else {
            return;
        };
        let members = set.list.members.iter().zip(&set.heard);
        let silent = members.filter(|(_, heard)| **heard < asked);
        let silent: Vec<MemberId> = silent.map(|(member, _)| *member).collect();
        for member in silent {
            self.replace_collector(context, member);
        }
    }

    /// A collector is gone: another takes its place, and all receivers are told.
    pub(super) fn replace_collector(&mut self, context: &mut Context<'_>, gone: MemberId) {
        let own = context.local;
        let Some(set) = self.collectors_mut().filter(|_| gone != own) else {
            return;
        };
        let Some(slot) = set.slot_of(gone) else {
            return;
        };
        let members = set.list.members.clone();
        let free = self.roster().iter().filter(|it| !members.contains(it));
        let free = free.filter_map(|it| Some((self.peers.get(it)?.heard, *it)));
        let next = free.max_by_key(|(heard, _)| *heard);
        let next = next.map_or(own, |(_, member)| member);
        self.believe_dead(context, slot, members.len());
        let now = context.now;
        if let Some(set) = self.collectors_mut() {
            set.list.version = set.list.version.saturating_add(1);
            set.list.members[slot] = next;
            set.heard[slot] = now;
        }
        self.send_roster(context);
    }

    /// A bug, if it is planted: what a dead collector has not said of its receivers is believed.
    fn believe_dead(&mut self, context: &mut Context<'_>, slot: usize, count: usize) {
        let Policy::Collectors(rule) = context.config.policy else {
            return;
        };
        if !rule.believes_dead() {
            return;
        }
        let (top, stamp) = (self.stream.top(), self.stream.last_stamp());
        let its: Vec<MemberId> = self
            .roster()
            .iter()
            .skip(slot)
            .step_by(count)
            .copied()
            .collect();
        for receiver in its {
            if let Some(peer) = self.peers.get_mut(&receiver) {
                peer.has(top, stamp);
            }
        }
    }
}
