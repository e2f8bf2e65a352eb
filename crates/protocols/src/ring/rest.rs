//! The resting token: in a quiet ring it stays at the representative until a member calls for it.
//!
//! A member with something to send asks for the token (`Hurry`), gets it out of turn, claims
//! sequence numbers, sends, and returns it. The other members are woken by the message alone. A
//! rotation finds out whether all hold what was sent: `confirm_after` after the last such message,
//! or at once beyond `UNCONFIRMED_MAX` packets; later as long as none is missing
//! (`CONFIRM_DOUBLINGS`). A call changes no mark of the token or of a member (`Ordering::claim`),
//! so what that rotation finds out is right. The representative rotates the token instead, at once,
//! for safe messages, when a packet is missing, and when a second member calls.

use groupcast_core::{MemberId, SocketClass, Time};

use super::numbers::Index;
use super::operational::Operational;
use super::wire::{DataHeader, Message, RingKey, Token};
use super::{Ring, State, Timer};

/// With more packets than this that no rotation has confirmed, one does.
const UNCONFIRMED_MAX: u64 = 16;
/// Each rotation in a row that confirms packets of which none was missing doubles the time and the
/// number of packets until the next, this many times at most: a rotation wakes all members, and
/// finds nothing where nothing is lost.
const CONFIRM_DOUBLINGS: u32 = 3;

impl Operational {
    /// How many times the time until a rotation confirms was doubled.
    fn confirm_doublings(&self) -> u32 {
        self.lossless.min(CONFIRM_DOUBLINGS)
    }
}

impl Ring {
    /// The token rests here, until `until` at the latest.
    pub(super) fn rest(&mut self, now: Time, token: Token, until: Time) {
        let operational = self.state.expect_operational();
        operational.resting = Some(token);
        self.timers.set(Timer::Hold, until);
        self.timers
            .set(Timer::Loss, until.max(now) + self.token_loss());
        // The message of a called member is on its way before the token comes back: it is to be
        // read first.
        self.priority = SocketClass::Data;
    }

    /// The token, if it rests here.
    fn take_resting(&mut self) -> Option<Token> {
        // A ring of one also keeps its token between two visits.
        self.timers.due(Timer::Hold)?;
        let operational = self.state.expect_operational();
        let token = operational.resting.take()?;
        self.timers.cancel(Timer::Hold);
        Some(token)
    }

    /// The token has rested long enough: it goes round once, to find out whether all hold all.
    pub(super) fn release_token(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        if let Some(token) = operational.resting.take() {
            self.timers.set(Timer::Loss, now + self.token_loss());
            self.visit(now, token);
        }
    }

