//! The flow of a pass under XTP (003 3.3.3, 3.4): which packets carry a request, what follows from
//! a bucket, and what happens when nobody answers.

use core::time::Duration;

use groupcast_core::MemberId;

use super::super::config::{BulkConfig, Repair};
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Stamp};
use super::super::transfer::{Notice, Outcome};
use super::super::wire::{Message, ReceiverReport, Request};
use super::Sender;
use super::buckets::{Acted, Bucket, Buckets};
use super::gate::Gate;

impl Sender {
    /// The buckets of the pass, if its receivers are not known.
    pub(super) fn buckets(&self) -> Option<&Buckets> {
        match &self.sending()?.gate {
            Gate::Buckets(buckets) => Some(buckets),
            Gate::Known | Gate::Rounds(_) | Gate::Windows(_) => None,
        }
    }

    pub(super) fn buckets_mut(&mut self) -> Option<&mut Buckets> {
        match &mut self.sending_mut()?.gate {
            Gate::Buckets(buckets) => Some(buckets),
            Gate::Known | Gate::Rounds(_) | Gate::Windows(_) => None,
        }
    }

    /// Whether packet `number`, which was sent just now, asks for answers: every `every`th, the
    /// last, and the last that window and room let go. Its bucket is opened then.
    pub(super) fn request(
        &mut self,
        context: &Context<'_>,
        number: PacketNumber,
        stamp: Stamp,
        again: bool,
        limit: PacketNumber,
    ) -> bool {
        let last_of_pass = number + 1 == self.stream.pass_end();
        let last_that_goes =
            self.has_nothing_to_send(limit) && (again || self.stream.is_held_back(limit));
        let Some(buckets) = self.buckets() else {
            return false;
        };
        let in_turn = (number + 1).starts_block(buckets.rule().every.into());
        let rests = self.rests_after_message(number, limit);
        let asks = in_turn || last_of_pass || last_that_goes || rests;
        asks && self.open_bucket(context, stamp)
    }

    /// Opens a bucket for the request with this stamp; false if there are too many.
    fn open_bucket(&mut self, context: &Context<'_>, stamp: Stamp) -> bool {
        let due = context.now + self.wait_interval(context.config);
        let top = self.stream.top();
        let Some(buckets) = self.buckets_mut().filter(|buckets| buckets.has_room()) else {
            return false;
        };
        buckets.open(stamp, due, top);
        true
    }

    /// How long a bucket lives: the smoothed round trip and its deviation, doubled for each request
    /// that nobody has answered, and the time that answers wait for their slots. So a slot is
    /// always shorter.
    fn wait_interval(&self, config: &BulkConfig) -> Duration {
        let slot = self.buckets().map(|it| it.rule().control.slot.longest());
        self.time_out(config) + slot.unwrap_or_default()
    }

    /// Asks without data.
    fn ask(&mut self, context: &mut Context<'_>) {
        let stamp = self.stream.stamp(context.now);
        let Some(sending) = self.sending() else {
            return;
        };
        let request = Request {
            pass: sending.pass.number,
            stamp,
            top: self.stream.top(),
            kept: sending.base,
            length: self.stream.length,
        };
        if self.open_bucket(context, stamp) {
            context.counters.requests_sent += 1;
            context
                .outbox
                .multicast(self.id.number, &Message::Request(request));
        }
    }

    /// A report while the receivers are not known: an answer goes into its bucket.
    pub(super) fn collect(&mut self, context: &mut Context<'_>, report: &ReceiverReport) {
        let sent = self.stream.time_of(report.seen);
        let waited = Duration::from_micros(report.delay_us);
        let round_trip = sent.map(|sent| (context.now - sent).saturating_sub(waited));
        let limit = self.limit();
        let is_stopped = self.has_nothing_to_send(limit) && self.stream.is_held_back(limit);
        let Some(buckets) = self.buckets_mut() else {
            return;
        };
        if report.answers {
            let taken = round_trip.is_some_and(|time| buckets.answer(report, time));
            context.counters.answers_late += u64::from(!taken);
        } else if is_stopped && !buckets.is_any_open() && report.limit > limit {
            // One has room again. Whether all have, only all can say.
            self.ask(context);
        }
    }

