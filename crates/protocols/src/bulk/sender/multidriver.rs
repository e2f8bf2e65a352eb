//! The flow of a pass under the Multidriver (003 5.3): which packets carry a request, what follows
//! from a round, and what happens when not all reply.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::MemberId;

use super::super::config::{BulkConfig, Partial, Policy, Repair};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::transfer::{Outcome, STOPPED, Wanted};
use super::super::wire::{Message, ReceiverReport, Tag};
use super::gate::Gate;
use super::rounds::{Round, Rounds};
use super::{Peer, Sender, Timer};

impl Sender {
    /// The rounds of the pass, under that policy.
    pub(super) fn rounds(&self) -> Option<&Rounds> {
        match &self.sending()?.gate {
            Gate::Rounds(rounds) => Some(rounds),
            Gate::Known | Gate::Buckets(_) | Gate::Windows(_) => None,
        }
    }

    fn rounds_mut(&mut self) -> Option<&mut Rounds> {
        match &mut self.sending_mut()?.gate {
            Gate::Rounds(rounds) => Some(rounds),
            Gate::Known | Gate::Buckets(_) | Gate::Windows(_) => None,
        }
    }

    /// From now on replies back off as for this many receivers; 0: not at all (003 5.3.3,
    /// use-backoff flag).
    pub(in crate::bulk) fn use_backoff(&mut self, receivers: u16) {
        self.backoff_for = receivers;
    }

    /// Whether packet `number`, which was sent just now, asks for replies: every `every`th, the
    /// last, and the last that window and room let go, unless a round is open. One begins then.
    pub(super) fn begin_round(
        &mut self,
        context: &mut Context<'_>,
        number: PacketNumber,
        stamp: Stamp,
        again: bool,
        limit: PacketNumber,
    ) -> bool {
        let last_of_pass = number + 1 == self.stream.pass_end();
        let last_that_goes =
            self.has_nothing_to_send(limit) && (again || self.stream.is_held_back(limit));
        let rests = self.rests_after_message(number, limit);
        let Some(rounds) = self.rounds_mut() else {
            return false;
        };
        let in_turn = rounds.count_packet();
        let asks = in_turn || last_of_pass || last_that_goes || rests;
        let begins = asks && rounds.current().is_none();
        if begins {
            self.open_round(context, stamp);
        }
        begins
    }

    fn open_round(&mut self, context: &mut Context<'_>, stamp: Stamp) {
        let due = context.now + self.round_wait(context.config);
        let top = self.stream.top();
        if let Some(rounds) = self.rounds_mut() {
            rounds.open(stamp, due, top);
            context.counters.rounds += 1;
        }
    }

    /// How long a round lasts at most: a round trip, doubled for each that has brought nothing, and
    /// the time that replies back off.
    fn round_wait(&self, config: &BulkConfig) -> Duration {
        let rule = self.rounds().map(Rounds::rule);
        let backoff = rule.map(|rule| rule.backoff_time(self.backoff_for));
        self.time_out(config) + backoff.unwrap_or_default()
    }

    /// A request without data; `again`, to one that has not replied.
    fn tag(&self, stamp: Stamp, again: bool) -> Message {
        Message::Tag(Tag {
            pass: self.pass_number(),
            stamp,
            top: self.stream.top(),
            length: self.stream.length,
            again,
            rate: true,
            backoff: self.backoff_for,
            subgroups: self.riding_vector(),
        })
    }

    /// Asks all without data: another round begins.
    fn ask_all(&mut self, context: &mut Context<'_>) {
        let stamp = self.stream.stamp(context.now);
        self.open_round(context, stamp);
        context.counters.tags_sent += 1;
        let tag = self.tag(stamp, false);
        context.outbox.multicast(self.id.number, &tag);
    }

    /// Asks those that the open round waits for, each by unicast. Nothing is counted as sent: the
    /// others do not see it.
    fn ask_silent(&mut self, context: &mut Context<'_>) {
        let due = context.now + self.round_wait(context.config);
        let Some(rounds) = self.rounds_mut() else {
            return;
        };
        rounds.repeat(due);
        let tag = self.tag(self.stream.last_stamp(), true);
        let silent: Vec<MemberId> = self.awaited().collect();
        for receiver in silent {
            context.counters.tags_sent += 1;
            context.outbox.unicast(receiver, self.id.number, &tag);
        }
    }

