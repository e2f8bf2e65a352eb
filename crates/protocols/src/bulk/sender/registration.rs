//! Registration: the sender announces the transfer, receivers register, and the first pass begins
//! when those that the transfer names or counts, or all that are there, have registered.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Incarnation, MemberId, NodeId};

use super::super::config::{BulkConfig, NakRule, Policy, Repair};
use super::super::context::Context;
use super::super::transfer::{Awaited, Notice, Outcome, Wanted};
use super::super::wire::{Announce, Finish, Message, ReceiverReport, Refusal};
use super::returns::Returns;
use super::{Peer, Sender, State, Timer};

/// This many times less often it is announced once it has begun.
pub(in crate::bulk) const AFTERWARDS: u32 = 4;

impl Sender {
    pub(super) fn has_room(&self, config: &BulkConfig) -> bool {
        // Of a set that has a limit no more are served: those that are, and those that were.
        let served = self.settled.values().filter(|complete| **complete).count();
        if let Wanted::Between { max, .. } = self.transfer.receivers
            && self.peers.len() + served >= max
        {
            return false;
        }
        self.peers.len() + self.settled.len() < config.receivers_max
    }

    pub(super) fn handle_register(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if self.is_of_unsent(report) {
            context.counters.junk += 1;
            return;
        }
        self.replace_former(context, from);
        self.look_for_loss(context, from, report);
        if self.settled.contains_key(&from) {
            return;
        }
        let late = !matches!(self.state, State::Announcing(_));
        let stamp = self.stream.last_stamp();
        let is_served = self.roster().contains(&from);
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.read(context.now, report, stamp);
            // If an earlier pass has listed it, it has not heard so.
            peer.is_listed = is_served;
            if is_served {
                // It has missed that the pass has begun.
                self.tell_place(context, from);
            } else {
                self.remind_of_place(context, from, report);
            }
            return;
        }
        // 001 section 3: a ring needs more buffers than receivers.
        let ring_is_full = context.config.policy == Policy::Ring
            && self.peers.len() + 1 >= context.config.window as usize;
        if ring_is_full || !self.has_room(context.config) {
            let full = Message::Finish(Finish::Full);
            context.outbox.unicast(from, self.id.number, &full);
            return;
        }
        if !self.is_for(from.node, report.subgroups) {
            // It is not named, or has left these subgroups since it has heard of the transfer.
            let excluded = Message::Finish(Finish::Excluded);
            context.outbox.unicast(from, self.id.number, &excluded);
            return;
        }
        let misses = late && !self.is_open() && !self.transfer.rewindable;
        if misses && !self.is_known(from.node) {
            // Nobody has waited for it, so it is none of the receivers.
            let dropped = Message::Finish(Finish::Dropped);
            context.outbox.unicast(from, self.id.number, &dropped);
            self.note_late(context, from, report.name.clone());
            return;
        }
        let mut peer = Peer::new(context.now);
        peer.returned = self.first_return();
        peer.subgroups = report.subgroups;
        peer.read(context.now, report, stamp);
        self.peers.insert(from, peer);
        self.note_name(from, &report.name);
        context.notify(Notice::Registered {
            id: self.id,
            receiver: from,
            name: report.name.clone(),
            subgroups: report.subgroups,
        });
        if late && self.is_open() {
            return self.let_join(context, from, report);
        }
        if misses {
            self.drop_receiver(context, from, Outcome::Late);
            return;
        }
        let packets = self.stream.packets();
        let known = self.stream.length.is_some();
        let alone = self.peers.len() == 1;
        if let Some(peer) = self.peers.get_mut(&from) {
            let listed_below = peer.read_needs(report, packets, known);
            if let State::Announcing(announcing) = &mut self.state {
                announcing.listed_below = if alone {
                    listed_below
                } else {
                    announcing.listed_below.min(listed_below)
                };
            }
        }
        let open = matches!(self.transfer.receivers, Wanted::Open | Wanted::Present);
        if !late && open && alone {
            self.timers
                .set(Timer::Begin, context.now + context.config.present_within);
        }
    }

    /// A receiver does not take part. It has answered all the same: the others are waited for no
    /// longer than after a registration.
    pub(super) fn handle_refusal(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        Refusal { reason, name }: Refusal,
    ) {
        self.settle_named(context, from, Outcome::Refused(reason), name);
        let is_first = self.peers.is_empty() && self.settled.len() == 1;
        let announcing = matches!(self.state, State::Announcing(_));
        if announcing && is_first && self.transfer.receivers == Wanted::Open {
            self.timers
                .set(Timer::Begin, context.now + context.config.present_within);
        }
    }

    pub(super) fn announce(&mut self, context: &mut Context<'_>) {
        let config = context.config;
        let announcing = matches!(self.state, State::Announcing(_));
        if !announcing && !self.transfer.rewindable && !self.is_open() {
            return self.keep_alive(context);
        }
        let multicast_naks = match config.nak {
            NakRule::Unicast => None,
            NakRule::Multicast { delay_max } => Some((delay_max.as_micros() as u64).max(1)),
        };
        let announce = Announce {
            policy: self.policy,
            set_size: match config.policy.rounds() {
                Some(_) => self.set_size,
                None => 0,
            },
            returns: self.returns.as_ref().map(Returns::credit),
            deliver_to: self.transfer.deliver_to,
            go_back: config.repair == Repair::GoBackN,
            meet: multicast_naks.is_some() || matches!(config.policy, Policy::Tree { .. }),
            confirm: self.transfer.confirm,
            rewindable: self.transfer.rewindable,
            messages: self.stream.has_messages().then_some(self.opening),
            packet: config.packet as u32,
            block: self.block.unwrap_or(0),
            length: self.transfer.length,
            nak_delay_us: multicast_naks,
            named: self.list.is_named() && !self.is_unanswered(),
            subgroups: self.vector(),
            about: self.transfer.about.clone(),
        };
        context
            .outbox
            .multicast(self.id.number, &Message::Announce(announce));
        let times = if announcing { 1 } else { AFTERWARDS };
        let again = context.now + config.announce_interval * times;
        self.timers.set(Timer::Announce, again);
    }

    /// Begins the first pass if all receivers that the transfer waits for have registered; whether
    /// it did.
    pub(super) fn begin_if_all_registered(&mut self, context: &mut Context<'_>) -> bool {
        let complete = self.have_all_registered(context) && !self.may_former_answer(None);
        if complete {
            self.timers.cancel(Timer::Begin);
            if !self.ends_broken(context) {
                self.begin_pass(context, "all have registered");
            }
        }
        complete
    }

    fn have_all_registered(&self, context: &Context<'_>) -> bool {
        match &self.transfer.receivers {
            Wanted::Count(count) => self.have_come() >= *count,
            Wanted::Members(nodes) => nodes.iter().all(|node| self.has_answered(*node)),
            Wanted::Listed(listed) => listed.iter().all(|it| self.has_answered(it.node)),
            Wanted::Between { min, max } => {
                // A receiver that refuses does not come again: of a set of `max` all have answered
                // then.
                let refused = self.settled.keys().map(|member| member.node);
                let refused: BTreeSet<NodeId> = refused.collect();
                self.peers.len() >= *min && self.peers.len() + refused.len() >= *max
            }
            Wanted::Open => false,
            Wanted::Present => {
                let present_over = matches!(&self.state, State::Announcing(it) if it.present_over);
                present_over && !self.is_any_silent(context)
            }
        }
    }

    /// How many receivers have come, those behind others included. One that refuses has answered,
    /// and does not come again; receivers of one name are as many as there are.
    pub(in crate::bulk) fn have_come(&self) -> usize {
        let known = self.peers.keys().chain(self.settled.keys());
        let known: BTreeMap<NodeId, usize> = known
            .map(|member| (member.node, self.stands_for_count(member)))
            .collect();
        let named: BTreeSet<NodeId> = self.same_name.iter().map(|member| member.node).collect();
        known.values().sum::<usize>() + self.same_name.len() - named.len()
    }

    /// For whom it waits; `None` once it has begun.
    pub(in crate::bulk) fn waits_for(&self, config: &BulkConfig) -> Option<Awaited> {
        let State::Announcing(announcing) = &self.state else {
            return None;
        };
        let here = self.have_come();
        let is_missing = |node: &NodeId| !self.has_answered(*node);
        let named: Vec<NodeId> = match &self.transfer.receivers {
            Wanted::Members(nodes) => nodes.iter().copied().filter(is_missing).collect(),
            Wanted::Listed(listed) => {
                let nodes = listed.iter().map(|it| it.node);
                nodes.filter(is_missing).collect()
            }
            _ => Vec::new(),
        };
        let missing = match &self.transfer.receivers {
            Wanted::Count(count) => count.saturating_sub(here),
            Wanted::Between { max, .. } => max.saturating_sub(here),
            _ => named.len(),
        };
        Some(Awaited {
            here,
            named,
            missing,
            until: announcing.since + config.register_within,
        })
    }

    /// A receiver came too late for this stream: it says so, or registers after the start.
    pub(in crate::bulk) fn note_late(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        name: Bytes,
    ) {
        let is_one = self.peers.contains_key(&from) || self.settled.contains_key(&from);
        let is_late = !self.transfer.rewindable && !is_one && self.is_for(from.node, None);
        if is_late && self.late.len() < context.config.receivers_max && self.late.insert(from) {
            context.notify(Notice::CameLate {
                id: self.id,
                receiver: from,
                name,
            });
        }
    }

    fn has_answered(&self, node: NodeId) -> bool {
        let mut known = self.peers.keys().chain(self.settled.keys());
        known.any(|member| member.node == node) || self.is_behind(node)
    }

    /// Whether it has answered, in this life or in a former one.
    fn is_known(&self, node: NodeId) -> bool {
        self.has_answered(node) || self.former.keys().any(|member| member.node == node)
    }

    /// Whether a member that is known has not answered the announcement yet.
    fn is_any_silent(&self, context: &Context<'_>) -> bool {
        let answered =
            |member| self.peers.contains_key(member) || self.settled.contains_key(member);
        !context.known.members().all(answered)
    }

    /// The time to register is over: begins, unless a member that is known has not answered, or
    /// this endpoint has never heard any other.
    pub(super) fn begin_with_present(&mut self, context: &mut Context<'_>) {
        let config = context.config;
        let present_over = !self.peers.is_empty() || !self.settled.is_empty();
        let is_any_silent = self.is_any_silent(context);
        let State::Announcing(announcing) = &mut self.state else {
            debug_assert!(false, "the timer is cancelled when the first pass begins");
            return;
        };
        announcing.present_over = present_over;
        let since = announcing.since;
        let until = if is_any_silent {
            Some(since + config.vanish_after)
        } else if present_over {
            None
        } else {
            context.known.wait_for_first(config.register_within)
        };
        let waits = until.filter(|until| *until > context.now);
        if waits.is_none() && until.is_some() {
            context.known.forget_silent(since);
        }
        match waits {
            Some(until) => self.timers.set(Timer::Begin, until),
            None => self.begin(context),
        }
    }

    /// Begins with the receivers that have registered: the time to register is over, or the user
    /// says so.
    pub(in crate::bulk) fn begin(&mut self, context: &mut Context<'_>) {
        if self.is_unanswered() {
            return self.begin_unanswered(context);
        }
        if !matches!(self.state, State::Announcing(_)) {
            return;
        }
        if let Wanted::Members(nodes) = &self.transfer.receivers {
            let nodes = nodes.iter().copied();
            let absent: Vec<_> = nodes.filter(|node| !self.has_answered(*node)).collect();
            for node in absent {
                let incarnation = Incarnation(0);
                self.settle(context, MemberId { node, incarnation }, Outcome::Absent);
            }
        }
        self.timers.cancel(Timer::Begin);
        if self.gives_up_too_few(context) {
            return;
        }
        if !self.ends_broken(context) {
            self.begin_pass(context, "time is up");
            self.advance(context);
        }
    }
}