    /// A bucket may be due, or nothing was asked for long.
    pub(super) fn act_on_buckets(&mut self, context: &mut Context<'_>) {
        let mut has_acted = false;
        let last = self.stream.last_stamp();
        while let Some(acted) = self.buckets_mut().and_then(|it| it.act(context.now, last)) {
            has_acted = true;
            match acted {
                Acted::Empty(requests) => {
                    context.counters.requests_unanswered += 1;
                    if self.has_asked_in_vain(requests) {
                        if self.hears_who_came_late(context) {
                            self.leave_pass(context);
                            break;
                        }
                        return self.give_up_unanswered(context, requests);
                    }
                    self.set_backoff(|_| requests);
                }
                Acted::Answered(bucket, is_stale) => {
                    self.round_trip.sample(bucket.round_trip);
                    self.rate.sample(bucket.round_trip);
                    self.set_backoff(|backoff| if is_stale { backoff + 1 } else { 0 });
                    let takes = self.buckets().and_then(Buckets::takes);
                    self.rate.bound(takes);
                    self.repair_by(context, &bucket);
                }
            }
        }
        self.advance(context);
        let stalls = self.stalls();
        let asks = self.buckets().is_some_and(|it| !it.is_any_open());
        if asks && (stalls || !has_acted) {
            self.ask(context);
            self.arm(context);
        }
    }

    fn set_backoff(&mut self, next: impl FnOnce(u32) -> u32) {
        if let Some(backoff) = self.state.backoff_mut() {
            *backoff = next(*backoff);
        }
    }

    fn has_asked_in_vain(&self, requests: u32) -> bool {
        self.buckets()
            .is_some_and(|it| requests >= it.rule().unanswered)
    }

    /// Whether everything that may be sent was sent, and only answers can change that.
    pub(super) fn stalls(&self) -> bool {
        let limit = self.limit();
        let waits = self.stream.ahead() > 0 || self.stream.is_held_back(limit);
        waits && self.has_nothing_to_send(limit)
    }

    /// Has what a bucket says to be missing sent again, if its last transmission was before the
    /// request, and everybody has room for it: it would be refused where there is none, and be
    /// repeated with every bucket. A receiver that misses it names it again until then.
    fn repair_by(&mut self, context: &Context<'_>, bucket: &Bucket) {
        let limit = self.limit();
        match context.config.repair {
            Repair::GoBackN => self.stream.go_back_to(bucket.next, bucket.stamp),
            Repair::Selective => {
                for gap in bucket.missing.iter() {
                    let gap = gap.start..gap.end.min(limit);
                    self.stream.repair(gap, |slot| slot.stamp <= bucket.stamp);
                }
            }
        }
    }

    /// Whether a receiver that the pass does not serve is there, as one is that was started again,
    /// and can be served later.
    fn hears_who_came_late(&self, context: &Context<'_>) -> bool {
        let (now, limit) = (context.now, context.config.vanish_after);
        let mut late = self.peers.values().filter(|peer| !peer.gates);
        self.transfer.rewindable && late.any(|peer| now - peer.heard < limit)
    }

    /// Nobody has answered for so long that nobody is there.
    fn give_up_unanswered(&mut self, context: &mut Context<'_>, requests: u32) {
        let reason = alloc::format!("no receiver has answered {requests} requests");
        self.tell_cancelled(context, &reason);
        self.end_all(context, Outcome::Vanished, "no receiver answers");
    }

    /// A receiver misses what is not kept any more: the next pass serves it, if there can be one.
    pub(super) fn handle_outrun(&mut self, context: &mut Context<'_>, receiver: MemberId) {
        if !self.transfer.rewindable {
            return self.drop_receiver(context, receiver, Outcome::Outrun);
        }
        let Some(peer) = self.peers.get_mut(&receiver) else {
            return;
        };
        if !peer.is_outrun {
            peer.is_outrun = true;
            peer.gates = false;
            context.counters.outrun += 1;
            let id = self.id;
            context.notify(Notice::Outrun {
                id,
                receiver: Some(receiver),
            });
        }
    }

    /// Sets the timer for the oldest bucket; without any, asks when the time-out has passed, or now
    /// and then if there is nothing to send.
    pub(super) fn arm_buckets(&mut self, context: &Context<'_>) {
        let stalls = self.stalls();
        let due = self.buckets().and_then(Buckets::due);
        let patience = if stalls {
            self.wait_interval(context.config)
        } else {
            context.config.vanish_after / 8
        };
        self.arm_request(context.now, due, patience, stalls);
    }
}
