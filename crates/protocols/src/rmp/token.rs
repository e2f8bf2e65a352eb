//! The token (000 ch. 8): ACKs that pass it on, and the signs that it was taken.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use groupcast_core::{MemberId, Time};

use super::numbers::{Marks, Packets, Stamp, Tag};
use super::order::Heard;
use super::polling::Polling;
use super::wire::{Ack, List, ListAck, Message};
use super::{Rmp, State, Timer};

/// An ACK whose token nobody is known to have taken.
#[derive(Clone, Hash, Debug)]
pub(super) struct Pass {
    ack: Ack,
    /// The list that it brings, if it brings one.
    list: Option<Arc<ListAck>>,
    /// When it was first sent.
    at: Time,
    tries: u32,
}

impl Pass {
    /// That of `ack`, which was sent at `now`.
    pub(super) fn new(ack: Ack, list: Option<Arc<ListAck>>, at: Time) -> Self {
        Self {
            ack,
            list,
            at,
            tries: 0,
        }
    }
}

/// Signs of life of the next token site, which has not taken the token, count for this many of the
/// longest timers after the newest ACK.
const ALIVE_TIMERS: u32 = 12;
/// This many token passes in a row that had to be repeated on one way show that it is closed: what
/// is lost now and then is seldom two passes in a row.
const CLOSED_REPEATS: u32 = 2;
/// This many passes of a closed way are sent on at once before one waits again for its repetition,
/// which shows whether the way is still closed.
const FORWARDS: u32 = 16;
/// A pass that takes longer than this part of the silence that reforms the group is slow: no wait
/// of a token site is longer.
const SLOW_PART: u32 = 4;
/// This many members send passes of a closed way on at once: one of them hears the issuer, and is
/// heard by the member that it names, unless nearly all ways are closed.
const FORWARDERS: u32 = 3;

/// What is known of the ways on which tokens come to other members. Each is watched by those that
/// can send a token on.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct PassesOn {
    /// By the issuer, and whom it named.
    ways: BTreeMap<(u8, u8), Way>,
}

/// A way on which tokens come to another member.
#[derive(Clone, Hash, Default, Debug)]
struct Way {
    /// The last pass that was heard on it, and how many times that was repeated.
    last: Stamp,
    repeats: u32,
    /// How many in a row were repeated.
    in_a_row: u32,
    /// How many more are sent on at once.
    left: u32,
}

impl PassesOn {
    /// A token pass among `members` was heard, or is repeated. Whether this member sends it on: it
    /// is its `turn` after this many repetitions.
    fn hear(&mut self, ack: &Ack, turn: u32, members: usize) -> bool {
        let way = (ack.issuer, ack.next);
        // A list has changed the ways.
        if self.ways.len() > members && !self.ways.contains_key(&way) {
            self.ways.clear();
        }
        self.ways.entry(way).or_default().hear(ack, turn)
    }
}

impl Way {
    fn hear(&mut self, ack: &Ack, turn: u32) -> bool {
        if self.last != ack.stamp {
            let at_once = self.left > 0;
            if !at_once && self.repeats == 0 {
                self.in_a_row = 0;
            }
            (self.last, self.repeats) = (ack.stamp, 0);
            if at_once {
                self.left -= 1;
                // As if it had been repeated: nobody waits for that.
                self.repeats = 1;
                return true;
            }
        }
        if !ack.again {
            return false;
        }
        if self.repeats == 0 {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
        self.repeats = self.repeats.saturating_add(1);
        let closed = self.in_a_row >= CLOSED_REPEATS && turn <= FORWARDERS;
        if closed {
            self.left = FORWARDS;
        }
        closed || self.repeats >= turn
    }
}

impl Rmp {
    /// As token site: an ACK for the packets that have no position; false if there are none.
    pub(super) fn order_packets(&mut self, now: Time) -> bool {
        let most = self.config.ack_packets_max as usize;
        let order = &self.state.expect_operational().order;
        if !order.has_token() {
            return false;
        }
        if self.change_list(now) {
            return true;
        }
        let order = &self.state.expect_operational().order;
        let Some(ack) = order.order(most) else {
            return false;
        };
        self.issue(now, ack)
    }

    /// Multicasts an ACK, which passes the token on. False, and nothing happens, if it contradicts
    /// what is known here.
    fn issue(&mut self, now: Time, mut ack: Ack) -> bool {
        let operational = self.state.expect_operational();
        let order = &mut operational.order;
        if order.take_ack(&ack) != Heard::Newest {
            return false;
        }
        ack.marks = order.marks();
        operational.told = ack.marks;
        operational.token_since = None;
        self.counters.acks_sent += 1;
        self.counters.acks_null += u64::from(ack.packets.is_empty());
        self.timers.cancel(Timer::NullAck);
        self.timers.cancel(Timer::Confirm);
        if !order.is_alone() {
            self.outbox.multicast(&Message::Ack(ack.clone()));
            operational.pass = Some(Pass::new(ack.clone(), None, now));
            let timer = self.timing.pass_timer(&self.config, 0);
            self.timers.set(Timer::Pass, now + timer);
        }
        self.token_moved(now, &ack);
        true
    }

