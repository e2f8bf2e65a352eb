//! Whom a sender serves: it announces, receivers register, and it waits before the first byte for those whom the transfer
//! names or counts, or for whoever is there.

use alloc::vec::Vec;

use groupcast_core::{Incarnation, MemberId};

use super::super::config::{BulkConfig, NakRule, Policy, Repair};
use super::super::outbox::Context;
use super::super::receiver::Life;
use super::super::transfer::{Notice, Outcome, PhaseKind, Wanted};
use super::super::wire::{Announce, Finish, Message, Report};
use super::{Peer, Sender, Timer};

impl Sender {
    pub(super) fn has_room(&self, config: &BulkConfig) -> bool {
        self.peers.len() + self.settled.len() < config.receivers_max
    }

    pub(super) fn handle_register(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &Report,
    ) {
        let former = self
            .peers
            .keys()
            .find(|peer| peer.node == from.node && peer.incarnation != from.incarnation);
        if let Some(former) = former.copied() {
            // A node has one life at a time: the one before is over.
            self.settle(context, former, Outcome::Vanished);
        }
        self.look_for_loss(context, from, report);
        if self.settled.contains_key(&from) {
            return;
        }
        let late = self.phase != PhaseKind::Announcing;
        let stamp = self.stream.last_stamp();
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.read(context.now, report, stamp);
            if late && self.order.contains(&from) {
                // It has missed that the pass has begun.
                self.send_roster(context);
            }
            return;
        }
        // 001 section 3: a ring needs more buffers than receivers.
        let ring_is_full = context.config.policy == Policy::Ring
            && self.peers.len() + 1 >= context.config.window as usize;
        if ring_is_full || !self.has_room(context.config) {
            let full = Finish::Cancelled("the sender takes no more receivers".into());
            context
                .outbox
                .unicast(from, self.id.number, &Message::Finish(full));
            return;
        }
        let mut peer = Peer::new(context.now);
        peer.read(context.now, report, stamp);
        self.peers.insert(from, peer);
        context.notify(Notice::Registered {
            id: self.id,
            receiver: from,
            name: report.name.clone(),
        });
        if late && !self.transfer.rewindable {
            self.drop_receiver(context, from, Outcome::Late);
            return;
        }
        let packets = self.stream.packets();
        let known = self.stream.length.is_some();
        if let Some(peer) = self.peers.get_mut(&from) {
            let told = peer.read_needs(report, packets, known);
            if !late {
                self.told = if self.peers.len() == 1 {
                    told
                } else {
                    self.told.min(told)
                };
            }
        }
        let open = matches!(self.transfer.receivers, Wanted::Open | Wanted::Present);
        if !late && open && self.peers.len() == 1 {
            self.timers
                .set(Timer::Begin, context.now + context.config.census);
        }
    }

    pub(super) fn announce(&mut self, context: &mut Context<'_>) {
        let config = context.config;
        let announcing = self.phase == PhaseKind::Announcing;
        if !announcing && !self.transfer.rewindable {
            return;
        }
        let multicast_naks = match config.nak {
            NakRule::Unicast => None,
            NakRule::Multicast { delay_max } => Some((delay_max.as_micros() as u64).max(1)),
        };
        let announce = Announce {
            policy: config.policy,
            go_back: config.repair == Repair::GoBackN,
            meet: multicast_naks.is_some() || matches!(config.policy, Policy::Tree { .. }),
            confirm: self.transfer.confirm,
            packet: config.packet as u32,
            block: config.block.unwrap_or(0),
            length: self.transfer.length,
            nak_delay_us: multicast_naks,
            about: self.transfer.about.clone(),
        };
        context
            .outbox
            .multicast(self.id.number, &Message::Announce(announce));
        let times = if announcing { 1 } else { 4 };
        let again = context.now + config.announce_interval * times;
        self.timers.set(Timer::Announce, again);
    }

    /// Whether everybody that is wanted is there.
    pub(super) fn is_complete(&self, context: &Context<'_>) -> bool {
        match &self.transfer.receivers {
            Wanted::Count(count) => self.peers.len() >= *count,
            Wanted::Members(nodes) => nodes.iter().all(|node| {
                let known = self.peers.keys().chain(self.settled.keys());
                known.into_iter().any(|member| member.node == *node)
            }),
            Wanted::Open => false,
            Wanted::Present => self.counted && !self.is_anybody_silent(context),
        }
    }

    /// Whether somebody who is known has not answered yet.
    fn is_anybody_silent(&self, context: &Context<'_>) -> bool {
        let answered =
            |member| self.peers.contains_key(member) || self.settled.contains_key(member);
        !context.others.known().all(answered)
    }

    /// The time to register is over: begins, unless somebody is to be waited for who is known, or nobody ever was.
    pub(super) fn begin_with_present(&mut self, context: &mut Context<'_>) -> Life {
        let config = context.config;
        self.counted = !self.peers.is_empty() || !self.settled.is_empty();
        let until = if self.is_anybody_silent(context) {
            Some(self.announced + config.vanish_after)
        } else if self.counted {
            None
        } else {
            context.others.lonely_until(config.register_within)
        };
        let waits = until.filter(|until| *until > context.now);
        if waits.is_none() && until.is_some() {
            context.others.forget_silent(self.announced);
        }
        match waits {
            Some(until) => {
                self.timers.set(Timer::Begin, until);
                Life::Goes
            }
            None => self.begin(context),
        }
    }

    /// The user does not want to wait any longer.
    pub(in crate::bulk) fn begin(&mut self, context: &mut Context<'_>) -> Life {
        if self.phase != PhaseKind::Announcing {
            return Life::Goes;
        }
        if let Wanted::Members(nodes) = &self.transfer.receivers {
            let here = |node: &_| {
                let mut known = self.peers.keys().chain(self.settled.keys());
                known.any(|member| member.node == *node)
            };
            let absent: Vec<_> = nodes.iter().filter(|node| !here(node)).copied().collect();
            for node in absent {
                let incarnation = Incarnation(0);
                self.settle(context, MemberId { node, incarnation }, Outcome::Absent);
            }
        }
        self.timers.cancel(Timer::Begin);
        self.begin_pass(context);
        self.advance(context)
    }
}
