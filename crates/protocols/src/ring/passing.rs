//! How the token, or the commit token, gets over one hop: it is kept, and sent again, until there
//! is a sign that it arrived. What is sent again goes to the socket for data, too, in case that the
//! way to the other one is closed.

use bytes::Bytes;
use groupcast_core::{MemberId, Time};

use super::numbers::{Hop, Seq};
use super::wire::{RingKey, RingTag, Token};
use super::{Ring, Timer};

/// The last token that this member passed on.
#[derive(Debug, Default)]
pub(super) struct Passed {
    sent: Option<Sent>,
    /// When it was last sent.
    at: Time,
}

/// A token as it is passed on to another member.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) to: MemberId,
    pub(super) ring: RingKey,
    pub(super) hop: Hop,
    /// seq of the token: data above it was sent by a member that has seen it.
    pub(super) seq: Seq,
    pub(super) errand: Errand,
    /// How many times it was sent again.
    pub(super) again: u32,
    pub(super) body: Bytes,
    /// The most bytes of a datagram's body that the way carries, as far as is known.
    pub(super) way: usize,
    /// What it surely carries.
    pub(super) way_surely: usize,
}

impl Sent {
    /// The most bytes of a datagram's body this time. What is sent again for the first time was
    /// mostly lost by chance, or not yet answered, so it goes as it did; then what the way surely
    /// carries, and so in turn: many parts are lost more easily than one datagram.
    fn most(&self) -> usize {
        match self.again > 0 && self.again.is_multiple_of(2) {
            true => self.way_surely,
            false => self.way,
        }
    }
}

/// What a token is passed on for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Errand {
    /// It goes round.
    Round,
    /// It goes to a member that called for it. Only its return says that it arrived: until then it
    /// is sent again, and the member returns it again.
    Call,
    /// It returns from a member that called for it. Nobody acknowledges that.
    Return,
}

/// A returned token is sent again by itself after this part of the token-loss time-out: the
/// representative asks long before, by sending the call again, unless it is of an earlier version.
const RETURN_PART: u32 = 4;
/// A token is taken for one that does not get through after this many transmissions more.
const AGAIN_MIN: u32 = 3;

impl Passed {
    /// A newer token came, or the ring is no more.
    pub(super) fn clear(&mut self) {
        self.sent = None;
    }

    /// The member that a called token does not reach, if there is one: it was sent to it several
    /// times without a sign that it arrived.
    pub(super) fn unanswered_call(&self) -> Option<MemberId> {
        let sent = self.sent.as_ref()?;
        (sent.errand == Errand::Call && sent.again >= AGAIN_MIN).then_some(sent.to)
    }

    /// Whether the last token was sent several times without a sign that it arrived.
    pub(super) fn is_stuck(&self) -> bool {
        let sent = self.sent.as_ref();
        sent.is_some_and(|sent| sent.again >= AGAIN_MIN)
    }

    /// To whom the last token went, if there is no sign that it arrived.
    pub(super) fn unacknowledged(&self) -> Option<MemberId> {
        self.sent.as_ref().map(|sent| sent.to)
    }
}

impl Ring {
    /// Passes a token on to another member and keeps it.
    pub(super) fn pass(&mut self, now: Time, token: Sent) {
        self.outbox
            .unicast_in_parts(token.to, &token.body, token.most(), false);
        let again = match token.errand {
            Errand::Round | Errand::Call => self.flow.token_retransmit(&self.config),
            Errand::Return => self.token_loss() / RETURN_PART,
        };
        self.passed.sent = Some(token);
        self.passed.at = now;
        self.timers.set(Timer::Retransmit, now + again);
    }

    /// `call` came again. Whether the token was returned for it: then that is sent again, unless it
    /// has only just left and crosses the call.
    pub(super) fn return_again(&mut self, now: Time, call: &Token) -> bool {
        let sent = self.passed.sent.as_ref();
        let Some(sent) = sent.filter(|sent| {
            let returns = sent.errand == Errand::Return && call.called;
            returns && sent.ring == call.ring && sent.hop > call.hop
        }) else {
            return false;
        };
        // A call comes again both ways, at the same time.
        if now - self.passed.at >= self.flow.token_retransmit(&self.config) / 2 {
            self.passed.at = now;
            self.counters.token_retransmissions += 1;
            self.outbox
                .unicast_in_parts(sent.to, &sent.body, sent.most(), true);
        }
        true
    }

    pub(super) fn retransmit_token(&mut self, now: Time) {
        let Some(sent) = &mut self.passed.sent else {
            return;
        };
        sent.again += 1;
        self.counters.token_retransmissions += 1;
        self.outbox
            .unicast_in_parts(sent.to, &sent.body, sent.most(), true);
        self.timers.set(
            Timer::Retransmit,
            now + self.flow.token_retransmit(&self.config),
        );
    }

    /// The successor says that it has the token.
    pub(super) fn handle_ack(&mut self, from: MemberId, ring: RingKey, hop: Hop) {
        let arrived = self
            .passed
            .sent
            .as_ref()
            .is_some_and(|sent| sent.ring == ring && sent.to == from && hop >= sent.hop);
        if arrived {
            self.token_arrived();
        }
    }

    /// Data of `ring` with `seq` came: a member that claimed a number above the token's has seen
    /// the token. A member that called for it may have returned it in vain.
    pub(super) fn data_is_evidence(&mut self, ring: RingTag, seq: Seq) {
        if self.passed.sent.as_ref().is_some_and(|sent| {
            sent.errand != Errand::Call && sent.ring.tag() == ring && seq > sent.seq
        }) {
            self.token_arrived();
        }
    }

    /// There is no need to send the token again.
    pub(super) fn token_arrived(&mut self) {
        self.passed.clear();
        self.timers.cancel(Timer::Retransmit);
    }
}