    /// The newest ACK, own or not: what follows from it for this member.
    pub(super) fn token_moved(&mut self, now: Time, ack: &Ack) {
        let operational = self.state.expect_operational();
        let is_null = ack.packets.is_empty() && operational.order.top.last < ack.first;
        operational.nulls = match is_null {
            true => operational.nulls + 1,
            false => 0,
        };
        operational.token_since = None;
        operational.moved = Some(now);
        self.timers.cancel(Timer::NullAck);
        self.timers.cancel(Timer::Confirm);
        self.plan_silence(now);
        self.note_acknowledged(now);
    }

    /// Sets when the group is taken for broken if no ACK is heard.
    pub(super) fn plan_silence(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let order = &operational.order;
        let silent = self.config.quiet && operational.nulls >= order.ring.len();
        if silent || order.is_alone() {
            self.timers.cancel(Timer::Silence);
        } else {
            let silence = self.config.silence_max * self.brittle.patience(now);
            self.timers.set(Timer::Silence, now + silence);
        }
    }

    /// As token site without packets to order: confirms, and plans a null ACK.
    pub(super) fn hold_token(&mut self, now: Time) {
        let quiet = self.config.quiet;
        let (soon, late) = (self.config.pass_after, self.config.null_ack_after);
        let operational = self.state.expect_operational();
        let order = &operational.order;
        if !order.has_token() || order.is_alone() {
            return;
        }
        let taken = operational.token_since.is_none();
        let since = *operational.token_since.get_or_insert(now);
        let delay = if operational.waits() { soon } else { late };
        let stays = quiet && operational.nulls >= order.ring.len() && !operational.waits();
        if stays {
            self.timers.cancel(Timer::NullAck);
        } else {
            self.timers.set(Timer::NullAck, since + delay);
        }
        let from_other = usize::from(order.top.issuer) != order.me.at();
        if taken && from_other && operational.confirmed < order.top.stamp {
            // 000 ch. 8, Fig. 6: at once after a null ACK, since no packet is to be expected.
            if operational.nulls > 0 && !operational.waits() {
                self.confirm();
            } else {
                let after = self.config.confirm_after;
                self.timers.set(Timer::Confirm, now + after);
            }
        }
    }

    /// Tells the token site before that the token was taken.
    pub(super) fn confirm(&mut self) {
        let operational = self.state.expect_operational();
        let order = &operational.order;
        if !order.has_token() {
            return;
        }
        operational.confirmed = order.top.stamp;
        if let Some(before) = order.member(order.top.issuer) {
            let confirm = Message::Confirm {
                tag: order.tag,
                stamp: order.top.stamp,
                marks: order.marks(),
            };
            self.outbox.unicast(before, &confirm);
        }
    }

    /// No packet came: the token goes on by a null ACK.
    pub(super) fn null_ack(&mut self, now: Time) {
        let order = &self.state.expect_operational().order;
        if order.has_token() {
            let ack = order.ack(Vec::new());
            self.issue(now, ack);
            self.act(now);
        }
    }

    /// Nobody took the token: the ACK again.
    pub(super) fn pass_again(&mut self, now: Time) {
        let tries_max = self.config.tries * self.brittle.patience(now);
        let operational = self.state.expect_operational();
        let Some(pass) = &mut operational.pass else {
            return;
        };
        pass.tries += 1;
        if pass.tries > tries_max {
            self.poll(now, "token not taken", Polling::default());
            return;
        }
        let mut ack = pass.ack.clone();
        ack.again = true;
        ack.marks = operational.order.marks();
        operational.told = ack.marks;
        self.counters.acks_again += 1;
        let again = match &pass.list {
            Some(list) => Message::List(ListAck {
                ack,
                list: list.list.clone(),
            }),
            None => Message::Ack(ack),
        };
        self.outbox.multicast(&again);
        self.timing.pass_expired();
        let timer = self.timing.pass_timer(&self.config, pass.tries);
        self.timers.set(Timer::Pass, now + timer);
    }

    pub(super) fn handle_ack(&mut self, now: Time, from: MemberId, ack: &Ack) {
        let tells = self.tells_marks();
        let Some(order) = self.order_of(ack.tag) else {
            self.counters.foreign += 1;
            return;
        };
        let own = order.member(ack.issuer) == Some(from);
        if !own && !ack.again && !order.names_unlisted(ack) {
            self.counters.malformed += 1;
            return;
        }
        let heard = order.take_ack(ack);
        if own && tells && matches!(heard, Heard::Newest | Heard::Older) {
            order.note_marks(ack.issuer, ack.marks);
        }
        self.ack_heard(now, from, ack, heard);
        self.forward(from, ack, None);
    }

