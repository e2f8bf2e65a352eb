//! What a sender learns from reports: what each receiver has and needs, how long a round trip
//! takes, how much is lost.

use core::time::Duration;

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::context::Context;
use super::super::numbers::Stamp;
use super::super::rate::{Path, Seen};
use super::super::transfer::Outcome;
use super::super::wire::{Purpose, ReceiverReport, Status};
use super::chains::chain_of;
use super::{Peer, Sender, State, Timer};

impl Sender {
    pub(super) fn handle_report(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if self.is_of_unsent(report) {
            context.counters.junk += 1;
            return;
        }
        let heard = self.peers.get(&from).map(|peer| peer.heard);
        self.acknowledge_reply(context, from, report);
        match report.purpose {
            Purpose::Nak => context.counters.naks_received += 1,
            Purpose::Acknowledge => context.counters.reports_received += 1,
            Purpose::Register | Purpose::Ready => {}
        }
        if let Status::Failed(reason) = &report.status
            && !report.aggregate
        {
            self.settle(context, from, Outcome::Failed(reason.clone()));
            return;
        }
        if !self.follow_subgroups(context, from, report) {
            return;
        }
        self.look_for_loss(context, from, report);
        self.note_attendance(context, from, report);
        if let Some(part) = &report.part {
            self.take_part(context, from, part);
        }
        let moved = self.read_report(context, from, report);
        self.remind_of_place(context, from, report);
        if self.buckets().is_some() {
            if report.outrun {
                self.handle_outrun(context, from);
            } else if self.peers.contains_key(&from) {
                self.collect(context, report);
            }
            self.end_epoch(context);
            return;
        }
        if self.rounds().is_some() {
            self.take_reply(context, from, report);
            let awaited = self.rounds().is_some_and(|rounds| rounds.awaits(from));
            if let Some((peer, heard)) = self.peers.get_mut(&from).zip(heard).filter(|_| awaited) {
                // A receiver that says something, but does not reply, is as silent as one that says
                // nothing.
                peer.heard = heard;
            }
            self.end_epoch(context);
            self.look_for_slow(context);
            return;
        }
        if report.purpose == Purpose::Ready && report.pass == self.pass_number() {
            self.read_ready(from, report);
        }
        self.doubt_needs(context, from, report);
        self.time_round_trip(context, from, report);
        self.note_window(context.now, from, report);
        if moved {
            self.progressed(context);
        }
        if let State::Sending(sending) = &self.state {
            let gate = &sending.gate;
            let peer = self.peers.get(&from);
            if peer.is_some_and(|peer| gate.repairs_for(peer)) {
                self.repair(context, from, report);
            }
            self.end_epoch(context);
            self.look_for_slow(context);
        }
    }

    /// Whether it is of what was not sent: no receiver of ours says that.
    pub(super) fn is_of_unsent(&self, report: &ReceiverReport) -> bool {
        report.seen > self.stream.last_stamp()
    }

    /// A receiver that has lost what it had cannot be served by this pass, which may have moved on:
    /// the next one serves it.
    pub(super) fn look_for_loss(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        let is_left_out = self.is_left_out(report);
        let peer = self.peers.get_mut(&from).filter(|_| !report.aggregate);
        // A report that another one has overtaken may be of before the pass.
        let has_lost = |peer: &&mut Peer| {
            peer.has_begun_anew(report) || is_left_out && peer.gates && report.seen >= peer.seen
        };
        let Some(peer) = peer.filter(has_lost) else {
            return;
        };
        if peer.returned.has_begun() {
            // It has lost what it was replying, too, and would say something else.
            self.drop_receiver(context, from, Outcome::Vanished);
            return;
        }
        if !self.transfer.rewindable {
            self.drop_receiver(context, from, Outcome::Late);
            return;
        }
        let returned = peer.returned;
        peer.begin_anew(context.now, report, self.stream.last_stamp());
        peer.returned = returned;
        // Unless it has yet to say what it needs in this pass.
        peer.gates &= matches!(self.state, State::Starting(_)) && !peer.ready;
        if !peer.gates {
            self.leave_chains(context, &[from]);
        }
    }

    /// Whether the first packet that a receiver of this pass misses is one that the pass does not
    /// send: when the pass began, it had that, or said so.
    fn is_left_out(&self, report: &ReceiverReport) -> bool {
        let is_of_pass = self.sending().is_some() && report.pass == self.pass_number();
        is_of_pass && self.stream.passes_over(report.next)
    }

