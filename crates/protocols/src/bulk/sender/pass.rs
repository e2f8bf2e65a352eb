//! Passes: once over what their receivers need, from the roster to the last packet that all of them
//! have.

use alloc::boxed::Box;
use alloc::vec::Vec;

use groupcast_core::settings::Span;
use groupcast_core::{Destination, MemberId, Time};

use super::super::config::{BulkConfig, Policy};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber};
use super::super::ranges::RangeSet;
use super::super::transfer::{Notice, Outcome};
use super::buckets::Buckets;
use super::collectors::CollectorSet;
use super::flow::SILENT_ASKED;
use super::gate::Gate;
use super::repair::Parities;
use super::rounds::Rounds;
use super::state::{Concluding, Pass, Sending, Starting, State};
use super::windows::Windows;
use super::{Peer, Sender};

impl Sender {
    /// Releases what all receivers of the pass have, and ends the pass if that is all of it;
    /// whether it ended.
    pub(super) fn release_or_end_pass(&mut self, context: &mut Context<'_>) -> bool {
        self.close_whole_round(context);
        let end = self.stream.pass_end();
        let released = match self.is_unanswered() {
            true => Some(self.stream.top()),
            false => self
                .sending()
                .and_then(|sending| sending.gate.released(self.gating())),
        };
        debug_assert!(
            self.is_unanswered() || released.is_none_or(|base| base.min(end) <= self.reported),
            "what is released, some receiver has said that it has"
        );
        if let Some(base) = released.filter(|base| *base < end) {
            self.release(base);
            self.tell_all_have(context);
            return false;
        }
        let was_unknown = self.buckets().is_some();
        self.stream.release(PacketNumber::END);
        self.tell_all_have(context);
        if was_unknown {
            self.ask_what_became(context, "the buckets agree");
            return true;
        }
        if !self.begin_pass_if_missed(context) {
            self.transition(context, "all have the pass", |before| {
                let (pass, backoff) = (before.into_pass(), 0);
                let polled = None;
                State::Concluding(Concluding {
                    pass,
                    polled,
                    backoff,
                })
            });
            self.call_back(context);
            self.ask_after(context);
        }
        true
    }

    /// Nobody answers in this pass any more: those that have come since are for the next one.
    pub(super) fn leave_pass(&mut self, context: &mut Context<'_>) {
        self.stream.release(PacketNumber::END);
        self.ask_what_became(context, "nobody answers in this pass");
    }

    /// The buckets say that all has come, or nothing. What became of each receiver that has
    /// registered only it can say.
    fn ask_what_became(&mut self, context: &mut Context<'_>, cause: &'static str) {
        self.transition(context, cause, |before| {
            let (pass, backoff) = (before.into_pass(), 0);
            let polled = None;
            State::Concluding(Concluding {
                pass,
                polled,
                backoff,
            })
        });
        for peer in self.peers.values_mut() {
            // It was not asked by name before.
            peer.heard = context.now;
        }
        self.poll(context);
        let stamp = self.stream.last_stamp();
        if let State::Concluding(concluding) = &mut self.state {
            concluding.polled = Some(stamp);
        }
        self.ask_after(context);
    }

    /// Every receiver that is waited for has all packets below `base`.
    pub(super) fn release(&mut self, base: PacketNumber) {
        let State::Sending(sending) = &mut self.state else {
            debug_assert!(false, "packets are released while they are sent");
            return;
        };
        if base > sending.base {
            sending.base = base;
            self.stream.release(base);
            let size = self.block.map_or(1, u64::from);
            sending.parities.release(base.block_start(size));
        }
    }

    /// Begins another pass if a receiver misses something; whether it did.
    pub(super) fn begin_pass_if_missed(&mut self, context: &mut Context<'_>) -> bool {
        let packets = self.stream.packets();
        if let State::Concluding(Concluding {
            polled: Some(stamp),
            ..
        }) = self.state
        {
            if self.peers.values().any(|peer| peer.seen < stamp) {
                return false;
            }
            if !self.transfer.rewindable {
                return self.drop_outrun(context, packets);
            }
        }
        let returns = self.returns.is_some();
        let mut peers = self.peers.values();
        let misses = peers.any(|peer| peer.wants_pass(packets, returns));
        if misses {
            self.begin_pass(context, "a receiver misses data");
        }
        misses
    }

    /// What was released cannot be sent again: who misses it is told; whether anybody was.
    fn drop_outrun(&mut self, context: &mut Context<'_>, packets: PacketNumber) -> bool {
        let misses = |(member, peer): (&MemberId, &Peer)| (peer.next < packets).then_some(*member);
        let outrun: Vec<MemberId> = self.peers.iter().filter_map(misses).collect();
        for receiver in &outrun {
            // A receiver that has never heard its place has come too late.
            let has_begun = self
                .peers
                .get(receiver)
                .is_none_or(|peer| !peer.is_joining());
            let outcome = match has_begun {
                true => Outcome::Outrun,
                false => Outcome::Late,
            };
            self.drop_receiver(context, *receiver, outcome);
        }
        !outrun.is_empty()
    }

    /// The receivers that move the window.
    pub(super) fn gating(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(|peer| peer.gates)
    }

