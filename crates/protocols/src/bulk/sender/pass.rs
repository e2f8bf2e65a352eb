//! Passes: once over what their receivers need, from the roster to the last packet that all of them have.

use super::super::config::BulkConfig;
use super::super::outbox::Context;
use super::super::ranges::RangeSet;
use super::super::transfer::{Notice, PhaseKind};
use super::super::wire::{Message, Start};
use super::{Peer, Sender};

impl Sender {
    /// Whether the pass is over: then it takes the next step.
    pub(super) fn release_or_end_pass(&mut self, context: &mut Context<'_>) -> bool {
        let end = self.stream.pass_end();
        let lowest = self.gating().map(|peer| peer.next).min();
        if let Some(base) = lowest.filter(|base| *base < end) {
            if base > self.base {
                self.base = base;
                self.stream.release(base);
                let size = self.block.map_or(1, u64::from);
                self.parities.release(base - base % size);
            }
            return false;
        }
        self.stream.release(u64::MAX >> 4);
        if self.peers.values().any(|peer| self.misses(peer)) {
            self.begin_pass(context);
        } else {
            self.set_phase(PhaseKind::Concluding);
            self.ask_after(context);
        }
        true
    }

    pub(super) fn misses(&self, peer: &Peer) -> bool {
        peer.next < self.stream.packets()
    }

    /// The receivers that move the window.
    pub(super) fn gating(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(|peer| peer.gates)
    }

    /// A pass begins for everybody that misses something: they are told, in an order that stays.
    pub(super) fn begin_pass(&mut self, context: &mut Context<'_>) {
        let packets = self.stream.packets();
        self.pass = self.pass.saturating_add(1);
        let first = self.pass == 1;
        self.order.clear();
        for (member, peer) in &mut self.peers {
            peer.gates = false;
            if first || peer.next < packets {
                peer.begin_pass(context.now);
                self.order.push(*member);
            }
        }
        if !first {
            self.told = packets;
        }
        self.set_phase(PhaseKind::Starting);
        if self.order.is_empty() {
            return;
        }
        if first {
            context.notify(Notice::Started {
                id: self.id,
                receivers: self.order.len(),
            });
        }
        self.send_roster(context);
        if self.asks_to_be_ready(context.config) {
            self.ask_after(context);
        } else {
            for peer in self.peers.values_mut() {
                peer.ready = true;
            }
        }
    }

    /// 001 section 4: receivers say that they have room before the first data. In later passes they say what they need.
    pub(super) fn asks_to_be_ready(&self, config: &BulkConfig) -> bool {
        config.reserve || self.pass > 1
    }

    /// Tells the receivers of a pass who they are: pages that overlap by two, so that everybody finds its neighbours.
    pub(super) fn send_roster(&self, context: &mut Context<'_>) {
        const PAGE: usize = BulkConfig::CONTROL_MAX / 16 - 2;
        let mut first = 0;
        loop {
            let end = (first + PAGE).min(self.order.len());
            let start = Start {
                pass: self.pass,
                answer: self.asks_to_be_ready(context.config) && self.phase == PhaseKind::Starting,
                receivers: self.order.len() as u16,
                first: first as u16,
                members: self.order[first..end].to_vec(),
            };
            context
                .outbox
                .multicast(self.id.number, &Message::Start(start));
            if end == self.order.len() {
                return;
            }
            first = end - 2;
        }
    }

    pub(super) fn begin_sending(&mut self) {
        let mut needed = RangeSet::default();
        let packets = self.stream.packets();
        for member in &self.order {
            if let Some(peer) = self.peers.get(member) {
                for gap in peer.needs.iter() {
                    needed.insert(gap);
                }
            }
        }
        // What somebody could not tell for want of room is for the next pass.
        needed.remove(self.told..u64::MAX);
        if needed.is_empty() && packets > 0 {
            needed.insert(0..1);
        }
        self.base = needed.next_from(0).map_or(0, |range| range.start);
        self.stream.begin(needed);
        self.parities.clear();
        self.set_phase(PhaseKind::Sending);
    }
}