    /// Takes in what a report says of its receiver, or of a chain; whether any has more than
    /// before.
    fn read_report(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) -> bool {
        let mut moved = false;
        let stamp = self.stream.last_stamp();
        if report.aggregate {
            // The first of a chain speaks for all of it (001 section 3).
            let Policy::Tree { height } = context.config.policy else {
                return false;
            };
            let roster = self.state.pass().map_or(&[][..], |pass| &pass.roster);
            let chain = chain_of(roster, from, height as usize);
            if report.pass != self.pass_number() || chain.is_empty() {
                return false;
            }
            for member in chain {
                if let Some(peer) = self.peers.get_mut(member) {
                    moved |= peer.has(report.next, stamp);
                    peer.limit = peer.limit.max(report.limit);
                }
            }
        }
        if let Some(peer) = self.peers.get_mut(&from) {
            moved |= peer.read(context.now, report, stamp);
        }
        moved
    }

    fn read_ready(&mut self, from: MemberId, report: &ReceiverReport) {
        let packets = self.stream.packets();
        let known = self.stream.length.is_some();
        let State::Starting(starting) = &mut self.state else {
            return;
        };
        if let Some(peer) = self.peers.get_mut(&from).filter(|peer| !peer.ready) {
            peer.ready = true;
            let listed_below = peer.read_needs(report, packets, known);
            starting.listed_below = starting.listed_below.min(listed_below);
        }
    }

    fn time_round_trip(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if report.aggregate || report.seen == Stamp::default() {
            return;
        }
        if let Some(sent) = self.stream.time_of(report.seen) {
            let waited = Duration::from_micros(report.delay_us);
            let round_trip = (context.now - sent).saturating_sub(waited);
            self.round_trip.sample(round_trip);
            if !self.rate.looks_at_each() {
                self.rate.sample(round_trip);
            } else if let Some(peer) = self.peers.get_mut(&from) {
                let before = self.stream.sent_just_before(report.seen);
                // What waited in this host waited for no link.
                let round_trip = (context.arrived - sent).saturating_sub(waited);
                peer.path.sample(round_trip);
                peer.path.sample_wait(
                    round_trip.saturating_sub(self.rate.lasts(before, context.config.packet)),
                    // It was not asked: it got a packet from behind one that it misses.
                    report.purpose == Purpose::Nak && !report.answers,
                );
            }
        }
    }

    /// Something moved: patience begins anew.
    fn progressed(&mut self, context: &mut Context<'_>) {
        if let Some(backoff) = self.state.backoff_mut() {
            *backoff = 0;
        }
        if matches!(&self.state, State::Sending(sending) if sending.awaits_reports) {
            let due = context.now + self.time_out(context.config);
            self.timers.set(Timer::Retransmit, due);
        }
    }

    /// A later pass is sent: nothing that was found of paths is of those that it goes now.
    pub(super) fn seek_rate_anew(&mut self, context: &Context<'_>) {
        let loss = self.gating().map(|peer| peer.loss).fold(0.0, f64::max);
        self.rate.begin_pass(context.now, loss);
        for peer in self.peers.values_mut() {
            peer.path = Path::default();
        }
    }

    /// Lets the rate control learn from what the receivers lost.
    fn end_epoch(&mut self, context: &mut Context<'_>) {
        let round_trip = self.round_trip.mean();
        let packet = context.config.packet;
        if !self.rate.epoch_ends(context.now, round_trip, packet) {
            return;
        }
        let limits = |peer: &&mut Peer| peer.gates;
        if self.rate.looks_at_each() && self.buckets().is_none() && self.rounds().is_none() {
            let receivers = u32::try_from(self.gating().count()).unwrap_or(u32::MAX);
            let paths = self.peers.values_mut().filter(limits);
            let paths = paths.map(|peer| &mut peer.path);
            self.rate
                .end_epoch_of(context.now, packet, receivers, paths);
            if self.rate.leaves_behind() {
                self.leave_behind(context);
            }
            return;
        }
        // Lost by the one that lost the largest share: a / b > c / d as a × d > c × b.
        let worst = self
            .gating()
            .filter(|peer| !peer.path.has_no_say())
            .map(|peer| peer.path.seen)
            .filter(|seen| seen.sent > 0)
            .max_by_key(|seen| seen.lost.saturating_mul(1 << 20) / seen.sent)
            .unwrap_or(Seen::default());
        for peer in self.peers.values_mut() {
            peer.path.seen = Seen::default();
        }
        self.rate.end_epoch(context.now, packet, worst);
    }
}