    /// A pass begins for the receivers that miss something: they are told, in an order that stays.
    pub(super) fn begin_pass(&mut self, context: &mut Context<'_>, cause: &'static str) {
        let packets = self.stream.packets();
        let number = self.pass_number().next();
        let first = number == PassNumber::FIRST;
        let listed_below = match &self.state {
            State::Announcing(announcing) => announcing.listed_below,
            _ => packets,
        };
        let returns = self.returns.is_some();
        let mut roster = Vec::new();
        for (member, peer) in &mut self.peers {
            peer.gates = false;
            if first || peer.wants_pass(packets, returns) {
                peer.begin_pass(context.now, number);
                roster.push(*member);
            }
        }
        let receivers = roster.len();
        let collectors = CollectorSet::of(context.config.policy, &roster, context.now);
        let pass = Pass {
            number,
            roster,
            collectors,
        };
        let since = context.now;
        self.transition(context, cause, |_| {
            State::Starting(Starting {
                pass,
                listed_below,
                since,
                asked: 0,
                backoff: 0,
            })
        });
        self.call_back(context);
        if receivers == 0 {
            return;
        }
        if first {
            self.require_roster();
            let id = self.id;
            context.notify(Notice::Started { id, receivers });
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

    /// 001 section 4: receivers say that they have room before the first data. In later passes they
    /// say what they need.
    pub(super) fn asks_to_be_ready(&self, config: &BulkConfig) -> bool {
        config.reserve || self.pass_number() > PassNumber::FIRST
    }

    /// Begins to send when all receivers of the pass are ready; whether they are.
    pub(super) fn send_if_all_are_ready(&mut self, context: &mut Context<'_>) -> bool {
        let ready = self.gating().all(|peer| peer.ready);
        let first = self.pass_number() == PassNumber::FIRST;
        if ready && first && self.refuses_marks(context) {
            return false;
        }
        if ready {
            self.begin_sending(context);
        }
        ready
    }

    /// Gives up the receivers that have not said for too long what they need, though they were
    /// asked several times: the others do not wait for them.
    pub(super) fn give_up_unready(&mut self, context: &mut Context<'_>) {
        let State::Starting(starting) = &mut self.state else {
            return;
        };
        starting.asked += 1;
        // A receiver that was called back, and loses much, takes longer to hear of it than others.
        let limit = 2 * context.config.vanish_after;
        if starting.asked <= SILENT_ASKED || context.now - starting.since < limit {
            return;
        }
        let is_unready = |peer: &Peer| peer.gates && !peer.ready;
        let peers = self.peers.iter().filter(|(_, peer)| is_unready(peer));
        let unready: Vec<(MemberId, Time)> =
            peers.map(|(member, peer)| (*member, peer.heard)).collect();
        let now = context.now;
        let reason = alloc::format!(
            "it is heard, but has not said for {} what it needs",
            Span(limit)
        );
        for (member, heard) in unready {
            let is_silent = now - heard >= context.config.vanish_after;
            let outcome = match is_silent {
                true => Outcome::Vanished,
                false => Outcome::Failed(reason.clone()),
            };
            self.drop_receiver(context, member, outcome);
        }
    }

    fn begin_sending(&mut self, context: &mut Context<'_>) {
        let State::Starting(starting) = &self.state else {
            debug_assert!(false, "a pass is started before it is sent");
            return;
        };
        let mut needed = RangeSet::default();
        let packets = self.stream.packets();
        // The pass serves its roster, and who has joined since.
        let listed = starting.pass.roster.iter();
        let listed = listed.filter_map(|member| self.peers.get(member));
        let joining = self.peers.values().filter(|peer| peer.joining.is_some());
        for gap in listed.chain(joining).flat_map(|peer| peer.needs.iter()) {
            needed.insert(gap);
        }
        // What a receiver could not list for want of room is for the next pass.
        needed.remove(starting.listed_below..PacketNumber::MAX);
        if needed.is_empty() && packets > PacketNumber::ZERO {
            needed.insert(PacketNumber::ZERO..PacketNumber::ZERO + 1);
        }
        let replaced = self.blocks_as_parity(&starting.pass.roster, &needed, starting.listed_below);
        for first in replaced.keys() {
            // Parity is made of the whole block.
            needed.insert(*first..self.stream.block_end(*first));
        }
        let first = needed.next_from(PacketNumber::ZERO);
        let base = first.map_or(PacketNumber::ZERO, |range| range.start);
        self.stream.begin(needed);
        self.stream.replace(replaced.keys().copied());
        let gate = match self.policy {
            // A later pass is for receivers that have said what they miss.
            Policy::Xtp(rule) if self.pass_number() == PassNumber::FIRST => {
                let room = self.gating().map(|peer| peer.limit).min();
                let room = room.unwrap_or(PacketNumber::MAX);
                let held = self.gating().map(|peer| peer.next).min();
                Gate::Buckets(Buckets::new(rule, held.unwrap_or(base), room))
            }
            Policy::Multidriver(rule) | Policy::List(rule) => {
                let room = self.gating().map(|peer| peer.limit).min();
                let held = self.gating().map(|peer| peer.next).min();
                let (held, room) = (held.unwrap_or(base), room.unwrap_or(PacketNumber::MAX));
                Gate::Rounds(Rounds::new(rule, held, room))
            }
            Policy::Cp(rule) => Gate::Windows(Windows::new(rule)),
            _ => Gate::Known,
        };
        match self.pass_number() {
            PassNumber::FIRST => self.rate.begin(context.now),
            _ => self.seek_rate_anew(context),
        }
        self.transition(context, "all are ready", |before| {
            State::Sending(Sending {
                pass: before.into_pass(),
                gate,
                base,
                parities: Box::new(Parities::replacing(replaced)),
                backoff: 0,
                awaits_reports: false,
                asks: false,
            })
        });
    }

    /// Where data and polls go: a later pass for one receiver is unicast; others may join the
    /// first.
    pub(super) fn destination(&self) -> Destination {
        match self.roster() {
            [only] if self.pass_number() > PassNumber::FIRST => Destination::Member(*only),
            _ => Destination::Group,
        }
    }
}
