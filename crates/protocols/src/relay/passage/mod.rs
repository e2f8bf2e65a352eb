//! One transfer on its way through a relay: its state and its bytes. `rows.rs` has its receivers
//! below.

mod rows;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId, Time};

use self::rows::called;
use super::account::{Account, Word};
use super::accounts::ReportState;
use super::queue::Queue;
use super::{Carries, RelayConfig, RelayEvent, Sides};
use crate::bulk::{Acceptance, Failure, Notice, Order, Outcome, STOPPED, Served, TransferId};

/// One transfer on its way.
#[derive(Debug)]
pub(super) struct Passage {
    /// The transfer's id above, and below.
    pub(super) id: TransferId,
    pub(super) lower: TransferId,
    pub(super) about: Bytes,
    pub(super) carries: Carries,
    length: Option<u64>,
    state: State,
    since: Time,
    /// When the first receiver below answered.
    answered: Option<Time>,
    /// The nodes that answered the list of the same files.
    expected: BTreeSet<NodeId>,
    /// The ranges that all receivers below held when the relay registered above: they do not come
    /// from above.
    assumed: Vec<Range<u64>>,
    queue: Queue,
    bytes: u64,
    /// Whether every byte has come from above, and whether the lower endpoint was told where the
    /// stream ends.
    is_received: bool,
    is_finished: bool,
    /// Whether nothing more comes from above, and from below.
    is_above_over: bool,
    is_below_over: bool,
    account: Account,
    /// Words that are said once the relay has registered above.
    unsaid: Vec<Word>,
    /// The row of each receiver that registered with this relay, and the rows of the receivers
    /// behind each relay among them.
    direct: BTreeMap<MemberId, u32>,
    behind: BTreeMap<MemberId, Vec<u32>>,
    /// Receivers that found no room for a row, and relays that have such receivers behind them.
    unlisted: BTreeSet<MemberId>,
    has_told_audience: bool,
    /// The relay has registered above.
    is_registered: bool,
    /// How it ended, until the user is told; `None` also if the relay withdrew from it.
    result: Option<Result<(), String>>,
}

/// The states of the diagram at the head of this module's parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Receivers below register.
    Gathering,
    /// The relay has registered above.
    Accepted,
    /// The relay is counted in above, and has begun below.
    Passing,
    /// The relay has said its last word above, or has no one to say it to.
    Concluded,
}

impl Passage {
    pub(super) fn new(
        now: Time,
        (id, lower): (TransferId, TransferId),
        (about, length): (Bytes, Option<u64>),
        carries: Carries,
        expected: BTreeSet<NodeId>,
    ) -> Self {
        Self {
            id,
            lower,
            about,
            carries,
            length,
            state: State::Gathering,
            since: now,
            answered: None,
            expected,
            assumed: Vec::new(),
            queue: Queue::default(),
            bytes: 0,
            is_received: false,
            is_finished: false,
            is_above_over: false,
            is_below_over: false,
            account: Account::default(),
            unsaid: Vec::new(),
            direct: BTreeMap::new(),
            behind: BTreeMap::new(),
            unlisted: BTreeSet::new(),
            has_told_audience: false,
            is_registered: false,
            result: None,
        }
    }

    pub(super) fn is_gathering(&self) -> bool {
        self.state == State::Gathering
    }

    /// When the transfer was announced above.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// Whether the transfer was announced at least `long` ago, and no receiver below has answered.
    pub(super) fn is_unanswered(&self, now: Time, long: Duration) -> bool {
        self.is_gathering() && self.answered.is_none() && now - self.since >= long
    }

    pub(super) fn is_concluded(&self) -> bool {
        self.state == State::Concluded
    }