    /// The receivers that the open round waits for.
    fn awaited(&self) -> impl Iterator<Item = MemberId> {
        let rounds = self.rounds();
        let peers = self.peers.iter().filter(|(_, peer)| peer.gates);
        peers
            .map(|(member, _)| *member)
            .filter(move |member| rounds.is_some_and(|rounds| rounds.awaits(*member)))
    }

    /// A report during rounds: a reply is taken in; who has room again may let the sender go on.
    pub(super) fn take_reply(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        let limit = self.limit();
        let Some(tag) = report.tag else {
            let is_stopped = self.has_nothing_to_send(limit) && self.stream.is_held_back(limit);
            let waits = self.rounds().is_some_and(|it| it.current().is_none());
            if is_stopped && waits && report.limit > limit {
                // One has room again. Whether all have, only all can say.
                self.ask_all(context);
            }
            return;
        };
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.takes = Peer::limits(tag);
        }
        let sent = self.stream.time_of(report.seen);
        let waited = Duration::from_micros(report.delay_us);
        let round_trip = sent.map(|sent| (context.now - sent).saturating_sub(waited));
        if let Some(rounds) = self.rounds_mut() {
            let taken = rounds.reply(from, report, round_trip);
            context.counters.answers_late += u64::from(!taken);
        }
    }

    /// A reply is acknowledged, whatever came of it: its receiver repeats it until then (003 5.3.2:
    /// the return channel is reliable).
    pub(super) fn acknowledge_reply(
        &self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if report.tag.is_some() && self.policy.rounds().is_some() {
            context.counters.replies_acknowledged += 1;
            if self.riding_vector().is_some() {
                context.responses.open(from, self.id.number, report.seen);
                return;
            }
            let message = Message::Acknowledgement(report.seen);
            context.outbox.unicast(from, self.id.number, &message);
        }
    }

    /// Acts on the open round if every receiver has replied, those that have gone not counted.
    /// Between rounds the minima follow who is left.
    pub(super) fn close_whole_round(&mut self, context: &mut Context<'_>) {
        let Some(rounds) = self.rounds() else {
            return;
        };
        let gating = self.peers.iter().filter(|(_, peer)| peer.gates);
        if rounds.current().is_none() {
            self.update_minima();
        } else if rounds.is_whole(gating.map(|(member, _)| *member)) {
            self.close_round(context, true);
        }
    }

    /// Release, room and rate follow the least of all receivers; whether there is more of the first
    /// two.
    fn update_minima(&mut self) -> bool {
        let least = self.gating().map(|peer| peer.next).min();
        let room = self.gating().map(|peer| peer.limit).min();
        let takes = self.gating().map(|peer| peer.takes);
        let takes = takes.reduce(Peer::take_both).flatten();
        self.rate.bound(takes);
        let (Some(least), Some(room)) = (least, room) else {
            return false;
        };
        let rounds = self.rounds_mut();
        rounds.is_some_and(|rounds| rounds.update(least, room))
    }

    /// Acts on the open round, `whole` or not: release, limits, and at most one repair (003 5.3.1).
    fn close_round(&mut self, context: &mut Context<'_>, whole: bool) {
        let Some(round) = self.rounds_mut().and_then(Rounds::close) else {
            return;
        };
        // It was set for this round.
        self.timers.cancel(Timer::Retransmit);
        context.counters.rounds_partial += u64::from(!whole);
        if let Some(round_trip) = round.round_trip {
            self.round_trip.sample(round_trip);
            self.rate.sample(round_trip);
        }
        let now = context.now;
        for peer in self.peers.values_mut().filter(|peer| whole && peer.gates) {
            // A receiver that has replied was not asked while the round waited for others: it is
            // not silent.
            peer.heard = now;
        }
        let mut moves = self.update_minima();
        #[cfg(any(test, feature = "planted-bugs"))]
        if !whole && self.forgets_silent() {
            let room = self.limit();
            let rounds = self.rounds_mut();
            moves |= rounds.is_some_and(|rounds| rounds.update(round.next, room));
        }
        moves |= !round.missing.is_empty();
        if let Some(backoff) = self.state.backoff_mut() {
            // A round that brings nothing, as while a receiver has no room, makes them rarer.
            *backoff = if whole && moves { 0 } else { *backoff + 1 };
        }
        self.repair_once(context, &round);
    }

    #[cfg(any(test, feature = "planted-bugs"))]
    fn forgets_silent(&self) -> bool {
        use super::super::config::PlantedInRounds;
        let planted = self.rounds().and_then(|rounds| rounds.rule().planted);
        planted == Some(PlantedInRounds::SilentForgotten)
    }

    /// Has what a round says to be missing sent again, if its last transmission was before the
    /// request.
    fn repair_once(&mut self, context: &Context<'_>, round: &Round) {
        match context.config.repair {
            Repair::GoBackN if round.next < round.top => {
                self.stream.go_back_to(round.next, round.stamp);
            }
            Repair::GoBackN => {}
            Repair::Selective => {
                for gap in round.missing.iter() {
                    self.stream.repair(gap, |slot| slot.stamp <= round.stamp);
                }
            }
        }
    }

    /// The open round's time is over, or nothing was asked for long.
    pub(super) fn act_on_rounds(&mut self, context: &mut Context<'_>) {
        self.give_up_silent(context);
        let Some(rounds) = self.rounds() else {
            return;
        };
        let partial = rounds.rule().partial;
        match rounds.current() {
            None => self.ask_all(context),
            Some(_) => match partial {
                Partial::Act => self.close_round(context, false),
                Partial::AskAll => {
                    self.count_vain();
                    context.counters.rounds_partial += 1;
                    self.ask_all(context);
                }
                Partial::AskSilent => {
                    self.count_vain();
                    self.ask_silent(context);
                }
            },
        }
        if self.state.backoff() > 1 && !context.config.reserve {
            // They may have missed that they are served.
            self.send_roster(context);
        }
        self.advance(context);
    }

    fn count_vain(&mut self) {
        if let Some(backoff) = self.state.backoff_mut() {
            *backoff += 1;
        }
    }

    /// Sets the timer for the open round; without one, asks at once if only replies can let the
    /// sender go on and it has not asked, later if it has, and now and then if it has nothing to
    /// send.
    pub(super) fn arm_rounds(&mut self, context: &mut Context<'_>) {
        let stalls = self.stalls();
        let Some(rounds) = self.rounds() else {
            return;
        };
        if rounds.current().is_none() && rounds.has_unasked() && stalls {
            self.ask_all(context);
        }
        let due = self.rounds().and_then(Rounds::current).map(|it| it.due);
        let patience = match stalls {
            true => self.round_wait(context.config),
            false => context.config.vanish_after / 8,
        };
        self.arm_request(context.now, due, patience, stalls);
    }

    /// Fewer receivers have come than the transfer needs: nobody is served, and all are told (003
    /// 5.3.2: `X_MRopen` returns an error). Whether that is so.
    pub(super) fn gives_up_too_few(&mut self, context: &mut Context<'_>) -> bool {
        let min = match self.transfer.receivers {
            Wanted::Between { min, .. } => min,
            // Of those that have to stay, all have to be there.
            Wanted::Count(count) if self.required.is_some() => match context.config.policy {
                Policy::Cp(rule) if !self.transfer.strict => rule.minimum as usize,
                _ => count,
            },
            _ => return false,
        };
        let came = self.peers.len();
        if came >= min {
            return false;
        }
        let reason = match came {
            1 => alloc::format!("{STOPPED}: 1 receiver has come, and it needs {min}"),
            _ => alloc::format!("{STOPPED}: {came} receivers have come, and it needs {min}"),
        };
        self.tell_cancelled(context, &reason);
        self.end_all(context, Outcome::TooFew, "too few have come");
        true
    }

    /// How many receivers are expected, as it is announced.
    pub(super) fn set_size(size: usize) -> u16 {
        size.min(usize::from(u16::MAX)) as u16
    }

    /// For how many receivers replies back off at first.
    pub(super) fn first_backoff(policy: Policy, set_size: u16) -> u16 {
        match policy.rounds() {
            Some(rule) if rule.use_backoff => set_size,
            _ => 0,
        }
    }
}