    /// What follows from an ACK, which was `heard`.
    pub(super) fn ack_heard(&mut self, now: Time, from: MemberId, ack: &Ack, heard: Heard) {
        match heard {
            Heard::Newest if matches!(self.state, State::Operational(_)) => {
                self.pass_done(now, ack.stamp, !ack.packets.is_empty());
                self.token_moved(now, ack);
            }
            Heard::Newest => {}
            Heard::Older => {
                self.note_repeated(from, ack);
                if matches!(self.state, State::Operational(_)) {
                    self.note_acknowledged(now);
                }
            }
            Heard::Beyond => self.counters.packets_beyond += 1,
            Heard::Malformed => self.counters.malformed += 1,
        }
        self.progress(now);
    }

    /// A token pass that its issuer repeats may not reach the member that it names: the member
    /// after that one sends it on; from its second repetition on the next one, too, and so on,
    /// since the ways from or to the first may be closed as well. Where that happens again and
    /// again, three of them send the next ones on at once (ours).
    pub(super) fn forward(&mut self, from: MemberId, ack: &Ack, list: Option<&List>) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let order = &operational.order;
        let newest = ack.stamp == order.top.stamp && order.top.next == ack.next;
        let own = order.member(ack.issuer) == Some(from);
        let Some(next) = order.member(ack.next).filter(|_| newest && own) else {
            return;
        };
        let Some(turn) = order.turn_after(ack.next).filter(|turn| *turn > 0) else {
            return;
        };
        let members = order.ring.len();
        if !operational.passes.hear(ack, turn, members) {
            return;
        }
        let ack = Ack {
            again: true,
            marks: Marks::default(),
            ..ack.clone()
        };
        let message = match list.cloned() {
            Some(list) => Message::List(ListAck { ack, list }),
            None => Message::Ack(ack),
        };
        self.outbox.unicast(next, &message);
    }

    /// A repeated token pass is answered by the Confirm (000 ch. 8).
    fn note_repeated(&mut self, from: MemberId, ack: &Ack) {
        let State::Operational(operational) = &mut self.state else {
            return;
        };
        let order = &operational.order;
        let named = usize::from(ack.next) == order.me.at();
        let taken = ack.stamp < order.top.stamp || order.has_token();
        if named && taken && order.member(ack.issuer) == Some(from) {
            let confirm = Message::Confirm {
                tag: order.tag,
                stamp: ack.stamp,
                marks: order.marks(),
            };
            self.outbox.unicast(from, &confirm);
        }
    }

    /// There is a sign that the token of the ACK before `stamp` was taken; `at_once` if its new
    /// site did not wait for packets.
    fn pass_done(&mut self, now: Time, stamp: Stamp, at_once: bool) {
        let operational = self.state.expect_operational();
        if let Some(pass) = operational.pass.take_if(|pass| stamp > pass.ack.stamp) {
            let trip = now.since(pass.at);
            let me = operational.order.me.at();
            let own = |run: &Packets| usize::from(run.origin) == me;
            if pass.tries == 0 {
                self.timing.pass_measured(trip);
            }
            self.passes.sample(trip);
            let is_slow = trip > self.config.silence_max / SLOW_PART;
            self.counters.passes_slow += u64::from(is_slow);
            if at_once && pass.ack.packets.iter().any(own) {
                self.flow.passed(now, trip);
            }
            self.timers.cancel(Timer::Pass);
        }
    }

    /// The member that is to take the token, perhaps this one, lives, though it has not taken it:
    /// it asks for what it misses. So the group is not silent, either (ours): where the answers are
    /// lost a few times, a reformation would only take longer.
    pub(super) fn next_lives(&mut self, now: Time, from: MemberId) {
        let patience = self.config.timer_max * ALIVE_TIMERS;
        let operational = self.state.expect_operational();
        let next = operational.order.member(operational.order.top.next);
        let since = *operational.moved.get_or_insert(now);
        if next != Some(from) || now.since(since) >= patience {
            return;
        }
        if let Some(pass) = &mut operational.pass {
            pass.tries = pass.tries.min(1);
        }
        self.plan_silence(now);
    }

    pub(super) fn handle_confirm(
        &mut self,
        now: Time,
        from: MemberId,
        tag: Tag,
        stamp: Stamp,
        marks: Marks,
    ) {
        if !self.note_marks_of(from, tag, marks) {
            return;
        }
        if let State::Operational(operational) = &self.state {
            let order = &operational.order;
            if order.member(order.top.next) == Some(from) {
                self.pass_done(now, stamp.next(), false);
            }
        }
        self.progress(now);
    }
}
