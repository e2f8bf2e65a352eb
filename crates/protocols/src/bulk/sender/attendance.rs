//! Which of the receivers that are served later hear what is sent to the group. One that gets only
//! a part of it leaves the group until its pass: what does not fit through the way there would only
//! be in the way of others. So does one whose path held a rate that is found, and that leaves it
//! behind: the others' traffic on that path would back off until it loses little, at their cost. It
//! is told by itself, again and again until it confirms; so nothing is lost with a datagram.
//! Receivers of earlier releases do not understand that, and stay.
//!
//! The end of a pass calls all back, and so does a transfer that another member announces, for a
//! while: they do not hear that, and this sender does.

use alloc::vec::Vec;

use groupcast_core::MemberId;

use super::super::config::Policy;
use super::super::context::Context;
use super::super::transfer::DeliverTo;
use super::super::wire::{Attend, Attendance, Message, ReceiverReport};
use super::{Peer, Sender, State, Timer};

/// A receiver that loses at least this share of transmissions gets little by listening.
const LOSS_MIN: f64 = 0.2;
/// Where the rate follows paths, it is congestion that loses this share, if no more than half of it
/// is the path's own.
const PRESSED_MIN: f64 = 0.03;
/// Of this many transmissions that must be known.
const SAMPLED_MIN: u64 = 256;

/// What a receiver was told last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    version: u32,
    attendance: Attendance,
    /// Whether it has said so.
    is_confirmed: bool,
}

impl Default for Told {
    /// Nothing: a receiver attends.
    fn default() -> Self {
        Self {
            version: 0,
            attendance: Attendance::Attends,
            is_confirmed: true,
        }
    }
}

impl Told {
    pub(super) fn attends(&self) -> bool {
        self.attendance == Attendance::Attends
    }
}

impl Sender {
    /// Has those stand by that are served later and get little of what the others get, or get it at
    /// the cost of others on their paths.
    pub(super) fn set_apart(&mut self, context: &mut Context<'_>) {
        let follows_paths = self.rate.looks_at_each();
        let is_in_the_way = |peer: &Peer| {
            let is_known = peer.sampled >= SAMPLED_MIN;
            let gains_little = peer.loss >= LOSS_MIN;
            // Most of its loss is not its path's own, and the rate falls for that no more.
            let own_loss = peer.path.own_loss().filter(|_| follows_paths);
            let is_pressed = own_loss.is_some_and(|own| peer.loss >= PRESSED_MIN.max(2.0 * own));
            peer.is_outpaced || is_known && (gains_little || is_pressed)
        };
        let is_apart =
            |peer: &Peer| !peer.gates && peer.told.attends() && !peer.holds && is_in_the_way(peer);
        if !self.lets_stand_by(context) || !self.peers.values().any(is_apart) {
            return;
        }
        context.counters.stood_by += self.tell_attendance(context, Attendance::StandsBy, is_apart);
    }

    /// Under the other policies what is sent to all asks receivers that do not gate, too, or chains
    /// go through them; and marks are told to all while the pass goes on.
    fn lets_stand_by(&self, context: &Context<'_>) -> bool {
        let has_marks = matches!(self.transfer.deliver_to, DeliverTo::UpTo { .. });
        let may = asks_those_that_gate(context.config.policy) && !has_marks;
        may && matches!(self.state, State::Sending(_))
    }

    /// The pass is over: all are to hear what comes.
    pub(super) fn call_back(&mut self, context: &mut Context<'_>) {
        self.tell_attendance(context, Attendance::Attends, |peer| !peer.told.attends());
    }

    /// Another member announces something: those that stand by are to hear that.
    pub(in crate::bulk) fn beckon(&mut self, context: &mut Context<'_>) {
        // Those that look in already hear it.
        if context.now - self.beckoned < context.config.present_within / 2 {
            return;
        }
        self.beckoned = context.now;
        self.tell_attendance(context, Attendance::LooksIn, |peer| !peer.told.attends());
    }