    /// This member has something to send, or misses a packet: gets the token moving if it rests.
    pub(super) fn wake_token(&mut self, now: Time) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        operational.quiet_since = now;
        if operational.ordering.is_representative() {
            if let Some(token) = self.take_resting() {
                self.dispose(now, token);
            }
        } else if operational.idle && self.timers.due(Timer::Hurry).is_none() {
            self.hurry(now);
        }
    }

    /// A packet came, and one before it did not. A token that goes round shows that; a resting one
    /// is called for.
    pub(super) fn notice_gap(&mut self, now: Time) {
        if let State::Operational(operational) = &self.state
            && (operational.idle || operational.resting.is_some())
            && operational.ordering.window.aru() < operational.ordering.window.high()
        {
            self.wake_token(now);
        }
    }

    pub(super) fn hurry(&mut self, now: Time) {
        let ring = &self.state.expect_operational().ordering;
        let message = Message::Hurry { ring: ring.key() };
        self.outbox.unicast(ring.members[0], message.encode());
        let again = self.flow.token_retransmit(&self.config);
        self.timers.set(Timer::Hurry, now + again);
    }

    /// The call may be lost, or the way for it closed.
    pub(super) fn hurry_again(&mut self, now: Time) {
        let ring = &self.state.expect_operational().ordering;
        let message = Message::Hurry { ring: ring.key() };
        self.outbox
            .unicast_as_data(ring.members[0], message.encode());
        self.hurry(now);
    }

    /// A member calls for the token.
    pub(super) fn handle_hurry(&mut self, now: Time, from: MemberId, key: RingKey) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let ring = &operational.ordering;
        let caller = ring.members.iter().position(|member| *member == from);
        let here = ring.is_representative() && ring.key() == key;
        let Some(caller) = caller.filter(|caller| *caller > 0 && here) else {
            return;
        };
        operational.callers.insert(Index(caller as u16));
        operational.quiet_since = now;
        if let Some(token) = self.take_resting() {
            self.dispose(now, token);
        }
    }

    /// A token that was called: on its way to a caller, or back.
    pub(super) fn called_token(&mut self, now: Time, mut token: Token) {
        let operational = self.state.expect_operational();
        if operational.ordering.is_representative() {
            token.called = false;
            // What it asked for again before the token came is answered.
            if let Some(served) = operational.called.take() {
                operational.callers.remove(served);
            }
            self.dispose(now, token);
        } else {
            self.answer_call(now, token);
        }
    }

    /// The token is with the representative, out of turn: goes round, to a caller, or rests.
    fn dispose(&mut self, now: Time, mut token: Token) {
        // A member that has more of these than a visit may send is to wait for one, here as
        // elsewhere.
        let unordered = !self.unordered.is_empty();
        if !self.awaits_stability() {
            self.claim(now, &mut token);
        }
        let round = unordered || self.needs_rounds(&token);
        let operational = self.state.expect_operational();
        let callers = core::mem::take(&mut operational.callers);
        let members = &operational.ordering.members;
        let caller = callers.first();
        let unreached = caller.is_some_and(|it| !self.reach.may_call(now, members[it.at()]));
        // However often one member calls, the others see the token as often as in a quiet ring.
        let round_is_due = now >= operational.round_at;
        if round || callers.len() > 1 || round_is_due && !callers.is_empty() || unreached {
            token.idle = false;
            operational.quiet_since = now;
            self.timers.set(Timer::Loss, now + self.token_loss());
            self.visit(now, token);
        } else if let Some(caller) = caller {
            let to = operational.ordering.after(caller.0);
            token.called = true;
            operational.called = Some(caller);
            self.timers.set(Timer::Loss, now + self.token_loss());
            self.pass_token(now, to, caller.0, token);
        } else if token.seq.above(token.aru) > UNCONFIRMED_MAX << operational.confirm_doublings() {
            self.timers.set(Timer::Loss, now + self.token_loss());
            self.visit(now, token);
        } else {
            let longest = operational.round_at;
            let mut rest_until = longest;
            if token.aru < token.seq {
                if operational.called_seq < token.seq {
                    operational.called_seq = token.seq;
                    let longer = 1 << operational.confirm_doublings();
                    operational.confirm_at = now + self.config.confirm_after * longer;
                }
                rest_until = rest_until.min(operational.confirm_at);
            }
            let plants = operational.ordering.plants;
            plants.rest_planned(&mut rest_until, longest);
            self.rest(now, token, rest_until);
        }
    }

    /// This member called, and the token is here: claims numbers for what waits and returns the
    /// token. For safe messages the token goes on from here instead, if all hold everything: the
    /// members that it skipped had nothing to add to it.
    fn answer_call(&mut self, now: Time, mut token: Token) {
        let complete = token.aru == token.seq && token.rtr.is_empty();
        let urgent = self.awaits_stability();
        if urgent && complete {
            token.called = false;
            token.idle = false;
            self.visit(now, token);
            return;
        }
        self.claim(now, &mut token);
        token.idle &= !urgent && !self.needs_rounds(&token);
        let operational = self.state.expect_operational();
        operational.idle = token.idle;
        let ring = &operational.ordering;
        let home = ring.members.len() as u16 - ring.me.0;
        let to = ring.after(home);
        self.pass_token(now, to, home, token);
        self.priority = SocketClass::Data;
    }

    /// Claims sequence numbers for what waits here, as much as a visit may, and sends it.
    fn claim(&mut self, now: Time, token: &mut Token) {
        let limits = self.flow.limits();
        let operational = self.state.expect_operational();
        let ring = &mut operational.ordering;
        let records_max = ring.packet_size.records_max();
        let queue = &mut self.queue;
        let waiting = queue.bytes();
        let new = ring.claim(token, limits, || {
            queue.pack(records_max).map(|body| (None, body))
        });
        queue.took(waiting);
        ring.exchange_marks(token, queue.take_marks_wanted());
        operational.unordered_sent = 0;
        for seq in new.iter().filter(|_| ring.members.len() > 1) {
            if let Some(packet) = ring.window.get(seq) {
                let header = DataHeader::new(ring.tag(), seq, false, packet);
                self.outbox.data(header, packet.body.clone());
            }
        }
        if !new.is_empty() {
            operational.quiet_since = now;
            self.counters.packets_sent += new.len();
            self.deliver();
            self.wake_submitter();
        }
        self.flush_unordered();
    }

    /// Whether what waits here is done only once it is known that all hold it.
    fn awaits_stability(&self) -> bool {
        self.queue.holds_resilient() || self.leaving.is_some()
    }

    /// Whether the token must go round at once instead of resting.
    fn needs_rounds(&mut self, token: &Token) -> bool {
        let misses = self.state.expect_operational().ordering.window.aru() < token.seq;
        let more = !self.queue.is_empty() || !self.unordered.is_empty();
        !token.idle || more || self.awaits_stability() || misses
    }
}