    /// Whether the passage can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.is_concluded() && self.is_above_over && self.is_below_over
    }

    /// Takes in a notice of the upper endpoint.
    pub(super) fn hear_upper(&mut self, now: Time, sides: &mut Sides<'_>, notice: Notice) {
        match notice {
            Notice::Enrolled { .. } if self.state == State::Accepted => {
                self.state = State::Passing;
                sides.lower.begin(now, self.lower);
            }
            Notice::Data { offset, bytes, .. } => {
                self.bytes += bytes.len() as u64;
                match self.is_below_over || self.is_concluded() {
                    true => sides.upper.consumed(now, self.id, bytes.len() as u64),
                    false => self.queue.push(offset, &bytes),
                }
            }
            Notice::Received { .. } => {
                self.is_received = true;
                sides.lower.served_above(now, self.lower, Served::Now);
            }
            Notice::Served { served, .. } => {
                sides.lower.served_above(now, self.lower, served);
            }
            Notice::Failed { failure, .. } => self.broke_off(now, sides, &failure),
            // The sender knows that all is well; or it fell silent after all had come, and the
            // receivers below get the rest.
            Notice::Ended { .. } => self.is_above_over = true,
            _ => {}
        }
    }

    /// The transfer ended above without this relay's doing: cancels it below.
    fn broke_off(&mut self, now: Time, sides: &mut Sides<'_>, failure: &Failure) {
        self.is_above_over = true;
        if self.is_concluded() {
            return;
        }
        let reason = match failure {
            // The beginning of the reason tells receivers whether to keep what has come.
            Failure::Cancelled(reason) => reason.clone(),
            Failure::Lost => format!("{STOPPED}: the relay does not hear the sender any more"),
            Failure::Dropped => {
                format!("{STOPPED}: the sender gave the relay up: too slow, too late, or not heard")
            }
            Failure::SameName => format!("{STOPPED}: the relay has another receiver's name"),
            Failure::Full => format!("{STOPPED}: the relay was one receiver too many"),
            Failure::Excluded => {
                format!("{STOPPED}: it is not for the relay, so not for those below")
            }
            _ => format!("{STOPPED}: it came to nothing at the relay"),
        };
        self.end(Err(format!(
            "its sender gave it up: {}",
            printable(reason.as_bytes())
        )));
        sides.lower.cancel(now, self.lower, &reason);
    }

    /// The relay has said its last word above, or has no one to say it to.
    fn end(&mut self, result: Result<(), String>) {
        self.state = State::Concluded;
        self.result = Some(result);
    }

    /// Takes in a notice of the lower endpoint.
    pub(super) fn hear_lower(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        notice: Notice,
        events: &mut VecDeque<RelayEvent>,
    ) {
        match notice {
            Notice::Registered { receiver, name, .. } => {
                self.registered(now, sides, receiver, &name, events);
                sides.kept.admit(self.lower.number, receiver);
                self.look_for_newcomer(now, sides, receiver);
            }
            Notice::Settled {
                receiver,
                outcome,
                name,
                ..
            } => {
                if !self.direct.contains_key(&receiver) {
                    // It refused without registering.
                    self.registered(now, sides, receiver, &name, events);
                }
                self.settled_relay(now, sides, (receiver, &outcome), events);
                if let Some(row) = self.direct.get(&receiver).copied() {
                    self.settle(now, sides, row, outcome, events);
                }
            }
            Notice::CameLate { receiver, name, .. } => {
                self.came_late(sides, receiver.node, called(receiver, &name), events);
            }
            Notice::Sent { .. } => {
                self.is_below_over = true;
                self.settle_the_rest(now, sides, events);
                self.set_former_lives_aside(now, sides);
                if self.carries != Carries::List {
                    self.say(now, sides, Word::Final);
                }
            }
            _ => {}
        }
    }

    /// Dismisses a receiver that registers after the relay did, if it lacks what the relay did not
    /// ask for.
    fn look_for_newcomer(&mut self, now: Time, sides: &mut Sides<'_>, receiver: MemberId) {
        if self.is_gathering() || self.assumed.is_empty() {
            return;
        }
        let held = sides.lower.held_by_all(self.lower);
        let is_held = |range: &Range<u64>| {
            let covers = |other: &Range<u64>| other.start <= range.start && range.end <= other.end;
            held.iter().any(covers)
        };
        if !self.assumed.iter().all(is_held) {
            sides
                .lower
                .dismiss(now, self.lower, receiver, &Outcome::Late);
        }
    }

    /// Does what is due.
    pub(super) fn work(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        config: &RelayConfig,
        events: &mut VecDeque<RelayEvent>,
    ) {
        match self.state {
            State::Gathering if self.has_gathered(now, config) => {
                self.register(now, sides, config, events);
            }
            State::Gathering => {}
            State::Accepted | State::Passing => {
                self.pass(now, sides);
                self.conclude(now, sides);
            }
            State::Concluded => self.drop_queue(now, sides),
        }
        if self.is_concluded()
            && self.is_below_over
            && let Some(result) = self.result.take()
        {
            let is_complete = |outcome: &Option<Outcome>| *outcome == Some(Outcome::Complete);
            let rows = self.account.receivers();
            let complete = rows.filter(|row| is_complete(&row.outcome)).count();
            events.push_back(RelayEvent::Concluded {
                id: self.id,
                complete,
                failed: self.account.receivers().count() - complete,
                bytes: self.bytes,
                result,
            });
        }
    }

    /// Whether the receivers below have had time to register.
    fn has_gathered(&self, now: Time, config: &RelayConfig) -> bool {
        let Some(answered) = self.answered else {
            return false;
        };
        if self.expected.is_empty() {
            return now - answered >= config.gather;
        }
        let has_answered = |node: &NodeId| self.direct.keys().any(|member| member.node == *node);
        self.expected.iter().all(has_answered) || now - self.since >= config.known_within
    }

    /// Registers above, for the receivers that have registered below.
    fn register(
        &mut self,
        now: Time,
        sides: &mut Sides<'_>,
        config: &RelayConfig,
        events: &mut VecDeque<RelayEvent>,
    ) {
        let open = self.account.receivers().filter(|row| row.outcome.is_none());
        let receivers = open.count();
        if receivers == 0 {
            let reason = format!("nobody below takes it: {}", self.failures());
            self.withdraw(now, sides, &reason, &config.name);
            let id = self.id;
            return events.push_back(RelayEvent::Refused { id, reason });
        }
        if self.carries == Carries::Files {
            self.assumed = sides.lower.held_by_all(self.lower);
        }
        let acceptance = Acceptance {
            held: self.assumed.clone(),
            order: Order::InOrder,
            name: config.name.clone(),
        };
        if sides.upper.accept(now, self.id, &acceptance).is_err() {
            // The sender has gone meanwhile.
            return self.broke_off(now, sides, &Failure::Lost);
        }
        self.state = State::Accepted;
        self.is_registered = true;
        for word in core::mem::take(&mut self.unsaid) {
            sides.told.say(now, self.id, word);
        }
        let id = self.id;
        events.push_back(RelayEvent::Accepted { id, receivers });
    }

    /// Hands the bytes that have come to the lower endpoint, as far as there is room below.
    fn pass(&mut self, now: Time, sides: &mut Sides<'_>) {
        if self.is_below_over {
            return self.drop_queue(now, sides);
        }
        while let Some(at) = sides.lower.offered_to(self.lower) {
            let unneeded = self.queue.drop_before(at);
            if unneeded > 0 {
                sides.upper.consumed(now, self.id, unneeded);
            }
            let Some(wanted) = sides.lower.wanted(self.lower) else {
                return;
            };
            match self.queue.start() {
                Some(start) if start == wanted.start => {}
                None if !self.is_received => return,
                None if self.length.is_none() => {
                    if !self.is_finished {
                        self.is_finished = true;
                        sides.lower.finish(now, self.lower);
                    }
                    return;
                }
                // One of the receivers below lacks now what all held when the relay registered.
                _ => return self.give_up(now, sides, "a receiver below has lost what it held"),
            }
            let bytes = self.queue.take(wanted.end - wanted.start);
            let len = bytes.len() as u64;
            if sides.lower.offer(now, self.lower, bytes).is_err() {
                return self.give_up(now, sides, "the group below takes nothing more");
            }
            sides.upper.consumed(now, self.id, len);
        }
    }

    fn drop_queue(&mut self, now: Time, sides: &mut Sides<'_>) {
        let unneeded = self.queue.drop_before(u64::MAX);
        if unneeded > 0 {
            sides.upper.consumed(now, self.id, unneeded);
        }
    }

    /// Says the last word above, if every receiver below is settled and the sender has the account.
    fn conclude(&mut self, now: Time, sides: &mut Sides<'_>) {
        if !self.is_below_over {
            return;
        }
        let result = self.result();
        let is_told = self.carries == Carries::List
            || self.is_above_over
            || sides.told.state(now, self.id) != ReportState::Open;
        if !is_told || result.is_ok() && !self.is_received {
            return;
        }
        let said = result.as_ref().copied().map_err(String::as_str);
        sides.upper.conclude(now, self.id, said);
        self.end(result);
    }

    /// Refuses the transfer above, and cancels it below. Nothing of it was taken.
    pub(super) fn withdraw(&mut self, now: Time, sides: &mut Sides<'_>, reason: &str, name: &[u8]) {
        self.state = State::Concluded;
        self.is_above_over = true;
        sides.upper.refuse(now, self.id, reason, name);
        let below = format!("{STOPPED}: {reason}");
        sides.lower.cancel(now, self.lower, &below);
    }

    /// Ends a transfer that cannot go on here, and tells both sides. Receivers below keep what has
    /// come.
    pub(super) fn give_up(&mut self, now: Time, sides: &mut Sides<'_>, reason: &str) {
        if self.is_concluded() {
            return;
        }
        if self.is_gathering() {
            self.withdraw(now, sides, reason, &[]);
            self.result = Some(Err(reason.into()));
            return;
        }
        self.end(Err(reason.into()));
        sides.upper.conclude(now, self.id, Err(reason));
        let below = format!("{STOPPED}: {reason}");
        sides.lower.cancel(now, self.lower, &below);
    }

    /// When [`work`](Self::work) is due if nothing is taken in before.
    pub(super) fn poll_timeout(&self, config: &RelayConfig) -> Option<Time> {
        let answered = self.answered.filter(|_| self.is_gathering())?;
        Some(match self.expected.is_empty() {
            true => answered + config.gather,
            false => self.since + config.known_within,
        })
    }
}