    /// Tells `whom` its attendance; how many that are.
    fn tell_attendance(
        &mut self,
        context: &mut Context<'_>,
        attendance: Attendance,
        whom: impl Fn(&Peer) -> bool,
    ) -> u64 {
        let mut told = 0;
        for peer in self.peers.values_mut().filter(|peer| whom(peer)) {
            peer.told = Told {
                version: peer.told.version + 1,
                attendance,
                is_confirmed: false,
            };
            told += 1;
        }
        if told > 0 {
            self.attend_backoff = 0;
            self.tell_again(context);
        }
        told
    }

    /// Tells again who has not confirmed, and those that stand by, so that they know that this
    /// sender is there.
    pub(super) fn tell_again(&mut self, context: &mut Context<'_>) {
        let config = context.config;
        let is_open = |peer: &Peer| !peer.told.is_confirmed;
        let (mut any, mut any_open) = (false, false);
        for (member, peer) in &self.peers {
            if is_open(peer) || !peer.told.attends() {
                let Told {
                    version,
                    attendance,
                    ..
                } = peer.told;
                let attend = Message::Attend(Attend {
                    version,
                    attendance,
                });
                context.outbox.unicast(*member, self.id.number, &attend);
                any = true;
                any_open |= is_open(peer);
            }
        }
        let wait = match any_open {
            true => (config.rto_initial * (1 << self.attend_backoff.min(10))).min(config.rto_max),
            // It would look in after eight of these in vain.
            false => config.vanish_after / 16,
        };
        self.attend_backoff = self.attend_backoff.saturating_add(1);
        match any {
            true => self.timers.set(Timer::Attend, context.now + wait),
            false => self.timers.cancel(Timer::Attend),
        }
    }

    /// A receiver says what it was told last. If it hears the group again, it learns at once that
    /// its pass begins.
    pub(super) fn note_attendance(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        let pass = self.pass_number();
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        let hears_pass = peer.told.attends() && report.pass == pass;
        let confirms = report.attends == Some(peer.told.version) || hears_pass;
        if peer.told.is_confirmed || !confirms {
            return;
        }
        peer.told.is_confirmed = true;
        let waits = peer.told.attends() && peer.gates && !peer.ready;
        if waits && matches!(self.state, State::Starting(_)) {
            self.send_roster(context);
        }
    }

    /// Whether `member`, which multicasts do not reach, is to get copies of the data: not before it
    /// takes part, while it stands by, or when it has everything or is settled; but where data asks
    /// all for answers, those that have everything answer, too. There is no group for it to leave,
    /// so it need not have confirmed what it was told.
    pub(super) fn needs_data(&self, member: MemberId) -> bool {
        match self.peers.get(&member) {
            Some(peer) => {
                let is_asked = !asks_those_that_gate(self.policy);
                peer.told.attends() && (!peer.holds || is_asked)
            }
            // Nobody registers for these.
            None => self.is_unanswered(),
        }
    }

    /// How often a packet for the group leaves this host.
    pub(super) fn fan_out(&self, context: &Context<'_>) -> u32 {
        let without = context.without.iter();
        let copies = without.filter(|member| self.needs_data(**member)).count();
        u32::try_from(copies).map_or(u32::MAX, |copies| copies.saturating_add(1))
    }

    /// Those that do not hear what is sent to the group.
    pub(super) fn absentees(&self) -> Vec<MemberId> {
        let absent =
            |peer: &Peer| peer.told.version > 0 && !(peer.told.attends() && peer.told.is_confirmed);
        let absent = self.peers.iter().filter(|(_, peer)| absent(peer));
        absent.map(|(member, _)| *member).collect()
    }
}

/// Whether data asks nothing of receivers that have it already.
fn asks_those_that_gate(policy: Policy) -> bool {
    matches!(policy, Policy::Ack | Policy::Nak { .. } | Policy::Ring)
}
